//! Tests a report in a real browser: a reader can see values, zoom, and hide lines and variants. The test is
//! skipped if Chromium is not installed.

use std::fs;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = r#"
name = "browser"
title = "For a browser"
duration_s = 8
path = [{ name = "path1", rate = "20 Mbit/s", queue = "100 kB", events = [{ at_s = 4, rate = "5 Mbit/s" }] }]
variant = [
  { label = "ccid2", ccid = 2 },
  { label = "ccid5", ccid = 5 },
]
flow = [{ name = "udp", kind = "udp", payload = 1300, rate = "4 Mbit/s" }]
reference = [{ source = "somebody", label = "ccid5", values = { app_p50_ms = 9 } }]
"#;

/// Acts like a reader and writes into the page what the reader would see.
const READER: &str = r#"<script>
addEventListener("load", () => {
  const seen = [], all = s => [...document.querySelectorAll(s)], tip = document.querySelector(".tip");
  const panel = all(".panel")[0], plot = panel.querySelector(".plot"), box = plot.querySelector(".page").getBoundingClientRect();
  const at = (type, share) => panel.dispatchEvent(new PointerEvent(type, {
    clientX: box.left + box.width * share, clientY: box.top + box.height / 2, bubbles: true }));
  const time = () => { at("pointermove", 0.5); return tip.textContent.match(/time, s: ([0-9.]+)/)[1]; };
  const shown = e => e.checkVisibility();
  seen.push("panels " + (all(".panel").length > 8), "before " + Math.round(time()), "value " + /path1: [0-9.]+/.test(tip.textContent));
  at("pointerdown", 0); at("pointermove", 0.5); at("pointerup", 0.5);
  seen.push("zoomed " + Math.round(time()), "ticks " + panel.querySelector(".ticks").textContent.endsWith("4"));
  all(".bar button")[0].click();
  seen.push("back " + Math.round(time()));
  const key = panel.querySelector(".key");
  key.dispatchEvent(new MouseEvent("click"));
  seen.push("line off " + all('.plot [data-s="0"]').filter(p => panel.contains(p)).every(p => !shown(p)));
  all(".bar label").find(l => l.textContent.includes("ccid2")).querySelector("input").click();
  const off = all(".panel").filter(p => !shown(p));
  seen.push("panels off " + off.every(p => p.textContent.includes("ccid2: ")), "some off " + (off.length > 2));
  seen.push("lines off " + (all('.line[data-variant="ccid2"]').every(l => !shown(l))));
  seen.push("width " + (document.documentElement.scrollWidth <= innerWidth));
  document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: seen.join("; ") }));
});
</script>"#;

/// Returns the page after its scripts have run. `width` is the width of the window in pixels.
fn dom(browser: &str, page: &Path, width: u32) -> String {
    let profile = page.with_extension("profile");
    let out = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn readers_zoom_and_switch_variants_off() {
    let Some(browser) = crate::common::chromium() else {
        return crate::common::skipped("no chromium");
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("browser.toml");
    fs::write(&file, SCENARIO).unwrap();
    let out = dir.path().join("out");
    let run = Command::new(env!("CARGO_BIN_EXE_mpdccp"))
        .args(["lab", "run", "--backend", "sim", "--runs", "1", "--out"])
        .args([&out, &file])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!report.contains(" src=") && !report.contains(" href="), "the page loads no other resources");
    assert!(report.len() < 1_000_000, "{} bytes", report.len());
    assert_eq!(report.matches("<figure>").count(), 3);
    let read = out.join("read.html");
    fs::write(&read, report.replace("</body>", &format!("{READER}</body>"))).unwrap();
    for width in [1200, 500] {
        let dom = dom(browser, &read, width);
        let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let expected = "panels true; before 4; value true; zoomed 2; ticks true; back 4; line off true; panels off true; some off true; lines off true; width true";
        assert_eq!(seen, Some(expected), "at {width} pixels");
    }
}

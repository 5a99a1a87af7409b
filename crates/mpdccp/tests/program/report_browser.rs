//! A report in a real browser: the figures become plots that zoom and whose variants switch off, and stay figures without scripts.
//! Runs where a Chromium is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = r#"
name = "browser"
title = "For a browser"
duration_s = 8
[[path]]
name = "path1"
rate = "20 Mbit/s"
queue = "100 kB"
events = [{ at_s = 4, rate = "5 Mbit/s" }]
[[variant]]
label = "ccid2"
ccid = 2
[[variant]]
label = "ccid5"
ccid = 5
[[flow]]
name = "udp"
kind = "udp"
payload = 1300
rate = "4 Mbit/s"
[[reference]]
source = "somebody"
label = "ccid5"
values = { app_p50_ms = 9 }
"#;

/// Does what a reader does, and writes what is seen into the page.
const READER: &str = r#"<script>
addEventListener("load", () => setTimeout(() => {
  const seen = [], all = s => [...document.querySelectorAll(s)];
  const over = all(".u-over")[0], box = over.getBoundingClientRect();
  const at = (type, share) => over.dispatchEvent(new MouseEvent(type, {
    clientX: box.left + box.width * share, clientY: box.top + box.height / 2, button: 0, buttons: 1, movementX: 9, bubbles: true }));
  const time = () => { at("mousemove", 0.5); return all(".u-legend .u-value")[0].textContent; };
  const soon = then => setTimeout(then, 100);
  seen.push("plots " + (all(".uplot").length > 8), "still hidden " + all(".static").every(s => s.hidden));
  at("mouseenter", 0.5);
  time();
  soon(() => {
    seen.push("before " + Math.round(time()));
    at("mousedown", 0); at("mousemove", 0.25); at("mousemove", 0.5); at("mouseup", 0.5);
    soon(() => {
      time();
      soon(() => {
        seen.push("zoomed " + Math.round(time()));
        all(".bar button")[0].click();
        const tick = all(".bar label").find(l => l.textContent.includes("ccid2")).querySelector("input");
        tick.click();
        soon(() => {
          time();
          seen.push("panels off " + all(".panel").filter(p => p.hidden).every(p => p.textContent.includes("ccid2: ")));
          seen.push("some off " + (all(".panel").filter(p => p.hidden).length > 2));
          seen.push("lines off " + (all(".u-series.u-off").length > 0));
          seen.push("width " + (document.documentElement.scrollWidth <= innerWidth));
          document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: seen.join("; ") }));
        });
      });
    });
  });
}, 200));
</script>"#;

/// The first Chromium there is.
fn chromium() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs)
}

/// The page as it is after its scripts have run, in a window of so many pixels.
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
    let Some(browser) = chromium() else {
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
    assert!(!report.contains(" src=") && !report.contains(" href="), "it loads nothing");
    assert!(report.len() < 1_000_000, "{} bytes", report.len());
    assert_eq!(report.matches("<div class=\"static\"><svg").count(), 3);
    let read = out.join("read.html");
    fs::write(&read, report.replace("</body>", &format!("{READER}</body>"))).unwrap();
    for width in [1200, 500] {
        let dom = dom(browser, &read, width);
        let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let expected = "plots true; still hidden true; before 4; zoomed 2; panels off true; some off true; lines off true; width true";
        assert_eq!(seen, Some(expected), "at {width} pixels");
    }
}

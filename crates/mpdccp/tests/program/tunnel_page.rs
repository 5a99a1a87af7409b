//! Tests the tunnel's web page in a real browser. The test is skipped if Chromium is not installed.

use crate::common::{SERVER, bed, chromium, http, skipped};
use std::process::{Command, Stdio};

#[test]
fn a_browser_shows_the_paths() {
    let Some(mut bed) = bed() else { return };
    bed.up_with("", "web = \"127.0.0.1:9587\"");
    let ask = |request: &str| http(&bed.space[0], "127.0.0.1:9587", request.to_owned());
    let page = ask("GET / HTTP/1.1\r\nHost: 127.0.0.1:9587\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    assert!(!page.contains(" src=") && !page.contains(" href="), "the page loads no other resources");
    let style = page.split("</style>").next().unwrap();
    let [open, close] = ['{', '}'].map(|brace| style.matches(brace).count());
    assert_eq!(open, close, "an unbalanced brace disables the rules that follow it");
    assert!(ask("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("\"tunC\""));
    assert!(ask("GET / HTTP/1.1\r\nHost: evil.example.org\r\n\r\n").starts_with("HTTP/1.1 421 "));
    assert!(ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));

    let Some(browser) = chromium() else {
        skipped("no chromium");
        return bed.down();
    };
    // Generate traffic for the chart.
    let ping = ["netns", "exec", &bed.space[0], "ping", "-q", "-i", "0.05", "-s", "1000", SERVER[0]];
    let mut traffic = Command::new("ip").args(ping).stdout(Stdio::null()).spawn().unwrap();
    let profile = format!("--user-data-dir={}", bed.path("profile").display());
    let args = ["netns", "exec", &bed.space[0], browser, "--headless=new", "--no-sandbox", "--disable-gpu"];
    let mut command = Command::new("ip");
    command.args(args).args(["--virtual-time-budget=5000", "--dump-dom", &profile, "http://127.0.0.1:9587/"]);
    let dom = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    traffic.kill().unwrap();
    traffic.wait().unwrap();
    let body = dom.split("<script>").next().unwrap();
    for seen in [
        "tunC (client), MTU 1388",
        "server: open",
        "solid: sent, dashed: received</p>",
        "one</td>",
        "two</td>",
        "<td>up ",
        "192.168.71.2:6511",
        "path one (192.168.71.2:6511) is up</li>",
    ] {
        assert!(body.contains(seen), "no {seen} in\n{dom}");
    }
    // The chart has a line for each path and direction, each with more than one point.
    let lines: Vec<&str> =
        body.split("<polyline points=\"").skip(1).map(|l| l.split('"').next().unwrap()).collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| line.split(' ').count() > 1), "{lines:?}");
    assert!(!body.contains("no answer from the tunnel"));
    bed.down();
}

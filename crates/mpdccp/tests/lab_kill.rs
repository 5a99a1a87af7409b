//! Whatever ends the lab, nothing of it is left.
#![cfg(all(target_os = "linux", feature = "lab"))]

#[allow(dead_code)] // Its bed is the tunnel's.
mod common;

use common::{missing, run, wait_for};
use std::process::{Command, Stdio};

const SCENARIO: &str = r#"
name = "killed"
title = "Does not get to its end"
duration_s = 60
[[path]]
name = "path1"
rate = "10 Mbit/s"
queue = "50000 B"
[[contender]]
label = "ccid2"
ccid = 2
[[flow]]
name = "udp"
kind = "udp"
payload = 1000
rate = "1 Mbit/s"
"#;

fn namespaces(lab: u32) -> usize {
    let names = String::from_utf8(run("ip", "netns list").stdout).unwrap();
    names.lines().filter(|name| name.starts_with(&format!("mpdccp-lab-{lab}-"))).count()
}

#[test]
fn kill_9_leaves_no_namespace_and_no_tunnel() {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"))
        .args(["lab", "run"])
        .arg(&file)
        .arg("--out")
        .arg(dir.path().join("out"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (pid, scratch) = (lab.id(), format!("/dev/shm/mpdccp-lab-{}-", lab.id()));
    let tunnels = || {
        let all = String::from_utf8(run("ps", "-eo args").stdout).unwrap();
        all.lines().filter(|line| line.contains(&scratch) && line.contains("tunnel")).count()
    };
    wait_for("both namespaces and tunnel ends", || namespaces(pid) == 2 && tunnels() == 2);
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("the end of it all", || namespaces(pid) == 0 && tunnels() == 0);
}

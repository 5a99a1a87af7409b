//! The lab leaves nothing behind, even if it is killed.

use crate::common::{able, run, set_mode, wait_for};
use std::process::{Command, Stdio};

const SCENARIO: &str = r#"
name = "killed"
title = "Does not get to its end"
duration_s = 60
path = [{ name = "path1", rate = "10 Mbit/s", queue = "50000 B" }]
variant = [{ label = "ccid2", ccid = 2 }]
flow = [{ name = "udp", kind = "udp", payload = 1000, rate = "1 Mbit/s" }]
"#;

fn namespaces(lab: u32) -> usize {
    let names = String::from_utf8(run("ip", "netns list").stdout).unwrap();
    names.lines().filter(|name| name.starts_with(&format!("mpdccp-lab-{lab}-"))).count()
}

/// Starts a lab and returns once a run is in progress. Also returns the directory of the run's files.
fn lab(dir: &std::path::Path) -> (std::process::Child, String) {
    let file = dir.join("s.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"))
        .args(["lab", "run"])
        .arg(&file)
        .arg("--out")
        .arg(dir.join("out"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (pid, scratch) = (lab.id(), format!("/dev/shm/mpdccp-lab-{}-", lab.id()));
    // There are two tunnel ends, and each has a helper process.
    wait_for("both namespaces and tunnel ends", || namespaces(pid) == 2 && tunnels(&scratch) == 4);
    (lab, scratch)
}

fn tunnels(scratch: &str) -> usize {
    let all = String::from_utf8(run("ps", "-eo args").stdout).unwrap();
    all.lines().filter(|line| line.contains(scratch) && line.contains("tunnel")).count()
}

#[test]
fn kill_9_leaves_no_namespace_and_no_tunnel() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut lab, scratch) = lab(dir.path());
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("the end of all namespaces and tunnels", || namespaces(lab.id()) == 0 && tunnels(&scratch) == 0);
}

#[test]
fn tunnels_end_with_a_lab_whose_reaper_is_gone_too() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut lab, scratch) = lab(dir.path());
    let all = String::from_utf8(run("ps", "-eo pid,args").stdout).unwrap();
    let reaper = all.lines().find(|line| line.contains(" reaper ") && line.contains(&scratch)).unwrap();
    let reaper = reaper.split_whitespace().next().unwrap();
    assert!(run("kill", &format!("-9 {reaper}")).status.success());
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("the end of the tunnels", || tunnels(&scratch) == 0);
    // The test has also killed the reaper, which would have removed these namespaces.
    for role in ["client", "server"] {
        run("ip", &format!("netns del mpdccp-lab-{}-{role}", lab.id()));
    }
    let rest = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    for left in rest.filter(|path| path.to_string_lossy().starts_with(&scratch)) {
        std::fs::remove_dir_all(left).unwrap();
    }
}

/// Ctrl-C would otherwise end an `ip` that creates or removes a namespace, and the run would count as failed.
#[test]
fn ctrl_c_does_not_reach_the_programs_of_the_lab() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (ip, file, groups) = (dir.path().join("ip"), dir.path().join("s.toml"), dir.path().join("groups"));
    // This `ip` writes its own ID and that of its process group. It creates nothing, so the run fails.
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = add ] || exit 0\nread -r id _ _ _ group _ </proc/self/stat\necho $id $group >{}\nexit 1\n",
        groups.display()
    );
    std::fs::write(&ip, script).unwrap();
    set_mode(&ip, 0o755);
    std::fs::write(&file, SCENARIO).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    lab.args(["lab", "run"]).arg(&file).arg("--out").arg(dir.path().join("out")).env("PATH", path);
    assert_eq!(lab.output().unwrap().status.code(), Some(1));
    let groups = std::fs::read_to_string(groups).unwrap();
    let (id, group) = groups.trim().split_once(' ').unwrap();
    assert_eq!(id, group);
}

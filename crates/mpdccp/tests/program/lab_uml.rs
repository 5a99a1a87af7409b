//! Tests the lab with Linux in virtual time. Building the kernel takes ten minutes, so the tests run only on
//! machines where `tools/uml/build` has built it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{run, skipped, wait_for};

const SCENARIO: &str = r#"
name = "uml"
title = "The same seed, the same run"
mode = "direct"
duration_s = 3
path = [{ name = "path1", rate = "10 Mbit/s", owd = "10 ms", queue = "50000 B", loss = "1 %" }]
variant = [{ label = "cubic", tcp = "cubic" }, { label = "ccid5", ccid = 5 }]
flow = [{ name = "video", kind = "udp", payload = 1000, rate = "8 Mbit/s" }]
"#;

/// Returns the kernel named by `MPDCCP_UML` or, failing that, the one built by `tools/uml/build`, if it
/// exists.
fn kernel() -> Option<PathBuf> {
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/mpdccp/uml/linux"));
    let kernel = std::env::var_os("MPDCCP_UML").map(PathBuf::from).or_else(home)?;
    kernel.is_file().then_some(kernel)
}

fn lab(kernel: &Path, dir: &Path, out: &str, scenario: &str) -> Child {
    let file = dir.join("s.toml");
    std::fs::write(&file, scenario).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    lab.args(["lab", "run", "--backend", "uml", "--runs", "1", "--out"]).arg(dir.join(out)).arg(&file);
    lab.env("MPDCCP_UML", kernel).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the files of each run, with the time of day removed from the report.
fn series(out: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let runs = std::fs::read_dir(out.join("series")).unwrap().flatten().map(|entry| entry.path());
    let files = runs.flat_map(|run| std::fs::read_dir(run).unwrap().flatten().map(|entry| entry.path()));
    let mut files: Vec<_> = files
        .map(|file| (file.strip_prefix(out).unwrap().to_owned(), std::fs::read(&file).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let Some(kernel) = kernel() else { return skipped("no kernel of tools/uml/build") };
    let dir = tempfile::tempdir().unwrap();
    let all = ["a", "b"].map(|out| {
        assert!(lab(&kernel, dir.path(), out, SCENARIO).wait().unwrap().success());
        series(&dir.path().join(out))
    });
    assert!(all[0].iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 100_000, "packets of both runs");
    assert!(all[0] == all[1]);
}

#[test]
fn kill_9_of_the_lab_ends_its_kernel() {
    let Some(kernel) = kernel() else { return skipped("no kernel of tools/uml/build") };
    let dir = tempfile::tempdir().unwrap();
    // The run must be long enough that it does not end during the test.
    let long = SCENARIO.replace("duration_s = 3", "duration_s = 3000");
    let mut lab = lab(&kernel, dir.path(), "out", &long);
    let job = format!("/var/tmp/mpdccp-uml-{}-", lab.id());
    let kernels = || {
        let all = String::from_utf8(run("ps", "-eo args").stdout).unwrap();
        all.lines().filter(|line| line.contains(&job)).count()
    };
    wait_for("the kernel", || kernels() > 0);
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("the end of all its processes", || kernels() == 0);
}

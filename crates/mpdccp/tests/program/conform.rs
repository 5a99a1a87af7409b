//! Tests the options of `mpdccp conform`. The tests of `mpdccp-conform` run the suite itself.

use std::process::{Command, Output};

fn conform(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpdccp"));
    command.arg("conform").args(args.split_whitespace()).output().unwrap()
}

#[test]
fn only_tests_with_the_word_are_run() {
    let listed = |args: &str| String::from_utf8(conform(&format!("--list {args}")).stdout).unwrap();
    let (all, some) = (listed(""), listed("--only mp-close/"));
    let names: Vec<_> = all.lines().filter(|line| line.starts_with("mp-close/")).collect();
    assert!(names.len() > 3 && some.lines().eq(names), "{some}");
    for (args, why) in [
        ("--list --only nothing", "no test name contains this text"),
        ("--target 127.0.0.1:1 --from ::1", "IP version differs"),
        ("--target 127.0.0.1", "example: 192.0.2.1:6511"),
        ("--target 127.0.0.1:1 --wait 18446744073709551615", "1..=3600"),
    ] {
        let output = conform(args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && complaint.contains(why), "{args}: {output:?}");
    }
}

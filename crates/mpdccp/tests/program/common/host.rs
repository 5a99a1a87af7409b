//! Helpers that run programs on this host.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Returns why the tests cannot run here; `None` if they can.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".into());
    }
    if !std::fs::exists("/dev/net/tun").unwrap_or(false) {
        return Some("no /dev/net/tun".into());
    }
    match Command::new("ip").arg("netns").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(e) => Some(format!("no program `ip`: {e}")),
    }
}

pub(crate) fn run(program: &str, args: &str) -> Output {
    Command::new(program).args(args.split_whitespace()).output().unwrap()
}

/// Runs `ip`, which must succeed. Returns what it prints.
pub(crate) fn ip(args: &str) -> String {
    let output = run("ip", args);
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns all that a program printed.
pub(crate) fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    set_mode(file, 0o600);
}

/// Prints that this test or a part of it was skipped. Prints directly to standard error, bypassing the test
/// harness.
pub(crate) fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// Returns whether a test that needs network namespaces and these programs can run here. If not, prints the
/// reason.
pub(crate) fn able(programs: &[&str]) -> bool {
    let lacks = |name: &&&str| Command::new(name).arg("--version").output().is_err();
    let no_program = || programs.iter().find(lacks).map(|name| format!("no program `{name}`"));
    missing().or_else(no_program).map(skipped).is_none()
}

/// Waits for a condition. The time limit is generous, so that a timeout is a real failure even on a busy
/// machine.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(60), "timed out after 60 s; expected: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

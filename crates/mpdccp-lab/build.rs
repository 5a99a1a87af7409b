//! Tells the program which commit it was built from, for `summary.json`; unknown outside a git checkout.

use std::process::Command;

fn main() {
    let out = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Some(out) = out.ok().filter(|out| out.status.success()) {
        println!("cargo::rustc-env=MPDCCP_COMMIT={}", String::from_utf8_lossy(&out.stdout).trim());
    }
    let logs = Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]).output();
    if let Some(out) = logs.ok().filter(|out| out.status.success()) {
        println!("cargo::rerun-if-changed={}", String::from_utf8_lossy(&out.stdout).trim());
    }
}

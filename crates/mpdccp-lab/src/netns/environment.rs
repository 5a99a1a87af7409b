//! Checks the prerequisites of the namespace backend.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use crate::LabError;

/// Checks all prerequisites of the backend.
///
/// # Errors
/// Fails if any prerequisite is missing. The error lists all missing prerequisites and how to get each.
pub fn check() -> Result<(), LabError> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root privileges for network namespaces: use sudo".to_owned());
    }
    let ip = Command::new("ip").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if ip.is_err() {
        missing.push(
            "the `ip` program: install the package iproute2 (on Debian: apt install iproute2)".to_owned(),
        );
    }
    match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => missing.push(
            "/dev/net/tun: load the kernel module (modprobe tun); in a container, pass the device in (--device /dev/net/tun)"
                .to_owned(),
        ),
        // Without root privileges, opening the device fails for a reason already in the list.
        Err(_) if !missing.is_empty() => {}
        Err(e) => missing.push(format!("/dev/net/tun: {e}; in a container, add the capability NET_ADMIN")),
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(LabError::Missing(format!(
            "this machine lacks:\n  - {}\nThe simulator needs none of this: mpdccp lab run NAME --backend sim",
            missing.join("\n  - ")
        )))
    }
}

/// Returns the kernel's release.
pub(super) fn kernel() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned())
}

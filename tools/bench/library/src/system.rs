//! Kernel statistics about a process.

use crate::variant::Failure;
use std::fs;

/// Returns the CPU seconds that all threads of a process have used.
pub(crate) fn cpu(process: u32) -> Result<f64, Failure> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // The thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().unwrap_or("0").parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

/// Returns how many bytes of memory a process uses.
pub(crate) fn resident(process: u32) -> Result<u64, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse::<u64>()? * 1024)
}

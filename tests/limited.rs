//! For tests that need a low limit on descriptors, which applies to a whole process.

/// Runs a test again in a process that has set the limit on descriptors with `ulimit`. Returns whether this
/// is that process. `test` is the full name of the calling test.
pub(crate) fn is_limited(ulimit: &str, test: &str) -> bool {
    if std::env::var_os("FEW_DESCRIPTORS").is_some() {
        return true;
    }
    let run = std::process::Command::new("sh")
        .args(["-c", &format!("{ulimit}; exec \"$0\" --exact {test}")])
        .arg(std::env::current_exe().unwrap())
        .env("FEW_DESCRIPTORS", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
    false
}

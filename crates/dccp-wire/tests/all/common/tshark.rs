//! Runs tshark with our dissector.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path of a temporary file for this test, in the target directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns why tshark cannot be used, or `None` if it can.
fn missing() -> Option<String> {
    match Command::new("tshark").arg("--version").output() {
        Ok(out) if out.status.success() => None,
        Ok(out) => Some(format!("tshark --version failed: {}", String::from_utf8_lossy(&out.stderr))),
        Err(error) => Some(format!("tshark cannot be run ({error}); Debian has it in the package tshark")),
    }
}

/// Returns whether tshark is available. If it is not, prints the reason to the terminal, bypassing the test
/// harness.
pub(crate) fn available(test: &str) -> bool {
    let why = missing();
    if let Some(why) = &why {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
    }
    why.is_none()
}

/// Fields of one frame as shown by tshark. Each field has all of its occurrences, in order.
#[derive(Debug)]
pub(crate) struct Frame(HashMap<String, Vec<String>>);

impl Frame {
    /// Returns the values of a field, with numbers converted to decimal.
    pub(crate) fn get(&self, field: &str) -> Vec<String> {
        self.0.get(field).unwrap_or_else(|| panic!("{field} was not requested from tshark")).clone()
    }

    /// Returns the values of a field as numbers.
    pub(crate) fn numbers(&self, field: &str) -> Vec<u64> {
        self.get(field)
            .iter()
            .map(|text| text.parse().unwrap_or_else(|_| panic!("{field}: {text}")))
            .collect()
    }
}

fn decimal(text: &str) -> String {
    match text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        Some(number) => number.to_string(),
        None => text.to_owned(),
    }
}

/// Reads `fields` of every frame in a capture. tshark verifies checksums and shows absolute sequence numbers.
/// Panics if tshark reports an error, for example in the Lua script.
pub(crate) fn frames(capture: &Path, fields: &[&str], arguments: &[&str]) -> Vec<Frame> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", root().join("tools/wireshark/mpdccp.lua").display()));
    tshark.arg("-r").arg(capture).args(arguments);
    for preference in ["dccp.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.check_checksum:TRUE"] {
        tshark.args(["-o", preference]);
    }
    tshark.args(["-o", "dccp.relative_sequence_numbers:FALSE"]);
    tshark.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=;"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let out = tshark.output().unwrap();
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && !complaints.contains("rror") && !complaints.contains("Lua"),
        "tshark: {complaints}"
    );
    String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let values = line
                .split('\t')
                .map(|text| text.split(';').filter(|text| !text.is_empty()).map(decimal).collect());
            Frame(fields.iter().map(|field| field.to_string()).zip(values).collect())
        })
        .collect()
}

//! Identifies the external programs that a run depends on: those of the baseline and of command flows.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::environment::kernel;
use super::process::find;
use super::udp::NAP;
use crate::scenario::{Baseline, FlowKind};
use crate::{Plan, code};

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the release of the kernel, and version and file hash of every program named in commands of `plan`.
pub(super) fn made_by(plan: &Plan<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([("kernel".to_owned(), kernel().unwrap_or_else(|| "unknown".to_owned()))]);
    let mut commands: Vec<String> = match &plan.variant.baseline {
        Some(Baseline::Wireguard { program }) => {
            vec![program.clone().unwrap_or_else(|| super::baseline::WIREGUARD.to_owned())]
        }
        Some(Baseline::Command { server, client }) => vec![server.clone(), client.clone()],
        Some(Baseline::Plain {} | Baseline::Mptcp {}) | None => Vec::new(),
    };
    for flow in plan.flows().into_iter().filter(|flow| flow.kind == FlowKind::Command) {
        commands.extend(flow.server.into_iter().chain(flow.client));
    }
    for word in commands.iter().flat_map(|command| words(command)) {
        if let Some(program) = find(word) {
            all.entry(word.to_owned()).or_insert_with(|| identity(&program));
        }
    }
    all
}

/// Returns the words of a shell command that may be programs. A file after `>` is left out, because it is the
/// command's output and changes with every run.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let separates = |c: char| c.is_whitespace() || ";|&()<`\"'$=".contains(c);
    command.split('>').enumerate().flat_map(move |(i, part)| {
        let words = part.split(separates).filter(|word| !word.is_empty());
        words.skip(usize::from(i > 0)).filter(|word| !word.starts_with('-'))
    })
}

/// Returns the version and file hash of a program, and caches them.
fn identity(program: &Path) -> String {
    static KNOWN: LazyLock<Mutex<HashMap<PathBuf, String>>> = LazyLock::new(Mutex::default);
    let look = || {
        let hash = code::hash_of_file(program).unwrap_or_else(|e| format!("unreadable ({e})"));
        version(program).map_or(hash.clone(), |version| format!("{version}, {hash}"))
    };
    match KNOWN.lock() {
        Ok(mut known) => known.entry(program.to_owned()).or_insert_with(look).clone(),
        Err(_) => look(),
    }
}

/// Returns the first line that the program prints as its version, or `None` if it does not print any.
fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let mut child = command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let since = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(None) if since.elapsed() < PATIENCE => sleep(NAP / 10),
            Ok(Some(status)) => break status.success(),
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let mut text = String::new();
    child.stdout.take()?.take(4096).read_to_string(&mut text).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Scenario;

    fn script(file: &Path, text: &str) {
        fs::write(file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_output_of_a_command_is_not_one_of_its_programs() {
        let command = "/bin/a -x < in > /tmp/out 2>&1; b >>log";
        assert_eq!(words(command).collect::<Vec<_>>(), ["/bin/a", "in", "2", "b"]);
    }

    #[test]
    fn programs_of_commands_are_told_by_version_and_content() {
        let dir = tempfile::tempdir().unwrap();
        let (tool, silent) = (dir.path().join("tool"), dir.path().join("silent"));
        script(&tool, "#!/bin/sh\necho tool 1.2\n");
        script(&silent, "#!/bin/sh\nexec sleep 60\n");
        let text = format!(
            r#"name = "t"
title = "t"
duration_s = 1
path = [{{ name = "a", rate = "1 Mbit/s", queue = "9 packets" }}]
variant = [{{ label = "v" }}]
flow = [{{ name = "f", kind = "command", server = "cd /tmp; {} -l $PORT", client = "x=$({} $SERVER)" }}]
"#,
            tool.display(),
            silent.display()
        );
        let scenario = Scenario::parse("t.toml", &text).unwrap();
        let (variant, cell) = (&scenario.variants[0], scenario.headline());
        let plan = Plan { scenario: &scenario, variant, cell, repeat: 0, seed: 1 };
        let made_by = made_by(&plan);
        assert!(made_by["kernel"].len() > 2);
        let (tool, silent) = (&made_by[tool.to_str().unwrap()], &made_by[silent.to_str().unwrap()]);
        assert!(tool.starts_with("tool 1.2, ") && tool.len() == "tool 1.2, ".len() + 16, "{tool}");
        assert_eq!(silent.len(), 16, "only its hash: {silent}");
        assert!(!made_by.contains_key("cd") || find("cd").is_some());
    }
}

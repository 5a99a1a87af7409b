//! `tunnel doctor` tests each line (Internet connection) and this host, and explains each problem and its fix
//! in sentences.

mod finding;
mod host;
mod judge_measurements;
mod line;
mod measure;
mod plan;
mod probe;
mod reach;
pub(crate) mod system;

use crate::error::{Error, remedy};
use crate::keys::guard_memory;
use crate::tunnel::face::control;
use crate::tunnel::host::keys;
use crate::tunnel::host::state_files::StateFiles;
use finding::{Finding, Severity};
use line::Line;
use mpdccp_tunnel::StateFile;
use mpdccp_tunnel::config::PathSpec;
use plan::Plan;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

pub(crate) const EXAMPLES: &str = "Examples:
  mpdccp tunnel doctor                                test with the only file in /etc/mpdccp
  mpdccp tunnel doctor --config client.toml --json
  mpdccp tunnel doctor --config client.toml --load none --silence 0   quick and quiet
  mpdccp tunnel doctor --config van.toml --load all                   also load metered connections
The tunnel may keep running during the tests.
The exit code is 0 without faults and warnings, 1 with a fault or a warning, and 2 if the input is wrong.";

/// The directory of configurations.
const DIRECTORY: &str = "/etc/mpdccp";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file. Default: the only file in /etc/mpdccp.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Print JSON (docs/formats.md).
    #[arg(long)]
    json: bool,
    /// Load each Internet connection with up to 150 MB, to detect long queues. `none`: load no connection.
    /// `all`: load all without asking. Default: load all, but ask first for those with `quota` or `cost`.
    #[arg(long, value_enum)]
    load: Option<Load>,
    /// Longest silence for the NAT test, in seconds (5 to 120); 0 skips the test.
    #[arg(long, default_value_t = 40, value_parser = silence)]
    silence: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    None,
    All,
}

/// Parses the value of `--silence`. The shortest silence that the NAT test tries is 5 s.
fn silence(text: &str) -> Result<u64, String> {
    let valid = |silence: &u64| *silence == 0 || (5..=120).contains(silence);
    text.parse().ok().filter(valid).ok_or_else(|| "expected 5 to 120, or 0 to skip the test".into())
}

/// Runs all tests. The exit code is 1 if there is a problem.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    guard_memory();
    let file = args.config.clone().map_or_else(only_file, Ok)?;
    let review = control::check(&file)?;
    let warnings = review
        .warnings
        .iter()
        .map(|warning| Finding::note("config", format!("{}: {warning}", file.display()), ""));
    let mut found: Vec<Finding> = warnings.collect();
    let cfg = review.result(&file).map_err(|e| Error::usage(e.to_string()))?;
    let mut files = StateFiles::new(&cfg, 0);
    let saved = files.load().get(&StateFile::Timestamp).and_then(|text| text.trim().parse().ok());
    let status = control::status(&control::path(&cfg), None).ok();
    let specs: Vec<(usize, &PathSpec)> = cfg
        .peers
        .iter()
        .enumerate()
        .flat_map(|(i, peer)| peer.get_ref().paths.iter().map(move |path| (i, path.get_ref())))
        .filter(|_| cfg.is_client())
        .collect();
    let plan = Plan {
        cfg: &cfg,
        keys: keys::read(&cfg)?,
        running: status.is_some(),
        silence: args.silence,
        several: specs.len() > 1,
        saved: saved.unwrap_or(0),
    };
    let mut lines: Vec<Line> = specs.iter().map(|(peer, spec)| Line::new(*peer, spec)).collect();
    let here = system::interfaces().map_err(Error::usage)?;
    for (line, (_, spec)) in lines.iter_mut().zip(&specs) {
        found.extend(line.look(spec, &plan, &here));
    }
    permit_load(args, &mut lines);
    let full = system::full_buffers();
    if plan.keys.own.is_some() {
        let measured = measure(&plan, &specs, &mut lines, &found);
        found.extend(measured);
        files.save(StateFile::Timestamp, &(plan.unix().as_secs() + 1).max(plan.saved).to_string());
    } else {
        let message = "security = \"none\": Internet connections are not measured, because probes need an encrypted channel";
        found.push(Finding::note("config", message, ""));
    }
    found.extend(host::of_routes(&plan, &lines));
    found.extend(host::of_forwarding(&plan, &lines, &here));
    let own: Vec<PathBuf> =
        [Some(file.clone()), cfg.private_key_file.clone()].into_iter().flatten().collect();
    found.extend(host::of_clock(&plan, &lines, &own));
    found.extend(host::of_names(&cfg));
    found.extend(host::of_buffers(system::full_buffers().saturating_sub(full)));
    found.extend(host::of_offloads(&lines));
    if !cfg.is_client() {
        found.extend(host::of_server(&plan, &here));
    }
    for peer in status.iter().filter(|_| cfg.is_client()).flat_map(|status| &status.peers) {
        if peer.state != "open" {
            let message =
                format!("the running tunnel has no session with {} (state: {})", peer.name, peer.state);
            found.push(Finding::warning("session", message, "`mpdccp tunnel events` shows the reason"));
        }
    }
    found.sort_by_key(|finding| finding.severity);
    let wrong = found.iter().any(|finding| finding.severity != Severity::Note);
    show(args, &file, &plan, &lines, &found)?;
    Ok(ExitCode::from(u8::from(wrong)))
}

/// Measures all lines in parallel, except that load tests run one after the other.
fn measure(
    plan: &Plan<'_>,
    specs: &[(usize, &PathSpec)],
    lines: &mut [Line],
    known: &[Finding],
) -> Vec<Finding> {
    let turn = Mutex::new(());
    let mut found = std::thread::scope(|scope| {
        let pairs = lines.iter_mut().zip(specs);
        let tests: Vec<_> = pairs
            .map(|(line, (_, spec))| {
                let turn = &turn;
                scope.spawn(move || line.measure(spec, plan, turn))
            })
            .collect();
        tests.into_iter().flat_map(|test| test.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    let own = plan.keys.own.as_ref().map(|key| key.public().to_string()).unwrap_or_default();
    for line in lines.iter() {
        let (Some(evidence), Some(remote)) = (&line.evidence, line.remote) else { continue };
        // Do not report a silent server if a known fault already explains its silence.
        if known.iter().any(|f| f.severity == Severity::Fault && f.line.as_ref() == Some(&line.name)) {
            continue;
        }
        let same = |other: &&Line| other.reached && other.peer == line.peer && other.remote.is_some();
        let elsewhere = lines.iter().find(same).map(|other| other.name.as_str());
        found.push(evidence.finding(remote, &own, elsewhere).of(&line.name));
    }
    found
}

/// Decides for each line whether a load test may run, asking the user about metered lines.
fn permit_load(args: &Args, lines: &mut [Line]) {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !args.json;
    for line in lines.iter_mut().filter(|line| line.usable && args.load != Some(Load::None)) {
        line.loads = match line.metered {
            None => true,
            Some(_) if args.load == Some(Load::All) => true,
            Some(why) if terminal => ask(&line.name, why),
            Some(_) => false,
        };
    }
}

fn ask(line: &str, why: &str) -> bool {
    let mut answer = String::new();
    eprint!("{line} has a {why}. Load it for a few seconds, with up to 150 MB, to find long queues? [y/N] ");
    let _ = std::io::stderr().flush();
    std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn show(args: &Args, file: &Path, plan: &Plan<'_>, lines: &[Line], found: &[Finding]) -> Result<(), Error> {
    if args.json {
        let all = serde_json::json!({
            "file": file, "running": plan.running, "lines": lines, "findings": found,
            "healthy": found.iter().all(|finding| finding.severity == Severity::Note),
        });
        println!("{}", serde_json::to_string_pretty(&all).map_err(std::io::Error::from)?);
        return Ok(());
    }
    let state = if plan.running { "is running" } else { "is not running" };
    println!("{}: the tunnel {state}", file.display());
    for line in lines {
        println!("{}: {}", line.name, line.summary());
        if let (Some(why), false, true, false) =
            (line.metered, line.loads, line.reached, args.load == Some(Load::None))
        {
            println!("{}: no load test, because it has a {why}; --load all runs it", line.name);
        }
    }
    for finding in found {
        println!("{finding}");
    }
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    match (count(Severity::Fault), count(Severity::Warning)) {
        (0, 0) => println!("Nothing is wrong."),
        (faults, warnings) => println!("{faults} fault(s), {warnings} warning(s)."),
    }
    Ok(())
}

/// Returns the only file in [`DIRECTORY`].
fn only_file() -> Result<PathBuf, Error> {
    let entries: Vec<std::fs::DirEntry> = match std::fs::read_dir(DIRECTORY) {
        Ok(entries) => entries.flatten().collect(),
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => {
            let remedy = remedy(&e, Path::new(DIRECTORY));
            return Err(Error::usage(format!("cannot read {DIRECTORY}: {e}{remedy}")));
        }
    };
    let files = entries.iter().map(std::fs::DirEntry::path);
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    match &files[..] {
        [file] => Ok(file.clone()),
        [] => Err(Error::usage(format!("no configuration in {DIRECTORY}; give one with --config FILE"))),
        _ => {
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            Err(Error::usage(format!(
                "several configurations found; choose one with --config: {}",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_too_short_for_the_test_is_refused() {
        let valid = ["0", "1", "4", "5", "40", "120", "121", "x"].map(|text| silence(text).ok());
        assert_eq!(valid, [Some(0), None, None, Some(5), Some(40), Some(120), None, None]);
    }
}

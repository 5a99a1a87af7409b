//! `mpdccp conform` runs the conformance suite.

use crate::error::Error;
use clap::Args as ClapArgs;
use mpdccp_conform::net::Route;
use mpdccp_conform::report;
use mpdccp_conform::run::Target;
use mpdccp_conform::script::{self, Script};
use mpdccp_conform::suite::{self, Outcome, Verdict};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "Examples:
  mpdccp conform --target 127.0.0.1:6511                           over UDP
  mpdccp conform --target 192.0.2.1:5001 --raw --lacks multipath   as IP protocol 33, as root
  mpdccp conform --target 127.0.0.1:6511 --only close --verbose
The target must run the test service described in docs/conformance.md.";

/// The flags.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Address of the implementation to test. PORT is its UDP port or, with --raw, its DCCP port.
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "list")]
    target: Option<String>,
    /// Send IP protocol 33 instead of UDP (RFC 6773). Needs CAP_NET_RAW.
    #[arg(long)]
    raw: bool,
    /// The target's DCCP port inside UDP.
    #[arg(long, value_name = "PORT", default_value_t = 5001, conflicts_with = "raw")]
    dccp_port: u16,
    /// Send from this address (repeatable). The subflows of a session use the addresses in turn.
    #[arg(long, value_name = "IP")]
    from: Vec<IpAddr>,
    /// Skip the tests that need this feature, which the target lacks (repeatable). `--list` shows what each
    /// test needs.
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    lacks: Vec<String>,
    /// Run only tests whose name contains this text.
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Run these files instead of the suite.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    script: Vec<PathBuf>,
    /// Longest wait for an expected packet, in seconds; increase it for a slow target.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    wait: u64,
    /// Number of parallel tests.
    #[arg(long, value_name = "N", default_value_t = 16)]
    jobs: usize,
    /// Write JUnit XML to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the tests, the rules that each test checks, and the features that it needs.
    #[arg(long)]
    list: bool,
    /// Also show tests that pass.
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let all = script::embedded().map_err(Error::runtime)?;
    let mut scripts = if args.script.is_empty() {
        all.clone()
    } else {
        args.script.iter().map(|file| read(file)).collect::<Result<_, _>>()?
    };
    scripts.retain(|script| script.name.contains(&args.only));
    if scripts.is_empty() {
        return Err(Error::usage(format!(
            "--only {}: no test name contains this text; --list shows the names",
            args.only
        )));
    }
    if args.list {
        for script in &scripts {
            let needs = if script.needs.is_empty() {
                String::new()
            } else {
                format!(" (needs {})", script.needs.join(", "))
            };
            println!("{}: {} [{}]{needs}", script.name, script.title, report::rules(script));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let place = args.target.as_deref().unwrap_or_default();
    let remote = resolve(place)?;
    let port = if args.raw { remote.port() } else { args.dccp_port };
    let route = Route { remote, raw: args.raw, from: args.from.clone() };
    let target = Target { port, service: u32::from_be_bytes(*b"echo"), wait: Duration::from_secs(args.wait) };
    if let Some(from) = args.from.iter().find(|from| from.is_ipv4() != remote.is_ipv4()) {
        return Err(Error::usage(format!(
            "--from {from}: IP version differs from that of the target {}",
            remote.ip()
        )));
    }
    let known: BTreeSet<&String> = all.iter().chain(&scripts).flat_map(|script| &script.needs).collect();
    if let Some(tag) = args.lacks.iter().find(|tag| !known.contains(tag)) {
        let known: Vec<_> = known.into_iter().map(String::as_str).collect();
        return Err(Error::usage(format!(
            "--lacks {tag}: unknown tag; expected one of: {}",
            known.join(", ")
        )));
    }
    let cannot = |file: &PathBuf, e| Error::usage(format!("{}: {e}", file.display()));
    for file in [&args.junit, &args.json].into_iter().flatten() {
        fs::write(file, "").map_err(|e| cannot(file, e))?;
    }
    let mut lacks = args.lacks.clone();
    lacks.push(if args.raw { "udp" } else { "raw" }.to_string());
    // Check first that the target responds at all, because a silent target would pass the tests that expect
    // silence.
    let greeting: Vec<Script> =
        all.into_iter().filter(|script| script.name == "handshake/response").collect();
    if let [Outcome { verdict: Verdict::Failed(failure), .. }] =
        &suite::play(&greeting, &route, target, &[], 1, &|_| {})[..]
    {
        return Err(Error::runtime(format!(
            "{place} does not behave like the test service (docs/conformance.md): {}",
            failure.message
        )));
    }
    let outcomes = suite::play(&scripts, &route, target, &lacks, args.jobs, &|outcome| {
        if args.verbose || matches!(outcome.verdict, Verdict::Failed(_)) {
            println!("{}", report::text(outcome));
        }
    });
    for (file, text) in [(&args.junit, report::junit as fn(&[_]) -> String), (&args.json, report::json)] {
        if let Some(file) = file {
            fs::write(file, text(&outcomes)).map_err(|e| cannot(file, e))?;
        }
    }
    let (passed, failed, skipped) = report::counts(&outcomes);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn resolve(place: &str) -> Result<SocketAddr, Error> {
    let error = |e: String| Error::usage(format!("--target {place}: {e}; example: 192.0.2.1:6511"));
    let mut found = place.to_socket_addrs().map_err(|e| error(e.to_string()))?;
    found.next().ok_or_else(|| error("the name has no address".into()))
}

fn read(file: &Path) -> Result<Script, Error> {
    let text = fs::read_to_string(file).map_err(|e| Error::usage(format!("{}: {e}", file.display())))?;
    Script::parse(&file.with_extension("").to_string_lossy(), &text).map_err(Error::usage)
}

//! `mpdccp perf` sends datagrams over a plain DCCP connection or a Multipath DCCP session and measures them.

mod app;
mod args;
mod control;
mod counts;
mod cpu;
mod daemon;
mod file;
mod foreign;
mod iperf3;
mod keys;
mod limits;
mod message;
mod meter;
mod output;
mod peer_path;
mod plan;
mod report;
mod sender;
mod sent;
mod setup;
mod table;
mod transfer;
mod values;

use crate::error::Error;
use app::PerfApp;
use args::Json;
pub(crate) use args::PerfArgs;
use dccp_net::{Capture, Driver, Qlog};
use mpdccp_proto::Endpoint;
use output::Output;
use plan::{Plan, Role};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
pub(crate) use values::seconds;

pub(crate) fn main(command: PerfArgs) -> ExitCode {
    let json = command.json();
    let (error, reported) = match run(command) {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(error)) => (error, true),
        Err(error) => (error, false),
    };
    if let (Some((json, file, title, timestamps)), false) = (json, reported) {
        let output = Output::new(file.as_deref(), title, timestamps).unwrap_or_default();
        report::failed(&output, json, &error.to_string());
    }
    // Ignore the error: the standard error of a daemon may be closed.
    let _ = writeln!(std::io::stderr(), "mpdccp: {error}");
    error.code
}

/// Runs a test or a server. If the JSON output already contains the error, returns the error in `Ok`, so that
/// the caller does not add it again.
fn run(command: PerfArgs) -> Result<Option<Error>, Error> {
    let plan = Plan::try_from(command)?;
    if plan.daemon && !daemon::is_one() {
        return daemon::start();
    }
    let document = plan.common.json() == Some(Json::Document);
    let (logfile, pidfile) = (plan.common.logfile.clone(), plan.common.pidfile.clone());
    if plan.keys.is_some() {
        tell_refusals();
    }
    let endpoint = Endpoint::new(dccp_net::random_seed()?);
    let driver = Driver::new(endpoint, |core| -> Result<PerfApp, Error> {
        if let Some(file) = &plan.common.pcap {
            let cannot = |e| Error::usage(format!("--pcap {}: {e}", file.display()));
            core.net.capture = Some(Capture::create(file).map_err(cannot)?);
        }
        if let Some(file) = &plan.common.qlog {
            let cannot = |e| Error::usage(format!("--qlog {}: {e}", file.display()));
            let is_server = matches!(plan.role, Role::Server { .. });
            core.net.qlog = Some(Qlog::create(file, is_server).map_err(cannot)?);
        }
        PerfApp::start(core, plan)
    })?;
    let handle = driver.handle();
    // Close the sessions on SIGINT, SIGTERM and SIGHUP.
    ctrlc::set_handler(move || {
        handle.run(|core, app| {
            let now = core.clock.now();
            app.shut_down(core, now);
        });
    })
    .map_err(|e| Error::runtime(format!("cannot handle signals: {e}")))?;
    // Write the PID file only now. If the server could not start because another server uses the port, the
    // file may belong to that server.
    let _pidfile = pidfile.map(PidFile::new).transpose()?;
    if daemon::is_one() {
        daemon::started(logfile.as_deref())?;
    }
    let app = driver.run()?;
    app.reporter.finish(app.error.as_ref().map(Error::to_string).as_deref());
    match app.error {
        Some(error) if !document => Err(error),
        error => Ok(error),
    }
}

/// Logs each peer that the secure channels reject, and the reason, to standard error.
fn tell_refusals() {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN);
    // A line that cannot be written must not end the server. By default, the logger reports the failure with
    // `eprintln!`, which panics.
    let log = log.without_time().with_target(false).with_ansi(false).log_internal_errors(false);
    // Ignore the error: the process may already have a log.
    let _ = log.try_init();
}

/// A file that holds the process ID. Dropping this value removes the file.
struct PidFile(PathBuf);

impl PidFile {
    fn new(path: PathBuf) -> Result<PidFile, Error> {
        let cannot = |e| Error::usage(format!("--pidfile {}: {e}", path.display()));
        fs::write(&path, format!("{}\n", std::process::id())).map_err(cannot)?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

//! `mpdccp perf`: sends datagrams over a plain DCCP connection or a Multipath DCCP session, and measures them.

mod app;
mod args;
mod control;
mod daemon;
mod foreign;
mod lap;
mod message;
mod meter;
mod output;
mod peer_path;
mod plan;
mod report;
mod sender;
mod setup;
mod transfer;

use crate::fault::Fault;
use app::PerfApp;
pub(crate) use args::{PerfArgs, seconds};
use dccp_net::{Capture, Driver, Qlog};
use mpdccp_proto::Endpoint;
use output::Output;
use plan::{Plan, Role};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// DCCP Service Code of the tool, "perf" (RFC 4340 section 8.1.2).
const SERVICE_CODE: u32 = u32::from_be_bytes(*b"perf");

pub(crate) fn main(command: PerfArgs) -> ExitCode {
    let json = command.json();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            if let Some((file, title, timestamps)) = json {
                let output = Output::new(file.as_deref(), title, timestamps).unwrap_or_default();
                report::failed(&output, &fault.to_string());
            }
            // In the background nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "mpdccp: {fault}");
            fault.code
        }
    }
}

fn run(command: PerfArgs) -> Result<(), Fault> {
    let plan = Plan::try_from(command)?;
    if plan.daemon && !daemon::is_one() {
        return daemon::start();
    }
    let _pidfile = plan.pidfile.clone().map(PidFile::new).transpose()?;
    let endpoint = Endpoint::new(dccp_net::random_seed()?);
    let driver = Driver::new(endpoint, |core| -> Result<PerfApp, Fault> {
        if let Some(file) = &plan.pcap {
            let cannot = |e| Fault::usage(format!("--pcap {}: {e}", file.display()));
            core.net.capture = Some(Capture::create(file).map_err(cannot)?);
        }
        if let Some(file) = &plan.qlog {
            let cannot = |e| Fault::usage(format!("--qlog {}: {e}", file.display()));
            let is_server = matches!(plan.role, Role::Server { .. });
            core.net.qlog = Some(Qlog::create(file, is_server).map_err(cannot)?);
        }
        PerfApp::start(core, plan)
    })?;
    let handle = driver.handle();
    // SIGINT, SIGTERM and SIGHUP.
    ctrlc::set_handler(move || {
        handle.run(|core, app| {
            let now = core.clock.now();
            app.shut_down(core, now);
        });
    })
    .map_err(|e| Fault::runtime(format!("cannot handle signals: {e}")))?;
    match driver.run()?.fault {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Holds the number of the process, and goes with it.
struct PidFile(PathBuf);

impl PidFile {
    fn new(path: PathBuf) -> Result<PidFile, Fault> {
        let cannot = |e| Fault::usage(format!("--pidfile {}: {e}", path.display()));
        fs::write(&path, format!("{}\n", std::process::id())).map_err(cannot)?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

//! `tunnel up`: sets everything up, runs the loop, leaves nothing behind.

use crate::fault::Fault;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::Config;
use crate::tunnel::control::ControlSocket;
use crate::tunnel::trace::Trace;
use crate::tunnel::{routes, setup};
use dccp_net::{Capture, Driver};
use mpdccp_proto::Endpoint;
use std::io::IsTerminal;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file (docs/tunnel.md).
    #[arg(long)]
    config: PathBuf,
    /// Write the state of every path each 10 ms to this CSV file (docs/formats.md).
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Write all carrier packets to this pcap file; overrides `capture` of the configuration.
    #[arg(long)]
    capture: Option<PathBuf>,
    /// Log more.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fault> {
    let cfg = Config::load(&args.config)?;
    log(args.verbose);
    let control = ControlSocket::bind(cfg.control_path())?;
    let endpoint = Endpoint::new(dccp_net::random_seed()?);
    let driver = Driver::new(endpoint, |core| -> Result<TunnelApp, Fault> {
        if let Some(file) = args.capture.as_ref().or(cfg.capture.as_ref()) {
            let cannot = |e| Fault::usage(format!("cannot write {}: {e}", file.display()));
            core.net.capture = Some(Capture::create(file).map_err(cannot)?);
        }
        let now = core.clock.now();
        let trace = args.trace.as_ref().map(|file| {
            Trace::create(file, now)
                .map_err(|e| Fault::usage(format!("cannot write {}: {e}", file.display())))
        });
        TunnelApp::new(core, now, cfg, trace.transpose()?)
    })?;
    let handle = driver.handle();
    control.serve(handle.clone())?;
    let resolving = handle.clone();
    handle.run(move |_, app| {
        if let Err(e) = app.names.serve(resolving) {
            tracing::error!("cannot look up names: {e}");
        }
    });
    // SIGINT, SIGTERM and SIGHUP.
    ctrlc::set_handler(move || {
        handle.run(|core, app| {
            tracing::info!("closing");
            let now = core.clock.now();
            app.shut_down(core, now);
        });
    })
    .map_err(|e| Fault::runtime(format!("cannot handle signals: {e}")))?;
    let app = driver.run()?;
    match app.failure {
        Some(failure) => Err(Fault::runtime(failure)),
        None => {
            tracing::info!("{} is down", app.cfg.interface);
            Ok(())
        }
    }
}

fn log(verbose: bool) {
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}

impl TunnelApp {
    /// Opens sockets, makes the interface and its routes, and starts to connect.
    fn new(
        core: &mut dccp_net::Core,
        now: units::Time,
        cfg: Config,
        trace: Option<Trace>,
    ) -> Result<TunnelApp, Fault> {
        let mut app = match setup::is_client(&cfg) {
            true => TunnelApp::client(core, now, cfg, trace)?,
            false => TunnelApp::server(core, now, cfg, trace)?,
        };
        if app.cfg.routes {
            routes::add(&app.cfg)?;
        }
        app.start(core, now);
        Ok(app)
    }
}

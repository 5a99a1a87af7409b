//! `tunnel up`: sets everything up, runs the loop, leaves nothing behind.

use crate::fault::Fault;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::Config;
use crate::tunnel::control::ControlSocket;
use crate::tunnel::default_route::DefaultRoute;
use crate::tunnel::events::{LogFormat, log};
use crate::tunnel::marking::Marker;
use crate::tunnel::trace::Trace;
use crate::tunnel::{metrics, reload, routes, setup, web};
use dccp_net::{Capture, Driver, Handle};
use mpdccp_proto::Endpoint;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file (docs/tunnel.md).
    #[arg(long)]
    config: PathBuf,
    /// Write the state of every path each 10 ms to this CSV file (docs/formats.md).
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Write all carrier packets to this pcap file; overrides `capture` of the configuration.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// How to write the log; into the journal of systemd it goes without times.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// Log more.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fault> {
    let cfg = Config::load(&args.config)?;
    let events = log(args.log_format, args.verbose);
    let file = std::fs::canonicalize(&args.config)?;
    let control = ControlSocket::bind(cfg.control_path())?;
    let metrics = cfg.metrics.map(|at| at.socket_addr(0));
    let page = cfg.web.map(|at| at.socket_addr(0));
    let endpoint = Endpoint::new(dccp_net::random_seed()?);
    let driver = Driver::new(endpoint, |core| -> Result<TunnelApp, Fault> {
        if let Some(file) = args.pcap.as_ref().or(cfg.capture.as_ref()) {
            let cannot = |e| Fault::usage(format!("cannot write {}: {e}", file.display()));
            core.net.capture = Some(Capture::create(file).map_err(cannot)?);
        }
        core.net.marking = Some(Box::new(Marker::new(&cfg)));
        let now = core.clock.now();
        let trace = args.trace.as_ref().map(|file| {
            Trace::create(file, now)
                .map_err(|e| Fault::usage(format!("cannot write {}: {e}", file.display())))
        });
        TunnelApp::new(core, now, cfg, trace.transpose()?)
    })?;
    let handle = driver.handle();
    control.serve(handle.clone(), file.clone(), events)?;
    if let Some(at) = metrics {
        metrics::serve(at, handle.clone())?;
    }
    if let Some(at) = page {
        web::serve(at, handle.clone())?;
    }
    let resolving = handle.clone();
    handle.run(move |_, app| {
        if let Err(e) = app.names.serve(resolving) {
            tracing::error!("cannot look up names: {e}");
        }
    });
    obey_signals(handle, file)?;
    notify(&[NotifyState::Ready]);
    let mut app = driver.run()?;
    app.quotas.save();
    match app.failure {
        Some(failure) => Err(Fault::runtime(failure)),
        None => {
            tracing::info!("{} is down", app.cfg.interface);
            Ok(())
        }
    }
}

/// SIGINT and SIGTERM end the tunnel, SIGHUP reloads its configuration.
fn obey_signals(handle: Handle<TunnelApp>, file: PathBuf) -> Result<(), Fault> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Fault::runtime(format!("cannot handle signals: {e}")))?;
    let obey = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                if let Err(e) = reload::from_file(&handle, &file) {
                    tracing::error!("not reloaded: {e}");
                }
                continue;
            }
            notify(&[NotifyState::Stopping]);
            handle.run(|core, app| {
                tracing::info!("closing");
                let now = core.clock.now();
                app.shut_down(core, now);
            });
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(obey)?;
    Ok(())
}

/// Tells systemd, if it started us with Type=notify.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(false, states) {
        tracing::debug!("sd_notify: {e}");
    }
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
        app.default_route = DefaultRoute::set(&app.cfg)?;
        app.start(core, now);
        Ok(app)
    }
}

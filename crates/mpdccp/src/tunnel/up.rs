//! `tunnel up`: sets everything up, runs the loop, leaves nothing behind.

use crate::fault::Fault;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::Config;
use crate::tunnel::control::ControlSocket;
use crate::tunnel::default_route::DefaultRoute;
use crate::tunnel::events::{LogFormat, log};
use crate::tunnel::marking::Marker;
use crate::tunnel::shards::{EndTogether, Interface, Shards};
use crate::tunnel::trace::Trace;
use crate::tunnel::values::HostPort;
use crate::tunnel::{http, metrics, privileges, reload, routes, setup, web};
use dccp_net::{Capture, Driver};
use mpdccp_proto::Endpoint;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};

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
    let at = |key, at: Option<HostPort>| at.map(|at| http::listen(key, at.socket_addr(0))).transpose();
    let (metrics, page) = (at("metrics", cfg.metrics)?, at("web", cfg.web)?);
    let count = cfg.shards.0;
    let (mut drivers, mut interface) = (Vec::new(), None);
    for shard in 0..count {
        let endpoint = Endpoint::new(dccp_net::random_seed()?);
        drivers.push(Driver::new(endpoint, |core| -> Result<TunnelApp, Fault> {
            if let Some(file) = args.pcap.as_ref().or(cfg.capture.as_ref()) {
                let file = numbered(file, shard);
                let cannot = |e| Fault::usage(format!("cannot write {}: {e}", file.display()));
                core.net.capture = Some(Capture::create(&file).map_err(cannot)?);
            }
            core.net.marking = Some(Box::new(Marker::new(&cfg)));
            let now = core.clock.now();
            let trace = args.trace.as_ref().map(|file| {
                let file = numbered(file, shard);
                Trace::create(&file, now)
                    .map_err(|e| Fault::usage(format!("cannot write {}: {e}", file.display())))
            });
            let app = TunnelApp::new(core, now, cfg.clone(), trace.transpose()?, shard, interface.take())?;
            interface = (shard + 1 < count).then(|| app.interface()).transpose()?;
            Ok(app)
        })?);
    }
    let shards = Shards::of(&drivers);
    // Before there are threads: each has its own.
    privileges::give_up(&cfg, &file);
    control.serve(shards.clone(), file.clone(), events)?;
    if let Some(listener) = metrics {
        metrics::serve(listener, shards.clone())?;
    }
    if let Some(listener) = page {
        web::serve(listener, shards.clone())?;
    }
    let resolving = shards.first().clone();
    shards.first().run(move |_, app| {
        if let Err(e) = app.names.serve(resolving) {
            tracing::error!("cannot look up names: {e}");
        }
    });
    obey_signals(shards.clone(), file)?;
    let mut drivers = drivers.into_iter();
    let Some(first) = drivers.next() else { return Err(Fault::runtime("there is no shard")) };
    let mut threads = Vec::new();
    for (number, driver) in (1..).zip(drivers) {
        let together = EndTogether(shards.clone());
        let run = move || {
            let _together = together;
            driver.run()
        };
        threads.push(std::thread::Builder::new().name(format!("shard {number}")).spawn(run)?);
    }
    notify(&[NotifyState::Ready]);
    let mut app = first.run()?;
    shards.shut_down();
    for thread in threads {
        thread.join().map_err(|_| Fault::runtime("a shard broke down"))??;
    }
    app.quotas.save();
    match app.failure {
        Some(failure) => Err(Fault::runtime(failure)),
        None => {
            tracing::info!("{} is down", app.cfg.interface);
            Ok(())
        }
    }
}

/// The file of a shard: the first one's is the one given, the others' have their numbers behind it.
fn numbered(file: &Path, shard: u8) -> PathBuf {
    match shard {
        0 => file.to_owned(),
        n => PathBuf::from(format!("{}.{n}", file.display())),
    }
}

/// SIGINT and SIGTERM end the tunnel, SIGHUP reloads its configuration.
fn obey_signals(shards: Shards, file: PathBuf) -> Result<(), Fault> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Fault::runtime(format!("cannot handle signals: {e}")))?;
    let obey = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                if let Err(e) = reload::from_file(&shards, &file) {
                    tracing::error!("not reloaded: {e}");
                }
                continue;
            }
            notify(&[NotifyState::Stopping]);
            tracing::info!("closing");
            shards.shut_down();
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
        shard: u8,
        interface: Option<Interface>,
    ) -> Result<TunnelApp, Fault> {
        let mut app = match setup::is_client(&cfg) {
            true => TunnelApp::client(core, now, cfg, trace)?,
            false => TunnelApp::server(core, now, cfg, trace, shard, interface)?,
        };
        if !app.shard.is_first() {
            app.start(core, now);
            return Ok(app);
        }
        if app.cfg.routes {
            routes::add(&app.cfg)?;
        }
        app.default_route = DefaultRoute::set(&app.cfg)?;
        app.start(core, now);
        Ok(app)
    }

    /// For the next shard.
    fn interface(&self) -> std::io::Result<Interface> {
        Ok(Interface { tun: self.tun.tun().queue()?, sizes: self.sizes.clone() })
    }
}

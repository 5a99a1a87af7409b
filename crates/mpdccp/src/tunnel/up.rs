//! `tunnel up` sets up the tunnel, runs it, and cleans up.

use crate::error::{Error, remedy};
use crate::keys::guard_memory;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::face::control::{self, ControlSocket};
use crate::tunnel::face::events::{LogFormat, log};
use crate::tunnel::face::trace::Trace;
use crate::tunnel::face::{http, prometheus, web};
use crate::tunnel::host::helper::{Helper, Process, Request};
use crate::tunnel::host::service::{self, notify};
use crate::tunnel::host::{default_route, privileges};
use crate::tunnel::shards::{EndTogether, Shards};
use dccp_net::{Capture, Driver};
use mpdccp_proto::Endpoint;
use mpdccp_tunnel::HostEvent;
use mpdccp_tunnel::config::HostPort;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file (docs/tunnel.md).
    #[arg(long)]
    config: PathBuf,
    /// Write the state of all paths every 10 ms to this CSV file (docs/formats.md).
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Format of the log. Lines in the systemd journal have no times, because the journal adds them.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// Also log debug messages.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let events = log(args.log_format, args.verbose);
    guard_memory();
    let (cfg, _) = control::load_with_keys(&args.config)?;
    // Do not resolve symbolic links: a reload must read the file to which a link then leads.
    let file = std::path::absolute(&args.config)?;
    privileges::user(&cfg)?;
    service::connect();
    control::refuse_second(&control::path(&cfg))?;
    let mut process = Process::start(&file, args.verbose)?;
    // If this start fails, only the block that an earlier tunnel's kill switch left stays in place.
    process.block = cfg.kill_switch && default_route::is_blocked();
    // A signal that arrives before the tunnel has started takes effect as soon as it has. Otherwise, it would
    // kill the tunnel, and the kill switch would keep blocking.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Error::runtime(format!("cannot handle signals: {e}")))?;
    let helper = process.helper.clone();
    dccp_net::grant_sockets_by(move |socket| helper.grant(socket));
    let helper = process.helper.clone();
    let control = ControlSocket::bind(control::path(&cfg))?;
    helper.tell(&Request::Bound).map_err(Error::runtime)?;
    let at = |key, at: Option<HostPort>| at.map(|at| http::listen(key, at.socket_addr(0))).transpose();
    let (metrics, page) = (at("metrics", cfg.metrics)?, at("web", cfg.web)?);
    let count = cfg.shards.0;
    let (mut drivers, mut interface) = (Vec::new(), None);
    for shard in 0..count {
        let endpoint = Endpoint::new(dccp_net::random_seed()?);
        drivers.push(Driver::new(endpoint, |core| -> Result<TunnelApp, Error> {
            if let Some(file) = &cfg.capture {
                let file = numbered(file, shard);
                let cannot = |e: std::io::Error| {
                    Error::usage(format!(
                        "capture: cannot write {}: {e}{}",
                        file.display(),
                        remedy(&e, &file)
                    ))
                };
                core.net.capture = Some(Capture::create(&file).map_err(cannot)?);
            }
            let now = core.clock.now();
            let trace = args.trace.as_ref().map(|file| {
                let file = numbered(file, shard);
                Trace::create(&file, now)
                    .map_err(|e| Error::usage(format!("cannot write {}: {e}", file.display())))
            });
            let app = TunnelApp::new(
                core,
                cfg.clone(),
                trace.transpose()?,
                shard,
                interface.take(),
                helper.clone(),
            )?;
            interface = (shard + 1 < count).then(|| app.interface()).transpose()?;
            Ok(app)
        })?);
    }
    // From here on, the kill switch keeps blocking until the tunnel is stopped on request.
    process.block = true;
    let shards = Shards::of(&drivers);
    // Drop the privileges before other threads start, because each thread has its own privileges.
    privileges::give_up(&cfg);
    let (lost, ending) = (Arc::new(AtomicBool::new(false)), shards.clone());
    let told = lost.clone();
    process.watch(move || {
        told.store(true, Ordering::Relaxed);
        tracing::error!("the helper process died; the tunnel ends");
        ending.shut_down();
    })?;
    let (all, its, kept) = (shards.clone(), helper.clone(), events.clone());
    control.serve(move |request| all.control(request, &its, &kept))?;
    if let Some(listener) = metrics {
        prometheus::serve(listener, shards.clone())?;
    }
    if let Some(listener) = page {
        web::serve(listener, shards.clone(), events)?;
    }
    let resolving = shards.first().clone();
    shards.first().run(move |core, app| {
        let tell = move |event| {
            resolving.run(move |core, app| {
                let now = core.clock.now();
                app.on_host(core, now, event);
            })
        };
        if let Err(e) = app.names.serve(tell) {
            let now = core.clock.now();
            app.on_host(core, now, HostEvent::Failed(format!("cannot start a thread for host names: {e}")));
        }
    });
    obey_signals(signals, shards.clone(), helper)?;
    let mut drivers = drivers.into_iter();
    let Some(first) = drivers.next() else {
        return Err(Error::runtime("no shard of the tunnel was started"));
    };
    let mut threads = Vec::new();
    for (number, driver) in (1..).zip(drivers) {
        let together = EndTogether(shards.clone());
        let run = move || {
            let _together = together;
            driver.run()
        };
        threads.push(std::thread::Builder::new().name(format!("shard {number}")).spawn(run)?);
    }
    notify(&NotifyState::Ready);
    let app = first.run()?;
    shards.shut_down();
    let mut failure = app.tunnel.failure().map(str::to_owned);
    for thread in threads {
        let app = thread.join().map_err(|_| Error::runtime("a shard's thread panicked"))??;
        failure = failure.or_else(|| app.tunnel.failure().map(str::to_owned));
    }
    match failure {
        Some(failure) => Err(Error::runtime(failure)),
        None if lost.load(Ordering::Relaxed) => Err(Error::runtime("the helper process died")),
        None => {
            (process.block, process.clean) = (false, true);
            tracing::info!("{} is down", app.tunnel.config().interface);
            Ok(())
        }
    }
}

/// Returns a shard's file. The first shard uses the given name; the others append their number to it.
fn numbered(file: &Path, shard: u8) -> PathBuf {
    match shard {
        0 => file.to_owned(),
        n => PathBuf::from(format!("{}.{n}", file.display())),
    }
}

/// Handles signals: SIGINT and SIGTERM end the tunnel, and SIGHUP reloads its configuration.
fn obey_signals(mut signals: Signals, shards: Shards, helper: Helper) -> Result<(), Error> {
    let obey = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                if let Err(e) = shards.reload(&helper) {
                    tracing::error!("the configuration was not reloaded: {e}");
                }
                continue;
            }
            notify(&NotifyState::Stopping);
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            tracing::info!("closing all sessions: {name}");
            shards.shut_down();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(obey)?;
    Ok(())
}

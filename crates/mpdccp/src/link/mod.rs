//! `mpdccp link` creates two interfaces and emulates a link between them.

mod args;
mod report;

use crate::error::Error;
pub(crate) use args::Args;
use args::{Links, Place};
use dccp_net::{Clock, Tun, TunConfig};
use ipnet::IpNet;
use linkem_net::{Cable, Entrance, Strand, Urgency, hurry};
use mpdccp_linkem::Step;
use mpdccp_units::{Duration, Time};
use report::{Meter, Report};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const INTERVAL: Duration = Duration::from_secs(1);
/// Number of reports that may be waiting for a slow reader. Any more are skipped.
const BACKLOG: usize = 16;

/// A report about both directions over one interval.
#[derive(Serialize)]
struct Line {
    /// Seconds since the link was created.
    t: f64,
    a_to_b: Report,
    b_to_a: Report,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let mut links = args.links()?;
    let [down, up] = links.begin();
    let course = links.course.take();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    // Install the signal handlers before there is anything to clean up.
    ctrlc::set_handler(move || asked.store(true, Ordering::Relaxed))
        .map_err(|e| Error::runtime(format!("cannot handle signals: {e}")))?;
    let strand = |device, config, seed| Strand { device, config, seed, recorder: Meter::default() };
    let a = strand(device(&args.a, &args.a_addr, args.mtu)?, down, args.seed);
    let b = strand(device(&args.b, &args.b_addr, args.mtu)?, up, args.seed ^ 1);
    let mut cable = Cable::new([a, b]).map_err(|e| Error::usage(e.to_string()))?;
    for (link, _) in cable.links().into_iter().zip(links.are_up()).filter(|(_, up)| !up) {
        link.set_down(Clock.now());
    }
    let (reports, lines) = sync_channel(BACKLOG);
    let time = args.time;
    let cable = std::thread::Builder::new()
        .name("link".into())
        .spawn(move || carry(cable, (links, course), (&stop, time), &reports))
        .map_err(|e| Error::runtime(format!("cannot start a thread: {e}")))?;
    eprintln!("mpdccp: {} and {} are connected; Ctrl-C removes the link", args.a, args.b);
    print(&lines, args.json)?;
    cable.join().unwrap_or_else(|_| Err(Error::runtime("the link's thread panicked")))
}

/// Creates the interface at one end.
fn device(place: &Place, addresses: &[IpNet], mtu: u16) -> Result<Tun, Error> {
    let config = TunConfig {
        name: place.name.clone(),
        addresses: addresses.iter().map(|net| (net.addr(), net.prefix_len())).collect(),
        mtu,
        // The link carries single packets, so disable super-packets.
        offload: false,
    };
    let made = match &place.netns {
        None => Tun::create(&config),
        Some(netns) => {
            let entrance = Entrance::open(netns).map_err(|e| {
                Error::usage(match e.kind() {
                    ErrorKind::NotFound => {
                        format!("{place}: namespace {netns} does not exist; create it: ip netns add {netns}")
                    }
                    _ => format!("{place}: cannot open namespace {netns}: {e}"),
                })
            })?;
            entrance.inside(|| Tun::create(&config)).map_err(|e| {
                Error::usage(format!("{place}: cannot enter namespace {netns}: {e}; use sudo"))
            })?
        }
    };
    made.map_err(|e| {
        Error::usage(match e.kind() {
            ErrorKind::PermissionDenied => {
                format!("{place}: no permission to create an interface; use sudo or CAP_NET_ADMIN")
            }
            ErrorKind::NotFound => {
                format!("{place}: /dev/net/tun does not exist; load the kernel module: modprobe tun")
            }
            ErrorKind::ResourceBusy => {
                format!("{place}: an interface of this name already exists; choose another name")
            }
            _ => format!("{place}: cannot create the interface: {e}"),
        })
    })
}

/// Forwards packets until stopped. Reports once per second.
fn carry(
    mut cable: Cable<Meter>,
    (links, course): (Links, Option<Box<dyn Iterator<Item = Step> + Send>>),
    (stop, time): (&AtomicBool, Option<Duration>),
    reports: &SyncSender<Line>,
) -> Result<(), Error> {
    let mut course = course.into_iter().flatten().peekable();
    hurry(Urgency::Link);
    let start = Clock.now();
    let end = time.map(|time| start + time);
    let mut last = start;
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Clock.now() < end) {
        while let Some(step) = course.next_if(|step| start + step.at <= Clock.now()) {
            for (link, config) in cable.links().into_iter().zip(links.at(&step)) {
                let changed = link.reconfigure(start + step.at, config);
                changed
                    .map_err(|e| Error::runtime(format!("the link model produced an invalid link: {e}")))?;
            }
        }
        let next = last + INTERVAL;
        let change = course.peek().map(|step| start + step.at);
        cable
            .turn([Some(next), end, change].into_iter().flatten().min())
            .map_err(|e| Error::runtime(format!("an interface of the link failed: {e}")))?;
        let now = Clock.now();
        if now >= next {
            // Do not block: a slow reader of the reports must not delay packets.
            let _ = reports.try_send(line(&mut cable, start, last, now));
            last = now;
        }
    }
    // Report the last, incomplete second.
    let _ = reports.try_send(line(&mut cable, start, last, Clock.now()));
    Ok(())
}

fn line(cable: &mut Cable<Meter>, start: Time, last: Time, now: Time) -> Line {
    let [(stats, queued), (reverse_stats, reverse_queued)] =
        cable.links().map(|link| (*link.stats(), link.queue_len().bytes));
    let [forward, reverse] = cable.recorders();
    let elapsed = now.since(last);
    Line {
        t: now.since(start).as_secs_f64(),
        a_to_b: forward.report(&stats, queued, elapsed),
        b_to_a: reverse.report(&reverse_stats, reverse_queued, elapsed),
    }
}

/// Prints reports until the link ends.
fn print(lines: &Receiver<Line>, json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout();
    for line in lines {
        let text = if json {
            serde_json::to_string(&line).map_err(std::io::Error::from)?
        } else {
            format!(
                "{:7.1} s  a to b {}\n           b to a {}",
                line.t,
                line.a_to_b.text(),
                line.b_to_a.text()
            )
        };
        // Ignore the error: the link continues even if nobody reads its reports.
        let _ = writeln!(out, "{text}");
    }
    Ok(())
}

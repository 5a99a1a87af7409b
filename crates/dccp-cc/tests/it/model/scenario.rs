//! Scenarios shared by the tests.

use super::{Session, Source, WIRE, World};
use dccp_cc::{Bbr1, Bbr1Tuning, Bbr3, CcConfig, Controller, Cubic, Reno};
use mpdccp_linkem::{Jitter, Limit, LinkConfig, QueueConfig, QueueKind, RateModel};
use mpdccp_units::{Duration, Rate, Time};

pub const CFG: CcConfig = CcConfig { mtu: 1500, packets: false, draft: false, seed: 7 };

/// A function that creates a controller from a seed.
pub type Make<'a> = &'a dyn Fn(u64) -> Box<dyn Controller>;

pub fn bbr(tuning: Bbr1Tuning) -> impl Fn(u64) -> Box<dyn Controller> {
    move |seed| Box::new(Bbr1::with_tuning(&CcConfig { seed, ..CFG }, tuning))
}

/// Creates the default congestion control of a CCID.
pub fn ccid(n: u8, seed: u64) -> Box<dyn Controller> {
    let cfg = CcConfig { seed, ..CFG };
    match n {
        2 => Box::new(Reno::new(&cfg)),
        5 => Box::new(Bbr1::new(&cfg)),
        7 => Box::new(Cubic::new(&cfg)),
        250 => Box::new(Bbr3::new(&cfg)),
        _ => panic!("CCID {n}"),
    }
}

pub fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

pub fn at(secs: f64) -> Time {
    Time::from_secs_f64(secs)
}

/// Creates a drop-tail queue of this many bytes.
pub fn drop_tail(bytes: u64) -> QueueConfig {
    QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(bytes) }
}

/// Creates a link with a constant rate. Its drop-tail queue holds `queue_bdps` BDPs, and at least 30 packets.
pub fn link(mbps: f64, rtt: Duration, queue_bdps: f64) -> LinkConfig {
    let bdp = Rate::from_mbps(mbps).bytes_in(rtt) as f64;
    LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(mbps)),
        delay: rtt / 2,
        queue: drop_tail(((bdp * queue_bdps) as u64).max(30 * u64::from(WIRE))),
        ..LinkConfig::default()
    }
}

/// Creates a link whose rate is 1 Gbit/s for 5 s and then 10 Mbit/s.
pub fn dropping(owd_ms: f64, queue: u64) -> LinkConfig {
    let steps =
        vec![(Duration::ZERO, Rate::from_mbps(1000.0)), (Duration::from_secs(5), Rate::from_mbps(10.0))];
    LinkConfig {
        rate: RateModel::Steps(steps),
        delay: ms(owd_ms),
        queue: drop_tail(queue),
        ..LinkConfig::default()
    }
}

fn offered(queue: usize) -> Source {
    Source::Cbr { rate: Rate::from_mbps(15.0), queue }
}

/// Experiment A: the rate of one path drops while the application sends 15 Mbit/s. The sender queue holds 5
/// packets.
pub fn one_path_drops(make: Make, owd_ms: f64, queue: u64) -> World {
    let session = Session::new(offered(5), Time::ZERO, vec![(0, ms(owd_ms), make(7))]);
    World::new(vec![dropping(owd_ms, queue)], 1, vec![session])
}

/// Experiment B: the rates of two paths drop. The first path is preferred, and the session's queue holds 100
/// ms of traffic.
pub fn two_paths_drop(make: Make, owd_ms: f64, queue: u64) -> World {
    let paths = vec![(0, ms(owd_ms), make(7)), (1, ms(owd_ms), make(8))];
    let session = Session::new(offered(145), Time::ZERO, paths);
    World::new(vec![dropping(owd_ms, queue), dropping(owd_ms, queue)], 1, vec![session])
}

/// Returns a world with bulk flows on one link, with their start times in seconds.
pub fn bulk(link: LinkConfig, flows: Vec<(f64, Box<dyn Controller>)>) -> World {
    let reverse = link.delay;
    let session = |(start, cc)| Session::new(Source::Bulk, at(start), vec![(0, reverse, cc)]);
    World::new(vec![link], 1, flows.into_iter().map(session).collect())
}

/// Returns a bulk flow over a path with jitter in the forward direction and a delay of `reverse` ms in the
/// reverse direction.
pub fn jittery(mbps: f64, delay: f64, jitter: Jitter, reverse: f64, cc: Box<dyn Controller>) -> World {
    let link = LinkConfig { jitter, ..link(mbps, ms(2.0 * delay), 4.0) };
    World::new(vec![link], 1, vec![Session::new(Source::Bulk, Time::ZERO, vec![(0, ms(reverse), cc)])])
}

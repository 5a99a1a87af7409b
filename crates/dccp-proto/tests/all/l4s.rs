//! CCID 252 at an L4S queue (RFC 9332).
use crate::common::{CLIENT, SERVER};
use crate::tfrc::line::{Line, Load};
use dccp_proto::Config;
use mpdccp_linkem::{DualPi2Config, Limit, LinkConfig, QueueConfig, QueueKind, RateModel};
use mpdccp_units::{Duration, Rate, Time};

const MS: Duration = Duration::from_millis(1);

fn link(mbps: f64, kind: QueueKind, limit: u64) -> LinkConfig {
    LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(mbps)),
        delay: 10 * MS,
        queue: QueueConfig { kind, limit: Limit::Bytes(limit) },
        ..LinkConfig::default()
    }
}

fn run(ccid: u8, link: &LinkConfig, back: &LinkConfig) -> (Line, Time) {
    let config = || Config { tx_ccids: vec![ccid], rx_ccids: vec![ccid], ..Config::default() };
    let mut line = Line::open(config(), config(), [link.clone(), back.clone()], 1);
    line.loads[CLIENT] = Load::bulk(1400);
    let start = line.now;
    line.run(Duration::from_secs(12));
    (line, start + Duration::from_secs(2))
}

/// Returns the share of the rate used by the packets that arrived, including their headers.
fn used(line: &Line, from: Time, mbps: f64) -> f64 {
    line.goodput(SERVER, from, line.now) * 8.0 * 1444.0 / 1400.0 / (mbps * 1e6)
}

#[test]
fn prague_keeps_an_l4s_queue_shallow() {
    let l4s = link(20.0, QueueKind::DualPi2(DualPi2Config::default()), 200_000);
    let (line, from) = run(252, &l4s, &link(20.0, QueueKind::DropTail, 100_000));
    let used = used(&line, from, 20.0);
    let view = line.view(CLIENT);
    let queue = view.rtt.srtt().unwrap().saturating_sub(20 * MS);
    assert!(used > 0.85 && queue < 5 * MS, "{used} {queue:?}");
    assert!(view.ce > 50 && view.lost.packets == 0, "{view:?}");
}

/// Returns the share of a path of 50 Mbit/s and `rtt_ms` that CCID `ccid` uses alone, if the queue marks from
/// a length of 1 ms on.
fn used_alone(ccid: u8, rtt_ms: u32) -> f64 {
    let step = QueueKind::MarkAbove(Limit::Bytes(6_250));
    let delay = rtt_ms * MS / 2;
    let [step, back] =
        [step, QueueKind::DropTail].map(|kind| LinkConfig { delay, ..link(50.0, kind, 1_000_000) });
    let (line, from) = run(ccid, &step, &back);
    used(&line, from, 50.0)
}

#[test]
fn enough_acknowledgements_fill_a_path_whose_queue_marks_early() {
    for rtt_ms in [20, 40] {
        let used = used_alone(252, rtt_ms);
        assert!(used > 0.92, "{rtt_ms}: {used}");
    }
}

#[test]
fn bbr_does_not_take_marks_of_its_own_queue_for_other_flows() {
    for rtt_ms in [15, 30] {
        let used = used_alone(5, rtt_ms);
        assert!(used > 0.88, "{rtt_ms}: {used}");
    }
}

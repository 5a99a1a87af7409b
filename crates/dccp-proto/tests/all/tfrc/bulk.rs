//! One flow that always has data: 10 Mbit/s, 50 ms each way, packets of 1,000 bytes, 200 s.

use super::line::{Line, Load};
use super::{MS, both, ccids, drd, link, seconds};
use crate::common::{CLIENT, SERVER};
use mpdccp_linkem::QueueKind;
use mpdccp_units::{Duration, Time};

const PAYLOAD: usize = 1000;
/// Size of a packet on the wire: payload, IP, UDP and DCCP headers, and NDP Count.
const WIRE: f64 = 1048.0;

#[derive(Debug)]
struct Outcome {
    /// Share of the link that was used from 10 s on.
    utilisation: f64,
    /// The rate given by TCP's equation divided by the measured rate, from 10 s on.
    friendliness: f64,
    /// Share of the 10 s windows, from 10 s on, whose rate is within 10 % of the last window's rate.
    settled: f64,
}

/// Returns the number of loss events. All drops within a round trip of an event's first drop belong to this
/// event.
fn loss_events(line: &Line, from: Time, rtt: Duration) -> usize {
    let mut events: Vec<Time> = Vec::new();
    for (at, _) in line.seen[SERVER].offered.iter().filter(|o| o.1 && o.0 >= from) {
        if events.last().is_none_or(|first| at.since(*first) > rtt) {
            events.push(*at);
        }
    }
    events.len()
}

fn run(kind: QueueKind, plain: bool, seed: u64) -> Outcome {
    let mut config = ccids(3, 3);
    config.cc.plain_tfrc = plain;
    let mut line = Line::open(config, ccids(3, 3), both(&link(10.0, 50 * MS, kind, 125)), seed);
    line.loads[CLIENT] = Load::bulk(PAYLOAD);
    let start = line.now;
    line.run(Duration::from_secs(200));
    let (from, end) = (seconds(start, 10), line.now);

    let rate = line.goodput(SERVER, from, end);
    let rtts = line.views.iter().filter(|(at, _)| *at >= from).filter_map(|(_, view)| view.rtt.srtt());
    let (sum, count) = rtts.fold((Duration::ZERO, 0), |(sum, n), rtt| (sum + rtt, n + 1));
    let rtt = sum / count;
    let sent = line.seen[SERVER].offered.iter().filter(|o| o.0 >= from).count();
    let p = loss_events(&line, from, rtt) as f64 / sent as f64;
    let fair = 1.22 * PAYLOAD as f64 / (rtt.as_secs_f64() * p.sqrt());

    let window = |i: u64| line.goodput(SERVER, seconds(start, i * 10), seconds(start, i * 10 + 10));
    let last = window(19);
    let near = (1..20).filter(|i| (window(*i) / last - 1.0).abs() <= 0.1).count();
    let outcome = Outcome {
        utilisation: rate * WIRE / PAYLOAD as f64 * 8.0 / 10e6,
        friendliness: fair / rate,
        settled: near as f64 / 19.0,
    };
    println!("seed {seed}, plain {plain}: {outcome:.3?}, mean RTT {rtt:.1?}, p {p:.2e}");
    outcome
}

#[test]
fn uses_the_link_steadily_and_as_fast_as_the_equation_says() {
    for seed in 1..=5 {
        let got = run(drd(), false, seed);
        assert!(got.utilisation >= 0.93, "{seed}: {}", got.utilisation);
        assert!((0.9..=1.1).contains(&got.friendliness), "{seed}: {}", got.friendliness);
        assert!(got.settled >= 0.9, "{seed}: {}", got.settled);
    }
}

#[test]
fn drop_tail_and_no_reduction_of_oscillations_cost_little() {
    for (kind, plain) in [(QueueKind::DropTail, false), (QueueKind::DropTail, true), (drd(), true)] {
        let got = run(kind, plain, 1);
        assert!(got.utilisation >= 0.93, "{plain}: {}", got.utilisation);
        assert!((0.8..=1.25).contains(&got.friendliness), "{plain}: {}", got.friendliness);
        assert!(got.settled >= 0.8, "{plain}: {}", got.settled);
    }
}

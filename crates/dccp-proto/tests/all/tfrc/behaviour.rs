//! Connections with CCID 3 or 4: at the start, without data, without feedback, with marks, and with a
//! different CCID in the reverse direction.

use super::line::{Line, Load};
use super::{MS, SECOND, both, ccids, link};
use crate::common::{CLIENT, SERVER};
use dccp_proto::Side;
use dccp_wire::feature;
use mpdccp_linkem::{Limit, LossModel, QueueKind};

fn open(ccid: u8, mbps: f64) -> Line {
    let config = ccids(ccid, ccid);
    Line::open(config.clone(), config, both(&link(mbps, 50 * MS, QueueKind::DropTail, 100)), 1)
}

#[test]
fn features_that_the_ccids_need_are_negotiated() {
    for ccid in [3, 4] {
        let line = open(ccid, 10.0);
        for end in &line.ends {
            assert_eq!(end.ccids(), Some((ccid, ccid)));
            for number in [feature::SEND_LOSS_EVENT_RATE, feature::SEND_NDP_COUNT] {
                assert_eq!((end.feature(number, Side::Local), end.feature(number, Side::Remote)), (1, 1));
            }
        }
    }
}

#[test]
fn starts_slowly_and_doubles() {
    let mut line = open(3, 1000.0);
    line.loads[CLIENT] = Load::bulk(1000);
    // RFC 5348 section 4.2: four packets leave in the first round trip.
    line.run(95 * MS);
    assert_eq!(line.seen[SERVER].offered.len(), 4);
    let mut before = 4;
    for round in 1..6 {
        line.run(110 * MS);
        let sent = line.seen[SERVER].offered.len() - before;
        before += sent;
        assert!(sent <= 5 << round, "{round}: {sent}");
        assert!(round < 3 || sent >= 2 << (round - 2), "{round}: {sent}");
    }
    assert_eq!(line.view(CLIENT).phase, "slow_start");
}

#[test]
fn feedback_comes_once_a_round_trip() {
    let mut line = open(3, 10.0);
    line.loads[CLIENT] = Load { payload: 1000, every: 10 * MS };
    line.run(5 * SECOND);
    line.seen = Default::default();
    line.run(20 * SECOND);
    // The run lasts 200 round trips, each with about one report.
    assert!((160..=220).contains(&line.seen[CLIENT].acks), "{}", line.seen[CLIENT].acks);
    // CCVal increases by one every quarter of a round trip.
    let counters = &line.seen[SERVER].counters;
    let steps: u64 = counters.windows(2).map(|w| u64::from(w[1].wrapping_sub(w[0]) % 16)).sum();
    assert!(counters.windows(2).all(|w| w[1].wrapping_sub(w[0]) % 16 <= 5));
    assert!((650..=850).contains(&steps), "{steps}");
}

#[test]
fn an_application_that_sends_less_is_not_held_back() {
    let mut line = open(3, 10.0);
    line.loads[CLIENT] = Load { payload: 1000, every: 20 * MS };
    line.run(10 * SECOND);
    let offered = line.seen[SERVER].offered.len();
    assert!(offered >= 490, "{offered}");
    assert!(line.view(CLIENT).app_limited);
    // RFC 5348 section 4.4: idle time does not reduce the rate below the initial rate, 4 packets in 100 ms.
    line.loads[CLIENT] = Load::NONE;
    line.run(60 * SECOND);
    assert_eq!(line.view(CLIENT).timeouts, 0);
    assert!(line.view(CLIENT).pacing.unwrap().mbps() >= 0.32, "{:?}", line.view(CLIENT).pacing);
}

#[test]
fn silence_halves_the_rate_and_feedback_brings_it_back() {
    let mut line = open(3, 10.0);
    line.loads[CLIENT] = Load::bulk(1000);
    line.run(20 * SECOND);
    let before = line.view(CLIENT).pacing.unwrap();
    line.links[SERVER].set_down(line.now);
    line.run(3 * SECOND);
    let view = line.view(CLIENT);
    assert!(view.timeouts >= 4, "{}", view.timeouts);
    assert!(view.pacing.unwrap() < before.scale(0.1), "{:?} {before:?}", view.pacing);
    line.run(300 * SECOND);
    // RFC 5348 section 4.3: the minimum rate is one packet per 64 s.
    let least = line.view(CLIENT).pacing.unwrap();
    assert!(least.bps() >= 1048 * 8 / 64 && least.bps() < 1000, "{least:?}");
    line.links[SERVER].set_up(line.now);
    line.run(100 * SECOND);
    assert!(line.view(CLIENT).pacing.unwrap().mbps() > 2.0, "{:?}", line.view(CLIENT));
}

#[test]
fn random_loss_holds_it_to_the_equation() {
    let lossy = |p| mpdccp_linkem::LinkConfig {
        loss: LossModel::Bernoulli(p),
        ..link(100.0, 50 * MS, QueueKind::DropTail, 1000)
    };
    for (p, least, most) in [(0.01, 70e3, 190e3), (0.001, 280e3, 650e3)] {
        let mut line = Line::open(ccids(3, 3), ccids(3, 3), [lossy(p), lossy(0.0)], 3);
        line.loads[CLIENT] = Load::bulk(1000);
        let start = line.now;
        line.run(200 * SECOND);
        let rate = line.goodput(SERVER, start + 50 * SECOND, line.now);
        // The equation gives 112 and 384 kB/s.
        assert!((least..most).contains(&rate), "{p}: {rate}");
    }
}

#[test]
fn marks_count_as_losses() {
    let mark = QueueKind::MarkAbove(Limit::Packets(30));
    let config = ccids(3, 3);
    let mut line = Line::open(config.clone(), config, both(&link(10.0, 50 * MS, mark, 1000)), 1);
    line.loads[CLIENT] = Load::bulk(1000);
    let start = line.now;
    line.run(100 * SECOND);
    assert!(line.seen[SERVER].offered.iter().all(|o| !o.1), "nothing was lost");
    let view = line.view(CLIENT);
    assert!(view.lost.packets > 0 && view.phase == "equation", "{view:?}");
    let rate = line.goodput(SERVER, start + 20 * SECOND, line.now);
    assert!(rate * 8.384 > 9e6, "{rate}");
}

#[test]
fn small_packets_keep_their_distance_and_get_their_share() {
    let lossy = |p| mpdccp_linkem::LinkConfig {
        loss: LossModel::Bernoulli(p),
        ..link(100.0, 50 * MS, QueueKind::DropTail, 1000)
    };
    let rate = |ccid: u8, p: f64| {
        let mut line = Line::open(ccids(ccid, ccid), ccids(ccid, ccid), [lossy(p), lossy(0.0)], 5);
        line.loads[CLIENT] = Load::bulk(100);
        let start = line.now;
        line.run(200 * SECOND);
        let sent = &line.seen[SERVER].offered;
        let least = sent.windows(2).map(|w| w[1].0 - w[0].0).min().unwrap();
        (line.goodput(SERVER, start + 50 * SECOND, line.now), least)
    };
    // RFC 5622 section 5: 10 ms between packets, although the equation would permit a higher rate.
    let (fast, least) = rate(4, 0.001);
    assert!(least >= 10 * MS && fast > 9_500.0, "{fast} {least:?}");
    // At 5 % loss, the equation assumes segments of 1,460 bytes instead of 100, and reduces the rate by the
    // share of the headers.
    let ((small, _), (plain, _)) = (rate(4, 0.05), rate(3, 0.05));
    assert!(small > 1.5 * plain && small < 14.6 * plain, "{small} {plain}");
}

#[test]
fn each_direction_has_its_own_ccid() {
    // The link has 10 Mbit/s down and 1 Mbit/s up. The CCIDs differ between the two directions: the client
    // sends little and the server sends much.
    let down = link(10.0, 20 * MS, QueueKind::DropTail, 60);
    let up = link(1.0, 20 * MS, QueueKind::DropTail, 10);
    for (up_ccid, down_ccid) in [(2, 3), (3, 2)] {
        let client = ccids(up_ccid, down_ccid);
        let server = ccids(down_ccid, up_ccid);
        let mut line = Line::open(client, server, [up.clone(), down.clone()], 1);
        assert_eq!(line.ends[CLIENT].ccids(), Some((up_ccid, down_ccid)));
        assert_eq!(line.ends[SERVER].ccids(), Some((down_ccid, up_ccid)));
        line.loads = [Load::bulk(1000), Load::bulk(1000)];
        let start = line.now;
        line.run(100 * SECOND);
        let from = start + 50 * SECOND;
        let (sent_up, sent_down) =
            (line.goodput(SERVER, from, line.now), line.goodput(CLIENT, from, line.now));
        // The figures count payload only. Headers and the other direction's acknowledgements use the rest of
        // the link.
        assert!(sent_up * 8.0 > 0.6e6 && sent_up * 8.0 < 1e6, "{up_ccid} up: {sent_up}");
        assert!(sent_down * 8.0 > 7e6 && sent_down * 8.0 < 10e6, "{down_ccid} down: {sent_down}");
    }
}

//! Tests of a single connection of the model, with one link in each direction.

mod reordering;

use core::time::Duration;

use mpdccp_linkem::{
    Jitter, Limit, Link, LinkConfig, LossModel, Meta, Policer, QueueConfig, QueueKind, RateModel, Spread,
};
use mpdccp_units::{Rate, Time};

use mpdccp_proxy::{Flow, Request, Tuple};

use super::segment::{Ack, Data};
use super::*;

fn link(mbps: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(125_000) },
        ..LinkConfig::default()
    }
}

/// Runs a connection for `secs` seconds. Returns the data rate after the first second (Mbit/s) and the
/// connection.
fn run(cc: &str, rule: Rule, config: LinkConfig, secs: u64) -> (f64, Tcp) {
    drive(Tcp::new(0, 1500, cc, rule, 1), config, secs)
}

fn drive(mut tcp: Tcp, config: LinkConfig, secs: u64) -> (f64, Tcp) {
    tcp.write(u64::MAX);
    let mut links = [1, 2].map(|seed| Link::new(config.clone(), seed, Time::ZERO).unwrap());
    let end = Time::from_millis(secs * 1_000);
    let (mut now, mut after_first) = (Time::ZERO, 0);
    while now < end {
        while let Some(out) = tcp.poll(now) {
            let ecn = mpdccp_units::Ecn::from_bits(out.packet[1]);
            let meta = Meta { bytes: out.packet.len() as u32, ecn, ..Meta::default() };
            links[out.from as usize].push(now, meta, out.packet);
        }
        let due = links.iter().filter_map(Link::next_event).chain(tcp.next_timeout()).min().unwrap();
        now = now.max(due);
        for (to, i) in [(Side::Server, 0), (Side::Client, 1)] {
            while let Some(mut out) = links[i].pop(now) {
                out.packet[1] = out.meta.ecn.bits();
                tcp.handle(now, to, &segment::read(&out.packet).unwrap());
            }
        }
        if now < Time::from_millis(1_000) {
            after_first = tcp.delivered();
        }
    }
    let mbps = (tcp.delivered() - after_first) as f64 * 8.0 / 1e6 / (secs - 1) as f64;
    (mbps, tcp)
}

/// Data rate, in Mbit/s, on a fully used link of 10 Mbit/s.
const FULL: f64 = 10.0 * 1448.0 / 1500.0;

#[test]
fn every_algorithm_fills_a_link() {
    for cc in ["reno", "cubic", "bbr"] {
        for rule in [Rule::Rack, Rule::Three] {
            let (mbps, tcp) = run(cc, rule, link(10.0, 10), 20);
            assert!(mbps > 0.97 * FULL && mbps <= 1.01 * FULL, "{cc} {rule:?}: {mbps}");
            assert_eq!(tcp.counters().dsack, 0, "{cc} {rule:?}");
        }
    }
}

#[test]
fn bbr_keeps_its_rate_under_loss_that_stops_reno() {
    let lossy = LinkConfig { loss: LossModel::Bernoulli(0.02), ..link(10.0, 20) };
    let (reno, tcp) = run("reno", Rule::Rack, lossy.clone(), 30);
    assert!(tcp.counters().retransmits > 50);
    let (bbr, _) = run("bbr", Rule::Rack, lossy, 30);
    assert!(bbr > 0.8 * FULL, "{bbr}");
    assert!(reno < 0.6 * FULL, "{reno}");
    // The rate of 1.22 / (R sqrt p) packets per second comes to 2.5 Mbit/s. The queue increases R, so the
    // measured rate is lower.
    assert!(reno > 1.0, "{reno}");
}

#[test]
fn bbr_detects_a_policer_and_loses_little_there() {
    let policer = Some(Policer { rate: Rate::from_mbps(10.0), burst: 50_000 });
    let (mbps, tcp) = run("bbr", Rule::Rack, LinkConfig { policer, ..link(100.0, 2) }, 20);
    let lost = tcp.counters().retransmits as f64 * 1448.0 / tcp.delivered() as f64;
    assert!(mbps > 0.97 * FULL, "{mbps}");
    assert!(lost < 0.1, "{lost}");
}

#[test]
fn rack_bears_reordering_and_a_fixed_threshold_does_not() {
    let jitter =
        Jitter { spread: Spread::Uniform(Duration::from_millis(5)), reorder: true, ..Jitter::default() };
    let reordering = LinkConfig { jitter, ..link(10.0, 20) };
    let (rack, tolerant) = run("cubic", Rule::Rack, reordering.clone(), 20);
    let (_, strict) = run("cubic", Rule::Three, reordering, 20);
    assert!(rack > 0.9 * FULL, "{rack}");
    assert!(tolerant.counters().dsack > 0, "RACK learns from spurious retransmissions");
    assert!(strict.counters().dsack > 10 * tolerant.counters().dsack, "{:?}", strict.counters());
}

fn sent(tcp: &mut Tcp, now: u64) -> Vec<Data> {
    std::iter::from_fn(|| tcp.poll(Time::from_millis(now)))
        .map(|out| match segment::read(&out.packet) {
            Some(Segment::Data(data)) => data,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn ack(tcp: &mut Tcp, now: u64, upto: u64, echo: u64, blocks: &[(u64, u64)]) {
    let ack = Ack { upto, echo, window: 1 << 20, blocks: blocks.to_vec(), ..Ack::default() };
    tcp.handle(Time::from_millis(now), Side::Client, &Segment::Ack(ack));
}

/// Opens the connection with a handshake that takes 50 ms.
fn open(tcp: &mut Tcp) -> u64 {
    for now in [0, 25, 50] {
        let step = tcp.poll(Time::from_millis(now)).and_then(|out| segment::read(&out.packet)).unwrap();
        let to = if now == 25 { Side::Client } else { Side::Server };
        tcp.handle(Time::from_millis(now + 25), to, &step);
    }
    50
}

#[test]
fn a_connection_begins_with_ten_segments_after_a_round_trip() {
    for cc in ["reno", "cubic", "bbr"] {
        let mut tcp = Tcp::new(0, 1500, cc, Rule::Rack, 1);
        tcp.write(u64::MAX);
        assert_eq!(tcp.sender().rtt().srtt(), None);
        let now = open(&mut tcp);
        assert_eq!(tcp.sender().rtt().srtt(), Some(Duration::from_millis(50)), "{cc}");
        assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 10, "{cc}");
        let burst = sent(&mut tcp, now).len();
        assert!(if cc == "bbr" { burst > 0 } else { burst == 10 }, "{cc}: {burst}");
    }
}

#[test]
fn a_spurious_timeout_is_undone_before_anything_is_repeated() {
    for cc in ["reno", "cubic"] {
        let mut tcp = Tcp::new(0, 1500, cc, Rule::Rack, 1);
        tcp.write(u64::MAX);
        let begun = open(&mut tcp);
        let window = sent(&mut tcp, begun);
        // All segments are delayed, and arrive only after the probe and the timeout.
        let mut late = 0;
        while tcp.counters().retransmits < 1 {
            late = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
            sent(&mut tcp, late);
        }
        assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 1, "{cc}");
        let mut again = 0;
        for (i, data) in window.iter().enumerate() {
            ack(&mut tcp, late + 5, data.start + 1448, data.no, &[]);
            again += sent(&mut tcp, late + 5).iter().filter(|d| d.start < window[9].start).count();
            if i == 1 {
                assert!(
                    tcp.sender().controller().limits().cwnd.packets(1500) >= 10,
                    "{cc}: the window was not restored"
                );
            }
        }
        assert_eq!(again, 0, "{cc}");
    }
}

#[test]
fn a_burst_of_losses_is_repaired_without_another_burst() {
    let (mut tcp, begun, window) = slow_start("reno");
    let now = begun + 50;
    let at = |i: usize| window[i].start;
    // Of ten segments, six are lost and three arrive.
    for last in &window[7..10] {
        ack(&mut tcp, now, at(1), last.no, &[(at(7), last.start + 1448)]);
    }
    let mut repaired = sent(&mut tcp, now).len();
    assert!(repaired < 3, "{repaired}");
    for i in 1..7 {
        ack(&mut tcp, now + 50, at(i + 1), window[9].no + i as u64, &[]);
        let more = sent(&mut tcp, now + 50).len();
        assert!(more <= 2, "{more}");
        repaired += more;
    }
    assert_eq!(repaired, 6);
    // Three acknowledgements in slow start have grown the window to 13 packets; the loss halves it.
    assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 6);
}

#[test]
fn marks_halve_the_window_once_a_round_trip_and_nothing_is_lost_after_slow_start() {
    let marking = LinkConfig {
        queue: QueueConfig { kind: QueueKind::MarkAbove(Limit::Bytes(50_000)), limit: Limit::Bytes(125_000) },
        ..link(10.0, 20)
    };
    let run_marked = |secs| {
        let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
        tcp.use_ecn();
        drive(tcp, marking.clone(), secs)
    };
    let (mbps, tcp) = run_marked(20);
    assert!(mbps > 0.9 * FULL, "{mbps}");
    // Slow start overflows the queue in the round trip in which the first mark arrives. After this round
    // trip, nothing is lost.
    assert_eq!(tcp.counters().retransmits, run_marked(2).1.counters().retransmits);
    // Without ECN the same queue fills up and drops repeatedly.
    let dropping = |secs| run("reno", Rule::Rack, marking.clone(), secs).1.counters().retransmits;
    assert!(dropping(20) > dropping(2));
}

/// Returns a sender in slow start on a path with a round-trip time of 50 ms, the send time of the first
/// window of at least eight segments, and these segments.
fn slow_start(cc: &str) -> (Tcp, u64, Vec<Data>) {
    let mut tcp = Tcp::new(0, 1500, cc, Rule::Rack, 1);
    tcp.write(u64::MAX);
    let mut now = open(&mut tcp);
    loop {
        let window = sent(&mut tcp, now);
        assert!(!window.is_empty());
        if window.len() >= 8 {
            tcp.finish();
            return (tcp, now, window);
        }
        now += 50;
        for data in window {
            ack(&mut tcp, now, data.start + 1448, data.no, &[]);
        }
    }
}

#[test]
fn a_hole_is_sent_again_at_once_after_three_later_segments() {
    let (mut tcp, begun, window) = slow_start("reno");
    let next_no = window[window.len() - 1].no + 1;
    let at = |i: usize| window[i].start;
    let now = begun + 50;
    ack(&mut tcp, now, at(1), window[0].no, &[]);
    ack(&mut tcp, now, at(1), window[2].no, &[(at(2), at(3))]);
    ack(&mut tcp, now, at(1), window[3].no, &[(at(2), at(4))]);
    assert!(sent(&mut tcp, now).is_empty());
    ack(&mut tcp, now, at(1), window[4].no, &[(at(2), at(5))]);
    assert_eq!(sent(&mut tcp, now), [Data { no: next_no, sent_ms: now as u32, ..window[1] }]);
    assert_eq!(tcp.counters().retransmits, 1);
    // The original segment arrives late, so the window is restored.
    let reduced = tcp.sender().controller().limits().cwnd.bytes(1500);
    ack(&mut tcp, now + 5, at(7), window[1].no, &[]);
    let restored = tcp.sender().controller().limits().cwnd.bytes(1500);
    assert!(restored > reduced + reduced / 2, "{reduced} {restored}");
}

/// First lets a segment arrive after `ahead` later segments. Then returns by how many packets the window
/// grows when a segment arrives after a hole.
fn growth_after_reordering(rule: Rule, ahead: usize) -> u64 {
    let mut tcp = Tcp::new(0, 1500, "reno", rule, 1);
    tcp.write(u64::MAX);
    let now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    ack(&mut tcp, now + 50, 0, window[ahead].no, &[(at(1), at(ahead + 1))]);
    ack(&mut tcp, now + 50, at(ahead + 1), window[0].no, &[]);
    let packets = |tcp: &Tcp| tcp.sender().controller().limits().cwnd.packets(1500);
    let before = packets(&tcp);
    ack(&mut tcp, now + 51, at(ahead + 1), window[ahead + 2].no, &[(at(ahead + 2), at(ahead + 3))]);
    packets(&tcp) - before
}

#[test]
fn segments_after_a_hole_open_the_window_only_once_reordering_was_large() {
    assert_eq!([2, 3].map(|ahead| growth_after_reordering(Rule::Rack, ahead)), [0, 1]);
    assert_eq!(growth_after_reordering(Rule::Three, 1), 1, "QUIC's window grows");
}

/// Returns a connection with QUIC's rule, and its first window of ten segments, sent at 50 ms.
fn quic() -> (Tcp, Vec<Data>) {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Three, 1);
    tcp.write(u64::MAX);
    let now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    (tcp, window)
}

#[test]
fn a_recovery_of_quic_lasts_until_a_packet_sent_after_the_reduction_arrives() {
    let packets = |tcp: &Tcp| tcp.sender().controller().limits().cwnd.packets(1500);
    let (mut tcp, window) = quic();
    let at = |i: usize| i as u64 * 1448;
    ack(&mut tcp, 100, 0, window[4].no, &[(at(1), at(5))]);
    let again = sent(&mut tcp, 100);
    assert_eq!((again[0].start, packets(&tcp)), (0, 5));
    let mut late = tcp;
    // The retransmission overtakes five segments, which were sent before the reduction.
    ack(&mut late, 150, at(5), again[0].no, &[]);
    assert!(sent(&mut late, 150).iter().any(|data| data.start == at(5)));
    assert!(packets(&late) >= 5, "{}", packets(&late));

    // The retransmission is lost, which counts as a second congestion event.
    let (mut tcp, _) = quic();
    ack(&mut tcp, 100, 0, window[9].no, &[(at(1), at(10))]);
    let end = sent(&mut tcp, 100).last().unwrap().start + 1448;
    ack(&mut tcp, 150, 0, 14, &[(at(1), end)]);
    assert_eq!(packets(&tcp), 2);
}

#[test]
fn probe_timeouts_of_quic_double_and_leave_the_window_alone() {
    let (mut tcp, window) = quic();
    // The probe timeout of 175 ms is the round-trip time of 50 ms, plus four times its variation of 25 ms,
    // plus the receiver's maximum delay of 25 ms. It doubles each time.
    for due in [50 + 175, 50 + 3 * 175] {
        assert_eq!(tcp.next_timeout(), Some(Time::from_millis(due)));
        assert_eq!(sent(&mut tcp, due).len(), 2);
    }
    assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), window.len() as u64);
    // The third timeout indicates persistent congestion, which reduces the window to one packet.
    sent(&mut tcp, 50 + 7 * 175);
    assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 1);
}

#[test]
fn the_tail_is_probed_after_two_round_trips_and_then_times_out() {
    let (mut tcp, begun, window) = slow_start("cubic");
    let last = window[window.len() - 1];
    let missing = window[window.len() - 2];
    let now = begun + 50;
    ack(&mut tcp, now, missing.start, missing.no - 1, &[]);
    // The probe is due two round trips and 2 ms after the acknowledgement, in whole ticks, and a tick.
    assert_eq!(tcp.next_timeout(), Some(Time::from_millis(now + 108)));
    let again = |data: Data, now, no| [Data { no, sent_ms: now as u32, ..data }];
    assert_eq!(sent(&mut tcp, now + 108), again(last, now + 108, last.no + 1));
    assert_eq!(tcp.next_timeout(), Some(Time::from_millis(now + 364)));
    assert_eq!(sent(&mut tcp, now + 364), again(missing, now + 364, last.no + 2));
    assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 1);
}

/// Returns a sender in recovery, the start of the recovery, the window's segments, and the controller's
/// window before the recovery. Segments 1 and 2 are delayed, and `arrived` later segments have arrived.
fn recovering(arrived: usize) -> (Tcp, u64, Vec<Data>, u64) {
    let (mut tcp, begun, window) = slow_start("reno");
    let at = |i: usize| window[i].start;
    let now = begun + 50;
    ack(&mut tcp, now, at(1), window[0].no, &[]);
    let before = tcp.sender().controller().limits().cwnd.bytes(1500);
    for later in window.iter().skip(3).take(arrived) {
        ack(&mut tcp, now, at(1), later.no, &[(at(3), later.start + 1448)]);
    }
    assert!(tcp.sender().controller().limits().cwnd.bytes(1500) < before);
    (tcp, now, window, before)
}

#[test]
fn duplicates_reported_of_all_that_was_repeated_undo_the_reduction() {
    let (mut tcp, now, window, before) = recovering(usize::MAX);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    let end = at(window.len());
    let mut again = sent(&mut tcp, now);
    // Each retransmission arrives before its original.
    while again.len() < 2 {
        let copy = again[0];
        ack(&mut tcp, now + 50, at(2), copy.no, &[(at(3), end)]);
        again.extend(sent(&mut tcp, now + 50));
    }
    assert_eq!(again.iter().map(|d| d.start).collect::<Vec<_>>(), [at(1), at(2)]);
    ack(&mut tcp, now + 100, end, again[1].no, &[]);
    let window_now = |tcp: &Tcp| tcp.sender().controller().limits().cwnd.bytes(1500);
    let duplicate = |tcp: &mut Tcp, i: usize| {
        let blocks = vec![(at(i), at(i + 1))];
        let report =
            Ack { upto: end, echo: again[1].no, window: 1 << 20, dsack: true, blocks, ..Ack::default() };
        tcp.handle(Time::from_millis(now + 101), Side::Client, &Segment::Ack(report));
    };
    duplicate(&mut tcp, 1);
    assert!(window_now(&tcp) < before, "only one of two retransmissions was a duplicate");
    duplicate(&mut tcp, 2);
    assert!(window_now(&tcp) >= before);
}

#[test]
fn an_answer_to_what_left_before_any_repetition_undoes_the_whole_reduction() {
    let (mut tcp, now, window, before) = recovering(3);
    let at = |i: usize| window[i].start;
    assert_eq!(sent(&mut tcp, now)[0].start, at(1));
    // The first original arrives; the second is still missing.
    ack(&mut tcp, now + 5, at(2), window[1].no, &[(at(3), at(6))]);
    assert!(tcp.sender().controller().limits().cwnd.bytes(1500) >= before);
    // RACK does not judge the second segment again, so only a timeout retransmits it.
    assert_eq!(tcp.near.sender.judge_at, None);
    assert_eq!(sent(&mut tcp, now + 500)[0].start, at(2));
}

#[test]
fn while_retransmissions_are_in_flight_a_late_segment_stops_the_search_for_losses() {
    let (mut tcp, now, window, _) = recovering(3);
    let at = |i: usize| window[i].start;
    let mut again = sent(&mut tcp, now).len();
    ack(&mut tcp, now, at(1), window[6].no, &[(at(3), at(7))]);
    again += sent(&mut tcp, now).len();
    assert_eq!(again, 2);
    // The first original arrives while RACK's timer runs. So does segment 8, which has overtaken segment 7.
    tcp.near.sender.judge_at = Some(Time::from_millis(now + 6));
    let overtaken = [(at(3), at(7)), (at(8), at(8) + 1448)];
    ack(&mut tcp, now + 5, at(2), window[1].no, &overtaken);
    assert_eq!(tcp.near.sender.judge_at, None);
    ack(&mut tcp, now + 10, at(3), window[2].no, &overtaken);
    assert!(tcp.near.sender.recover.is_none() && tcp.near.sender.judge_at.is_some());
}

#[test]
fn only_arrivals_and_the_timer_cause_losses() {
    let (mut tcp, begun, window) = slow_start("reno");
    let at = |i: usize| window[i].start;
    let now = begun + 50;
    for (later, no) in [(0, 2), (13, 1)] {
        ack(&mut tcp, now + later, at(1), window[no].no, &[(at(2), at(3))]);
        assert_eq!(tcp.sender().lost(), 0);
    }
    // A quarter of the round-trip time and 2 ms have passed, rounded up to whole ticks, and a tick.
    assert_eq!(sent(&mut tcp, now + 19).len(), 0);
    assert_eq!(sent(&mut tcp, now + 20).len(), 1);
    assert_eq!(tcp.sender().lost(), 1);
}

#[test]
fn an_overtaken_acknowledgement_counts_only_if_it_is_young_or_moves_nothing() {
    let (mut tcp, begun, window) = slow_start("reno");
    let at = |i: usize| window[i].start;
    let mut arrived = |upto, sent_ms, block| {
        let (blocks, window) = (vec![(at(block), at(block + 1))], 1 << 20);
        let ack = Ack { upto: at(upto), sent_ms, window, blocks, ..Ack::default() };
        tcp.handle(Time::from_millis(begun + 50), Side::Client, &Segment::Ack(ack));
        tcp.near.sender.board.arrived()
    };
    assert_eq!(arrived(2, 10, 3), 1);
    assert_eq!(arrived(1, 8, 4), 1);
    assert_eq!(arrived(1, 9, 5), 2);
    assert_eq!(arrived(2, 8, 6), 3);
}

#[test]
fn a_repeated_timeout_is_spurious_if_more_is_acknowledged_than_was_repeated() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let begun = open(&mut tcp);
    let window = sent(&mut tcp, begun);
    // All segments arrive, but the acknowledgements are lost.
    let mut again = Vec::new();
    while tcp.counters().retransmits < 2 {
        let now = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
        again.extend(sent(&mut tcp, now));
    }
    let (last, end) = (again.last().unwrap().no, window[9].start + 1448);
    assert_eq!(tcp.sender().controller().limits().cwnd.packets(1500), 1);
    ack(&mut tcp, 2_000, end, last, &[]);
    assert!(tcp.sender().controller().limits().cwnd.packets(1500) >= 10);
}

#[test]
fn a_timeout_after_progress_reduces_again_and_stays() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let begun = open(&mut tcp);
    let window = sent(&mut tcp, begun);
    let time_out = |tcp: &mut Tcp, timeouts| loop {
        let now = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
        let again = sent(tcp, now);
        if tcp.counters().retransmits == timeouts {
            return (now, again[0].no);
        }
    };
    let (first, no) = time_out(&mut tcp, 1);
    ack(&mut tcp, first + 50, window[1].start, no, &[]);
    let fresh = sent(&mut tcp, first + 50);
    let threshold = tcp.sender().controller().threshold();
    let (second, _) = time_out(&mut tcp, 2);
    assert!(tcp.sender().controller().threshold() < threshold);
    // All other segments arrive, but late. That is no proof, because they were sent after the first
    // retransmission.
    let last = fresh[fresh.len() - 1];
    ack(&mut tcp, second + 5, last.start + 1448, last.no, &[]);
    assert!(tcp.sender().controller().threshold() < threshold);
}

#[test]
fn a_round_of_bbr_begins_with_its_recovery() {
    let mut tcp = Tcp::new(0, 1500, "bbr", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let begun = open(&mut tcp);
    let paced =
        |tcp: &mut Tcp, from| -> Vec<Data> { (from..from + 40).flat_map(|now| sent(tcp, now)).collect() };
    let window = paced(&mut tcp, begun);
    let at = |i: usize| window[i].start;
    ack(&mut tcp, begun + 50, at(1), window[0].no, &[]);
    assert!(!paced(&mut tcp, begun + 50).is_empty());
    ack(&mut tcp, begun + 90, at(1), window[4].no, &[(at(2), at(5))]);
    let sender = &tcp.near.sender;
    assert_eq!((sender.recover.is_some(), sender.round_end), (true, sender.next_no));
}

/// Runs both connections of a proxied connection until `until`, and returns the events for the two tunnels.
fn proxy(tcp: &mut Tcp, from: u64, until: u64) -> Vec<(Side, Event)> {
    let (mut now, until, mut events) = (Time::from_millis(from), Time::from_millis(until), Vec::new());
    loop {
        while let Some(out) = tcp.poll(now) {
            tcp.handle_proxied(now, out.from, &out.packet);
        }
        events.extend(std::iter::from_fn(|| tcp.poll_event()));
        match tcp.next_timeout() {
            Some(at) if at <= until => now = now.max(at),
            _ => return events,
        }
    }
}

#[test]
fn a_proxied_connection_reads_what_it_may_and_delivers_what_it_is_given() {
    let (near, far) = (Flow(1), Flow(7));
    let mut tcp = Tcp::new(0, 1500, "cubic", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let syn = tcp.poll(Time::ZERO).unwrap().packet;
    let tuple = Tuple { from: "10.9.0.1:20000".parse().unwrap(), to: "10.9.0.2:9".parse().unwrap() };
    let request = Request { tuple, ttl: 64, traffic_class: 0, ecn: false };
    tcp.on_command(Time::ZERO, &Command::Connect { flow: far, request });
    assert_eq!(proxy(&mut tcp, 0, 10), [(Side::Server, Event::Connected(far))]);
    assert!(!tcp.is_stream());
    tcp.on_command(Time::from_millis(10), &Command::Accept { flow: near, tuple, syn });
    assert_eq!(proxy(&mut tcp, 10, 100), [(Side::Client, Event::Connected(near))]);
    let read = |tcp: &mut Tcp, credit, from| {
        tcp.on_command(Time::from_millis(from), &Command::Credit(near, credit));
        let event = |event: (Side, Event)| match event {
            (Side::Client, Event::Data(flow, data)) if flow == near => data.len() as u64,
            event => panic!("{event:?}"),
        };
        proxy(tcp, from, from + 100).into_iter().map(event).sum::<u64>()
    };
    assert_eq!(
        [(100_000, 100), (0, 300), (10_000_000, 500)].map(|(credit, at)| read(&mut tcp, credit, at)),
        [100_000, 0, 10_000_000]
    );
    tcp.on_command(Time::from_millis(1_000), &Command::Data(far, vec![0; 5_000]));
    assert_eq!(proxy(&mut tcp, 1_000, 1_100), [(Side::Server, Event::Consumed(far, 5_000))]);
    assert_eq!((tcp.delivered(), tcp.is_stream()), (5_000, true));
    assert_eq!(tcp.close(), [(Side::Client, Event::Finished(near)), (Side::Server, Event::Finished(far))]);
}

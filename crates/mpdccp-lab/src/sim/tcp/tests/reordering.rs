//! Tests of the rules by which reordering, losses and retransmissions are told apart.

use super::*;

fn packets(tcp: &Tcp) -> u64 {
    tcp.sender().controller().limits().cwnd.packets(1500)
}

/// Lets an acknowledgement arrive whose first block reports a duplicate.
fn duplicate(tcp: &mut Tcp, now: u64, upto: u64, blocks: &[(u64, u64)]) {
    let echo = tcp.near.sender.next_no - 1;
    let ack = Ack { upto, echo, window: 1 << 20, dsack: true, blocks: blocks.to_vec(), ..Ack::default() };
    tcp.handle(Time::from_millis(now), Side::Client, &Segment::Ack(ack));
}

/// Returns a sender in a recovery in which it has retransmitted segments 1 and 2, and has then sent new
/// segments. All have arrived except segment 1 and, if `lost` is set, the first new segment, which has then
/// been retransmitted, too. Also returns the end of the recovery, the time, and the new segments.
fn repaired(lost: bool) -> (Tcp, u64, u64, Vec<Data>) {
    let (mut tcp, now, window, _) = recovering(usize::MAX);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    let end = at(window.len());
    tcp.write(20 * 1448);
    let mut out = sent(&mut tcp, now);
    let new = out.split_off(2);
    assert_eq!([out[0].start, out[1].start, new[0].start], [at(1), at(2), end]);
    let last = new[new.len() - 1];
    let arrived = if lost { new[1].start } else { end };
    ack(&mut tcp, now + 50, at(1), last.no, &[(at(2), end), (arrived, last.start + 1448)]);
    let again = sent(&mut tcp, now + 50);
    assert_eq!(again.iter().any(|d| d.start == end), lost);
    (tcp, end, now + 100, new)
}

#[test]
fn segments_lost_during_a_recovery_begin_another() {
    for lost in [false, true] {
        let (mut tcp, end, now, new) = repaired(lost);
        let before = packets(&tcp);
        let arrived = new[new.len() - 1].start + 1448;
        let no = new[new.len() - 1].no + 1;
        ack(&mut tcp, now, if lost { end } else { arrived }, no, &[(new[1].start, arrived)]);
        assert_eq!(packets(&tcp) < before, lost, "{before} {}", packets(&tcp));
    }
}

#[test]
fn a_recovery_that_follows_at_once_is_not_undone_by_what_left_during_the_first() {
    let (mut tcp, end, now, new) = repaired(true);
    let arrived = new[new.len() - 1].start + 1448;
    ack(&mut tcp, now, end, new[new.len() - 1].no + 1, &[(new[1].start, arrived)]);
    let reduced = packets(&tcp);
    // The original of the segment, which was sent after the first retransmission, arrives late.
    ack(&mut tcp, now + 5, arrived, new[0].no, &[]);
    assert!(packets(&tcp) <= reduced + 1, "{reduced} {}", packets(&tcp));
}

#[test]
fn a_recovery_that_follows_a_complete_one_can_be_undone() {
    let (mut tcp, _, now, _) = repaired(false);
    let (all, newest) = (tcp.near.sender.next, tcp.near.sender.next_no - 1);
    ack(&mut tcp, now, all, newest, &[]);
    tcp.write(30 * 1448);
    let window = sent(&mut tcp, now);
    assert!(window.len() > 3, "{window:?}");
    let (before, last) = (packets(&tcp), window[window.len() - 1]);
    let end = last.start + 1448;
    ack(&mut tcp, now + 50, all, newest, &[(window[1].start, end)]);
    assert!(packets(&tcp) < before);
    assert_eq!(sent(&mut tcp, now + 50)[0].start, all);
    // The original arrives late.
    ack(&mut tcp, now + 51, end, window[0].no, &[]);
    assert!(packets(&tcp) >= before, "{before} {}", packets(&tcp));
}

#[test]
fn a_late_segment_lets_new_data_go_first_while_retransmissions_are_in_flight() {
    let (mut tcp, begun, window) = slow_start("reno");
    let at = |i: usize| window[0].start + i as u64 * 1448;
    let now = begun + 50;
    ack(&mut tcp, now, at(1), window[0].no, &[]);
    for later in &window[4..7] {
        ack(&mut tcp, now, at(1), later.no, &[(at(4), later.start + 1448)]);
    }
    let mut again = sent(&mut tcp, now);
    let mut arrived = 7;
    while again.len() < 2 {
        ack(&mut tcp, now, at(1), window[arrived].no, &[(at(4), at(arrived + 1))]);
        again.extend(sent(&mut tcp, now));
        arrived += 1;
    }
    assert_eq!(again.iter().map(|d| d.start).collect::<Vec<_>>(), [at(1), at(2)]);
    tcp.write(10 * 1448);
    // The first original arrives.
    ack(&mut tcp, now + 1, at(2), window[1].no, &[(at(4), at(arrived))]);
    let new = sent(&mut tcp, now + 1);
    assert!(new.iter().all(|data| data.start >= at(window.len())), "{new:?}");
    ack(&mut tcp, now + 2, at(2), window[arrived].no, &[(at(4), at(arrived + 1))]);
    assert_eq!(sent(&mut tcp, now + 2).first().map(|d| d.start), Some(at(3)));
}

#[test]
fn the_timer_of_missing_segments_is_for_the_latest() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    ack(&mut tcp, 100, at(1), window[0].no, &[]);
    assert_eq!(sent(&mut tcp, 100).len(), 2);
    ack(&mut tcp, 110, at(2), window[1].no, &[]);
    let last = sent(&mut tcp, 110)[1];
    ack(&mut tcp, 150, at(10), window[9].no, &[]);
    ack(&mut tcp, 155, at(10), last.no, &[(last.start, last.start + 1448)]);
    // The segment sent at 110 ms is lost after the round-trip time of 45 ms and a quarter of it, in 11.25 ms.
    // With the slack, the timer waits for 13.25 ms, rounded up to 16 ms, since the tick at 152 ms. The timer
    // wheel adds a tick.
    assert_eq!(tcp.near.sender.judge_at, Some(Time::from_millis(172)));
}

#[test]
fn timeouts_are_measured_by_the_oldest_segment_and_the_minimum_by_the_newest() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    ack(&mut tcp, 110, window[1].start, window[0].no, &[]);
    let new = sent(&mut tcp, 110);
    ack(&mut tcp, 150, new[0].start + 1448, new[0].no, &[]);
    let sender = &tcp.near.sender;
    assert_eq!(sender.rtt.latest(), Some(Duration::from_millis(40)));
    assert_eq!(sender.oldest_rtt.latest(), Some(Duration::from_millis(100)));
}

#[test]
fn after_a_timeout_duplicates_undo_the_reduction_only_with_progress() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let mut now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    let mut again = None;
    while tcp.counters().retransmits == 0 {
        now = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
        again = sent(&mut tcp, now).last().copied();
    }
    let (no, at) = (again.unwrap().no, |i: usize| window[i].start);
    ack(&mut tcp, now + 50, at(1), no, &[]);
    duplicate(&mut tcp, now + 51, at(1), &[(at(0), at(1))]);
    assert!(packets(&tcp) < 10, "{}", packets(&tcp));
    ack(&mut tcp, now + 52, at(2), no, &[]);
    assert!(packets(&tcp) >= 10, "{}", packets(&tcp));
}

#[test]
fn a_probe_does_not_count_as_the_first_retransmission() {
    let (mut tcp, begun, window) = slow_start("cubic");
    let missing = window[window.len() - 2];
    ack(&mut tcp, begun + 50, missing.start, missing.no - 1, &[]);
    assert_eq!(sent(&mut tcp, begun + 158).len(), 1);
    let sender = &tcp.near.sender;
    assert_eq!((sender.first_again, sender.info("tcpi_retrans")), (None, Some(0)));
    assert_eq!(tcp.counters().retransmits, 1);
}

#[test]
fn a_recovery_is_not_probed() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(3 * 1448);
    let mut now = open(&mut tcp);
    let window = sent(&mut tcp, now);
    // A probe and a timeout.
    while tcp.counters().retransmits < 2 {
        now = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
        sent(&mut tcp, now);
    }
    let newest = tcp.near.sender.next_no - 1;
    ack(&mut tcp, now + 50, window[1].start, newest, &[]);
    assert_eq!([50, 200].map(|later| sent(&mut tcp, now + later).len()), [2, 0]);
}

#[test]
fn data_sent_in_the_millisecond_of_the_first_retransmission_proves_nothing() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(u64::MAX);
    let begun = open(&mut tcp);
    let (window, now) = (sent(&mut tcp, begun), begun + 50);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    ack(&mut tcp, now, at(1), window[0].no, &[]);
    let (new, before) = (sent(&mut tcp, now)[0], packets(&tcp));
    ack(&mut tcp, now, at(1), window[4].no, &[(at(2), at(5))]);
    assert_eq!(sent(&mut tcp, now)[0].start, at(1));
    ack(&mut tcp, now + 5, at(5), new.no, &[]);
    assert!(packets(&tcp) < before, "{before} {}", packets(&tcp));
}

#[test]
fn an_original_that_arrives_late_says_nothing_about_its_retransmission() {
    for late in [true, false] {
        let (mut tcp, now, window, _) = recovering(3);
        let again = sent(&mut tcp, now)[0];
        assert_eq!(again.start, window[1].start);
        let echo = if late { window[1].no } else { again.no };
        ack(&mut tcp, now + 60, window[2].start, echo, &[]);
        assert_eq!(tcp.near.sender.detector.newest() >= Some(again.no), !late);
    }
}

#[test]
fn a_duplicate_after_a_hole_reveals_reordering() {
    let (mut tcp, now, window, _) = recovering(usize::MAX);
    let at = |i: usize| window[0].start + i as u64 * 1448;
    let end = at(window.len());
    tcp.write(20 * 1448);
    let again = sent(&mut tcp, now)[1];
    assert_eq!(again.start, at(2));
    ack(&mut tcp, now + 50, at(1), again.no, &[(at(2), end)]);
    assert!(!tcp.near.sender.detector.grows_after_holes());
    duplicate(&mut tcp, now + 51, at(1), &[(at(2), at(3)), (at(2), end)]);
    assert!(tcp.near.sender.detector.grows_after_holes());
}

#[test]
fn a_retransmission_lost_after_a_timeout_reduces_the_window_again() {
    let (mut tcp, mut now, window) = slow_start("reno");
    let at = |i: usize| window[i].start;
    // A probe and a timeout.
    while tcp.counters().retransmits < 2 {
        now = tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
        sent(&mut tcp, now);
    }
    let head = tcp.near.sender.next_no - 1;
    ack(&mut tcp, now + 50, at(1), head, &[]);
    assert_eq!(sent(&mut tcp, now + 50).len(), 2);
    let threshold = tcp.sender().controller().threshold();
    // The first of the two retransmissions is lost.
    ack(&mut tcp, now + 100, at(1), head, &[(at(2), at(3))]);
    assert_eq!(tcp.sender().info("tcpi_ca_state"), Some(3));
    assert!(tcp.sender().controller().threshold() < threshold, "{threshold:?}");
}

#[test]
fn a_segment_after_a_hole_does_not_prove_a_loss_because_of_a_mark() {
    let (mut tcp, begun, window) = slow_start("reno");
    tcp.use_ecn();
    let (at, now) = (|i: usize| window[i].start, begun + 50);
    let marked = Ack { upto: at(1), echo: window[0].no, window: 1 << 20, ece: true, ..Ack::default() };
    tcp.handle(Time::from_millis(now), Side::Client, &Segment::Ack(marked));
    assert!(tcp.near.sender.recover.is_some());
    ack(&mut tcp, now, at(1), window[2].no, &[(at(2), at(3))]);
    assert_eq!(tcp.sender().lost(), 0);
}

#[test]
fn only_progress_and_retransmitting_the_first_segment_restart_the_timeout() {
    let (mut tcp, begun, window) = slow_start("cubic");
    let (at, now) = (|i: usize| window[i].start, begun + 50);
    ack(&mut tcp, now, at(1), window[0].no, &[]);
    ack(&mut tcp, now + 5, at(1), window[2].no, &[(at(2), at(3))]);
    tcp.near.sender.judge_at = None;
    // A timeout of 63 ticks and a tick.
    assert_eq!(tcp.next_timeout(), Some(Time::from_millis(now + 256)));

    let (mut tcp, now, _, _) = recovering(3);
    assert!(!sent(&mut tcp, now + 40).is_empty());
    assert_eq!(tcp.next_timeout(), Some(Time::from_millis(now + 40 + 256)));
}

#[test]
fn a_timeout_spares_what_was_sent_within_a_round_trip() {
    let mut tcp = Tcp::new(0, 1500, "reno", Rule::Rack, 1);
    tcp.write(2 * 1448);
    let begun = open(&mut tcp);
    let first = sent(&mut tcp, begun);
    ack(&mut tcp, begun + 50, 2 * 1448, first[1].no, &[]);
    tcp.write(3 * 1448);
    assert_eq!(sent(&mut tcp, begun + 50).len(), 3);
    let due = |tcp: &Tcp| tcp.next_timeout().unwrap().as_nanos() / 1_000_000;
    let probe = due(&tcp);
    assert_eq!(sent(&mut tcp, probe).len(), 1);
    let timeout = due(&tcp);
    tcp.write(1448);
    assert_eq!(sent(&mut tcp, timeout - 8).len(), 1);
    assert_eq!(sent(&mut tcp, timeout).len(), 1);
    assert_eq!(["tcpi_unacked", "tcpi_lost"].map(|field| tcp.sender().info(field)), [Some(4), Some(3)]);
}

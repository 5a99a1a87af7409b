use super::*;
use crate::PathId;
use crate::reorder::active_fixed::ActiveFixed;
use crate::reorder::adaptive::Adaptive;
use crate::reorder::{Back, LastOfFlow};
use alloc::vec;

struct Bench {
    engine: Active,
    first: Seq,
}

impl Bench {
    fn new(first: u64) -> Bench {
        Bench { engine: Active::new(ActiveFixed { timeout: MS(10), proven: false }), first: Seq::new(first) }
    }

    fn arrival(&self, n: u64) -> Arrival {
        let (mp_seq, path_seq) = (self.first.add(n), Some(Seq::new(n)));
        Arrival { mp_seq, path: PathId(0), path_seq, ndp: None, flow: 0, back: None }
    }

    /// Adds packet number `n`, and returns the packets that this releases.
    fn push(&mut self, ms: u64, n: u64) -> Vec<u8> {
        self.engine.push(Time::from_millis(ms), self.arrival(n), vec![n as u8]);
        self.drain()
    }

    fn timeout(&mut self, ms: u64) -> Vec<u8> {
        self.engine.on_timeout(Time::from_millis(ms));
        self.drain()
    }

    fn drain(&mut self) -> Vec<u8> {
        core::iter::from_fn(|| self.engine.pop()).map(|d| d[0]).collect()
    }
}

#[test]
fn restores_order_also_across_the_wrap() {
    for first in [1, Seq::MODULUS - 2] {
        let mut b = Bench::new(first);
        assert_eq!(b.push(0, 0), [0]);
        assert!(b.push(1, 2).is_empty());
        assert!(b.push(1, 4).is_empty());
        assert_eq!(b.push(2, 1), [1, 2]);
        assert_eq!(b.push(3, 3), [3, 4]);
        assert_eq!(b.engine.next_timeout(), None);
        let s = b.engine.stats();
        assert_eq!((s.in_order, s.held, s.late, s.timeouts, s.occupancy), (5, 2, 0, 0, 0));
    }
}

#[test]
fn every_hole_has_its_own_timer() {
    let mut b = Bench::new(7);
    b.push(0, 0);
    b.push(1, 2); // hole 1, seen at 1 ms
    b.push(5, 4); // hole 3, seen at 5 ms
    assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(11)));
    assert_eq!(b.timeout(10), []);
    assert_eq!(b.timeout(11), [2]);
    assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(15)));
    assert_eq!(b.timeout(15), [4]);
    assert_eq!(b.engine.stats().timeouts, 2);
}

/// Packets that arrive in order are delivered at once, however many there are.
#[test]
fn packets_in_order_never_wait() {
    let mut b = Bench::new(0);
    for burst in 0..3 {
        for n in 0..200 {
            b.engine.push(Time::from_millis(burst), b.arrival(burst * 200 + n), vec![n as u8]);
        }
        assert_eq!(b.drain().len(), 200);
        assert_eq!(b.engine.next_timeout(), None);
    }
}

#[test]
fn held_packets_leave_in_small_bursts() {
    for filled in [true, false] {
        let mut b = Bench::new(0);
        b.push(0, 0);
        for n in 2..=200 {
            assert_eq!(b.push(1, n), []);
        }
        // Either the missing packet fills the hole, or the hole's timer expires.
        let mut ms = if filled { 5 } else { 11 };
        let mut all = if filled { b.push(ms, 1) } else { b.timeout(ms) };
        assert_eq!(all.len(), BURST);
        if !filled {
            assert_eq!(b.timeout(ms), [], "the next burst must wait for the next tick");
        }
        while let Some(next) = b.engine.next_timeout() {
            ms = ms.max((next - Time::ZERO).as_millis() as u64);
            let burst = b.timeout(ms);
            assert!((1..=BURST).contains(&burst.len()), "{} at {ms} ms", burst.len());
            assert!(b.timeout(ms).is_empty(), "two bursts in one tick");
            all.extend(burst);
        }
        assert!(all.is_sorted() && all.len() == if filled { 200 } else { 199 }, "{all:?}");
    }
    // A large backlog is delivered in larger bursts: an eighth of it at a time.
    let mut b = Bench::new(0);
    b.push(0, 0);
    (2..=1001).for_each(|n| assert!(b.push(1, n).is_empty()));
    assert_eq!(b.timeout(11).len(), 125);
    assert!(b.timeout(12).len() < 125);
}

#[test]
fn a_split_hole_keeps_its_time() {
    let mut b = Bench::new(0);
    b.push(0, 0);
    b.push(1, 5); // hole 1 to 4
    b.push(8, 3); // now 1 to 2, and 4
    assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(11)));
    assert_eq!(b.timeout(11), [3, 5], "both parts of the hole expire together");
}

#[test]
fn late_packets_are_delivered_once_and_duplicates_never() {
    let mut b = Bench::new(0);
    b.push(0, 0);
    assert_eq!(b.push(0, 0), [], "the packet was already delivered");
    b.push(1, 3);
    assert_eq!(b.push(2, 3), [], "the packet is already held");
    assert_eq!(b.timeout(20), [3]);
    assert_eq!(b.push(21, 2), [2], "late");
    assert_eq!(b.push(22, 2), [], "a late packet must be delivered only once");
    assert_eq!(b.push(23, 1), [1]);
    assert_eq!(b.push(24, 4), [4]);
    let s = b.engine.stats();
    assert_eq!((s.late, s.duplicates), (2, 3));
}

#[test]
fn packets_older_than_the_first_are_late() {
    let mut b = Bench::new(100);
    b.first = Seq::new(100);
    assert_eq!(b.push(0, 1), [1]);
    assert_eq!(b.push(0, 0), [0]);
    assert_eq!(b.engine.stats().late, 1);
}

/// Several paths. A packet is written as (ms, path, path number, MP_SEQ). MP_SEQ and path numbers start just
/// before they wrap.
struct Paths {
    engine: Active,
    /// Whether the peer sends NDP Counts. If so, the count is zero for packets from [`data`](Paths::data).
    ndp: bool,
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const LAST: u64 = Seq::MODULUS - 3;

impl Paths {
    fn new(rule: impl Rule + 'static) -> Paths {
        let mut engine = Active::new(rule);
        engine.on_path(PathId(0), None, true);
        engine.on_path(PathId(1), None, true);
        Paths { engine, ndp: true }
    }

    fn data(&mut self, ms: u64, path: u32, path_seq: u64, n: u64) -> Vec<u8> {
        let ndp = self.ndp.then_some(0);
        self.data_after(ms, path, path_seq, n, ndp)
    }

    fn data_after(&mut self, ms: u64, path: u32, path_seq: u64, n: u64, ndp: Option<u64>) -> Vec<u8> {
        let (mp_seq, path_seq) = (Seq::new(LAST).add(n), Seq::new(LAST).add(path_seq));
        let arrival =
            Arrival { mp_seq, path: PathId(path), path_seq: Some(path_seq), ndp, flow: 0, back: None };
        self.engine.push(Time::from_millis(ms), arrival, vec![n as u8]);
        self.drain()
    }

    fn other(&mut self, ms: u64, path: u32, path_seq: u64, data: bool) -> Vec<u8> {
        self.engine.on_other(Time::from_millis(ms), PathId(path), Seq::new(LAST).add(path_seq), None, data);
        self.drain()
    }

    fn timeout(&mut self, ms: u64) -> Vec<u8> {
        self.engine.on_timeout(Time::from_millis(ms));
        self.drain()
    }

    fn drain(&mut self) -> Vec<u8> {
        core::iter::from_fn(|| self.engine.pop()).map(|d| d[0]).collect()
    }

    fn given_up(&self) -> (u64, u64, u64) {
        let s = self.engine.stats();
        (s.proven, s.timeouts, s.late)
    }
}

#[test]
fn a_hole_below_the_floors_of_all_paths_is_lost() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.ndp = false;
    p.data(0, 0, 0, 0);
    p.data(0, 1, 0, 1);
    assert_eq!(p.data(1, 0, 2, 4), [], "2 and 3 are missing; path 0 lacks number 1");
    assert_eq!(p.data(1, 1, 1, 5), [], "only path 0 may still deliver 2 and 3");
    assert_eq!(p.data(1, 0, 3, 6), []);
    assert_eq!(p.data(1, 0, 4, 7), [4, 5, 6, 7], "three later packets on path 0 prove the loss");
    assert_eq!(p.given_up(), (1, 0, 0));
}

#[test]
fn time_settles_a_gap_as_well_as_later_packets() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.engine.on_path(PathId(0), Some(MS(40)), true);
    p.data(0, 0, 0, 0);
    p.data(1, 1, 0, 2);
    p.data(2, 0, 2, 3); // 1 is missing
    assert_eq!(
        p.engine.next_timeout(),
        Some(Time::from_millis(12)),
        "the gap settles after a quarter of the RTT"
    );
    assert_eq!(p.timeout(11), []);
    assert_eq!(p.timeout(12), [2, 3]);
    assert_eq!(p.given_up(), (1, 0, 0));
}

#[test]
fn a_packet_that_may_be_on_a_slow_path_is_not_proven_lost() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.data(0, 1, 0, 0);
    for n in 0..20 {
        assert_eq!(p.data(n, 0, n, 2 + n), [], "path 0 has no gap, so 1 may come on path 1");
    }
    assert_eq!(p.data(50, 1, 1, 1).len(), 21);
    assert_eq!(p.given_up(), (0, 0, 0));
}

#[test]
fn an_idle_path_does_not_hinder_the_proof_of_a_single_loss() {
    for ndp in [false, true] {
        let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
        p.ndp = ndp;
        p.data(0, 0, 0, 0);
        p.data(1, 0, 2, 2);
        p.data(2, 0, 3, 3);
        let out = p.data(3, 0, 4, 4);
        assert_eq!(
            out,
            if ndp { &[2u8, 3, 4][..] } else { &[] },
            "without NDP Count, the gap may be a lost Ack"
        );
    }
}

#[test]
fn a_gap_of_one_does_not_explain_a_hole_of_two() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.data(0, 0, 0, 0);
    for n in 0..10 {
        assert_eq!(p.data(1 + n, 0, 2 + n, 3 + n), [], "one of the two may still come on path 1");
    }
}

#[test]
fn copies_on_several_paths_may_still_come() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.data(0, 0, 0, 0);
    p.data(0, 1, 0, 0);
    for n in 2..9 {
        assert_eq!(p.data(n, 0, n, n), []);
    }
    assert_eq!(p.data(9, 1, 1, 1), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Path 0 loses a stream packet, which has no MP_SEQ, while 1 is on its way on path 1.
#[test]
fn a_lost_stream_packet_is_not_taken_for_the_missing_packet() {
    for streams in [true, false] {
        let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
        p.data(0, 0, 0, 0);
        p.other(0, 0, 1, streams);
        for n in 2..9 {
            let out = p.data(n, 0, 1 + n, n);
            assert!(out.is_empty() || !streams, "{out:?} at {n} ms");
        }
        assert_eq!(p.data(9, 1, 1, 1).len(), if streams { 8 } else { 1 });
        assert_eq!(p.given_up().2, u64::from(!streams));
    }
}

#[test]
fn packets_without_data_explain_gaps() {
    // Path 0 can no longer fill the hole once its number 1 is known to have carried no data, either from an
    // NDP Count or because that packet arrived.
    for told in [false, true] {
        let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
        p.data(0, 0, 0, 0);
        if told {
            p.other(1, 0, 1, false);
        }
        p.data_after(1, 0, 2, 2, Some(1));
        assert_eq!(p.data(2, 1, 0, 3), [2, 3], "path 1 can no longer deliver 1 either");
        assert_eq!(p.given_up(), (1, 0, 0));
    }
}

#[test]
fn a_path_that_reorders_is_given_more_time() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.engine.on_path(PathId(1), None, false);
    p.data(0, 0, 0, 0);
    for n in 2..5 {
        p.data(1, 0, n, n);
    }
    assert_eq!(p.given_up().0, 1, "three later packets prove the loss");
    assert_eq!(p.data(2, 0, 1, 1), [1], "a late packet must be delivered");
    p.data(3, 0, 6, 6);
    assert_eq!(p.data(3, 0, 7, 7), []);
    assert_eq!(p.data(3, 0, 8, 8), [], "after reordering, three packets prove nothing");
    assert_eq!(p.data(3, 0, 5, 5), [5, 6, 7, 8]);
    assert_eq!(p.given_up(), (1, 0, 1));
}

#[test]
fn a_path_that_goes_down_or_starts_anew_does_not_count_as_before() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(1_000), proven: true });
    p.ndp = false;
    p.data(0, 0, 0, 0);
    for n in 2..6 {
        assert_eq!(p.data(1, 0, n, n), [], "path 1 may still deliver 1");
    }
    p.engine.on_path(PathId(1), None, false);
    assert_eq!(p.data(2, 0, 6, 6), [2, 3, 4, 5, 6]);
    p.engine.on_path(PathId(1), None, true);
    assert_eq!(p.data(3, 1, 1 << 40, 7), [7], "restarted path numbers must not show a gap");
    p.data(3, 0, 8, 9);
    assert_eq!(p.given_up(), (1, 0, 0));
    assert_eq!(p.data(4, 1, (1 << 40) + 1, 8), [8, 9]);
}

#[test]
fn the_wait_follows_what_paths_need() {
    let mut p = Paths::new(Adaptive { max: MS(250) });
    assert_eq!(p.engine.stats().wait, MS(250), "without measurements, the wait is the maximum");
    p.engine.on_path(PathId(0), Some(MS(20)), true);
    p.engine.on_path(PathId(1), Some(MS(60)), true);
    assert_eq!(p.engine.stats().wait, MS(30), "the wait must be (60 - 20) / 2 ms, plus a quarter, plus 5 ms");
    p.data(0, 1, 0, 0);
    p.data(0, 0, 0, 2);
    p.data(12, 1, 1, 1);
    assert_eq!(p.engine.stats().wait, MS(20), "the wait must be the lag of 12 ms, plus a quarter, plus 5 ms");
    p.data(13, 0, 1, 4);
    assert_eq!(p.timeout(32), []);
    assert_eq!(p.timeout(33), [4]);
    assert_eq!(p.data(113, 1, 2, 3), [3], "a packet that is 100 ms late is delivered");
    assert_eq!(p.engine.stats().wait, MS(130));
    assert_eq!(p.given_up(), (0, 1, 1));
}

/// The sender notices a loss after a round trip or more. This delay must not count as a lag of the path.
#[test]
fn a_packet_that_was_sent_again_shows_no_lag() {
    for again in [true, false] {
        let mut p = Paths::new(Adaptive { max: MS(250) });
        p.engine.on_path(PathId(0), Some(MS(20)), true);
        p.engine.on_path(PathId(1), Some(MS(20)), true);
        p.data(0, 0, 0, 0);
        p.data(1, 0, 2, 2);
        // Either the packet is sent again, or path 0 delivers it late.
        p.data(101, 0, if again { 3 } else { 1 }, 1);
        assert_eq!(p.engine.stats().wait, if again { MS(5) } else { MS(130) });
    }
}

#[test]
fn nothing_waits_for_what_comes_too_late_anyway() {
    let mut p = Paths::new(Adaptive { max: MS(100) });
    p.data(0, 1, 0, 0);
    p.data(1, 0, 0, 2);
    assert_eq!(p.timeout(101), [2]);
    assert_eq!(p.data(311, 1, 1, 1), [1]);
    p.data(312, 0, 1, 4);
    assert_eq!(
        p.engine.next_timeout(),
        Some(Time::from_millis(317)),
        "a lag beyond the maximum must be ignored"
    );
}

#[test]
fn tells_how_long_packets_were_held() {
    let mut p = Paths::new(ActiveFixed { timeout: MS(100), proven: true });
    assert_eq!(p.engine.stats().held_p95(), Some(Duration::ZERO));
    p.data(0, 1, 0, 0);
    p.data(0, 0, 0, 2);
    p.data(20, 1, 1, 1);
    assert_eq!(p.engine.stats().held_p95(), Some(MS(32)));
    p.data(21, 0, 1, 4);
    p.timeout(10_000);
    assert_eq!(p.engine.stats().held_p95(), None);
}

/// A rule that never gives up a hole.
#[derive(Debug)]
struct Patient;

impl Rule for Patient {
    fn trusts_proofs(&self) -> bool {
        false
    }
    fn waits_for_repairs(&self) -> bool {
        true
    }
    fn wait_for(&self, _: &Tracks, _: Hole) -> Duration {
        Duration::MAX
    }
    fn longest(&self, _: &Tracks) -> Duration {
        Duration::MAX
    }
}

/// In any order of arrival, a packet is delivered as soon as all earlier packets of its flow have arrived,
/// and never before them.
#[test]
fn a_flow_waits_for_its_own_packets_alone() {
    let mut random = 12345u64;
    let mut dice = move |n: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % n
    };
    for _ in 0..300 {
        let count = 2 + dice(300);
        let mut last = LastOfFlow::default();
        let packets: Vec<(u64, u32, u8)> = (0..count)
            .map(|n| {
                let flow = [dice(2), dice(60)][usize::from(dice(4) == 0)] as u32 + 1;
                (n, flow, last.next(flow, Seq::new(n)))
            })
            .collect();
        let mut order = packets.clone();
        // The first packet determines where positions start.
        for i in (2..order.len()).rev() {
            let reach = dice(40) as usize;
            order.swap(i, i.saturating_sub(reach).max(1));
        }
        let mut active = Active::new(Patient);
        let mut arrived = vec![false; count as usize];
        let mut delivered: Vec<u64> = Vec::new();
        for (n, flow, code) in order {
            let arrival = Arrival { flow, back: Back::read(code), ..Arrival::nth(0, n) };
            active.push(Time::ZERO, arrival, n.to_be_bytes().to_vec());
            active.allowed = 100_000;
            arrived[n as usize] = true;
            let got = core::iter::from_fn(|| active.pop());
            delivered.extend(got.map(|data| u64::from_be_bytes(data.try_into().unwrap())));
            for flow in 1..=61 {
                let own = packets.iter().filter(|p| p.1 == flow).map(|p| p.0);
                let due: Vec<u64> = own.take_while(|n| arrived[*n as usize]).collect();
                let got: Vec<u64> =
                    delivered.iter().copied().filter(|n| packets[*n as usize].1 == flow).collect();
                // Large distances are rounded, so packets that carry them may have to wait for other flows.
                let exact = due.windows(2).all(|w| w[1] - w[0] < 128);
                assert!(got.len() <= due.len() && got == due[..got.len()], "{got:?} {due:?}");
                assert!(!exact || got == due, "{got:?} {due:?}");
            }
        }
        assert_eq!(delivered.len(), count as usize);
        assert!(active.buffer.after.is_empty() && active.buffer.beyond.is_empty());
    }
}

/// Sends a packet of flow 7 every 163 packets. The peer states the distance as 160 to 167. Returns which of
/// these packets are delivered on arrival if the packets in `missing` do not arrive.
fn sparse_flow(packets: u64, missing: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut active = Active::new(Patient);
    let mut prompt = Vec::new();
    for n in (0..=packets * 163).filter(|n| !missing(*n)) {
        let (flow, back) = if n % 163 == 0 { (7, 163) } else { (8, 1) };
        let arrival = Arrival { flow, back: Back::read(Back::write(back)), ..Arrival::nth(0, n) };
        active.push(Time::ZERO, arrival, vec![u8::from(flow == 7)]);
        active.allowed = 100_000;
        prompt.extend(core::iter::from_fn(|| active.pop()).filter(|data| data[0] == 1).map(|_| n / 163));
    }
    prompt
}

#[test]
fn a_rounded_distance_is_exact_if_no_packet_of_the_flow_can_be_missing() {
    assert_eq!(sparse_flow(2, |n| n == 100), [0, 1, 2]);
    assert_eq!(sparse_flow(2, |n| n == 100 || n == 165), [0, 1], "packet 165 may belong to this flow");
    // Later, every second packet of the other flow is still on its way on another path.
    let slow = |n| n > 5 * 163 && n % 163 % 2 == 1;
    assert_eq!(sparse_flow(8, slow), [0, 1, 2, 3, 4, 5, 6, 7, 8], "the flow sends no two packets so close");
    assert_eq!(sparse_flow(8, |n| slow(n) || n == 7 * 163), [0, 1, 2, 3, 4, 5, 6], "its packet 7 is missing");
}

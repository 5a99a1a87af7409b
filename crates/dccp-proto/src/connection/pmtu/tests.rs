//! Tests of path MTU discovery.

use super::*;

const ANSWER: Duration = Duration::from_millis(100);

/// Sends probes over a path that carries packets of up to `carries` bytes, until no probe has been sent for a
/// while. Returns the size of the largest probe.
fn travel(pmtu: &mut Pmtu, now: &mut Time, carries: u16, alive: bool) -> u16 {
    let end = *now + Duration::from_secs(60);
    let (mut seq, mut largest) = (Seq::new(now.as_nanos() & 0xffff), 0);
    let before = seq;
    while let Some(at) = pmtu.next_timeout().filter(|at| *at <= end) {
        *now = at.max(*now);
        if let Some(size) = pmtu.poll_probe(*now) {
            seq = seq.next();
            largest = largest.max(size);
            pmtu.on_sent(*now, seq, ANSWER);
            if size <= carries {
                pmtu.on_sync_ack(*now, seq);
            }
        } else {
            // Unless the path is dead, later packets keep being acknowledged.
            seq = seq.next();
            pmtu.on_timeout(*now, if alive { seq } else { before });
        }
    }
    *now = end;
    largest
}

fn new() -> (Pmtu, Time) {
    let now = Time::from_millis(1000);
    (Pmtu::new(now, 1500), now)
}

#[test]
fn a_small_packet_that_overtakes_data_makes_the_size_doubtful() {
    let amount = |packets| Amount { packets, bytes: packets * 1400 };
    for (inflight, delivered, doubtful) in [(3, 7, true), (2, 7, false), (3, 8, false)] {
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, 1500, true);
        if pmtu.looks(amount(inflight)) {
            pmtu.on_small(Seq::new(5), amount(7));
        }
        pmtu.on_answer(now, Seq::new(4), amount(delivered));
        assert_eq!(
            (pmtu.poll_probe(now), pmtu.sure()),
            (None, 1500),
            "the small packet is not acknowledged yet"
        );
        pmtu.on_answer(now, Seq::new(6), amount(delivered));
        assert_eq!(pmtu.poll_probe(now), doubtful.then_some(1500), "{inflight} {delivered}");
        assert_eq!(pmtu.sure(), if doubtful { BASE } else { 1500 });
        if doubtful {
            // The three lost data packets count as failed probes.
            assert_eq!(travel(&mut pmtu, &mut now, 1400, true), 1500);
            assert_eq!(pmtu.mtu(), 1400);
        }
    }
}

/// On a busy host or behind a long queue, acknowledgements of earlier packets arrive before the answers to
/// probes.
#[test]
fn only_a_packet_that_left_after_the_probes_shows_that_they_are_lost() {
    for (acked, mtu) in [(9, 1500), (10, 1500), (11, BASE)] {
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, 1500, true);
        (0..=DOUBTFUL).for_each(|lost| pmtu.on_loss(now, lost));
        for n in 0..CONFIRM_TRIES {
            assert_eq!(pmtu.poll_probe(now), Some(1500));
            pmtu.on_sent(now, Seq::new(10 + u64::from(n)), ANSWER);
            now += ANSWER;
        }
        pmtu.on_timeout(now, Seq::new(acked));
        assert_eq!(pmtu.mtu(), mtu, "{acked}");
    }
}

/// The size for packets that can be split is reduced even before the search has ended.
#[test]
fn the_certain_size_shrinks_with_the_second_probe_and_grows_with_an_answer() {
    let (mut pmtu, mut now) = new();
    assert_eq!(pmtu.sure(), BASE);
    travel(&mut pmtu, &mut now, 1500, true);
    for lost in 0..=DOUBTFUL {
        pmtu.on_loss(now, lost);
    }
    for (n, sure) in [(1, 1500), (2, BASE), (3, BASE)] {
        assert_eq!(pmtu.poll_probe(now), Some(1500));
        pmtu.on_sent(now, Seq::new(n), ANSWER);
        assert_eq!((pmtu.sure(), pmtu.known()), (sure, 1500), "{n}");
        now += ANSWER;
    }
    pmtu.on_sync_ack(now, Seq::new(3));
    assert_eq!(pmtu.sure(), 1500);
}

#[test]
fn the_current_size_is_confirmed_with_one_probe() {
    let (mut pmtu, mut now) = new();
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!((pmtu.mtu(), pmtu.next_timeout()), (1500, None));
}

/// RFC 8899 section 4.3: losses of data reveal a black hole.
#[test]
fn a_black_hole_is_found_and_the_size_that_passes() {
    for carries in [1200, 1280, 1399, 1400, 1404, 1452, 1492] {
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, carries, true);
        assert!(pmtu.mtu() <= carries && carries - pmtu.mtu() <= FINE, "{} of {carries}", pmtu.mtu());
    }
}

/// RFC 8899 section 5.2: a path may carry less than the base size. With a hint, the search finds the exact
/// size.
#[test]
fn a_path_that_carries_less_than_the_base_size_is_used() {
    for (carries, alive) in [(576, true), (576, false), (1000, true), (1000, false)] {
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, carries, alive);
        assert!(pmtu.mtu() <= carries && carries - pmtu.mtu() <= FINE, "{} of {carries}", pmtu.mtu());
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, 1500, alive);
        pmtu.on_hint(now, carries);
        travel(&mut pmtu, &mut now, carries, alive);
        assert_eq!((pmtu.mtu(), pmtu.next_timeout()), (carries, None));
        // The larger size is found again.
        now += RAISE;
        (0..TRAFFIC).for_each(|_| pmtu.on_data(now));
        travel(&mut pmtu, &mut now, 1500, alive);
        assert_eq!(pmtu.mtu(), 1500);
    }
}

/// RFC 8899 section 4.3: losses reveal a black hole. While data flows, a larger size is tried again after
/// PMTU_RAISE_TIMER.
#[test]
fn losses_make_the_size_doubtful_and_time_makes_room() {
    let (mut pmtu, mut now) = new();
    travel(&mut pmtu, &mut now, 1500, true);
    for lost in 7..7 + DOUBTFUL {
        pmtu.on_loss(now, lost);
        assert_eq!(pmtu.poll_probe(now), None, "a few losses must not trigger a probe");
    }
    pmtu.on_loss(now, 7 + DOUBTFUL);
    assert_eq!(pmtu.poll_probe(now), Some(1500));
    travel(&mut pmtu, &mut now, 1400, true);
    assert_eq!(pmtu.mtu(), 1400);
    // An idle path is not probed. A path in use that carries only small packets is probed once per RAISE.
    now += RAISE;
    assert_eq!((travel(&mut pmtu, &mut now, 1500, true), pmtu.mtu()), (0, 1400));
    for _ in 0..10 {
        (0..TRAFFIC).for_each(|_| pmtu.on_data(now));
        assert!((1401..=1408).contains(&travel(&mut pmtu, &mut now, 1400, true)));
    }
    (0..TRAFFIC).for_each(|_| pmtu.on_data(now));
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500);
}

/// Behind a queue or on a busy host, each answer arrives after the next probe has been sent.
#[test]
fn answers_that_come_late_count() {
    let (mut pmtu, mut now) = new();
    for n in 0..u64::from(CONFIRM_TRIES) {
        assert_eq!(pmtu.poll_probe(now), Some(1500));
        pmtu.on_sent(now, Seq::new(n), ANSWER);
        now += ANSWER;
        pmtu.on_timeout(now, Seq::new(n + 1));
    }
    assert_eq!(pmtu.mtu(), 1200, "unanswered probes must reduce the size");
    let (mut pmtu, mut now) = new();
    for n in 0..3 {
        assert_eq!(pmtu.poll_probe(now), Some(1500));
        pmtu.on_sent(now, Seq::new(n), ANSWER);
        now += ANSWER;
    }
    pmtu.on_sync_ack(now, Seq::new(0));
    assert_eq!((pmtu.mtu(), pmtu.poll_probe(now)), (1500, None));
}

/// RFC 8899 section 3 (3): the answer to another Sync says nothing about the probed size.
#[test]
fn only_the_answer_to_a_probe_confirms_its_size() {
    let (mut pmtu, mut now) = new();
    assert_eq!(pmtu.poll_probe(now), Some(1500));
    pmtu.on_sent(now, Seq::new(5), ANSWER);
    for other in [4, 6] {
        pmtu.on_sync_ack(now, Seq::new(other));
        assert_eq!((pmtu.known(), pmtu.next_timeout()), (BASE, Some(now + ANSWER)));
    }
    travel(&mut pmtu, &mut now, 1400, true);
    assert_eq!(pmtu.mtu(), 1400);
}

/// RFC 8899 section 4.6.2: a hint of a smaller MTU takes effect only if larger packets are lost.
#[test]
fn less_is_believed_only_if_more_does_not_arrive() {
    let (mut pmtu, mut now) = new();
    travel(&mut pmtu, &mut now, 1500, true);
    pmtu.on_hint(now, 552);
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500, "a forged hint must change nothing");
    pmtu.on_hint(now, 1420);
    travel(&mut pmtu, &mut now, 1420, true);
    assert_eq!(pmtu.mtu(), 1420);
    pmtu.on_hint(now, 1500);
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500);
    assert!(travel(&mut pmtu, &mut now, 9000, true) <= 1500, "probes must not exceed the largest hint");
}

/// A forged message with a small MTU that arrives before the path opens must not keep the size small.
#[test]
fn a_size_that_leaves_this_host_is_tried_despite_a_smaller_hint() {
    let (mut pmtu, mut now) = (Pmtu::new(Time::ZERO, 552), Time::from_millis(1000));
    pmtu.on_hint(now, 552);
    pmtu.on_most(now, 1500);
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500);
    // The larger size is not tried again as long as the system repeats its hint.
    pmtu.on_hint(now, 552);
    pmtu.on_most(now, 1500);
    assert_eq!(pmtu.next_timeout(), None);
    let mut pmtu = Pmtu::new(now, 552);
    travel(&mut pmtu, &mut now, 1500, true);
    pmtu.on_most(now, 1500);
    travel(&mut pmtu, &mut now, 1400, true);
    assert_eq!(pmtu.mtu(), 1400, "the larger size must be probed before use");
}

#[test]
fn a_larger_hint_in_the_middle_of_a_search_begins_it_anew() {
    let (mut pmtu, mut now) = new();
    travel(&mut pmtu, &mut now, 1400, true);
    pmtu.on_hint(now, 1400);
    pmtu.on_hint(now, 1450);
    for n in 0..SEARCH_TRIES {
        assert_eq!(pmtu.poll_probe(now), Some(1450));
        pmtu.on_sent(now, Seq::new(u64::from(n)), ANSWER);
        now += ANSWER;
    }
    pmtu.on_hint(now, 1500);
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500);
}

/// A search on an idle path with a black hole comes to an end.
#[test]
fn a_search_ends_where_nothing_but_probes_is_sent() {
    for carries in [1200, 1400] {
        let (mut pmtu, mut now) = new();
        travel(&mut pmtu, &mut now, carries, false);
        assert_eq!((pmtu.mtu(), pmtu.next_timeout()), (carries, None));
    }
}

/// RFC 8899 section 4.3: a path that carries no packets at all is not a black hole.
#[test]
fn a_dead_path_keeps_its_size() {
    let (mut pmtu, mut now) = new();
    travel(&mut pmtu, &mut now, 0, false);
    assert_eq!(pmtu.mtu(), 1500);
    travel(&mut pmtu, &mut now, 1500, true);
    assert_eq!(pmtu.mtu(), 1500);
}

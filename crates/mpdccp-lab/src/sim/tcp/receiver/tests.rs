//! Tests of the receiving half.

use super::*;

fn data(n: u64) -> Data {
    Data { flow: 0, start: n * 1000, len: 1000, no: n, echo: 0, sent_ms: 0, ecn: 0, cwr: false }
}

/// Returns a receiver that has already received the initial segments, which it acknowledges immediately.
fn receiver() -> Receiver {
    let mut r = Receiver::new(0, Rule::Rack);
    for n in 0..u64::from(QUICK) {
        r.on_data(Time::ZERO, &data(n));
        assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some((n + 1) * 1000));
    }
    r
}

#[test]
fn one_of_two_or_after_40_ms() {
    let mut r = receiver();
    r.on_data(Time::ZERO, &data(16));
    assert_eq!(r.poll(Time::from_millis(39)), None);
    assert_eq!(r.next_timeout(), Some(Time::from_millis(44)));
    assert_eq!(r.poll(Time::from_millis(44)).map(|a| a.upto), Some(17_000));
    r.on_data(Time::ZERO, &data(17));
    r.on_data(Time::ZERO, &data(18));
    assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some(19_000));
    assert_eq!(r.poll(Time::MAX), None);
}

#[test]
fn data_sent_before_a_retransmission_that_filled_a_hole_is_discarded() {
    for (rule, end) in [(Rule::Rack, 18_000), (Rule::Three, 19_000)] {
        let at = |n, sent_ms| Data { sent_ms, ..data(n) };
        let mut r = Receiver::new(0, rule);
        for (n, sent_ms) in [(1, 10), (0, 50)] {
            r.on_data(Time::ZERO, &at(n, sent_ms));
            r.poll(Time::ZERO);
        }
        for n in 2..18 {
            r.on_data(Time::ZERO, &at(n, 50));
            r.poll(Time::ZERO);
        }
        // A duplicate below the left edge of the window is no measure of age.
        r.on_data(Time::ZERO, &at(3, 90));
        r.poll(Time::ZERO);
        r.on_data(Time::ZERO, &at(18, 48));
        assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some(end), "{rule:?}");
        r.on_data(Time::ZERO, &at(18, 49));
        assert_eq!(r.next(), 19_000, "an age of 1 ms is tolerated");
    }
}

#[test]
fn only_data_in_order_ends_a_pause() {
    let mut r = receiver();
    let ms = Time::from_millis;
    r.on_data(ms(300), &data(20));
    r.poll(ms(300));
    assert_eq!(r.quick, 0);
    r.on_data(ms(301), &data(16));
    assert_eq!(r.quick, QUICK);
}

#[test]
fn blocks_are_joined_and_the_newest_comes_first() {
    let mut r = receiver();
    let blocks = |r: &mut Receiver, n| {
        r.on_data(Time::ZERO, &data(n));
        r.poll(Time::from_millis(2)).map(|a| (a.upto / 1000, a.blocks)).unwrap()
    };
    assert_eq!(blocks(&mut r, 20), (16, vec![(20_000, 21_000)]));
    assert_eq!(blocks(&mut r, 18), (16, vec![(18_000, 19_000), (20_000, 21_000)]));
    assert_eq!(blocks(&mut r, 19), (16, vec![(18_000, 21_000)]));
    assert_eq!(blocks(&mut r, 30), (16, vec![(30_000, 31_000), (18_000, 21_000)]));
    assert_eq!(blocks(&mut r, 16), (17, vec![(30_000, 31_000), (18_000, 21_000)]));
    assert_eq!(blocks(&mut r, 17), (21, vec![(30_000, 31_000)]));
}

#[test]
fn beyond_three_duplicates_they_are_gathered_for_a_millisecond() {
    let mut r = receiver();
    let ms = Time::from_millis;
    for n in 20..23 {
        r.on_data(ms(0), &data(n));
        assert!(r.poll(ms(0)).is_some(), "{n}");
    }
    r.on_data(ms(10), &data(23));
    r.on_data(ms(10), &data(24));
    let due = ms(10) + GATHER + GATHER_SLACK;
    assert_eq!((r.poll(ms(10)), r.next_timeout()), (None, Some(due)));
    assert_eq!(r.poll(due).unwrap().blocks, [(20_000, 25_000)]);
    // A filled hole is acknowledged immediately, and the count of duplicates restarts.
    r.on_data(ms(12), &data(16));
    assert_eq!(r.poll(ms(12)).unwrap().upto, 17_000);
    r.on_data(ms(12), &data(25));
    assert!(r.poll(ms(12)).is_some());
}

#[test]
fn a_delayed_acknowledgement_leaves_before_a_block_that_may_not_fit() {
    let mut r = receiver();
    for n in [20, 22, 24] {
        r.on_data(Time::ZERO, &data(n));
        assert!(r.poll(Time::ZERO).is_some());
    }
    // This segment extends the newest block, so it can wait. The next one begins a fourth block.
    r.on_data(Time::ZERO, &data(25));
    assert_eq!(r.poll(Time::ZERO), None);
    r.on_data(Time::ZERO, &data(27));
    let blocks = r.poll(Time::ZERO).map(|ack| ack.blocks);
    assert_eq!(blocks, Some(vec![(24_000, 26_000), (22_000, 23_000), (20_000, 21_000)]));
    assert_eq!((r.poll(Time::ZERO), r.next_timeout()), (None, None));
    r.on_data(Time::ZERO, &data(28));
    let blocks = r.poll(Time::from_millis(2)).map(|ack| ack.blocks);
    assert_eq!(blocks, Some(vec![(27_000, 29_000), (24_000, 26_000), (22_000, 23_000)]));
}

#[test]
fn a_delayed_report_of_a_duplicate_is_forgotten_when_more_data_arrives() {
    let mut r = receiver();
    for n in [20, 21, 22] {
        r.on_data(Time::ZERO, &data(n));
        r.poll(Time::ZERO);
    }
    for (n, reported) in [(23, false), (20, true)] {
        r.on_data(Time::ZERO, &data(20));
        r.on_data(Time::ZERO, &data(n));
        assert_eq!(r.poll(Time::from_millis(2)).map(|ack| ack.dsack), Some(reported));
    }
}

#[test]
fn at_most_44_duplicate_acknowledgements_are_combined() {
    let mut r = receiver();
    for n in 20..23 {
        r.on_data(Time::ZERO, &data(n));
        r.poll(Time::ZERO);
    }
    let sent = (23..68).map(|n| {
        r.on_data(Time::ZERO, &data(n));
        r.poll(Time::ZERO).is_some()
    });
    assert_eq!(sent.collect::<Vec<_>>().iter().position(|sent| *sent), Some(44));
}

#[test]
fn an_application_that_does_not_read_closes_the_window_and_opens_it_by_reading() {
    let mut r = receiver();
    r.wait_for_reads();
    let size = r.window.size();
    let acknowledge = |r: &mut Receiver, n| {
        r.on_data(Time::ZERO, &data(n));
        r.poll(Time::from_millis(44)).unwrap().window
    };
    let full = 16 + size / 1_000;
    let last = (16..full).map(|n| acknowledge(&mut r, n)).last();
    assert_eq!((last, r.readable()), (Some(size % 1_000), full * 1_000 - 16_000));
    r.read(100);
    assert_eq!(r.poll(Time::from_millis(80)), None, "the window has not doubled");
    r.read(10_000);
    assert_eq!(r.poll(Time::from_millis(80)).unwrap().window, size % 1_000 + 10_100);
}

#[test]
fn a_duplicate_is_reported_once_and_first() {
    let mut r = receiver();
    r.on_data(Time::ZERO, &data(20));
    r.poll(Time::ZERO);
    for n in [3, 20] {
        r.on_data(Time::ZERO, &data(n));
        let ack = r.poll(Time::ZERO).unwrap();
        assert!(ack.dsack);
        assert_eq!(ack.blocks[0], (n * 1000, (n + 1) * 1000));
    }
    r.on_data(Time::ZERO, &data(21));
    assert!(!r.poll(Time::from_millis(1)).unwrap().dsack);
}

/// Returns how many single segments from `n` on are acknowledged immediately, if one arrives per
/// millisecond from `begin` on.
fn quick(r: &mut Receiver, n: u64, begin: u64) -> usize {
    let arrives = |i: &u64| {
        let now = Time::from_millis(begin + i);
        r.on_data(now, &data(n + i));
        r.poll(now).is_some()
    };
    (0..100).take_while(arrives).count()
}

#[test]
fn each_segment_is_acknowledged_after_a_pause_and_after_a_duplicate() {
    let mut r = receiver();
    assert_eq!(quick(&mut r, 16, 199), 0);
    assert_eq!(quick(&mut r, 17, 400), 16);
    r.on_data(Time::from_millis(420), &data(0));
    assert!(r.poll(Time::from_millis(420)).unwrap().dsack);
    assert_eq!(quick(&mut r, 34, 421), 15);
}

#[test]
fn each_segment_is_acknowledged_while_the_window_grows() {
    let mut r = receiver();
    let (size, ms) = (r.window.size(), Time::from_millis);
    // The application reads 30 segments in a round-trip time, so the window may grow from 45 to 76
    // segments or more. Each segment makes room for two.
    r.window.on_ack_sent(ms(0), 100);
    r.window.on_data(ms(50), 100, 0);
    r.window.on_ack_sent(ms(50), 101);
    r.window.on_data(ms(100), 101, 30_000);
    let growing = quick(&mut r, 16, 100);
    assert!(growing > 10, "{growing}");
    assert!(r.window.size() > size + 2_000 * (growing as u64 - 2), "{}", r.window.size());
}

#[test]
fn a_mark_and_its_confirmation_are_acknowledged_immediately() {
    let mut r = receiver();
    let mut arrives = |n, ecn, cwr| {
        r.on_data(Time::ZERO, &Data { ecn, cwr, ..data(n) });
        r.poll(Time::ZERO).is_some()
    };
    assert!(!arrives(16, 0, false) && arrives(17, 0, false) && !arrives(18, 0, false));
    assert!(arrives(19, 3, false) && arrives(20, 3, false), "two acknowledgements after the first mark");
    assert!(!arrives(21, 3, false) && arrives(22, 0, true));
}

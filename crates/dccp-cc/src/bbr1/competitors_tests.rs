use super::*;
use crate::{Amount, RateSample, RttEstimator};

fn counts(packets: [f64; 2], losses: [f64; 2]) -> bool {
    Counts { packets, losses }.prefer_long()
}

#[test]
fn losses_are_not_recorded_without_competitor_detection() {
    for draft in [false, true] {
        let mut bbr = super::super::Bbr1::new(&CcConfig { mtu: 1000, packets: true, draft, seed: 0 });
        let mut sampler = crate::RateSampler::default();
        let snapshot = sampler.on_sent(Time::ZERO, 1000, Amount::default());
        let (lost, delivered) = (Amount::default(), Amount::default());
        bbr.on_packet_lost(&Lost { now: Time::ZERO, snapshot: &snapshot, bytes: 1000, lost, delivered });
        assert_eq!(bbr.competitors.fresh.is_empty(), draft);
    }
}

#[test]
fn a_round_counts_once_it_can_prove_no_mere_reordering() {
    let at = Time::from_millis;
    let mut r = Competitors::default();
    let mut lose = |begin: u64, lost: [u32; 2], late: Option<u64>| {
        r.running.lost = lost;
        late.into_iter().for_each(|declared| r.on_late(at(declared)));
        r.on_round_end(at(begin + 10));
        r.counts.losses
    };
    lose(0, [1, 3], None);
    lose(10, [0, 5], None);
    // One packet lost in the second round arrives late.
    lose(20, [0, 0], Some(12));
    for n in 3..CYCLE_ROUNDS as u64 {
        assert_eq!(lose(10 * n, [0, 0], None), [0.0; 2], "round {n}");
    }
    assert_eq!(lose(80, [0, 0], None), [0.25, 0.75], "a fraction for short and for long round trips");
    assert_eq!(lose(90, [0, 0], None), [0.25, 0.75]);
}

#[test]
fn a_loss_has_the_rank_of_what_left_next() {
    let at = Time::from_millis;
    let (short, long) = (false, true);
    let mut ranks = Ranks::default();
    assert_eq!(ranks.of(at(1)), None);
    for (ms, rank) in [(10, short), (20, short), (30, long), (25, short), (40, long), (50, short)] {
        ranks.add(at(ms), rank);
    }
    assert_eq!([15, 21, 35, 41, 60].map(|ms| ranks.of(at(ms)).unwrap()), [short, long, long, short, short]);
    for n in 0..1_000 {
        ranks.add(at(100 + n), if n % 2 == 0 { long } else { short });
    }
    assert_eq!(ranks.0.len(), Ranks::MOST);
    assert_eq!(ranks.of(at(60)), None, "forgotten");
}

#[test]
fn losses_that_prefer_long_round_trips_come_of_a_queue() {
    // A quarter of the packets had long round trips, but all losses occurred in long round trips.
    assert!(counts([7_500.0, 2_500.0], [0.0, 6.0]));
    assert!(!counts([7_500.0, 2_500.0], [0.0, 3.0]), "too few losses for a conclusion");
    // A quarter of the random losses occur in long round trips, as do a quarter of the packets.
    assert!(!counts([7_500.0, 2_500.0], [30.0, 10.0]));
    assert!(!counts([7_500.0, 2_500.0], [30.0, 15.0]));
    // If all round trips are long, nothing can be concluded.
    assert!(!counts([0.0, 10_000.0], [0.0, 60.0]));
}

#[test]
fn a_short_queue_that_was_empty_after_the_drain_is_ours() {
    let ms = Duration::from_millis;
    let mut r = Competitors::default();
    assert!(!r.stands(ms(4), ms(40)), "no cruise phase yet");
    r.on_phase(Time::ZERO, true, ms(45));
    assert!(!r.stands(ms(4), ms(40)), "no round-trip time yet");
    r.on_rtt(ms(43), false);
    assert!(r.stands(ms(4), ms(40)));
    r.on_rtt(ms(42), false);
    assert!(!r.stands(ms(4), ms(40)));
}

#[test]
fn a_longer_path_is_no_queue_of_others() {
    let ms = Duration::from_millis;
    let at = Time::from_millis;
    // Three minutes ago, the path became longer by 40 ms. Since then, marks come from this flow's own queue.
    let mut estimator = RttEstimator::default();
    estimator.update(Time::ZERO, ms(40));
    for rtt in [80, 84] {
        estimator.update(at(180_000 + rtt), ms(rtt));
    }
    let mut r = Competitors::default();
    r.on_phase(Time::ZERO, true, ms(90));
    r.on_rtt(ms(81), false);
    let packet = Amount::default().plus(1500);
    let rate = RateSample {
        rate: mpdccp_units::Rate::from_mbps(10.0),
        packets_per_sec: 1_000.0,
        delivered: packet,
        lost: Amount::default(),
        interval: ms(80),
        send_interval: ms(80),
        ack_interval: ms(80),
        prior_delivered: Amount::default(),
        prior_inflight: packet,
        sent_at: at(180_000),
        app_limited: false,
        ages: (Duration::ZERO, 0),
    };
    let marked = AckEvent {
        now: at(180_084),
        acked: packet,
        lost: Amount::default(),
        ce: 1,
        congestion: true,
        rtt: Some(ms(84)),
        returning: Duration::ZERO,
        estimator: &estimator,
        rate: Some(rate),
        inflight_before: packet,
        inflight: Amount::default(),
        delivered: packet,
        round_end: false,
        app_limited: false,
    };
    r.on_ack(&marked, 1500, 100_000, ms(90));
    assert_eq!(r.running.lost, [0, 0]);
}

#[test]
fn a_queue_that_stands_while_nothing_is_probed_is_not_ours() {
    let ms = Duration::from_millis;
    let mut r = Competitors::default();
    for (rtt, stood) in [(50, true), (41, false), (60, true)] {
        r.on_phase(Time::ZERO, true, ms(45));
        r.on_rtt(ms(rtt + 20), true);
        r.on_rtt(ms(rtt), rtt > 45);
        r.on_phase(Time::from_millis(300), false, ms(45));
        // The queue built by the probe itself does not count.
        assert_eq!(r.stood, stood, "{rtt}");
    }
}

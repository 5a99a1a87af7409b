use super::*;
use crate::{Amount, CcConfig};

/// Creates a sender on a path of 12 Mbit/s (1,000 packets per second) and 100 ms, so a BDP is 100 packets.
fn settled(draft: bool) -> Bbr1 {
    let mut bbr = Bbr1::new(&CcConfig { mtu: 1500, packets: false, draft, seed: 0 });
    bbr.path.inherit(1_500_000.0);
    bbr.path.set_rtprop(Time::ZERO, Duration::from_millis(100));
    bbr.filled_pipe = true;
    bbr.enter_probe_bw(Time::ZERO);
    bbr
}

/// Runs until the next probe and returns its size as a share of BtlBw.
fn probe(bbr: &mut Bbr1) -> f64 {
    while {
        bbr.advance_cycle_phase(Time::from_millis(1));
        bbr.pacing_gain <= 1.0
    } {}
    bbr.pacing_gain - 1.0
}

#[test]
fn a_probe_that_lost_halves_the_next_one_down_to_a_packet() {
    let mut bbr = settled(false);
    probe(&mut bbr);
    assert_eq!(probe(&mut bbr), 0.25);
    let mut sizes = Vec::new();
    for lost in [true, true, true, true, true, false, false] {
        bbr.probe_lost = lost;
        sizes.push((probe(&mut bbr) * 1e6).round());
    }
    // The smallest probe is one packet, a hundredth of a BDP.
    assert_eq!(sizes, [125_000.0, 62_500.0, 31_250.0, 15_625.0, 10_000.0, 20_000.0, 40_000.0]);
}

/// Returns a sample of 48 Mbit/s.
fn sample() -> RateSample {
    RateSample {
        rate: Rate::from_mbps(48.0),
        packets_per_sec: 4_000.0,
        delivered: Amount { packets: 1, bytes: 1_500 },
        lost: Amount::default(),
        interval: Duration::from_micros(250),
        send_interval: Duration::ZERO,
        ack_interval: Duration::from_micros(250),
        prior_delivered: Amount::default(),
        prior_inflight: Amount { packets: 1, bytes: 1_500 },
        sent_at: Time::from_millis(1),
        app_limited: false,
        ages: (Duration::ZERO, 0),
    }
}

#[test]
fn a_rate_above_the_pacing_rate_is_no_measurement() {
    // One packet in a round trip of 1 ms adds 12 Mbit/s to the rate. The sample of 48 Mbit/s is higher than
    // any rate at which the flow was paced.
    for (draft, most) in [(false, 24), (true, 48)] {
        let mut bbr = settled(draft);
        bbr.pacing_rate = Rate::from_mbps(24.0);
        let rs = sample();
        let limit = bbr.paced_most(false);
        bbr.path.on_bandwidth(bbr.units.rate(&rs).min(limit), false, rs.sent_at);
        assert_eq!(bbr.path.bw(), f64::from(most) * 1e6 / 8.0, "draft: {draft}");
    }
}

/// Simulates a second in which one packet of 1,000 bytes arrives and one is lost, followed by four timeouts.
fn policed(bbr: &mut Bbr1, second: u64) {
    let now = Time::from_millis(1_000 * second);
    bbr.long_term.on_lost(second);
    bbr.long_term.on_delivered(now, Amount { packets: second, bytes: 1_000 * second });
    (0..4).for_each(|_| bbr.on_rto(now));
}

#[test]
fn timeouts_end_rounds_of_the_search_for_policers_and_an_undone_reduction_restarts_it() {
    let mut bbr = Bbr1::tcp(1500, 0);
    (0..2).for_each(|second| policed(&mut bbr, second));
    assert_eq!(bbr.bottleneck(), None);
    policed(&mut bbr, 2);
    let detected = Some(Rate::from_bps(8_000));
    assert_eq!(bbr.bottleneck(), detected);
    bbr.on_repaired(Time::from_millis(2_000));
    assert!(bbr.recovery.is_none());
    assert_eq!(bbr.bottleneck(), detected);
    bbr.on_spurious_loss(Time::from_millis(2_000));
    assert_eq!(bbr.bottleneck(), None);
}

fn event(estimator: &crate::RttEstimator) -> AckEvent<'_> {
    AckEvent {
        now: Time::from_millis(1_000),
        acked: Amount::default(),
        lost: Amount::default(),
        ce: 0,
        congestion: false,
        rtt: None,
        returning: Duration::ZERO,
        estimator,
        rate: Some(sample()),
        inflight_before: Amount::default(),
        inflight: Amount::default(),
        delivered: Amount { packets: 1, bytes: 1_000 },
        round_end: false,
        app_limited: false,
    }
}

#[test]
fn tcp_recovers_until_everything_is_repaired() {
    let mut bbr = Bbr1::tcp(1500, 0);
    let lost = Amount { packets: 1, bytes: 1_500 };
    let estimator = &crate::RttEstimator::default();
    bbr.on_ack(&AckEvent { lost, congestion: true, ..event(estimator) });
    assert!(bbr.recovery.is_some_and(|r| r.conservation));
    (0..3).for_each(|_| bbr.on_ack(&AckEvent { round_end: true, ..event(estimator) }));
    assert!(bbr.recovery.is_some_and(|r| !r.conservation));
    bbr.on_repaired(Time::from_millis(2_000));
    assert!(bbr.recovery.is_none());
}

#[test]
fn startup_ends_if_the_return_path_limits_the_rate() {
    let ms = Duration::from_millis;
    let estimator = crate::RttEstimator::default();
    for (returning, ends) in [(ms(0), false), (ms(500), true)] {
        let mut bbr = settled(false);
        bbr.filled_pipe = false;
        bbr.full_bw = bbr.path.bw();
        let ev = AckEvent { rtt: Some(ms(100)), returning, round_end: true, ..event(&estimator) };
        (0..3).for_each(|_| bbr.check_full_pipe(&ev, ev.rtt));
        assert_eq!(bbr.filled_pipe, ends, "{returning:?}");
    }
}

#[test]
fn a_measurement_of_losses_does_not_raise_a_valid_rtprop() {
    let ms = Duration::from_millis;
    let estimator = crate::RttEstimator::default();
    // The other flows' queue makes the RTT 150 ms. RTprop is 100 ms.
    let ev = AckEvent { rtt: Some(ms(150)), ..event(&estimator) };
    for (doubt, rtprop) in [(Some(Doubt { bw: 1e6, rate: 1e6 }), ms(100)), (None, ms(150))] {
        let mut bbr = settled(false);
        bbr.state = State::ProbeRtt;
        bbr.probe_rtt.done = Some(Time::from_millis(500));
        bbr.probe_rtt.doubt = doubt;
        bbr.update_rtprop_and_probe_rtt(&ev);
        assert_eq!((bbr.state, bbr.path.rtprop), (State::ProbeBw, Some(rtprop)));
    }
}

/// The delivery rate falls to an eighth, and the RTT triples. Returns whether capacity counts as fallen after
/// an acknowledgement at `ms`.
fn fell(bbr: &mut Bbr1, ms: u64) -> bool {
    let low = RateSample { rate: Rate::from_mbps(1.5), ..sample() };
    let rtt = Duration::from_millis(300);
    bbr.path.capacity_fell(Time::from_millis(ms), rtt, &low, &bbr.units, 0).is_some()
}

/// A path on which the newest acknowledgement showed no queue.
fn clear() -> Bbr1 {
    let mut bbr = settled(false);
    let rtt = Duration::from_millis(100);
    assert!(bbr.path.capacity_fell(Time::ZERO, rtt, &sample(), &bbr.units, 0).is_none());
    bbr
}

#[test]
fn eight_acknowledgements_show_a_fall() {
    let mut bbr = clear();
    assert!((1..8).all(|n| !fell(&mut bbr, 20 * n)));
    assert!(fell(&mut bbr, 160));
}

#[test]
fn idle_time_is_no_fall() {
    let mut bbr = clear();
    assert!((1..6).all(|n| !fell(&mut bbr, 10 * n)));
    bbr.on_idle_restart(Time::from_millis(10_000));
    assert!((1..6).all(|n| !fell(&mut bbr, 10_000 + 10 * n)));
}

#[test]
fn a_longer_path_has_a_new_lowest_round_trip() {
    let ms = Duration::from_millis;
    let at = Time::from_millis;
    // A drain did not lower the RTT of 150 ms, so the path has become longer.
    let mut bbr = settled(false);
    bbr.path.on_rtt(at(0), ms(100));
    bbr.drained = Some(Drained { old_bw: 1.5e6, old_rtt: ms(150), look_at_round: Some(0) });
    bbr.check_drained(at(1_000), ms(150));
    assert_eq!(bbr.path.rtprop, Some(ms(150)));
    assert!(bbr.path.confirming_rtt() > ms(160) && bbr.path.empty_rtt() > ms(160));
    // So does a path whose sender was idle for more than a minute.
    bbr.path.set_rtprop(at(70_000), ms(200));
    bbr.path.on_rtt(at(70_000), ms(200));
    assert!(bbr.path.confirming_rtt() > ms(210));
}

#[test]
fn tcp_starts_with_the_round_trip_time_of_its_handshake() {
    let ms = Duration::from_millis;
    let mut estimator = crate::RttEstimator::default();
    estimator.update(Time::ZERO, ms(20));
    let first = AckEvent { rtt: Some(ms(22)), ..event(&estimator) };
    let config = CcConfig { mtu: 1500, packets: false, draft: false, seed: 0 };
    for (mut bbr, rtprop) in [(Bbr1::tcp(1500, 0), ms(20)), (Bbr1::new(&config), ms(22))] {
        bbr.on_ack(&first);
        assert_eq!(bbr.path.rtprop, Some(rtprop));
    }
}

#[test]
fn low_rates_due_to_probe_rtt_restart_the_search_for_policers() {
    for (low_rate, detected) in [((0, 0), Some(1_000.0)), ((0, 1), None)] {
        let mut bbr = Bbr1::tcp(1500, 0);
        (0..2).for_each(|second| policed(&mut bbr, second));
        bbr.probe_rtt.low_rate = low_rate;
        bbr.on_ack(&event(&crate::RttEstimator::default()));
        policed(&mut bbr, 2);
        assert_eq!(bbr.long_term.rate(), detected);
    }
}

use super::*;
use crate::Amount;

#[test]
fn a_window_is_spread_over_a_round_trip() {
    let mut c = Cubic::new(&CcConfig { mtu: 1500, packets: false, draft: false, seed: 0 });
    assert_eq!(c.limits().pacing, None, "no round trip is known");
    (c.state.cwnd, c.srtt) = (100.0, Some(Duration::from_millis(100)));
    let mbps = |c: &Cubic| c.limits().pacing.unwrap().mbps();
    assert_eq!(mbps(&c), 24.0);
    // At that rate, two segments take a millisecond.
    assert_eq!(c.limits().quantum, 3_000);
    c.state.ssthresh = Some(100.0);
    assert_eq!(mbps(&c), 14.4);
    assert_eq!(
        Cubic { srtt: c.srtt, ..Cubic::tcp(1500) }.limits().pacing,
        None,
        "Linux's CUBIC is not paced without fq"
    );
}

#[test]
fn the_cubic_passes_through_its_corners() {
    // RFC 9438 section 4.2: the epoch starts at the initial window and reaches the plateau after K. After 2
    // K, the window is as far above the plateau as it was below the plateau at the start.
    let start = Time::from_millis(7);
    let e = Epoch::new(start, 70.0, Some(100.0), C);
    let k = Duration::from_secs_f64(e.k);
    assert!((e.k - 4.217).abs() < 1e-3, "{}", e.k);
    assert!((e.window(Duration::ZERO) - 70.0).abs() < 1e-6);
    assert!((e.window(k) - 100.0).abs() < 1e-6);
    assert!((e.window(2 * k) - 130.0).abs() < 1e-6);
    // Without a plateau, or with a plateau below the window, the epoch's plateau is its initial window.
    for w_max in [None, Some(50.0)] {
        let e = Epoch::new(start, 70.0, w_max, C);
        assert_eq!((e.plateau, e.k), (70.0, 0.0));
    }
}

/// Acknowledges `segments` segments of 1,000 bytes with this round-trip time.
fn acknowledge(c: &mut Cubic, segments: u64, rtt_ms: u64, round_end: bool) {
    let acked = Amount { packets: segments, bytes: segments * 1000 };
    c.on_ack(&AckEvent {
        now: Time::from_millis(100),
        acked,
        lost: Amount::default(),
        ce: 0,
        congestion: false,
        rtt: Some(Duration::from_millis(rtt_ms)),
        returning: Duration::ZERO,
        estimator: &RttEstimator::default(),
        rate: None,
        inflight_before: acked,
        inflight: acked,
        delivered: acked,
        round_end,
        app_limited: false,
    });
}

/// RFC 9406 section 4.2: HyStart++ does not affect slow start after congestion.
#[test]
fn a_longer_round_trip_ends_the_first_slow_start_only() {
    for (ssthresh, phase) in [(None, "congestion_avoidance"), (Some(1e6), "slow_start")] {
        let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
        c.state.ssthresh = ssthresh;
        for (round, n) in (0..7).flat_map(|round| (0..10).map(move |n| (round, n))) {
            acknowledge(&mut c, 1, if round == 0 { 40 } else { 60 }, n == 9);
        }
        assert_eq!(c.phase(), phase);
        assert_eq!(c.state.cwnd >= 80.0, ssthresh.is_some(), "{}", c.state.cwnd);
        // Neither does the slow start after a timeout, which grows by all acknowledged segments.
        c.on_rto(Time::from_millis(200));
        acknowledge(&mut c, 1, 40, true);
        assert_eq!(c.state.cwnd, 2.0);
    }
}

#[test]
fn an_inherited_window_grows_at_once() {
    let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    // The jump of a resumption loses packets. Then the controller's own small window begins an epoch.
    c.reduce(2.0);
    acknowledge(&mut c, 1, 40, true);
    assert!(c.state.epoch.is_some());
    let (now, srtt) = (Time::from_millis(100), Some(Duration::from_millis(40)));
    c.inherit(&Inherited { now, window: 100_000, srtt, min_rtt: None, settled: true });
    assert_eq!(c.state.cwnd, 100.0);
    acknowledge(&mut c, 100, 40, true);
    assert!(c.state.cwnd > 100.5, "{}", c.state.cwnd);
}

#[test]
fn idleness_leaves_the_window_for_five_minutes_and_buffer_drops_cost_packets() {
    let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    c.state.cwnd = 100.0;
    // A round of 20 packets and the start of another round show that the flow used little of the window.
    let estimator = RttEstimator::default();
    for (at, packets) in [(100, 1), (200, 20), (300, 20)] {
        let acked = Amount { packets, bytes: packets * 1000 };
        let used = Amount { packets: 20, bytes: 20_000 };
        c.on_ack(&AckEvent {
            now: Time::from_millis(at),
            acked,
            lost: Amount::default(),
            ce: 0,
            congestion: false,
            rtt: None,
            returning: Duration::ZERO,
            estimator: &estimator,
            rate: None,
            inflight_before: used,
            inflight: used,
            delivered: acked,
            round_end: true,
            app_limited: true,
        });
    }
    c.on_idle_restart(Time::from_millis(2_000));
    assert_eq!((c.state.cwnd, c.state.ssthresh), (100.0, None), "a second of idle time must not matter");
    c.on_idle_restart(Time::from_millis(302_000));
    assert_eq!((c.state.cwnd, c.state.ssthresh), (50.0, Some(75.0)));
    c.on_slow_receiver(8);
    assert_eq!((c.state.cwnd, c.state.ssthresh), (42.0, Some(42.0)));

    let mut c = Cubic::tcp(1000);
    c.state.cwnd = 100.0;
    c.on_idle_restart(c.last_sent + c.rto * 20);
    assert_eq!((c.state.cwnd, c.state.ssthresh), (c.initial(), Some(75.0)), "Linux");
}

#[test]
fn fast_convergence_undo_and_timeout() {
    let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    c.state.cwnd = 100.0;
    c.reduce(2.0);
    assert_eq!((c.state.cwnd, c.state.w_max, c.state.prior), (70.0, Some(100.0), 100.0));
    c.reduce(2.0);
    assert_eq!(c.state.w_max, Some(59.5));
    assert!((c.state.cwnd - 49.0).abs() < 1e-9);
    c.on_spurious_loss(Time::ZERO);
    assert_eq!((c.state.cwnd, c.state.w_max), (70.0, Some(100.0)));
    c.on_rto(Time::ZERO);
    assert_eq!((c.state.cwnd, c.state.ssthresh, c.state.w_max), (1.0, Some(49.0), None));
    assert_eq!(c.phase(), "slow_start");
    for _ in 0..10 {
        c.reduce(1.0);
    }
    assert_eq!((c.state.cwnd, c.state.ssthresh), (1.0, Some(2.0)));
}

#[test]
fn linux_undoes_window_and_threshold_alone() {
    let mut c = Cubic::tcp(1000);
    (c.state.cwnd, c.state.ssthresh) = (100.0, Some(90.0));
    c.avoid_congestion(Time::ZERO, 1.0, Duration::from_millis(40));
    let window = c.state.cwnd;
    c.reduce(2.0);
    c.on_spurious_loss(Time::ZERO);
    assert_eq!((c.state.cwnd, c.state.ssthresh, c.state.w_max), (window, Some(90.0), Some(window)));
    assert!(c.state.epoch.is_none(), "a new epoch must begin");
}

#[test]
fn timeouts_in_a_row_hold_the_threshold() {
    let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    c.state.cwnd = 100.0;
    for _ in 0..4 {
        c.on_rto(Time::ZERO);
    }
    assert_eq!((c.state.cwnd, c.state.ssthresh, c.state.w_max), (1.0, Some(70.0), None));
}

#[test]
fn idle_time_is_no_part_of_the_epoch() {
    let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    c.state.cwnd = 100.0;
    c.reduce(2.0);
    let rtt = Duration::from_millis(40);
    c.last_ack = Time::from_millis(1_000);
    c.avoid_congestion(c.last_ack, 1.0, rtt);
    c.shift_epoch(Time::from_millis(61_000));
    c.avoid_congestion(Time::from_millis(61_000), 1.0, rtt);
    assert!(c.state.cwnd < 72.0, "{}", c.state.cwnd);
}

/// RFC 7661 section 4.4.1: if a window was not validated, a loss or a timeout starts its reduction from the
/// part in use.
#[test]
fn a_loss_reduces_what_was_used() {
    for (used, timeout, left) in [(20, false, 14.0), (60, false, 70.0), (20, true, 14.0), (60, true, 70.0)] {
        let mut c = Cubic::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
        (c.state.cwnd, c.state.ssthresh) = (100.0, Some(100.0));
        let estimator = RttEstimator::default();
        for (at, lost) in [(100, 0), (200, 0), (300, 0), (400, u64::from(!timeout))] {
            let amount = |packets| Amount { packets, bytes: packets * 1000 };
            c.on_ack(&AckEvent {
                now: Time::from_millis(at),
                acked: amount(used),
                lost: amount(lost),
                ce: 0,
                congestion: lost > 0,
                rtt: None,
                returning: Duration::ZERO,
                estimator: &estimator,
                rate: None,
                inflight_before: amount(used),
                inflight: amount(used),
                delivered: amount(used),
                round_end: true,
                app_limited: true,
            });
        }
        if timeout {
            c.on_rto(Time::from_millis(500));
        }
        assert_eq!(c.state.ssthresh, Some(left), "{used} of 100 packets, timeout: {timeout}");
    }
}

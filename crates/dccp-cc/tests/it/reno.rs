//! Compares CCID 2's window with RFC 4341, one acknowledgement at a time.

use dccp_cc::{AckEvent, Amount, CcConfig, Controller, Reno, RttEstimator, Sent, Window};
use mpdccp_units::{Duration, Time};

/// An event of a sequence. The tests give the window after each event.
enum Step {
    Ack(u64),
    AppLimited(u64),
    /// Number of packets acknowledged, and number of marked packets among them. These include the first mark
    /// of a window.
    Marked(u64, u64),
    /// More marks of the same window.
    MarkedAgain(u64, u64),
    Lost(u64),
    Rto,
    Spurious,
    IdleMs(u64),
    AckRatio(u16),
    BufferDrops(u64),
}
use Step::*;

fn play(mtu: u16, steps: &[(Step, u64, &str)]) {
    let mut cc = Reno::new(&CcConfig { mtu, packets: true, draft: false, seed: 0 });
    let mut est = RttEstimator::default();
    let mut now = Time::from_millis(1_000);
    est.update(now, Duration::from_millis(100)); // RTO 300 ms
    for (i, (step, cwnd, phase)) in steps.iter().enumerate() {
        cc.on_sent(&Sent { now, bytes: u32::from(mtu), inflight: Amount::default() });
        let mut ack = |n: u64, ce: u64, lost: u64, congestion: bool, app_limited: bool| {
            let amount = |packets| Amount { packets, bytes: packets * u64::from(mtu) };
            cc.on_ack(&AckEvent {
                now,
                acked: amount(n),
                lost: amount(lost),
                ce,
                congestion,
                rtt: None,
                returning: Duration::ZERO,
                estimator: &est,
                rate: None,
                inflight_before: amount(n + lost),
                inflight: amount(0),
                delivered: amount(n),
                round_end: n > 0,
                app_limited,
            });
        };
        match *step {
            Ack(n) => ack(n, 0, 0, false, false),
            AppLimited(n) => ack(n, 0, 0, false, true),
            Marked(n, ce) => ack(n, ce, 0, true, false),
            MarkedAgain(n, ce) => ack(n, ce, 0, false, false),
            Lost(n) => ack(3, 0, n, true, false),
            Rto => cc.on_rto(now),
            Spurious => cc.on_spurious_loss(now),
            IdleMs(ms) => {
                now += Duration::from_millis(ms);
                cc.on_idle_restart(now);
            }
            AckRatio(r) => cc.on_ack_ratio(r),
            BufferDrops(n) => cc.on_slow_receiver(n),
        }
        assert_eq!(cc.limits().cwnd, Window::Packets(*cwnd), "step {i}");
        assert_eq!(cc.phase(), *phase, "step {i}");
    }
}

const SS: &str = "slow_start";
const CA: &str = "congestion_avoidance";

#[test]
fn initial_window_is_rfc_3390s() {
    play(1500, &[(Ack(0), 3, SS)]);
    play(2300, &[(Ack(0), 2, SS)]);
    play(1400, &[(Ack(0), 3, SS)]);
    play(500, &[(Ack(0), 4, SS)]);
    play(9000, &[(Ack(0), 2, SS)]);
}

#[test]
fn slow_start_grows_by_one_for_two_up_to_half_the_ack_ratio() {
    play(
        500,
        &[
            (Ack(2), 5, SS),
            (Ack(1), 5, SS),
            (Ack(1), 6, SS),
            // One acknowledgement covers many packets. Ack Ratio 2 allows growth by one.
            (Ack(20), 7, SS),
            (AckRatio(8), 7, SS),
            (Ack(8), 11, SS),
            (Ack(30), 15, SS),
            (AppLimited(8), 15, SS),
            // A second mark in the same window does not halve the window again, and its acknowledgement does
            // not grow the window.
            (Marked(8, 1), 7, CA),
            (Ack(6), 7, CA),
            (MarkedAgain(8, 2), 7, CA),
            (Ack(6), 7, CA),
            (Ack(1), 8, CA),
        ],
    );
}

#[test]
fn congestion_avoidance_grows_by_one_a_window_and_halves_once() {
    play(
        500,
        &[
            (AckRatio(20), 4, SS),
            (Ack(20), 14, SS),
            (Lost(3), 7, CA),
            (Ack(6), 7, CA),
            (Ack(1), 8, CA),
            (Ack(16), 9, CA),
            (Spurious, 14, SS),
            (Lost(1), 7, CA),
            (Lost(1), 3, CA),
            (Lost(1), 1, SS),
            (Lost(1), 1, SS),
            (Ack(2), 2, CA),
            (Ack(2), 3, CA),
        ],
    );
}

#[test]
fn timeouts_and_long_idleness() {
    play(
        500,
        &[
            (AckRatio(60), 4, SS),
            (Ack(56), 32, SS),
            (Rto, 1, SS),
            (Ack(60), 16, CA),
            (Ack(16), 17, CA),
            // RFC 7661 section 4.4.3: the window is halved after five minutes without use, and the threshold
            // allows the window to grow back. After five more minutes, the window is halved again.
            (IdleMs(299_000), 17, CA),
            (IdleMs(2_000), 8, SS),
            (IdleMs(298_000), 8, SS),
            (IdleMs(3_000), 4, SS),
            (IdleMs(3_000_000), 4, SS),
            (Ack(8), 8, SS),
            (Ack(60), 16, CA),
        ],
    );
}

/// Simulates `rounds` of 100 ms in which `packets` are acknowledged.
fn rounds(cc: &mut Reno, now: &mut Time, rounds: u32, packets: u64, lost: u64) {
    let mut est = RttEstimator::default();
    est.update(*now, Duration::from_millis(100));
    for _ in 0..rounds {
        *now += Duration::from_millis(100);
        let amount = |packets| Amount { packets, bytes: packets * 1000 };
        cc.on_ack(&AckEvent {
            now: *now,
            acked: amount(packets),
            lost: amount(lost),
            ce: 0,
            congestion: lost > 0,
            rtt: None,
            returning: Duration::ZERO,
            estimator: &est,
            rate: None,
            inflight_before: amount(packets),
            inflight: amount(0),
            delivered: amount(packets),
            round_end: true,
            app_limited: packets < 20,
        });
    }
}

/// Tests RFC 7661 sections 4.3 and 4.4.
#[test]
fn an_unused_window_is_kept_but_not_validated() {
    let window = |cc: &Reno| cc.limits().cwnd.packets(1000);
    let mut now = Time::from_millis(1_000);
    let mut cc = Reno::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    cc.on_ack_ratio(200);
    // Packets before the first full round are not a sample.
    rounds(&mut cc, &mut now, 1, 0, 0);
    rounds(&mut cc, &mut now, 1, 192, 0);
    assert_eq!((window(&cc), cc.limits().pacing), (100, None), "used in full");
    // The flow uses a tenth of the window. After a second (section 4.2), the window is no longer validated:
    // it is kept and paced, but does not grow.
    rounds(&mut cc, &mut now, 5, 10, 0);
    assert_eq!((window(&cc), cc.limits().pacing), (100, None));
    rounds(&mut cc, &mut now, 15, 10, 0);
    assert_eq!(window(&cc), 100);
    assert_eq!(cc.limits().pacing, Some(mpdccp_units::Rate::from_mbps(8.0)));
    // Section 4.4: when half of the window is used, it is valid again.
    rounds(&mut cc, &mut now, 1, 100, 0);
    assert_eq!((window(&cc) >= 100, cc.limits().pacing), (true, None));
    rounds(&mut cc, &mut now, 20, 10, 0);
    // Section 4.4.1: after a loss, half of the used part remains, not half of the window.
    rounds(&mut cc, &mut now, 1, 12, 1);
    assert_eq!(window(&cc), 6);
    // Until a round has passed since the loss (section 4.2), further losses halve the window.
    rounds(&mut cc, &mut now, 1, 3, 1);
    assert_eq!(window(&cc), 3);
}

/// RFC 5681 section 3.1 sets the threshold to half of the packets in flight, which are at most the used part
/// of the window.
#[test]
fn a_timeout_halves_what_was_used() {
    let mut now = Time::from_millis(1_000);
    let mut cc = Reno::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 });
    cc.on_ack_ratio(200);
    rounds(&mut cc, &mut now, 1, 0, 0);
    rounds(&mut cc, &mut now, 1, 192, 0);
    rounds(&mut cc, &mut now, 20, 10, 0);
    cc.on_sent(&Sent { now, bytes: 1000, inflight: Amount { packets: 29, bytes: 29_000 } });
    cc.on_rto(now);
    assert_eq!(cc.threshold(), Some(15), "30 packets of a window of 100 were in flight");
}

#[test]
fn a_slow_receiver_ends_slow_start() {
    play(500, &[(Ack(2), 5, SS), (BufferDrops(0), 5, CA), (BufferDrops(2), 3, CA), (BufferDrops(9), 1, SS)]);
}

/// RFC 5681 section 3.1: an outage with many timeouts costs as much as one timeout.
#[test]
fn timeouts_in_a_row_hold_the_threshold() {
    play(
        1500,
        &[
            (AckRatio(100), initial(), "slow_start"),
            (Ack(40), initial() + 20, "slow_start"),
            (Rto, 1, "slow_start"),
            (Rto, 1, "slow_start"),
            (Rto, 1, "slow_start"),
            (Ack(40), (initial() + 20) / 2, "congestion_avoidance"),
        ],
    );
}

/// Returns the initial window for packets of 1,500 bytes.
fn initial() -> u64 {
    match Reno::new(&CcConfig { mtu: 1500, packets: true, draft: false, seed: 0 }).limits().cwnd {
        Window::Packets(n) | Window::Bytes(n) => n,
    }
}

//! Replacing a congestion control (RFC 4340 section 10.5). The rate stays the same, and a completed search is
//! not repeated.

use dccp_cc::tfrc::{TfrcConfig, TfrcSender};
use dccp_cc::{Algorithm, CcConfig, Controller, Inherited, Prague};
use mpdccp_units::{Duration, Time};

const MTU: u16 = 1000;
const WINDOW: u64 = 100_000;
const SRTT: Duration = Duration::from_millis(50);

fn found(settled: bool) -> Inherited {
    let min_rtt = Some(Duration::from_millis(40));
    Inherited { now: Time::from_millis(9), window: WINDOW, srtt: Some(SRTT), min_rtt, settled }
}

fn heirs() -> impl Iterator<Item = Box<dyn Controller>> {
    let cfg = CcConfig { mtu: MTU, packets: false, draft: false, seed: 3 };
    let algorithms = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr1, Algorithm::Bbr3];
    let prague: Box<dyn Controller> = Box::new(Prague::new(&cfg));
    algorithms.map(|algorithm| algorithm.controller(&cfg)).into_iter().chain([prague])
}

#[test]
fn the_window_is_carried_over() {
    for mut heir in heirs() {
        assert!(!heir.settled(), "{heir:?}");
        heir.inherit(&found(true));
        assert_eq!(heir.limits().cwnd.bytes(MTU), WINDOW, "{heir:?}");
        assert!(heir.settled() && !matches!(heir.phase(), "slow_start" | "startup"), "{heir:?}");
        if let Some(rate) = heir.limits().pacing {
            // BBR's bandwidth probe adds a quarter.
            let share = rate.bytes_in(SRTT) as f64 / WINDOW as f64;
            assert!((0.7..=1.26).contains(&share), "{heir:?} sends at {share}");
        }
    }
}

#[test]
fn a_search_that_is_not_over_goes_on() {
    for mut heir in heirs() {
        heir.inherit(&found(false));
        assert_eq!(heir.limits().cwnd.bytes(MTU), WINDOW, "{heir:?}");
        assert!(!heir.settled() && matches!(heir.phase(), "slow_start" | "startup"), "{heir:?}");
    }
}

#[test]
fn tfrc_goes_on_at_the_same_rate() {
    let cfg = TfrcConfig { small_packets: false, oscillation_reduction: true, payload: 940, wire: 1000 };
    let mut tfrc = TfrcSender::new(cfg, Time::ZERO, Some(SRTT));
    assert!(!tfrc.settled());
    tfrc.inherit(&found(true));
    assert!(tfrc.settled());
    tfrc.on_sent(Time::from_millis(10), 940, 1000, true);
    let share = tfrc.wire_rate().bytes_in(SRTT) as f64 / WINDOW as f64;
    assert!((0.99..1.01).contains(&share), "{share}");
}

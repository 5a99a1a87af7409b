//! The example test cases of the draft's appendix, under the same names, for the published variant. Unless a
//! test says otherwise, a single flow uses a link of 50 Mbit/s and 40 ms.

use std::sync::{Arc, Mutex, MutexGuard};

use super::bbr::Bbr3;
use super::states::State;
use crate::model::scenario::{CFG, at, bulk, link, ms};
use crate::model::{Source, WIRE, World, full, summary};
use crate::{AckEvent, CcConfig, Controller, Inherited, Limits, Lost, Sent};
use mpdccp_linkem::{Aggregation, Jitter, LinkConfig, Policer};
use mpdccp_units::{Duration, Rate, Time};

/// A change of state.
#[derive(Clone, Debug)]
struct Change {
    at: Time,
    from: State,
    to: State,
    inflight: u64,
    /// BBR's Inflight(1.0) before the change, computed with bw.
    target: u64,
    /// BBR's Inflight(1.0) before the change, computed with max_bw.
    max_target: u64,
    headroom: u64,
    full_now: bool,
    rounds: u64,
}

#[derive(Debug)]
struct Watched {
    bbr: Bbr3,
    changes: Vec<Change>,
}

/// A controller that can be inspected while a world drives it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Watched>>);

impl Shared {
    fn bbr(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap()
    }

    fn noting(&self, now: Time, inflight: Option<u64>, input: impl FnOnce(&mut Bbr3)) {
        let w = &mut *self.bbr();
        let from = w.bbr.state;
        input(&mut w.bbr);
        let b = &w.bbr;
        if b.state != from {
            w.changes.push(Change {
                at: now,
                from,
                to: b.state,
                inflight: inflight.unwrap_or(u64::MAX),
                target: b.inflight(1.0),
                max_target: b.quantized(b.max_bdp(1.0)),
                headroom: b.inflight_with_headroom(),
                full_now: b.full_bw.now,
                rounds: b.rounds.count,
            });
        }
    }
}

impl Controller for Shared {
    fn on_sent(&mut self, pkt: &Sent) {
        self.bbr().bbr.on_sent(pkt);
    }
    fn on_packet_lost(&mut self, pkt: &Lost<'_>) {
        self.noting(pkt.now, None, |bbr| bbr.on_packet_lost(pkt));
    }
    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.noting(ev.now, Some(ev.inflight.bytes), |bbr| bbr.on_ack(ev));
    }
    fn on_rto(&mut self, now: Time) {
        self.noting(now, None, |bbr| bbr.on_rto(now));
    }
    fn on_spurious_loss(&mut self, now: Time) {
        self.noting(now, None, |bbr| bbr.on_spurious_loss(now));
    }
    fn on_idle_restart(&mut self, now: Time) {
        self.noting(now, None, |bbr| bbr.on_idle_restart(now));
    }
    fn on_mtu(&mut self, mtu: u16) {
        self.bbr().bbr.on_mtu(mtu);
    }
    fn limits(&self) -> Limits {
        self.bbr().bbr.limits()
    }
    fn phase(&self) -> &'static str {
        self.bbr().bbr.phase()
    }
    fn bottleneck(&self) -> Option<Rate> {
        self.bbr().bbr.bottleneck()
    }
    fn inherit(&mut self, from: &Inherited) {
        self.bbr().bbr.inherit(from);
    }
}

struct Case {
    world: World,
    shared: Shared,
}

impl Case {
    fn on(link: LinkConfig) -> Case {
        let bbr = Bbr3::new(&CcConfig { mtu: WIRE as u16, draft: true, seed: 3, ..CFG });
        let shared = Shared(Arc::new(Mutex::new(Watched { bbr, changes: Vec::new() })));
        Case { world: bulk(link, vec![(0.0, Box::new(shared.clone()))]), shared }
    }

    /// Passes the algorithm to `look` and returns the result.
    fn see<T>(&self, look: impl FnOnce(&Bbr3) -> T) -> T {
        look(&self.shared.bbr().bbr)
    }

    fn changes(&self) -> Vec<Change> {
        self.shared.bbr().changes.clone()
    }

    /// Runs in steps of a tenth of a millisecond until `over` returns true, for at most `secs` seconds.
    fn until(&mut self, secs: f64, over: impl Fn(&Bbr3) -> bool) {
        self.through(secs, over, |_| {});
    }

    fn through(&mut self, secs: f64, over: impl Fn(&Bbr3) -> bool, mut each: impl FnMut(&Bbr3)) {
        let end = self.world.now + Duration::from_secs_f64(secs);
        while !self.see(&over) {
            assert!(self.world.now < end, "{:?} for {secs} s: {:?}", self.see(|b| b.state), self.changes());
            self.world.run(self.world.now + Duration::from_micros(100));
            self.see(&mut each);
        }
    }

    fn until_state(&mut self, state: State) {
        self.until(20.0, |b| b.state == state);
    }

    /// Clears the recorded changes, runs until the state changes, and returns the change.
    fn leave(&mut self, secs: f64) -> Change {
        self.shared.bbr().changes.clear();
        let state = self.see(|b| b.state);
        self.until(secs, |b| b.state != state);
        self.changes()[0].clone()
    }

    fn run(&mut self, secs: f64) {
        self.world.run(self.world.now + Duration::from_secs_f64(secs));
    }

    /// Limits the application to this rate from now on (Mbit/s on the wire).
    fn limit(&mut self, mbps: f64) {
        let rate = Rate::from_mbps(full(mbps));
        self.world.set_source(0, Source::Cbr { rate, queue: 100 });
    }

    /// Returns the share of a link of `mbps` Mbit/s that the flow used in the last `secs` seconds.
    fn share(&self, mbps: f64, secs: f64) -> f64 {
        let now = self.world.now;
        summary(&self.world.sessions[0].got, now - Duration::from_secs_f64(secs), now).mbps / full(mbps)
    }

    fn lost(&self) -> u64 {
        self.world.sessions[0].sender(0).lost
    }

    fn max_bw_mbps(&self) -> f64 {
        self.see(|b| b.max_bw.get()) * 8e-6
    }
}

fn deep() -> Case {
    Case::on(link(50.0, ms(40.0), 4.0))
}

/// Returns a link whose queue overflows during bandwidth probes.
fn shallow() -> Case {
    Case::on(link(50.0, ms(40.0), 0.5))
}

#[test]
fn exiting_startup_on_bandwidth_plateau() {
    let mut case = deep();
    let mut counted = vec![];
    case.through(
        5.0,
        |b| b.state != State::Startup,
        |b| {
            if counted.last().is_none_or(|(_, n)| *n != b.full_bw.count) {
                counted.push((b.rounds.count, b.full_bw.count));
            }
        },
    );
    let change = case.changes()[0].clone();
    assert_eq!((change.from, change.to), (State::Startup, State::Drain));
    assert!(case.see(|b| b.full_bw.now && b.full_bw.reached));
    let [.., (a, 1), (b, 2), (c, 3)] = counted[..] else { panic!("{counted:?}") };
    assert_eq!((b, c), (a + 1, a + 2), "three rounds in a row");
    let bw = case.max_bw_mbps();
    assert!((49.0..51.0).contains(&bw), "{bw}");
}

#[test]
fn exiting_startup_on_loss_when_application_limited() {
    let mut case = Case::on(link(50.0, ms(100.0), 4.0));
    case.limit(20.0);
    case.run(3.0);
    assert!(case.see(|b| b.state == State::Startup && !b.full_bw.reached));
    case.world.set_loss(0, 0.1);
    let change = case.leave(1.0);
    // Too little is in flight, so Drain ends at once.
    assert!(change.from == State::Startup && case.see(|b| b.drain_start_round) == change.rounds);
    assert!(case.see(|b| b.full_bw.now && b.full_bw.reached && b.inflight_longterm < u64::MAX));
}

#[test]
fn exiting_drain_based_on_inflight() {
    let mut case = deep();
    case.until_state(State::Drain);
    assert_eq!(case.see(|b| b.state.gains().0), 0.5);
    let first = case.world.sessions[0].sender(0).inflight.bytes;
    let change = case.leave(1.0);
    assert!(change.from == State::Drain && change.to.in_probe_bw());
    assert!(first > change.target && change.inflight <= change.target, "{first} {change:?}");
}

/// Had the bandwidth fallen by only a tenth, the queue would drain in two rounds. Here the bandwidth falls
/// much further, so that the amount in flight stays above the target.
#[test]
fn exiting_drain_based_on_time() {
    let mut case = deep();
    case.until_state(State::Drain);
    case.world.set_rate(0, 15.0);
    let start = case.see(|b| b.drain_start_round);
    let change = case.leave(3.0);
    assert_eq!((change.from, change.to), (State::Drain, State::Down));
    assert!(change.inflight > change.target, "{change:?}");
    assert_eq!(change.rounds, start + 4);
}

#[test]
fn exiting_probe_up_on_bandwidth_plateau() {
    let mut case = deep();
    case.until_state(State::Up);
    let change = case.leave(2.0);
    assert_eq!((change.to, change.full_now, case.lost()), (State::Down, true, 0));
}

#[test]
fn exiting_probe_up_on_loss_when_application_limited() {
    let mut case = deep();
    case.until_state(State::Up);
    case.limit(25.0);
    case.run(0.2);
    assert_eq!(case.see(|b| (b.state, b.probe.sampling)), (State::Up, true));
    let before = case.see(|b| b.inflight_longterm);
    case.world.set_loss(0, 0.1);
    let change = case.leave(1.0);
    assert_eq!((change.to, change.full_now), (State::Down, false));
    // Section 5.5.10.2: the amount in flight of an application-limited sender does not set the limit.
    assert_eq!(case.see(|b| (b.probe.too_high, b.inflight_longterm)), (true, before));
}

/// ProbeRTT still occurs every five seconds, whatever the state.
#[test]
fn never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let mut case = deep();
    case.limit(20.0);
    case.run(20.0);
    assert!(case.changes().iter().all(|c| matches!(c.to, State::ProbeRtt | State::Startup)));
    assert!(!case.see(|b| b.full_bw.reached));
    let mut case = deep();
    case.until_state(State::Up);
    case.limit(25.0);
    let change = case.leave(6.0);
    assert_eq!(change.to, State::ProbeRtt, "{change:?}");
}

#[test]
fn exiting_probe_down_on_inflight() {
    let mut case = shallow();
    case.until_state(State::Up);
    case.until_state(State::Down);
    assert_eq!(case.see(|b| b.state.gains().0), 0.9);
    let change = case.leave(3.0);
    assert_eq!(change.to, State::Cruise);
    assert!(change.headroom < u64::MAX && change.inflight <= change.headroom, "{change:?}");
    assert!(change.inflight <= change.max_target, "{change:?}");
}

#[test]
fn exiting_probe_down_after_max_time() {
    let mut case = deep();
    // ProbeRTT would start before the probe, so the test prevents it.
    case.shared.bbr().bbr.hold_probe_rtt(true);
    case.until_state(State::Up);
    case.until_state(State::Down);
    case.world.set_rate(0, 45.0);
    let (stamp, wait) = case.see(|b| (b.probe.stamp, b.probe.wait));
    let change = case.leave(5.0);
    assert_eq!(change.to, State::Refill, "{change:?}");
    assert!(change.at > stamp + wait && change.at < stamp + wait + Duration::from_millis(200));
}

#[test]
fn entering_and_exiting_probe_rtt() {
    let mut case = deep();
    case.until(20.0, |b| b.state == State::ProbeRtt);
    let entered = case.changes().last().unwrap().clone();
    assert!(entered.from.in_probe_bw());
    assert!(case.see(|b| b.state.gains().1) == 0.5);
    let change = case.leave(2.0);
    assert_eq!(change.to, State::Cruise);
    assert!(change.at > entered.at + Duration::from_millis(200) && change.rounds > entered.rounds);
    case.run(2.0);
    let share = case.share(50.0, 1.0);
    assert!(share > 0.9, "{share}");
}

#[test]
fn skipping_probe_rtt_due_to_application_limited_sending() {
    let mut case = deep();
    case.until_state(State::Cruise);
    case.world.set_source(0, Source::Cbr { rate: Rate::from_bps(1), queue: 0 });
    case.run(6.0);
    assert_eq!(case.world.sessions[0].sender(0).inflight.packets, 0);
    case.shared.bbr().changes.clear();
    case.world.set_source(0, Source::Bulk);
    case.run(0.001);
    assert!(case.see(|b| b.idle_restart));
    case.run(4.0);
    assert!(case.see(|b| !b.idle_restart));
    assert!(case.changes().iter().all(|c| c.to != State::ProbeRtt), "{:?}", case.changes());
}

/// Creates a flow over a link that sends packets in bursts of at most 64, with 5 ms between bursts on
/// average. Returns the case and the share of 50 Mbit/s that such a link carries.
fn lumps() -> (Case, f64) {
    let aggregation = Aggregation { access: ms(5.0), packets: 64 };
    let busy = 64.0 * f64::from(WIRE) * 8.0 / 50e6;
    let case = Case::on(LinkConfig { aggregation: Some(aggregation), ..link(50.0, ms(40.0), 4.0) });
    (case, busy / (busy + 0.005))
}

#[test]
fn achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let (mut case, left) = lumps();
    let (mut extra, mut beyond) = (0, false);
    case.through(
        5.0,
        |b| b.state != State::Startup,
        |b| {
            extra = extra.max(b.extra_acked.get());
            beyond |= b.max_bw.get() > 0.0 && b.cwnd > 2 * b.bdp(1.0);
        },
    );
    assert!(extra > u64::from(WIRE) && beyond, "{extra} {beyond}");
    // The estimate matches the rate that the link carries, and does not exceed 50 Mbit/s.
    let bw = case.max_bw_mbps();
    assert!((0.95 * left * 50.0..50.5).contains(&bw), "{bw} of {}", left * 50.0);
}

#[test]
fn achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let (mut case, left) = lumps();
    case.run(5.0);
    case.until_state(State::Cruise);
    let window = case.see(|b| b.extra_acked.filter.clone()).get();
    assert!(window > u64::from(WIRE));
    assert!(case.see(|b| b.cwnd > 2 * b.bdp(1.0)), "{:?}", case.see(|b| (b.cwnd, b.bdp(1.0), window)));
    case.run(10.0);
    let share = case.share(50.0, 10.0);
    assert!(share > 0.9 * left, "{share} of {left}");
}

#[test]
fn correctly_managing_sub_packet_bdps() {
    // The BDP of 0.1 Mbit/s and 10 ms is a tenth of a packet.
    let mut case = Case::on(link(0.1, ms(10.0), 1.0));
    case.run(20.0);
    case.until_state(State::Cruise);
    assert_eq!(case.see(|b| b.cwnd.min(b.min_pipe_cwnd())), 4 * u64::from(WIRE));
    let pacing = case.see(|b| b.pacing_rate).mbps();
    assert!((0.09..0.11).contains(&pacing), "{pacing}");
    case.run(30.0);
    let share = case.share(0.1, 30.0);
    assert!(share > 0.95, "{share}");
}

#[test]
fn increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() {
    let mut case = Case::on(link(10.0, ms(40.0), 0.5));
    case.run(4.0);
    case.until_state(State::Cruise);
    case.world.set_rate(0, 100.0);
    case.until_state(State::Up);
    let begun = case.see(|b| b.rounds.count);
    // Number of bytes that must be acknowledged before inflight_longterm grows by another packet, halved each
    // round.
    let mut steps: Vec<(u32, u64)> = vec![];
    case.through(
        30.0,
        |b| b.max_bw.get() * 8e-6 > 95.0,
        |b| {
            if b.state == State::Up && steps.last().is_none_or(|(up, _)| *up != b.probe.up_rounds) {
                steps.push((
                    b.probe.up_rounds,
                    b.probe.acked_per_inc * (1 << (b.probe.up_rounds - 1)) / b.mtu(),
                ));
            }
        },
    );
    let rounds = case.see(|b| b.rounds.count) - begun;
    println!("{rounds} rounds, {steps:?}");
    assert!(steps.windows(2).filter(|w| w[1].0 == w[0].0 + 1).count() >= 3, "{steps:?}");
    assert!(rounds <= 30, "{rounds}");
}

#[test]
fn decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() {
    let mut case = Case::on(link(100.0, ms(40.0), 0.5));
    case.run(4.0);
    case.until_state(State::Cruise);
    case.world.set_rate(0, 10.0);
    case.until(3.0, |b| b.bw_shortterm * 8e-6 < 50.0);
    case.until(20.0, |b| b.max_bw.get() * 8e-6 < 10.5);
    case.run(10.0);
    let share = case.share(10.0, 5.0);
    assert!(share > 0.9 && case.max_bw_mbps() < 10.5, "{share}");
}

#[test]
fn handling_token_bucket_policers() {
    let policer = Policer { rate: Rate::from_mbps(20.0), burst: 60_000 };
    let mut case = Case::on(LinkConfig { policer: Some(policer), ..link(100.0, ms(40.0), 4.0) });
    case.until(10.0, |b| b.state.in_probe_bw());
    case.until(10.0, |b| b.bw_shortterm.is_finite() && b.inflight_shortterm < u64::MAX);
    case.run(15.0);
    let (lost, got) = (case.lost(), case.world.sessions[0].got.len());
    case.run(15.0);
    let lost = (case.lost() - lost) as f64;
    let loss = lost / (lost + (case.world.sessions[0].got.len() - got) as f64);
    let share = case.share(20.0, 15.0);
    println!("share {share:.3}, loss {loss:.4}");
    assert!(share > 0.8 && loss < 0.03, "{share} {loss}");
}

/// Returns two pairs, each with the value that was saved when losses began and the current value.
fn saved(b: &Bbr3) -> [(u64, u64); 2] {
    [(b.undo.inflight_shortterm, b.inflight_shortterm), (b.undo.inflight_longterm, b.inflight_longterm)]
}

#[test]
fn handling_spurious_fast_recovery() {
    let jitter = Jitter { reorder: true, ..Jitter::default() };
    let mut case = Case::on(LinkConfig { jitter, ..link(50.0, ms(40.0), 4.0) });
    case.until_state(State::Up);
    let before = case.see(|b| (b.inflight_shortterm, b.inflight_longterm));
    // Packets that are sent from now on overtake the previous ones.
    case.world.set_delay(0, ms(16.0));
    let change = case.leave(1.0);
    assert_eq!(change.to, State::Down);
    assert_eq!(case.see(|b| (b.undo.state, saved(b).map(|s| s.0))), (Some(State::Up), [before.0, before.1]));
    let change = case.leave(1.0);
    assert_eq!(change.to, State::Refill, "the probe must start again: {change:?}");
    assert!(case.see(|b| saved(b).iter().all(|(saved, now)| now >= saved) && b.bw_shortterm.is_infinite()));
    assert_eq!(case.leave(1.0).to, State::Up);
}

#[test]
fn handling_spurious_rto_recovery() {
    let mut case = deep();
    case.until_state(State::Up);
    let before = case.see(|b| (b.inflight_shortterm, b.inflight_longterm));
    // The next packets take longer than a timeout.
    case.world.set_delay(0, ms(400.0));
    case.until(2.0, |b| b.recovering);
    assert_eq!(case.world.sessions[0].sender(0).rtos, 1);
    assert_eq!(case.see(|b| b.cwnd), u64::from(WIRE));
    assert_eq!(case.see(|b| (b.state, b.undo.state)), (State::Down, Some(State::Up)));
    assert_eq!(case.see(|b| saved(b).map(|s| s.0)), [before.0, before.1]);
    case.until(3.0, |b| b.undo.state.is_none());
    // The flow passes through Refill.
    assert!(case.see(|b| matches!(b.state, State::Refill | State::Up)), "{:?}", case.changes());
    assert!(case.see(|b| !b.recovering && b.cwnd > 4 * b.mtu()));
    assert!(case.see(|b| saved(b).iter().all(|(saved, now)| now >= saved)));
}

#[test]
fn entering_and_exiting_probe_rtt_during_startup() {
    let mut case = deep();
    case.limit(20.0);
    case.until_state(State::ProbeRtt);
    assert!(case.world.now > at(5.0) && case.see(|b| !b.full_bw.reached));
    let change = case.leave(2.0);
    assert_eq!(change.to, State::Startup);
    case.world.set_source(0, Source::Bulk);
    case.until_state(State::Drain);
    let bw = case.max_bw_mbps();
    assert!(bw > 49.0, "{bw}");
}

#[test]
fn handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut case = shallow();
    case.until(20.0, |b| b.state == State::Up && b.inflight_longterm < u64::MAX);
    let before = case.see(|b| b.inflight_longterm);
    case.world.set_loss(0, 0.1);
    let least = case.see(|b| (0.7 * b.target_inflight() as f64) as u64);
    let change = case.leave(1.0);
    assert_eq!((change.to, change.full_now), (State::Down, false));
    let after = case.see(|b| b.inflight_longterm);
    assert!(case.see(|b| b.probe.too_high && !b.probe.sampling));
    // Beta limits the reduction.
    assert!(after >= least * 9 / 10 && after <= before.max(least), "{least} {after} {before}");
}

#[test]
fn handling_application_limited_sending_during_probe_refill() {
    let mut case = deep();
    case.until_state(State::Refill);
    let before = case.max_bw_mbps();
    case.limit(2.0);
    let change = case.leave(2.0);
    assert_eq!(change.to, State::Up);
    let during = case.max_bw_mbps();
    assert!((during - before).abs() < 0.01 * before, "{before} {during}");
    case.world.set_source(0, Source::Bulk);
    assert_eq!(case.leave(3.0).to, State::Down);
    case.run(3.0);
    let share = case.share(50.0, 2.0);
    assert!(share > 0.9, "{share}");
}

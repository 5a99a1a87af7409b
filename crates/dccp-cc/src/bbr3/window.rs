//! The control parameters: pacing rate, send quantum, window (section 5.6).

use super::bbr::{Bbr3, INITIAL_CWND};
use super::states::State;
use crate::AckEvent;
use mpdccp_units::{Duration, Rate};

/// BBR.MinPipeCwnd, packets (section 2.6).
const MIN_PIPE_CWND: u64 = 4;
/// BBR.Headroom (section 2.6).
const HEADROOM: f64 = 0.15;
/// BBR.PacingMarginPercent (section 5.6.2).
const PACING_MARGIN: f64 = 0.01;
/// Largest quantum (section 5.6.3).
const MAX_QUANTUM: u64 = 64 * 1024;
/// Quanta in the draft's offload budget (section 5.5.8.2).
const OFFLOAD_QUANTA: u64 = 3;
/// A path with a shorter round trip stays within a host or a LAN. There, hosts take longer to wake up, read
/// and acknowledge than packets take to travel, and the measured round trip does not include this time.
const LAN: Duration = Duration::from_millis(1);
/// Tuned variant: with jitter or aggregation, the window is at least this multiple of the amount that the
/// path keeps in flight. If delay varies by more than min_rtt, a window of twice the BDP leaves no room for
/// probing.
const PROBE_ROOM: f64 = 1.5;

impl Bbr3 {
    pub(super) fn mtu(&self) -> u64 {
        u64::from(self.mtu.max(1))
    }

    /// Implements InitPacingRate (section 5.6.2).
    pub(super) fn init_pacing_rate(&mut self, rtt: Duration) {
        let gain = State::Startup.gains().0;
        let rtt = rtt.max(Duration::from_micros(1));
        self.pacing_rate = Rate::from_bytes_per(INITIAL_CWND * self.mtu(), rtt).scale(gain);
    }

    /// Implements SetPacingRateWithGain. The rate is at least a packet per second, because an estimate near
    /// zero must not stop a path forever.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let bps = gain * self.bw * (1.0 - PACING_MARGIN) * 8.0;
        let rate = Rate::from_bps((bps as u64).max(8 * self.mtu()));
        if self.full_bw.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Implements SetSendQuantum.
    pub(super) fn send_quantum(&self) -> u64 {
        let millisecond = self.millisecond();
        if self.tuned {
            // A large burst overflows a short queue, or forms a queue on a slow path. On a LAN, bursts may be
            // larger: sending a burst costs the host as much as sending a packet, so large bursts save CPU
            // time.
            return millisecond.min(self.cwnd / if self.is_lan() { 4 } else { 16 }).max(self.mtu());
        }
        millisecond.max(2 * self.mtu())
    }

    fn millisecond(&self) -> u64 {
        self.pacing_rate.bytes_in(Duration::from_millis(1)).min(MAX_QUANTUM)
    }

    fn is_lan(&self) -> bool {
        self.min_rtt.value.is_some_and(|rtt| rtt < LAN)
    }

    /// Implements BDPMultiple: the BDP times `gain`, for the bandwidth in use.
    pub(super) fn bdp(&self, gain: f64) -> u64 {
        self.bdp_of(self.bw, gain)
    }

    /// Implements BDPMultiple: the BDP times `gain`, for max_bw.
    pub(super) fn max_bdp(&self, gain: f64) -> u64 {
        self.bdp_of(self.max_bw.get(), gain)
    }

    fn bdp_of(&self, bw: f64, gain: f64) -> u64 {
        match self.min_rtt.value {
            Some(rtt) if bw > 0.0 => (gain * bw * rtt.as_secs_f64()) as u64,
            _ => INITIAL_CWND * self.mtu(),
        }
    }

    /// Implements QuantizationBudget: returns `inflight`, but at least the amount needed for bursts and the
    /// minimum window, plus two packets in Up. The offload budget is one quantum, as for QUIC (section
    /// 5.5.8.2), because lower layers do not segment packets. Tuned variant: on a LAN the offload budget is
    /// that of TCP, because hosts forward packets in bursts that take longer than the round trip.
    pub(super) fn quantized(&self, inflight: u64) -> u64 {
        let extra = if self.state == State::Up { 2 * self.mtu() } else { 0 };
        let budget = if self.tuned && self.is_lan() {
            OFFLOAD_QUANTA * self.millisecond()
        } else {
            self.send_quantum()
        };
        inflight.max(budget).max(self.min_pipe_cwnd()).saturating_add(extra)
    }

    /// Implements Inflight: the BDP times `gain`, with room for bursts and jitter.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.quantized(self.bdp(gain)).saturating_add(self.jitter_allowance())
    }

    /// Tuned variant: returns the number of bytes that arrive during the variation of delay.
    pub(super) fn jitter_allowance(&self) -> u64 {
        if self.tuned { self.jitter.allowance(self.bw) as u64 } else { 0 }
    }

    /// Returns the maximum number of bytes in flight at `gain`, with room for aggregated acknowledgements and
    /// the variation of delay.
    fn max_inflight(&self, gain: f64) -> u64 {
        let extra = self.extra_acked.get();
        if !self.tuned {
            return self.quantized(self.bdp(gain).saturating_add(extra));
        }
        // Aggregated acknowledgements also make the delay vary, so only the larger of the two counts.
        let room = self.jitter_allowance().max(extra) as f64;
        let bdp = self.bdp(1.0) as f64;
        self.quantized((gain * bdp + room).max(gain.min(PROBE_ROOM) * (bdp + room)) as u64)
    }

    /// Implements InflightWithHeadroom: `inflight_longterm`, less 15 % that is left to other flows.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = ((HEADROOM * self.inflight_longterm as f64) as u64).max(self.mtu());
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND * self.mtu()
    }

    /// Implements ProbeRTTCwnd: the window of ProbeRTT.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(State::ProbeRtt.gains().1).max(self.min_pipe_cwnd())
    }

    /// Implements SetCwnd.
    pub(super) fn set_cwnd(&mut self, ev: &AckEvent<'_>) {
        let gain = self.state.gains().1;
        let max_inflight = self.max_inflight(gain);
        let grown = self.cwnd.saturating_add(ev.acked.bytes);
        if self.full_bw.reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || ev.delivered.bytes < INITIAL_CWND * self.mtu() {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        // BoundCwndForModel: the long-term and short-term models limit the window.
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        self.cwnd = self.cwnd.min(cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd()));
    }

    /// Implements SaveCwnd: saves the window to restore after recovery or ProbeRTT.
    pub(super) fn save_cwnd(&mut self) {
        let recovering = self.recovering || self.signals.congestion || self.state == State::ProbeRtt;
        self.prior_cwnd = if recovering { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Implements RestoreCwnd.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CcConfig;

    #[test]
    fn the_window_holds_what_hosts_near_each_other_hand_on_at_once() {
        let of = |draft, rtt_us| {
            let mut bbr = Bbr3::new(&CcConfig { mtu: 1500, packets: false, draft, seed: 0 });
            (bbr.cwnd, bbr.pacing_rate) = (6_000, Rate::from_mbps(100.0));
            bbr.min_rtt.value = Some(Duration::from_micros(rtt_us));
            bbr.quantized(1_000)
        };
        assert_eq!((of(false, 50), of(false, 2_000)), (37_500, 6_000));
        assert_eq!((of(true, 50), of(true, 2_000)), (12_500, 12_500), "as published");
    }
}

//! The control parameters: pacing rate, send quantum, window (section 4.2).

use super::bbr::{Bbr1, HIGH_GAIN, INITIAL_CWND, MIN_PACING_SECS};
use super::path_model::MIN_PIPE_CWND;
use super::states::{CYCLE, Recovery, State};
use super::tuning;
use crate::AckEvent;
use mpdccp_units::{Duration, Rate};

/// Largest quantum (section 4.2.2).
const MAX_QUANTUM: u64 = 64 * 1024;

impl Bbr1 {
    /// Implements BBRUpdateControlParameters (section 3.5.2).
    pub(super) fn update_control_parameters(&mut self, ev: &AckEvent<'_>) {
        if !self.pacing_from_rtt
            && let Some(srtt) = ev.estimator.srtt()
        {
            self.pacing_from_rtt = true;
            self.init_pacing_rate(srtt);
        }
        self.set_pacing_rate(self.pacing_gain);
        self.set_cwnd(ev);
        if self.tuning.open_startup
            && !self.filled_pipe
            && let Some(srtt) = ev.estimator.srtt()
        {
            let window = Rate::from_bytes_per(self.cwnd_bytes(), srtt).scale(HIGH_GAIN);
            self.pacing_rate = self.pacing_rate.max(window);
        }
    }

    /// Implements BBRInitPacingRate (section 4.2.1).
    pub(super) fn init_pacing_rate(&mut self, rtt: Duration) {
        let bytes = INITIAL_CWND * u64::from(self.units.mtu.max(1));
        self.pacing_rate = Rate::from_bytes_per(bytes, rtt.max(Duration::from_micros(1))).scale(HIGH_GAIN);
    }

    /// Implements BBRSetPacingRateWithGain (section 4.2.1).
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let margin = if self.tuning.linux { tuning::PACED } else { 1.0 };
        let bps = margin * gain * self.bw() * self.units.bytes() * 8.0;
        let floor = u64::from(self.units.mtu.max(1)) * 8 / MIN_PACING_SECS;
        let rate = Rate::from_bps((bps as u64).max(floor));
        if self.filled_pipe || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Implements BBRSetSendQuantum (section 4.2.2). Returns bytes.
    pub(super) fn send_quantum(&self) -> u32 {
        let mtu = u64::from(self.units.mtu.max(1));
        let millisecond = self.pacing_rate.bytes_in(tuning::BURST).min(MAX_QUANTUM);
        let quantum = if self.tuning.small_quantum {
            // A burst must not overflow a short queue. With a window of two BDPs, a sixteenth of the window
            // is an eighth of a BDP, which does not count as a queue. Within a host or a LAN, short queues
            // are not a concern, so a quarter of the window is allowed: sending a burst costs the host as
            // much as sending a packet, so large bursts save CPU time.
            let lan = self.path.rtprop.is_some_and(|rtprop| rtprop < tuning::BURST);
            let bursts = if lan { MIN_PIPE_CWND } else { 2 * u64::from(tuning::PARTS) };
            millisecond.min(self.cwnd_bytes() / bursts)
        } else if self.pacing_rate < Rate::from_bps(1_200_000) {
            mtu
        } else if self.pacing_rate < Rate::from_bps(24_000_000) {
            2 * mtu
        } else {
            millisecond
        };
        u32::try_from(quantum.max(mtu)).unwrap_or(u32::MAX)
    }

    fn cwnd_bytes(&self) -> u64 {
        (self.cwnd as f64 * self.units.bytes()) as u64
    }

    /// Implements BBRInflight (section 4.2.3.2): the BDP times `gain`, plus three send quanta.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.inflight_at(self.path.bw(), gain)
    }

    fn inflight_at(&self, bw: f64, gain: f64) -> u64 {
        let Some(bdp) = self.path.bdp_at(bw) else { return self.initial_cwnd() };
        // A packet takes RTprop plus the jitter, so this amount is in flight when there is no queue.
        let inflight = ceil(gain * (bdp + self.jitter_allowance()) + self.quanta());
        if !self.tuning.linux {
            return inflight;
        }
        // bbr_quantization_budget: the result is an even number of packets, plus two more while probing.
        let packet = self.units.packet();
        let packets = inflight.div_ceil(packet).next_multiple_of(2);
        let probing = self.state == State::ProbeBw && self.pacing_gain > 1.0;
        (packets + if probing { 2 } else { 0 }) * packet
    }

    /// Returns the three send quanta that BBRInflight adds to the BDP.
    fn quanta(&self) -> f64 {
        3.0 * f64::from(self.send_quantum()) / self.units.bytes()
    }

    /// Returns the amount in flight for a gain of `gain`, without room for bursts. The draft uses
    /// [`Self::inflight`] instead, whose three send quanta form a queue on a slow path.
    pub(super) fn inflight_no_queue(&self, gain: f64) -> u64 {
        match self.path.bdp() {
            Some(bdp) if self.tuning.full_drain => {
                ceil(gain * bdp + self.units.packet() as f64 + self.jitter_allowance())
            }
            _ => self.inflight(gain),
        }
    }

    fn jitter_allowance(&self) -> f64 {
        // In Startup, once BtlBw has stopped growing, the queue of this flow's own bursts looks like jitter.
        let own = !self.filled_pipe && self.full_bw_count > 0;
        if self.tuning.allow_for_jitter && !own { self.path.jitter_allowance() } else { 0.0 }
    }

    pub(super) fn initial_cwnd(&self) -> u64 {
        INITIAL_CWND * self.units.packet()
    }

    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND * self.units.packet()
    }

    /// Returns the limit of data in flight in ProbeRTT (section 4.2.3.5).
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        match self.path.bdp() {
            Some(bdp) if self.tuning.gentle_probe_rtt => {
                ceil(tuning::PROBE_RTT_GAIN * (bdp + self.jitter_allowance())).max(self.min_pipe_cwnd())
            }
            _ => self.min_pipe_cwnd(),
        }
    }

    /// Implements BBRSetCwnd (section 4.2.3.6).
    fn set_cwnd(&mut self, ev: &AckEvent<'_>) {
        let acked = self.units.of(ev.acked);
        self.modulate_for_recovery(ev);
        if !self.recovery.is_some_and(|r| r.conservation) {
            let target = self.target_cwnd();
            let grown = self.cwnd.saturating_add(acked);
            if self.filled_pipe {
                self.cwnd = grown.min(target);
            } else if self.cwnd < target || self.delivered < self.initial_cwnd() {
                self.cwnd = grown;
            }
            self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        }
        if let Some(bytes) = self.competitors.bound(self.units.mtu) {
            let bound = (bytes as f64 / self.units.bytes()) as u64;
            self.cwnd = self.cwnd.min(bound.max(self.units.packet()));
        }
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    pub(super) fn target_cwnd(&self) -> u64 {
        if self.state == State::CapacityDrain {
            self.inflight_no_queue(1.0)
        } else {
            let aggregated = if self.filled_pipe { self.aggregation.allowance(self.bw()) } else { 0.0 };
            match self.path.bdp() {
                Some(bdp) if self.tuning.allow_for_jitter && self.filled_pipe => {
                    // Aggregated acknowledgements also make the delay vary, so only the larger of the two
                    // counts.
                    let room = self.jitter_allowance().max(aggregated);
                    let gain = self.cwnd_gain;
                    ceil((gain * bdp + room).max(gain.min(CYCLE[0]) * (bdp + room)) + self.quanta())
                }
                _ => self.inflight_at(self.bw(), self.cwnd_gain) + ceil(aggregated),
            }
        }
    }

    /// Implements BBRModulateCwndForRecovery, including entry to and exit from recovery (section 4.2.3.4).
    fn modulate_for_recovery(&mut self, ev: &AckEvent<'_>) {
        let (acked, lost) = (self.units.of(ev.acked), self.units.of(ev.lost));
        let inflight = self.units.of(ev.inflight);
        let packet = self.units.packet();
        if ev.round_end
            && let Some(r) = &mut self.recovery
        {
            r.conservation = false;
            // For the model TCP, recovery ends with `on_repaired`.
            if !core::mem::take(&mut r.lost) && lost == 0 && !self.tuning.linux {
                self.leave_recovery();
            }
        }
        if let Some(r) = &mut self.recovery {
            r.lost |= lost > 0;
            self.cwnd = self.cwnd.saturating_sub(lost).max(packet);
            if r.conservation {
                self.cwnd = self.cwnd.max(inflight.saturating_add(acked));
            }
        } else if lost > 0 {
            self.prior_cwnd = self.saved_cwnd();
            self.cwnd = inflight.saturating_add(acked.max(packet));
            self.recovery = Some(Recovery { conservation: true, lost: true });
        }
    }

    pub(super) fn leave_recovery(&mut self) {
        if self.recovery.take().is_some() {
            self.restore_cwnd();
        }
    }

    /// Implements BBRSaveCwnd (section 4.2.3.4): returns the window to restore after recovery or ProbeRTT.
    pub(super) fn saved_cwnd(&self) -> u64 {
        if self.recovery.is_none() && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        }
    }

    /// Implements BBRRestoreCwnd (section 4.2.3.4).
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}

fn ceil(x: f64) -> u64 {
    let floor = x as u64;
    if (floor as f64) < x { floor.saturating_add(1) } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CcConfig;
    use mpdccp_units::Time;

    #[test]
    fn bursts_are_a_sixteenth_of_the_window_and_a_quarter_between_near_hosts() {
        let mut bbr = Bbr1::new(&CcConfig { mtu: 1500, packets: false, draft: false, seed: 0 });
        (bbr.cwnd, bbr.pacing_rate) = (160_000, Rate::from_mbps(1000.0));
        for (rtt_us, quantum) in [(2_000, 10_000), (200, 40_000)] {
            bbr.path.set_rtprop(Time::ZERO, Duration::from_micros(rtt_us));
            assert_eq!(bbr.send_quantum(), quantum, "{rtt_us} us");
        }
        // On slow paths, the quantum is a millisecond of the rate.
        bbr.pacing_rate = Rate::from_mbps(40.0);
        assert_eq!(bbr.send_quantum(), 5_000);
    }
}

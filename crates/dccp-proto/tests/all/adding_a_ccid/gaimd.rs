use dccp_cc::{AckEvent, CcConfig, Controller, Limits, Sent, Window};
use dccp_proto::{CcOptions, Experiment};
use mpdccp_units::Time;

/// Share of the window that remains after congestion. Reno keeps a half; keeping more is smoother.
const BETA: f64 = 0.875;
/// Growth of the window per round, in packets. With this `BETA`, it makes the flow as friendly to TCP as
/// Reno.
const ALPHA: f64 = 4.0 * (1.0 - BETA * BETA) / 3.0;

/// General additive increase, multiplicative decrease, with the window counted in packets.
#[derive(Debug)]
pub struct Gaimd {
    cwnd: f64,
    ssthresh: f64,
    mtu: u16,
}

impl Gaimd {
    /// Begins with three packets.
    pub fn new(cfg: &CcConfig) -> Gaimd {
        Gaimd { cwnd: 3.0, ssthresh: f64::INFINITY, mtu: cfg.mtu }
    }

    fn reduce_to(&mut self, cwnd: f64) {
        self.ssthresh = (self.cwnd * BETA).max(2.0);
        self.cwnd = cwnd.max(1.0);
    }
}

impl Controller for Gaimd {
    fn on_sent(&mut self, _pkt: &Sent) {}

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        let acked = ev.acked.packets as f64;
        if ev.congestion {
            self.reduce_to(self.cwnd * BETA);
        } else if ev.app_limited {
            // An unused window must not grow.
        } else if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + acked).min(self.ssthresh);
        } else {
            self.cwnd += ALPHA * acked / self.cwnd;
        }
    }

    fn on_rto(&mut self, _now: Time) {
        self.reduce_to(1.0);
    }

    fn on_idle_restart(&mut self, _now: Time) {
        self.cwnd = self.cwnd.min(3.0);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn limits(&self) -> Limits {
        Limits { cwnd: Window::Packets(self.cwnd as u64), pacing: None, quantum: u32::from(self.mtu) }
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow_start" } else { "avoidance" }
    }
}

/// Registers the controller under this CCID. Both ends need it in their `Config::cc`.
pub fn options() -> CcOptions {
    let gaimd = Experiment { ccid: 251, controller: |cfg| Box::new(Gaimd::new(cfg)) };
    CcOptions { experiment: Some(gaimd), ..CcOptions::default() }
}

//! The numbers of the judge's criterion.

use serde::Deserialize;

/// Size of a full packet in bytes.
pub(super) const PACKET: f64 = 1_500.0;

/// The requirements, which `scenarios/judge.toml` explains.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Criterion {
    pub(super) rate: f64,
    pub(super) capacity: f64,
    pub(super) twin_rate: f64,
    pub(super) twin: f64,
    pub(super) few_lost: f64,
    pub(super) delay: f64,
    pub(super) delay_ms: f64,
    pub(super) delay_packets: f64,
    pub(super) lost: f64,
    pub(super) company: f64,
    pub(super) app: f64,
    pub(super) jain: f64,
    pub(super) jain_below: f64,
}

impl Criterion {
    /// Returns the largest acceptable queueing delay in ms, which is a multiple of BBR's delay plus a margin.
    pub(super) fn bound(&self, mbps: f64, bbr_ms: f64) -> f64 {
        self.delay * bbr_ms + self.delay_ms + self.packets_ms(mbps)
    }

    /// Returns the time in ms that a link needs to transmit `delay_packets` full packets, or zero if the
    /// link's rate is unknown.
    pub(super) fn packets_ms(&self, mbps: f64) -> f64 {
        if mbps > 0.0 { self.delay_packets * PACKET * 8.0 / mbps / 1e3 } else { 0.0 }
    }
}

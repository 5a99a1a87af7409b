//! The running probes, and the rates last reported.

use mpdccp_proto::SessionId;
use mpdccp_units::{Rate, Time};
use std::collections::BTreeMap;

/// A probe that is running.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) rate: Rate,
    /// When the next packet is due.
    pub(super) next: Time,
    pub(super) until: Time,
}

#[derive(Debug, Default)]
pub(super) struct Clockwork {
    pub(super) probes: BTreeMap<SessionId, Probe>,
    /// The rate last reported for each session.
    pub(super) told: BTreeMap<SessionId, Rate>,
    pub(super) look_at: Option<Time>,
}

impl Clockwork {
    /// Counts bytes sent by the application, which replace padding.
    pub(super) fn on_sent(&mut self, id: SessionId, bytes: usize) {
        if let Some(probe) = self.probes.get_mut(&id) {
            probe.next += probe.rate.time_for(bytes as u64);
        }
    }

    pub(super) fn forget(&mut self, id: SessionId) {
        self.probes.remove(&id);
        self.told.remove(&id);
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.probes.values().map(|probe| probe.next).chain(self.look_at).min()
    }
}

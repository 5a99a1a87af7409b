//! Periodic work for connections: sending the padding of probes and checking rates.

use super::Streams;
use super::probes::Probe;
use crate::stats::Event;
use dccp_net::Core;
use mpdccp_proto::SessionId;
use mpdccp_units::{Duration, Rate, Time};

/// Size of an IP packet with padding, in bytes, allowing for the headers and the largest possible options.
const PADDING: u64 = 1_040;
/// Padding that congestion control has delayed for longer than this is skipped.
const CREDIT: Duration = Duration::from_millis(5);
/// Interval between two checks of the rates.
const LOOK: Duration = Duration::from_millis(50);

impl Streams {
    pub(crate) fn probe(&mut self, now: Time, id: SessionId, rate: Rate, duration: Duration) {
        self.clockwork.probes.remove(&id);
        if self.entries.contains_key(&id) && rate > Rate::ZERO && !duration.is_zero() {
            self.clockwork.probes.insert(id, Probe { rate, next: now, until: now + duration });
        }
    }

    /// Queues the padding that is due. Returns whether there was any.
    pub(super) fn pad(&mut self, core: &mut Core, now: Time) -> bool {
        let mut any = false;
        self.clockwork.probes.retain(|id, probe| {
            let Some(entry) = self.entries.get(id).filter(|_| now < probe.until) else { return false };
            if entry.stream.is_finishing() {
                return false;
            }
            if probe.next > now {
                return true;
            }
            // Data is waiting, so it is sent instead of padding.
            if core.endpoint.backlog(now, *id).packets > 0 || entry.stream.waits() {
                probe.next = now + Duration::from_millis(1);
                return true;
            }
            core.endpoint.pad(now, *id);
            probe.next = (probe.next + probe.rate.time_for(PADDING)).max(now - CREDIT);
            any = true;
            true
        });
        any
    }

    /// Reports each rate that has changed enough.
    pub(super) fn tell_rates(&mut self, core: &Core, now: Time) {
        let percent = u64::from(self.options.rate_change);
        if percent == 0 || self.clockwork.look_at.is_some_and(|at| at > now) {
            return;
        }
        self.clockwork.look_at = (!self.entries.is_empty()).then_some(now + LOOK);
        for (id, entry) in &self.entries {
            let Some((stats, _)) = Streams::look(core, *id) else { continue };
            let told = self.clockwork.told.entry(*id).or_insert(Rate::ZERO);
            let change = stats.allowed.bps().abs_diff(told.bps());
            if u128::from(change) * 100 > u128::from(told.bps()) * u128::from(percent) {
                *told = stats.allowed;
                entry.stream.tell_event(Event::Rate(stats.allowed));
            }
        }
    }
}

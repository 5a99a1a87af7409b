//! Checks whether messages fit into the packets that the paths carry.

use dccp_net::Core;
use mpdccp_proto::{PktInfo, SessionId};
use mpdccp_units::{Duration, Time};

/// The search for the path MTU is over if no probe has been sent for this long plus four round-trip times.
const QUIET: Duration = Duration::from_secs(2);

/// Whether the messages fit.
#[derive(Debug)]
pub(super) enum Fit {
    Yes,
    /// Not checked yet since the start or since a path's MTU changed.
    Unknown,
    /// The messages do not fit yet. If the number of probes is still `probes` at time `until`, the search is
    /// over.
    Searching {
        probes: u64,
        until: Time,
    },
}

impl Fit {
    /// Returns whether messages of this size may be sent now.
    ///
    /// # Errors
    /// If the messages fit on no path and the search for the path MTU is over.
    pub(super) fn check(
        &mut self,
        core: &Core,
        now: Time,
        session: SessionId,
        size: usize,
    ) -> Result<bool, String> {
        if matches!(self, Fit::Yes) {
            return Ok(true);
        }
        // If there is no path, messages wait in the queue.
        let Some(room) = core.endpoint.room(now, session, &PktInfo::default(), &[]) else { return Ok(true) };
        let most = room.known;
        if size <= most {
            *self = Fit::Yes;
            return Ok(true);
        }
        let paths = core.endpoint.status(now, session).map(|status| status.paths).unwrap_or_default();
        let sent = paths.iter().map(|path| path.stats.mtu_probes).sum();
        match *self {
            Fit::Searching { probes, until } if probes == sent && now >= until => {
                Err(format!("--size {size}: too large; the path carries messages of at most {most} bytes"))
            }
            Fit::Searching { probes, .. } if probes == sent => Ok(false),
            _ => {
                let rtt = core.endpoint.rows(now, session).iter().filter_map(|row| row.srtt).max();
                let until = now + QUIET + rtt.unwrap_or_default() * 4;
                *self = Fit::Searching { probes: sent, until };
                Ok(false)
            }
        }
    }

    /// Returns the latest time at which to check again.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        match self {
            Fit::Searching { until, .. } => Some(*until),
            Fit::Yes | Fit::Unknown => None,
        }
    }
}

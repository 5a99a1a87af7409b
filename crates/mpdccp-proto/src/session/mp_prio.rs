//! Path priorities, set by this end and, with MP_PRIO, by the peer (RFC 9897 section 3.2.10).

use super::Session;
use super::signal::Signal;
use super::subflow::Subflow;
use crate::{Counter, PathId};
use dccp_wire::Seq;
use mpdccp_units::Time;

impl Session {
    /// Changes a path's priority and tells the peer.
    pub(crate) fn set_prio(&mut self, now: Time, path: PathId, prio: u8) {
        let Some(i) = self.index(path) else { return };
        let prio = prio.min(15);
        self.paths[i].cfg.prio = prio;
        self.paths[i].yields = false;
        // A path that is not open yet sends its priority when it opens.
        if self.multipath && self.paths[i].is_live() {
            self.signal(now, Signal::Prio { path, prio });
        }
    }

    /// Handles MP_PRIO, which applies to the subflow that carried it (RFC 9897 section 3.2.10).
    pub(super) fn on_prio(&mut self, i: usize, mp_seq: Seq, prio: u8) -> bool {
        match self.paths[i].peer_prio {
            Some((_, known)) if mp_seq.before(known) => self.count(Counter::OutdatedMpOption),
            _ => self.paths[i].peer_prio = Some((prio, mp_seq)),
        }
        true
    }
}

impl Subflow {
    /// Returns the priority in force (RFC 9897 section 3.2.10), which is the smaller one if both ends have
    /// set a priority.
    pub(super) fn prio(&self) -> u8 {
        match self.peer_prio {
            Some((prio, _)) if self.yields => prio,
            Some((prio, _)) => prio.min(self.cfg.prio),
            None => self.cfg.prio,
        }
    }
}

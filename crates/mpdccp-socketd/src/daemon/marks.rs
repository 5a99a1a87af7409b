//! The DSCP of each connection, from the program's IP_TOS option.

use dccp_net::{Mark, Marking};
use mpdccp_units::Ecn;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The DSCP, keyed by the connection's DCCP ports, this end's first. If connections to different peers have
/// the same two ports, the last setting applies to all of them.
#[derive(Clone, Default)]
pub(super) struct Marks(Arc<Mutex<BTreeMap<(u16, u16), u8>>>);

impl Marks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u16, u16), u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the DSCP of a connection to the upper six bits of a TOS byte. 0 removes the setting.
    pub(super) fn set(&self, ours: u16, theirs: u16, tos: u8) {
        match tos {
            0 => self.lock().remove(&(ours, theirs)),
            tos => self.lock().insert((ours, theirs), tos >> 2),
        };
    }
}

impl Marking for Marks {
    fn outer(&self, _: Option<&[u8]>, ecn: Ecn) -> Mark {
        Mark { dscp: 0, ecn }
    }

    fn outer_of(&self, packet: &[u8], ecn: Ecn) -> Mark {
        let port = |at: usize| packet.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        let ports = port(0).zip(port(2));
        let dscp = ports.and_then(|ports| self.lock().get(&ports).copied()).unwrap_or(0);
        Mark { dscp, ecn }
    }

    fn arrived(&self, data: &mut [u8], _: Ecn) -> usize {
        data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_mark() {
        let marks = Marks::default();
        marks.set(0x1234, 0x5678, 46 << 2);
        let mark = |packet: &[u8]| marks.outer_of(packet, Ecn::Ect0);
        assert_eq!(mark(&[0x12, 0x34, 0x56, 0x78, 0]), Mark { dscp: 46, ecn: Ecn::Ect0 });
        assert_eq!(mark(&[0x56, 0x78, 0x12, 0x34, 0]).dscp, 0);
        assert_eq!(mark(&[0x12]).dscp, 0);
        marks.set(0x1234, 0x5678, 0);
        assert_eq!(mark(&[0x12, 0x34, 0x56, 0x78, 0]).dscp, 0);
    }
}

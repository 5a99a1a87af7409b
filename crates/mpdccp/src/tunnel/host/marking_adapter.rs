//! Implements `dccp-net`'s [`Marking`] with the tunnel's [`Marker`], which chooses the DSCP and ECN field of
//! outer headers.

use dccp_net::{Mark, Marking};
use mpdccp_tunnel::Marker;
use mpdccp_units::Ecn;

struct Outer(Marker);

impl Marking for Outer {
    fn outer(&self, data: Option<&[u8]>, ecn: Ecn) -> Mark {
        let mpdccp_tunnel::Mark { dscp, ecn } = self.0.outer(data, ecn);
        Mark { dscp, ecn }
    }

    fn arrived(&self, data: &mut [u8], ecn: Ecn) -> usize {
        self.0.arrived(data, ecn)
    }
}

pub(crate) fn of(marker: Marker) -> Option<Box<dyn Marking>> {
    Some(Box::new(Outer(marker)))
}

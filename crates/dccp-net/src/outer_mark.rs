//! DSCP and ECN field of outer headers, which may depend on the data in the packet.

use dccp_proto::Ecn;
use std::ops::Range;

/// DSCP and ECN field of an outer header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: Ecn,
}

/// Lets an application choose the marks of outer headers, for example because its datagrams have their own
/// DSCP and ECN fields.
pub trait Marking: Send {
    /// Returns the mark of a packet. `data` is the application data in it, if any. `ecn` is the ECN field
    /// that the path's congestion control has chosen.
    fn outer(&self, data: Option<&[u8]>, ecn: Ecn) -> Mark;

    /// Returns the mark of a packet. Unlike [`outer`](Self::outer), this method gets the whole DCCP packet.
    fn outer_of(&self, packet: &[u8], ecn: Ecn) -> Mark {
        self.outer(data_of(packet).map(|data| &packet[data]), ecn)
    }

    /// Called when application data has arrived in a packet with this ECN field, which is never Not-ECT. May
    /// change the data. Returns how many bytes of the data to deliver.
    fn arrived(&self, data: &mut [u8], ecn: Ecn) -> usize;
}

/// A marking with the same DSCP for all packets. Congestion control chooses the ECN field.
#[derive(Clone, Copy, Debug)]
pub struct FixedDscp(
    /// DSCP, 0 to 63.
    pub u8,
);

impl Marking for FixedDscp {
    fn outer(&self, _: Option<&[u8]>, ecn: Ecn) -> Mark {
        Mark { dscp: self.0, ecn }
    }

    fn arrived(&self, data: &mut [u8], _: Ecn) -> usize {
        data.len()
    }
}

/// Consecutive packets of a run that have the same mark.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) packets: Range<usize>,
    pub(crate) mark: Mark,
}

/// Returns the position of the application data in a DCCP packet, or `None` if packets of this type carry no
/// data (RFC 4340 section 5.1).
pub fn data_of(packet: &[u8]) -> Option<Range<usize>> {
    const DATA: u8 = 2;
    const DATA_ACK: u8 = 4;
    let kind = packet.get(8)? >> 1 & 0xf;
    let start = usize::from(packet[4]) * 4;
    (matches!(kind, DATA | DATA_ACK) && start < packet.len()).then_some(start..packet.len())
}

/// Passes the application data and the ECN field of a received ECN-capable packet to the marking, which may
/// change and shorten the data. Returns the packet for the endpoint.
pub(crate) fn carried<'a>(marking: Option<&dyn Marking>, ecn: Ecn, packet: &'a mut [u8]) -> &'a [u8] {
    if let (Some(marking), true, Some(data)) = (marking, ecn.is_capable(), data_of(packet)) {
        let kept = marking.arrived(&mut packet[data.clone()], ecn);
        return &packet[..(data.start + kept).min(data.end)];
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;
    use dccp_proto::{Route, Sink};

    /// A marking for the test: the first byte of the data is the DSCP. If the byte is odd, the ECN field is
    /// CE.
    struct ByFirstByte;

    impl Marking for ByFirstByte {
        fn outer(&self, data: Option<&[u8]>, ecn: Ecn) -> Mark {
            let first = data.map_or(0, |data| data[0]);
            Mark { dscp: first, ecn: if first % 2 == 1 { Ecn::Ce } else { ecn } }
        }

        fn arrived(&self, data: &mut [u8], _: Ecn) -> usize {
            data.len()
        }
    }

    #[test]
    fn a_run_is_parted_where_its_marks_differ() {
        let route = Route { socket: 0, local: None, remote: ([127, 0, 0, 1], 9).into() };
        let mut batch = Batch::default();
        // Packets of type 2 and 4 carry data, those of type 3 do not. The header has 16 bytes.
        for (kind, first) in [(2, 6), (4, 6), (3, 7), (2, 7), (2, 6)] {
            let packet = batch.reserve(&route, Ecn::Ect0, 20);
            (packet[4], packet[8], packet[16]) = (4, kind << 1, first);
        }
        let mut parts = Vec::new();
        batch.runs()[0].parts(Some(&ByFirstByte), &mut parts);
        let shape = |p: &Part| (p.packets.clone(), p.mark.dscp, p.mark.ecn);
        let shapes: Vec<_> = parts.iter().map(shape).collect();
        let expected = [(0..2, 6, Ecn::Ect0), (2..3, 0, Ecn::Ect0), (3..4, 7, Ecn::Ce), (4..5, 6, Ecn::Ect0)];
        assert_eq!(shapes, expected);
        let bytes = |p: &Part| batch.runs()[0].burst_to(p, None, route.remote).bytes.len();
        assert_eq!(parts.iter().map(bytes).collect::<Vec<_>>(), [40, 20, 20, 20]);
        batch.runs()[0].parts(None, &mut parts);
        assert_eq!(shape(&parts[0]), (0..5, 0, Ecn::Ect0));
        for len in 0..20 {
            let _ = data_of(&vec![0xff; len]);
        }
    }
}

use crate::{Ecn, Route, Sink};
use dccp_wire::{Header, Packet, PacketType, Reset, Seq};

/// Returns the Sequence Number and the Acknowledgement Number for a Reset that answers `packet` when there is
/// no connection (RFC 4340 section 8.3.1).
pub(super) fn reset_numbers(packet: &Packet<'_>) -> (Seq, Seq) {
    let header = &packet.header;
    // If the packet has short sequence numbers, the upper 24 bits are zero.
    let cut = |seq: Seq| if header.short { Seq::new(seq.value() & 0xff_ffff) } else { seq };
    let seq = header.ack.map_or(Seq::new(0), |ack| ack.next());
    (cut(seq), cut(header.seq))
}

/// Sends a Reset in answer to a packet that belongs to no connection, or to a Request that is not accepted.
/// The Reset carries the encoded `options`. A Reset is never answered. The caller must limit the rate
/// (RFC 4340 section 8.1.3 suggests 1024 per second).
pub fn refuse(packet: &Packet<'_>, reset: Reset, options: &[u8], route: &Route, sink: &mut dyn Sink) {
    if packet.header.ptype == PacketType::Reset || options.len() > dccp_wire::MAX_OPTIONS {
        return;
    }
    let (seq, ack) = reset_numbers(packet);
    let ports = (packet.header.dst_port, packet.header.src_port);
    let header = Header::new(ports, PacketType::Reset, seq);
    let header = Header { ack: Some(ack), reset: Some(reset), ..header };
    let buf = sink.reserve(route, Ecn::NotEct, header.packet_len(options.len(), 0));
    header.emit(options, buf);
}

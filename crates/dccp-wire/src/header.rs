use crate::{Options, Seq};

/// DCCP packet types (RFC 4340 section 5.1; Listen: RFC 5596 section 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PacketType {
    Request,
    Response,
    Data,
    Ack,
    DataAck,
    CloseReq,
    Close,
    Reset,
    Sync,
    SyncAck,
    Listen,
    /// Types 11 to 15.
    Reserved(u8),
}

/// Reset codes (RFC 4340 section 5.6; 13: RFC 9897).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ResetCode {
    Unspecified,
    Closed,
    Aborted,
    NoConnection,
    PacketError,
    OptionError,
    MandatoryError,
    ConnectionRefused,
    BadServiceCode,
    TooBusy,
    BadInitCookie,
    AggressionPenalty,
    AbruptMpTermination,
    Other(u8),
}

/// The Reset Code and its three data bytes (RFC 4340 section 5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reset {
    pub code: ResetCode,
    pub data: [u8; 3],
}

/// The fixed fields of any packet. `ack`, `service_code` and `reset` are present exactly as the type demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DCCP source port.
    pub src_port: u16,
    /// DCCP destination port.
    pub dst_port: u16,
    /// For the sending CCID, 4 bits.
    pub ccval: u8,
    /// Checksum coverage, 4 bits (RFC 4340 section 9.2): 0 covers everything.
    pub cscov: u8,
    /// Packet type.
    pub ptype: PacketType,
    /// `X = 0`: `seq` and `ack` hold only 24 bits; extend with [`Seq::extend`].
    pub short: bool,
    /// Sequence Number.
    pub seq: Seq,
    /// Acknowledgement Number: on all but Request, Data and Listen.
    pub ack: Option<Seq>,
    /// On Request, Response and Listen.
    pub service_code: Option<u32>,
    /// On Reset.
    pub reset: Option<Reset>,
}

/// A received packet, borrowed from the datagram it came in.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The fixed fields.
    pub header: Header,
    /// The option area, padding included.
    pub option_bytes: &'a [u8],
    /// The application data area.
    pub payload: &'a [u8],
}

/// Why bytes are not a DCCP packet (RFC 4340 section 8.5 step 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Shorter than the header of its type.
    Truncated,
    /// Data Offset too small for the type, or beyond the packet.
    BadDataOffset,
    /// Short sequence numbers on a type that may not have them.
    ShortNotAllowed,
    /// A reserved packet type.
    ReservedType,
    /// Checksum coverage beyond the packet.
    BadCoverage,
}

impl Header {
    /// Bytes of this header without options.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Total packet length with `options` bytes of options (padded to four) and `payload` bytes of data.
    pub fn packet_len(&self, options: usize, payload: usize) -> usize {
        self.len() + options.next_multiple_of(4) + payload
    }

    /// Writes header, options and padding into `buf`, whose length is exactly `packet_len(options.len(), payload)`,
    /// and returns the rest of it for the payload. The checksum is left zero: carriers that need one fill it
    /// ([`crate::checksum::fill`]).
    pub fn emit<'b>(&self, options: &[u8], buf: &'b mut [u8]) -> &'b mut [u8] {
        let _ = (options, buf);
        todo!()
    }
}

impl<'a> Packet<'a> {
    /// Reads one packet. The checksum is not looked at ([`crate::checksum::verify`]).
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let _ = bytes;
        todo!()
    }

    /// The options in order; padding is skipped.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.option_bytes)
    }
}

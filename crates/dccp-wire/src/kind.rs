/// DCCP packet types (RFC 4340 section 5.1; for Listen, RFC 5596 section 2.2.1).
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

impl PacketType {
    /// Returns the type for the low four bits of `number`.
    pub const fn from_number(number: u8) -> PacketType {
        match number & 15 {
            0 => PacketType::Request,
            1 => PacketType::Response,
            2 => PacketType::Data,
            3 => PacketType::Ack,
            4 => PacketType::DataAck,
            5 => PacketType::CloseReq,
            6 => PacketType::Close,
            7 => PacketType::Reset,
            8 => PacketType::Sync,
            9 => PacketType::SyncAck,
            10 => PacketType::Listen,
            n => PacketType::Reserved(n),
        }
    }

    /// Returns the number on the wire, 0 to 15.
    pub const fn number(self) -> u8 {
        match self {
            PacketType::Request => 0,
            PacketType::Response => 1,
            PacketType::Data => 2,
            PacketType::Ack => 3,
            PacketType::DataAck => 4,
            PacketType::CloseReq => 5,
            PacketType::Close => 6,
            PacketType::Reset => 7,
            PacketType::Sync => 8,
            PacketType::SyncAck => 9,
            PacketType::Listen => 10,
            PacketType::Reserved(n) => n & 15,
        }
    }

    /// Returns whether this type may have `X = 0`, which only Data, Ack and DataAck may
    /// (RFC 4340 section 5.1).
    pub const fn allows_short(self) -> bool {
        matches!(self, PacketType::Data | PacketType::Ack | PacketType::DataAck)
    }

    /// Returns whether this type carries an Acknowledgement Number (RFC 4340 section 5.1). Listen does not
    /// (RFC 5596 section 2.2.1).
    pub const fn has_ack(self) -> bool {
        !matches!(self, PacketType::Request | PacketType::Data | PacketType::Listen | PacketType::Reserved(_))
    }

    /// Returns whether this type carries a Service Code (RFC 4340 sections 5.2 and 5.3,
    /// RFC 5596 section 2.2.1).
    pub const fn has_service_code(self) -> bool {
        matches!(self, PacketType::Request | PacketType::Response | PacketType::Listen)
    }

    /// Returns whether this type counts as a data packet, even if it carries no data (RFC 4340 section 7.7).
    pub const fn is_data(self) -> bool {
        matches!(self, PacketType::Request | PacketType::Response | PacketType::Data | PacketType::DataAck)
    }
}

/// Reset codes (RFC 4340 section 5.6; for 12, RFC 6773 section 3.8; for 13, RFC 9897).
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
    EncapsulatedPortReuse,
    AbruptMpTermination,
    /// Receivers must treat codes 14 to 127 as `Unspecified`. Codes 128 to 255 belong to the CCID.
    Other(u8),
}

impl ResetCode {
    /// Returns the code for the byte on the wire.
    pub const fn from_number(number: u8) -> ResetCode {
        match number {
            0 => ResetCode::Unspecified,
            1 => ResetCode::Closed,
            2 => ResetCode::Aborted,
            3 => ResetCode::NoConnection,
            4 => ResetCode::PacketError,
            5 => ResetCode::OptionError,
            6 => ResetCode::MandatoryError,
            7 => ResetCode::ConnectionRefused,
            8 => ResetCode::BadServiceCode,
            9 => ResetCode::TooBusy,
            10 => ResetCode::BadInitCookie,
            11 => ResetCode::AggressionPenalty,
            12 => ResetCode::EncapsulatedPortReuse,
            13 => ResetCode::AbruptMpTermination,
            n => ResetCode::Other(n),
        }
    }

    /// Returns the byte on the wire.
    pub const fn number(self) -> u8 {
        match self {
            ResetCode::Unspecified => 0,
            ResetCode::Closed => 1,
            ResetCode::Aborted => 2,
            ResetCode::NoConnection => 3,
            ResetCode::PacketError => 4,
            ResetCode::OptionError => 5,
            ResetCode::MandatoryError => 6,
            ResetCode::ConnectionRefused => 7,
            ResetCode::BadServiceCode => 8,
            ResetCode::TooBusy => 9,
            ResetCode::BadInitCookie => 10,
            ResetCode::AggressionPenalty => 11,
            ResetCode::EncapsulatedPortReuse => 12,
            ResetCode::AbruptMpTermination => 13,
            ResetCode::Other(n) => n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for n in 0..16 {
            assert_eq!(PacketType::from_number(n).number(), n);
        }
        for n in 0..=255 {
            assert_eq!(ResetCode::from_number(n).number(), n);
        }
        // These two numbers are assigned in RFC 6773 section 3.8 and RFC 9897 section 7.
        assert_eq!(ResetCode::from_number(12), ResetCode::EncapsulatedPortReuse);
        assert_eq!(ResetCode::from_number(13), ResetCode::AbruptMpTermination);
    }
}

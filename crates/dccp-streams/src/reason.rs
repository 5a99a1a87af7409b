/// Reason for resetting or stopping a stream. It takes three bytes on the wire: its kind, and two bytes whose
/// meaning depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The application dropped the stream without giving a reason.
    Cancelled,
    /// TCP: a segment with RST arrived.
    Reset,
    /// TCP: the SYN was answered with RST.
    Refused,
    /// TCP: the connection timed out.
    TimedOut,
    /// There is no route to the host, and no ICMP message to pass on.
    HostUnreachable,
    /// There is no route to the network, and no ICMP message to pass on.
    NetworkUnreachable,
    /// The peer's policy does not allow the stream.
    NotAllowed,
    /// The peer has reached its stream limit.
    Limit,
    /// The peer violated the stream's protocol: the header is too long.
    Protocol,
    /// The session that carried the stream has ended, or one end has lost its state.
    SessionLost,
    /// An ICMP message (RFC 792) of this type and code.
    Icmp4(u8, u8),
    /// An ICMPv6 message (RFC 4443) of this type and code.
    Icmp6(u8, u8),
    /// An application error code.
    Application(u16),
    /// A kind that this version does not know.
    Unknown(u8, u8, u8),
}

impl Reason {
    const SIMPLE: [Reason; 10] = [
        Reason::Cancelled,
        Reason::Reset,
        Reason::Refused,
        Reason::TimedOut,
        Reason::HostUnreachable,
        Reason::NetworkUnreachable,
        Reason::NotAllowed,
        Reason::Limit,
        Reason::Protocol,
        Reason::SessionLost,
    ];

    pub(crate) fn to_bytes(self) -> [u8; 3] {
        match self {
            Reason::Icmp4(kind, code) => [16, kind, code],
            Reason::Icmp6(kind, code) => [17, kind, code],
            Reason::Application(code) => {
                let [high, low] = code.to_be_bytes();
                [32, high, low]
            }
            Reason::Unknown(kind, a, b) => [kind, a, b],
            simple => [Self::SIMPLE.iter().position(|r| *r == simple).unwrap_or(0) as u8, 0, 0],
        }
    }

    pub(crate) fn from_bytes([kind, a, b]: [u8; 3]) -> Reason {
        match kind {
            16 => Reason::Icmp4(a, b),
            17 => Reason::Icmp6(a, b),
            32 => Reason::Application(u16::from_be_bytes([a, b])),
            _ => Self::SIMPLE.get(usize::from(kind)).copied().unwrap_or(Reason::Unknown(kind, a, b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_the_wire() {
        let others = [Reason::Icmp4(3, 13), Reason::Icmp6(1, 4), Reason::Application(0x1234)];
        for reason in Reason::SIMPLE.into_iter().chain(others) {
            assert_eq!(Reason::from_bytes(reason.to_bytes()), reason);
        }
        assert_eq!(Reason::Refused.to_bytes(), [2, 0, 0]);
        assert_eq!(Reason::Icmp4(3, 1).to_bytes(), [16, 3, 1]);
        assert_eq!(Reason::from_bytes([99, 1, 2]), Reason::Unknown(99, 1, 2));
    }
}

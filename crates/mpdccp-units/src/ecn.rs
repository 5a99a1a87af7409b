/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable. An overloaded queue must drop the packet instead of marking it.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 01, which now identifies L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable, codepoint 10.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Returns the ECN field of a TOS byte (IPv4) or traffic class byte (IPv6). Only the two low bits matter.
    #[inline]
    pub const fn from_bits(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the value of the two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a queue may mark the packet instead of dropping it.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[inline]
    fn bits_round_trip() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(0xfc | bits).bits(), bits);
            assert_eq!(Ecn::from_bits(bits).is_capable(), bits != 0);
        }
    }
}

/// A number of packets and the bytes in them. Bytes are IP bytes on the wire, as the bottleneck counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Amount {
    pub packets: u64,
    pub bytes: u64,
}

impl Amount {
    /// Adds one packet of `bytes`.
    #[must_use]
    pub fn plus(self, bytes: u32) -> Amount {
        Amount { packets: self.packets.saturating_add(1), bytes: self.bytes.saturating_add(u64::from(bytes)) }
    }

    /// Returns the sum of both amounts.
    #[must_use]
    pub fn and(self, other: Amount) -> Amount {
        Amount {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Subtracts `other`. The result is zero if `other` is larger.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        Amount {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the amount in segments, the unit of windows: in packets, or in bytes divided by `mtu`.
    pub(crate) fn segments(self, packets: bool, mtu: u16) -> f64 {
        if packets { self.packets as f64 } else { self.bytes as f64 / f64::from(mtu.max(1)) }
    }
}

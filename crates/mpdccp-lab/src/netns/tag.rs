//! The tag in each generated packet. It is at the end of the payload, where a link can find it without
//! parsing the tunnel's headers.

use mpdccp_units::Time;

/// Bytes of a tag.
pub(super) const LEN: usize = 24;
const MAGIC: [u8; 4] = *b"mpLb";
/// Flow number of the probes that test whether a tunnel is up.
pub(super) const PROBE: u16 = u16::MAX;
/// Destination port of probe packets.
pub(super) const PROBE_PORT: u16 = 5000;

/// Contents of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// Index of the flow.
    pub(super) flow: u16,
    /// Sequence number in the flow.
    pub(super) seq: u64,
    /// Send time.
    pub(super) at: Time,
}

impl Tag {
    /// Writes the tag at the end of `payload`, which must be long enough.
    pub(super) fn write(self, payload: &mut [u8]) {
        if let Some(tag) = payload.last_chunk_mut::<LEN>() {
            tag[..4].copy_from_slice(&MAGIC);
            tag[4..6].copy_from_slice(&self.flow.to_be_bytes());
            tag[6..8].fill(0);
            tag[8..16].copy_from_slice(&self.seq.to_be_bytes());
            tag[16..].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        }
    }

    /// Reads the tag at the end of `packet`, if any.
    pub(super) fn read(packet: &[u8]) -> Option<Tag> {
        let tag = packet.last_chunk::<LEN>()?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let (flow, seq, at) = (u16::from_be_bytes([tag[4], tag[5]]), number(&tag[8..16]), number(&tag[16..]));
        (tag[..4] == MAGIC).then_some(Tag { flow, seq, at: Time::from_nanos(at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_behind_any_headers() {
        let tag = Tag { flow: 3, seq: 0x0102_0304_0506_0708, at: Time::from_millis(77) };
        let mut packet = vec![7; 60];
        tag.write(&mut packet);
        assert_eq!(Tag::read(&packet), Some(tag));
        assert_eq!(Tag::read(&packet[36..]), Some(tag));
        assert_eq!(Tag::read(&packet[..50]), None);
        assert_eq!(Tag::read(&[]), None);
    }
}

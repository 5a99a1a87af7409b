use super::Channels;
use crate::address::Address;
use crate::channel::{ChannelId, Unready};
use crate::sealing::Sealing;
use mpdccp_units::Time;

impl Channels {
    /// Seals records in place. Each has `segment` bytes, and the last may be shorter: room for a header
    /// ([`HEADER`](crate::HEADER)), a packet, and room for a tag ([`TAG`](crate::TAG)). Returns the destination.
    ///
    /// # Errors
    /// If there is no key yet, or the channel does not exist.
    pub fn seal(
        &mut self,
        now: Time,
        channel: ChannelId,
        records: &mut [u8],
        segment: usize,
    ) -> Result<Address, Unready> {
        let (to, sealing) = self.reserve(now, channel, records, segment)?;
        sealing.seal(records, segment);
        Ok(to)
    }

    /// Like [`seal`](Self::seal), but leaves the encryption to the caller, who may do it on another thread.
    ///
    /// # Errors
    /// As for [`seal`](Self::seal).
    pub fn reserve(
        &mut self,
        now: Time,
        channel: ChannelId,
        records: &[u8],
        segment: usize,
    ) -> Result<(Address, Sealing), Unready> {
        let at = *self.by_id.get(&channel).ok_or(Unready::NoChannel)?;
        let result = self.channels.get_mut(at).ok_or(Unready::NoChannel)?.reserve(now, records, segment);
        self.renew(now, at);
        result
    }
}

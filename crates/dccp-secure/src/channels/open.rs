use super::{Channels, Input};
use crate::address::Address;
use crate::channel::REJECT_AFTER;
use crate::drops::Reason;
use crate::header::{self, Kind};
use crate::opening::{OpenedRecord, Opening};
use mpdccp_units::Time;

impl Channels {
    /// The key of a received record, to open the record on another thread and pass it to
    /// [`handle_opened`](Self::handle_opened). `None` for other datagrams and for records that
    /// [`handle`](Self::handle) would drop: pass those to [`handle`](Self::handle).
    pub fn prepare(&mut self, now: Time, datagram: &[u8]) -> Option<Opening> {
        let (to, Kind::Record(counter)) = header::read(datagram)? else { return None };
        let at = self.owner(to).filter(|_| self.is_here(to))?;
        let key = self.channels.get_mut(at)?.key(to.index)?;
        let open = now.since(key.made) < REJECT_AFTER && key.seen.is_new(counter);
        open.then(|| Opening::new(key.receive.clone(), counter))
    }

    /// Handles a datagram that was opened elsewhere. The checks are those of [`handle`](Self::handle): the key
    /// may have expired in the meantime, or another copy of the record may have arrived.
    pub fn handle_opened(
        &mut self,
        now: Time,
        from: &Address,
        datagram: &mut [u8],
        opened: OpenedRecord,
    ) -> Input {
        let result = match header::read(datagram) {
            Some((to, Kind::Record(counter))) => {
                self.handle_record(now, from, (to, counter), datagram, Some(opened))
            }
            _ => Err(Reason::NoMessage),
        };
        self.settle(result)
    }
}

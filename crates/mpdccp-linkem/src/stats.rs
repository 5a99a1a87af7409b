/// The fate of a packet that was pushed into a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted. The packet may still be lost on the wire or dropped by the queue later; see [`Stats`].
    Queued,
    /// Dropped at once.
    Dropped(DropReason),
}

/// Reason for a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue was full.
    Overflow,
    /// The queue discipline dropped the packet although the queue was not full, as RED and CoDel do.
    Early,
    /// The packet was lost on the wire, after transmission.
    Loss,
    /// The link was down, or went down while it held the packet.
    Down,
    /// The packet exceeded the policer's limit.
    Policed,
    /// A later acknowledgement of the same flow was queued.
    Thinned,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 6] = [
        DropReason::Overflow,
        DropReason::Early,
        DropReason::Loss,
        DropReason::Down,
        DropReason::Policed,
        DropReason::Thinned,
    ];
}

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets, as pushed.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// Counters of a link since its creation.
///
/// `offered` + `duplicated` = `delivered` + all drops + packets still in the link (queued, in transmission or
/// propagating).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets pushed with [`Link::push`](crate::Link::push).
    pub offered: Count,
    /// Packets taken out with [`Link::pop`](crate::Link::pop).
    pub delivered: Count,
    /// Packets dropped because the queue was full.
    pub overflow: Count,
    /// Packets dropped early by the queue discipline.
    pub early: Count,
    /// Packets lost on the wire.
    pub lost: Count,
    /// Packets dropped because the link was down, or went down while it held them.
    pub down: Count,
    /// Packets dropped by the policer.
    pub policed: Count,
    /// Acknowledgements dropped because a later one was queued.
    pub thinned: Count,
    /// Copies of packets made by the wire.
    pub duplicated: Count,
    /// Packets whose ECN field this link changed to CE.
    pub ce_marked: u64,
}

impl Stats {
    /// Returns the counter of a reason.
    pub fn drops(&self, reason: DropReason) -> Count {
        match reason {
            DropReason::Overflow => self.overflow,
            DropReason::Early => self.early,
            DropReason::Loss => self.lost,
            DropReason::Down => self.down,
            DropReason::Policed => self.policed,
            DropReason::Thinned => self.thinned,
        }
    }

    /// Returns how many packets the queue dropped, either early or because it was full. The kernel's qdiscs
    /// count the same drops.
    pub fn queue_drops(&self) -> u64 {
        self.overflow.packets + self.early.packets
    }

    /// Returns the number of packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        DropReason::ALL.iter().map(|reason| self.drops(*reason).packets).sum()
    }

    pub(crate) fn drop(&mut self, reason: DropReason, bytes: u32) -> Verdict {
        match reason {
            DropReason::Overflow => &mut self.overflow,
            DropReason::Early => &mut self.early,
            DropReason::Loss => &mut self.lost,
            DropReason::Down => &mut self.down,
            DropReason::Policed => &mut self.policed,
            DropReason::Thinned => &mut self.thinned,
        }
        .add(bytes);
        Verdict::Dropped(reason)
    }
}

impl aqm::Ledger for Stats {
    fn dropped(&mut self, reason: aqm::Reason, bytes: u32) {
        let reason = match reason {
            aqm::Reason::Overflow => DropReason::Overflow,
            aqm::Reason::Early => DropReason::Early,
        };
        self.drop(reason, bytes);
    }

    fn marked(&mut self) {
        self.ce_marked += 1;
    }
}

/// Number of priorities. A priority must be below this number; 0 is the most urgent.
pub const PRIORITIES: u8 = 8;

/// Number of bytes per turn.
pub(crate) const QUANTUM: i64 = 3_000;

/// Which of its priority's lists the stream is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listed {
    #[default]
    No,
    New,
    Old,
}

/// A stream's position in the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) listed: Listed,
    /// Bytes that the stream may still send in its turn.
    pub(crate) deficit: i64,
    pub(crate) priority: u8,
    /// Number of bytes sent since the peer last acknowledged everything.
    pub(crate) burst: u64,
}

impl Place {
    pub(crate) fn new(priority: u8) -> Place {
        Place { listed: Listed::No, deficit: QUANTUM, priority: priority.min(PRIORITIES - 1), burst: 0 }
    }

    /// Charges the stream for sending `bytes` bytes in its turn.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.deficit -= bytes as i64;
        self.burst += bytes as u64;
    }
}

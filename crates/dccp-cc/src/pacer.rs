use units::{Rate, Time};

/// Spaces packets at a rate: a token bucket that holds at most one quantum.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    // Filled in by the implementation.
}

impl Pacer {
    /// When the next packet may leave (`now` or earlier: at once).
    pub fn next_send(&self, now: Time) -> Time {
        let _ = now;
        todo!()
    }

    /// Bytes that may leave in one burst now, up to `quantum`, at least one packet when `next_send` has come.
    pub fn burst(&self, now: Time, rate: Rate, quantum: u32) -> u32 {
        let _ = (now, rate, quantum);
        todo!()
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, now: Time, bytes: u32, rate: Rate, quantum: u32) {
        let _ = (now, bytes, rate, quantum);
        todo!()
    }
}

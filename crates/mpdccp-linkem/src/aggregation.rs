use mpdccp_units::Duration;

use crate::error::{ConfigError, ensure};
use crate::random::Random;

/// Packets are sent in bursts, like Wi-Fi frames (A-MPDU). Before each burst, the transmitter waits for the
/// medium. Then it sends the queued packets, which all arrive with the last bit of the burst. A longer queue
/// therefore increases the link's throughput, and the delay jumps from burst to burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Mean time to wait for the medium. Each wait is uniformly distributed between zero and twice this
    /// value.
    pub access: Duration,
    /// Maximum number of packets per burst.
    pub packets: u32,
}

impl Aggregation {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        ensure(
            (1..=1_024).contains(&self.packets),
            "aggregation",
            "the number of packets must be from 1 to 1024",
        )
    }

    /// Draws the length of a wait for the medium.
    pub(crate) fn wait(self, random: &mut Random) -> Duration {
        Duration::from_nanos((self.access.as_nanos() as f64 * 2.0 * random.unit()) as u64)
    }
}

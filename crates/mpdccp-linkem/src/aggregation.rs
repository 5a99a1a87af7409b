use mpdccp_units::Duration;

use crate::error::{ConfigError, ensure};
use crate::random::Random;

/// Packets leave in bursts, as frames do in Wi-Fi (A-MPDU): before each burst the transmitter waits for the medium, then sends what
/// waits, and all of it arrives with the last bit. So the more waits, the more a link carries, and delays come in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Mean wait for the medium; each is uniform between nothing and twice this.
    pub access: Duration,
    /// Most packets of a burst.
    pub packets: u32,
}

impl Aggregation {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        ensure((1..=1_024).contains(&self.packets), "aggregation", "packets must lie between 1 and 1024")
    }

    /// How long the medium is busy with others this time.
    pub(crate) fn wait(self, random: &mut Random) -> Duration {
        Duration::from_nanos((self.access.as_nanos() as f64 * 2.0 * random.unit()) as u64)
    }
}

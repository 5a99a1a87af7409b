use super::Config;
use mpdccp_units::Rate;

impl Config {
    /// Returns the rate limit for the data that one shard sends to all its peers together.
    pub(crate) fn rate_of_shard(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate::from_bps(rate.0.bps() / u64::from(self.shards.0)))
    }
}

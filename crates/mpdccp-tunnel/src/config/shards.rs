use super::Config;
use mpdccp_units::Rate;

impl Config {
    /// Rate limit for the data of one shard to all its peers together.
    pub(crate) fn rate_of_shard(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate::from_bps(rate.0.bps() / u64::from(self.shards.0)))
    }
}

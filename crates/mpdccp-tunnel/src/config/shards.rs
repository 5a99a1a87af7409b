use super::Config;
use mpdccp_units::Rate;

impl Config {
    /// Returns the rate limit for the data that one shard sends to all its peers together.
    pub(crate) fn rate_of_shard(&self) -> Option<Rate> {
        // A rate of 0 would mean that there is no limit.
        self.rate.map(|rate| Rate::from_bps((rate.0.bps() / u64::from(self.shards.0)).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_secure::PrivateKey;

    #[test]
    fn the_smallest_rate_is_still_a_limit() {
        let [own, peer] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let text = |rate: &str| {
            format!(
                "role = \"server\"\nlisten = \"192.0.2.1\"\naddresses = [\"10.0.0.1/24\"]\nshards = 4\n\
                 private_key = \"{}\"\nrate = \"{rate}\"\n[[peer]]\nname = \"c\"\npublic_key = \"{}\"\n\
                 allowed_ips = [\"10.0.0.2/32\"]\n",
                own.to_base64().as_str(),
                peer.public()
            )
        };
        let share = |rate: &str| Config::parse("t".as_ref(), &text(rate), 1).unwrap().rate_of_shard();
        assert_eq!([share("8M"), share("3")], [2_000_000, 1].map(|bps| Some(Rate::from_bps(bps))));
    }
}

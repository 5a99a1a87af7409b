use super::{Config, Threads};
use mpdccp_units::Rate;

impl Config {
    /// Whether each shard has helper threads on a host with this number of cores.
    pub fn helps_shards(&self, cores: usize) -> bool {
        match self.threads {
            // With two cores per shard, the kernel's work already uses the second core.
            Threads::Auto => cores / usize::from(self.shards.0) > 2,
            Threads::On => true,
            Threads::Off => false,
        }
    }

    /// Rate limit for the data of one shard to all its peers together.
    pub(crate) fn rate_of_shard(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate::from_bps(rate.0.bps() / u64::from(self.shards.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_help_where_each_shard_has_cores_to_spare() {
        let helps = |keys: &str, cores| {
            let example = include_str!("../../../../packaging/examples/server.toml");
            let cfg = Config::review(&format!("{keys}\n{example}"), 8).draft.unwrap();
            cfg.helps_shards(cores)
        };
        for (keys, cores, expected) in [
            ("", 64, false),
            ("threads = \"auto\"", 2, false),
            ("threads = \"auto\"", 3, true),
            ("shards = 2\nthreads = \"auto\"", 5, false),
            ("shards = 2\nthreads = \"auto\"", 6, true),
            ("threads = true", 1, true),
            ("threads = false", 64, false),
        ] {
            assert_eq!(helps(keys, cores), expected, "{keys} {cores}");
        }
    }
}

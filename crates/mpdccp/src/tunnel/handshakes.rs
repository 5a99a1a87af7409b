//! The time of the newest handshake, kept over restarts: a server takes none that is older than what it knows of a peer, and a router
//! without a clock of its own begins in 1970 again when it is switched on.

use crate::tunnel::config::{Config, Role};
use crate::tunnel::quota::write_whole;
use dccp_net::Core;
use std::path::PathBuf;
use std::time::Duration;

/// What lies behind the year 3000 was not written by us.
const LAST: u64 = 32_503_680_000;

/// A client's, in whole seconds since 1970, rounded up.
#[derive(Debug)]
pub(crate) struct Handshakes {
    file: PathBuf,
    newest: u64,
}

impl Handshakes {
    /// What the last run left.
    pub(crate) fn load(cfg: &Config) -> Handshakes {
        let file = cfg.state.join(format!("{}.handshake.json", cfg.interface));
        let known = (cfg.role == Role::Client).then(|| std::fs::read(&file).ok()).flatten();
        let known = known.and_then(|text| serde_json::from_slice(&text).ok());
        Handshakes { file, newest: known.filter(|newest| *newest < LAST).unwrap_or(0) }
    }

    /// The time for handshakes where the clock says `wall`: never one that was used before.
    pub(crate) fn time(&self, wall: Duration) -> Duration {
        let newest = Duration::from_secs(self.newest);
        let behind = newest.saturating_sub(wall).as_secs();
        // Rounded up, one of this very second is ahead.
        if behind > 1 {
            tracing::warn!("the clock is {behind} s behind the last handshake; handshakes go on from there");
        }
        wall.max(newest)
    }

    /// Writes down what was used since.
    pub(crate) fn remember(&mut self, core: &Core) {
        let used = core.net.channels().and_then(|channels| channels.initiated());
        let used = used.map_or(0, |used| used.as_secs() + 1);
        if used <= self.newest {
            return;
        }
        self.newest = used;
        if let Err(e) = write_whole(&self.file, &used) {
            tracing::debug!(
                "should the clock be set back, the server refuses us: {}: {e}",
                self.file.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_from_the_last_handshake() {
        let [early, late] = [5, 1_000].map(Duration::from_secs);
        let known = Handshakes { file: PathBuf::new(), newest: 100 };
        assert_eq!(known.time(early), Duration::from_secs(100));
        assert_eq!(known.time(late), late);
    }
}

//! Limits the rate of log lines about each peer.

use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;

/// Number of lines that may be logged about a peer in one burst. A session with eight paths that opens and
/// then fails needs fewer.
const BURST: u32 = 40;
/// After a burst, one line may be logged per this interval.
const EVERY: Duration = Duration::from_secs(3);

/// The peers' token buckets, by the peers' names in the configuration.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(BTreeMap<String, Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    at: Time,
    left_out: u64,
}

impl LogLimit {
    /// Returns the line if it may be logged. The last line within the limit announces that further lines will
    /// be suppressed; the next line logged after that says how many were.
    pub(crate) fn pass(&mut self, now: Time, peer: &str, mut line: String) -> Option<String> {
        let full = || Bucket { tokens: BURST, at: now, left_out: 0 };
        let bucket = self.0.entry(peer.to_owned()).or_insert_with(full);
        let earned = (now.since(bucket.at).as_nanos() / EVERY.as_nanos()) as u64;
        if earned > 0 {
            bucket.tokens = u64::from(bucket.tokens).saturating_add(earned).min(u64::from(BURST)) as u32;
            bucket.at = now;
        }
        let Some(left) = bucket.tokens.checked_sub(1) else {
            bucket.left_out += 1;
            return None;
        };
        bucket.tokens = left;
        match core::mem::take(&mut bucket.left_out) {
            0 if left == 0 => line += "; too many messages about this peer: most further ones are suppressed",
            0 => {}
            n => line += &format!("; {n} earlier messages about this peer were suppressed"),
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_does_not_fill_the_log() {
        let mut limit = LogLimit::default();
        let at = |ms: u64| Time::from_millis(1 + ms);
        let lines: Vec<String> =
            (0..10_000).filter_map(|ms| limit.pass(at(ms), "a", format!("line {ms}"))).collect();
        assert_eq!(lines.len(), 43);
        assert!(lines[39].starts_with("line 39; too many messages"), "{}", lines[39]);
        assert!(
            lines[40].ends_with("; 2960 earlier messages about this peer were suppressed"),
            "{}",
            lines[40]
        );
        assert!(limit.pass(at(10_000), "b", "another".into()).is_some());
        // After a pause, the full burst is available again.
        let later = (0..100).filter_map(|n| limit.pass(at(200_000 + n), "a", "again".into())).count();
        assert_eq!(later, 40);
    }
}

//! Logs refused datagrams, at a limited rate.

use crate::secure::{PublicKey, Reason};
use mpdccp_units::{Duration, Time};
use std::net::SocketAddr;

/// Shortest interval between two log lines.
const EVERY: Duration = Duration::from_secs(5);

/// When the next log line is allowed, and how many refusals have gone unlogged since the last line.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    next: Time,
    silent: u64,
}

impl Refusals {
    /// Logs a refused datagram. `stranger` is the public key of the last unknown peer.
    pub(crate) fn tell(&mut self, now: Time, from: SocketAddr, reason: Reason, stranger: Option<&PublicKey>) {
        if let Some(line) = self.line(now, from, reason, stranger) {
            tracing::warn!("{line}");
        }
    }

    fn line(
        &mut self,
        now: Time,
        from: SocketAddr,
        reason: Reason,
        stranger: Option<&PublicKey>,
    ) -> Option<String> {
        let why = match (reason, stranger) {
            (Reason::UnknownPeer, Some(key)) => format!("no peer has public_key {key}"),
            (Reason::Stranger, _) => "its configuration does not have the public key of this end".into(),
            (Reason::BadHandshake, _) => "cannot decrypt its handshake; the preshared keys may differ".into(),
            (Reason::OldHandshake, _) => {
                "its handshake is old: either a replay, or the peer's clock was set back".into()
            }
            (Reason::NoCommonCipher, _) => "the two ends have no common cipher".into(),
            _ => return None,
        };
        if now < self.next {
            self.silent += 1;
            return None;
        }
        self.next = now + EVERY;
        let silent = std::mem::take(&mut self.silent);
        let others = if silent > 0 { format!(" ({silent} more were refused before)") } else { String::new() };
        Some(format!("{from} was refused: {why}{others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_many() {
        let mut refusals = Refusals::default();
        let from = ([192, 0, 2, 1], 9).into();
        let mut line = |ms, reason| refusals.line(Time::from_millis(ms), from, reason, None);
        assert_eq!(line(1, Reason::Replayed), None, "refused records are not logged");
        assert!(
            line(1, Reason::Stranger)
                .unwrap()
                .starts_with("192.0.2.1:9 was refused: its configuration does not have")
        );
        assert_eq!(line(2, Reason::Stranger), None);
        assert_eq!(line(5_000, Reason::BadHandshake), None);
        assert!(
            line(5_001, Reason::BadHandshake).unwrap().ends_with("may differ (2 more were refused before)")
        );
    }
}

//! Limits of a server for its clients.

use crate::perf::control::Test;
use crate::perf::values::{seconds, with_number};
use crate::quantity::rate;
use clap::Args;
use mpdccp_units::{Duration, Rate, Time};

/// A test may last this much longer than the limit: for its handshake, its last packets and its results.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Server: limit the total rate of all connections and directions, as an average over S seconds (5 by
    /// default). The server refuses a test that requests more. It ends the fastest connection while the total
    /// is above the limit.
    #[arg(id = "server_rate", long = "server-bitrate-limit", value_name = "RATE[/S]", conflicts_with = "client", value_parser = rate_limit)]
    rate: Option<RateLimit>,
    /// Server: refuse and end tests that take longer.
    #[arg(long = "server-max-duration", value_name = "S", conflicts_with = "client", value_parser = limit)]
    duration: Option<Duration>,
    /// Server: end connections that carry nothing for this long. With --one-off, also exit if no client connects for this long.
    #[arg(long = "idle-timeout", value_name = "S", conflicts_with = "client", value_parser = limit)]
    pub(crate) idle: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateLimit {
    rate: Rate,
    over: Duration,
}

fn rate_limit(text: &str) -> Result<RateLimit, String> {
    let (text, over) = with_number(text);
    let over = over.map_or(Ok(Duration::from_secs(5)), limit)?;
    Ok(RateLimit { rate: rate(text)?, over })
}

fn limit(text: &str) -> Result<Duration, String> {
    seconds(text).ok().filter(|time| !time.is_zero()).ok_or_else(|| "expected more than 0 seconds".into())
}

/// Usage of a connection, for comparison with the limits.
pub(crate) struct Use {
    pub(crate) opened: Time,
    /// When the last message was received or created.
    pub(crate) active: Time,
    /// Bytes of messages since the last check, both directions.
    pub(crate) bytes: u64,
}

impl Limits {
    pub(crate) fn any(&self) -> bool {
        self.rate.is_some() || self.duration.is_some() || self.idle.is_some()
    }

    /// Why a test is refused.
    pub(crate) fn refusal(&self, test: &Test) -> Option<String> {
        let directions = u64::from(test.up || test.echo) + u64::from(test.down || test.echo);
        let wanted = test.rate_bps.unwrap_or(0).saturating_mul(directions);
        if let Some(limit) = self.rate.filter(|limit| wanted > limit.rate.bps()) {
            return Some(format!("its rate is above the server's limit of {}; lower -b", limit.rate));
        }
        let time = test.time_ms.map(|ms| Duration::from_millis(ms.saturating_add(test.omit_ms)));
        let most = self.duration?;
        let fits = time.is_some_and(|time| time <= most) || (time.is_none() && test.messages.is_some());
        (!fits).then(|| format!("the server's limit is {} s; use -t", most.as_secs_f64()))
    }

    /// Time over which the rate is averaged.
    pub(crate) fn averaged_over(&self) -> Option<Duration> {
        self.rate.map(|limit| limit.over)
    }

    /// Why a connection has to end, apart from its rate.
    pub(crate) fn overrun(&self, now: Time, used: &Use) -> Option<String> {
        if let Some(most) = self.duration.filter(|most| now.since(used.opened) > *most + GRACE) {
            return Some(format!("it took longer than the server's limit of {} s", most.as_secs_f64()));
        }
        let most = self.idle.filter(|most| now.since(used.active) > *most)?;
        Some(format!("it carried nothing for {} s, the server's limit", most.as_secs_f64()))
    }

    /// Why the fastest connection has to end, if all together carried more than is allowed in this time.
    pub(crate) fn excess(&self, bytes: u64, time: Duration) -> Option<String> {
        let limit = self.rate?;
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let allowed = u128::from(limit.rate.bps()) * time.as_nanos();
        (bits > allowed).then(|| format!("the server carried more than its limit of {}", limit.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_beyond_the_limits_are_refused() {
        let limits = Limits {
            rate: Some(rate_limit("10M/2").unwrap_or_else(|e| panic!("{e}"))),
            duration: Some(Duration::from_secs(10)),
            idle: None,
        };
        let test = Test { up: true, size: 1200, time_ms: Some(10_000), ..Test::default() };
        let rate = |mbps: u64| Some(mbps * 1_000_000);
        for (test, refused) in [
            (test.clone(), None),
            (Test { rate_bps: rate(10), ..test.clone() }, None),
            (Test { rate_bps: rate(11), ..test.clone() }, Some("rate")),
            (Test { rate_bps: rate(6), down: true, ..test.clone() }, Some("rate")),
            (Test { rate_bps: rate(6), echo: true, ..test.clone() }, Some("rate")),
            (Test { omit_ms: 1, ..test.clone() }, Some("10 s")),
            (Test { time_ms: None, ..test.clone() }, Some("10 s")),
            (Test { time_ms: None, messages: Some(5), ..test.clone() }, None),
            (Test { time_ms: Some(u64::MAX), ..test }, Some("10 s")),
        ] {
            let why = limits.refusal(&test);
            assert_eq!(why.is_some(), refused.is_some(), "{test:?}: {why:?}");
            assert!(refused.is_none_or(|words| why.unwrap().contains(words)), "{test:?}");
        }
        assert_eq!(limits.averaged_over(), Some(Duration::from_secs(2)));
        assert!(limits.excess(2_500_000, Duration::from_secs(2)).is_none());
        assert!(limits.excess(2_500_001, Duration::from_secs(2)).is_some());
        assert!(rate_limit("10 Mbit/s").is_ok() && rate_limit("10M/0").is_err() && limit("0").is_err());
    }

    #[test]
    fn connections_end_at_their_limits() {
        let second = |s: u64| Time::from_millis(s * 1000);
        let used = Use { opened: second(0), active: second(12), bytes: 0 };
        let limits = Limits { duration: Some(Duration::from_secs(10)), ..Limits::default() };
        assert!(limits.overrun(second(15), &used).is_none() && limits.overrun(second(16), &used).is_some());
        let limits = Limits { idle: Some(Duration::from_secs(10)), ..Limits::default() };
        assert!(limits.overrun(second(22), &used).is_none() && limits.overrun(second(23), &used).is_some());
        assert!(Limits::default().overrun(second(1_000_000), &used).is_none() && !Limits::default().any());
    }
}

//! Limits that a server imposes on its clients.

use crate::perf::control::Test;
use crate::perf::values::{seconds, with_number};
use clap::Args;
use mpdccp_proto::SessionId;
use mpdccp_tunnel::config::rate;
use mpdccp_units::{Duration, Rate, Time};
use std::collections::BTreeMap;

/// Additional time that a test gets beyond the duration limit, for the handshake, the last packets and the
/// results.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Server: limit the total rate of all connections in both directions, averaged over S seconds (5 by
    /// default). The server refuses a test that requests a higher rate. While the total exceeds the limit,
    /// the server ends the fastest connection.
    #[arg(id = "server_rate", long = "server-bitrate-limit", value_name = "RATE[/S]", conflicts_with = "client", value_parser = rate_limit)]
    rate: Option<RateLimit>,
    /// Server: refuse or end tests that take longer than S seconds.
    #[arg(long = "server-max-duration", value_name = "S", conflicts_with = "client", value_parser = limit)]
    duration: Option<Duration>,
    /// Server: end connections that carry no data for S seconds. With --one-off, also exit if no client
    /// connects for S seconds.
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

/// The values of a connection that are checked against the limits.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// When the test began. If no test has begun, when the connection opened.
    pub(crate) opened: Time,
    /// Bytes of all messages in both directions.
    pub(crate) bytes: u64,
    /// Whether the connection has been refused or ended and is waiting for the client to close it.
    pub(crate) ended: bool,
}

impl Limits {
    pub(crate) fn any(&self) -> bool {
        self.rate.is_some() || self.duration.is_some() || self.idle.is_some()
    }

    /// Returns the reason to refuse a test, if there is one.
    pub(crate) fn refusal(&self, test: &Test) -> Option<String> {
        let directions = u64::from(test.up || test.echo) + u64::from(test.down || test.echo);
        let wanted = test.rate_bps.unwrap_or(0).saturating_mul(directions);
        if let Some(limit) = self.rate.filter(|limit| wanted > limit.rate.bps()) {
            return Some(format!(
                "the rate of the test is above the server's limit of {}; lower -b",
                limit.rate
            ));
        }
        let time = test.time_ms.map(|ms| Duration::from_millis(ms.saturating_add(test.omit_ms)));
        let most = self.duration?;
        let fits = time.is_some_and(|time| time <= most) || (time.is_none() && test.messages.is_some());
        (!fits).then(|| {
            format!("the server's limit is {} s; give at most this time with -t", most.as_secs_f64())
        })
    }

    /// Returns the reason to end a connection, if there is one. Does not check the rate.
    fn overrun(&self, now: Time, opened: Time, active: Time) -> Option<String> {
        if let Some(most) = self.duration.filter(|most| now.since(opened) > *most + GRACE) {
            return Some(format!("it took longer than the server's limit of {} s", most.as_secs_f64()));
        }
        let most = self.idle.filter(|most| now.since(active) > *most)?;
        Some(format!("it carried no data for {} s, the server's limit", most.as_secs_f64()))
    }
}

/// Checks a server's connections against its limits.
pub(crate) struct Watch {
    limits: Limits,
    /// Start of the current rate measurement.
    measured_from: Time,
    /// The last time that a connection was open, or the time when the server started if there has been none.
    alone_since: Time,
    connections: BTreeMap<SessionId, Seen>,
}

/// State of a connection at the last check.
#[derive(Clone, Copy)]
struct Seen {
    bytes: u64,
    /// Value of `bytes` at the start of the rate measurement.
    before: u64,
    /// When `bytes` last changed.
    active: Time,
}

impl Watch {
    pub(crate) fn new(limits: Limits, now: Time) -> Watch {
        Watch { limits, measured_from: now, alone_since: now, connections: BTreeMap::new() }
    }

    /// Returns the connections that must end now, each with the reason: those that exceed a limit of their
    /// own and, if all connections together have exceeded the rate limit, the fastest one.
    pub(crate) fn look(
        &mut self,
        now: Time,
        connections: impl Iterator<Item = (SessionId, Use)>,
    ) -> BTreeMap<SessionId, String> {
        let before = std::mem::take(&mut self.connections);
        let (mut ends, mut total, mut fastest) = (BTreeMap::new(), 0, None);
        for (session, used) in connections {
            self.alone_since = now;
            let new = Seen { bytes: 0, before: 0, active: now };
            let mut seen = before.get(&session).copied().unwrap_or(new);
            if used.bytes > seen.bytes {
                (seen.bytes, seen.active) = (used.bytes, now);
            }
            let carried = used.bytes - seen.before;
            total += carried;
            if !used.ended {
                ends.extend(self.limits.overrun(now, used.opened, seen.active).map(|why| (session, why)));
                fastest = fastest.max(Some((carried, session)));
            }
            self.connections.insert(session, seen);
        }
        let time = now.since(self.measured_from);
        let Some(limit) = self.limits.rate.filter(|limit| time >= limit.over) else { return ends };
        self.measured_from = now;
        self.connections.values_mut().for_each(|seen| seen.before = seen.bytes);
        let too_much = u128::from(total) * 8 * 1_000_000_000 > u128::from(limit.rate.bps()) * time.as_nanos();
        if let Some((_, session)) = fastest.filter(|_| too_much) {
            ends.insert(
                session,
                format!("all connections together exceeded the server's limit of {}", limit.rate),
            );
        }
        ends
    }

    /// Returns the idle limit if no connection has been open for that long.
    pub(crate) fn idle(&self, now: Time) -> Option<Duration> {
        self.limits.idle.filter(|idle| now.since(self.alone_since) >= *idle)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn of_rate(bps: u64) -> Limits {
        let rate = RateLimit { rate: Rate::from_bps(bps), over: Duration::from_secs(1) };
        Limits { rate: Some(rate), ..Limits::default() }
    }

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
        assert!(rate_limit("10 Mbit/s").is_ok() && rate_limit("10M/0").is_err() && limit("0").is_err());
    }

    const NONE: [u64; 0] = [];

    fn second(s: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(s)
    }

    /// Returns the sessions that the server ends at time `s`. Each connection is given by its number, its
    /// bytes so far, and whether it has already ended.
    fn ended(watch: &mut Watch, s: f64, connections: &[(u64, u64, bool)]) -> Vec<u64> {
        let used = |(session, bytes, ended)| (SessionId(session), Use { opened: second(0.0), bytes, ended });
        watch.look(second(s), connections.iter().copied().map(used)).keys().map(|session| session.0).collect()
    }

    #[test]
    fn connections_end_after_the_longest_time() {
        let limits = Limits { duration: Some(Duration::from_secs(10)), ..Limits::default() };
        let mut watch = Watch::new(limits, second(0.0));
        assert_eq!(ended(&mut watch, 15.0, &[(1, 5, false)]), NONE);
        assert_eq!(ended(&mut watch, 15.1, &[(1, 6, false), (2, 0, true)]), [1]);
        assert!(limits.any() && !Limits::default().any());
        let mut unlimited = Watch::new(Limits::default(), second(0.0));
        assert_eq!(ended(&mut unlimited, 1e6, &[(1, u64::MAX, false)]), NONE);
    }

    #[test]
    fn connections_end_when_they_carry_nothing() {
        let limits = Limits { idle: Some(Duration::from_secs(10)), ..Limits::default() };
        assert!(limits.any());
        let mut watch = Watch::new(limits, second(0.0));
        assert_eq!(watch.idle(second(9.9)), None);
        assert_eq!(watch.idle(second(10.0)), Some(Duration::from_secs(10)));
        assert_eq!(ended(&mut watch, 11.0, &[(1, 0, false), (2, 0, false)]), NONE);
        assert_eq!(ended(&mut watch, 20.0, &[(1, 1, false), (2, 0, false)]), NONE);
        assert_eq!(ended(&mut watch, 21.5, &[(1, 1, false), (2, 0, false)]), [2]);
        assert_eq!(ended(&mut watch, 30.0, &[(1, 1, false), (2, 0, true)]), NONE);
        assert_eq!(ended(&mut watch, 30.5, &[(1, 1, false)]), [1]);
        // No connection is open any more.
        assert_eq!(watch.idle(second(40.0)), None);
        assert_eq!(watch.idle(second(40.5)), Some(Duration::from_secs(10)));
    }

    #[test]
    fn the_fastest_connection_ends_if_all_together_are_too_fast() {
        // The limit allows 2,000,000 bytes in two seconds.
        let rate = rate_limit("8M/2").unwrap_or_else(|e| panic!("{e}"));
        let limits = Limits { rate: Some(rate), ..Limits::default() };
        assert!(limits.any());
        let mut watch = Watch::new(limits, second(0.0));
        assert_eq!(
            ended(&mut watch, 1.9, &[(1, 900_000, false), (2, 1_200_000, false)]),
            NONE,
            "two seconds have not passed"
        );
        let all = [(1, 900_000, false), (2, 1_200_000, false), (3, 100_000, false)];
        assert_eq!(ended(&mut watch, 2.0, &all), [2]);
        // Connection 2, which was ended in the last measurement, still carries data. Now the fastest of the
        // others must end. Each measurement starts again from zero.
        let all = [(1, 1_700_000, false), (2, 2_000_000, true), (3, 500_000, false)];
        assert_eq!(ended(&mut watch, 4.0, &all), NONE, "2,000,000 bytes");
        let all = [(1, 2_500_000, false), (2, 3_000_000, true), (3, 700_001, false)];
        assert_eq!(ended(&mut watch, 6.0, &all), [1], "2,000,001 bytes");
        // This measurement took longer, so the limit allows more bytes.
        assert_eq!(ended(&mut watch, 12.0, &[(3, 6_700_001, false)]), NONE);
        assert_eq!(ended(&mut watch, 14.0, &[(3, 8_700_002, false)]), [3]);
    }
}

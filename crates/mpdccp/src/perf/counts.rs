//! Counts of the messages that were sent or received in a time span.

use crate::perf::meter::{AboveLeast, Latency, Meter, OneWay, Span};
use crate::perf::sent::{PathSent, Sent};
use crate::perf::table::{Row, percent};
use mpdccp_units::Duration;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Messages sent in a time span.
#[derive(Serialize)]
pub(crate) struct Out {
    seconds: f64,
    messages: u64,
    bytes: u64,
    pub(crate) mbps: f64,
    dropped: u64,
    lost: u64,
    paths: Vec<Path>,
}

#[derive(Serialize)]
pub(crate) struct Path {
    path: u32,
    up: bool,
    packets: u64,
    lost: u64,
    rtt_ms: Option<f64>,
    cwnd_bytes: u64,
    phase: &'static str,
    path_mtu: u16,
}

/// Total of the sent messages, as an end reports it to its peer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    seconds: f64,
    messages: u64,
    bytes: u64,
    mbps: f64,
}

impl From<&Out> for Tally {
    fn from(&Out { seconds, messages, bytes, mbps, .. }: &Out) -> Tally {
        Tally { seconds, messages, bytes, mbps }
    }
}

/// Messages received in a time span.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct In {
    seconds: f64,
    messages: u64,
    bytes: u64,
    pub(crate) mbps: f64,
    lost: u64,
    lost_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reordered: Option<u64>,
    jitter_ms: Option<f64>,
    /// One-way latency or, if the messages are echoes, the round-trip time.
    latency_ms: Option<Latency>,
    /// Estimated one-way latency. Only set for echoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    one_way_ms: Option<OneWay>,
}

/// The counts between two reports.
pub(crate) struct Lap {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) size: usize,
    pub(crate) sent: Option<(Sent, Sent)>,
    pub(crate) received: Option<In>,
    /// How much the number of missing messages has grown. Messages that arrive late make that number smaller;
    /// then this is 0.
    pub(crate) lost: u64,
    /// Whether the results exclude these counts, or most of them.
    pub(crate) omitted: bool,
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 }
}

impl Out {
    pub(crate) fn between(before: &Sent, after: &Sent, size: usize, span: Duration) -> Out {
        let messages = after.left.saturating_sub(before.left);
        let bytes = (messages * size as u64).saturating_sub(after.short.saturating_sub(before.short));
        let seconds = span.as_secs_f64();
        let path = |path: &PathSent| {
            let old = before.paths.iter().find(|old| old.id == path.id);
            Path {
                path: path.id,
                up: path.state.is_up(),
                packets: path.left.saturating_sub(old.map_or(0, |old| old.left)),
                lost: path.lost.saturating_sub(old.map_or(0, |old| old.lost)),
                rtt_ms: path.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                cwnd_bytes: path.cwnd,
                phase: path.phase,
                path_mtu: path.mtu,
            }
        };
        Out {
            seconds,
            messages,
            bytes,
            mbps: mbps(bytes, seconds),
            dropped: after.dropped.saturating_sub(before.dropped),
            lost: after.lost.saturating_sub(before.lost),
            paths: after.paths.iter().map(path).collect(),
        }
    }

    /// Returns a line of the table. Its round-trip time is that of the fastest path.
    pub(crate) fn row(&self) -> Row {
        let rtt = self.paths.iter().filter_map(|path| path.rtt_ms).reduce(f64::min);
        let Out { bytes, mbps, lost, messages, .. } = *self;
        Row { bytes, mbps, delay_ms: rtt, lost, total: messages }
    }

    /// Returns further lines to print below the table.
    pub(crate) fn details(&self) -> Vec<String> {
        let path = |path: &Path| {
            let rtt = path
                .rtt_ms
                .map(|rtt| format!(", rtt {rtt:.2} ms, cwnd {} bytes, {}", path.cwnd_bytes, path.phase));
            let Path { path, packets, lost, path_mtu, .. } = path;
            format!("path {path}: {packets} packets, {lost} lost, MTU {path_mtu}{}", rtt.unwrap_or_default())
        };
        let dropped = (self.dropped > 0)
            .then(|| format!("dropped {} messages because the queue was full", self.dropped));
        self.paths.iter().map(path).chain(dropped).collect()
    }
}

impl In {
    /// Returns the counts of a span. The losses are those since the beginning.
    fn of(span: &Span, meter: &Meter, seconds: f64, reordered: Option<u64>) -> In {
        let lost = meter.lost();
        In {
            seconds,
            messages: span.messages,
            bytes: span.bytes,
            mbps: mbps(span.bytes, seconds),
            lost,
            lost_percent: percent(lost, meter.total.messages + lost),
            reordered,
            jitter_ms: meter.jitter_ms(),
            latency_ms: span.latency(),
            one_way_ms: meter.echo.then(|| span.one_way()),
        }
    }

    /// Returns a meter's total counts. The rate leaves out the first message, because the time between the
    /// first and the last message contains the transmission of all messages but the first.
    pub(crate) fn total(meter: &Meter) -> In {
        let span = meter.first.zip(meter.last).map_or(Duration::ZERO, |(first, last)| last.since(first));
        let all = In::of(&meter.total, meter, span.as_secs_f64(), Some(meter.reordered));
        In { mbps: mbps(all.bytes - meter.first_len, all.seconds), ..all }
    }

    /// Returns the counts since the last call. The time since then is `span`.
    pub(crate) fn lap(meter: &mut Meter, span: Duration) -> In {
        In::of(&meter.lap(), meter, span.as_secs_f64(), None)
    }

    /// Returns a line of the table.
    pub(crate) fn row(&self) -> Row {
        let In { bytes, mbps, jitter_ms, lost, messages, .. } = *self;
        Row { bytes, mbps, delay_ms: jitter_ms, lost, total: messages.saturating_add(lost) }
    }

    /// Returns further lines to print below the table.
    pub(crate) fn details(&self, way: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut text = format!("{way}: reordered {}", self.reordered.unwrap_or(0));
        if let Some(Latency { p50, p99, max }) = self.latency_ms {
            let what = if self.one_way_ms.is_some() { "round trip" } else { "one-way latency" };
            let _ = write!(text, ", {what} p50 {p50:.2} p99 {p99:.2} max {max:.2} ms");
        }
        lines.push(text);
        let Some(one_way) = &self.one_way_ms else { return lines };
        if let (Some(Latency { p50, .. }), Some(line)) = (one_way.estimate, lines.last_mut()) {
            let _ = write!(line, ", one-way about {p50:.2} ms");
        }
        if let Some((forward, reverse)) = one_way.forward.zip(one_way.reverse) {
            let way = |AboveLeast { mean, max }: AboveLeast| format!("{mean:.2} (max {max:.2}) ms");
            let (forward, reverse) = (way(forward), way(reverse));
            lines.push(format!("delay above its minimum: forward {forward}, reverse {reverse}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::message::{self, ClockId};
    use mpdccp_units::Time;

    #[test]
    fn the_rate_of_a_test_does_not_depend_on_the_number_of_messages() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        assert_eq!(In::total(&meter).mbps, 0.0);
        for number in 0..3 {
            let at = Time::from_millis(1000 + u64::from(number));
            meter.on_message(at, &message::write(number, 1000, clock, at));
        }
        // A message of 1000 bytes each millisecond is 8 Mbit/s.
        let In { seconds, messages, bytes, mbps, .. } = In::total(&meter);
        assert_eq!((seconds, messages, bytes), (0.002, 3, 3000));
        assert!((mbps - 8.0).abs() < 1e-9, "{mbps}");
    }

    #[test]
    fn losses_of_an_interval_are_those_since_the_beginning() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        let mut lap = |numbers: &[u32]| {
            for number in numbers {
                meter.on_message(Time::ZERO, &message::write(*number, 100, clock, Time::ZERO));
            }
            let In { messages, lost, lost_percent, .. } = In::lap(&mut meter, Duration::from_secs(1));
            (messages, lost, lost_percent)
        };
        assert_eq!(lap(&[0, 2, 3]), (3, 1, 25.0));
        assert_eq!(lap(&[4]), (1, 1, 20.0));
        assert_eq!(lap(&[]), (0, 1, 20.0));
        assert_eq!(lap(&[1]), (1, 0, 0.0));
    }
}

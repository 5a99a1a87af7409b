//! Counts of both ends over a time span, as JSON and as text.

use crate::perf::lap::{PathSent, Sent};
use crate::perf::meter::{AboveLeast, Latency, Meter, OneWay, Span};
use crate::perf::output::Unit;
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
    /// One-way latency; for echoes, the round trip.
    latency_ms: Option<Latency>,
    /// For echoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    one_way_ms: Option<OneWay>,
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 * 100.0 / whole as f64 } else { 0.0 }
}

impl Out {
    pub(crate) fn between(before: &Sent, after: &Sent, size: usize, span: Duration) -> Out {
        let messages = after.left.saturating_sub(before.left);
        let (bytes, seconds) = (messages * size as u64, span.as_secs_f64());
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

    pub(crate) fn text(&self, unit: Unit) -> String {
        let mut text = format!(
            "sent {} messages, {}, lost {} ({:.2} %), dropped {}",
            self.messages,
            unit.text(self.mbps),
            self.lost,
            percent(self.lost, self.messages),
            self.dropped
        );
        for path in &self.paths {
            if self.paths.len() > 1 {
                let _ = write!(text, "; path {}: {} packets", path.path, path.packets);
            }
            if let Some(rtt) = path.rtt_ms {
                let _ = write!(text, ", rtt {rtt:.2} ms, cwnd {} bytes, {}", path.cwnd_bytes, path.phase);
            }
        }
        text
    }
}

impl In {
    pub(crate) fn of(
        span: &Span,
        echo: bool,
        seconds: f64,
        lost: u64,
        reordered: Option<u64>,
        jitter_ms: Option<f64>,
    ) -> In {
        In {
            seconds,
            messages: span.messages,
            bytes: span.bytes,
            mbps: mbps(span.bytes, seconds),
            lost,
            lost_percent: percent(lost, span.messages + lost),
            reordered,
            jitter_ms,
            latency_ms: span.latency(),
            one_way_ms: echo.then(|| span.one_way()),
        }
    }

    /// Total counts of a meter.
    pub(crate) fn total(meter: &Meter) -> In {
        let span = meter.first.zip(meter.last).map_or(Duration::ZERO, |(first, last)| last.since(first));
        let reordered = Some(meter.reordered);
        In::of(&meter.total, meter.echo, span.as_secs_f64(), meter.lost(), reordered, meter.jitter_ms())
    }

    pub(crate) fn text(&self, unit: Unit) -> String {
        let mut text = format!(
            "received {} messages, {}, lost {}/{} ({:.2} %)",
            self.messages,
            unit.text(self.mbps),
            self.lost,
            self.messages.saturating_add(self.lost),
            self.lost_percent
        );
        if let Some(reordered) = self.reordered {
            let _ = write!(text, ", {} bytes, reordered {reordered}", self.bytes);
        }
        if let Some(jitter) = self.jitter_ms {
            let _ = write!(text, ", jitter {jitter:.3} ms");
        }
        if let Some(Latency { p50, p99, max }) = self.latency_ms {
            let what = if self.one_way_ms.is_some() { "round trip" } else { "one-way latency" };
            let _ = write!(text, ", {what} p50 {p50:.2} p99 {p99:.2} max {max:.2} ms");
        }
        let one_way = self.one_way_ms.as_ref();
        if let Some(Latency { p50, .. }) = one_way.and_then(|one_way| one_way.estimate) {
            let _ = write!(text, ", one-way latency about {p50:.2} ms");
        }
        if let Some((forward, reverse)) = one_way.and_then(|one_way| one_way.forward.zip(one_way.reverse)) {
            let way = |AboveLeast { mean, max }: AboveLeast| format!("{mean:.2} (max {max:.2})");
            let _ = write!(
                text,
                "; delay above its minimum: forward {} ms, reverse {} ms",
                way(forward),
                way(reverse)
            );
        }
        text
    }
}

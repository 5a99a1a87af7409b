//! What is printed: lines for people, or JSON for programs.

use crate::perf::lap::{Lap, PathSent, Sent};
use crate::perf::meter::{AboveLeast, Latency, Meter, OneWay, Span};
use crate::perf::output::{Output, Unit};
use crate::perf::transfer::Transfer;
use mpdccp_proto::{PathId, SessionId, SessionStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use units::{Duration, Time};

pub(crate) struct Reporter {
    output: Output,
    json: bool,
    unit: Unit,
    /// Lines name their session.
    several: bool,
    /// Sessions whose paths are worth telling of.
    multipath: BTreeSet<SessionId>,
    /// Others whose peer is silent.
    silent: BTreeSet<SessionId>,
}

/// One line of JSON; docs/perf.md describes it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Record<'a> {
    Settings(&'a Settings),
    Listening { address: SocketAddr, dccp_port: u16 },
    Open { session: u64, multipath: bool, tx_ccid: Option<u8>, rx_ccid: Option<u8> },
    Path { session: u64, path: u32, state: &'a str },
    Interval { session: u64, from_s: f64, to_s: f64, sent: Option<Out>, received: Option<In> },
    Summary { session: u64, end: &'a str, sent: Option<Out>, received: Option<In>, peer_received: Option<In> },
    Sum { sent_mbps: Option<f64>, received_mbps: Option<f64> },
    Error { error: &'a str },
}

/// With `--verbose`.
#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) version: &'static str,
    pub(crate) ccid: u8,
    pub(crate) scheduler: &'static str,
    /// Bytes, if this end knows.
    pub(crate) size: Option<usize>,
    pub(crate) queue_packets: u32,
    pub(crate) mtu: u16,
    pub(crate) dscp: u8,
}

/// What was sent in a span of time.
#[derive(Serialize)]
struct Out {
    seconds: f64,
    messages: u64,
    bytes: u64,
    mbps: f64,
    dropped: u64,
    lost: u64,
    paths: Vec<Path>,
}

#[derive(Serialize)]
struct Path {
    path: u32,
    up: bool,
    packets: u64,
    lost: u64,
    rtt_ms: Option<f64>,
    cwnd_bytes: u64,
    phase: &'static str,
}

/// What was received in a span of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct In {
    seconds: f64,
    messages: u64,
    bytes: u64,
    mbps: f64,
    lost: u64,
    lost_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reordered: Option<u64>,
    jitter_ms: Option<f64>,
    /// One way; of echoes, the round trip.
    latency_ms: Option<Latency>,
    /// Of echoes.
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
    fn between(before: &Sent, after: &Sent, size: usize, span: Duration) -> Out {
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

    fn text(&self, unit: Unit) -> String {
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
    fn of(
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

    /// All that a meter counted.
    pub(crate) fn total(meter: &Meter) -> In {
        let span = meter.first.zip(meter.last).map_or(Duration::ZERO, |(first, last)| last.since(first));
        let reordered = Some(meter.reordered);
        In::of(&meter.total, meter.echo, span.as_secs_f64(), meter.lost(), reordered, meter.jitter_ms())
    }

    fn text(&self, unit: Unit) -> String {
        let mut text = format!(
            "received {} messages, {}, lost {}/{} ({:.2} %)",
            self.messages,
            unit.text(self.mbps),
            self.lost,
            self.messages + self.lost,
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
            let _ = write!(text, ", one way about {p50:.2} ms");
        }
        if let Some((there, back)) = one_way.and_then(|one_way| one_way.there.zip(one_way.back)) {
            let way = |AboveLeast { mean, max }: AboveLeast| format!("{mean:.2} (max {max:.2})");
            let _ = write!(text, "; above the least: there {} back {} ms", way(there), way(back));
        }
        text
    }
}

/// Says in JSON why the program fails.
pub(crate) fn failed(output: &Output, fault: &str) {
    output.json(serde_json::to_value(Record::Error { error: fault }).unwrap_or_default());
}

/// The rates of several sessions together, Mbit/s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    sent: Option<f64>,
    received: Option<f64>,
}

impl Sum {
    fn add(&mut self, sent: Option<&Out>, received: Option<&In>) {
        let add = |sum: &mut Option<f64>, more: Option<f64>| {
            *sum = more.map(|more| sum.unwrap_or(0.0) + more).or(*sum);
        };
        add(&mut self.sent, sent.map(|out| out.mbps));
        add(&mut self.received, received.map(|received| received.mbps));
    }

    fn text(&self, unit: Unit) -> String {
        let sent = self.sent.map(|mbps| format!("sent {}", unit.text(mbps)));
        let received = self.received.map(|mbps| format!("received {}", unit.text(mbps)));
        let texts: Vec<String> = sent.into_iter().chain(received).collect();
        texts.join("; ")
    }
}

impl Reporter {
    pub(crate) fn new(output: Output, json: bool, unit: Unit, several: bool) -> Reporter {
        Reporter { output, json, unit, several, multipath: BTreeSet::new(), silent: BTreeSet::new() }
    }

    fn print(&self, record: &Record<'_>, text: impl FnOnce() -> String) {
        match self.json {
            true => self.output.json(serde_json::to_value(record).unwrap_or_default()),
            false => self.output.text(&text()),
        }
    }

    /// What went wrong, while the program goes on.
    pub(crate) fn complain(&self, complaint: &str) {
        match self.output.is_file() {
            true => self.output.text(complaint),
            // Whoever read it may be gone.
            false => drop(writeln!(std::io::stderr(), "mpdccp: {complaint}")),
        }
    }

    pub(crate) fn settings(&self, settings: &Settings) {
        self.print(&Record::Settings(settings), || {
            let Settings { version, ccid, scheduler, size, queue_packets, mtu, dscp } = settings;
            let size = size.map(|size| format!("messages of {size} bytes, ")).unwrap_or_default();
            format!(
                "mpdccp {version}: CCID {ccid}, scheduler {scheduler}, {size}a queue of {queue_packets} packets, MTU {mtu}, DSCP {dscp}"
            )
        });
    }

    pub(crate) fn listening(&self, address: SocketAddr, dccp_port: u16) {
        let place = if address.port() == 0 { address.ip().to_string() } else { address.to_string() };
        let text = format!("listening on {place}, DCCP port {dccp_port}");
        if self.output.is_file() {
            // For whoever waits until it does.
            let _ = writeln!(std::io::stdout(), "{text}");
        }
        self.print(&Record::Listening { address, dccp_port }, || text);
    }

    pub(crate) fn opened(&mut self, session: SessionId, status: Option<&SessionStatus>, multipath: bool) {
        if multipath {
            self.multipath.insert(session);
        }
        let ccids = status.and_then(|s| s.paths.iter().find_map(|path| path.ccids));
        let record = Record::Open {
            session: session.0,
            multipath,
            tx_ccid: ccids.map(|c| c.0),
            rx_ccid: ccids.map(|c| c.1),
        };
        self.print(&record, || {
            let kind = if multipath { "Multipath DCCP" } else { "plain DCCP" };
            let ccids = ccids.map(|(tx, rx)| format!(", sending with CCID {tx}, receiving with CCID {rx}"));
            format!("open: {kind}{}", ccids.unwrap_or_default())
        });
    }

    pub(crate) fn path(&self, session: SessionId, path: PathId, state: &str) {
        if !self.multipath.contains(&session) {
            return;
        }
        self.print(&Record::Path { session: session.0, path: path.0, state }, || {
            format!("path {} is {state}", path.0)
        });
    }

    /// Nothing is heard from the peer on a path. Without another one the session ends if that lasts for `survive`.
    pub(crate) fn silent(&mut self, session: SessionId, path: PathId, survive: Duration) {
        self.path(session, path, "suspect");
        if self.multipath.contains(&session) || !self.silent.insert(session) {
            return;
        }
        let name = self.name(session);
        self.print(&Record::Path { session: session.0, path: path.0, state: "suspect" }, || {
            format!(
                "{name}no answer from the peer; the connection ends if none comes within {} s",
                survive.as_secs_f64()
            )
        });
    }

    /// The path works, or works again.
    pub(crate) fn up(&mut self, session: SessionId, path: PathId) {
        self.path(session, path, "up");
        if self.silent.remove(&session) {
            let name = self.name(session);
            self.print(&Record::Path { session: session.0, path: path.0, state: "up" }, || {
                format!("{name}the peer answers again")
            });
        }
    }

    /// One session's interval; returns how much that was.
    pub(crate) fn interval(&self, session: SessionId, lap: &Lap, sum: &mut Sum) {
        let (from, to) = (lap.from.as_secs_f64(), lap.to.as_secs_f64());
        let sent = lap.sent.as_ref();
        let sent = sent.map(|(before, after)| Out::between(before, after, lap.size, lap.to - lap.from));
        let received = lap
            .received
            .as_ref()
            .map(|span| In::of(span, lap.echo, to - from, lap.lost, None, lap.jitter_ms));
        sum.add(sent.as_ref(), received.as_ref());
        let texts: Vec<String> = sent
            .iter()
            .map(|s| s.text(self.unit))
            .chain(received.iter().map(|r| r.text(self.unit)))
            .collect();
        let omitted = if lap.omitted { " (omitted)" } else { "" };
        let record = Record::Interval { session: session.0, from_s: from, to_s: to, sent, received };
        let name = self.name(session);
        self.print(&record, || format!("{name}{from:7.2} - {to:7.2} s: {}{omitted}", texts.join("; ")));
    }

    pub(crate) fn summary(
        &mut self,
        session: SessionId,
        transfer: &Transfer,
        now: Time,
        end: &str,
        sum: &mut Sum,
    ) {
        self.multipath.remove(&session);
        self.silent.remove(&session);
        let span = transfer.emptied.unwrap_or(now).since(transfer.opened).saturating_sub(transfer.omit());
        let sent = transfer.sender.as_ref();
        let sent = sent.map(|_| Out::between(&transfer.omitted, &transfer.sent, transfer.size(), span));
        let received =
            (transfer.sender.is_none() || transfer.meter.first.is_some()).then(|| In::total(&transfer.meter));
        let peer_received = transfer.peer_received.clone();
        sum.add(sent.as_ref(), received.as_ref());
        let mut texts: Vec<String> = sent
            .iter()
            .map(|s| s.text(self.unit))
            .chain(received.iter().map(|r| r.text(self.unit)))
            .collect();
        texts.extend(peer_received.as_ref().map(|r| format!("the peer {}", r.text(self.unit))));
        let name = self.name(session);
        let record = Record::Summary { session: session.0, end, sent, received, peer_received };
        self.print(&record, || format!("{name}total: {}; {end}", texts.join("; ")));
    }

    /// Several sessions together.
    pub(crate) fn sum(&self, sum: &Sum) {
        let record = Record::Sum { sent_mbps: sum.sent, received_mbps: sum.received };
        self.print(&record, || format!("[sum] {}", sum.text(self.unit)));
    }

    fn name(&self, session: SessionId) -> String {
        if self.several { format!("[{}] ", session.0) } else { String::new() }
    }
}

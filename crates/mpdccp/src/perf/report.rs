//! Output: lines for people, or JSON for programs.

use crate::perf::args::Json;
use crate::perf::counts::{In, Out};
use crate::perf::cpu::Share;
use crate::perf::daemon;
use crate::perf::iperf3::Document;
use crate::perf::lap::Lap;
use crate::perf::output::{Output, Unit};
use crate::perf::transfer::Transfer;
use dccp_secure::PublicKey;
use mpdccp_proto::{PathId, SessionId, SessionStatus};
use mpdccp_units::{Duration, Time};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Reporter {
    output: Output,
    format: Format,
    unit: Unit,
    /// Lines name their session, if there are several.
    several: bool,
    /// Sessions whose paths are reported.
    multipath: BTreeSet<SessionId>,
    /// Plain sessions whose peer is silent.
    silent: BTreeSet<SessionId>,
}

/// Output format.
enum Format {
    Text,
    Stream,
    Document(RefCell<Document>),
}

/// One line of JSON; docs/perf.md describes it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Record<'a> {
    Settings(&'a Settings),
    Listening {
        address: SocketAddr,
        dccp_port: u16,
        public_key: Option<String>,
    },
    Open {
        session: u64,
        multipath: bool,
        local_host: Option<IpAddr>,
        local_port: Option<u16>,
        remote_host: Option<IpAddr>,
        remote_port: Option<u16>,
        tx_ccid: Option<u8>,
        rx_ccid: Option<u8>,
        peer_key: Option<String>,
    },
    Path {
        session: u64,
        path: u32,
        state: &'a str,
    },
    Interval {
        session: u64,
        from_s: f64,
        to_s: f64,
        sent: Option<Out>,
        received: Option<In>,
    },
    Summary {
        session: u64,
        end: &'a str,
        sent: Option<Out>,
        received: Option<In>,
        peer_received: Option<Box<In>>,
        cpu: Share,
        peer_cpu: Option<Share>,
    },
    Sum {
        sent_mbps: Option<f64>,
        received_mbps: Option<f64>,
    },
    Error {
        error: &'a str,
    },
}

/// With `--verbose`.
#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) version: &'static str,
    pub(crate) ccid: u8,
    pub(crate) scheduler: &'static str,
    /// Message size, bytes, if this end knows it.
    pub(crate) size: Option<usize>,
    pub(crate) queue_packets: u32,
    pub(crate) mtu: u16,
    pub(crate) dscp: u8,
}

/// Reports the program's error in JSON.
pub(crate) fn failed(output: &Output, json: Json, error: &str) {
    output.json(match json {
        Json::Stream => serde_json::to_value(Record::Error { error }).unwrap_or_default(),
        Json::Document => Document::new(Value::Object(Map::new())).take(Some(error)),
    });
}

/// Total rates of several sessions, Mbit/s.
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
    /// `start` is the first part of a JSON document.
    pub(crate) fn new(
        output: Output,
        json: Option<Json>,
        start: Value,
        unit: Unit,
        several: bool,
    ) -> Reporter {
        let format = match json {
            None => Format::Text,
            Some(Json::Stream) => Format::Stream,
            Some(Json::Document) => Format::Document(RefCell::new(Document::new(start))),
        };
        Reporter { output, format, unit, several, multipath: BTreeSet::new(), silent: BTreeSet::new() }
    }

    fn print(&self, record: &Record<'_>, text: impl FnOnce() -> String) {
        let record = || serde_json::to_value(record).unwrap_or_default();
        match &self.format {
            Format::Text => self.output.text(&text()),
            Format::Stream => self.output.json(record()),
            Format::Document(document) => document.borrow_mut().add(&record()),
        }
    }

    /// Prints the document of the ended sessions, if requested.
    pub(crate) fn finish(&self, error: Option<&str>) {
        let Format::Document(document) = &self.format else { return };
        let mut document = document.borrow_mut();
        if error.is_some() || document.has_any() {
            self.output.json(document.take(error));
        }
    }

    /// Reports an error while the program continues.
    pub(crate) fn complain(&self, complaint: &str) {
        match self.output.is_file() {
            true => self.output.text(complaint),
            // The reader may be gone.
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

    /// `key` is the public key of an encrypted server.
    pub(crate) fn listening(&self, address: SocketAddr, dccp_port: u16, key: Option<PublicKey>) {
        let place = if address.port() == 0 { address.ip().to_string() } else { address.to_string() };
        let key = key.map(|key| key.to_string());
        let whose = key.iter().map(|key| format!(", for clients with --public-key {key}"));
        let text = format!("listening on {place}, DCCP port {dccp_port}{}", whose.collect::<String>());
        if self.output.is_file() || (daemon::is_one() && matches!(self.format, Format::Document(_))) {
            // A script may wait for this line.
            let _ = writeln!(std::io::stdout(), "{text}");
        }
        self.print(&Record::Listening { address, dccp_port, public_key: key }, || text);
    }

    /// `local` is the local address of its first packet; `key` is the peer's, if the session is encrypted.
    pub(crate) fn opened(
        &mut self,
        session: SessionId,
        status: Option<&SessionStatus>,
        (local, key): (Option<SocketAddr>, Option<PublicKey>),
        multipath: bool,
    ) {
        if multipath {
            self.multipath.insert(session);
        }
        let ccids = status.and_then(|s| s.paths.iter().find_map(|path| path.ccids));
        let remote = status.and_then(|s| s.paths.first()).map(|path| path.route.remote);
        let record = Record::Open {
            session: session.0,
            multipath,
            local_host: local.map(|local| local.ip()),
            local_port: local.map(|local| local.port()),
            remote_host: remote.map(|remote| remote.ip()),
            remote_port: remote.map(|remote| remote.port()),
            tx_ccid: ccids.map(|c| c.0),
            rx_ccid: ccids.map(|c| c.1),
            peer_key: key.map(|key| key.to_string()),
        };
        self.print(&record, || {
            let kind = if multipath { "Multipath DCCP" } else { "plain DCCP" };
            let ccids = ccids.map(|(tx, rx)| format!(", sending with CCID {tx}, receiving with CCID {rx}"));
            let key = key.map(|key| format!(", encrypted, the peer's key is {key}"));
            format!("open: {kind}{}{}", ccids.unwrap_or_default(), key.unwrap_or_default())
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

    /// The peer is silent on a path. Without another path the session ends after `survive`.
    pub(crate) fn silent(&mut self, session: SessionId, path: PathId, survive: Duration) {
        self.path(session, path, "suspect");
        if self.multipath.contains(&session) || !self.silent.insert(session) {
            return;
        }
        let name = self.name(session);
        self.print(&Record::Path { session: session.0, path: path.0, state: "suspect" }, || {
            format!(
                "{name}no answer from the peer; the connection ends after {} s of silence",
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

    /// Reports one session's interval, and adds it to `sum`.
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
        let peer_received = transfer.peer_received.clone().map(Box::new);
        sum.add(sent.as_ref(), received.as_ref());
        let mut texts: Vec<String> = sent
            .iter()
            .map(|s| s.text(self.unit))
            .chain(received.iter().map(|r| r.text(self.unit)))
            .collect();
        texts.extend(peer_received.as_ref().map(|r| format!("the peer {}", r.text(self.unit))));
        let name = self.name(session);
        let (cpu, peer_cpu) = (transfer.cpu.share(), transfer.peer_cpu);
        let record =
            Record::Summary { session: session.0, end, sent, received, peer_received, cpu, peer_cpu };
        self.print(&record, || format!("{name}total: {}; {end}", texts.join("; ")));
    }

    /// Reports the total of several sessions.
    pub(crate) fn sum(&self, sum: &Sum) {
        let record = Record::Sum { sent_mbps: sum.sent, received_mbps: sum.received };
        self.print(&record, || format!("[sum] {}", sum.text(self.unit)));
    }

    fn name(&self, session: SessionId) -> String {
        if self.several { format!("[{}] ", session.0) } else { String::new() }
    }
}

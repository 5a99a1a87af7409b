//! Prints the results as text for people, or as JSON for programs.

use crate::perf::args::Json;
use crate::perf::counts::{In, Lap, Out, Tally};
use crate::perf::cpu::Share;
use crate::perf::daemon;
use crate::perf::iperf3::Document;
use crate::perf::output::{Output, Unit};
use crate::perf::table::{HEADER, Line, Row, Sum, name, shown};
use crate::perf::transfer::{MOST_OUTPUT, Transfer};
use dccp_secure::PublicKey;
use mpdccp_proto::{PathId, SessionId, SessionStatus};
use mpdccp_units::{Duration, Time};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Reporter {
    output: Output,
    format: Format,
    unit: Unit,
    /// Whether there are several sessions, so that each line must name its session.
    several: bool,
    /// Whether the header of the table has been printed.
    headed: Cell<bool>,
    /// Server: the output for each client that is going to request it.
    copies: BTreeMap<SessionId, String>,
    /// Sessions whose paths are reported.
    multipath: BTreeSet<SessionId>,
    /// Sessions that have a single path and whose peer is silent now.
    silent: BTreeSet<SessionId>,
}

/// The output format.
enum Format {
    Text,
    Stream,
    Document(RefCell<Document>),
}

/// A record of the JSON output, as described in docs/perf.md.
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
    PathMtu {
        session: u64,
        path: u32,
        path_mtu: u16,
    },
    Interval {
        session: u64,
        from_s: f64,
        to_s: f64,
        omitted: bool,
        sent: Option<Out>,
        received: Option<In>,
    },
    Summary {
        session: u64,
        end: &'a str,
        sent: Option<Out>,
        received: Option<In>,
        peer_sent: Option<Tally>,
        peer_received: Option<Box<In>>,
        cpu: Share,
        peer_cpu: Option<Share>,
        #[serde(skip_serializing_if = "Option::is_none")]
        server_output: Option<&'a str>,
    },
    Sum {
        sent_mbps: Option<f64>,
        received_mbps: Option<f64>,
    },
    Error {
        error: &'a str,
    },
}

/// The settings that `--verbose` prints.
#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) version: &'static str,
    pub(crate) ccid: u8,
    pub(crate) scheduler: &'static str,
    /// Message size in bytes, if this end determines it.
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

/// Ends the copy of the output that a client will get. Nothing is appended to the copy after this.
const END: &str = "\n\n";

impl Reporter {
    /// Creates a reporter. `start` is the first part of a JSON document.
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
        Reporter {
            output,
            format,
            unit,
            several,
            headed: Cell::new(false),
            copies: BTreeMap::new(),
            multipath: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }

    fn print(&self, record: &Record<'_>, text: impl FnOnce() -> String) {
        let record = || serde_json::to_value(record).unwrap_or_default();
        match &self.format {
            Format::Text => self.output.text(&text()),
            Format::Stream => self.output.json(record()),
            Format::Document(document) => document.borrow_mut().add(&record()),
        }
    }

    /// If the format is a single JSON document, prints the document of the sessions that have ended.
    pub(crate) fn finish(&self, error: Option<&str>) {
        let Format::Document(document) = &self.format else { return };
        let mut document = document.borrow_mut();
        if error.is_some() || document.has_any() {
            self.output.json(document.take(error));
        }
    }

    /// Reports an error that does not end the program.
    pub(crate) fn complain(&self, complaint: &str) {
        match self.output.is_file() {
            true => self.output.text(complaint),
            // Ignore the error: nobody may be reading standard error.
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

    /// Reports the listening address and, if this server uses encryption, its public key `key`.
    pub(crate) fn listening(&self, address: SocketAddr, dccp_port: u16, key: Option<PublicKey>) {
        let place = shown(address);
        let key = key.map(|key| key.to_string());
        let whose = key.iter().map(|key| format!(", for clients with --public-key {key}"));
        let text = format!("listening on {place}, DCCP port {dccp_port}{}", whose.collect::<String>());
        if self.output.is_file() || (daemon::is_one() && matches!(self.format, Format::Document(_))) {
            // Print this to standard output despite a log file: a script may be waiting for this line.
            let _ = writeln!(std::io::stdout(), "{text}");
        }
        self.print(&Record::Listening { address, dccp_port, public_key: key }, || text);
    }

    /// Reports a new session. `local` is the local address of its first path, and `key` is the peer's key.
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
            let key = key.map(|key| format!("; encrypted, the peer's key is {key}"));
            let with = remote.map_or(String::new(), |at| format!(" with {}", shown(at)));
            let (name, more) = (name(session), [ccids, key].map(Option::unwrap_or_default).concat());
            format!("{name} open: {kind}{with}{more}")
        });
    }

    pub(crate) fn path(&self, session: SessionId, path: PathId, state: &str) {
        if !self.multipath.contains(&session) {
            return;
        }
        let name = self.name(session);
        self.print(&Record::Path { session: session.0, path: path.0, state }, || {
            format!("{name}path {} is {state}", path.0)
        });
    }

    /// Reports a path's new MTU.
    pub(crate) fn path_mtu(&self, session: SessionId, path: PathId, path_mtu: u16) {
        let name = self.name(session);
        self.print(&Record::PathMtu { session: session.0, path: path.0, path_mtu }, || {
            format!("{name}path {} carries packets of at most {path_mtu} bytes", path.0)
        });
    }

    /// Reports that the peer is silent on a path. A session without another path ends after `survive`.
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

    /// Reports that a path works.
    pub(crate) fn up(&mut self, session: SessionId, path: PathId) {
        self.path(session, path, "up");
        if self.silent.remove(&session) {
            let name = self.name(session);
            self.print(&Record::Path { session: session.0, path: path.0, state: "up" }, || {
                format!("{name}the peer answers again")
            });
        }
    }

    /// Reports an interval of one session and adds it to `sum`.
    pub(crate) fn interval(&mut self, session: SessionId, lap: Lap, sum: &mut Sum) {
        let span = (lap.from.as_secs_f64(), lap.to.as_secs_f64());
        let sent = lap.sent.as_ref().map(|(a, b)| Out::between(a, b, lap.size, lap.to - lap.from));
        let arrived = lap.received.as_ref().map(In::row).map(|row| {
            let total = (row.total - row.lost).saturating_add(lap.lost);
            ("received", Row { lost: lap.lost, total, ..row })
        });
        let lines: Vec<Line> = sent.iter().map(|s| ("sent", s.row())).chain(arrived).collect();
        sum.add(span, &lines);
        let omitted = if lap.omitted { " (omitted)" } else { "" };
        let text = self.rows(&name(session), span, &lines, omitted);
        self.copy(session, &text);
        let (session, (from_s, to_s), omitted) = (session.0, span, lap.omitted);
        let record = Record::Interval { session, from_s, to_s, omitted, sent, received: lap.received };
        self.table(&record, &text);
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
        self.copies.remove(&session);
        if let Format::Document(document) = &self.format {
            document.borrow_mut().set_test(transfer.negotiated());
        }
        let (lines, span) = results(transfer, now).lines();
        sum.add(span, &lines);
        let text = self.result_text(session, transfer, now, end);
        let Results { sent, received, peer_received, .. } = results(transfer, now);
        let server_output = transfer.wants_output().then_some(transfer.server_output.as_str());
        let record = Record::Summary {
            session: session.0,
            end,
            sent,
            received,
            peer_sent: transfer.peer_sent,
            peer_received: peer_received.map(Box::new),
            cpu: transfer.cpu.share(),
            peer_cpu: transfer.peer_cpu,
            server_output,
        };
        self.table(&record, &text);
        if let (Some(output), Format::Text) = (server_output, &self.format) {
            self.output.text("output of the server:");
            output.lines().for_each(|line| self.output.text(line));
        }
    }

    /// Formats the results of one session as lines.
    fn result_text(&self, session: SessionId, transfer: &Transfer, now: Time, end: &str) -> Vec<String> {
        let name = name(session);
        let results = results(transfer, now);
        let (lines, span) = results.lines();
        let mut text = self.rows(&name, span, &lines, "");
        let mut details: Vec<String> = results.sent.iter().flat_map(Out::details).collect();
        details.extend(results.peer_received.iter().flat_map(|arrived| arrived.details("arrived")));
        details.extend(results.received.iter().flat_map(|received| received.details("received")));
        let Share { total, user, system } = transfer.cpu.share();
        let peer = transfer.peer_cpu.map(|peer| format!(", at the peer {:.1} %", peer.total));
        let peer = peer.unwrap_or_default();
        details.push(format!("CPU {total:.1} % (user {user:.1}, system {system:.1}){peer}; {end}"));
        text.extend(details.iter().map(|detail| format!("{name} {detail}")));
        text
    }

    fn rows(&self, name: &str, span: (f64, f64), lines: &[Line], suffix: &str) -> Vec<String> {
        lines.iter().map(|(way, row)| row.text(name, span, way, self.unit) + suffix).collect()
    }

    /// Prints lines of the table, preceded by the header the first time.
    fn table(&self, record: &Record<'_>, lines: &[String]) {
        let head = (!self.headed.replace(true)).then_some(HEADER);
        self.print(record, || {
            head.into_iter().chain(lines.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
        });
    }

    /// Reports the sum of all sessions if any session was measured.
    pub(crate) fn sum(&self, sum: &Sum) {
        let Some(_) = sum.lines.first() else { return };
        let record = Record::Sum { sent_mbps: sum.mbps("sent"), received_mbps: sum.mbps("received") };
        self.table(&record, &self.rows("[SUM]", sum.span, &sum.lines, ""));
    }

    /// Stores this session's lines from now on, because its client is going to request them.
    pub(crate) fn keep_copy(&mut self, session: SessionId) {
        self.copies.entry(session).or_insert_with(|| format!("{HEADER}\n"));
    }

    fn copy(&mut self, session: SessionId, lines: &[String]) {
        let copy = self.copies.get_mut(&session).filter(|copy| !copy.ends_with(END));
        let Some(copy) = copy else { return };
        for line in lines {
            if copy.len() + line.len() < MOST_OUTPUT {
                copy.push_str(line);
                copy.push('\n');
            }
        }
    }

    /// Returns the session's lines and results for its client. Later calls return exactly the same text.
    pub(crate) fn output(&mut self, session: SessionId, transfer: &Transfer, now: Time) -> &str {
        if self.copies.get(&session).is_none_or(|copy| !copy.ends_with(END)) {
            let results = self.result_text(session, transfer, now, "the test is over");
            // The results matter more than the latest intervals, so make room for them.
            let most = MOST_OUTPUT.saturating_sub(results.iter().map(|line| line.len() + 1).sum());
            if let Some(copy) = self.copies.get_mut(&session).filter(|copy| copy.len() >= most) {
                copy.truncate(copy[..copy.floor_char_boundary(most)].rfind('\n').unwrap_or(0));
                copy.push('\n');
            }
            self.copy(session, &results);
            self.copies.entry(session).or_default().push_str(END);
        }
        self.copies.get(&session).map_or("", |copy| copy.trim_end())
    }

    fn name(&self, session: SessionId) -> String {
        if self.several { format!("{} ", name(session)) } else { String::new() }
    }
}

/// The results of both ends.
struct Results {
    sent: Option<Out>,
    received: Option<In>,
    peer_received: Option<In>,
    span: Duration,
}

fn results(transfer: &Transfer, now: Time) -> Results {
    let (span, sent) = (transfer.span(now), transfer.all_sent(now));
    let received = transfer.sender.is_none() || transfer.meter.first.is_some();
    let received = received.then(|| In::total(&transfer.meter));
    Results { sent, received, peer_received: transfer.peer_received.clone(), span }
}

impl Results {
    fn lines(&self) -> (Vec<Line>, (f64, f64)) {
        let sent = self.sent.iter().map(|sent| ("sent", sent.row()));
        let arrived = self.peer_received.iter().map(|arrived| ("arrived", arrived.row()));
        let received = self.received.iter().map(|received| ("received", received.row()));
        (sent.chain(arrived).chain(received).collect(), (0.0, self.span.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::message::ClockId;
    use crate::perf::transfer::Mode;

    fn reporter() -> Reporter {
        Reporter::new(Output::default(), None, Value::Null, Unit::Mbit, false)
    }

    #[test]
    fn a_line_about_a_path_names_its_session() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let output = Output::new(Some(log.path()), None, false).unwrap();
        let mut reporter = Reporter { output, several: true, ..reporter() };
        reporter.multipath.insert(SessionId(3));
        reporter.path(SessionId(3), PathId(1), "up");
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "[  3] path 1 is up\n");
    }

    #[test]
    fn the_output_for_a_client_is_bounded_and_ends_with_its_results() {
        let (session, now) = (SessionId(1), Time::from_millis(5));
        let transfer = Transfer::new(Mode::Obey, None, ClockId::here(), now);
        let mut reporter = reporter();
        reporter.copy(session, &["nobody asked".into()]);
        assert!(reporter.copies.is_empty());
        reporter.keep_copy(session);
        reporter.copy(session, &["first".into()]);
        reporter.keep_copy(session);
        let output = reporter.output(session, &transfer, now).to_owned();
        assert!(output.starts_with(&format!("{HEADER}\nfirst\n[  1]")), "{output}");
        assert!(output.ends_with("the test is over"), "{output}");
        // The client fetches the output in parts, so the text must not change between two calls.
        reporter.copy(session, &["later".into()]);
        assert_eq!(reporter.output(session, &transfer, Time::from_millis(9)), output);
        let long = SessionId(2);
        reporter.keep_copy(long);
        (0..2000).for_each(|_| reporter.copy(long, &["x".repeat(99)]));
        let output = reporter.output(long, &transfer, now);
        assert!(output.ends_with("is over") && (MOST_OUTPUT - 200..=MOST_OUTPUT).contains(&output.len()));
        reporter.summary(session, &transfer, now, "closed", &mut Sum::default());
        assert!(!reporter.copies.contains_key(&session));
    }
}

//! Creates the JSON document of `-J`, in the format of iperf3's UDP tests. It has the members `start`,
//! `intervals` and `end`, and `error` after a failure.

use crate::perf::control::Test;
use crate::perf::output::utc;
use crate::perf::table::percent;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// One run, collected from the records of `--json-stream`.
#[derive(Default)]
pub(crate) struct Document {
    start: Value,
    /// Server: the test that its clients requested.
    test: Option<Value>,
    opened: Vec<Value>,
    intervals: Vec<Value>,
    /// The streams that have reported in the current interval.
    streams: Vec<Value>,
    ends: Vec<Value>,
    /// Number of missing messages of each session at the end of the last interval. It is needed because the
    /// records count missing messages from the start of the session.
    missing: BTreeMap<u64, u64>,
}

/// Describes a test with iperf3's names. Parsers of iperf3 output know only TCP, UDP and SCTP, so the
/// description uses the fields for UDP.
pub(crate) fn test_start(test: Option<&Test>, streams: u32, tos: u8) -> Value {
    let mut start = json!({ "protocol": "UDP", "num_streams": streams, "tos": tos });
    if let Some(test) = test {
        start["blksize"] = test.size.into();
        // iperf3 counts in whole seconds.
        start["omit"] = test.omit_ms.div_ceil(1000).into();
        start["duration"] = test.time_ms.unwrap_or(0).div_ceil(1000).into();
        start["bytes"] = test.messages.map_or(0, |n| n.saturating_mul(test.size as u64)).into();
        start["blocks"] = test.messages.unwrap_or(0).into();
        start["reverse"] = u8::from(test.down && !test.up).into();
        start["bidir"] = u8::from(test.up && (test.down || test.echo)).into();
        start["target_bitrate"] = test.rate_bps.unwrap_or(0).into();
    }
    start
}

fn timestamp() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({ "time": utc(), "timesecs": now })
}

/// Returns the socket number of a stream. In iperf3, each direction has its own socket.
fn socket(session: &Value, sender: bool) -> u64 {
    session.as_u64().unwrap_or(0) * 2 + u64::from(!sender)
}

/// Returns one direction of a session over a time span, with iperf3's names. `record` has the counts of this
/// direction.
fn stream(session: &Value, from: &Value, to: &Value, record: &Value, sender: bool) -> Value {
    let number = |name: &str| record[name].as_f64().unwrap_or(0.0);
    let (arrived, lost) = (number("messages") as u64, number("lost") as u64);
    // iperf3 counts lost messages as packets. A sender's counts include them already; a receiver's do not, so
    // add them.
    let packets = if sender { arrived } else { arrived + lost };
    json!({
        "socket": socket(session, sender),
        "start": from,
        "end": to,
        "seconds": number("seconds"),
        "bytes": record["bytes"],
        "bits_per_second": number("mbps") * 1e6,
        "jitter_ms": number("jitter_ms"),
        "lost_packets": lost,
        "packets": packets,
        "lost_percent": percent(lost, packets),
        "out_of_order": number("reordered") as u64,
        "omitted": false,
        "sender": sender,
    })
}

/// Returns a sent stream as it appears in the results: with the sender's bytes, and with the receiver's
/// losses and jitter if known.
fn as_received(mut stream: Value, received: &Value) -> Value {
    if stream["sender"] == true && received.is_object() {
        let number = |name: &str| received[name].as_f64().unwrap_or(0.0);
        let lost = number("lost") as u64;
        stream["lost_packets"] = lost.into();
        stream["lost_percent"] = percent(lost, stream["packets"].as_u64().unwrap_or(0)).into();
        stream["jitter_ms"] = number("jitter_ms").into();
        stream["out_of_order"] = (number("reordered") as u64).into();
    }
    stream
}

/// Returns the total of the streams of one direction; `None` if there are no streams.
fn sum<'a>(streams: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let streams: Vec<&Value> = streams.collect();
    let first = streams.first()?;
    let all = |name: &'static str| streams.iter().filter_map(move |s| s[name].as_f64());
    let total = |name: &'static str| all(name).sum::<f64>();
    let (lost, packets) = (total("lost_packets") as u64, total("packets") as u64);
    Some(json!({
        "start": all("start").fold(f64::INFINITY, f64::min),
        "end": all("end").fold(0.0, f64::max),
        "seconds": all("seconds").fold(0.0, f64::max),
        "bytes": total("bytes") as u64,
        "bits_per_second": total("bits_per_second"),
        "jitter_ms": total("jitter_ms") / streams.len() as f64,
        "lost_packets": lost,
        "packets": packets,
        "lost_percent": percent(lost, packets),
        "omitted": first["omitted"],
        "sender": first["sender"],
    }))
}

/// Adds the sums of both directions under iperf3's names. The first sum is that of the direction in which the
/// client sends.
fn add_sums(to: &mut Value, streams: &[Value], client: bool) {
    let of = |sender: bool| sum(streams.iter().filter(|s| s["sender"] == sender));
    let sums = [client, !client].into_iter().filter_map(of);
    sums.zip(["sum", "sum_bidir_reverse"]).for_each(|(sum, name)| to[name] = sum);
}

impl Document {
    /// Creates a document. `start` has the values that are known before the first
    /// connection.
    pub(crate) fn new(start: Value) -> Document {
        Document { start, ..Document::default() }
    }

    /// Adds a record, in the format of `--json-stream`.
    pub(crate) fn add(&mut self, record: &Value) {
        match record["type"].as_str() {
            Some("open") => {
                if self.opened.is_empty() {
                    self.start["timestamp"] = timestamp();
                }
                self.opened.push(record.clone());
            }
            Some("interval") => {
                // Each session reports once per interval, so a socket that reports again has begun the next
                // interval.
                let sockets = [true, false].map(|sender| socket(&record["session"], sender));
                if self.streams.iter().any(|s| sockets.iter().any(|socket| s["socket"] == *socket)) {
                    self.end_interval();
                }
                let mut record = record.clone();
                if let Some(lost) = record["received"]["lost"].as_u64() {
                    let before = self.missing.insert(record["session"].as_u64().unwrap_or(0), lost);
                    record["received"]["lost"] = lost.saturating_sub(before.unwrap_or(0)).into();
                }
                self.streams.extend(directions(&record, &record["from_s"], &record["to_s"]));
            }
            Some("summary") => {
                self.end_interval();
                self.ends.push(record.clone());
            }
            _ => {}
        }
    }

    fn end_interval(&mut self) {
        if !self.streams.is_empty() {
            let mut interval = json!({ "streams": self.streams });
            add_sums(&mut interval, &self.streams, self.is_clients());
            self.intervals.push(interval);
            self.streams.clear();
        }
    }

    /// Sets the test that a server's client has requested.
    pub(crate) fn set_test(&mut self, test: Option<&Test>) {
        if !self.is_clients() {
            self.test = Some(test_start(test, self.opened.len() as u32, 0));
        }
    }

    fn is_clients(&self) -> bool {
        self.start["connecting_to"].is_object()
    }

    /// Returns whether any session has reported or ended.
    pub(crate) fn has_any(&self) -> bool {
        !self.ends.is_empty() || !self.intervals.is_empty()
    }

    /// Returns the document, and starts the next one.
    pub(crate) fn take(&mut self, error: Option<&str>) -> Value {
        self.end_interval();
        let ends = std::mem::take(&mut self.ends);
        let zero = json!(0);
        let streams: Vec<Value> = ends
            .iter()
            .flat_map(|end| {
                directions(end, &zero, &span(end)["seconds"])
                    .map(|stream| as_received(stream, &end["peer_received"]))
            })
            .collect();
        self.connect(&streams);
        let udp: Vec<Value> = streams.iter().map(|stream| json!({ "udp": stream })).collect();
        let mut end = json!({ "streams": udp });
        add_sums(&mut end, &streams, self.is_clients());
        // Returns the sum of one end's counts for one direction.
        let total = |counts: &str, sender: bool| {
            let counts = ends.iter().map(|end| (&end["session"], &end[counts]));
            let counts = counts.filter(|(_, record)| record.is_object());
            let all =
                counts.map(|(session, record)| stream(session, &zero, &record["seconds"], record, sender));
            sum(all.collect::<Vec<_>>().iter())
        };
        let out = [total("sent", true), total("peer_received", false)];
        let back = [total("peer_sent", true), total("received", false)];
        let flows = if self.is_clients() { [out, back] } else { [back, out] };
        let flows = flows.into_iter().filter(|flow| flow.iter().any(Option::is_some));
        for ([sent, received], suffix) in flows.zip(["", "_bidir_reverse"]) {
            for (name, sum) in [("sum_sent", sent), ("sum_received", received)] {
                if let Some(sum) = sum {
                    end[format!("{name}{suffix}")] = sum;
                }
            }
        }
        // Concurrent sessions share this process, so each one reports the CPU use of all of them. Use only
        // the first report.
        let cpu = |of: &str, name: &str| ends.iter().find_map(|end| end[of][name].as_f64()).unwrap_or(0.0);
        let mut share = json!({});
        for name in ["total", "user", "system"] {
            share[format!("host_{name}")] = cpu("cpu", name).into();
            share[format!("remote_{name}")] = cpu("peer_cpu", name).into();
        }
        end["cpu_utilization_percent"] = share;
        let mut document =
            json!({ "start": self.start, "intervals": std::mem::take(&mut self.intervals), "end": end });
        if let Some(output) = ends.iter().find_map(|end| end["server_output"].as_str()) {
            document["server_output_text"] = output.into();
        }
        if let Some(error) = error {
            document["error"] = error.into();
        }
        self.missing.clear();
        document
    }

    /// Adds the sockets of these streams, and of sessions without streams, to the document. Then forgets the
    /// sessions.
    fn connect(&mut self, streams: &[Value]) {
        let mut connected = Vec::new();
        for record in std::mem::take(&mut self.opened) {
            if !self.is_clients() && connected.is_empty() {
                self.start["accepted_connection"] =
                    json!({ "host": record["remote_host"], "port": record["remote_port"] });
            }
            let both = [true, false].map(|sender| socket(&record["session"], sender));
            let used = |socket: &u64| streams.iter().any(|stream| stream["socket"] == *socket);
            let sockets: Vec<u64> = both.into_iter().filter(used).collect();
            for socket in if sockets.is_empty() { &both[..1] } else { &sockets } {
                connected.push(json!({
                    "socket": socket,
                    "local_host": record["local_host"],
                    "local_port": record["local_port"],
                    "remote_host": record["remote_host"],
                    "remote_port": record["remote_port"],
                    "tx_ccid": record["tx_ccid"],
                    "rx_ccid": record["rx_ccid"],
                }));
            }
        }
        self.start["connected"] = connected.into();
        if let Some(test) = self.test.take() {
            self.start["target_bitrate"] = test["target_bitrate"].clone();
            self.start["test_start"] = test;
        }
    }
}

/// Returns the sent counts of a record, or the received counts if nothing was sent.
fn span(record: &Value) -> &Value {
    if record["sent"].is_object() { &record["sent"] } else { &record["received"] }
}

/// Returns the directions of a session that a record contains.
fn directions<'a>(record: &'a Value, from: &'a Value, to: &'a Value) -> impl Iterator<Item = Value> + 'a {
    let of = move |name: &'a str| {
        let span = &record[name];
        span.is_object().then(|| {
            let mut stream = stream(&record["session"], from, to, span, name == "sent");
            stream["omitted"] = record["omitted"].as_bool().unwrap_or(false).into();
            stream
        })
    };
    of("sent").into_iter().chain(of("received"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_intervals_are_their_own() {
        let mut document = Document::new(json!({}));
        for (from, lost) in [(0.0, 3), (1.0, 5), (2.0, 4)] {
            let received =
                json!({ "seconds": 1.0, "messages": 95, "bytes": 9500, "mbps": 1.0, "lost": lost });
            document.add(&json!({ "type": "interval", "session": 1, "from_s": from, "to_s": from + 1.0, "sent": null, "received": received }));
        }
        let all = document.take(None);
        let lost = |n: usize| all["intervals"][n]["sum"]["lost_packets"].as_u64();
        assert_eq!([lost(0), lost(1), lost(2)], [Some(3), Some(2), Some(0)]);
    }

    #[test]
    fn a_run_is_one_document_with_iperf3s_names() {
        let mut document = Document::new(json!({ "version": "x", "connecting_to": {} }));
        let out = |bytes: u64| json!({ "seconds": 1.0, "messages": bytes / 100, "bytes": bytes, "mbps": 8e-6 * bytes as f64, "lost": 0 });
        let interval = |session: u64, from: f64, sent: Value| json!({ "type": "interval", "session": session, "from_s": from, "to_s": from + 1.0, "omitted": from < 1.0, "sent": sent, "received": null });
        document.add(&json!({ "type": "open", "session": 1, "tx_ccid": 5, "rx_ccid": 5 }));
        for (session, from, bytes) in [(1, 0.0, 1000), (2, 0.0, 2000), (1, 1.0, 3000), (2, 1.0, 4000)] {
            document.add(&interval(session, from, out(bytes)));
        }
        let arrived = json!({ "seconds": 2.0, "messages": 36, "bytes": 3600, "mbps": 0.0144, "lost": 4, "jitter_ms": 0.5, "reordered": 1 });
        for session in [1, 2] {
            document.add(&json!({
                "type": "summary", "session": session, "sent": out(4000), "received": null,
                "peer_received": arrived, "cpu": { "total": 12.5 }, "peer_cpu": { "total": 7.0, "user": 3.0, "system": 4.0 },
            }));
        }
        assert!(document.has_any());
        let all = document.take(Some("it broke"));
        assert_eq!(all["intervals"].as_array().unwrap().len(), 2);
        assert_eq!(all["intervals"][0]["sum"]["bytes"], 3000);
        let omitted = [0, 1].map(|n: usize| &all["intervals"][n]["sum"]["omitted"]);
        assert_eq!(omitted, [&json!(true), &json!(false)]);
        assert_eq!(all["intervals"][1]["streams"][1]["bytes"], 4000);
        assert_eq!(all["intervals"][1]["sum"]["sender"], true);
        let end = &all["end"];
        assert_eq!((&end["sum_sent"]["bytes"], &end["sum_received"]["bytes"]), (&json!(8000), &json!(7200)));
        assert_eq!(
            (&end["sum_received"]["lost_packets"], &end["sum_received"]["packets"]),
            (&json!(8), &json!(80))
        );
        assert_eq!(end["sum_received"]["lost_percent"], 10.0);
        // The result combines the sender's bytes with the losses counted by the receiver.
        let udp = &end["streams"][0]["udp"];
        assert_eq!(
            [&udp["bytes"], &udp["lost_packets"], &udp["lost_percent"]],
            [&json!(4000), &json!(4), &json!(10.0)]
        );
        assert_eq!(
            (&udp["socket"], &udp["jitter_ms"], &udp["out_of_order"]),
            (&json!(2), &json!(0.5), &json!(1))
        );
        assert_eq!(
            (&end["cpu_utilization_percent"]["host_total"], &end["cpu_utilization_percent"]["remote_system"]),
            (&json!(12.5), &json!(4.0))
        );
        assert_eq!((&all["error"], &all["start"]["connected"][0]["socket"]), (&json!("it broke"), &json!(2)));
        assert!(!document.has_any());
    }
}

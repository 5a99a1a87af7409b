//! The JSON document of `-J`, as iperf3 prints it for UDP: `start`, `intervals`, `end`, and `error` after a failure.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One run, collected from the records of `--json-stream`.
pub(crate) struct Document {
    start: Value,
    intervals: Vec<Value>,
    /// Streams of the current interval.
    streams: Vec<Value>,
    ends: Vec<Value>,
    /// Missing messages of each session at the last interval: records count them since the beginning.
    missing: BTreeMap<u64, u64>,
}

/// One direction of a session over a time span, with iperf3's names. `record` has the sent or received counts.
fn stream(session: &Value, from: &Value, to: &Value, record: &Value, sender: bool) -> Value {
    let number = |name: &str| record[name].as_f64().unwrap_or(0.0);
    let (arrived, lost) = (number("messages"), number("lost"));
    // A receiver counts missing messages as packets; a sender has already counted lost ones.
    let packets = if sender { arrived } else { arrived + lost };
    json!({
        "socket": session,
        "start": from,
        "end": to,
        "seconds": number("seconds"),
        "bytes": record["bytes"],
        "bits_per_second": number("mbps") * 1e6,
        "jitter_ms": number("jitter_ms"),
        "lost_packets": lost as u64,
        "packets": packets as u64,
        "lost_percent": if packets > 0.0 { lost * 100.0 / packets } else { 0.0 },
        "out_of_order": number("reordered") as u64,
        "omitted": record["omitted"].as_bool().unwrap_or(false),
        "sender": sender,
    })
}

/// Total of the streams of one direction; `None` without streams.
fn sum<'a>(streams: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let streams: Vec<&Value> = streams.collect();
    let first = streams.first()?;
    let all = |name: &'static str| streams.iter().filter_map(move |s| s[name].as_f64());
    let total = |name: &'static str| all(name).sum::<f64>();
    let (lost, packets) = (total("lost_packets"), total("packets"));
    Some(json!({
        "start": all("start").fold(f64::INFINITY, f64::min),
        "end": all("end").fold(0.0, f64::max),
        "seconds": all("seconds").fold(0.0, f64::max),
        "bytes": total("bytes") as u64,
        "bits_per_second": total("bits_per_second"),
        "jitter_ms": total("jitter_ms") / streams.len() as f64,
        "lost_packets": lost as u64,
        "packets": packets as u64,
        "lost_percent": if packets > 0.0 { lost * 100.0 / packets } else { 0.0 },
        "omitted": first["omitted"],
        "sender": first["sender"],
    }))
}

/// Adds the sums of both directions under iperf3's names.
fn add_sums(to: &mut Value, streams: &[Value]) {
    let of = |sender: bool| sum(streams.iter().filter(|s| s["sender"] == sender));
    match (of(true), of(false)) {
        (Some(sent), Some(received)) => (to["sum"], to["sum_bidir_reverse"]) = (sent, received),
        (Some(one), None) | (None, Some(one)) => to["sum"] = one,
        (None, None) => {}
    }
}

impl Document {
    /// `start` has the information known before the first connection.
    pub(crate) fn new(start: Value) -> Document {
        Document {
            start,
            intervals: Vec::new(),
            streams: Vec::new(),
            ends: Vec::new(),
            missing: BTreeMap::new(),
        }
    }

    /// Adds a record of `--json-stream`.
    pub(crate) fn add(&mut self, record: &Value) {
        match record["type"].as_str() {
            Some("open") => {
                let connected = &mut self.start["connected"];
                let entry = json!({
                    "socket": record["session"],
                    "local_host": record["local_host"],
                    "local_port": record["local_port"],
                    "remote_host": record["remote_host"],
                    "remote_port": record["remote_port"],
                    "tx_ccid": record["tx_ccid"],
                    "rx_ccid": record["rx_ccid"],
                });
                match connected.as_array_mut() {
                    Some(all) => all.push(entry),
                    None => *connected = json!([entry]),
                }
            }
            Some("interval") => {
                // Each session reports once per interval.
                if self.streams.iter().any(|s| s["socket"] == record["session"]) {
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
            add_sums(&mut interval, &self.streams);
            self.intervals.push(interval);
            self.streams.clear();
        }
    }

    /// Whether any session has ended or reported.
    pub(crate) fn has_any(&self) -> bool {
        !self.ends.is_empty() || !self.intervals.is_empty()
    }

    /// Returns the document, and begins the next one.
    pub(crate) fn take(&mut self, error: Option<&str>) -> Value {
        self.end_interval();
        let ends = std::mem::take(&mut self.ends);
        let zero = json!(0);
        let streams: Vec<Value> =
            ends.iter().flat_map(|end| directions(end, &zero, &span(end)["seconds"])).collect();
        let udp: Vec<Value> = streams.iter().map(|stream| json!({ "udp": stream })).collect();
        let mut end = json!({ "streams": udp });
        add_sums(&mut end, &streams);
        // For packets sent by one end, the other end's count has arrived.
        let arrived = ends.iter().filter_map(|end| {
            let received =
                if end["peer_received"].is_object() { &end["peer_received"] } else { &end["received"] };
            received
                .is_object()
                .then(|| stream(&end["session"], &zero, &received["seconds"], received, false))
        });
        let arrived: Vec<Value> = arrived.collect();
        let sent = sum(streams.iter().filter(|s| s["sender"] == true));
        let received = sum(arrived.iter());
        if let Some(sum) = sent {
            end["sum_sent"] = sum;
        }
        if let Some(sum) = received {
            end["sum_received"] = sum;
        }
        // Concurrent sessions share the process, and begin and end together.
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
        self.start["connected"] = json!([]);
        self.missing.clear();
        document
    }
}

/// The sent counts of a record, or else the received ones.
fn span(record: &Value) -> &Value {
    if record["sent"].is_object() { &record["sent"] } else { &record["received"] }
}

/// The directions of a session in a record.
fn directions<'a>(record: &'a Value, from: &'a Value, to: &'a Value) -> impl Iterator<Item = Value> + 'a {
    let of = move |name: &'a str| {
        let span = &record[name];
        span.is_object().then(|| stream(&record["session"], from, to, span, name == "sent"))
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
        let mut document = Document::new(json!({ "version": "x" }));
        let out = |bytes: u64| json!({ "seconds": 1.0, "messages": bytes / 100, "bytes": bytes, "mbps": 8e-6 * bytes as f64, "lost": 0 });
        let interval = |session: u64, from: f64, sent: Value| json!({ "type": "interval", "session": session, "from_s": from, "to_s": from + 1.0, "sent": sent, "received": null });
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
        assert_eq!(all["intervals"][1]["streams"][1]["bytes"], 4000);
        assert_eq!(all["intervals"][1]["sum"]["sender"], true);
        let end = &all["end"];
        assert_eq!((&end["sum_sent"]["bytes"], &end["sum_received"]["bytes"]), (&json!(8000), &json!(7200)));
        assert_eq!(
            (&end["sum_received"]["lost_packets"], &end["sum_received"]["packets"]),
            (&json!(8), &json!(80))
        );
        assert_eq!(end["sum_received"]["lost_percent"], 10.0);
        assert_eq!(end["streams"][0]["udp"]["socket"], 1);
        assert_eq!(
            (&end["cpu_utilization_percent"]["host_total"], &end["cpu_utilization_percent"]["remote_system"]),
            (&json!(12.5), &json!(4.0))
        );
        assert_eq!((&all["error"], &all["start"]["connected"][0]["socket"]), (&json!("it broke"), &json!(1)));
        assert!(!document.has_any());
    }
}

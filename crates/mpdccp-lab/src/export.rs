//! Exports runs and links in the formats of other tools: pcap for Wireshark, qlog for qvis, link traces for
//! Mahimahi. Exports are made from the stored record, so they work for every run of every backend.

use core::time::Duration;

use serde_json::{Value, json};

use crate::record::{Fate, LinkPacket, PathRecord, RunRecord, seconds};
use crate::scenario::{LinkKeys, PathSpec};

/// Nanosecond pcap, version 2.4, snapshot length 65,535, LINKTYPE_RAW.
const PCAP: [u32; 6] = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 101];
/// Size in bytes of the IPv4 and UDP headers, the only part of each packet that is written.
const HEADERS: usize = 28;
/// The character that begins each record of a JSON text sequence (RFC 7464).
const RECORD: char = '\u{1e}';
/// Bytes per delivery opportunity in Mahimahi's link traces.
pub(crate) const OPPORTUNITY: f64 = 1_500.0;

/// Returns a path's packets as seen at the client's interface: for each, the time and whether the client sent
/// it.
fn at_client(path: &PathRecord) -> Vec<(mpdccp_units::Time, bool, &LinkPacket)> {
    let leaves = path.forward.packets.iter().map(|p| (p.entered, true, p));
    let comes = path.reverse.packets.iter().filter_map(|p| Some((p.arrived()?, false, p)));
    let mut all: Vec<_> = leaves.chain(comes).collect();
    all.sort_by_key(|(at, ..)| *at);
    all
}

/// Returns the packets of path `index` at the client's interface as pcap, from the tunnel's first packet on.
/// Times and lengths are those of the run. The IPv4 and UDP headers are made up (the client is 10.0.PATH.1),
/// and the contents are missing, because runs do not store them. The capture's clock starts an hour before t
/// = 0, so that no time is negative.
pub fn pcap(run: &RunRecord, index: usize) -> Vec<u8> {
    let mut out: Vec<u8> = PCAP.iter().flat_map(|word| word.to_le_bytes()).collect();
    let Some(path) = run.paths.get(index) else { return out };
    for (at, leaves, packet) in at_client(path) {
        let ns = ((seconds(run, at) + 3_600.0) * 1e9).max(0.0) as u64;
        let words = [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, HEADERS as u32, packet.bytes];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(headers(index as u8, leaves, packet));
    }
    out
}

fn headers(path: u8, leaves: bool, packet: &LinkPacket) -> [u8; HEADERS] {
    let mut h = [0; HEADERS];
    let length = (packet.bytes as u16).to_be_bytes();
    (h[0], h[8], h[9]) = (0x45, 64, 17);
    // The capture shows only the congestion marks that the link set, because records do not store the ECN
    // field that the sender set.
    h[1] = if packet.ce { 3 } else { 0 };
    h[2..4].copy_from_slice(&length);
    let (client, server) = ([10, 0, path, 1], [10, 0, path, 2]);
    let (from, to) = if leaves { (client, server) } else { (server, client) };
    h[12..16].copy_from_slice(&from);
    h[16..20].copy_from_slice(&to);
    let sum: u32 = h[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    h[10..12].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
    h[20..22].copy_from_slice(&6511u16.to_be_bytes());
    h[22..24].copy_from_slice(&6511u16.to_be_bytes());
    h[24..26].copy_from_slice(&packet.bytes.saturating_sub(20).to_be_bytes()[2..]);
    h
}

/// Returns the run as qlog 0.3 in the JSON-SEQ format. Each path is a group. Its events are the packets sent,
/// received and lost on the path's link, and the state of the sender's congestion control. Times are
/// milliseconds after t = 0.
pub fn qlog(run: &RunRecord) -> String {
    let head = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": format!("{} {} seed {}", run.label, run.cell, run.seed),
        "trace": {
            "vantage_point": { "name": "links", "type": "network" },
            "common_fields": { "time_format": "absolute", "protocol_type": ["DCCP"] },
        },
    });
    let mut events: Vec<(f64, Value)> = Vec::new();
    let mut tell = |at: f64, path: &str, name: &str, data: Value| {
        events.push((at, json!({ "time": at * 1e3, "group_id": path, "name": name, "data": data })));
    };
    for path in &run.paths {
        for (number, packet) in path.forward.packets.iter().enumerate() {
            let header = json!({ "packet_type": "data", "packet_number": number });
            let data = json!({ "header": header, "raw": { "length": packet.bytes } });
            let entered = seconds(run, packet.entered);
            tell(entered, &path.name, "transport:packet_sent", data.clone());
            match packet.fate {
                Fate::Delivered(at) => tell(seconds(run, at), &path.name, "transport:packet_received", data),
                fate => {
                    let trigger = if fate == Fate::QueueDrop { "queue" } else { "wire" };
                    tell(
                        entered,
                        &path.name,
                        "recovery:packet_lost",
                        json!({ "header": data["header"], "trigger": trigger }),
                    );
                }
            }
        }
    }
    for row in &run.trace {
        let Some(path) = run.paths.get(row.path) else { continue };
        let data = json!({
            "congestion_window": row.cwnd_bytes,
            "bytes_in_flight": row.inflight_bytes,
            "smoothed_rtt": row.srtt_ms,
            "min_rtt": row.min_rtt_ms,
            "pacing_rate": row.pacing_mbps.map(|mbps| mbps * 1e6),
        });
        tell(seconds(run, row.at), &path.name, "recovery:metrics_updated", data);
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lines = std::iter::once(head).chain(events.into_iter().map(|(_, event)| event));
    lines.map(|line| format!("{RECORD}{line}\n")).collect()
}

/// Returns both directions of a path's link as Mahimahi traces (forward, reverse), including all rate changes
/// until `duration`. Each line is the time, in milliseconds, of an opportunity to send 1,500 bytes. A trace
/// cannot express delay, loss or the queue; set these with `mm-delay`, `mm-loss` and
/// `mm-link --uplink-queue`.
pub fn mahimahi(path: &PathSpec, duration: Duration) -> [String; 2] {
    let end = duration.as_secs_f64();
    let course = path.course_with_models(end);
    [0, 1].map(|way| {
        let mut out = String::new();
        let mut credit = 0.0;
        // The current stage of the course, and when the link began its `rate_trace`.
        let (mut stage, mut begun) = (usize::MAX, 0);
        for ms in 0..(end * 1e3).round() as u64 {
            let at = ms as f64 / 1e3;
            let now = course.partition_point(|(from, _)| *from <= at).saturating_sub(1);
            let keys: Option<&LinkKeys> = course.get(now).map(|(_, ways)| &ways[way]);
            if now != stage {
                // A link begins a trace anew only if it had another one, or none.
                let before = course.get(stage).and_then(|(_, ways)| ways[way].trace.as_ref());
                if keys.and_then(|keys| keys.trace.as_ref()) != before {
                    begun = ms;
                }
                stage = now;
            }
            let keys = keys.filter(|keys| keys.is_up());
            credit += match keys.and_then(|keys| keys.trace.as_ref()) {
                Some(trace) => {
                    let [from, to] = [ms - begun, ms - begun + 1].map(Duration::from_millis);
                    trace.opportunities(from, to) as f64 * OPPORTUNITY
                }
                None => keys.map_or(0, |keys| keys.mean_rate().bps()) as f64 / 8e3,
            };
            while credit >= OPPORTUNITY {
                credit -= OPPORTUNITY;
                out += &format!("{}\n", ms + 1);
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use mpdccp_linkem::Trace;
    use mpdccp_units::Time;

    use super::*;
    use crate::{LinkRecord, Scenario, TraceRow};

    fn run() -> RunRecord {
        let start = Time::from_millis(1_000);
        let packet = |ms: u64, fate| LinkPacket {
            entered: start + Duration::from_millis(ms),
            fate,
            bytes: 1_310,
            data: None,
            queue_bytes: 0,
            ce: false,
        };
        let delivered = |ms| Fate::Delivered(start + Duration::from_millis(ms));
        let of = |packets| LinkRecord { packets, ..LinkRecord::default() };
        let path = PathRecord {
            name: "dsl".to_owned(),
            forward: of(vec![packet(0, delivered(10)), packet(1, Fate::QueueDrop), packet(2, Fate::Lost)]),
            reverse: of(vec![packet(10, delivered(20)), packet(11, Fate::Lost)]),
        };
        let row = TraceRow { at: start, cwnd_bytes: 15_000, ..TraceRow::default() };
        RunRecord { start, paths: vec![path], trace: vec![row], ..RunRecord::default() }
    }

    #[test]
    fn a_capture_has_what_the_client_saw() {
        let pcap = pcap(&run(), 0);
        assert_eq!(&pcap[..4], &[0x4d, 0x3c, 0xb2, 0xa1]);
        // The capture contains the client's three packets and the only return packet that arrives.
        let packets: Vec<&[u8]> = pcap[24..].chunks(16 + HEADERS).collect();
        assert_eq!(packets.len(), 4);
        let last = packets[3];
        let word = |at: usize| u32::from_le_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]]);
        assert_eq!([word(0), word(4), word(8), word(12)], [3_600, 20_000_000, 28, 1_310]);
        assert_eq!((&last[28..32], &last[32..36]), (&[10, 0, 0, 2][..], &[10, 0, 0, 1][..]));
        let sum: u32 = last[16..36].chunks(2).map(|p| u32::from(p[0]) << 8 | u32::from(p[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header's checksum");
    }

    #[test]
    fn qlog_tells_fates_and_windows_in_order() {
        let text = qlog(&run());
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line.strip_prefix(RECORD).unwrap()).unwrap())
            .collect();
        assert_eq!(records[0]["qlog_version"], "0.3");
        let count = |name: &str| records.iter().filter(|r| r["name"] == name).count();
        let names = [
            "transport:packet_sent",
            "transport:packet_received",
            "recovery:packet_lost",
            "recovery:metrics_updated",
        ];
        assert_eq!(names.map(count), [3, 1, 2, 1]);
        assert!(records[1..].is_sorted_by(|a, b| a["time"].as_f64() <= b["time"].as_f64()));
    }

    #[test]
    fn a_trace_for_mahimahi_has_the_links_rates_and_is_read_back() {
        let text = r#"name = "t"
title = "t"
duration_s = 10
path = [{ name = "a", rate = "12 Mbit/s", queue = "9 packets", reverse = { rate = "1 Mbit/s" }, events = [{ at_s = 5, rate = "24 Mbit/s" }, { at_s = 9, up = false }] }]
variant = [{ label = "v" }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }]
"#;
        let scenario = Scenario::parse("t.toml", text).unwrap();
        let [forward, reverse] = mahimahi(&scenario.path_in(0, scenario.headline()), scenario.duration());
        let between = |text: &str, from: u64, to: u64| {
            text.lines().filter(|line| (from..to).contains(&line.parse().unwrap())).count()
        };
        // 12 Mbit/s are 1,000 opportunities per second.
        assert_eq!((between(&forward, 1_001, 2_001), between(&forward, 6_001, 7_001)), (1_000, 2_000));
        assert_eq!(between(&forward, 9_001, 10_001), 0);
        assert!((82..=84).contains(&between(&reverse, 1_001, 2_001)));
        assert!(Trace::parse(&forward).is_ok());
    }

    #[test]
    fn a_trace_that_the_scenario_reads_is_exported_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lte.trace"), "2\n2\n5\n10\n").unwrap();
        let text = r#"name = "t"
title = "t"
duration_s = 0.05
path = [{ name = "a", rate_trace = "lte.trace", queue = "9 packets", events = [{ at_s = 0.02, owd = "5 ms" }, { at_s = 0.03, up = false }] }]
variant = [{ label = "v" }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }]
"#;
        let file = dir.path().join("t.toml");
        let scenario = Scenario::parse(file.to_str().unwrap(), text).unwrap();
        let [forward, _] = mahimahi(&scenario.path_in(0, scenario.headline()), scenario.duration());
        let times: Vec<u64> = forward.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(times, [2, 2, 5, 10, 12, 12, 15, 20, 22, 22, 25, 30]);
    }
}

use crate::private_file;
use dccp_proto::Ecn;
use dccp_proto::ccid::TxView;
use dccp_wire::{Opt, Packet, ack_vector};
use mpdccp_proto::{Endpoint, PathId, PathState, SessionEvent, SessionId, SessionState};
use mpdccp_units::{Duration, Time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Shortest interval between two measurements of a path.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum number of ranges that are written per Ack Vector.
const MAX_RANGES: usize = 64;
/// First byte of each record (RFC 7464).
const RECORD: u8 = 0x1e;

/// Writes the packets, the congestion control, the losses and the paths of an endpoint to a qlog file. The
/// file is a JSON text sequence (draft-ietf-quic-qlog-main-schema-02, version 0.3, which qvis reads). Each
/// connection is a group named after its DCCP ports. Concepts that DCCP shares with QUIC have the names of
/// the QUIC qlog drafts.
pub struct Qlog {
    file: BufWriter<File>,
    begun: Option<Time>,
    looked: Time,
    paths: BTreeMap<(SessionId, PathId), Seen>,
}

/// The values of a path that were last written.
#[derive(Default)]
struct Seen {
    metrics: Value,
    phase: &'static str,
    lost: u64,
    state: Option<PathState>,
    ccids: Option<(u8, u8)>,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn group(local: u16, remote: u16) -> String {
    format!("{local}-{remote}")
}

impl Qlog {
    /// Creates the file, or truncates an existing file.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(path: &Path, is_server: bool) -> io::Result<Qlog> {
        let file = private_file(OpenOptions::new().write(true).truncate(true), path)?;
        let mut qlog =
            Qlog { file: BufWriter::new(file), begun: None, looked: Time::ZERO, paths: BTreeMap::new() };
        let wall = crate::Clock.wall_nanos() as f64 / 1e6;
        let common = json!({ "time_format": "relative", "reference_time": wall, "protocol_type": ["DCCP"] });
        let vantage_point = json!({ "name": "mpdccp", "type": if is_server { "server" } else { "client" } });
        qlog.record(&json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "mpdccp",
            "trace": { "vantage_point": vantage_point, "common_fields": common },
        }));
        qlog.file.flush()?;
        Ok(qlog)
    }

    /// Writes a record. If this fails, for example because the disk is full, the traffic continues.
    fn record(&mut self, value: &Value) {
        let _ = writeln!(self.file, "{}{value}", char::from(RECORD));
    }

    fn event(&mut self, now: Time, group: &str, name: &str, data: &Value) {
        let begun = *self.begun.get_or_insert(now);
        self.record(
            &json!({ "time": millis(now.since(begun)), "group_id": group, "name": name, "data": data }),
        );
    }

    /// Records a packet that was sent or received, with its size on the wire.
    pub(crate) fn packet(&mut self, now: Time, sent: bool, bytes: &[u8], ecn: Ecn) {
        let Ok(packet) = Packet::parse(bytes) else {
            let data = json!({ "raw": { "length": bytes.len() }, "trigger": "header_parse_error" });
            return self.event(now, "", "transport:packet_dropped", &data);
        };
        let header = &packet.header;
        let mut fields = json!({
            "packet_type": format!("{:?}", header.ptype).to_lowercase(),
            "packet_number": header.seq.value(),
        });
        if let Some(reset) = header.reset {
            fields["reset_code"] = json!(format!("{:?}", reset.code));
        }
        let data = json!({
            "header": fields,
            "raw": { "length": bytes.len(), "payload_length": packet.payload.len() },
            "ecn": format!("{ecn:?}"),
            "frames": frames(&packet),
        });
        let (ports, name) = match sent {
            true => (group(header.src_port, header.dst_port), "transport:packet_sent"),
            false => (group(header.dst_port, header.src_port), "transport:packet_received"),
        };
        self.event(now, &ports, name, &data);
    }

    /// Records an event of a session.
    pub(crate) fn happened(&mut self, now: Time, endpoint: &Endpoint, id: SessionId, event: &SessionEvent) {
        self.looked = Time::ZERO;
        self.look(now, endpoint);
        let name = match event {
            SessionEvent::Closed(_) => "connectivity:connection_closed",
            _ => "connectivity:connection_state_updated",
        };
        let data = json!({ "session": id.0, "new": format!("{event:?}") });
        self.event(now, "", name, &data);
        if matches!(event, SessionEvent::Closed(_)) {
            self.paths.retain(|(session, _), _| *session != id);
        }
        let _ = self.file.flush();
    }

    /// Writes the values of paths that have changed since they were last written. Does nothing if the paths
    /// were examined less than [`LOOK`] ago.
    pub(crate) fn look(&mut self, now: Time, endpoint: &Endpoint) {
        if now.since(self.looked) < LOOK && self.looked != Time::ZERO {
            return;
        }
        self.looked = now;
        for id in endpoint.sessions() {
            let Some(status) = endpoint.status(now, id) else { continue };
            for path in status.paths {
                // An ended session keeps its paths, but its end has been recorded.
                if status.state == SessionState::Closed && !self.paths.contains_key(&(id, path.id)) {
                    continue;
                }
                let group = group(path.ports.local, path.ports.remote);
                let seen = self.paths.entry((id, path.id)).or_default();
                let mut events = Vec::new();
                if seen.state.replace(path.state) != Some(path.state) {
                    let remote = path.route.remote.to_string();
                    let data = json!({ "path": path.id.0, "remote": remote, "new": path.state.name() });
                    events.push(("connectivity:path_updated", data));
                }
                if seen.ccids != path.ccids
                    && let Some((ours, theirs)) = path.ccids
                {
                    seen.ccids = path.ccids;
                    let data = json!({ "owner": "local", "ccid_sent": ours, "ccid_received": theirs });
                    events.push(("transport:parameters_set", data));
                }
                if let Some(tx) = &path.tx {
                    seen.follow(tx, path.mtu, &mut events);
                }
                for (name, data) in events {
                    self.event(now, &group, name, &data);
                }
            }
        }
    }
}

impl Seen {
    fn follow(&mut self, tx: &TxView, mtu: u16, events: &mut Vec<(&'static str, Value)>) {
        if self.phase != tx.phase {
            events.push(("recovery:congestion_state_updated", json!({ "old": self.phase, "new": tx.phase })));
            self.phase = tx.phase;
        }
        // The count decreases when packets that were declared lost arrive after all.
        if tx.lost.packets > self.lost {
            events.push(("recovery:packet_lost", json!({ "packets": tx.lost.packets - self.lost })));
        }
        self.lost = tx.lost.packets;
        let metrics = json!({
            "smoothed_rtt": tx.rtt.srtt().map(millis),
            "latest_rtt": tx.rtt.latest().map(millis),
            "min_rtt": tx.rtt.min().map(|(least, _)| millis(least)),
            "rtt_variance": millis(tx.rtt.rttvar()),
            "congestion_window": tx.cwnd.bytes(mtu),
            "bytes_in_flight": tx.inflight.bytes,
            "packets_in_flight": tx.inflight.packets,
            "pacing_rate": tx.pacing.map(|rate| rate.bps()),
        });
        if self.metrics != metrics {
            events.push(("recovery:metrics_updated", metrics.clone()));
            self.metrics = metrics;
        }
    }
}

/// Describes the contents of a packet as qlog frames.
fn frames(packet: &Packet<'_>) -> Vec<Value> {
    let mut frames = Vec::new();
    let (mut vector, mut delay, mut options) = (Vec::new(), None, Vec::new());
    for option in packet.options().map_while(Result::ok) {
        match option {
            Opt::AckVector(_, cells) => vector.extend_from_slice(cells),
            Opt::ElapsedTime(ticks) => delay = Some(f64::from(ticks) / 100.0),
            other => {
                let text = format!("{other:?}");
                let name = text.split(['(', ' ']).next().unwrap_or_default();
                options.push(json!({ "frame_type": "option", "option": name }));
            }
        }
    }
    if let Some(ack) = packet.header.ack {
        let mut ranges = Vec::new();
        let mut newest = ack;
        for (state, packets) in ack_vector::runs(&vector).take(MAX_RANGES) {
            let oldest = newest.sub(u64::from(packets) - 1);
            if matches!(state, ack_vector::State::Received | ack_vector::State::ReceivedEcnMarked) {
                ranges.push(json!([oldest.value(), newest.value()]));
            }
            newest = oldest.sub(1);
        }
        if ranges.is_empty() {
            ranges.push(json!([ack.value(), ack.value()]));
        }
        frames.push(json!({ "frame_type": "ack", "ack_delay": delay, "acked_ranges": ranges }));
    }
    frames.extend(options);
    if !packet.payload.is_empty() {
        frames.push(json!({ "frame_type": "datagram", "length": packet.payload.len() }));
    }
    frames
}

//! The output of a backend: raw packets of one run, before any statistics.
//!
//! All times of a run are on one clock. Flows go from the client to the server.

use mpdccp_units::{Rate, Time};
use serde::{Deserialize, Serialize};

/// One run of one variant in one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Variant.
    pub label: String,
    /// Cell of the scenario.
    pub cell: String,
    /// Counted from 0.
    pub repeat: u32,
    /// Seed of this run.
    pub seed: u64,
    /// The scenario's t = 0.
    #[serde(with = "nanos")]
    pub start: Time,
    /// In the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// In the scenario's order.
    pub paths: Vec<PathRecord>,
    /// Congestion control of the data sender over time.
    pub trace: Vec<TraceRow>,
    /// CPU time of both ends of the tunnel, seconds; only on namespaces.
    pub cpu_s: Option<f64>,
}

impl RunRecord {
    /// The variant's label, with a note about models.
    pub fn shown(&self) -> String {
        with_model(&self.label, self.flows.iter().find_map(|f| f.model.as_deref()))
    }
}

/// A label as shown in tables and figures.
pub(crate) fn with_model(label: &str, model: Option<&str>) -> String {
    model.map_or_else(|| label.to_owned(), |model| format!("{label} ({model})"))
}

/// Seconds since the run's t = 0.
pub(crate) fn seconds(run: &RunRecord, at: Time) -> f64 {
    (at.as_nanos() as f64 - run.start.as_nanos() as f64) / 1e9
}

/// One application flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Name in the scenario.
    pub name: String,
    /// `udp`, `tcp`, `short` (short TCP connections, each one packet here), `command`, or `dccp` (a plain
    /// connection without a tunnel).
    pub kind: String,
    /// The simulator's replacement for the kernel's TCP: `model of TCP CUBIC`.
    pub model: Option<String>,
    /// Rate offered by the application, counted like `bytes` below; `None` for a bulk flow.
    #[serde(with = "bits")]
    pub offered: Option<Rate>,
    /// Packets sent by the application, in order; the index is the sequence number. Empty for TCP, unless a
    /// tap between TCP and the tunnel saw the packets.
    pub sent: Vec<SentPacket>,
    /// Packets received, in the order of delivery, including duplicates.
    pub received: Vec<ReceivedPacket>,
    /// Packets returned to the client, for a flow that the server mirrors.
    pub mirrored: Vec<ReceivedPacket>,
    /// Bytes that the receiving application had read from a TCP connection at the end of the flow; `None` for
    /// other flows.
    pub stream_bytes: Option<u64>,
    /// Packets that the sender's own queues dropped, if known.
    pub dropped_at_sender: Option<u64>,
    /// Delay of packets behind their schedule, in nanoseconds; empty in virtual time and without a schedule.
    pub lateness_ns: Vec<u32>,
    /// Counters of the kernel's or the model's TCP.
    pub tcp: Option<TcpCounters>,
    /// Connections that the tunnel carried as streams, if known; `None` for flows without TCP.
    pub streams: Option<u64>,
    /// Output of the commands of a flow, by the end that ran them.
    #[serde(default)]
    pub output: Vec<(String, String)>,
}

/// A packet handed to the network by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPacket {
    /// When.
    #[serde(with = "nanos")]
    pub at: Time,
    /// Inner IP bytes through a tunnel; payload bytes on a plain DCCP socket, where there is no inner IP.
    pub bytes: u32,
}

/// A packet handed to the receiving application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedPacket {
    /// Sequence number: index into `sent`.
    pub seq: u64,
    /// When.
    #[serde(with = "nanos")]
    pub at: Time,
    /// Counted like [`SentPacket::bytes`].
    pub bytes: u32,
}

/// A TCP sender's counters at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmissions that the receiver's DSACK showed to be spurious.
    pub dsack: u64,
}

/// One path of the scenario, both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathRecord {
    /// Name in the scenario.
    pub name: String,
    /// Client to server, where the data goes.
    pub forward: LinkRecord,
    /// Server to client, where acknowledgements go.
    pub reverse: LinkRecord,
}

/// One direction of a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkRecord {
    /// In the order of entry.
    pub packets: Vec<LinkPacket>,
    /// Lateness of each delivery relative to emulated time, nanoseconds; empty in virtual time.
    pub lateness_ns: Vec<u32>,
    /// How long the link's thread had waited for a CPU when it read a packet from its device, nanoseconds;
    /// empty in virtual time, and if the kernel does not report it.
    pub read_late_ns: Vec<u32>,
    /// Packets dropped by the devices at its ends: at one because the link did not read them in time, at the
    /// other because the device was full.
    pub device_drops: u64,
}

/// A packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPacket {
    /// When it left the sender's interface.
    #[serde(with = "nanos")]
    pub entered: Time,
    /// Its fate.
    pub fate: Fate,
    /// Outer IP bytes.
    pub bytes: u32,
    /// The application packet inside: index of the flow and sequence number.
    pub data: Option<(u16, u64)>,
    /// Bytes in the queue just after its arrival, including itself if accepted.
    pub queue_bytes: u32,
    /// It arrived with a congestion mark set by this link.
    pub ce: bool,
}

/// Fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Reached the receiver's interface at this time.
    Delivered(#[serde(with = "nanos")] Time),
    /// Dropped by the link's queue.
    QueueDrop,
    /// Lost on the wire, or still in flight at the end.
    Lost,
}

/// A line of the data sender's trace, as written by `mpdccp tunnel up --trace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// When.
    #[serde(with = "nanos")]
    pub at: Time,
    /// Index of the path in the scenario.
    pub path: usize,
    /// The congestion controller's phase.
    pub phase: String,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Sent and unacknowledged bytes.
    pub inflight_bytes: u64,
    /// Pacing rate, if any.
    pub pacing_mbps: Option<f64>,
    /// Latest delivery rate sample.
    pub delivery_mbps: Option<f64>,
    /// Bottleneck bandwidth estimate, if any.
    pub btlbw_mbps: Option<f64>,
    /// Smoothed round-trip time.
    pub srtt_ms: Option<f64>,
    /// Minimum round-trip time of the controller.
    pub min_rtt_ms: Option<f64>,
    /// Packets declared lost so far.
    pub lost: u64,
    /// Packets in the session's send queue.
    pub queue_packets: u64,
    /// Age of the oldest packet in it.
    pub queue_ms: f64,
    /// Application-limited.
    pub app_limited: bool,
}

/// Times as nanoseconds.
mod nanos {
    use mpdccp_units::Time;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
        time.as_nanos().serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
        u64::deserialize(d).map(Time::from_nanos)
    }
}

/// Rates as bits per second.
mod bits {
    use mpdccp_units::Rate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, s: S) -> Result<S::Ok, S::Error> {
        rate.map(Rate::bps).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
        Option::<u64>::deserialize(d).map(|bps| bps.map(Rate::from_bps))
    }
}

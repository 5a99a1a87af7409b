//! A backend's result: the raw packets of one run, before any statistics.
//!
//! All times of a run come from one clock. Flows go from client to server.

use mpdccp_units::{Rate, Time};
use serde::{Deserialize, Serialize};

/// One run of one variant in one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Label of the variant.
    pub label: String,
    /// Name of the cell.
    pub cell: String,
    /// Index of the repeat, from 0.
    pub repeat: u32,
    /// Seed of this run.
    pub seed: u64,
    /// Time of t = 0 in the scenario.
    #[serde(with = "nanos")]
    pub start: Time,
    /// Entries in the order of the scenario.
    pub flows: Vec<FlowRecord>,
    /// Entries in the order of the scenario.
    pub paths: Vec<PathRecord>,
    /// Congestion control state of the data sender over time.
    pub trace: Vec<TraceRow>,
    /// CPU time used by both ends of the tunnel, in seconds; measured only in namespaces.
    pub cpu_s: Option<f64>,
}

impl RunRecord {
    /// Returns the variant's label, followed by the name of the TCP model if the run uses one.
    pub fn shown(&self) -> String {
        with_model(&self.label, self.flows.iter().find_map(|f| f.model.as_deref()))
    }
}

/// Returns the label to show in tables and figures, followed by the name of the TCP model if there is one.
pub(crate) fn with_model(label: &str, model: Option<&str>) -> String {
    model.map_or_else(|| label.to_owned(), |model| format!("{label} ({model})"))
}

/// Returns the seconds since the run's t = 0.
pub(crate) fn seconds(run: &RunRecord, at: Time) -> f64 {
    (at.as_nanos() as f64 - run.start.as_nanos() as f64) / 1e9
}

/// One application flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Name in the scenario.
    pub name: String,
    /// `udp`, `tcp`, `command`, `dccp` (a plain connection without a tunnel), or `short` (short TCP
    /// connections, each of which counts as one packet).
    pub kind: String,
    /// The simulator's model that replaces the kernel's TCP, such as `model of TCP CUBIC`.
    pub model: Option<String>,
    /// Rate offered by the application, counted like `bytes` below, or `None` for a bulk flow.
    #[serde(with = "bits")]
    pub offered: Option<Rate>,
    /// Packets sent by the application, in order; the index is the sequence number. Empty for TCP, unless a
    /// tap between TCP and the tunnel saw the packets.
    pub sent: Vec<SentPacket>,
    /// Packets received, including duplicates, in order of delivery.
    pub received: Vec<ReceivedPacket>,
    /// Packets returned to the client, for a flow whose packets the server sends back.
    pub mirrored: Vec<ReceivedPacket>,
    /// Bytes that the receiving application had read by the end of the flow, for bulk TCP connections and
    /// for external programs that print this number. `None` for other flows.
    pub stream_bytes: Option<u64>,
    /// Packets that the sender's own queues dropped, if known.
    pub dropped_at_sender: Option<u64>,
    /// How many nanoseconds after its scheduled time each packet was sent. Empty in virtual time and for
    /// flows without a schedule.
    pub lateness_ns: Vec<u32>,
    /// Counters of the kernel's or the model's TCP.
    pub tcp: Option<TcpCounters>,
    /// Number of connections that the tunnel carried as streams, if known. `None` for flows without TCP.
    pub streams: Option<u64>,
    /// For a command flow: the name of each end, and what the command printed there.
    #[serde(default)]
    pub output: Vec<(String, String)>,
}

/// A packet handed to the network by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPacket {
    /// Time of sending.
    #[serde(with = "nanos")]
    pub at: Time,
    /// Size of the packet: inner IP bytes for a tunnel; payload bytes for a plain DCCP connection, which has
    /// no inner IP packets.
    pub bytes: u32,
}

/// A packet handed to the receiving application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedPacket {
    /// Sequence number, which is the index into `sent`.
    pub seq: u64,
    /// Time of delivery.
    #[serde(with = "nanos")]
    pub at: Time,
    /// Size, counted like [`SentPacket::bytes`].
    pub bytes: u32,
}

/// A TCP sender's counters at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmissions that the receiver reported by DSACK, and that were therefore spurious.
    pub dsack: u64,
}

/// One path of the scenario, with both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathRecord {
    /// Name in the scenario.
    pub name: String,
    /// Direction from client to server, which carries the data.
    pub forward: LinkRecord,
    /// Direction from server to client, which carries the acknowledgements.
    pub reverse: LinkRecord,
}

/// One direction of a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Packets in the order in which they entered the link.
    pub packets: Vec<LinkPacket>,
    /// How many nanoseconds after its emulated arrival time each packet was delivered. Empty in virtual time.
    pub lateness_ns: Vec<u32>,
    /// How long, in nanoseconds, the link's thread had waited for a CPU before it read each packet from the
    /// device. Empty in virtual time, and if the kernel does not report this wait.
    pub read_late_ns: Vec<u32>,
    /// Packets dropped by the devices at the two ends. The device at the sending end drops packets that the
    /// link does not read in time. The device at the receiving end drops packets that arrive while it is
    /// full.
    pub device_drops: u64,
}

/// A packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPacket {
    /// Time at which the packet left the sender's interface.
    #[serde(with = "nanos")]
    pub entered: Time,
    /// Whether and when the packet arrived.
    pub fate: Fate,
    /// Size of the outer IP packet in bytes.
    pub bytes: u32,
    /// The application packet inside, as flow index and sequence number.
    pub data: Option<(u16, u64)>,
    /// Bytes in the queue just after the packet reached it, including the packet itself if it was accepted.
    pub queue_bytes: u32,
    /// Whether the packet arrived with a congestion mark that this link set.
    pub ce: bool,
}

impl LinkPacket {
    /// Returns when the packet arrived, or `None` if it did not arrive.
    pub(crate) fn arrived(&self) -> Option<Time> {
        match self.fate {
            Fate::Delivered(at) => Some(at),
            Fate::QueueDrop | Fate::Lost => None,
        }
    }

    /// Returns the packet's delay on the link in ms, or `None` if it did not arrive.
    pub(crate) fn delay_ms(&self) -> Option<f64> {
        Some(self.arrived()?.since(self.entered).as_secs_f64() * 1e3)
    }
}

/// The fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// The packet reached the receiver's interface at this time.
    Delivered(#[serde(with = "nanos")] Time),
    /// The link's queue dropped the packet.
    QueueDrop,
    /// The packet was lost on the wire, or was in the link when the link went down or the run ended.
    Lost,
}

/// A row of the data sender's trace, with the columns of `mpdccp tunnel up --trace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// Time of the row.
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
    /// Minimum round-trip time that the congestion controller uses.
    pub min_rtt_ms: Option<f64>,
    /// Packets declared lost so far.
    pub lost: u64,
    /// Packets in the session's send queue.
    pub queue_packets: u64,
    /// Age of the oldest packet in that queue, in ms.
    pub queue_ms: f64,
    /// Whether the path is application-limited.
    pub app_limited: bool,
}

/// Stores times as nanoseconds.
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

/// Stores rates as bits per second.
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

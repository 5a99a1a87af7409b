use core::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::quantity;

/// Settings of the tunnel; what is absent takes the program's default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelSettings {
    /// Scheduler by name.
    pub scheduler: Option<Spanned<String>>,
    /// How the receiver puts packets in order.
    pub reordering: Option<Reordering>,
    /// Longest wait for a missing packet.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub reorder_timeout: Option<Duration>,
    /// Longest stay in the session's send queue.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub queue: Option<Duration>,
    /// Most packets in the session's send queue.
    pub queue_packets: Option<u32>,
    /// Ack Ratio asked for at the beginning (RFC 4340 section 11.3; direct mode only).
    pub ack_ratio: Option<u16>,
}

impl TunnelSettings {
    /// Mine where given, `other`'s elsewhere.
    pub fn or(&self, other: &TunnelSettings) -> TunnelSettings {
        TunnelSettings {
            scheduler: self.scheduler.clone().or_else(|| other.scheduler.clone()),
            reordering: self.reordering.or(other.reordering),
            reorder_timeout: self.reorder_timeout.or(other.reorder_timeout),
            queue: self.queue.or(other.queue),
            queue_packets: self.queue_packets.or(other.queue_packets),
            ack_ratio: self.ack_ratio.or(other.ack_ratio),
        }
    }
}

/// How a receiver puts packets in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reordering {
    /// Deliver as they come.
    Passive,
    /// Hold packets behind a hole for a fixed time.
    ActiveFixed,
    /// Hold packets behind a hole until it is proven lost, or for as long as the paths' delays differ.
    Adaptive,
}

impl Reordering {
    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            Reordering::Passive => "passive",
            Reordering::ActiveFixed => "active-fixed",
            Reordering::Adaptive => "adaptive",
        }
    }
}

/// Which rules a CCID follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Ours.
    #[default]
    Tuned,
    /// To the letter of the document that defines it.
    Draft,
}

impl Variant {
    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Tuned => "tuned",
            Variant::Draft => "draft",
        }
    }
}

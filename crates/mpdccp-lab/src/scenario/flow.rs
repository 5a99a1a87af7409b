//! Flows: the traffic of the applications.

use core::time::Duration;

use mpdccp_units::Rate;
use serde::Deserialize;
use toml::Spanned;

use super::quantity::{self, Sizes};
use super::source::SourceSpec;

/// A flow from the client to the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Unique in the scenario.
    pub name: Spanned<String>,
    /// This many equal flows, called `NAME-1` and so on.
    #[serde(default)]
    pub count: Option<Spanned<u32>>,
    /// Kind.
    pub kind: FlowKind,
    /// Command: runs in the server's namespace from before t = 0 to the end.
    #[serde(default)]
    pub server: Option<String>,
    /// Command: runs in the client's namespace from `start_s` to `stop_s`, or until it exits.
    #[serde(default)]
    pub client: Option<String>,
    /// UDP: payload bytes per packet.
    #[serde(default)]
    pub payload: Option<Spanned<u32>>,
    /// UDP: offered rate, payload bytes.
    #[serde(default, deserialize_with = "quantity::opt_rate")]
    pub rate: Option<Rate>,
    /// UDP: source of the datagrams; constant rate if absent.
    #[serde(default)]
    pub source: Option<Spanned<SourceSpec>>,
    /// TCP and short: the kernel's congestion control.
    #[serde(default)]
    pub cc: Option<String>,
    /// Short: bytes of each connection, chosen uniformly from these.
    #[serde(default)]
    pub sizes: Option<Sizes>,
    /// Short: mean interval between starts of connections.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub every: Option<Duration>,
    /// TCP: its packets may be marked instead of dropped (RFC 3168).
    #[serde(default)]
    pub ecn: bool,
    /// TCP: loss detection.
    #[serde(default)]
    pub loss_detection: LossDetection,
    /// Uses this path directly, outside the tunnel.
    #[serde(default)]
    pub via: Option<Spanned<String>>,
    /// Extra one-way distance of its other end beyond the link; not for flows through the tunnel.
    #[serde(default, deserialize_with = "quantity::time")]
    pub owd: Duration,
    /// UDP in direct mode: from the server to the client, on the connection of the previous flow.
    #[serde(default)]
    pub reverse: bool,
    /// UDP in direct mode: the server returns every packet; the received packets are those that the client got back.
    #[serde(default)]
    pub echo: bool,
    /// The server returns each datagram over this path, which the tunnel does not use.
    #[serde(default)]
    pub mirror: Option<Spanned<String>>,
    /// A packet that takes longer is useless; see the metric `on_time_pct`.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub deadline: Option<Duration>,
    /// In direct mode: shares its congestion state with other flows that set this.
    #[serde(default)]
    pub share_congestion: bool,
    /// Start time.
    #[serde(default)]
    pub start_s: f64,
    /// End time; the end of the scenario if absent.
    #[serde(default)]
    pub stop_s: Option<Spanned<f64>>,
}

impl FlowSpec {
    /// Its source of datagrams, if given.
    pub fn source(&self) -> Option<&SourceSpec> {
        self.source.as_ref().map(Spanned::as_ref)
    }

    /// Whether `name` refers to it: its own name, or that of the entry for several equal flows.
    pub fn is(&self, name: &str) -> bool {
        let number = self.name.as_ref().strip_prefix(name);
        number.is_some_and(|rest| rest.is_empty() || (self.count.is_some() && rest.starts_with('-')))
    }
}

/// Changes of a flow in a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowChange {
    /// Offered rate.
    #[serde(deserialize_with = "quantity::rate")]
    pub rate: Rate,
}

/// TCP's loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossDetection {
    /// RFC 8985, like the kernel.
    #[default]
    Rack,
    /// Three later packets, regardless of reordering, like QUIC (RFC 9002).
    Three,
}

/// Kinds of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// Datagrams.
    Udp,
    /// Bulk TCP.
    Tcp,
    /// Short TCP connections.
    Short,
    /// Traffic of two commands.
    Command,
}

impl FlowKind {
    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Udp => "udp",
            FlowKind::Tcp => "tcp",
            FlowKind::Short => "short",
            FlowKind::Command => "command",
        }
    }
}

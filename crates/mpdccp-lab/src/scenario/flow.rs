//! Flows: what the applications send.

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
    /// So many alike, called `NAME-1` and so on.
    #[serde(default)]
    pub count: Option<Spanned<u32>>,
    /// What it is.
    pub kind: FlowKind,
    /// Command: what runs in the server's namespace from before t = 0 to the end.
    #[serde(default)]
    pub server: Option<String>,
    /// Command: what runs in the client's from `start_s` to `stop_s`, or until it ends by itself.
    #[serde(default)]
    pub client: Option<String>,
    /// UDP: payload bytes per packet.
    #[serde(default)]
    pub payload: Option<Spanned<u32>>,
    /// UDP: offered rate, payload bytes.
    #[serde(default, deserialize_with = "quantity::opt_rate")]
    pub rate: Option<Rate>,
    /// UDP: how the datagrams come; at a constant rate if absent.
    #[serde(default)]
    pub source: Option<Spanned<SourceSpec>>,
    /// TCP and short: the kernel's congestion control.
    #[serde(default)]
    pub cc: Option<String>,
    /// Short: bytes of each connection, any of these as likely.
    #[serde(default)]
    pub sizes: Option<Sizes>,
    /// Short: mean time from the beginning of one connection to that of the next.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub every: Option<Duration>,
    /// TCP: its packets may be marked instead of dropped (RFC 3168).
    #[serde(default)]
    pub ecn: bool,
    /// TCP: when a segment is lost.
    #[serde(default)]
    pub loss_detection: LossDetection,
    /// Goes beside the tunnel, directly over this path.
    #[serde(default)]
    pub via: Option<Spanned<String>>,
    /// Its other end is so much farther away than the link is long, each way; not for flows through the tunnel.
    #[serde(default, deserialize_with = "quantity::time")]
    pub owd: Duration,
    /// UDP in direct mode: from the server to the client, on the connection of the flow before.
    #[serde(default)]
    pub reverse: bool,
    /// UDP in direct mode: the server sends every packet back, and what is received is what came back.
    #[serde(default)]
    pub echo: bool,
    /// The server sends each datagram straight back, over this path, which the tunnel does not use.
    #[serde(default)]
    pub mirror: Option<Spanned<String>>,
    /// A packet that takes longer is of no use; see the metric `on_time_pct`.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub deadline: Option<Duration>,
    /// In direct mode: its connection shares its congestion state with those of the other flows that do.
    #[serde(default)]
    pub share_congestion: bool,
    /// From here ...
    #[serde(default)]
    pub start_s: f64,
    /// ... to here; the end of the scenario if absent.
    #[serde(default)]
    pub stop_s: Option<Spanned<f64>>,
}

impl FlowSpec {
    /// How its datagrams come, if it says.
    pub fn source(&self) -> Option<&SourceSpec> {
        self.source.as_ref().map(Spanned::as_ref)
    }

    /// Whether `name` means it: its own, or that of the entry which stands for several alike.
    pub fn is(&self, name: &str) -> bool {
        let number = self.name.as_ref().strip_prefix(name);
        number.is_some_and(|rest| rest.is_empty() || (self.count.is_some() && rest.starts_with('-')))
    }
}

/// What a flow has in a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowChange {
    /// Offered rate.
    #[serde(deserialize_with = "quantity::rate")]
    pub rate: Rate,
}

/// How TCP finds losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossDetection {
    /// RFC 8985, as the kernel.
    #[default]
    Rack,
    /// By three later packets whatever the reordering, as QUIC (RFC 9002).
    Three,
}

/// Kinds of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// Datagrams.
    Udp,
    /// As much as TCP gives.
    Tcp,
    /// TCP connections that come, carry some bytes and go.
    Short,
    /// Whatever two commands send.
    Command,
}

impl FlowKind {
    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Udp => "udp",
            FlowKind::Tcp => "tcp",
            FlowKind::Short => "short",
            FlowKind::Command => "command",
        }
    }
}

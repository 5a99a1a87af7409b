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
    /// Name, unique in the scenario.
    pub name: Spanned<String>,
    /// Number of equal flows, named `NAME-1` and so on. If absent, there is a single flow with the plain
    /// name.
    #[serde(default)]
    pub count: Option<Spanned<u32>>,
    /// Kind of traffic.
    pub kind: FlowKind,
    /// Command flows: shell command that runs in the server's namespace from before t = 0 to the end.
    #[serde(default)]
    pub server: Option<String>,
    /// Command flows: shell command that runs in the client's namespace from `start_s` to `stop_s`, or until
    /// it exits.
    #[serde(default)]
    pub client: Option<String>,
    /// UDP: payload bytes per packet.
    #[serde(default)]
    pub payload: Option<Spanned<u32>>,
    /// UDP: offered rate, counting payload bytes.
    #[serde(default, deserialize_with = "quantity::opt_rate")]
    pub rate: Option<Rate>,
    /// UDP: source of the datagrams; if absent, a constant rate.
    #[serde(default)]
    pub source: Option<Spanned<SourceSpec>>,
    /// TCP and short: the kernel's congestion control.
    #[serde(default)]
    pub cc: Option<String>,
    /// Short: possible sizes of a connection in bytes, all equally likely.
    #[serde(default)]
    pub sizes: Option<Sizes>,
    /// Short: mean interval between starts of connections.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub every: Option<Duration>,
    /// TCP: whether queues may mark the flow's packets instead of dropping them (RFC 3168).
    #[serde(default)]
    pub ecn: bool,
    /// TCP: loss detection.
    #[serde(default)]
    pub loss_detection: LossDetection,
    /// Path that the flow uses directly, bypassing the tunnel.
    #[serde(default)]
    pub via: Option<Spanned<String>>,
    /// One-way delay of the flow in addition to the link's; not for flows through the tunnel.
    #[serde(default, deserialize_with = "quantity::time")]
    pub owd: Duration,
    /// UDP and TCP in direct mode: whether the flow goes from the server to the client. A UDP flow uses the
    /// connection of the previous flow.
    #[serde(default)]
    pub reverse: bool,
    /// UDP in direct mode: whether the server sends back every packet. The packets that come back to the
    /// client then count as the flow's received packets.
    #[serde(default)]
    pub echo: bool,
    /// Path over which the server sends back each datagram; the tunnel must not use this path.
    #[serde(default)]
    pub mirror: Option<Spanned<String>>,
    /// Latency above which a packet is useless; see the metric `on_time_pct`.
    #[serde(default, deserialize_with = "quantity::opt_time")]
    pub deadline: Option<Duration>,
    /// In direct mode: whether the flow shares its congestion state with all other flows that set this key.
    #[serde(default)]
    pub share_congestion: bool,
    /// Start time in seconds after t = 0.
    #[serde(default)]
    pub start_s: f64,
    /// End time in seconds after t = 0; if absent, the end of the scenario.
    #[serde(default)]
    pub stop_s: Option<Spanned<f64>>,
}

impl FlowSpec {
    /// Returns the flow's source of datagrams, if it has one.
    pub fn source(&self) -> Option<&SourceSpec> {
        self.source.as_ref().map(Spanned::as_ref)
    }

    /// Returns whether `name` is the name of this flow, or of the `[[flow]]` entry with `count` from which it
    /// was made.
    pub fn is(&self, name: &str) -> bool {
        // The number must be all that follows, because another entry's name can begin with `name-`.
        let numbered = |rest: &str| {
            let number = rest.strip_prefix('-').filter(|_| self.count.is_some());
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        self.name.as_ref().strip_prefix(name).is_some_and(|rest| rest.is_empty() || numbered(rest))
    }
}

/// Changes that a cell makes to a flow.
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
    /// By time (RACK, RFC 8985), as the kernel does.
    #[default]
    Rack,
    /// A packet counts as lost when three later packets have arrived, regardless of reordering, as in QUIC
    /// (RFC 9002).
    Three,
}

mpdccp_units::named! {
    /// Kinds of flows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FlowKind {
        /// Datagrams.
        Udp = "udp",
        /// Bulk TCP.
        Tcp = "tcp",
        /// Short TCP connections.
        Short = "short",
        /// Traffic of two shell commands.
        Command = "command",
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    #[test]
    fn an_entry_with_a_count_is_not_another_entry_with_a_longer_name() {
        let text = r#"name = "t"
title = "t"
duration_s = 1
measured = "tcp"
path = [{ name = "a", rate = "1 Mbit/s", queue = "9 packets" }]
variant = [{ label = "v" }]
flow = [{ name = "tcp", count = 2, kind = "tcp", cc = "cubic" }, { name = "tcp-late", count = 2, kind = "tcp", cc = "cubic" }]
"#;
        let scenario = Scenario::parse("t.toml", text).unwrap();
        let measured =
            ["tcp-1", "tcp-2", "tcp-late-1", "tcp-late-2"].map(|name| scenario.is_measured("v", name));
        assert_eq!(measured, [true, true, false, false]);
    }
}

//! Describes the transports that the tunnel is compared with.

use serde::Deserialize;

/// A transport that carries the flows instead of the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Baseline {
    /// No tunnel: the flows use the first of the variant's paths directly.
    Plain {},
    /// The kernel's Multipath TCP, for tcp flows.
    Mptcp {},
    /// WireGuard in user space over the first of the variant's paths.
    Wireguard {
        /// The program; `wireguard-go` if absent.
        program: Option<String>,
    },
    /// Any VPN, started by a shell command at each end. Together, the two commands must connect the inner
    /// addresses.
    Command {
        /// Command to run in the server's namespace.
        server: String,
        /// Command to run in the client's namespace.
        client: String,
    },
}

impl Baseline {
    /// Returns the name that scenarios use for this kind.
    pub fn name(&self) -> &'static str {
        match self {
            Baseline::Plain {} => "plain",
            Baseline::Mptcp {} => "mptcp",
            Baseline::Wireguard { .. } => "wireguard",
            Baseline::Command { .. } => "command",
        }
    }
}

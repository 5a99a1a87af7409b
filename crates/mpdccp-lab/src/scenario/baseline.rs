//! Variants that are not ours.

use serde::Deserialize;

/// What carries the flows instead of the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Baseline {
    /// Nothing: the flows go over the first of the variant's paths as they are.
    Plain {},
    /// The kernel's Multipath TCP, for tcp flows.
    Mptcp {},
    /// WireGuard in user space over the first of the variant's paths.
    Wireguard {
        /// The program; `wireguard-go` if absent.
        program: Option<String>,
    },
    /// Any VPN: a shell command at each end, which together make the inner addresses reach each other.
    Command {
        /// Run in the server's namespace.
        server: String,
        /// Run in the client's.
        client: String,
    },
}

impl Baseline {
    /// As in files.
    pub fn name(&self) -> &'static str {
        match self {
            Baseline::Plain {} => "plain",
            Baseline::Mptcp {} => "mptcp",
            Baseline::Wireguard { .. } => "wireguard",
            Baseline::Command { .. } => "command",
        }
    }
}

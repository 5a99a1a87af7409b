//! Variants of other projects.

use serde::Deserialize;

/// Transport of the flows instead of the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Baseline {
    /// None: the flows use the first of the variant's paths directly.
    Plain {},
    /// The kernel's Multipath TCP, for tcp flows.
    Mptcp {},
    /// WireGuard in user space over the first of the variant's paths.
    Wireguard {
        /// The program; `wireguard-go` if absent.
        program: Option<String>,
    },
    /// Any VPN: a shell command at each end; together they must connect the inner addresses.
    Command {
        /// Runs in the server's namespace.
        server: String,
        /// Runs in the client's namespace.
        client: String,
    },
}

impl Baseline {
    /// Name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Baseline::Plain {} => "plain",
            Baseline::Mptcp {} => "mptcp",
            Baseline::Wireguard { .. } => "wireguard",
            Baseline::Command { .. } => "command",
        }
    }
}

//! Variants: the configurations that are compared.

use mpdccp_proto::Variant as CcVariant;
use serde::Deserialize;
use toml::Spanned;

use super::baseline::Baseline;
use super::tunnel::TunnelSettings;

/// A configuration to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// `ccid2`, `ccid5`, `ccid5-draft`, `tcp-cubic`, `tcp-bbr` in the published scenarios.
    pub label: Spanned<String>,
    /// DCCP congestion control identifier.
    #[serde(default)]
    pub ccid: Option<Spanned<u8>>,
    /// CCID of the server's packets, if different (direct mode only).
    #[serde(default)]
    pub reverse_ccid: Option<Spanned<u8>>,
    /// Instead of DCCP: kernel TCP with this congestion control (direct mode only).
    #[serde(default)]
    pub tcp: Option<Spanned<String>>,
    /// Instead of DCCP: plain UDP (direct mode only).
    #[serde(default)]
    pub udp: bool,
    /// Instead of the mpdccp tunnel: another one, or none (mode "tunnel" only).
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// Rules of the CCID.
    #[serde(default)]
    pub cc_variant: CcVariant,
    /// Settings that differ from the scenario's.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// Its paths, by name; if absent, all paths of the tunnel.
    #[serde(default)]
    pub paths: Option<Vec<Spanned<String>>>,
    /// Its flows, by name; all if absent.
    #[serde(default)]
    pub flows: Option<Vec<Spanned<String>>>,
}

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
    /// Label. The published scenarios use `ccid2`, `ccid5`, `ccid5-draft`, `tcp-cubic` and `tcp-bbr`.
    pub label: Spanned<String>,
    /// DCCP congestion control identifier.
    #[serde(default)]
    pub ccid: Option<Spanned<u8>>,
    /// CCID for the server's packets, if different (direct mode only).
    #[serde(default)]
    pub reverse_ccid: Option<Spanned<u8>>,
    /// Congestion control of the kernel's TCP, which is then used instead of DCCP (direct mode only).
    #[serde(default)]
    pub tcp: Option<Spanned<String>>,
    /// Whether to use plain UDP instead of DCCP (direct mode only).
    #[serde(default)]
    pub udp: bool,
    /// Another tunnel, or none, to use instead of the mpdccp tunnel (mode "tunnel" only).
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// Variant of the CCID's rules. If absent, the scenario's setting applies.
    #[serde(default)]
    pub cc_variant: Option<CcVariant>,
    /// Settings that differ from the scenario's.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// Names of the paths that the variant uses; if absent, all of the tunnel's paths.
    #[serde(default)]
    pub paths: Option<Vec<Spanned<String>>>,
    /// Names of the flows that the variant carries; if absent, all flows.
    #[serde(default)]
    pub flows: Option<Vec<Spanned<String>>>,
}

impl Variant {
    /// Returns whether the variant has its own value of a key of `[tunnel]`.
    pub(super) fn sets(&self, key: &str) -> bool {
        let own = match key {
            "ccid" => self.ccid.is_some(),
            "cc_variant" => self.cc_variant.is_some(),
            _ => false,
        };
        own || self.tunnel.has(key)
    }
}

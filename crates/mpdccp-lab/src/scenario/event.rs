//! What is done to the tunnel while a scenario runs.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::quantity;
use super::tunnel::TunnelSettings;
use crate::sim::Side;

/// Something that is done to the tunnel: one thing each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelEvent {
    /// When.
    pub at_s: Spanned<f64>,
    /// Both ends follow other files from then on.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// The client has another address on the path of this name.
    #[serde(default)]
    pub roam: Option<Spanned<String>>,
    /// This end closes its sessions, ends, and starts again.
    #[serde(default)]
    pub restart: Option<Side>,
    /// This end is gone at once, and starts again.
    #[serde(default)]
    pub kill: Option<Side>,
    /// How long it is away.
    #[serde(default, deserialize_with = "quantity::time")]
    pub away: Duration,
    /// The server takes no new clients, and asks those that are there to go to another one.
    #[serde(default)]
    pub drain: bool,
}

/// What of both files is changed; the rest stays as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Settings.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// The paths of the client's file, by name.
    #[serde(default)]
    pub paths: Option<Vec<Spanned<String>>>,
    /// Priorities of paths, by name.
    #[serde(default)]
    pub priority: BTreeMap<Spanned<String>, u8>,
}

impl TunnelEvent {
    /// How many things it does.
    pub(super) fn things(&self) -> usize {
        let given = [
            self.reload.is_some(),
            self.roam.is_some(),
            self.restart.is_some(),
            self.kill.is_some(),
            self.drain,
        ];
        given.into_iter().filter(|given| *given).count()
    }

    /// In a word or two.
    pub(super) fn phrase(&self) -> &'static str {
        match self {
            TunnelEvent { reload: Some(_), .. } => "the reload",
            TunnelEvent { roam: Some(_), .. } => "the change of address",
            TunnelEvent { restart: Some(_), .. } => "the restart",
            TunnelEvent { kill: Some(_), .. } => "the crash",
            _ => "the drain",
        }
    }

    /// For a figure.
    pub fn label(&self) -> String {
        match self {
            TunnelEvent { reload: Some(_), .. } => "reload".to_owned(),
            TunnelEvent { roam: Some(path), .. } => format!("{}: other address", path.as_ref()),
            TunnelEvent { restart: Some(side), .. } => format!("{} restarts", side.name()),
            TunnelEvent { kill: Some(side), .. } => format!("{} is killed", side.name()),
            _ => "drain".to_owned(),
        }
    }
}

//! Events of the tunnel during a scenario.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::quantity;
use super::tunnel::TunnelSettings;
use crate::sim::Side;

/// An event of the tunnel: a single action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelEvent {
    /// When.
    pub at_s: Spanned<f64>,
    /// Both ends reload changed files.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// The client's address on this path changes.
    #[serde(default)]
    pub roam: Option<Spanned<String>>,
    /// This end closes its sessions, exits, and starts again.
    #[serde(default)]
    pub restart: Option<Side>,
    /// This end is killed, and starts again.
    #[serde(default)]
    pub kill: Option<Side>,
    /// Time until it starts again.
    #[serde(default, deserialize_with = "quantity::time")]
    pub away: Duration,
    /// The server accepts no new clients, and asks the present ones to use another.
    #[serde(default)]
    pub drain: bool,
}

/// Changes of both files; the rest stays the same.
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
    /// Number of actions.
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

    /// The action in a word or two.
    pub(super) fn phrase(&self) -> &'static str {
        match self {
            TunnelEvent { reload: Some(_), .. } => "the reload",
            TunnelEvent { roam: Some(_), .. } => "the change of address",
            TunnelEvent { restart: Some(_), .. } => "the restart",
            TunnelEvent { kill: Some(_), .. } => "the crash",
            _ => "the drain",
        }
    }

    /// Label for a figure.
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

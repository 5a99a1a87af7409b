//! Events of the tunnel during a scenario.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::quantity;
use super::tunnel::TunnelSettings;
use crate::sim::Side;

/// An event of the tunnel, which is a single action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelEvent {
    /// Time of the event in seconds after t = 0.
    pub at_s: Spanned<f64>,
    /// Changes to the files of both ends, which then reload them.
    #[serde(default)]
    pub reload: Option<Reload>,
    /// Path on which to change the client's address.
    #[serde(default)]
    pub roam: Option<Spanned<String>>,
    /// End of the tunnel that closes its sessions, exits and restarts.
    #[serde(default)]
    pub restart: Option<Side>,
    /// End of the tunnel that is killed and restarted.
    #[serde(default)]
    pub kill: Option<Side>,
    /// For `restart` and `kill`: time from the end of the program until it starts again.
    #[serde(default, deserialize_with = "quantity::time")]
    pub away: Duration,
    /// Whether the server drains, that is, accepts no new clients and asks its clients to use another server.
    #[serde(default)]
    pub drain: bool,
}

/// Changes to the files of both ends.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Changed settings.
    #[serde(default)]
    pub tunnel: TunnelSettings,
    /// The paths of the client's file, by name.
    #[serde(default)]
    pub paths: Option<Vec<Spanned<String>>>,
    /// New path priorities, by path name.
    #[serde(default)]
    pub priority: BTreeMap<Spanned<String>, u8>,
}

impl TunnelEvent {
    /// Returns the number of actions in this event, which must be one.
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

    /// Returns a short phrase for the action, for use in sentences.
    pub(super) fn phrase(&self) -> &'static str {
        match self {
            TunnelEvent { reload: Some(_), .. } => "the reload",
            TunnelEvent { roam: Some(_), .. } => "the change of address",
            TunnelEvent { restart: Some(_), .. } => "the restart",
            TunnelEvent { kill: Some(_), .. } => "the crash",
            _ => "the drain",
        }
    }

    /// Returns the event's label for a figure.
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

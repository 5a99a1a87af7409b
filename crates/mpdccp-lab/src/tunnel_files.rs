//! Writes a scenario's configuration files for the two ends of the tunnel. They are the same on all backends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use dccp_secure::PrivateKey;
use toml::Table;

use crate::scenario::{PathSpec, Reload, SECURITY, TunnelSettings};
use crate::sim::Side;
use crate::{LabError, Plan};

/// Inner addresses of client and server.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Returns a host's outer address on a path. The host number is 1 for the client and 2 for the server.
pub(crate) fn path_address(index: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, u8::try_from(index).unwrap_or(u8::MAX), host)
}

/// Returns the client's outer address on a path after this number of address changes.
pub(crate) fn client_address(index: usize, changes: usize) -> Ipv4Addr {
    path_address(index, if changes == 0 { 1 } else { u8::try_from(100 + changes).unwrap_or(u8::MAX) })
}

/// Returns the name of a path's interface, which is the same on both hosts. Paths that share a link use the
/// interface of the first of them.
pub(crate) fn path_device(index: usize) -> String {
    format!("path{index}")
}

/// The content of the two files.
pub(crate) struct TunnelFiles<'a> {
    plan: Plan<'a>,
    /// The client's and the server's private keys, if the tunnel is encrypted.
    keys: Option<[PrivateKey; 2]>,
    /// Directory of the programs' control sockets and state.
    dir: PathBuf,
    /// Settings changed by reloads so far.
    pub(crate) changed: TunnelSettings,
    paths: Option<Vec<String>>,
    priority: BTreeMap<String, u8>,
}

impl<'a> TunnelFiles<'a> {
    /// Returns the files for a run. `random` supplies the private keys of client and server.
    ///
    /// # Errors
    /// Fails if no randomness is available.
    pub(crate) fn new(
        plan: &Plan<'a>,
        dir: PathBuf,
        mut random: impl FnMut() -> Result<[u8; 32], LabError>,
    ) -> Result<TunnelFiles<'a>, LabError> {
        let mut key = || random().map(PrivateKey::from_random);
        let keys = plan.scenario.is_sealed(plan.variant).then(|| Ok([key()?, key()?])).transpose()?;
        Ok(TunnelFiles {
            plan: *plan,
            keys,
            dir,
            changed: TunnelSettings::default(),
            paths: None,
            priority: BTreeMap::new(),
        })
    }

    /// Returns the paths that the tunnel uses, each with its index among all paths.
    pub(crate) fn used(&self) -> impl Iterator<Item = (usize, PathSpec)> + use<> {
        self.plan.paths().into_iter().enumerate().filter(|(_, path)| !path.outside)
    }

    /// Applies a reload's changes to the files.
    pub(crate) fn follow(&mut self, reload: &Reload) {
        self.changed = reload.tunnel.or(&self.changed);
        if let Some(paths) = &reload.paths {
            self.paths = Some(paths.iter().map(|name| name.as_ref().clone()).collect());
        }
        self.priority.extend(reload.priority.iter().map(|(name, prio)| (name.as_ref().clone(), *prio)));
    }

    /// Returns how many times the client's address has changed on a path.
    fn roams(&self, path: &PathSpec) -> usize {
        let names = self.plan.scenario.events.iter().filter_map(|event| event.roam.as_ref());
        names.filter(|name| name.as_ref() == path.name.as_ref()).count()
    }

    /// Returns the text of the file for one end.
    pub(crate) fn text(&self, side: Side) -> String {
        let settings = self.plan.scenario.tunnel_after(self.plan.variant, &self.changed).unwrap_or_default();
        // Disable encryption unless the scenario sets `security`, because the reference figures were measured
        // without encryption.
        let security = if settings.contains_key(SECURITY) { "" } else { "security = \"none\"\n" };
        let [own, other] = if side == Side::Client { [CLIENT, SERVER] } else { [SERVER, CLIENT] };
        let [role, peer] = [side, side.other()].map(Side::name);
        // Enable offload only for tunnels with streams, which need it. Without offload, taps on the interface
        // see every packet separately.
        let offload = self.plan.scenario.has_streams(self.plan.variant);
        let mut out = format!(
            "role = \"{role}\"\n{security}offload = {offload}\naddresses = [\"{own}/24\"]\ncontrol = {:?}\nstate = {:?}\n{}",
            self.dir.join(format!("{role}.sock")),
            self.dir,
            inline(&settings)
        );
        if side == Side::Server {
            let _ = writeln!(out, "listen = [\"0.0.0.0:{}\"]", dccp_wire::DCCP_UDP_PORT);
        }
        let keys = self.keys.as_ref().map(|keys| [&keys[side.index()], &keys[side.other().index()]]);
        if let Some([own, _]) = keys {
            let _ = writeln!(out, "private_key = \"{}\"", *own.to_base64());
        }
        let _ = write!(out, "\n[[peer]]\nname = \"{peer}\"\nallowed_ips = [\"{other}/32\"]\n");
        if let Some([_, other]) = keys {
            let _ = writeln!(out, "public_key = \"{}\"", other.public());
        } else if side == Side::Server {
            let all =
                self.used().flat_map(|(i, path)| (0..=self.roams(&path)).map(move |n| client_address(i, n)));
            let from: Vec<String> = all.map(|ip| format!("\"{ip}\"")).collect();
            let _ = writeln!(out, "from = [{}]", from.join(", "));
        }
        let listed = |path: &PathSpec| self.paths.as_ref().is_none_or(|all| all.contains(path.name.as_ref()));
        for (i, path) in self.used().filter(|(_, path)| side == Side::Client && listed(path)) {
            let remote = SocketAddr::from((path_address(i, 2), dccp_wire::DCCP_UDP_PORT));
            let name = path.name.as_ref();
            // If the client's address changes, bind the path to the interface, so that the path uses the
            // interface's current address.
            let local = match self.roams(&path) {
                0 => format!("local = \"{}\"", path_address(i, 1)),
                _ => format!("interface = \"{}\"", path_device(i)),
            };
            let _ = write!(out, "\n[[peer.path]]\nname = \"{name}\"\n{local}\nremote = \"{remote}\"\n");
            if let Some(priority) = self.priority.get(name).copied().or(path.priority) {
                let _ = writeln!(out, "priority = {priority}");
            }
        }
        out
    }
}

/// Writes each key on a line of its own. Nested tables are written inline, so that other top-level keys may
/// follow.
fn inline(table: &Table) -> String {
    table.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use mpdccp_tunnel::config::Config;
    use std::path::Path;

    #[test]
    fn files_are_the_tunnels_and_say_what_the_scenario_says() {
        let scenario = Scenario::find("paper/multipath-udp").unwrap();
        let plan = |label: &str| {
            let variant = scenario.variant(label).unwrap();
            Plan { scenario: &scenario, variant, cell: scenario.headline(), repeat: 0, seed: 1 }
        };
        let read = |label: &str| {
            let mut key = 0;
            let random = || {
                key += 1;
                Ok([key; 32])
            };
            let files = TunnelFiles::new(&plan(label), "/tmp/x".into(), random).unwrap();
            [Side::Client, Side::Server].map(|side| {
                let text = files.text(side);
                Config::parse(Path::new("x"), &text, 1).unwrap();
                text.parse::<Table>().unwrap()
            })
        };
        let [client, server] = read("ccid5-draft");
        assert_eq!(client["ccid"].as_integer(), Some(5));
        assert_eq!(client["cc_variant"].as_str(), Some("draft"));
        assert_eq!(client["reordering"]["timeout_ms"].as_integer(), Some(100));
        assert_eq!(client["queue"]["max_ms"].as_integer(), Some(100));
        assert_eq!(client["peer"][0]["path"][1]["local"].as_str(), Some("10.77.1.1"));
        assert_eq!(client["security"].as_str(), Some("none"));
        assert_eq!(server["peer"][0]["from"].as_array().map(Vec::len), Some(2));
        // With encryption, the files contain keys.
        let [client, server] = read("ccid5-sealed");
        let keys = [1, 2].map(|key| PrivateKey::from_random([key; 32]));
        for (end, other, own) in [(&client, &server, &keys[0]), (&server, &client, &keys[1])] {
            assert_eq!(end["security"].as_str(), Some("noise"));
            assert_eq!(end["private_key"].as_str(), Some(&**own.to_base64()));
            assert_eq!(other["peer"][0]["public_key"].as_str(), Some(&*own.public().to_string()));
        }
        assert!(server["peer"][0].get("from").is_none());
    }
}

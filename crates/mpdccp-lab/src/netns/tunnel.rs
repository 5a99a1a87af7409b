//! Both ends of the tunnel as processes, their configuration, and what they trace.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use dccp_secure::PrivateKey;
use mpdccp_units::Time;
use serde_json::Value;
use toml::Table;

use super::process::Process;
use super::world::{Namespace, path_address};
use crate::record::TraceRow;
use crate::scenario::{PathSpec, SECURITY};
use crate::{LabError, Plan};

/// Inner addresses.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// RFC 6773's port.
const PORT: u16 = 6511;

/// A running tunnel.
pub(super) struct Tunnel {
    // The client first: it is dropped first, and tells the server that it leaves.
    client: Process,
    server: Process,
    trace: PathBuf,
    program: PathBuf,
    socket: PathBuf,
    /// How many there must be.
    paths: usize,
}

impl Tunnel {
    /// Starts `program` at both ends with what `plan` says; files go to `dir`.
    pub(super) fn start(
        plan: &Plan<'_>,
        program: &Path,
        dir: &Path,
        client: &Namespace,
        server: &Namespace,
    ) -> Result<Tunnel, LabError> {
        let start = |namespace: &Namespace, role: &str, config: String| {
            let file = dir.join(format!("{role}.toml"));
            std::fs::write(&file, config)
                .map_err(|e| LabError::failed("writing a tunnel's configuration", e))?;
            let trace = dir.join(format!("{role}-trace.csv"));
            let args =
                ["tunnel", "up", "--config", &file.to_string_lossy(), "--trace", &trace.to_string_lossy()];
            Process::start(
                namespace,
                &format!("tunnel's {role}"),
                program,
                &args,
                &dir.join(format!("{role}.log")),
            )
        };
        let keys = keys(plan)?;
        let server = start(server, "server", server_config(plan, keys.as_ref(), dir))?;
        let client = start(client, "client", client_config(plan, keys.as_ref(), dir))?;
        Ok(Tunnel {
            client,
            server,
            trace: dir.join("client-trace.csv"),
            program: program.to_owned(),
            socket: dir.join("client.sock"),
            paths: used(plan).count(),
        })
    }

    /// An error if one end has ended.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        self.server.check()?;
        self.client.check()
    }

    /// The client's status, if it answers.
    fn status(&self) -> Option<Value> {
        let args = ["tunnel", "status", "--json", "--socket"];
        let out = Command::new(&self.program).args(args).arg(&self.socket).output().ok()?;
        serde_json::from_slice(&out.stdout).ok()
    }

    /// Whether every path of the client is up.
    pub(super) fn all_paths_up(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let paths: Vec<&Value> = status["peers"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|p| p["paths"].as_array())
            .flatten()
            .collect();
        paths.len() == self.paths && paths.iter().all(|path| path["state"] == "up")
    }

    /// Packets that the client's session queue has dropped.
    pub(super) fn dropped(&self) -> Option<u64> {
        let status = self.status()?;
        let queue = status["peers"][0]["queue"].as_object()?;
        Some(
            queue.iter().filter(|(key, _)| key.starts_with("dropped_")).filter_map(|(_, n)| n.as_u64()).sum(),
        )
    }

    /// Processor time of both ends so far, seconds.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        Some(self.client.cpu_s()? + self.server.cpu_s()?)
    }

    /// What both ends wrote last, for an error message.
    pub(super) fn tails(&self) -> String {
        format!("  client:\n{}  server:\n{}", self.client.tail(), self.server.tail())
    }

    /// Ends it in order and reads the client's trace.
    pub(super) fn finish(mut self, path_names: &[String]) -> Vec<TraceRow> {
        self.client.end();
        self.server.end();
        let text = std::fs::read_to_string(&self.trace).unwrap_or_default();
        parse_trace(&text, path_names)
    }
}

/// The paths that the tunnel uses, with their places among all.
fn used(plan: &Plan<'_>) -> impl Iterator<Item = (usize, PathSpec)> {
    plan.paths().into_iter().enumerate().filter(|(_, path)| !path.outside)
}

/// Settings both ends share.
fn common(plan: &Plan<'_>, role: &str, address: Ipv4Addr, dir: &Path) -> String {
    let settings = plan.scenario.tunnel_of(plan.variant).unwrap_or_default();
    // The figures to compare with were taken without encryption.
    let security = if settings.contains_key(SECURITY) { "" } else { "security = \"none\"\n" };
    // Taps on the interface are to see each packet.
    format!(
        "role = \"{role}\"\n{security}offload = false\naddresses = [\"{address}/24\"]\ncontrol = {:?}\nstate = {dir:?}\n{}",
        dir.join(format!("{role}.sock")),
        inline(&settings)
    )
}

/// One line per key, so that keys of the file itself may follow.
fn inline(table: &Table) -> String {
    table.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Keys of client and server, made for this run, if the tunnel is encrypted.
fn keys(plan: &Plan<'_>) -> Result<Option<[PrivateKey; 2]>, LabError> {
    if !plan.scenario.is_sealed(plan.variant) {
        return Ok(None);
    }
    let key = || dccp_net::random_seed().map(PrivateKey::from_random);
    let keys = key().and_then(|client| Ok([client, key()?]));
    keys.map(Some).map_err(|e| LabError::failed("making keys", e))
}

fn client_config(plan: &Plan<'_>, keys: Option<&[PrivateKey; 2]>, dir: &Path) -> String {
    let mut out = common(plan, "client", CLIENT, dir);
    if let Some([client, _]) = keys {
        let _ = writeln!(out, "private_key = \"{}\"", *client.to_base64());
    }
    let _ = write!(out, "\n[[peer]]\nname = \"server\"\nallowed_ips = [\"{SERVER}/32\"]\n");
    if let Some([_, server]) = keys {
        let _ = writeln!(out, "public_key = \"{}\"", server.public());
    }
    for (i, path) in used(plan) {
        let (local, remote) = (path_address(i, 1), SocketAddr::from((path_address(i, 2), PORT)));
        let name = path.name.as_ref();
        let _ =
            write!(out, "\n[[peer.path]]\nname = \"{name}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n");
        if let Some(priority) = path.priority {
            let _ = writeln!(out, "priority = {priority}");
        }
    }
    out
}

fn server_config(plan: &Plan<'_>, keys: Option<&[PrivateKey; 2]>, dir: &Path) -> String {
    let mut out = common(plan, "server", SERVER, dir);
    let _ = writeln!(out, "listen = [\"0.0.0.0:{PORT}\"]");
    if let Some([_, server]) = keys {
        let _ = writeln!(out, "private_key = \"{}\"", *server.to_base64());
    }
    let _ = write!(out, "\n[[peer]]\nname = \"client\"\nallowed_ips = [\"{CLIENT}/32\"]\n");
    match keys {
        Some([client, _]) => {
            let _ = writeln!(out, "public_key = \"{}\"", client.public());
        }
        None => {
            let from: Vec<String> = used(plan).map(|(i, _)| format!("\"{}\"", path_address(i, 1))).collect();
            let _ = writeln!(out, "from = [{}]", from.join(", "));
        }
    }
    out
}

/// Reads a trace by the names of its columns; lines that do not fit, such as one cut short, are left out.
fn parse_trace(text: &str, path_names: &[String]) -> Vec<TraceRow> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let get = |name: &str| cells.get(columns.iter().position(|c| *c == name)?).copied();
        let number = |name: &str| get(name).and_then(|text| text.parse::<f64>().ok());
        let path = get("path")?;
        Some(TraceRow {
            at: Time::from_secs_f64(number("t_s")?),
            path: path_names.iter().position(|name| name == path).or_else(|| path.parse().ok())?,
            phase: get("phase")?.to_owned(),
            cwnd_bytes: number("cwnd_bytes")? as u64,
            inflight_bytes: number("inflight_bytes")? as u64,
            pacing_mbps: number("pacing_mbps"),
            delivery_mbps: number("delivery_mbps"),
            btlbw_mbps: number("btlbw_mbps"),
            srtt_ms: number("srtt_ms"),
            min_rtt_ms: number("min_rtt_ms"),
            lost: number("lost").unwrap_or(0.0) as u64,
            queue_packets: number("queue_packets").unwrap_or(0.0) as u64,
            queue_ms: number("queue_ms").unwrap_or(0.0),
            app_limited: get("app_limited").is_some_and(|text| matches!(text, "1" | "true")),
        })
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn a_trace_is_read_by_column_name_and_a_cut_line_left_out() {
        let text = "t_s,session,path,phase,cwnd_bytes,inflight_bytes,pacing_mbps,app_limited,new\n\
                    12.5,0,path2,startup,3000,1500,,1,x\n\
                    12.6,0,0,drain,4000,1500,8.5,0,x\n\
                    12.7,0,path1,dra";
        let rows = parse_trace(text, &["path1".to_owned(), "path2".to_owned()]);
        let [first, second] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((first.at, first.path, first.phase.as_str()), (Time::from_millis(12_500), 1, "startup"));
        assert_eq!((first.cwnd_bytes, first.pacing_mbps, first.app_limited), (3000, None, true));
        assert_eq!((second.path, second.pacing_mbps, second.app_limited), (0, Some(8.5), false));
        assert!(parse_trace("", &[]).is_empty());
    }

    #[test]
    fn configurations_are_toml_and_say_what_the_scenario_says() {
        let scenario = Scenario::find("paper/multipath-udp").unwrap();
        let variant = scenario.variant("ccid5-draft").unwrap();
        let plan = Plan { scenario: &scenario, variant, cell: scenario.headline(), repeat: 0, seed: 1 };
        let client: toml::Table = client_config(&plan, None, Path::new("/tmp/x")).parse().unwrap();
        assert_eq!(client["ccid"].as_integer(), Some(5));
        assert_eq!(client["cc_variant"].as_str(), Some("draft"));
        assert_eq!(client["reordering"]["timeout_ms"].as_integer(), Some(100));
        assert_eq!(client["queue"]["max_ms"].as_integer(), Some(100));
        assert_eq!(client["peer"][0]["path"][1]["local"].as_str(), Some("10.77.1.1"));
        assert_eq!(client["security"].as_str(), Some("none"));
        let server: toml::Table = server_config(&plan, None, Path::new("/tmp/x")).parse().unwrap();
        assert_eq!(server["peer"][0]["from"].as_array().map(Vec::len), Some(2));
        // With keys.
        let variant = scenario.variant("ccid5-sealed").unwrap();
        let plan = Plan { variant, ..plan };
        let keys = keys(&plan).unwrap().unwrap();
        let client: toml::Table = client_config(&plan, Some(&keys), Path::new("/tmp/x")).parse().unwrap();
        let server: toml::Table = server_config(&plan, Some(&keys), Path::new("/tmp/x")).parse().unwrap();
        for (end, other, own) in [(&client, &server, &keys[0]), (&server, &client, &keys[1])] {
            assert_eq!(end["security"].as_str(), Some("noise"));
            assert_eq!(end["private_key"].as_str(), Some(&**own.to_base64()));
            assert_eq!(other["peer"][0]["public_key"].as_str(), Some(&*own.public().to_string()));
        }
        assert!(server["peer"][0].get("from").is_none());
    }
}

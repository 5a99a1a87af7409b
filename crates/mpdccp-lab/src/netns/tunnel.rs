//! Runs both ends of the tunnel as processes, and reads the client's trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mpdccp_units::Time;
use serde_json::Value;

use super::namespaces::Namespace;
use super::process::Process;
use crate::record::TraceRow;
use crate::scenario::{PathSpec, TunnelEvent};
use crate::sim::Side;
use crate::tunnel_files::{TunnelFiles, client_address};
use crate::{LabError, Plan};

/// A running tunnel.
pub(super) struct Tunnel<'a> {
    // Keep `client` before `server`: fields are dropped in order, and the client must end first to close its
    // session with the server.
    client: Process,
    server: Process,
    program: PathBuf,
    dir: PathBuf,
    files: TunnelFiles<'a>,
    /// Number of address changes of the client, by path.
    roamed: BTreeMap<usize, usize>,
}

impl<'a> Tunnel<'a> {
    /// Starts `program` at both ends for `plan`, with its files in `dir`.
    pub(super) fn start(
        plan: &Plan<'a>,
        program: &Path,
        dir: &Path,
        client: &Namespace,
        server: &Namespace,
    ) -> Result<Tunnel<'a>, LabError> {
        let random = || dccp_net::random_seed().map_err(|e| LabError::failed("cannot generate keys", e));
        let files = TunnelFiles::new(plan, dir.to_owned(), random)?;
        let start = |namespace: &Namespace, side: Side| {
            let role = side.name();
            let file = write(&files, dir, side)?;
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
        let server = start(server, Side::Server)?;
        let client = start(client, Side::Client)?;
        Ok(Tunnel {
            client,
            server,
            program: program.to_owned(),
            dir: dir.to_owned(),
            files,
            roamed: BTreeMap::new(),
        })
    }

    /// Returns an error if either end has exited.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        self.server.check()?;
        self.client.check()
    }

    /// Sends a command to one end, and returns its output.
    fn ask(&self, side: Side, command: &[&str]) -> std::io::Result<Output> {
        let socket = self.dir.join(format!("{}.sock", side.name()));
        Command::new(&self.program).arg("tunnel").args(command).arg("--config").arg(socket).output()
    }

    /// Returns the status that the client reports, if it answers.
    fn status(&self) -> Option<Value> {
        let out = self.ask(Side::Client, &["status", "--json"]).ok()?;
        serde_json::from_slice(&out.stdout).ok()
    }

    /// Executes an event of the scenario.
    pub(super) fn on_scenario(&mut self, event: &TunnelEvent, client: &Namespace) -> Result<(), LabError> {
        let mut commands = Vec::new();
        if let Some(reload) = &event.reload {
            self.files.follow(reload);
            for side in [Side::Server, Side::Client] {
                write(&self.files, &self.dir, side)?;
                commands.push((side, &["reload"][..]));
            }
        }
        if event.drain {
            commands.push((Side::Server, &["drain", "--seconds", "0"]));
        }
        for (side, command) in commands {
            let what = || format!("the tunnel's {}: {}", side.name(), command[0]);
            let out = self.ask(side, command).map_err(|e| LabError::failed(what(), e))?;
            // Draining fails because the client knows no other server and stays connected.
            if !out.status.success() && !event.drain {
                return Err(LabError::failed(what(), String::from_utf8_lossy(&out.stderr).trim()));
            }
        }
        let roams =
            |path: &PathSpec| event.roam.as_ref().is_some_and(|name| name.as_ref() == path.name.as_ref());
        if let Some((path, _)) = self.files.used().find(|(_, path)| roams(path)) {
            let changes = self.roamed.entry(path).or_default();
            let before = client_address(path, *changes);
            *changes += 1;
            client.change_address(path, before, client_address(path, *changes))?;
        }
        Ok(())
    }

    /// Returns whether all of the client's paths are up.
    pub(super) fn all_paths_up(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let paths: Vec<&Value> = status["peers"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|p| p["paths"].as_array())
            .flatten()
            .collect();
        paths.len() == self.files.used().count() && paths.iter().all(|path| path["state"] == "up")
    }

    /// Returns the number of packets dropped by the client's session queue.
    pub(super) fn dropped(&self) -> Option<u64> {
        let status = self.status()?;
        let queue = status["peers"][0]["queue"].as_object()?;
        Some(
            queue.iter().filter(|(key, _)| key.starts_with("dropped_")).filter_map(|(_, n)| n.as_u64()).sum(),
        )
    }

    /// Returns the number of TCP connections that the client carried as streams.
    ///
    /// # Errors
    /// Fails if there is no such connection; the error says why.
    pub(super) fn streams(&self) -> Result<u64, LabError> {
        let tcp = self.status().map_or(Value::Null, |mut status| status["tcp"].take());
        match tcp["opened"].as_u64() {
            Some(opened) if opened > 0 => Ok(opened),
            _ => {
                let why = format!("its TCP status: {tcp}\n{}", self.tails());
                Err(LabError::failed("the tunnel carried no TCP connection as a stream", why))
            }
        }
    }

    /// Returns the CPU time in seconds that both ends have used so far.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        Some(self.client.cpu_s()? + self.server.cpu_s()?)
    }

    /// Returns the last lines of output of both ends, for error messages.
    pub(super) fn tails(&self) -> String {
        format!("  client:\n{}  server:\n{}", self.client.tail(), self.server.tail())
    }

    /// Ends the tunnel, and reads the client's trace.
    pub(super) fn finish(mut self, path_names: &[String]) -> Vec<TraceRow> {
        self.client.end();
        self.server.end();
        let text = std::fs::read_to_string(self.dir.join("client-trace.csv")).unwrap_or_default();
        parse_trace(&text, path_names)
    }
}

/// Writes the configuration file of one end and returns its path.
fn write(files: &TunnelFiles<'_>, dir: &Path, side: Side) -> Result<PathBuf, LabError> {
    let file = dir.join(format!("{}.toml", side.name()));
    let written = std::fs::write(&file, files.text(side));
    written.map_err(|e| LabError::failed("cannot write a tunnel's configuration", e))?;
    Ok(file)
}

/// Parses a trace by its column names, skipping invalid lines such as a truncated last one.
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
}

//! Runs the traffic of external programs: a shell command at each end, with taps that record the packets
//! entering and leaving the transport.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;

use dccp_net::Clock;
use mpdccp_units::Time;

use super::flow::{Counters, Flow, Sent};
use super::namespaces::Namespace;
use super::process::Process;
use super::tap::{self, Count, Tap, Whose};
use super::udp::{NAP, sleep_until};
use crate::LabError;
use crate::record::FlowRecord;
use crate::scenario::FlowSpec;

/// A flow of external programs.
pub(super) struct Commands {
    name: String,
    client: String,
    to: SocketAddr,
    dir: PathBuf,
    counters: Arc<Counters>,
    server: Option<Process>,
    /// Taps at the points where packets enter and leave the transport.
    taps: [Tap; 2],
    output: Mutex<Option<String>>,
}

/// Starts a shell command, passing its parameters in the environment.
fn start(
    namespace: &Namespace,
    what: &str,
    (command, to): (&str, SocketAddr),
    dir: &Path,
) -> Result<Process, LabError> {
    let script = format!("export SERVER={} PORT={}\n{command}", to.ip(), to.port());
    let log = dir.join(format!("{}.log", what.replace(' ', "-")));
    Process::start(namespace, what, Path::new("sh"), &["-c", &script], &log)
}

impl Commands {
    /// Starts the server's command and the taps. Packets go from `from` to `to`, or the opposite way for a
    /// reverse flow. The taps count packets that match `whose`.
    pub(super) fn start(
        spec: &FlowSpec,
        (client, server): (&Namespace, &Namespace),
        (from, to): (Ipv4Addr, SocketAddr),
        whose: Whose,
        dir: &Path,
    ) -> Result<Commands, LabError> {
        let name = spec.name.as_ref().clone();
        let counters = Arc::new(Counters::default());
        let receiver = Some(counters.clone());
        let count = || Count::Of(whose.clone());
        let [entry, exit] = if spec.reverse {
            let to = SocketAddr::from((from, 0));
            [(server, None), (client, receiver)].map(|(at, counters)| tap::start(at, to, count(), counters))
        } else {
            let to = SocketAddr::new(to.ip(), 0);
            [(client, None), (server, receiver)].map(|(at, counters)| tap::start(at, to, count(), counters))
        };
        let run = |command: &String| start(server, &format!("server of {name}"), (command, to), dir);
        let server = spec.server.as_ref().map(run).transpose()?;
        let client = spec.client.clone().unwrap_or_default();
        Ok(Commands {
            name,
            client,
            to,
            dir: dir.to_owned(),
            counters,
            server,
            taps: [entry?, exit?],
            output: Mutex::default(),
        })
    }
}

impl Flow for Commands {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        sleep_until(from, over);
        let what = format!("client of {}", self.name);
        let mut process = start(client, &what, (&self.client, self.to), &self.dir)?;
        while process.ended().is_none() && Clock.now() < to && !over.load(Ordering::Relaxed) {
            sleep(NAP);
        }
        let ended = process.ended();
        process.end();
        if ended == Some(false) {
            return Err(LabError::Command(format!("the {what} failed:\n{}", process.tail())));
        }
        if let Ok(mut output) = self.output.lock() {
            *output = Some(process.output());
        }
        Ok(Sent::default())
    }

    fn finish(mut self: Box<Self>, _sent: Sent) -> Result<FlowRecord, LabError> {
        let [entry, exit] = self.taps;
        let (sent, received) = tap::pair(&entry.finish()?, &exit.finish()?);
        let client = self.output.lock().ok().and_then(|mut text| text.take());
        let mut output: Vec<(String, String)> =
            client.map(|text| ("client".to_owned(), text)).into_iter().collect();
        if let Some(server) = &mut self.server {
            server.end();
            output.push(("server".to_owned(), server.output()));
        }
        Ok(FlowRecord {
            name: self.name,
            kind: "command".to_owned(),
            sent,
            received,
            stream_bytes: stream_bytes(&output),
            output,
            ..FlowRecord::default()
        })
    }
}

/// Returns the number of bytes that the receiving program read by the end of the flow. One of the two
/// commands must print it in a line `stream_bytes=NUMBER`.
fn stream_bytes(output: &[(String, String)]) -> Option<u64> {
    let mut lines = output.iter().flat_map(|(_, text)| text.lines());
    lines.find_map(|line| line.strip_prefix("stream_bytes=")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_print_what_its_application_read() {
        let output =
            |server: &str| [("client", "sent=3"), ("server", server)].map(|(a, b)| (a.into(), b.into()));
        assert_eq!(stream_bytes(&output("listening\nstream_bytes=1200\n")), Some(1200));
        assert_eq!(stream_bytes(&output("1200 stream_bytes=7\nstream_bytes=many")), None);
    }
}

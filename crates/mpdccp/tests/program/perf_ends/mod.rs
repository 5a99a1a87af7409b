//! Runs both ends of `mpdccp perf` on loopback, either on the host or in a network namespace.

use crate::common::spaces::Spaces;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MPDCCP: &str = env!("CARGO_BIN_EXE_mpdccp");

/// The place where both ends run.
pub(crate) struct Place {
    spaces: Option<Spaces>,
}

impl Place {
    /// Runs both ends on this host without a namespace. Suitable for UDP, whose ports do not conflict with
    /// those of other programs.
    pub(crate) fn host() -> Place {
        Place { spaces: None }
    }

    /// Runs both ends in a separate namespace. If the namespace cannot be created, prints the reason and
    /// returns `None`.
    pub(crate) fn namespace() -> Option<Place> {
        Some(Place { spaces: Some(Spaces::new("mpperf", &["p"], &[])?) })
    }

    fn command(&self, program: &str) -> Command {
        match &self.spaces {
            None => Command::new(program),
            Some(spaces) => spaces.command("p", program),
        }
    }

    /// Runs another program in the same place and returns its output.
    pub(crate) fn command_output(&self, program: &str, args: &str) -> String {
        let output = self.command(program).args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{program} {args}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn start(&self, args: &str) -> Child {
        let mut command = self.command(MPDCCP);
        command.arg("perf").args(args.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs one end until it exits.
    pub(crate) fn run(&self, args: &str) -> Output {
        finish(args, self.start(args))
    }

    /// Starts a server that prints its address.
    pub(crate) fn serve(&self, args: &str) -> Server {
        let mut child = self.start(args);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Ok(listening) = serde_json::from_str::<Value>(&line) else {
            let mut complaint = String::new();
            child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
            panic!("{args}: {line}{complaint}")
        };
        let port = match listening["address"].as_str().unwrap().rsplit_once(':').unwrap().1 {
            "0" => listening["dccp_port"].to_string(),
            udp => udp.to_owned(),
        };
        Server { child, stdout, port, listening }
    }

    /// Runs a client against a server, then stops the server. Returns the client's output. In the client's
    /// arguments, `{port}` stands for the server's UDP port or, with raw encapsulation, its DCCP port.
    pub(crate) fn against_server(&self, server: &str, client: &str) -> Output {
        let [_, client] = self.both(server, client);
        client
    }

    /// Runs both ends like [`against_server`](Self::against_server), and also returns the server's whole
    /// output.
    pub(crate) fn both(&self, server: &str, client: &str) -> [Output; 2] {
        let mut server = self.serve(&format!("--json-stream {server}"));
        let output = self.run(&client.replace("{port}", &server.port));
        server.child.kill().unwrap();
        [server.child.wait_with_output().unwrap(), output]
    }

    /// Runs a client that prints reports. On each report, calls `act` with the server until `act` returns
    /// true; the client must then exit within half a minute. Returns the client's records and exit status.
    pub(crate) fn with_server(
        &self,
        server: &str,
        client: &str,
        mut act: impl FnMut(&mut Child) -> bool,
    ) -> (Vec<Value>, Output) {
        let mut server = self.serve(&format!("--json-stream {server}"));
        let args = format!("{} --json-stream", client.replace("{port}", &server.port));
        let mut client = self.start(&args);
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let mut records = Vec::new();
        let mut read = |records: &mut Vec<Value>| {
            let line = lines.next().map(Result::unwrap);
            records.extend(line.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()));
            line.is_some()
        };
        while read(&mut records) {
            if records.last().unwrap()["type"] == "interval" && act(&mut server.child) {
                break;
            }
        }
        // The rest of the output fits into the pipe's buffer.
        let output = finish_within(Duration::from_secs(30), &args, client);
        while read(&mut records) {}
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        (records, output)
    }

    /// Defines host names in the namespace.
    pub(crate) fn hosts(&self, text: &str) {
        self.spaces.as_ref().unwrap().etc("p", "hosts", text);
    }

    /// Runs a client and a server that serves only this client. Returns the records of both. `{port}` has the
    /// same meaning as in `against_server`.
    pub(crate) fn exchange(&self, server: &str, client: &str) -> [Vec<Value>; 2] {
        let server_args = format!("--json-stream --once {server}");
        let mut server = self.serve(&server_args);
        let client_args = format!("--json-stream {}", client.replace("{port}", &server.port));
        let client = self.run(&client_args);
        let mut ended = finish(&server_args, server.child);
        // The output fits into the pipe's buffer.
        server.stdout.read_to_end(&mut ended.stdout).unwrap();
        let mut records = [(server_args, ended), (client_args, client)].map(|(args, output)| {
            let text = String::from_utf8(output.stdout).unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{args}: {}: {complaint}{text}", output.status);
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
        });
        records[0].insert(0, server.listening);
        records
    }
}

pub(crate) struct Server {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) port: String,
    listening: Value,
}

impl Server {
    /// Stops the server. Returns the records that it has printed after its address.
    pub(crate) fn stop(&mut self) -> Vec<Value> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let lines = self.stdout.by_ref().lines().map(Result::unwrap);
        lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
    }
}

/// Waits for a process. The test fails if this takes longer than a minute.
fn finish(args: &str, child: Child) -> Output {
    finish_within(Duration::from_secs(60), args, child)
}

fn finish_within(most: Duration, args: &str, mut child: Child) -> Output {
    let since = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        if since.elapsed() > most {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("perf {args} did not end: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the record of this type, of which there must be exactly one.
pub(crate) fn record<'a>(records: &'a [Value], kind: &str) -> &'a Value {
    let mut found = records.iter().filter(|record| record["type"] == kind);
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "{kind} twice: {records:?}");
    first.unwrap_or_else(|| panic!("no {kind}: {records:?}"))
}

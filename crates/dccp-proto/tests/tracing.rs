//! A subscriber of `tracing` sees every state (RFC 4340 section 4.3) that a connection goes through.

mod common;

use common::*;
use dccp_proto::Config;
use std::io::Write;
use std::sync::Mutex;
use units::Duration;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The states from one to the next that were told since the last call, in order, of both ends.
fn told() -> Vec<String> {
    let text = String::from_utf8(std::mem::take(&mut *LOG.lock().unwrap())).unwrap();
    let lines = text.lines().filter(|line| line.contains("connection state"));
    let field = |line: &str, name| line.split(name).nth(1).unwrap().split(' ').next().unwrap().to_owned();
    lines.map(|line| format!("{} {}", field(line, "from="), field(line, " to="))).collect()
}

#[test]
fn every_state_is_told() {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(|| Log)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut net = Net::open(Config::default(), Config::default());
        let opening =
            ["CLOSED REQUEST", "CLOSED RESPOND", "REQUEST PARTOPEN", "RESPOND OPEN", "PARTOPEN OPEN"];
        assert_eq!(told(), opening);
        let now = net.now;
        net.end(CLIENT).close(now, false);
        net.run(Duration::from_secs(241));
        assert_eq!(told(), ["OPEN CLOSING", "OPEN CLOSED", "CLOSING TIMEWAIT", "TIMEWAIT CLOSED"]);

        let mut net = Net::open(Config::default(), Config::default());
        told();
        let now = net.now;
        net.end(SERVER).close(now, true);
        net.run(Duration::from_secs(2));
        assert_eq!(told(), ["OPEN CLOSEREQ", "OPEN CLOSING", "CLOSEREQ CLOSED", "CLOSING TIMEWAIT"]);
    });
}

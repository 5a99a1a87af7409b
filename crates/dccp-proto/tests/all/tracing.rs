//! A `tracing` subscriber sees every state (RFC 4340 section 4.3) that a connection goes through.

#[path = "../../../../tests/log.rs"]
mod log;

use crate::common::*;
use dccp_proto::Config;
use mpdccp_units::Duration;

/// Returns the state changes of both ends since the last call, in order.
fn told() -> Vec<String> {
    let text = log::take();
    let lines = text.lines().filter(|line| line.contains("connection state"));
    let field = |line: &str, name| line.split(name).nth(1).unwrap().split(' ').next().unwrap().to_owned();
    lines.map(|line| format!("{} {}", field(line, "from="), field(line, " to="))).collect()
}

#[test]
fn every_state_is_told() {
    log::install(Some(std::thread::current().id()));
    let mut net = Net::pair(Config::default());
    let opening = ["CLOSED REQUEST", "CLOSED RESPOND", "REQUEST PARTOPEN", "RESPOND OPEN", "PARTOPEN OPEN"];
    assert_eq!(told(), opening);
    net.close(CLIENT, false);
    net.run(Duration::from_secs(241));
    assert_eq!(told(), ["OPEN CLOSING", "OPEN CLOSED", "CLOSING TIMEWAIT", "TIMEWAIT CLOSED"]);

    let mut net = Net::pair(Config::default());
    told();
    net.close(SERVER, true);
    net.run(Duration::from_secs(2));
    assert_eq!(told(), ["OPEN CLOSEREQ", "OPEN CLOSING", "CLOSEREQ CLOSED", "CLOSING TIMEWAIT"]);
}

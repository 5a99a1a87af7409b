//! A `tracing` subscriber sees the events of a session and its paths, each in the session's span.

#[path = "../../../../tests/log.rs"]
mod log;

use crate::common::End::Client;
use crate::common::*;
use mpdccp_proto::PathId;
use mpdccp_units::Duration;

#[test]
fn sessions_and_their_paths_are_told_of() {
    log::install(Some(std::thread::current().id()));
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].up = false;
    net.stream(Client, id, 0, 500, Duration::from_millis(4));
    net.wires[1].up = true;
    net.run(Duration::from_secs(3));
    net.client.remove_path(net.now, id, PathId(0));
    net.run(Duration::from_secs(1));
    net.client.close(net.now, id);
    net.run(Duration::from_secs(2));
    let text = log::take();
    let of = |server| {
        let span = format!("session{{id=0 server={server}}}: ");
        text.lines().filter_map(|line| line.split(&span).nth(1)).collect::<Vec<_>>().join("\n")
    };
    // The events must appear in this order, but other events may come between them.
    for (server, expected) in [
        (
            false,
            &[
                "from=CLOSED to=REQUEST",
                "to=PARTOPEN",
                "Opened { multipath: true }",
                "PathUp(PathId(0))",
                "to=OPEN",
                "PathUp(PathId(1))",
                "PathSuspect(PathId(1))",
                "PathUp(PathId(1))",
                "to=CLOSING",
                "to=TIMEWAIT",
                "PathDown(PathId(0), Removed)",
                "to=CLOSING",
                "Closed(Closed)",
            ][..],
        ),
        (
            true,
            &[
                "from=CLOSED to=RESPOND",
                "from=RESPOND to=OPEN",
                "Accepted { peer: 42 }",
                "Opened { multipath: true }",
                "to=RESPOND",
                "from=RESPOND to=OPEN",
                "PathDown(PathId(0), ClosedByPeer)",
                "Closed(ClosedByPeer)",
            ][..],
        ),
    ] {
        let all = of(server);
        let mut rest = all.as_str();
        for told in expected {
            let at = rest.find(told).unwrap_or_else(|| panic!("{told}: missing or out of order in\n{all}"));
            rest = &rest[at + told.len()..];
        }
    }
}

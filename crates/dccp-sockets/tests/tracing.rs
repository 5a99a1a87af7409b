//! Tests that a subscriber installed by the program receives the events of the data threads.

#[path = "../../../tests/log.rs"]
mod log;

use dccp_sockets::{Connection, Listener, Options, Path};
use std::net::IpAddr;

#[test]
fn a_subscriber_sees_connections_paths_and_sessions() {
    log::install(None);
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let path = |last: u8| Path::from(IpAddr::from([127, 0, 0, last]));
    let options = Options::default().path(path(2)).path(path(3));
    let here = Connection::connect(listener.local_addr(), options).unwrap();
    let there = listener.accept().unwrap();
    assert!(here.events().any(|event| matches!(event, dccp_sockets::Event::PathUp(path) if path.0 == 1)));
    here.finish().unwrap();
    there.events().for_each(drop);
    let text = log::take();
    for told in [
        "session{id=0 server=false}: dccp_proto::connection: connection state from=CLOSED to=REQUEST peer=127.0.0.1:",
        "session{id=0 server=true}: dccp_proto::connection: connection state from=RESPOND to=OPEN",
        "from=CLOSED to=RESPOND",
        "from=REQUEST to=PARTOPEN",
        "from=PARTOPEN to=OPEN",
        "from=OPEN to=CLOSING",
        "session{id=0 server=false}: mpdccp_proto::endpoint: session event=PathUp(PathId(1))",
        "session{id=0 server=false}: mpdccp_proto::endpoint: session event=Closed(Closed)",
        "session{id=0 server=true}: mpdccp_proto::endpoint: session event=Closed(ClosedByPeer)",
    ] {
        assert!(text.contains(told), "no `{told}` in\n{text}");
    }
}

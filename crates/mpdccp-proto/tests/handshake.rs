//! The multipath handshake on the wire, and what goes wrong with it (RFC 9897 sections 3.3 and 3.6).

mod common;

use common::End::{Client, Server};
use common::*;
use dccp_wire::{MpOption, PacketType};
use mpdccp_proto::*;
use units::Duration;

#[test]
fn data_flows_over_two_paths() {
    let (mut net, id) = Net::connected(1, 2, config());
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    let sid = net.server_id();
    assert_eq!(net.health(Server, sid), [Health::Up, Health::Up]);
    assert_eq!(
        net.events_of(Server),
        [
            SessionEvent::Accepted { peer: 42 },
            SessionEvent::Opened { multipath: true },
            SessionEvent::PathUp(PathId(0)),
            SessionEvent::PathUp(PathId(1)),
        ]
    );
    net.stream(Client, id, 0, 200, Duration::from_millis(2));
    net.stream(Server, sid, 0, 200, Duration::from_millis(2));
    net.run(Duration::from_secs(1));
    for end in [Client, Server] {
        let mut numbers = net.numbers(end);
        numbers.sort();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "{end:?}");
    }
    let data = |p| net.logged(Client, PacketType::Data).iter().filter(|l| l.path == p).count();
    assert!(data(0) > 50 && data(1) > 50);
    let _ = MpOption::Prio(0);
}

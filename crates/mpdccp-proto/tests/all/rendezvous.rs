//! Simultaneous open (RFC 5596): the server is behind a firewall that lets in only answers.

use crate::common::End::{Client, Server};
use crate::common::stranger::request_header;
use crate::common::*;
use dccp_proto::{Ecn, Ports, Route};
use dccp_wire::{Header, PacketType};
use mpdccp_proto::*;
use mpdccp_units::Duration;

const CLIENT_PORT: u16 = 50_000;

fn guest() -> (Route, Ports) {
    (server_route(0), Ports { local: PORT, remote: CLIENT_PORT })
}

/// Returns a network in which both ends are behind firewalls. A firewall lets packets in only after one has
/// gone out.
fn walled() -> Net {
    let mut net = Net::new(1, 1, config());
    let mut out = [false; 2];
    net.meddler = Some(Box::new(move |from, _, _| {
        let (me, other) = if from == Client { (0, 1) } else { (1, 0) };
        out[me] = true;
        out[other]
    }));
    net
}

#[test]
fn a_server_behind_a_firewall_is_reached_at_once() {
    for client_first in [true, false] {
        let mut net = walled();
        let (route, ports) = guest();
        let connect = |net: &mut Net| _ = net.connect(config());
        if client_first {
            connect(&mut net);
            net.run(Duration::from_millis(50));
            assert_eq!(net.server.stats().counters.len(), 0, "the firewall must let nothing in");
        }
        assert!(net.server.send_listen(net.now, route, ports));
        net.drain();
        if !client_first {
            net.run(Duration::from_millis(50));
            connect(&mut net);
        }
        net.run(Duration::from_millis(400));
        assert_eq!(net.server.sessions().len(), 1, "no session within 400 ms, client first: {client_first}");
        // Once the client's Request has arrived, no more Listens are sent.
        assert!(net.logged(Server, PacketType::Listen).len() <= 2);
        assert_eq!(net.status(Server, net.server_id()).state, SessionState::Open);
    }
}

#[test]
fn three_listens_200_ms_apart_and_then_it_just_listens() {
    let mut net = Net::new(1, 1, config());
    let (route, ports) = guest();
    assert!(net.server.send_listen(net.now, route, ports));
    assert!(net.server.send_listen(net.now, route, ports), "a repeated call must be accepted");
    let begin = net.now;
    net.run(Duration::from_secs(5));
    let at: Vec<_> = net.logged(Server, PacketType::Listen).iter().map(|l| l.at - begin).collect();
    assert_eq!(at, [0, 200, 400].map(Duration::from_millis));
    for listen in net.logged(Server, PacketType::Listen) {
        // RFC 5596 section 2.2.1 specifies the fields of a Listen.
        let header = listen.packet().header;
        assert_eq!((header.src_port, header.dst_port), (PORT, CLIENT_PORT));
        assert_eq!((header.seq.value(), header.ccval, header.cscov, header.short), (0, 0, 0, false));
        assert_eq!(header.service_code, Some(7));
        assert_eq!(listen.bytes.len(), 20);
    }
    assert_eq!(
        counted(&net.client.stats().counters, "listen"),
        3,
        "a client outside REQUEST must discard a Listen"
    );
    assert_eq!(net.logged(Client, PacketType::Reset).len(), 0);
    net.connect(config());
    net.run(Duration::from_secs(1));
    assert_eq!(net.server.sessions().len(), 1);
}

#[test]
fn nobody_answers_a_listen_and_waiting_clients_are_bounded() {
    let mut net = Net::new(1, 1, config());
    let (route, ports) = guest();
    let header = Header { src_port: CLIENT_PORT, ptype: PacketType::Listen, ..request_header(0) };
    net.inject(Server, route, Ecn::NotEct, &emit(&header, &[], &[]));
    net.drain();
    assert!(net.log.is_empty(), "servers must ignore a Listen");
    assert!(
        !net.server.send_listen(net.now, route, Ports { local: 9, ..ports }),
        "nothing listens on this port"
    );
    let more =
        (0..2000).filter(|n| net.server.send_listen(net.now, route, Ports { remote: *n, ..ports })).count();
    assert_eq!(more, 1024);
}

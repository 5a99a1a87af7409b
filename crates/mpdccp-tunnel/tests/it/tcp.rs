//! Tests of TCP connections that the tunnel carries as streams.

use crate::world::{CLIENTS, ClientFile, SERVER, World, inner, server_text, up_with};
use dccp_streams::{StreamError, StreamId};
use etherparse::{IpHeaders, IpNumber, Ipv4Header, PacketBuilder};
use mpdccp_proxy::{Command as Told, Event, Flow, Segment};
use mpdccp_tunnel::Packet;
use mpdccp_tunnel::status::TcpStatus;
use mpdccp_units::Duration;
use std::net::Ipv4Addr;

pub(crate) const SOON: Duration = Duration::from_millis(200);
pub(crate) const STREAMS: &str = "tcp = \"streams\"";

pub(crate) fn world(client: &str, server: &str) -> World {
    world_of(ClientFile { extra: client.into(), ..ClientFile::new() }, server)
}

pub(crate) fn world_of(file: ClientFile, server: &str) -> World {
    up_with([file.clone(), file], server)
}

impl World {
    /// Sends a SYN into the interface of `host`, from the inner address of host `source`.
    pub(crate) fn syn(&mut self, host: usize, source: usize, to: usize, port: u16) {
        self.syn_from(host, inner(source), to, port);
    }

    pub(crate) fn syn_from(&mut self, host: usize, from: Ipv4Addr, to: usize, port: u16) {
        self.syn_with(host, (from, inner(to)), port, 0);
    }

    pub(crate) fn syn_marked(&mut self, host: usize, (from, to): (usize, usize), port: u16, tos: u8) {
        self.syn_with(host, (inner(from), inner(to)), port, tos);
    }

    pub(crate) fn syn_with(&mut self, host: usize, hosts: (Ipv4Addr, Ipv4Addr), port: u16, tos: u8) {
        self.send_syn(host, hosts, port, tos);
        self.run(SOON);
    }

    pub(crate) fn send_syn(&mut self, host: usize, (from, to): (Ipv4Addr, Ipv4Addr), port: u16, tos: u8) {
        let mut packet = Vec::new();
        let mut ip = Ipv4Header::new(0, 64, IpNumber::TCP, from.octets(), to.octets()).unwrap();
        ip.dscp = (tos >> 2).try_into().unwrap();
        let builder = PacketBuilder::ip(IpHeaders::Ipv4(ip, Default::default()));
        builder.tcp(port, 80, 7, 1_000).syn().write(&mut packet, &[]).unwrap();
        self.hosts[host].packet(self.now, Packet::Interface(packet));
    }

    pub(crate) fn says(&mut self, host: usize, event: Event) {
        self.hosts[host].sockets(self.now, event);
        self.run(SOON);
    }

    pub(crate) fn told(&mut self, host: usize) -> Vec<Told> {
        std::mem::take(&mut self.hosts[host].told)
    }

    /// Has the sockets of a host connect, as they were told. Returns the flow.
    pub(crate) fn connects(&mut self, host: usize) -> Flow {
        let flow = self.connecting(host);
        self.says(host, Event::Connected(flow));
        flow
    }

    /// Returns the flow that the sockets of a host were told to connect.
    pub(crate) fn connecting(&mut self, host: usize) -> Flow {
        match &self.told(host)[..] {
            [Told::Connect { flow, .. }] => *flow,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn tcp(&self, host: usize) -> TcpStatus {
        self.status(host).tcp.unwrap()
    }

    /// Opens a connection at the far end, which this end is then told to accept. Returns the flow at each
    /// end.
    fn half_open(&mut self, port: u16) -> [Flow; 2] {
        self.syn(0, 0, SERVER, port);
        let far = self.connects(SERVER);
        self.told(SERVER);
        match &self.told(0)[..] {
            [Told::Accept { flow, .. }] => [*flow, far],
            other => panic!("{other:?}"),
        }
    }

    /// Opens a connection through both ends. Returns the flow at each end.
    pub(crate) fn open(&mut self, port: u16) -> [Flow; 2] {
        let flows = self.half_open(port);
        self.says(0, Event::Connected(flows[0]));
        self.told(0);
        self.told(SERVER);
        flows
    }
}

pub(crate) fn bytes(told: &[Told]) -> usize {
    told.iter().map(|told| if let Told::Data(_, data) = told { data.len() } else { 0 }).sum()
}

#[test]
fn a_connection_is_opened_at_the_far_end_and_its_bytes_and_ends_pass() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    world.says(0, Event::Data(near, b"ask".to_vec()));
    assert_eq!(world.told(0), [Told::Credit(near, 3)]);
    assert_eq!(world.told(SERVER), [Told::Data(far, b"ask".to_vec())]);
    world.says(SERVER, Event::Finished(far));
    assert_eq!(world.told(0), [Told::Finish(near)]);
    world.says(0, Event::Data(near, b"more".to_vec()));
    world.says(0, Event::Finished(near));
    world.says(0, Event::Ended(near));
    assert_eq!(world.told(SERVER)[..], [Told::Data(far, b"more".to_vec()), Told::Finish(far)]);
    world.says(SERVER, Event::Ended(far));
    let (client, server) = (world.tcp(0), world.tcp(SERVER));
    assert_eq!((client.opened, server.accepted), (1, 1));
    assert_eq!((client.flows, server.flows, client.resets, server.resets), (0, 0, 0, 0));
    assert!(world.segments.is_empty(), "no segment was carried as a packet");
}

#[test]
fn no_more_is_handed_to_a_socket_than_it_takes() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    for _ in 0..16 {
        world.says(0, Event::Data(near, vec![7; 64 << 10]));
        world.run(Duration::from_secs(1));
    }
    let first = bytes(&world.told(SERVER));
    assert!((256 << 10..320 << 10).contains(&first), "{first}");
    world.says(SERVER, Event::Consumed(far, 100_000));
    let more = bytes(&world.told(SERVER));
    assert!((90_000..170_000).contains(&more), "{more}");
}

#[test]
fn many_connections_share_the_memory_between_streams_and_sockets() {
    let mut world = world(STREAMS, STREAMS);
    let flows: Vec<_> = (0..400).map(|n| world.open(1_000 + n)).collect();
    let [near, _] = flows[0];
    world.says(0, Event::Data(near, b"ask".to_vec()));
    assert!(world.told(0).is_empty(), "the first connection may still read more than its present share");
    let [near, far] = flows[399];
    world.says(0, Event::Data(near, b"ask".to_vec()));
    assert_eq!(world.told(0), [Told::Credit(near, 3)]);
    for _ in 0..8 {
        world.says(0, Event::Data(near, vec![7; 64 << 10]));
        world.run(Duration::from_secs(1));
    }
    let data = |told: &Told| match told {
        Told::Data(flow, data) if *flow == far => data.len(),
        _ => 0,
    };
    // The share is 167,772 bytes, and a socket gets up to 64 KiB at once.
    let bytes: usize = world.told(SERVER).iter().map(data).sum();
    assert!((160_000..235_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_reset_passes_in_both_directions() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    world.says(SERVER, Event::Reset(far));
    assert_eq!(world.told(0), [Told::Reset(near)]);
    let [near, far] = world.open(1_001);
    world.says(0, Event::Reset(near));
    assert_eq!(world.told(SERVER), [Told::Reset(far)]);
}

#[test]
fn what_a_host_sent_before_its_reset_arrives_first() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    let now = world.now;
    world.hosts[SERVER].sockets(now, Event::Data(far, b"answer".to_vec()));
    world.says(SERVER, Event::Reset(far));
    world.run(SOON);
    assert_eq!(world.told(0), [Told::Data(near, b"answer".to_vec()), Told::Reset(near)]);
    assert_eq!(world.told(SERVER), [Told::Credit(far, 6)]);
    // The queue of the socket is full.
    let [near, far] = world.open(1_001);
    (0..5).for_each(|_| world.says(0, Event::Data(near, vec![7; 64 << 10])));
    world.says(0, Event::Reset(near));
    world.run(SOON);
    let told = world.told(SERVER);
    assert_eq!((bytes(&told), told.last()), (5 << 16, Some(&Told::Reset(far))));
}

#[test]
fn a_host_hears_what_the_far_one_said() {
    let mut world = world(STREAMS, STREAMS);
    world.syn(0, 0, SERVER, 1_000);
    let flow = world.connecting(SERVER);
    world.says(SERVER, Event::Failed(flow, true));
    let (at, answer) = world.segments.pop().unwrap();
    let answer = Segment::parse(&answer).unwrap();
    assert!(at == 0 && answer.resets && answer.tuple.to.port() == 1_000);
    // The far host does not answer, so this host gets no answer either. Its next SYN is carried as a packet.
    world.syn(0, 0, SERVER, 1_001);
    let flow = world.connecting(SERVER);
    world.says(SERVER, Event::Failed(flow, false));
    assert!(world.segments.is_empty());
    world.syn(0, 0, SERVER, 1_001);
    assert_eq!(world.segments.len(), 1);
    assert_eq!(world.tcp(0).refused, 2);
}

/// The far end gives no answer, as if no path had carried the stream.
#[test]
fn a_connection_is_withdrawn_once_its_host_no_longer_waits_for_it() {
    let mut world = world(STREAMS, STREAMS);
    world.syn(0, 0, SERVER, 1_000);
    let far = world.connecting(SERVER);
    world.run(Duration::from_secs(130));
    world.syn(0, 0, SERVER, 1_001);
    world.says(SERVER, Event::Connected(far));
    assert!(world.told(SERVER).contains(&Told::Reset(far)));
    assert_eq!(world.tcp(0).flows, 1);
}

#[test]
fn connections_beyond_the_far_ends_limit_of_half_open_streams_travel_as_packets() {
    let file = ClientFile { extra: STREAMS.into(), ..ClientFile::new() };
    let text = server_text([true; CLIENTS], STREAMS);
    let text = text.replace("\"10.0.0.2/32\"", "\"10.0.0.2/32\", \"10.0.0.128/25\"");
    let mut world = World::new([file.clone(), file], &text);
    world.run(Duration::from_secs(5));
    // Each source has fewer half-open flows than the flow table allows.
    let source = |n: u16| Ipv4Addr::new(10, 0, 0, 128 + (n % 2) as u8);
    // A held SYN is withdrawn after two minutes, so open all flows within a shorter time.
    for n in 0..=1_024 {
        world.send_syn(0, (source(n), inner(SERVER)), 1_000 + n, 0);
        world.run(SOON / 10);
    }
    world.run(SOON);
    assert_eq!(world.told(SERVER).len(), 1_024);
    assert!(world.segments.is_empty());
    world.syn_from(0, source(1_024), SERVER, 1_000 + 1_024);
    assert_eq!((world.segments.len(), world.tcp(0).as_packets["limit"]), (1, 1));
}

#[test]
fn an_icmp_error_is_handed_on_whole() {
    let mut world = world(STREAMS, STREAMS);
    world.syn(0, 0, SERVER, 1_000);
    let flow = world.connecting(SERVER);
    // A router answers the far end's SYN with an ICMP error.
    let mut quote = Vec::new();
    let builder = PacketBuilder::ipv4(inner(0).octets(), inner(SERVER).octets(), 64);
    builder.tcp(1_000, 80, 9, 1_000).syn().write(&mut quote, &[]).unwrap();
    let mut packet = Vec::new();
    let error = etherparse::Icmpv4Type::Unknown { type_u8: 3, code_u8: 13, bytes5to8: [0; 4] };
    let builder = PacketBuilder::ipv4([192, 0, 2, 99], inner(0).octets(), 64).icmpv4(error);
    builder.write(&mut packet, &quote).unwrap();
    world.hosts[SERVER].packet(world.now, Packet::Interface(packet));
    assert_eq!(world.hosts[SERVER].diverted.len(), 1);
    let now = world.now;
    let far = &mut world.hosts[SERVER];
    far.sockets(now, Event::Failed(flow, false));
    for session in far.endpoint.sessions() {
        let end = far.endpoint.streams(now, session, |s| s.peek(StreamId(0)).err());
        assert_ne!(end, Some(Some(StreamError::Reset)), "the reason must not overtake the answer");
    }
    world.run(SOON);
    assert_eq!(world.hosts[0].log.pop().unwrap(), "icmp");
}

#[test]
fn a_peer_opens_connections_from_its_own_addresses_only() {
    let mut world = world(STREAMS, STREAMS);
    world.syn(0, 1, SERVER, 1_000);
    assert_eq!((world.told(SERVER).len(), world.tcp(SERVER).refused), (0, 1));
    assert_eq!(world.tcp(SERVER).flows, 0);
}

#[test]
fn an_end_that_wants_packets_gets_packets() {
    for (client, server) in [(STREAMS, ""), ("", STREAMS), ("", "")] {
        let mut world = world(client, server);
        world.syn(0, 0, SERVER, 1_000);
        assert_eq!(world.segments.len(), 1);
    }
}

/// A host resets its handshake if it is scanning ports or has given up. The kernel in the private namespace
/// does not report such a reset.
#[test]
fn a_host_that_resets_its_handshake_ends_the_connection_at_the_far_end() {
    let mut world = world(STREAMS, STREAMS);
    let [flow, far] = world.half_open(1_000);
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(inner(0).octets(), inner(SERVER).octets(), 64);
    builder.tcp(1_000, 80, 8, 0).rst().write(&mut packet, &[]).unwrap();
    world.hosts[0].packet(world.now, Packet::Interface(packet));
    world.run(SOON);
    assert_eq!((world.told(0), world.told(SERVER)), (vec![Told::Reset(flow)], vec![Told::Reset(far)]));
    assert_eq!([0, SERVER].map(|host| world.tcp(host).flows), [0, 0]);
    assert_eq!(world.hosts[0].diverted.len(), 1, "the namespace gets the reset");
}

#[test]
fn a_session_that_ends_resets_its_connections_and_finishes_none() {
    let mut world = world(STREAMS, STREAMS);
    let [near, _] = world.open(1_000);
    world.syn(0, 0, SERVER, 1_001);
    world.hosts[SERVER].restart(world.now);
    world.run(Duration::from_secs(90));
    assert_eq!(world.told(0), [Told::Reset(near)], "the held SYN is dropped");
    // The host's next SYN is held again, this time for the new session.
    world.told(SERVER);
    world.syn(0, 0, world.server_of(0).unwrap(), 1_001);
    let server = world.server_of(0).unwrap();
    world.connecting(server);
}

#[test]
fn connections_that_this_end_cannot_accept_travel_as_packets() {
    let mut world = world(STREAMS, STREAMS);
    let [flow, far] = world.half_open(1_000);
    world.says(0, Event::Failed(flow, false));
    assert_eq!(world.told(SERVER), [Told::Reset(far)]);
    world.syn(0, 0, SERVER, 1_000);
    assert_eq!(world.segments.len(), 1);
}

#[test]
fn connections_outlive_an_outage_as_long_as_hosts_would_wait() {
    let mut world = world(STREAMS, STREAMS);
    // With only one server, the client cannot move to another.
    let file = ClientFile { extra: STREAMS.into(), remote: "\"198.51.100.1\"".into(), ..ClientFile::new() };
    world.hosts[0].reload(world.now, &file.text(0));
    world.run(Duration::from_secs(5));
    let [near, far] = world.open(1_000);
    let cut = |world: &mut World, up| world.hosts[0].access.values_mut().for_each(|access| access.up = up);
    cut(&mut world, false);
    world.run(Duration::from_secs(600));
    cut(&mut world, true);
    world.run(Duration::from_secs(60));
    assert_eq!((world.told(0), world.told(SERVER)), (vec![], vec![]));
    world.says(0, Event::Data(near, b"late".to_vec()));
    assert_eq!(world.told(SERVER), [Told::Data(far, b"late".to_vec())]);
    // After an outage of more than 15 minutes, the session ends, and its connections are reset.
    cut(&mut world, false);
    world.run(Duration::from_secs(1_000));
    assert_eq!(
        (world.told(0).last(), world.told(SERVER)),
        (Some(&Told::Reset(near)), vec![Told::Reset(far)])
    );
}

#[test]
fn a_reload_resets_what_is_not_allowed_any_more() {
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    let other = server_text([true; CLIENTS], STREAMS).replace("10.0.0.2/32", "10.0.0.77/32");
    world.hosts[SERVER].reload(world.now, &other);
    world.run(SOON);
    assert_eq!((world.told(SERVER), world.told(0)), (vec![Told::Reset(far)], vec![Told::Reset(near)]));
}

/// The tunnel would otherwise put streams into classes that the session does not have.
#[test]
fn a_reload_during_a_sessions_handshake_applies_to_the_session() {
    let file = ClientFile { extra: STREAMS.into(), ..ClientFile::new() };
    let mut world = World::new([file.clone(), file], &server_text([true; CLIENTS], STREAMS));
    let begun = |world: &mut World| {
        world.run(Duration::from_millis(1));
        !world.hosts[SERVER].endpoint.sessions().is_empty()
    };
    assert!((0..1_000).any(|_| begun(&mut world)));
    assert_eq!(world.hosts[SERVER].tunnel.sessions().count(), 0, "the handshake has ended");
    let ruled = format!("{STREAMS}\n[[policy_rule]]\nports = 80\npaths = \"b\"\n");
    world.reload(SERVER, &server_text([true; CLIENTS], &ruled));
    world.run(Duration::from_secs(5));
    world.open(1_000);
}

use super::*;
use crate::segment::Icmp;
use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader};

const NOW: Time = Time::from_millis(1_000);

fn segment(
    from: u8,
    to: u8,
    port: u16,
    make: impl Fn(PacketBuilderStep<TcpHeader>) -> PacketBuilderStep<TcpHeader>,
) -> Vec<u8> {
    let builder = PacketBuilder::ipv4([10, 0, 0, from], [10, 0, 0, to], 64);
    let tcp = if from < to { builder.tcp(port, 80, 7, 1_000) } else { builder.tcp(80, port, 9, 1_000) };
    let mut out = Vec::new();
    make(tcp).write(&mut out, &[]).unwrap();
    out
}

fn syn(port: u16) -> Vec<u8> {
    segment(1, 2, port, |tcp| tcp.syn())
}

fn open(table: &mut FlowTable, port: u16) -> (Flow, Request) {
    match table.on_packet(NOW, &syn(port), |_| Ok(())) {
        Verdict::Open(flow, request) => (flow, request),
        other => panic!("{other:?}"),
    }
}

fn count(table: &FlowTable, why: AsPacket) -> u64 {
    table.as_packets().find(|(w, _)| *w == why).unwrap().1
}

#[test]
fn a_syn_is_held_until_the_far_end_has_connected() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, request) = open(&mut table, 1_000);
    assert_eq!((request.ttl, request.ecn), (64, false));
    assert_eq!(table.on_packet(NOW, &syn(1_000), |_| Ok(())), Verdict::Held(flow), "again");
    let (tuple, kept) = table.accepted(flow).unwrap();
    assert_eq!((tuple, kept), (request.tuple, syn(1_000)));
    let ack = segment(1, 2, 1_000, |tcp| tcp.ack(1));
    assert_eq!(table.on_packet(NOW, &ack, |_| Ok(())), Verdict::Proxy(flow));
    assert_eq!(table.accepted(flow), None, "once");
}

/// The host repeats its SYN while the held one is on its way to the namespace. Before the namespace has a
/// listener, its kernel would answer with RST.
#[test]
fn a_repeated_syn_does_not_overtake_the_held_one() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, _) = open(&mut table, 1_000);
    table.accepted(flow).unwrap();
    let mut again = || table.on_packet(NOW, &syn(1_000), |_| Ok(()));
    assert_eq!((again(), again()), (Verdict::Held(flow), Verdict::Proxy(flow)));
    let flow = established(&mut table, 1_001);
    assert_eq!(table.on_packet(NOW, &syn(1_001), |_| Ok(())), Verdict::Proxy(flow), "a SYN of an open flow");
}

#[test]
fn the_far_end_hands_the_answers_of_its_host_to_the_namespace() {
    let mut table = FlowTable::new(Limits::default());
    let request =
        Request { tuple: Segment::parse(&syn(1_000)).unwrap().tuple, ttl: 64, traffic_class: 0, ecn: false };
    let flow = table.connect(NOW, &request).unwrap();
    let answer = segment(2, 1, 1_000, |tcp| tcp.syn().ack(8));
    assert_eq!(table.on_packet(NOW, &answer, |_| Ok(())), Verdict::Proxy(flow));
    assert_eq!(table.connect(NOW, &request), Err(Refusal::Busy), "the flow is already open");
    table.connected(flow);
    table.ended(NOW, flow);
    let late = segment(2, 1, 1_000, |tcp| tcp.ack(8));
    assert_eq!(
        table.on_packet(NOW, &late, |_| Ok(())),
        Verdict::Proxy(flow),
        "a late segment must not travel as a packet"
    );
    let stale = segment(1, 2, 1_000, |tcp| tcp.ack(77));
    let answer = table.on_delivered(&stale).unwrap();
    let parsed = Segment::parse(&answer).unwrap();
    assert_eq!(
        (parsed.resets, parsed.seq, parsed.ack),
        (true, 77, None),
        "the RST must have the number that the segment acknowledges"
    );
    assert_eq!(parsed.tuple, request.tuple.reversed());
    assert_eq!(
        table.on_delivered(&segment(1, 2, 1_000, |tcp| tcp.rst())),
        None,
        "a RST must not be answered"
    );
    assert_eq!(table.on_delivered(&syn(1_000)), None);
    assert_eq!(
        table.on_packet(NOW, &late, |_| Ok(())),
        Verdict::Packet,
        "the ports now belong to a flow of packets"
    );
    assert!(table.connect(NOW, &request).is_ok(), "the same ports can be proxied again");
}

#[test]
fn a_host_that_comes_too_soon_tries_again() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, _) = open(&mut table, 1_000);
    assert_eq!(table.refused(NOW, flow, Refusal::Busy), None);
    assert!(table.is_empty());
    open(&mut table, 1_000);
}

/// Each host opens the connection before the other one's SYN arrives, so both ends hold a SYN.
#[test]
fn a_connection_that_both_hosts_open_at_once_travels_as_packets() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, request) = open(&mut table, 1_000);
    let crossing = Request { tuple: request.tuple.reversed(), ..request };
    assert_eq!(table.connect(NOW, &crossing), Err(Refusal::Limit));
    assert_eq!(table.refused(NOW, flow, Refusal::Limit), None);
    assert_eq!(table.on_packet(NOW, &syn(1_000), |_| Ok(())), Verdict::Packet);
    assert_eq!(table.on_delivered(&segment(2, 1, 1_000, |tcp| tcp.syn())), None);
}

#[test]
fn a_refused_host_hears_the_same_as_without_the_proxy() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, request) = open(&mut table, 1_000);
    let answer = table.refused(NOW, flow, Refusal::Reset).unwrap();
    let parsed = Segment::parse(&answer).unwrap();
    assert!(parsed.resets && parsed.tuple == request.tuple.reversed());
    let (flow, _) = open(&mut table, 1_000);
    assert_eq!(table.refused(NOW, flow, Refusal::Silence), None);
    assert_eq!(
        table.on_packet(NOW, &syn(1_000), |_| Ok(())),
        Verdict::Packet,
        "the next SYN must travel as a packet"
    );
    assert_eq!(count(&table, AsPacket::Unanswered), 1);
    let (flow, _) = open(&mut table, 1_001);
    assert_eq!(table.refused(NOW, flow, Refusal::Limit), None);
    assert_eq!(table.on_packet(NOW, &syn(1_001), |_| Ok(())), Verdict::Packet);
    assert_eq!((count(&table, AsPacket::Unanswered), count(&table, AsPacket::Limit)), (1, 1));
    let later = NOW + REMEMBERED;
    assert!(
        matches!(table.on_packet(later, &syn(1_000), |_| Ok(())), Verdict::Open(..)),
        "later SYNs must be proxied again"
    );
}

#[test]
fn an_icmp_error_for_a_connection_is_told_as_it_came() {
    let mut table = FlowTable::new(Limits::default());
    let tuple = Segment::parse(&syn(1_000)).unwrap().tuple;
    let request = Request { tuple, ttl: 64, traffic_class: 0, ecn: false };
    let flow = table.connect(NOW, &request).unwrap();
    let icmp = Icmp { from: "192.0.2.9".parse().unwrap(), kind: 11, code: 0, rest: [0; 4] };
    let error = Refusal::Icmp(icmp).packet(tuple, &syn(1_000), 0, 1).unwrap();
    assert_eq!(table.on_packet(NOW, &error, |_| Ok(())), Verdict::Proxy(flow));
    assert_eq!(table.failed(NOW, flow, false), Refusal::Icmp(icmp));
    let unknown = Refusal::Icmp(icmp).packet(tuple.reversed(), &syn(1_001), 0, 1).unwrap();
    assert_eq!(table.on_packet(NOW, &unknown, |_| Ok(())), Verdict::Packet);
}

#[test]
fn flows_that_cannot_be_proxied_travel_as_packets_and_are_counted() {
    let limits = Limits { half_open_per_source: 1, ..Limits::default() };
    let mut table = FlowTable::new(limits);
    let ack = segment(1, 2, 1, |tcp| tcp.ack(1));
    assert_eq!(
        table.on_packet(NOW, &ack, |_| Ok(())),
        Verdict::Packet,
        "the connection was open before the proxy"
    );
    assert_eq!(table.on_packet(NOW, &syn(1), |_| Err(AsPacket::NotWanted)), Verdict::Packet);
    let md5 = segment(1, 2, 1, |tcp| tcp.syn().options_raw(&[19, 18, 0, 0]).unwrap());
    assert_eq!(table.on_packet(NOW, &md5, |_| Ok(())), Verdict::Packet);
    let accurate = segment(1, 2, 1, |tcp| tcp.syn().ns().ece().cwr());
    assert_eq!(table.on_packet(NOW, &accurate, |_| Ok(())), Verdict::Packet);
    let (flow, _) = open(&mut table, 1);
    assert_eq!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Packet, "one flow is half open");
    table.accepted(flow).unwrap();
    assert_eq!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Packet, "the handshake is not complete");
    table.connected(flow);
    assert!(matches!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Open(..)));
    for why in [AsPacket::Midstream, AsPacket::NotWanted, AsPacket::EndToEndOption, AsPacket::AccurateEcn] {
        assert_eq!(count(&table, why), 1, "{}", why.name());
    }
    assert_eq!(count(&table, AsPacket::Limit), 2);
}

/// Simulates SYN floods from the LAN of this end and from hosts behind the tunnel's peer.
#[test]
fn half_open_flows_are_bounded_by_source_and_in_all_at_either_end() {
    let limits = Limits { half_open: 4, half_open_per_source: 2, ..Limits::default() };
    let mut table = FlowTable::new(limits);
    let request = |from: u8, port| {
        let tuple = Segment::parse(&segment(from, 9, port, |tcp| tcp.syn())).unwrap().tuple;
        Request { tuple, ttl: 64, traffic_class: 0, ecn: false }
    };
    let mut flows = Vec::new();
    for (from, port, taken) in
        [(1, 1, true), (1, 2, true), (1, 3, false), (2, 1, true), (2, 2, true), (3, 1, false)]
    {
        let flow = table.connect(NOW, &request(from, port));
        assert_eq!(flow.is_ok(), taken, "{from}, {port}");
        flows.extend(flow);
    }
    assert_eq!(table.on_packet(NOW, &segment(4, 9, 1, |tcp| tcp.syn()), |_| Ok(())), Verdict::Packet);
    assert_eq!(count(&table, AsPacket::Limit), 1);
    // A flow that has connected, failed or been reset no longer counts as half-open.
    table.connected(flows[0]);
    table.failed(NOW, flows[1], true);
    table.ended(NOW, flows[2]);
    assert_eq!(
        [(1, 3), (1, 4), (3, 1)].map(|(from, port)| table.connect(NOW, &request(from, port)).is_ok()),
        [true; 3]
    );
    assert!(table.connect(NOW, &request(5, 1)).is_err());
}

#[test]
fn segments_of_a_super_packet_are_counted_once() {
    let mut table = FlowTable::new(Limits::default());
    let data = numbered(1_000, 8, &[7; 4_000]);
    assert_eq!(table.on_super_packet(NOW, &data), Verdict::Packet);
    for part in [numbered(1_000, 8, &[7; 2_000]), numbered(1_000, 2_008, &[7; 2_000])] {
        assert_eq!(table.on_packet(NOW, &part, |_| Ok(())), Verdict::Packet);
    }
    assert_eq!(count(&table, AsPacket::Midstream), 2);
    let flow = established(&mut table, 1_000);
    assert_eq!(table.on_super_packet(NOW, &data), Verdict::Proxy(flow));
}

#[test]
fn a_withdrawn_or_replaced_syn_is_told() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, _) = open(&mut table, 1);
    let reset = segment(1, 2, 1, |tcp| tcp.rst());
    assert_eq!(table.on_packet(NOW, &reset, |_| Ok(())), Verdict::Withdrawn(flow));
    assert_eq!(table.accepted(flow), None);
    let (flow, _) = open(&mut table, 1);
    let mut other = syn(1);
    other[27] ^= 1;
    assert_eq!(
        table.on_packet(NOW, &other, |_| Ok(())),
        Verdict::Withdrawn(flow),
        "a SYN with another number withdraws the first"
    );
    assert!(table.is_empty() && table.half_open.is_empty());
}

#[test]
fn a_host_that_resets_its_handshake_ends_the_flow() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, _) = open(&mut table, 1);
    table.accepted(flow).unwrap();
    let reset = segment(1, 2, 1, |tcp| tcp.rst());
    assert_eq!(table.on_packet(NOW, &reset, |_| Ok(())), Verdict::Aborted(flow));
    assert!(table.is_empty() && table.half_open.is_empty() && table.all_half_open == 0);
    assert_eq!(table.on_packet(NOW, &reset, |_| Ok(())), Verdict::Proxy(flow), "the flow has already ended");
}

#[test]
fn a_syn_is_not_held_longer_than_its_host_waits() {
    let mut table = FlowTable::new(Limits::default());
    established(&mut table, 1_001);
    let (flow, _) = open(&mut table, 1_000);
    assert!(table.give_up(NOW).is_empty());
    assert_eq!(table.give_up(NOW + HELD), [flow]);
    assert_eq!((table.len(), table.all_half_open, table.accepted(flow)), (1, 0, None));
}

#[test]
fn memory_is_bounded_by_the_limits() {
    let mut table = FlowTable::new(Limits { flows: 10, ..Limits::default() });
    for port in 1..1_000 {
        if let Verdict::Open(flow, _) = table.on_packet(NOW, &syn(port), |_| Ok(()))
            && port % 2 == 0
        {
            table.refused(NOW, flow, Refusal::Reset);
        }
    }
    let remembered = table.remembered.iter().all(|remembered| remembered.len <= 10);
    assert!(table.entries.len() <= 20 && table.tuples.len() <= 10 && remembered);
}

#[test]
fn a_peers_many_ended_flows_do_not_displace_those_of_another_peer() {
    let mut table = FlowTable::new(Limits { flows: 10, ..Limits::default() });
    let end = |table: &mut FlowTable, port, peer| {
        let flow = established(table, port);
        table.set_peer(flow, peer);
        table.ended(NOW, flow);
    };
    let known = |table: &mut FlowTable, ports: std::ops::RangeInclusive<u16>| {
        let says = |port| table.on_packet(NOW, &numbered(port, 8, b""), |_| Ok(()));
        ports.map(says).filter(|verdict| *verdict != Verdict::Packet).count()
    };
    (1..=3).for_each(|port| end(&mut table, port, 0));
    (100..=149).for_each(|port| end(&mut table, port, 1));
    (4..=5).for_each(|port| end(&mut table, port, 0));
    assert_eq!((known(&mut table, 1..=5), known(&mut table, 145..=149)), (5, 5));
    // Dead flows have a limit of their own.
    (200..=249).for_each(|port| table.bury(NOW, 1, tuple(port)));
    table.bury(NOW, 0, tuple(6));
    table.changes();
    (250..=299).for_each(|port| table.bury(NOW, 1, tuple(port)));
    assert_eq!((known(&mut table, 6..=6), known(&mut table, 201..=209)), (1, 9));
    assert!(table.changes().is_empty(), "a peer that has its share displaces nothing");
}

fn tuple(port: u16) -> Tuple {
    Segment::parse(&syn(port)).unwrap().tuple
}

/// Opens a flow from a host at this end and completes the host's handshake.
fn established(table: &mut FlowTable, port: u16) -> Flow {
    let (flow, _) = open(table, port);
    table.accepted(flow).unwrap();
    table.on_packet(NOW, &numbered(port, 8, b""), |_| Ok(()));
    table.connected(flow);
    flow
}

/// Returns a segment with this sequence number, sent by the host of [`established`].
fn numbered(port: u16, seq: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.tcp(port, 80, seq, 1_000).ack(1).write(&mut out, data).unwrap();
    out
}

#[test]
fn a_keepalive_waits_for_a_word_of_the_far_host() {
    let mut table = FlowTable::new(Limits::default());
    let flow = established(&mut table, 1_000);
    let says = |table: &mut FlowTable, packet: &[u8]| table.on_packet(NOW, packet, |_| Ok(()));
    assert_eq!(says(&mut table, &numbered(1_000, 8, b"data")), Verdict::Proxy(flow));
    for keepalive in [numbered(1_000, 11, b""), numbered(1_000, 11, b"x")] {
        assert_eq!(says(&mut table, &keepalive), Verdict::Keepalive(flow));
        assert_eq!(table.alive(flow), Some(keepalive));
        assert_eq!(table.alive(flow), None, "once");
    }
    // An acknowledgement, retransmitted data and a retransmitted FIN are not keepalives.
    let again = [numbered(1_000, 12, b""), numbered(1_000, 8, b"data"), numbered(1_000, 12, b"")];
    assert!(again.iter().all(|packet| says(&mut table, packet) == Verdict::Proxy(flow)));
    // The host retransmits a segment and then falls silent.
    for packet in [numbered(1_000, 12, b"more"), numbered(1_000, 8, b"data")] {
        assert_eq!(says(&mut table, &packet), Verdict::Proxy(flow));
    }
    for _ in 0..2 {
        assert_eq!(says(&mut table, &numbered(1_000, 15, b"")), Verdict::Keepalive(flow));
    }
    let fin = segment(1, 2, 1_000, |tcp| tcp.ack(1).fin());
    assert_eq!(
        (says(&mut table, &fin), says(&mut table, &fin)),
        (Verdict::Proxy(flow), Verdict::Proxy(flow))
    );
    // The far host wants to know whether this host is alive.
    assert!(table.ask(flow) && !table.ask(Flow(77)));
    assert_eq!(says(&mut table, &numbered(1_000, 12, b"")), Verdict::Alive(flow));
    assert_eq!(says(&mut table, &numbered(1_000, 12, b"")), Verdict::Proxy(flow));
    table.ended(NOW, flow);
    assert!(!table.ask(flow));
}

#[test]
fn segments_of_a_dead_connection_are_answered_and_never_forwarded() {
    let mut table = FlowTable::new(Limits::default());
    let tuple = Segment::parse(&syn(1_000)).unwrap().tuple;
    table.bury(NOW, 0, tuple);
    let Verdict::Answer(Some(answer)) = table.on_packet(NOW, &numbered(1_000, 8, b"x"), |_| Ok(())) else {
        panic!()
    };
    let answer = Segment::parse(&answer).unwrap();
    assert_eq!((answer.tuple, answer.resets, answer.seq), (tuple.reversed(), true, 1));
    let stale = segment(2, 1, 1_000, |tcp| tcp.ack(77));
    assert!(table.on_delivered(&stale).is_some(), "the segment must not reach the host either");
    // Even after hours, the table still treats the connection as dead, though not forever. A new connection
    // with the same ports replaces the entry.
    let later = NOW + Duration::from_secs(20 * 3_600);
    assert!(matches!(table.on_packet(later, &numbered(1_000, 8, b""), |_| Ok(())), Verdict::Answer(_)));
    let (flow, _) = open(&mut table, 1_000);
    table.bury(later, 0, tuple);
    assert_eq!(table.on_packet(NOW, &syn(1_000), |_| Ok(())), Verdict::Held(flow));
    table.bury(NOW, 0, Segment::parse(&syn(1_001)).unwrap().tuple);
    let next_day = NOW + Duration::from_secs(25 * 3_600);
    assert_eq!(table.on_packet(next_day, &numbered(1_001, 8, b""), |_| Ok(())), Verdict::Packet);
}

#[test]
fn ports_of_an_ended_flow_are_free_for_one_that_travels_as_packets() {
    let mut table = FlowTable::new(Limits::default());
    let flow = established(&mut table, 1_000);
    table.ended(NOW, flow);
    let unwanted = |_: &Segment| Err(AsPacket::Policy);
    assert_eq!(table.on_packet(NOW, &syn(1_000), unwanted), Verdict::Packet);
    assert_eq!(table.on_packet(NOW, &numbered(1_000, 8, b"x"), unwanted), Verdict::Packet);
}

#[test]
fn the_journal_says_which_connections_a_host_may_have() {
    let mut table = FlowTable::new(Limits::default());
    let mut lines = Vec::new();
    let follow = |table: &mut FlowTable, lines: &mut Vec<Option<Tuple>>| {
        for (line, tuple) in table.changes() {
            lines.resize(lines.len().max(line as usize + 1), None);
            lines[line as usize] = tuple;
        }
    };
    let (held, _) = open(&mut table, 999);
    let flows = [1_000, 1_001, 1_002].map(|port| established(&mut table, port));
    follow(&mut table, &mut lines);
    let tuple = |port| Some(Segment::parse(&syn(port)).unwrap().tuple);
    assert_eq!(lines, [1_000, 1_001, 1_002].map(tuple), "a held SYN must have no line");
    table.ended(NOW, flows[0]);
    table.refused(NOW, held, Refusal::Reset);
    let later = NOW + Duration::from_secs(61);
    table.on_packet(later, &numbered(1_001, 8, b""), |_| Ok(()));
    follow(&mut table, &mut lines);
    assert_eq!(lines, [None, tuple(1_001), tuple(1_002)]);
    // A new process after a crash starts with a new table.
    let mut table = FlowTable::new(Limits::default());
    table.restore(NOW, lines.iter().copied());
    let dead = |table: &mut FlowTable, port| table.on_packet(NOW, &numbered(port, 8, b""), |_| Ok(()));
    assert!([1_001, 1_002].iter().all(|port| matches!(dead(&mut table, *port), Verdict::Answer(_))));
    assert_eq!(dead(&mut table, 1_000), Verdict::Packet);
    established(&mut table, 1_001);
    established(&mut table, 1_003);
    follow(&mut table, &mut lines);
    let mut known: Vec<_> = lines.into_iter().flatten().map(|tuple| tuple.from.port()).collect();
    known.sort();
    assert_eq!(known, [1_001, 1_002, 1_003], "free lines must be used again");
}

#[test]
fn open_connections_are_restored_from_lines_behind_those_of_ended_ones() {
    let mut table = FlowTable::new(Limits { flows: 2, ..Limits::default() });
    for port in [1, 2] {
        let flow = established(&mut table, port);
        table.ended(NOW, flow);
    }
    for port in [3, 4] {
        established(&mut table, port);
    }
    let mut lines = [None; 4];
    table.changes().into_iter().for_each(|(line, tuple)| lines[line as usize] = tuple);
    let mut table = FlowTable::new(table.limits);
    table.restore(NOW, lines.into_iter());
    for port in [3, 4] {
        let verdict = table.on_packet(NOW, &numbered(port, 8, b""), |_| Ok(()));
        assert!(matches!(verdict, Verdict::Answer(_)), "{port}");
    }
}

#[test]
fn the_namespace_does_not_answer_a_syn_that_comes_before_it_is_known_that_the_last_flow_is_over() {
    for last in [segment(1, 2, 1_000, |tcp| tcp.ack(1).fin()), segment(1, 2, 1_000, |tcp| tcp.rst())] {
        let mut table = FlowTable::new(Limits::default());
        let flow = established(&mut table, 1_000);
        let says = |table: &mut FlowTable, packet: &[u8]| table.on_packet(NOW, packet, |_| Ok(()));
        assert_eq!(says(&mut table, &last), Verdict::Proxy(flow));
        assert_eq!(says(&mut table, &syn(1_000)), Verdict::Held(flow));
        // The connection is still open, so the kernel must answer the SYN with a challenge ACK
        // (RFC 5961 section 4.2).
        assert_eq!(says(&mut table, &syn(1_000)), Verdict::Proxy(flow));
        table.ended(NOW, flow);
        open(&mut table, 1_000);
    }
}

use super::*;
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

#[test]
fn the_far_end_hands_the_answers_of_its_host_to_the_namespace() {
    let mut table = FlowTable::new(Limits::default());
    let request =
        Request { tuple: Segment::parse(&syn(1_000)).unwrap().tuple, ttl: 64, traffic_class: 0, ecn: false };
    let flow = table.connect(NOW, &request).unwrap();
    let answer = segment(2, 1, 1_000, |tcp| tcp.syn().ack(8));
    assert_eq!(table.on_packet(NOW, &answer, |_| Ok(())), Verdict::Proxy(flow));
    assert_eq!(table.connect(NOW, &request), Err(Refusal::Busy), "known already");
    table.connected(flow);
    table.ended(NOW, flow);
    let late = segment(2, 1, 1_000, |tcp| tcp.ack(8));
    assert_eq!(table.on_packet(NOW, &late, |_| Ok(())), Verdict::Proxy(flow), "never as a packet");
    let stale = segment(1, 2, 1_000, |tcp| tcp.ack(77));
    let answer = table.on_delivered(&stale).unwrap();
    let parsed = Segment::parse(&answer).unwrap();
    assert_eq!(
        (parsed.resets, parsed.seq, parsed.ack),
        (true, 77, None),
        "what the stale segment expects next"
    );
    assert_eq!(parsed.tuple, request.tuple.reversed());
    assert_eq!(table.on_delivered(&segment(1, 2, 1_000, |tcp| tcp.rst())), None, "no RST of a RST");
    assert_eq!(table.on_delivered(&syn(1_000)), None);
    assert_eq!(
        table.on_packet(NOW, &late, |_| Ok(())),
        Verdict::Packet,
        "the other end left the ports to packets"
    );
    assert!(table.connect(NOW, &request).is_ok(), "the same ports again");
}

#[test]
fn a_host_that_comes_too_soon_tries_again() {
    let mut table = FlowTable::new(Limits::default());
    let (flow, _) = open(&mut table, 1_000);
    assert_eq!(table.refused(NOW, flow, Refusal::Busy), None);
    assert!(table.is_empty());
    open(&mut table, 1_000);
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
    assert_eq!(table.on_packet(NOW, &syn(1_000), |_| Ok(())), Verdict::Packet, "the next one is a packet");
    let later = NOW + REMEMBERED;
    assert!(matches!(table.on_packet(later, &syn(1_000), |_| Ok(())), Verdict::Open(..)), "for a while");
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
fn what_cannot_be_proxied_travels_as_packets_and_is_counted() {
    let limits = Limits { half_open_per_source: 1, ..Limits::default() };
    let mut table = FlowTable::new(limits);
    let ack = segment(1, 2, 1, |tcp| tcp.ack(1));
    assert_eq!(table.on_packet(NOW, &ack, |_| Ok(())), Verdict::Packet, "open before");
    assert_eq!(table.on_packet(NOW, &syn(1), |_| Err(AsPacket::NotWanted)), Verdict::Packet);
    let md5 = segment(1, 2, 1, |tcp| tcp.syn().options_raw(&[19, 18, 0, 0]).unwrap());
    assert_eq!(table.on_packet(NOW, &md5, |_| Ok(())), Verdict::Packet);
    let accurate = segment(1, 2, 1, |tcp| tcp.syn().ns().ece().cwr());
    assert_eq!(table.on_packet(NOW, &accurate, |_| Ok(())), Verdict::Packet);
    let (flow, _) = open(&mut table, 1);
    assert_eq!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Packet, "one is half open");
    table.accepted(flow).unwrap();
    assert_eq!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Packet, "its handshake goes on");
    table.connected(flow);
    assert!(matches!(table.on_packet(NOW, &syn(2), |_| Ok(())), Verdict::Open(..)));
    for why in [AsPacket::NotWanted, AsPacket::EndToEndOption, AsPacket::AccurateEcn] {
        assert_eq!(count(&table, why), 1, "{}", why.name());
    }
    assert_eq!(count(&table, AsPacket::Limit), 2);
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
    assert_eq!(table.on_packet(NOW, &other, |_| Ok(())), Verdict::Withdrawn(flow), "another sequence number");
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
    assert_eq!(table.on_packet(NOW, &reset, |_| Ok(())), Verdict::Proxy(flow), "it is over already");
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
    assert!(table.entries.len() <= 20 && table.tuples.len() <= 10 && table.remembered.len() <= 10);
}

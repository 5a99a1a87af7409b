use super::*;
use crate::segment::Segment;
use etherparse::PacketBuilder;

type Silent = Sockets<fn(Vec<Event>), fn(&[u8])>;

/// Moves the test's thread into a namespace and creates the sockets there. If this is not possible, prints
/// the reason and returns `None`.
fn sockets() -> Option<(Silent, SocketsHandle)> {
    let made = Sockets::enter(1_400, (|_| ()) as fn(Vec<Event>), (|_| ()) as fn(&[u8]));
    made.inspect_err(|e| println!("SKIPPED no network namespace with a TUN device: {e}")).ok()
}

fn tuple() -> (Tuple, Vec<u8>) {
    let mut syn = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.tcp(1_000, 80, 7, 1_000).syn().write(&mut syn, &[]).unwrap();
    (Segment::parse(&syn).unwrap().tuple, syn)
}

#[test]
fn a_host_has_seventy_seconds_to_complete_its_handshake() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let ((tuple, syn), flow) = (tuple(), Flow(1));
    let since = Instant::now();
    sockets.on_command(Command::Accept { flow, tuple, syn });
    sockets.on_command(Command::Data(flow, b"hello".to_vec()));
    sockets.give_up(since + Duration::from_secs(63));
    assert!(sockets.events.is_empty() && sockets.timeout().is_some());
    sockets.give_up(Instant::now() + Duration::from_secs(70));
    assert_eq!(sockets.events, [Event::Reset(flow)]);
    // The sockets keep no state of the flow.
    assert!(sockets.early.is_empty() && sockets.listeners.values().all(|l| l.pending.is_empty()));
    assert!(sockets.timeout().is_none());
}

#[test]
fn a_syn_that_the_namespace_does_not_take_leaves_no_flow_at_its_listener() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let (flow, tuple) = (Flow(1), tuple().0);
    // The device takes only IP packets.
    sockets.on_command(Command::Accept { flow, tuple, syn: vec![0; 40] });
    assert_eq!(sockets.events, [Event::Failed(flow, false)]);
    assert!(sockets.early.is_empty() && sockets.listeners.values().all(|l| l.pending.is_empty()));
}

#[test]
fn a_connection_that_nobody_answers_fails_before_a_hosts_first_repeat() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let flow = Flow(1);
    let request = Request { tuple: tuple().0, ttl: 64, traffic_class: 0, ecn: false };
    let since = Instant::now();
    sockets.on_command(Command::Connect { flow, request });
    sockets.give_up(since + Duration::from_millis(800));
    assert!(sockets.events.is_empty() && sockets.timeout().is_some());
    sockets.give_up(Instant::now() + Duration::from_millis(999));
    assert_eq!((&sockets.events[..], sockets.connecting.len()), (&[Event::Failed(flow, false)][..], 0));
    assert!(sockets.kinds.is_empty() && sockets.timeout().is_none());
}

/// The host's SYN-ACK, data and RST arrive before the sockets are served.
#[test]
fn a_host_that_resets_at_once_has_answered() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let (flow, tuple) = (Flow(1), tuple().0);
    let request = Request { tuple, ttl: 64, traffic_class: 0, ecn: false };
    sockets.on_command(Command::Connect { flow, request });
    let mut packet = vec![0; PACKET];
    let seq = loop {
        assert!(sockets.namespace.sends_more());
        let n = rustix::io::read(sockets.namespace.tun(), &mut *packet).unwrap();
        if let Some(syn) = Segment::parse(&packet[HEADER..n]) {
            break syn.seq;
        }
    };
    let host = |seq| PacketBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64).tcp(80, 1_000, seq, 1_000);
    let ack = seq.wrapping_add(1);
    let segments = [(host(7).syn().ack(ack), ""), (host(8).ack(ack), "busy"), (host(12).rst(), "")];
    for (tcp, data) in segments {
        let mut packet = vec![0; HEADER];
        tcp.write(&mut packet, data.as_bytes()).unwrap();
        rustix::io::write(sockets.namespace.tun(), &packet).unwrap();
    }
    sockets.on_connect(flow);
    sockets.on_command(Command::Credit(flow, 4));
    sockets.turn();
    let data = Event::Data(flow, b"busy".to_vec());
    assert_eq!(sockets.events, [Event::Connected(flow), data, Event::Reset(flow)]);
}

#[test]
fn a_host_listens_on_and_connects_from_the_same_port() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let (tuple, syn) = tuple();
    for (n, listens_first) in [(1u16, true), (2, false)] {
        let host = SocketAddr::new(tuple.to.ip(), 80 + n);
        let accept = Command::Accept { flow: Flow(0), tuple: Tuple { to: host, ..tuple }, syn: syn.clone() };
        let connects = Tuple { from: host, to: SocketAddr::new(tuple.from.ip(), 2_000) };
        let request = Request { tuple: connects, ttl: 64, traffic_class: 0, ecn: false };
        let mut commands = [accept, Command::Connect { flow: Flow(n.into()), request }];
        if !listens_first {
            commands.reverse();
        }
        commands.into_iter().for_each(|command| sockets.on_command(command));
        assert_eq!(sockets.events, []);
    }
    assert_eq!((sockets.listeners.len(), sockets.connecting.len()), (2, 2));
}

/// A host may use its port again before the other end has reset the old flow.
#[test]
fn the_reset_of_an_old_flow_leaves_a_new_flow_with_the_same_ports_at_its_listener() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let (tuple, syn) = tuple();
    for flow in [Flow(1), Flow(2)] {
        sockets.on_command(Command::Accept { flow, tuple, syn: syn.clone() });
    }
    sockets.on_command(Command::Reset(Flow(1)));
    assert_eq!(sockets.listeners[&tuple.to].pending[&tuple.from], Flow(2));
    sockets.on_command(Command::Reset(Flow(2)));
    assert!(sockets.early.is_empty() && sockets.listeners[&tuple.to].pending.is_empty());
}

#[test]
fn listeners_of_flows_that_are_over_do_not_pile_up() {
    let Some((mut sockets, _handle)) = sockets() else { return };
    let used = Flow(0);
    let (tuple, syn) = tuple();
    sockets.on_command(Command::Accept { flow: used, tuple, syn: syn.clone() });
    for n in 1..1_500u16 {
        let (flow, to) = (Flow(n.into()), SocketAddr::new(tuple.to.ip(), 1_000 + n));
        sockets.on_command(Command::Accept { flow, tuple: Tuple { to, ..tuple }, syn: syn.clone() });
        sockets.on_command(Command::Reset(flow));
    }
    assert!(sockets.listeners.len() <= LISTENERS, "{}", sockets.listeners.len());
    assert!(sockets.listeners.contains_key(&tuple.to), "a listener in use must not be closed");
    assert_eq!(sockets.events, []);
}

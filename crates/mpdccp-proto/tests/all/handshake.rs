//! The multipath handshake on the wire (RFC 9897 section 3.3).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::{MpOption, Opt, PacketType, Seq};
use hmac::{Hmac, Mac};
use mpdccp_proto::*;
use mpdccp_units::Duration;
use sha2::Sha256;

/// Computes an HMAC-SHA256, independently of the code under test.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes()[..20].to_vec()
}

fn mp_key(l: &Logged) -> (u32, Vec<u8>) {
    match l.mp()[..] {
        [MpOption::Key { ci, keys }, MpOption::Exp(_)] => {
            assert_eq!((keys.len(), keys[0]), (9, 0), "MP_KEY must have one key of type 0");
            (ci, keys[1..].to_vec())
        }
        ref other => panic!("{other:?}"),
    }
}

fn has(l: &Logged, wanted: Opt<'_>) -> bool {
    l.packet().options().any(|o| o == Ok(wanted))
}

#[test]
fn byte_for_byte() {
    let (net, id) = Net::connected(1, 2, config());
    let on = |p: usize| net.log.iter().filter(move |l| l.path == p).collect::<Vec<_>>();
    let [request, response, ack, confirm] = on(0)[..4] else { panic!() };
    assert!(request.is(Client, PacketType::Request) && has(request, Opt::ChangeR(10, &[0])));
    assert!(response.is(Server, PacketType::Response) && has(response, Opt::ConfirmL(10, &[0, 0])));
    assert!(ack.is(Client, PacketType::Ack) && ack.mp().is_empty());
    assert!(confirm.is(Server, PacketType::Ack), "the server must confirm with an Ack");
    let ((ci_a, key_a), (ci_b, key_b)) = (mp_key(request), mp_key(response));
    assert_eq!(net.status(Client, id).ci, (ci_a, ci_b));
    assert_ne!(key_a, key_b);

    let [request, response, ack, last] = on(1)[..4] else { panic!() };
    assert!(request.at >= confirm.at + Duration::from_millis(10), "joins must wait for the confirming Ack");
    assert!(request.is(Client, PacketType::Request) && has(request, Opt::ChangeR(10, &[0])));
    let [MpOption::Join { addr_id: 1, ci, nonce: ra }] = request.mp()[..] else {
        panic!("{:?}", request.mp())
    };
    assert_eq!(ci, ci_b, "MP_JOIN must carry the peer's identifier");
    assert!(response.is(Server, PacketType::Response) && has(response, Opt::ConfirmL(10, &[0, 0])));
    let [MpOption::Join { addr_id: 0, ci, nonce: rb }, MpOption::Hmac(tag_b)] = response.mp()[..] else {
        panic!("{:?}", response.mp())
    };
    assert_eq!(ci, ci_a);
    let [MpOption::Hmac(tag_a)] = ack.mp()[..] else { panic!("{:?}", ack.mp()) };
    let (ra, rb) = (ra.to_be_bytes(), rb.to_be_bytes());
    assert_eq!(tag_b[..], hmac(&[key_b.clone(), key_a.clone()].concat(), &[rb, ra].concat()));
    assert_eq!(tag_a[..], hmac(&[key_a, key_b].concat(), &[ra, rb].concat()));
    assert!(last.is(Server, PacketType::Ack));
}

/// RFC 9897 section 3.2.4: the server chooses one of the client's key types. All HMACs, MP_CLOSE and
/// MP_FAST_CLOSE then use it.
#[test]
fn key_type_255_is_used_where_both_ends_want_it() {
    let types = |types: &[KeyType]| SessionConfig { key_types: types.to_vec(), ..config() };
    let (plain, experimental) = (KeyType::Plain, KeyType::Experimental);
    for (client, server, agreed) in [
        (vec![plain, experimental], vec![experimental, plain], 255),
        (vec![experimental], vec![plain, experimental], 255),
        (vec![experimental, plain], vec![plain], 0),
    ] {
        let mut net = Net::new(1, 2, types(&server));
        let id = net.connect(types(&client));
        net.run(Duration::from_millis(500));
        let on = |p: usize| net.log.iter().filter(move |l| l.path == p).collect::<Vec<_>>();
        let keys = |l: &Logged| match l.mp()[0] {
            MpOption::Key { keys, .. } => keys.to_vec(),
            ref other => panic!("{other:?}"),
        };
        let [request, response, ..] = on(0)[..] else { panic!() };
        let (offered, key_b) = (keys(request), keys(response));
        assert_eq!(MpOption::keys(&offered).count(), client.len());
        assert_eq!((key_b[0], key_b.len()), (agreed, if agreed == 255 { 65 } else { 9 }));
        let wanted = KeyType::from_number(agreed);
        let key_a = MpOption::keys(&offered).find(|(kind, _)| *kind == wanted).unwrap().1;
        let [request, response, ack, ..] = on(1)[..] else { panic!() };
        let [MpOption::Join { nonce: ra, .. }] = request.mp()[..] else { panic!() };
        let [MpOption::Join { nonce: rb, .. }, MpOption::Hmac(tag_b)] = response.mp()[..] else { panic!() };
        let [MpOption::Hmac(tag_a)] = ack.mp()[..] else { panic!() };
        let (ra, rb) = (ra.to_be_bytes(), rb.to_be_bytes());
        assert_eq!(tag_a[..], hmac(&[key_a, &key_b[1..]].concat(), &[ra, rb].concat()));
        assert_eq!(tag_b[..], hmac(&[&key_b[1..], key_a].concat(), &[rb, ra].concat()));
        net.client.close(net.now, id);
        net.drain();
        let close = net.logged(Client, PacketType::Close)[0];
        assert!(close.mp().contains(&MpOption::Close(&key_b[1..])), "{:?}", close.mp());
        net.run(Duration::from_secs(1));
        assert_eq!(net.closed_reason(Server).as_deref(), Some("closed_by_peer"));
    }
}

/// RFC 9897 section 3.6: without a common key type, there is no multipath.
#[test]
fn no_key_type_in_common() {
    for (client, server) in [(KeyType::Plain, KeyType::Experimental), (KeyType::Experimental, KeyType::Plain)]
    {
        let mut net = Net::new(1, 1, SessionConfig { key_types: vec![server], ..config() });
        net.connect(SessionConfig { key_types: vec![client], ..config() });
        net.run(Duration::from_millis(300));
        assert!(net.closed_reason(Client).is_some());
    }
}

#[test]
fn data_flows_over_two_paths() {
    let (mut net, id) = Net::connected(1, 2, config());
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    let sid = net.server_id();
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Up]);
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
    // MP_SEQ comes first on every Data and DataAck. All paths share one number space, and all Data headers
    // have the same size.
    let data: Vec<_> = net
        .log
        .iter()
        .filter(|l| {
            l.from == Client
                && matches!(l.packet().header.ptype, PacketType::Data | PacketType::DataAck)
                && !l.packet().payload.is_empty()
        })
        .collect();
    let seq = |l: &Logged| match l.packet().options().next() {
        Some(Ok(Opt::Mp(MpOption::Seq(seq)))) => seq,
        other => panic!("{other:?}"),
    };
    let first = seq(data[0]);
    let numbers: Vec<_> = data.iter().map(|l| seq(l)).collect();
    assert_eq!(numbers, (0..200).map(|n| first.add(n)).collect::<Vec<_>>());
    assert!(data.iter().all(|l| l.packet().header.ptype == PacketType::Data && l.bytes.len() == 1000 + 28));
    assert!(
        [0, 1].iter().all(|p| data.iter().filter(|l| l.path == *p).count() > 50),
        "both paths must carry data"
    );
    assert_eq!(net.status(Server, sid).reorder.in_order, 200);
}

#[test]
fn keys_identifiers_nonces_and_numbers_are_random() {
    let seen = |seed| {
        let (mut net, id) = Net::connected(seed, 2, config());
        net.stream(Client, id, 0, 1, Duration::from_millis(1));
        let request = net.logged(Client, PacketType::Request);
        let MpOption::Join { nonce, .. } = request[1].mp()[0] else { panic!() };
        let data = net.logged(Client, PacketType::Data);
        let MpOption::Seq(seq) = data[0].mp()[0] else { panic!() };
        (mp_key(request[0]), nonce, seq)
    };
    let (a, b) = (seen(1), seen(2));
    assert_ne!(a.0.0, b.0.0);
    assert_ne!(a.0.1, b.0.1);
    assert_ne!(a.1, b.1);
    assert_ne!(a.2, b.2);
    assert!(a.2 != Seq::new(0) && a.2 != Seq::new(1));
}

#[test]
fn many_paths_open_over_a_lossy_network() {
    let mut net = Net::new(3, 4, config());
    net.wires.iter_mut().for_each(|w| w.loss = 250);
    let id = net.connect(config());
    net.run(Duration::from_secs(60));
    net.wires.iter_mut().for_each(|w| w.loss = 0);
    net.run(Duration::from_secs(3));
    assert_eq!(net.state(Client, id), [PathState::Up; 4]);
    net.stream(Client, id, 0, 100, Duration::from_millis(20));
    net.run(Duration::from_secs(1));
    assert_eq!(net.numbers(Server), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_route_may_have_several_sessions() {
    let (mut net, first) = Net::connected(1, 1, config());
    // A second session requests the same ports, so the endpoint assigns different ones.
    let second = net.connect(config());
    net.run(Duration::from_millis(200));
    assert_eq!(net.server.sessions().len(), 2);
    net.stream(Client, first, 0, 5, Duration::from_millis(1));
    net.stream(Client, second, 5, 5, Duration::from_millis(1));
    net.run(Duration::from_millis(100));
    let mut numbers = net.numbers(Server);
    numbers.sort();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    assert_ne!(net.status(Client, first).paths[0].ports, net.status(Client, second).paths[0].ports);
}

/// The first attempt reaches another mpdccp, and the second one an implementation without private options.
#[test]
fn the_capabilities_of_an_earlier_attempts_peer_are_forgotten() {
    let cfg = SessionConfig { streams: true, ..config() };
    let mut net = Net::new(1, 2, cfg.clone());
    net.meddler = Some(Box::new(|from, path, bytes| match (from, path) {
        (Server, 0) => is_type(bytes, PacketType::Response),
        (Server, _) if is_type(bytes, PacketType::Response) => spoil(bytes, 11, 3),
        _ => true,
    }));
    let id = net.connect(cfg);
    net.run(Duration::from_secs(5));
    assert_eq!(net.status(Client, id).state, SessionState::Open);
    assert!(net.client.streams(net.now, id, |_| ()).is_none());
}

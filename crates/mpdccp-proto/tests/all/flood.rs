//! Init Cookies (RFC 4340 section 8.1.4). A listener under load keeps no state for a Request, and admits a
//! client that returns its cookie.

use crate::common::End::{Client, Server};
use crate::common::stranger::{request_header, request_with, stranger};
use crate::common::*;
use dccp_proto::{Config, Ecn, PADDED_REQUEST, Ports, Route};
use dccp_wire::{Header, Opt, Packet, PacketType, ResetCode, Seq};
use mpdccp_proto::*;
use mpdccp_units::Duration;
use std::net::SocketAddr;

/// Returns settings with padded Requests, as sent by mpdccp programs to an unknown listener.
fn plain() -> SessionConfig {
    let connection = Config { least_request: PADDED_REQUEST, ..config().connection };
    SessionConfig { fallback: Fallback::Plain, connection, ..config() }
}

/// Returns settings with unpadded Requests, as sent by Linux.
fn unpadded() -> SessionConfig {
    SessionConfig { connection: config().connection, ..plain() }
}

fn flood(net: &mut Net, numbers: std::ops::Range<u32>) {
    for n in numbers {
        net.inject(Server, stranger(n), Ecn::NotEct, &request_with(n, &[]));
    }
    net.drain();
}

/// Opens another session from the client.
fn connect_again(net: &mut Net, cfg: SessionConfig, port: u16) -> SessionId {
    let ports = Ports { local: port, remote: PORT };
    let id = net.client.connect(net.now, cfg, PathConfig { ports, ..path(0) });
    net.drain();
    id
}

fn opened(net: &Net, id: SessionId) -> bool {
    net.events.iter().any(|(end, session, event)| {
        (*end, *session) == (Client, id) && matches!(event, SessionEvent::Opened { .. })
    })
}

/// 50,000 forged Requests arrive in one second. The existing session loses nothing, and other sessions can
/// still be opened, with and without multipath.
#[test]
fn a_flood_of_requests_locks_nobody_out() {
    let (mut net, first) = Net::connected(1, 1, plain());
    let mut others = Vec::new();
    for ms in 0..1000u32 {
        flood(&mut net, ms * 50..ms * 50 + 50);
        if ms == 200 {
            let multipath = connect_again(&mut net, plain(), 50_100);
            let single = connect_again(&mut net, SessionConfig { multipath: false, ..plain() }, 50_200);
            others.extend([multipath, single]);
        }
        if ms % 5 == 0 && ms < 900 {
            net.client.send(net.now, first, datagram(ms / 5), PktInfo::default());
        }
        net.run(Duration::from_millis(1));
    }
    assert_eq!(net.numbers(Server), (0..180).collect::<Vec<_>>());
    assert!(others.iter().all(|id| opened(&net, *id)), "{:?}", net.events);
    assert_eq!(counted(&net.server.stats().counters, "opened_by_cookie"), 2);
    // There are 64 half-open and three open sessions.
    assert_eq!(net.server.sessions().len(), 67);
    for (number, id) in (2_000..).zip(others) {
        net.client.send(net.now, id, datagram(number), PktInfo::default());
    }
    net.run(Duration::from_millis(100));
    let numbers = net.numbers(Server);
    assert!(numbers.contains(&2_000) && numbers.contains(&2_001), "{numbers:?}");
}

/// Returns a client's Ack with its cookie, which the network has not carried yet. At this time, 64 other
/// sessions are half open.
fn held_back() -> (Net, Route, Vec<u8>) {
    let mut net = Net::new(1, 1, plain());
    flood(&mut net, 0..64);
    net.meddler = Some(Box::new(|from, _, bytes| from == Server || is_type(bytes, PacketType::Request)));
    net.connect(plain());
    net.run(Duration::from_millis(30));
    let mut acks = net.log.iter().filter(|logged| logged.is(Client, PacketType::Ack));
    let ack = acks.next().expect("an Ack").bytes.clone();
    net.meddler = None;
    (net, server_route(0), ack)
}

/// Sends the Ack, and returns the number of bad cookies and the code of the last Reset.
fn try_with(net: &mut Net, route: Route, bytes: &[u8]) -> (u64, Option<ResetCode>) {
    net.log.clear();
    net.inject(Server, route, Ecn::NotEct, bytes);
    net.drain();
    let resets = net.logged(Server, PacketType::Reset);
    let code = resets.last().map(|reset| reset.packet().header.reset.unwrap().code);
    (counted(&net.server.stats().counters, "bad_init_cookie"), code)
}

#[test]
fn a_cookie_opens_one_session_once() {
    let (mut net, route, ack) = held_back();
    assert_eq!(net.server.sessions().len(), 64, "the server must keep no state of the Request");
    assert_eq!(try_with(&mut net, route, &ack), (0, None));
    assert_eq!(net.server.sessions().len(), 65);
    assert_eq!(try_with(&mut net, route, &ack).0, 0);
    assert_eq!(net.server.sessions().len(), 65);
    // A copy of the Ack arrives after the session has ended.
    net.run(Duration::from_millis(100));
    let id = net.client.sessions()[0];
    net.client.close(net.now, id);
    net.run(Duration::from_secs(1));
    assert_eq!(net.server.sessions().len(), 64);
    assert_eq!(try_with(&mut net, route, &ack), (0, Some(ResetCode::NoConnection)));
    assert_eq!(net.server.sessions().len(), 64);
}

/// The client's Syncs also carry the cookie. If a Sync arrives without the Ack, the server must wait for the
/// next Ack.
#[test]
fn a_sync_before_the_cookies_ack_ends_nothing() {
    let mut net = Net::new(1, 1, plain());
    flood(&mut net, 0..64);
    net.meddler = Some(Box::new(|from, _, bytes| from == Server || !is_type(bytes, PacketType::Ack)));
    let id = net.connect(SessionConfig { multipath: false, ..plain() });
    net.run(Duration::from_millis(500));
    net.meddler = None;
    net.run(Duration::from_secs(2));
    assert_eq!(net.status(Client, id).state, SessionState::Open);
    assert!(counted(&net.server.stats().counters, "sync_before_cookie") > 0);
    assert_eq!(counted(&net.server.stats().counters, "opened_by_cookie"), 1);
}

#[test]
fn a_cookie_that_was_tampered_with_gets_reset_10() {
    let (mut net, route, ack) = held_back();
    let packet = Packet::parse(&ack).unwrap();
    let cookie = packet.options().flatten().find_map(|option| match option {
        Opt::InitCookie(value) => {
            Some(value.as_ptr() as usize - ack.as_ptr() as usize..).map(|r| r.start..r.start + value.len())
        }
        _ => None,
    });
    let mut bad = 0;
    for at in cookie.expect("the Ack carries a cookie") {
        let mut forged = ack.clone();
        forged[at] ^= 1;
        bad += 1;
        let (count, code) = try_with(&mut net, route, &forged);
        assert_eq!(count, bad, "byte {at}");
        // The limit per address and port suppresses most Resets.
        assert!(code.is_none_or(|code| code == ResetCode::BadInitCookie));
        assert!(bad > 1 || code.is_some());
    }
    assert_eq!(net.server.sessions().len(), 64);
}

#[test]
fn a_cookie_is_good_for_one_client_and_one_response_and_half_a_minute() {
    let (mut net, route, ack) = held_back();
    let elsewhere = Route { remote: SocketAddr::new(client_addr(0), 40_001), ..route };
    assert_eq!(
        try_with(&mut net, elsewhere, &ack),
        (1, Some(ResetCode::BadInitCookie)),
        "a cookie from another address is invalid"
    );

    let packet = Packet::parse(&ack).unwrap();
    let with = |change: &dyn Fn(&mut Header)| {
        let mut header = packet.header;
        change(&mut header);
        emit(&header, packet.option_bytes, packet.payload)
    };
    let other_port = with(&|header| header.src_port += 1);
    assert_eq!(
        try_with(&mut net, route, &other_port),
        (2, Some(ResetCode::BadInitCookie)),
        "a cookie from another port is invalid"
    );
    let other_ack = with(&|header| header.ack = header.ack.map(Seq::next));
    assert_eq!(
        try_with(&mut net, route, &other_ack),
        (3, Some(ResetCode::BadInitCookie)),
        "another Response"
    );
    // RFC 4340 section 8.1.4: a cookie on Data is ignored.
    let data = with(&|header| (header.ptype, header.ack) = (PacketType::Data, None));
    assert_eq!(try_with(&mut net, route, &data), (3, Some(ResetCode::NoConnection)), "on Data");
    assert_eq!(net.server.sessions().len(), 64);

    let late = net.now + Duration::from_secs(31);
    net.server.handle_datagram(late, &route, Ecn::NotEct, ack.len() as u32 + 28, &ack);
    assert_eq!(
        counted(&net.server.stats().counters, "bad_init_cookie"),
        4,
        "a cookie older than 30 s is invalid"
    );
}

#[test]
fn a_request_too_long_for_a_cookie_is_refused() {
    let mut net = Net::new(1, 1, plain());
    flood(&mut net, 0..64);
    let long = [2; 240]; // Slow Receiver
    net.inject(Server, stranger(64), Ecn::NotEct, &request_with(64, &long));
    assert_eq!(counted(&net.server.stats().counters, "too_long_for_a_cookie"), 1);
    assert_eq!(net.server.sessions().len(), 64);
}

/// Creates a network in which one source may have two of the 16 sessions, and in which the client has two
/// addresses.
fn two_for_a_source() -> Net {
    let mut net = Net::new(1, 2, plain());
    net.server.listen(ListenConfig { max_sessions: 16, max_sessions_per_source: 2, ..listen(plain()) });
    net
}

fn connect_from(net: &mut Net, address: usize, port: u16) -> (SessionId, bool) {
    let ports = Ports { local: port, remote: PORT };
    let cfg = SessionConfig { multipath: false, ..plain() };
    let id = net.client.connect(net.now, cfg, PathConfig { ports, ..path(address) });
    net.run(Duration::from_millis(200));
    (id, opened(net, id))
}

/// A source that completes its handshakes, unlike the sources of forged Requests, gets only its share.
#[test]
fn one_source_cannot_take_all_sessions() {
    let mut net = two_for_a_source();
    let (first, open) = connect_from(&mut net, 0, 50_000);
    assert!(open && connect_from(&mut net, 0, 50_001).1);
    assert!(!connect_from(&mut net, 0, 50_002).1);
    assert_eq!(counted(&net.server.stats().counters, "too_many_sessions_of_source"), 1);
    let resets = net.logged(Server, PacketType::Reset);
    assert_eq!(resets.last().unwrap().packet().header.reset.unwrap().code, ResetCode::TooBusy);
    assert!(connect_from(&mut net, 1, 50_003).1, "another source has sessions of its own");
    // Listening again keeps the existing counts.
    net.server.unlisten(PORT);
    net.server.listen(ListenConfig { max_sessions: 16, max_sessions_per_source: 2, ..listen(plain()) });
    assert!(!connect_from(&mut net, 0, 50_004).1);
    net.client.close(net.now, first);
    net.run(Duration::from_secs(1));
    assert!(connect_from(&mut net, 0, 50_005).1, "after one session ended, another may open");
}

/// Authenticated peers that are not listed may connect if the listener allows it. The limit per source
/// applies to them, because a new key costs nothing.
#[test]
fn vouched_strangers_have_the_places_of_their_source() {
    for (strangers, places) in [(false, 0), (true, 2)] {
        let mut net = two_for_a_source();
        net.server.listen(ListenConfig {
            strangers,
            max_sessions_per_source: 2,
            peers: Vec::new(),
            ..listen(plain())
        });
        let open = (0..3).filter(|n| {
            net.vouched = vec![77 + u32::from(*n)];
            connect_from(&mut net, 0, 50_000 + *n).1
        });
        assert_eq!(open.count(), places);
    }
}

/// A few sources together cannot take all sessions, because a source's limit shrinks as sessions are taken.
#[test]
fn few_sources_cannot_take_all_sessions() {
    let mut net = Net::new(1, 5, plain());
    net.server.listen(ListenConfig { max_sessions: 16, max_sessions_per_source: 4, ..listen(plain()) });
    for (address, own) in [4, 3, 2, 2].into_iter().enumerate() {
        let opened = (0..5).filter(|n| connect_from(&mut net, address, 50_000 + *n).1).count();
        assert_eq!(opened, own, "address {address}");
    }
    assert!(connect_from(&mut net, 4, 50_000).1);
}

/// Requests with a forged source take up at most two of that source's sessions, and do not keep out the
/// source itself.
#[test]
fn forged_requests_do_not_shut_their_source_out() {
    let mut net = two_for_a_source();
    for port in 0..10 {
        let route = Route { remote: SocketAddr::new(client_addr(0), 1_000 + port), ..stranger(0) };
        net.inject(Server, route, Ecn::NotEct, &request_with(u32::from(port), &[]));
    }
    net.drain();
    assert_eq!(net.server.sessions().len(), 2);
    assert_eq!(counted(&net.server.stats().counters, "answered_with_cookie"), 8);
    assert!(connect_from(&mut net, 0, 50_000).1);
    assert_eq!(counted(&net.server.stats().counters, "opened_by_cookie"), 1);
}

/// The 2^64 addresses that an IPv6 host owns count as one source.
#[test]
fn an_ipv6_source_is_its_network() {
    let mut net = two_for_a_source();
    for (number, address) in ["fd00::1", "fd00::2", "fd00::3", "fd00:0:0:1::1"].into_iter().enumerate() {
        let route = Route { remote: SocketAddr::new(address.parse().unwrap(), 1_000), ..stranger(0) };
        net.inject(Server, route, Ecn::NotEct, &request_with(number as u32, &[]));
    }
    assert_eq!(net.server.sessions().len(), 3);
    assert_eq!(counted(&net.server.stats().counters, "answered_with_cookie"), 1);
}

/// RFC 4340 section 8.1.3: a listener that keeps no state cannot keep the data of a Request, so it reports
/// the data as dropped.
#[test]
fn data_on_a_request_that_is_answered_with_a_cookie_is_reported_as_dropped() {
    for crowded in [false, true] {
        let connection = Config { early_data: true, ..plain().connection };
        let mut net = Net::new(1, 1, SessionConfig { multipath: false, connection, ..plain() });
        flood(&mut net, 0..if crowded { 64 } else { 0 });
        net.log.clear();
        net.connect(SessionConfig { multipath: false, early_data: b"early".to_vec(), ..plain() });
        net.run(Duration::from_millis(200));
        assert_eq!(counted(&net.server.stats().counters, "opened_by_cookie"), u64::from(crowded));
        let response = net.logged(Server, PacketType::Response)[0].packet();
        let dropped =
            response.options().any(|o| matches!(o, Ok(Opt::DataDropped(blocks)) if blocks == [0x80]));
        let got = net.got.get(&Server).is_some_and(|got| got.contains(&b"early".to_vec()));
        assert_eq!((dropped, got), (crowded, !crowded));
    }
}

/// The owner never learns of a session that does not open, so nothing would end what it keeps for the data.
#[test]
fn data_on_a_request_waits_until_the_session_opens() {
    let connection = Config { early_data: true, ..plain().connection };
    let mut net = Net::new(1, 1, SessionConfig { multipath: false, connection, ..plain() });
    net.meddler = Some(Box::new(|from, _, bytes| from == Server || is_type(bytes, PacketType::Request)));
    net.connect(SessionConfig { multipath: false, early_data: b"early".to_vec(), ..plain() });
    net.run(Duration::from_millis(200));
    assert_eq!(net.server.sessions().len(), 1);
    net.run(Duration::from_secs(600));
    assert!(net.server.sessions().is_empty() && !net.got.contains_key(&Server));
}

/// Returns the number of IP bytes that one end has sent so far.
fn sent(net: &Net, from: End) -> usize {
    net.log.iter().filter(|logged| logged.from == from).map(|logged| logged.bytes.len() + 28).sum()
}

/// No answer to a padded Request is larger than the Request, with and without multipath, with state or with a
/// cookie, and also if the server adds a little data.
#[test]
fn a_padded_request_has_an_answer_no_larger() {
    for crowded in [false, true] {
        for multipath in [false, true] {
            let long = SessionConfig { early_data: vec![7; 80], ..plain() };
            let mut net = Net::new(1, 1, long);
            let here = if crowded { 64 } else { 0 };
            flood(&mut net, 0..here);
            net.log.clear();
            let client = SessionConfig { multipath, ..plain() };
            let client =
                SessionConfig { connection: Config { early_data: true, ..client.connection }, ..client };
            let id = net.connect(client);
            net.run(Duration::from_millis(200));
            let length = |end, ptype| net.logged(end, ptype).first().map(|logged| logged.bytes.len());
            let (asked, answered) =
                (length(Client, PacketType::Request), length(Server, PacketType::Response));
            assert!(
                answered <= asked && answered.is_some(),
                "a packet of {asked:?} bytes got an answer of {answered:?} bytes"
            );
            assert!(opened(&net, id), "crowded: {crowded}, multipath: {multipath}");
            assert_eq!(counted(&net.server.stats().counters, "opened_by_cookie"), u64::from(crowded));
        }
    }
}

/// For two seconds, unpadded Requests arrive, both new and repeated, along with packets that belong to no
/// connection. All answers together have at most as many bytes as these packets, plus the allowance for that
/// time. Each answer has at most three times as many bytes as the packet that it answers. Clients that pad
/// their Requests are admitted.
#[test]
fn answers_to_forged_addresses_are_bounded_in_all() {
    let mut net = Net::new(1, 1, plain());
    let (mut asked, mut answered) = (0, 0);
    let mut id = None;
    for ms in 0..2_000 {
        for n in 0..10 {
            let number = ms * 10 + n;
            // The first 64 clients are half open and repeat their Requests.
            let (from, mut bytes) = match n {
                0 => (stranger(number % 64), request_with(number % 64, &[])),
                _ => (stranger(number), request_with(number, &[])),
            };
            if n == 1 {
                bytes = short_data();
            }
            let before = sent(&net, Server);
            net.inject(Server, from, Ecn::NotEct, &bytes);
            net.drain();
            let answer = sent(&net, Server) - before;
            assert!(
                answer <= 3 * (bytes.len() + 28),
                "an answer of {answer} bytes to a packet of {} bytes",
                bytes.len() + 28
            );
            (asked, answered) = (asked + bytes.len() + 28, answered + answer);
        }
        if ms == 1_000 {
            id = Some(net.connect(plain()));
        }
        net.run(Duration::from_millis(1));
    }
    assert!(answered > asked / 10, "{asked} bytes got answers of {answered} bytes");
    // The limit is the burst, plus the allowance of two seconds.
    let excess = answered as i64 - asked as i64;
    assert!(excess < 3 * (128 << 10), "{asked} bytes got answers of {answered} bytes");
    assert!(counted(&net.server.stats().counters, "answer_too_large") > 1_000);
    assert!(opened(&net, id.expect("this client connects")));
}

/// Returns the smallest packet that belongs to no connection: Data with a short sequence number.
fn short_data() -> Vec<u8> {
    let header = Header { ptype: PacketType::Data, short: true, service_code: None, ..request_header(9) };
    emit(&header, &[], &[])
}

#[test]
fn a_client_that_does_not_pad_connects() {
    for multipath in [false, true] {
        let mut net = Net::new(1, 1, plain());
        let id = net.connect(SessionConfig { multipath, ..unpadded() });
        net.run(Duration::from_millis(200));
        assert!(opened(&net, id), "multipath: {multipath}");
        flood(&mut net, 0..64);
        let again = connect_again(&mut net, SessionConfig { multipath, ..unpadded() }, 50_100);
        net.run(Duration::from_millis(200));
        assert!(opened(&net, again), "with a cookie, multipath: {multipath}");
    }
}

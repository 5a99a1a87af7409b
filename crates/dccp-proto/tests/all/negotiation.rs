//! Negotiation between two connections, and with Linux.

use crate::captures::capture;
use crate::common::*;
use dccp_proto::Side;
use dccp_proto::{CloseReason, Config, Connection, Event, Outcome, State};
use dccp_wire::{Header, Opt, Packet, PacketType, ResetCode, feature};
use mpdccp_units::{Duration, Time};

fn negotiated(client: Config, server: Config) -> Net {
    let mut net = Net::open(client, server);
    // Both ends agree on every feature.
    for number in 1..=10 {
        for (side, other) in [(Side::Local, Side::Remote), (Side::Remote, Side::Local)] {
            let (c, s) = (net.end(CLIENT).feature(number, side), net.end(SERVER).feature(number, other));
            assert_eq!(c, s, "feature {number}");
        }
    }
    net
}

#[test]
fn ccids_are_chosen_for_each_direction_by_the_server() {
    #[allow(clippy::type_complexity)]
    let table: [(&[u8], &[u8], &[u8], &[u8], (u8, u8)); 6] = [
        // CCIDs of the client's tx and rx and of the server's tx and rx, and the client's (tx, rx) after
        // negotiation.
        (&[2], &[2, 5], &[2], &[2, 5], (2, 2)),
        (&[5, 2], &[5, 2], &[5, 2], &[5, 2], (5, 5)),
        (&[5, 2], &[2], &[5, 2], &[2, 5], (2, 2)),
        (&[5], &[2, 5], &[2], &[2, 5], (5, 2)),
        (&[2], &[5, 2], &[5, 2], &[5, 2], (2, 5)),
        (&[5], &[5], &[5], &[5], (5, 5)),
    ];
    for (ct, cr, st, sr, (tx, rx)) in table {
        let client = Config { tx_ccids: ct.into(), rx_ccids: cr.into(), ..Config::default() };
        let server = Config { tx_ccids: st.into(), rx_ccids: sr.into(), ..Config::default() };
        let mut net = negotiated(client, server);
        assert_eq!(net.end(CLIENT).ccids(), Some((tx, rx)));
        assert_eq!(net.end(SERVER).ccids(), Some((rx, tx)));
        for side in [CLIENT, SERVER] {
            for at in [Side::Local, Side::Remote] {
                assert_eq!(net.end(side).feature(feature::SEND_ACK_VECTOR, at), 1);
            }
        }
        net.send(CLIENT, b"a");
        net.send(SERVER, b"b");
        net.run(Duration::from_secs(1));
        assert_eq!((&net.delivered[SERVER][0][..], &net.delivered[CLIENT][0][..]), (&b"a"[..], &b"b"[..]));
    }
}

#[test]
fn no_common_ccid_is_a_mandatory_error() {
    let client = Config { tx_ccids: vec![5], ..Config::default() };
    let mut net = Net::new(client, Config { rx_ccids: vec![2], ..Config::default() });
    net.run(Duration::from_secs(1));
    assert_eq!(net.events[CLIENT], [Event::Closed(CloseReason::Reset(ResetCode::MandatoryError))]);
    let reset = net.last(SERVER).packet().header.reset.unwrap();
    // The Reset's data identifies the Change L, the feature, and the first value of the option.
    assert_eq!(reset.data, [32, feature::CCID, 5]);
}

#[test]
fn settings_reach_the_other_end() {
    let client = Config {
        seq_window: 2000,
        ack_ratio: 4,
        ndp_count: true,
        check_data_checksum: true,
        allow_short_seqnos: true,
        ..Config::default()
    };
    let mut net = negotiated(client, Config { seq_window: 300, ..Config::default() });
    let server = net.end(SERVER);
    assert_eq!(server.feature(feature::SEQUENCE_WINDOW, Side::Remote), 2000);
    assert_eq!(server.feature(feature::SEQUENCE_WINDOW, Side::Local), 300);
    assert_eq!(server.feature(feature::ACK_RATIO, Side::Remote), 4);
    assert_eq!(server.feature(feature::SEND_NDP_COUNT, Side::Local), 1);
    assert_eq!(server.feature(feature::SEND_NDP_COUNT, Side::Remote), 0);
    assert_eq!(server.feature(feature::CHECK_DATA_CHECKSUM, Side::Local), 1);
    assert_eq!(server.feature(feature::ALLOW_SHORT_SEQNOS, Side::Local), 1);
}

/// RFC 4340 section 11.3: one acknowledgement for every Ack Ratio packets, also after the ratio has changed.
#[test]
fn a_new_ack_ratio_is_obeyed_at_once() {
    let mut net = Net::pair(Config::default());
    let mut seq = net.gss(CLIENT);
    // All packets arrive at the same instant, so that no acknowledgement is caused by a timer.
    for ratio in [6, 3, 9] {
        seq = seq.next();
        let header = net.forge(CLIENT, PacketType::Ack, seq, Some(net.gss(SERVER)));
        // Change L(Ack Ratio).
        assert!(net.strike(CLIENT, &header, &[32, 5, feature::ACK_RATIO, 0, ratio], &[]));
        assert_eq!(net.end(SERVER).feature(feature::ACK_RATIO, Side::Remote), u64::from(ratio));
        for count in 1..=ratio * 2 {
            let before = net.types(SERVER).len();
            seq = seq.next();
            let header = net.forge(CLIENT, PacketType::Data, seq, None);
            assert!(net.strike(CLIENT, &header, &[], b"data"));
            let acks = net.types(SERVER).len() - before;
            assert_eq!(acks, usize::from(count % ratio == 0), "packet {count} at ratio {ratio}");
        }
    }
}

#[test]
fn the_sequence_window_follows_the_congestion_window() {
    let mut net = negotiated(Config::default(), Config::default());
    net.send_many(CLIENT, 20_000, &[0; 100]);
    net.run(Duration::from_secs(5));
    let width = net.end(CLIENT).feature(feature::SEQUENCE_WINDOW, Side::Local);
    assert!(width > 1024, "{width}");
    assert_eq!(net.end(SERVER).feature(feature::SEQUENCE_WINDOW, Side::Remote), width);
    assert_eq!(net.delivered[SERVER].len(), 20_000);
}

#[test]
fn ecn_incapable_keeps_packets_unmarked() {
    let ecn = |net: &Net, side| net.log.iter().any(|s| s.from == side && s.ecn != dccp_proto::Ecn::NotEct);
    let mut net = negotiated(Config::default(), Config::default());
    net.send(CLIENT, b"x");
    net.run(Duration::from_secs(1));
    assert!(ecn(&net, CLIENT) && ecn(&net, SERVER));
    let mut net = negotiated(Config { ecn: false, ..Config::default() }, Config::default());
    for side in [CLIENT, SERVER] {
        net.send(side, b"x");
    }
    net.run(Duration::from_secs(1));
    assert!(!ecn(&net, CLIENT) && !ecn(&net, SERVER));
    assert_eq!((net.delivered[CLIENT].len(), net.delivered[SERVER].len()), (1, 1));
}

#[test]
fn multipath_needs_both_ends() {
    let on = Config { multipath: true, ..Config::default() };
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let cfg = |multipath| Config { multipath, ..on.clone() };
        let mut net = negotiated(cfg(client), cfg(server));
        let both = client && server;
        assert_eq!((net.end(CLIENT).is_multipath(), net.end(SERVER).is_multipath()), (both, both));
    }
}

#[test]
fn changes_after_the_handshake_are_repeated_with_back_off() {
    let is_change = |s: &Sent| {
        s.packet().options().flatten().any(|o| matches!(o, Opt::ChangeL(feature::SEQUENCE_WINDOW, _)))
    };
    let mut net = negotiated(Config::default(), Config::default());
    let mut lost = 0;
    net.network = Box::new(move |s| {
        let lose = is_change(s) && lost < 3;
        lost += u32::from(lose);
        if lose { Fate::Drop } else { Fate::Deliver }
    });
    let opened = net.log.len();
    net.send_many(CLIENT, 600, &[0; 100]);
    net.run(Duration::from_secs(20));
    let width = net.end(CLIENT).feature(feature::SEQUENCE_WINDOW, Side::Local);
    assert!(width > 1024);
    assert_eq!(net.end(SERVER).feature(feature::SEQUENCE_WINDOW, Side::Remote), width);
    let at: Vec<Time> = net.log[opened..].iter().filter(|s| is_change(s)).map(|s| s.at).collect();
    assert_eq!(at.len(), 4);
    let gaps: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.windows(2).all(|g| g[1] >= g[0] * 2), "{gaps:?}");
    assert!(gaps[0] >= Duration::from_millis(40));
}

#[test]
fn a_request_of_linux_gets_all_its_answers_at_once() {
    for name in ["plain_ccid2.pcap", "plain_ccid5.pcap"] {
        let packets = capture(name);
        let request = Packet::parse(&packets[0].1).unwrap();
        assert_eq!(request.header.ptype, PacketType::Request);
        let cfg = Config {
            service_code: request.header.service_code.unwrap(),
            tx_ccids: vec![5, 2],
            rx_ccids: vec![5, 2],
            ..Config::default()
        };
        let now = Time::from_millis(5);
        let mut server = Connection::server(cfg, now, route(), &request, [1; 32]).unwrap();
        let mut wire = Outbox::new();
        server.poll_transmit(now, &mut wire);
        let response = Packet::parse(&wire[0].2).unwrap();
        let asked = request.options().flatten().filter_map(|o| match o {
            Opt::ChangeL(f, _) => Some((Side::Local, f)),
            Opt::ChangeR(f, _) => Some((Side::Remote, f)),
            _ => None,
        });
        let answered: Vec<_> = response
            .options()
            .flatten()
            .filter_map(|o| match o {
                Opt::ConfirmR(f, value) if !value.is_empty() => Some((Side::Local, f)),
                Opt::ConfirmL(f, value) if !value.is_empty() => Some((Side::Remote, f)),
                _ => None,
            })
            .collect();
        let mut n = 0;
        for change in asked {
            assert!(answered.contains(&change), "{name}: {change:?}");
            n += 1;
        }
        assert!(n > 0, "{name}");
    }
}

#[test]
fn a_response_of_linux_opens_a_client() {
    for (name, ccid) in [("plain_ccid2.pcap", 2), ("plain_ccid5.pcap", 5)] {
        let packets = capture(name);
        let at = packets
            .iter()
            .position(|(_, p)| Packet::parse(p).is_ok_and(|p| p.header.ptype == PacketType::Response))
            .unwrap();
        let mut bytes = packets[at].1.clone();
        let theirs = Packet::parse(&bytes).unwrap().header;
        let now = Time::from_millis(5);
        let cfg = Config {
            service_code: theirs.service_code.unwrap(),
            tx_ccids: vec![ccid],
            rx_ccids: vec![ccid],
            ..Config::default()
        };
        let mut client = new_client(cfg, now);
        let mut wire = Outbox::new();
        client.poll_transmit(now, &mut wire);
        let request = Packet::parse(&wire[0].2).unwrap();
        // Make the Response acknowledge our Request.
        bytes[18..24].copy_from_slice(&request.header.seq.value().to_be_bytes()[2..]);
        let response = Packet::parse(&bytes).unwrap();
        assert_eq!(response.header.ack, Some(request.header.seq));
        let later = now + Duration::from_millis(30);
        let outcome = client.handle_packet(later, Default::default(), 100, &response);
        assert!(matches!(outcome, Outcome::Received(_)), "{name}: {outcome:?}");
        assert_eq!(client.state(), State::PartOpen);
        assert_eq!(client.ccids(), Some((ccid, ccid)));
        // Every packet in PARTOPEN answers all Changes of the Response.
        for n in 0..2 {
            let at = later + Duration::from_millis(200 * n);
            client.handle_timeout(at);
            let mut wire = Outbox::new();
            client.poll_transmit(at, &mut wire);
            let ack = Packet::parse(&wire[0].2).unwrap();
            assert_eq!(ack.header.ptype, PacketType::Ack);
            let confirms = ack.options().flatten();
            let confirms = confirms.filter(|o| matches!(o, Opt::ConfirmL(..) | Opt::ConfirmR(..))).count();
            let changes = response.options().flatten();
            let changes = changes.filter(|o| matches!(o, Opt::ChangeL(..) | Opt::ChangeR(..))).count();
            assert_eq!(confirms, changes, "{name}");
        }
    }
}

/// Options of the client's Ack in the tests below.
const EXTRA: &[u8] = &[200, 3, 7];

#[test]
fn init_cookies_come_back_in_part_open() {
    let cookies = [36, 5, 1, 2, 3, 36, 3, 9];
    let (mut client, _, now) = answered(EXTRA, &cookies);
    let mut wire = Outbox::new();
    assert!(client.poll_transmit(now, &mut wire));
    let ack = Packet::parse(&wire[0].2).unwrap();
    assert!(ack.option_bytes.starts_with(&[&cookies[..], EXTRA].concat()), "{:?}", ack.option_bytes);
    assert!(!client.poll_transmit(now, &mut wire));
}

/// Whichever packet arrives first moves the server to OPEN, so all of them carry the same options.
#[test]
fn every_packet_in_part_open_carries_the_options_of_the_ack() {
    let cookie = [36, 3, 9];
    let (mut client, response, now) = answered(EXTRA, &cookie);
    // The client answers the Sync with a SyncAck, and the packet with an invalid number with a Sync.
    for (ptype, ahead) in [(PacketType::Sync, 1), (PacketType::Ack, 1_000)] {
        hear(&mut client, now, &Header { ptype, seq: response.seq.add(ahead), ..response }, &[]);
    }
    let mut wire = Outbox::new();
    while client.poll_transmit(now, &mut wire) {}
    let sent: Vec<_> = wire.iter().map(|(_, _, bytes)| Packet::parse(bytes).unwrap()).collect();
    for wanted in [PacketType::Ack, PacketType::Sync, PacketType::SyncAck] {
        let packet = sent.iter().find(|packet| packet.header.ptype == wanted).unwrap();
        let options = packet.option_bytes;
        assert!(options.starts_with(&[&cookie[..], EXTRA].concat()), "{wanted:?}: {options:?}");
    }
}

#[test]
fn cookies_that_leave_no_room_are_an_option_error() {
    let cookie = [&[36, 255][..], &[1; 253]].concat();
    let (mut client, _, now) = answered(EXTRA, &cookie.repeat(3));
    assert_eq!(client.state(), State::Closed);
    let mut wire = Outbox::new();
    assert!(client.poll_transmit(now, &mut wire));
    let reset = Packet::parse(&wire[0].2).unwrap().header.reset.unwrap();
    assert_eq!((reset.code, reset.data[0]), (ResetCode::OptionError, 36));
    // Two cookies fit into a packet together with an answer to each Change.
    let (mut client, _, now) = answered(EXTRA, &[&cookie.repeat(2)[..], &[32, 4, 99, 1]].concat());
    let mut wire = Outbox::new();
    assert!(client.poll_transmit(now, &mut wire));
    let ack = Packet::parse(&wire[0].2).unwrap();
    assert!(ack.options().any(|o| o == Ok(Opt::ConfirmR(99, &[]))));
    assert!(!client.poll_transmit(now, &mut wire));
}

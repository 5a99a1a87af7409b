//! Rules of RFC 4340 that the other tests do not cover.

use crate::common::*;
use dccp_proto::Side;
use dccp_proto::{CloseReason, Config, Connection, DropReason, Event, Gate, State};
use dccp_wire::{Header, Opt, OptionBuf, Packet, PacketType, ResetCode, Seq, feature};
use mpdccp_units::{Duration, Time};

fn options(list: &[Opt<'_>]) -> OptionBuf {
    let mut buf = OptionBuf::new();
    assert!(list.iter().all(|option| buf.push(option)));
    buf
}

/// Returns the Init Cookies of the next packet.
fn cookies(client: &mut Connection, now: Time) -> Vec<Vec<u8>> {
    let mut wire = Outbox::new();
    assert!(client.poll_transmit(now, &mut wire));
    let packet = Packet::parse(&wire[0].2).unwrap();
    let cookie = |option| if let Ok(Opt::InitCookie(value)) = option { Some(value.to_vec()) } else { None };
    packet.options().filter_map(cookie).collect()
}

/// RFC 4340 section 8.1.4: a packet carries the cookies of the Response that it acknowledges.
#[test]
fn cookies_are_those_of_the_newest_response() {
    let (mut client, response, now) = answered(&[], options(&[Opt::InitCookie(b"first")]).as_bytes());
    assert_eq!(cookies(&mut client, now), [b"first"]);
    let newer = Header { seq: Seq::new(79), ..response };
    hear(&mut client, now, &newer, options(&[Opt::InitCookie(b"second")]).as_bytes());
    assert_eq!(cookies(&mut client, now), [b"second"]);
    let overtaken = Header { seq: Seq::new(78), ..response };
    hear(&mut client, now, &overtaken, options(&[Opt::InitCookie(b"third")]).as_bytes());
    assert_eq!(cookies(&mut client, now), [b"second"]);
}

/// RFC 4340 section 8.1.4: cookies are sent only until a packet carrying them is acknowledged.
#[test]
fn cookies_are_gone_once_the_connection_is_open() {
    let (mut client, response, now) = answered(&[], options(&[Opt::InitCookie(b"first")]).as_bytes());
    assert_eq!(cookies(&mut client, now), [b"first"]);
    let ack =
        Header { ptype: PacketType::Ack, seq: Seq::new(78), ack: response.ack.map(Seq::next), ..response };
    hear(&mut client, now, &ack, &[]);
    assert_eq!(client.state(), State::Open);
    client.close(now, false);
    assert_eq!(cookies(&mut client, now), Vec::<Vec<u8>>::new());
}

/// RFC 4341 section 4: no data is sent until the peer has agreed to send Ack Vectors.
#[test]
fn a_sender_that_needs_ack_vectors_waits_for_them() {
    let (client, _, now) = answered(&[], &[]);
    assert!(!matches!(client.gate(now), Gate::Open { .. }), "{:?}", client.gate(now));
    let confirm = options(&[Opt::ConfirmL(feature::SEND_ACK_VECTOR, &[1])]);
    let (client, _, now) = answered(&[], confirm.as_bytes());
    assert!(matches!(client.gate(now), Gate::Open { .. }), "{:?}", client.gate(now));
}

/// RFC 4340 section 12.1: this end sends ECN Incapable with Mandatory, and accepts no data until the peer
/// knows that this end is ECN-incapable.
#[test]
fn an_end_that_cannot_read_ecn_insists_and_accepts_no_data_before_that_is_known() {
    let mut net = Net::new(Config::default(), Config { ecn: false, ..Config::default() });
    net.run(Duration::from_millis(21));
    let response = net.last(SERVER);
    assert_eq!(response.ptype(), PacketType::Response);
    let list: Vec<_> = response.packet().options().flatten().collect();
    let change = Opt::ChangeL(feature::ECN_INCAPABLE, &[1]);
    assert!(list.windows(2).any(|pair| pair == [Opt::Mandatory, change]), "{list:?}");

    let header = net.forge(CLIENT, PacketType::DataAck, net.gss(CLIENT).next(), Some(net.gss(SERVER)));
    net.strike(CLIENT, &header, &[], b"early");
    assert!(net.delivered[SERVER].is_empty());
    assert_eq!(net.end(SERVER).stats().dropped[&DropReason::DataNotAllowed], 1);
}

/// RFC 4340 section 10.5: once data flows, the peer cannot change the CCID of our data, but may change that
/// of its own data.
#[test]
fn the_peer_cannot_change_the_ccid_of_what_we_send() {
    let mut net = Net::open(Config::default(), Config { tx_ccids: vec![2, 5], ..Config::default() });
    let header = net.next_from(CLIENT, PacketType::Ack);
    let changes = [Opt::ChangeL(feature::CCID, &[5]), Opt::ChangeR(feature::CCID, &[5])];
    assert!(net.strike(CLIENT, &header, options(&changes).as_bytes(), &[]));
    assert_eq!(net.end(SERVER).ccids(), Some((2, 5)));
    assert_eq!(net.end(SERVER).feature(feature::CCID, Side::Local), 2);
}

/// RFC 4340 section 5.7: the Acknowledgement Number on a Sync acknowledges nothing.
#[test]
fn a_sync_acknowledges_no_data() {
    let mut net = Net::pair(Config::default());
    net.network = Box::new(|_| Fate::Drop);
    net.send(CLIENT, b"lost");
    net.pump();
    let inflight = |net: &mut Net| net.end(CLIENT).tx_view().unwrap().inflight.packets;
    assert_eq!(inflight(&mut net), 1);
    let sync = net.next_from(SERVER, PacketType::Sync);
    assert!(net.strike(SERVER, &sync, &[], &[]));
    assert_eq!(inflight(&mut net), 1);
}

/// RFC 4340 section 8.1.5: a Sync does not end PARTOPEN, but any other packet that the server sends after the
/// handshake does.
#[test]
fn a_sync_leaves_a_client_in_partopen() {
    let (mut client, response, now) = answered(&[], &[]);
    let later = |ptype, by: u64| Header { ptype, seq: Seq::new(77 + by), ..response };
    hear(&mut client, now, &later(PacketType::Sync, 1), &[]);
    assert_eq!(client.state(), State::PartOpen);
    let mut wire = Outbox::new();
    while client.poll_transmit(now, &mut wire) {}
    let answers =
        |(_, _, bytes): &(_, _, Vec<u8>)| Packet::parse(bytes).unwrap().header.ptype == PacketType::SyncAck;
    assert!(wire.iter().any(answers), "a valid Sync must be answered");
    hear(&mut client, now, &later(PacketType::Ack, 2), &[]);
    assert_eq!(client.state(), State::Open);
}

/// RFC 4340 section 11.4.2: the sender acknowledges Acks, and the receiver does not repeat the state that
/// those Acks reported.
#[test]
fn an_acknowledged_ack_vector_is_not_sent_again() {
    let mut net = Net::pair(Config::default());
    // Lose every fourth packet, because otherwise a single cell would cover all packets.
    net.network =
        Box::new(|sent| if sent.from == CLIENT && sent.index % 4 == 0 { Fate::Drop } else { Fate::Deliver });
    const PACKETS: usize = 1000;
    net.send_paced(CLIENT, PACKETS, &[1; 100], Duration::from_millis(10));
    let last = net.last(SERVER).packet().options().flatten().find_map(|option| match option {
        Opt::AckVector(_, cells) => {
            Some(cells.iter().map(|cell| usize::from(cell & 0x3f) + 1).sum::<usize>())
        }
        _ => None,
    });
    let told = last.expect("an Ack Vector");
    assert!(told < PACKETS / 10, "the newest Ack still reports {told} packets");
}

/// RFC 4341 section 6.2: if both ends send data, the acknowledgements of data also acknowledge Acks.
#[test]
fn data_in_both_directions_needs_no_acks_of_acks() {
    let mut net = Net::pair(Config::default());
    let before = net.log.len();
    for _ in 0..1000 {
        for end in [CLIENT, SERVER] {
            net.send(end, &[1; 100]);
        }
        net.run(Duration::from_millis(10));
    }
    let sent = net.log[before..].iter().filter(|sent| sent.from == CLIENT);
    let (acks, data): (Vec<_>, Vec<_>) = sent.partition(|sent| sent.ptype() == PacketType::Ack);
    let acknowledges = data.iter().filter(|sent| sent.ptype() == PacketType::DataAck).count();
    assert!(acknowledges >= 450 && acks.len() < 10, "{acknowledges} {}", acks.len());
}

/// RFC 4340 section 8.5 step 7: a Response sent before the handshake ended is merely late. A newer Response
/// is an error.
#[test]
fn a_response_that_comes_again_is_no_mistake() {
    let mut net = Net::pair(Config::default());
    net.now += Duration::from_secs(1);
    let response = net.log.iter().find(|sent| sent.ptype() == PacketType::Response).unwrap().bytes.clone();
    let before = net.types(CLIENT);
    net.inject(CLIENT, &response, dccp_proto::Ecn::NotEct);
    net.pump();
    let unexpected =
        |net: &mut Net| net.end(CLIENT).stats().dropped.get(&DropReason::UnexpectedType).copied();
    assert_eq!((net.types(CLIENT), unexpected(&mut net)), (before, None));
    let later = net.next_from(SERVER, PacketType::Response);
    net.strike(SERVER, &later, &[], &[]);
    assert_eq!((net.last(CLIENT).ptype(), unexpected(&mut net)), (PacketType::Sync, Some(1)));
}

/// RFC 9897 section 3.1: Multipath Capable is negotiated only in the handshake.
#[test]
fn multipath_is_not_negotiated_twice() {
    let mut net = Net::pair(Config { multipath: true, ..Config::default() });
    assert!(net.end(SERVER).is_multipath());
    let header = net.next_from(CLIENT, PacketType::Ack);
    let change = options(&[Opt::ChangeR(feature::MULTIPATH_CAPABLE, &[0])]);
    assert!(net.strike(CLIENT, &header, change.as_bytes(), &[]));
    let answer = net.last(SERVER).packet();
    assert!(answer.options().any(|o| o == Ok(Opt::ConfirmL(feature::MULTIPATH_CAPABLE, &[]))), "{answer:?}");
}

/// RFC 9897 section 3.3: the server immediately acknowledges the Ack that completes the handshake.
#[test]
fn a_multipath_server_confirms_the_handshake() {
    for ack_on_open in [true, false] {
        let mut net = Net::new(Config::default(), Config { ack_on_open, ..Config::default() });
        net.run(Duration::from_millis(100));
        let answers = net.types(SERVER).iter().filter(|ptype| **ptype == PacketType::Ack).count();
        assert_eq!(answers, usize::from(ack_on_open));
    }
}

/// RFC 4340 section 5.6: the options of a Reset are processed first. If one of them is mandatory and invalid,
/// the answer refers to that option.
#[test]
fn the_options_of_a_reset_are_read_before_it_ends_anything() {
    let mut net = Net::pair(Config::default());
    let header = net.next_from(SERVER, PacketType::Reset);
    net.strike(SERVER, &header, &[1, 120, 2], &[]);
    let end = net.events[CLIENT].last();
    assert_eq!(end, Some(&Event::Closed(CloseReason::Aborted(ResetCode::MandatoryError))));
}

/// RFC 4342 sections 8, 8.3, 8.5, 8.6 and RFC 5622 section 8: these options refer to an Acknowledgement
/// Number. A packet without one must not carry them, and if it does, they are ignored.
#[test]
fn options_of_tfrc_mean_nothing_on_data() {
    for ccid in [3, 4] {
        let mut net = open(ccid);
        for _ in 0..20 {
            net.send(CLIENT, &[1; 500]);
            net.send(SERVER, &[1; 500]);
            net.run(Duration::from_millis(100));
        }
        // The options claim that every packet was lost and that nothing was received.
        let options = [192, 6, 0, 0, 0, 1, 194, 6, 0, 0, 0, 0];
        let rate = |net: &mut Net| net.end(CLIENT).tx_view().unwrap().pacing.unwrap();
        let before = rate(&mut net);
        let header = net.next_from(SERVER, PacketType::Data);
        assert!(net.strike(SERVER, &header, &options, b"data"));
        assert_eq!(rate(&mut net), before, "CCID {ccid}");
        let header = net.next_from(SERVER, PacketType::DataAck);
        assert!(net.strike(SERVER, &header, &options, b"data"));
        assert!(rate(&mut net) < before, "CCID {ccid}");
        for sent in net.log.iter().filter(|sent| sent.ptype() == PacketType::Data) {
            let tfrc = |option| matches!(option, Ok(Opt::Ccid(192..=194, _)));
            assert!(!sent.packet().options().any(tfrc), "CCID {ccid}");
        }
    }
}

/// RFC 8311 section 5 obsoletes the nonce, so both forms of the Ack Vector have the same meaning.
#[test]
fn either_ack_vector_is_read_alike() {
    for option in [38, 39] {
        let mut net = Net::pair(Config::default());
        // There are two packets: the Ack's Acknowledgement Number acknowledges the second, and only the Ack
        // Vector acknowledges the first.
        net.send(CLIENT, &[1; 500]);
        net.send(CLIENT, &[1; 500]);
        net.pump();
        assert_eq!(net.end(CLIENT).tx_view().unwrap().inflight.packets, 2);
        let header = net.next_from(SERVER, PacketType::Ack);
        assert!(net.strike(SERVER, &header, &[option, 3, 0x01, 0], &[]));
        assert_eq!(net.end(CLIENT).tx_view().unwrap().inflight.packets, 0, "option {option}");
    }
}

/// RFC 4340 section 11.7: data that is dropped as corrupt counts as marked. With TFRC, the receiver counts
/// the mark.
#[test]
fn corrupt_data_is_a_loss_event_of_tfrc() {
    for (corrupt, lossless) in [(false, true), (true, false)] {
        let mut net = open(3);
        net.send_paced(CLIENT, 10, &[1; 500], Duration::from_millis(100));
        let header = net.next_from(CLIENT, PacketType::Data);
        let checksum = dccp_wire::checksum::crc32c(b"data") ^ u32::from(corrupt);
        assert!(net.strike(CLIENT, &header, options(&[Opt::DataChecksum(checksum)]).as_bytes(), b"data"));
        net.run(Duration::from_millis(500));
        let mut acks = net.log.iter().filter(|sent| sent.from == SERVER && sent.ptype() == PacketType::Ack);
        let rate = acks.next_back().unwrap().packet().options().flatten().find_map(|option| match option {
            Opt::Ccid(192, rate) => Some(rate == [0xff; 4]),
            _ => None,
        });
        assert_eq!(rate, Some(lossless), "corrupt: {corrupt}");
    }
}

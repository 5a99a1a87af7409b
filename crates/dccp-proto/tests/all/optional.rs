//! Parts of RFC 4340 that the two ends have to negotiate, or that the owner has to request.

use crate::common::*;
use dccp_proto::Side;
use dccp_proto::{CcOptions, CloseReason, Config, DropCode, DropReason, Event, Gate, State, Why};
use dccp_wire::{Opt, OptionBuf, Packet, PacketType, ResetCode, checksum, feature};
use mpdccp_units::Duration;
use std::collections::BTreeMap;

/// RFC 4340 section 8.1.2: a server may accept several Service Codes.
#[test]
fn a_server_takes_each_of_its_service_codes() {
    for (asked, taken) in [(7, true), (8, true), (9, true), (10, false), (u32::MAX, false)] {
        let server = Config { service_code: 7, also_services: vec![8, 9], ..Config::default() };
        let mut net = Net::new(Config { service_code: asked, ..Config::default() }, server);
        net.run(Duration::from_secs(1));
        if taken {
            assert_eq!(net.state(CLIENT), State::Open);
            assert_eq!(net.end(SERVER).service_code(), asked);
        } else {
            assert_eq!(net.events[CLIENT], [Event::Closed(CloseReason::Reset(ResetCode::BadServiceCode))]);
            assert_eq!(net.state(SERVER), State::Closed);
        }
    }
    // The server does not accept the reserved code, even if it is on its list.
    let server = Config { also_services: vec![u32::MAX], ..Config::default() };
    let mut net = Net::new(Config { service_code: u32::MAX, ..Config::default() }, server);
    net.run(Duration::from_secs(1));
    assert_eq!(net.events[CLIENT], [Event::Closed(CloseReason::Reset(ResetCode::BadServiceCode))]);
}

/// RFC 5595 section 3.1: a client's Request names only the client's own Service Code, not the codes that its
/// host accepts as a server.
#[test]
fn a_client_asks_for_one_service_only() {
    for (there, opens) in [(7, true), (8, false)] {
        let client = Config { service_code: 7, also_services: vec![8], ..Config::default() };
        let mut net = Net::new(client, Config { service_code: there, ..Config::default() });
        net.run(Duration::from_secs(1));
        assert_eq!(net.log[0].packet().header.service_code, Some(7));
        assert_eq!(net.state(CLIENT) == State::Open, opens, "{there}");
    }
}

/// RFC 4340 section 8.1.3: data of a Request or Response is delivered once, however often the packet is
/// repeated.
#[test]
fn data_on_request_and_response_arrives_once_where_it_is_taken() {
    for taken in [true, false] {
        let config = Config { early_data: taken, ..Config::default() };
        let mut net = Net::new(config.clone(), Config { ack_on_open: true, ..config });
        net.end(CLIENT).set_early_data(b"question");
        // The first two Responses are lost, so the Request arrives three times.
        net.network = Box::new(|sent| {
            let lost = sent.from == SERVER && sent.index < 2;
            if lost { Fate::Drop } else { Fate::Deliver }
        });
        net.run(Duration::from_millis(30));
        net.end(SERVER).set_early_data(b"answer");
        let expected = taken.then(|| b"question".to_vec());
        assert_eq!(net.end(SERVER).take_early_data(), expected);
        net.run(Duration::from_secs(20));
        assert_eq!(net.states(), [State::Open; 2]);
        assert_eq!(net.end(SERVER).take_early_data(), None);
        assert_eq!(net.end(CLIENT).take_early_data(), taken.then(|| b"answer".to_vec()));
        let requests = net.log.iter().filter(|sent| sent.ptype() == PacketType::Request);
        assert!(
            requests.clone().count() > 1 && requests.clone().all(|sent| sent.packet().payload == b"question")
        );
        let refused = net.end(SERVER).stats().dropped.contains_key(&DropReason::DataNotAllowed);
        assert_eq!(refused, !taken);
        // RFC 4340 section 8.1.3: each Response reports the data of all Requests as dropped, except data that
        // was taken.
        let responses = net.log.iter().filter(|sent| sent.ptype() == PacketType::Response);
        let dropped = |o| if let Opt::DataDropped(blocks) = o { Some(blocks.to_vec()) } else { None };
        let reports: Vec<_> = responses
            .map(|sent| sent.packet().options().flatten().find_map(dropped).unwrap_or_default())
            .collect();
        let blocks: [&[u8]; 3] = if taken { [&[], &[0x80], &[0x81]] } else { [&[0x80], &[0x81], &[0x82]] };
        assert_eq!(reports, blocks);
    }
}

/// RFC 4340 sections 9.2.1 and 9.3: the first data of a connection is dropped for the same reasons as later
/// data.
#[test]
fn bad_data_on_request_and_response_is_dropped() {
    let mut wrong = OptionBuf::new();
    wrong.push(&Opt::DataChecksum(checksum::crc32c(b"as it was")));
    for (options, cscov, reason, code) in
        [(wrong.as_bytes(), 0, DropReason::DataChecksum, 3u8), (&[][..], 1, DropReason::Coverage, 0)]
    {
        let config = Config { early_data: true, ..Config::default() };
        let mut net = Net::new(config.clone(), config);
        let dropped = BTreeMap::from([(reason, 1)]);
        net.pump();
        let request = dccp_wire::Header { cscov, ..net.log[0].packet().header };
        net.inject(SERVER, &emit(&request, options, b"as it came"), Default::default());
        assert_eq!(net.end(SERVER).take_early_data(), None, "{reason:?}");
        assert_eq!(net.end(SERVER).stats().dropped, dropped);
        net.pump();
        assert_eq!(drop_codes(&net), [code], "the Response must report the data as dropped");
        let response = dccp_wire::Header { cscov, ..net.last(SERVER).packet().header };
        net.inject(CLIENT, &emit(&response, options, b"as it came"), Default::default());
        assert_eq!(net.end(CLIENT).take_early_data(), None, "{reason:?}");
        assert_eq!(net.end(CLIENT).stats().dropped, dropped);
    }
}

/// RFC 4340 section 5.6: the data of a Reset is Error Text.
#[test]
fn a_reset_says_in_words_why() {
    let mut net = Net::pair(Config::default());
    net.end(SERVER).abort_with(ResetCode::Aborted, "out of coffee");
    net.run(Duration::from_millis(100));
    assert_eq!(net.events[CLIENT].last(), Some(&Event::Closed(CloseReason::Reset(ResetCode::Aborted))));
    assert_eq!(net.end(CLIENT).error_text(), Some("out of coffee"));

    // The peer's error is a Mandatory (option 1) before an unknown option.
    let mut net = Net::pair(Config::default());
    let header = net.next_from(CLIENT, PacketType::Ack);
    net.strike(CLIENT, &header, &[1, 99, 2, 0], &[]);
    let reset = net.last(SERVER);
    assert_eq!(reset.packet().header.reset.unwrap().code, ResetCode::MandatoryError);
    assert_eq!(reset.packet().payload, b"option 99 is mandatory and not understood");

    // Error Text may be of any length and contain any bytes.
    let mut net = Net::pair(Config::default());
    net.end(SERVER).abort_with(ResetCode::Aborted, &"x".repeat(10_000));
    net.run(Duration::from_millis(100));
    assert_eq!(net.end(CLIENT).error_text().map(str::len), Some(255));
    let mut net = Net::pair(Config::default());
    let header = net.next_from(SERVER, PacketType::Reset);
    net.strike(SERVER, &header, &[], &[0xff; 1000]);
    assert_eq!(net.end(CLIENT).error_text(), Some(&*"\u{fffd}".repeat(512)));
}

/// RFC 4340 sections 7.6.1 and 7.6.2: short sequence numbers need the peer's agreement and a small window.
#[test]
fn short_numbers_are_sent_where_agreed_and_the_window_is_small() {
    for (wanted, permitted, window) in
        [(true, true, 1024), (true, false, 1024), (false, true, 1024), (true, true, 1 << 20)]
    {
        let client = Config { short_seqnos: wanted, seq_window: window, ..Config::default() };
        let server = Config { allow_short_seqnos: permitted, ..Config::default() };
        let mut net = Net::open(client, server);
        net.send_many(CLIENT, 100, &[3; 500]);
        net.run(Duration::from_secs(2));
        assert_eq!(net.delivered[SERVER].len(), 100);
        let short = |sent: &Sent| sent.packet().header.short;
        let data = net.log.iter().filter(|sent| sent.from == CLIENT && sent.ptype() == PacketType::Data);
        let expected = wanted && permitted && window == 1024;
        assert!(data.clone().count() > 50 && data.clone().all(|sent| short(sent) == expected));
        let others = net.log.iter().filter(|sent| !sent.ptype().allows_short() || sent.from == SERVER);
        assert!(!others.clone().any(short), "only data of the client may use short numbers");
        net.end(CLIENT).close(Default::default(), false);
        net.run(Duration::from_secs(1));
        assert_eq!(net.state(SERVER), State::Closed);
    }
}

/// RFC 4340 section 9.2.1: packets have reduced coverage only if the receiver accepts it.
#[test]
fn reduced_coverage_is_sent_where_the_receiver_accepts_it() {
    // (sender's setting, receiver's requirement, resulting coverage of the packets)
    for (coverage, least, used) in [(5, 3, 5), (5, 5, 5), (5, 6, 0), (5, 0, 0), (0, 3, 0)] {
        let client = Config { coverage, ..Config::default() };
        let mut net = Net::open(client, Config { min_coverage: least, ..Config::default() });
        net.send(CLIENT, &[9; 100]);
        net.send(CLIENT, &[9; 3]);
        net.run(Duration::from_secs(1));
        assert_eq!(net.delivered[SERVER].len(), 2, "{coverage} {least}");
        let data: Vec<u8> = net
            .log
            .iter()
            .filter(|sent| sent.from == CLIENT && sent.ptype() == PacketType::Data)
            .map(|sent| sent.packet().header.cscov)
            .collect();
        // A packet too short for this coverage is covered in full.
        assert_eq!(data, [used, 0]);
        // The receiver refuses, and reports, packets with less coverage than negotiated.
        if used > 0 {
            let header = dccp_wire::Header { cscov: least - 1, ..net.next_from(CLIENT, PacketType::Data) };
            if header.cscov > 0 {
                net.strike(CLIENT, &header, &[], &[1; 100]);
                assert_eq!(net.end(SERVER).stats().dropped[&DropReason::Coverage], 1);
            }
        }
    }
}

/// Returns the Drop Codes that the server sent.
fn drop_codes(net: &Net) -> Vec<u8> {
    let packets = net.log.iter().filter(|sent| sent.from == SERVER).map(Sent::packet);
    let blocks = packets.flat_map(|packet| packet.options()).flatten().filter_map(|option| match option {
        Opt::DataDropped(blocks) => Some(blocks),
        _ => None,
    });
    blocks.flatten().filter(|block| *block & 0x80 != 0).map(|block| block >> 4 & 7).collect()
}

/// RFC 4340 sections 9.3.1 and 11.7: data with a wrong checksum is delivered or dropped, as configured,
/// and reported with Drop Code 7 or 3.
#[test]
fn corrupt_data_is_delivered_to_who_asks_for_it() {
    for wanted in [false, true] {
        let mut net =
            Net::pair(Config { check_data_checksum: true, take_corrupt: wanted, ..Config::default() });
        let mut options = OptionBuf::new();
        options.push(&Opt::DataChecksum(checksum::crc32c(b"as it was")));
        let header = net.next_from(CLIENT, PacketType::DataAck);
        let bytes = emit(&header, options.as_bytes(), b"as it came");
        let now = net.now;
        let packet = Packet::parse(&bytes).unwrap();
        let outcome = net.end(SERVER).handle_packet(now, Default::default(), 100, &packet);
        let dccp_proto::Outcome::Received(received) = outcome else { panic!("{outcome:?}") };
        assert_eq!((received.data.is_some(), received.corrupt), (wanted, wanted));
        net.run(Duration::from_secs(1));
        let told = drop_codes(&net);
        assert!(!told.is_empty() && told.iter().all(|code| *code == if wanted { 7 } else { 3 }), "{told:?}");
    }
}

/// RFC 4340 section 11.7: the owner can have every Drop Code sent, and each affects the sender as required.
#[test]
fn every_drop_code_is_sent_and_obeyed() {
    for code in [
        DropCode::ProtocolConstraints,
        DropCode::NotListening,
        DropCode::ReceiveBuffer,
        DropCode::Corrupt,
        DropCode::DeliveredCorrupt,
    ] {
        let mut net = Net::pair(Config::default());
        net.send_many(CLIENT, 20, &[0; 100]);
        net.run(Duration::from_millis(300));
        let before = net.end(CLIENT).tx_view().unwrap();
        net.send(CLIENT, &[0; 100]);
        net.pump();
        net.now += Duration::from_millis(20);
        let seq = net.gss(CLIENT);
        net.end(SERVER).report_dropped(seq, code);
        net.run(Duration::from_secs(1));
        let told = drop_codes(&net);
        assert!(!told.is_empty() && told.iter().all(|told| *told == code as u8), "{code:?}: {told:?}");
        let after = net.end(CLIENT).tx_view().unwrap();
        let shut = net.gate(CLIENT) == Gate::Closed(Why::NotListening);
        let (was, is) = (before.cwnd.packets(1500), after.cwnd.packets(1500));
        match code {
            DropCode::ProtocolConstraints => assert!(!shut && is >= was && after.ce == 0),
            DropCode::NotListening => assert!(shut && after.ce == 0),
            DropCode::ReceiveBuffer => assert!(!shut && is <= was && after.phase == "congestion_avoidance"),
            DropCode::Corrupt | DropCode::DeliveredCorrupt => assert!(!shut && is < was && after.ce == 1),
            other => panic!("{other:?}"),
        }
    }
}

/// RFC 4340 section 13.1: the time that a Request waits at the server is not part of the round-trip time.
#[test]
fn a_timestamp_on_the_request_tells_the_round_trip_alone() {
    for timestamps in [true, false] {
        let client = Config { timestamps, ..Config::default() };
        let mut net = Net::new(client, Config::default());
        net.network =
            Box::new(|sent| if sent.from == CLIENT && sent.index == 0 { Fate::Drop } else { Fate::Deliver });
        net.pump();
        net.now += Duration::from_millis(20);
        let request = net.log[0].bytes.clone();
        // The server receives the Request at once but does not answer it for 100 ms.
        net.inject(SERVER, &request, Default::default());
        net.now += Duration::from_millis(100);
        net.run(Duration::from_millis(25));
        let srtt = net.end(CLIENT).tx_view().unwrap().rtt.srtt().unwrap();
        let expected = if timestamps { 40 } else { 140 };
        assert_eq!(srtt.as_millis(), expected, "timestamps: {timestamps}");
        let stamped =
            Packet::parse(&request).unwrap().options().flatten().any(|o| matches!(o, Opt::Timestamp(_)));
        assert_eq!(stamped, timestamps);
    }
}

/// The sender's CCID decides whether Acks carry Timestamps. Data packets never do.
#[test]
fn acks_carry_timestamps_if_the_sender_asks() {
    for (ccid, draft, asked) in [(5, false, true), (5, true, false), (7, false, true), (2, false, false)] {
        let cc = CcOptions { draft, ..CcOptions::default() };
        let mut net =
            Net::pair(Config { tx_ccids: vec![ccid], rx_ccids: vec![ccid], cc, ..Config::default() });
        let opened = net.log.len();
        net.send_paced(CLIENT, 100, b"x", Duration::from_millis(10));
        let stamped =
            |sent: &&Sent| sent.packet().options().flatten().any(|o| matches!(o, Opt::Timestamp(_)));
        let of = |from, ptype| net.log[opened..].iter().filter(move |s| s.from == from && s.ptype() == ptype);
        let acks = of(SERVER, PacketType::Ack).count();
        assert!(acks > 10, "{acks}");
        let expected = if asked { acks } else { 0 };
        assert_eq!(of(SERVER, PacketType::Ack).filter(stamped).count(), expected, "CCID {ccid}, {draft}");
        assert_eq!(of(CLIENT, PacketType::Data).filter(stamped).count(), 0);
        assert_eq!(of(CLIENT, PacketType::DataAck).filter(stamped).count(), 0);
    }
}

#[test]
fn acks_carry_timestamps_after_a_change_to_a_ccid_that_asks() {
    let config = Config { tx_ccids: vec![2], rx_ccids: vec![2, 5], ..Config::default() };
    let mut net = Net::pair(config);
    let told = |net: &Net| {
        let stamped = |sent: &&Sent| {
            let packet = sent.packet();
            sent.from == SERVER
                && sent.ptype() == PacketType::Ack
                && packet.options().flatten().any(|o| matches!(o, Opt::Timestamp(_)))
        };
        net.log.iter().filter(stamped).count()
    };
    let send = |net: &mut Net| net.send_paced(CLIENT, 100, b"x", Duration::from_millis(10));
    send(&mut net);
    assert_eq!(told(&net), 0);
    assert!(net.end(CLIENT).set_ccid(5));
    send(&mut net);
    assert!(told(&net) > 10, "{}", told(&net));
}

/// A Timestamp from a clock that has jumped must neither shorten round-trip times nor shift estimated arrival
/// times.
#[test]
fn a_clock_that_jumps_leaves_the_model_of_the_path_alone() {
    let mut net = open(5);
    net.send_paced(CLIENT, 50, b"x", Duration::from_millis(10));
    let before = net.end(CLIENT).tx_view().unwrap();
    net.network = Box::new(|_| Fate::Drop);
    net.send(CLIENT, b"x");
    net.run(Duration::from_millis(40));
    let header = net.next_from(SERVER, PacketType::Ack);
    // The Timestamp is an hour earlier than those of the preceding Acks.
    let stamp = ((net.now.as_nanos() / 10_000) as u32).wrapping_sub(360_000_000).to_be_bytes();
    let options = [&[41, 6][..], &stamp, &[38, 3, 4]].concat();
    assert!(net.strike(SERVER, &header, &options, &[]));
    net.network = Box::new(|_| Fate::Deliver);
    net.send_paced(CLIENT, 100, b"x", Duration::from_millis(10));
    let after = net.end(CLIENT).tx_view().unwrap();
    assert!(after.delivered.packets > before.delivered.packets);
    let [before, after] = [before, after].map(|view| view.cwnd.bytes(1_500));
    assert!(after < 2 * before && before < 2 * after, "{before} {after}");
}

/// RFC 4340 section 10.5: a new path starts with new congestion state.
#[test]
fn a_new_path_is_found_out_about_anew() {
    for ccid in [2, 3, 4, 5, 7, 250] {
        let mut net = open(ccid);
        let fresh = net.end(CLIENT).tx_view().unwrap().cwnd.bytes(1500);
        net.send_many(CLIENT, 2000, &[0; 1000]);
        net.run(Duration::from_millis(400));
        let grown = net.end(CLIENT).tx_view().unwrap();
        assert!(ccid == 4 || grown.cwnd.bytes(1500) > 2 * fresh, "CCID {ccid}");
        let now = net.now;
        net.end(CLIENT).on_path_change(now);
        net.end(SERVER).on_path_change(now);
        let anew = net.end(CLIENT).tx_view().unwrap();
        assert!(anew.cwnd.bytes(1500) <= fresh.max(20_000) && anew.rtt.srtt().is_none(), "CCID {ccid}");
        assert_eq!(anew.delivered.packets, grown.delivered.packets);
        net.run(Duration::from_secs(if ccid == 4 { 60 } else { 20 }));
        assert_eq!(net.delivered[SERVER].len(), 2000, "CCID {ccid}");
        assert_eq!(net.states(), [State::Open; 2]);
    }
}

/// RFC 8899: the path MTU of the old path does not limit the search on a new path.
#[test]
fn a_new_path_may_carry_larger_packets() {
    let mut net = Net::new(Config { probe_mtu: true, ..Config::default() }, Config::default());
    net.network =
        Box::new(|sent| if sent.bytes.len() + OVERHEAD > 1300 { Fate::Drop } else { Fate::Deliver });
    net.run(Duration::from_secs(30));
    assert_eq!(net.end(CLIENT).mtu(), 1300);
    net.network = Box::new(|_| Fate::Deliver);
    let now = net.now;
    net.end(CLIENT).on_path_change(now);
    net.run(Duration::from_secs(1));
    assert_eq!(net.end(CLIENT).mtu(), 1500);
}

/// RFC 4340 section 11.5 and RFC 4342: an end that changes to a CCID without Ack Vectors switches Ack Vectors
/// off.
#[test]
fn ack_vectors_end_with_the_ccid_that_needed_them() {
    let mut net = Net::pair(Config::default());
    net.end(CLIENT).set_ccid(3);
    net.send_many(CLIENT, 100, &[0; 500]);
    net.run(Duration::from_secs(5));
    assert_eq!(net.end(SERVER).feature(feature::SEND_ACK_VECTOR, Side::Local), 0);
    let vector = |sent: &Sent| sent.packet().options().flatten().any(|o| matches!(o, Opt::AckVector(..)));
    assert!(!vector(net.last(SERVER)));
}

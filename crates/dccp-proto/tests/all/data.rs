//! Data, acknowledgements and their options.

use crate::common::*;
use dccp_proto::{Config, DropReason, Event, Gate, State, Why};
use dccp_wire::{Header, MpOption, Opt, OptionBuf, PacketType, ResetCode, Seq, ack_vector, checksum};
use mpdccp_units::Duration;

fn mp_seq(n: u64) -> Vec<u8> {
    let mut out = OptionBuf::new();
    assert!(out.push(&Opt::Mp(MpOption::Seq(Seq::new(n)))));
    assert_eq!(out.len(), 9);
    out.as_bytes().to_vec()
}

/// Sends one data packet, bypassing the harness's queue.
fn transmit(net: &mut Net, side: usize, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let now = net.now;
    let mut wire = Outbox::new();
    net.end(side).transmit(now, options, payload, &mut wire);
    wire.pop().unwrap().2
}

#[test]
fn data_headers_are_constant() {
    // MP_SEQ takes 9 bytes. Padding to 12 leaves three bytes, just enough for NDP Count.
    for ndp in [true, false] {
        let mut net = Net::pair(Config { multipath: true, ndp_count: ndp, ..Config::default() });
        let room = net.end(CLIENT).max_payload(9);
        assert_eq!(room, 1500 - OVERHEAD - 28);
        for n in 0..10 {
            let bytes = transmit(&mut net, CLIENT, &mp_seq(n), &vec![1; room]);
            assert_eq!(bytes.len(), 1500 - OVERHEAD);
            assert_eq!(bytes[16..25], mp_seq(n));
            assert_eq!(bytes[25..27], if ndp { [37, 3] } else { [0; 2] });
            assert!(n == 0 || bytes[27] == 0);
        }
    }
}

#[test]
fn a_packet_without_a_payload_is_filled_with_padding() {
    for mtu in [600, 1500] {
        let mut net = Net::pair(Config { mtu, ..Config::default() });
        let bytes = transmit(&mut net, CLIENT, &[], &[]);
        // The options and the MTU both limit the packet size; the smaller limit applies.
        let expected = (usize::from(mtu) - OVERHEAD).min(16 + dccp_wire::MAX_OPTIONS);
        assert!(bytes.len() + 12 > expected && bytes.len() <= expected, "{} of {expected}", bytes.len());
        net.inject(SERVER, &bytes, dccp_proto::Ecn::NotEct);
        assert_eq!(net.end(SERVER).stats().data_received, 1, "a padded packet must count as data");
    }
}

#[test]
fn nothing_is_longer_than_the_path_mtu_and_full_packets_carry_no_feedback() {
    for multipath in [false, true] {
        let mut net = Net::pair(Config {
            ndp_count: true,
            check_data_checksum: true,
            multipath,
            mtu: 1280,
            tx_ccids: vec![5],
            ..Config::default()
        });
        let room = net.end(CLIENT).max_payload(0);
        for _ in 0..3000 {
            net.send(CLIENT, &vec![1; room]);
            net.send(SERVER, &vec![2; room]);
        }
        let mut n = 0;
        net.network = Box::new(move |_| {
            n += 1;
            if n % 37 == 0 { Fate::Drop } else { Fate::Deliver }
        });
        net.run(Duration::from_secs(30));
        for sent in &net.log {
            assert!(sent.bytes.len() + OVERHEAD <= 1280);
            assert!(sent.ptype() != PacketType::DataAck || sent.packet().payload.len() < room);
        }
        for side in [CLIENT, SERVER] {
            assert!(net.delivered[side].len() > 2800);
            assert!(net.types(side).contains(&PacketType::Ack));
        }
    }
}

#[test]
fn small_data_takes_feedback_along() {
    let mut net = Net::pair(Config::default());
    for _ in 0..50 {
        net.send(CLIENT, &[0; 160]);
        net.send(SERVER, &[0; 160]);
        net.run(Duration::from_millis(20));
    }
    for side in [CLIENT, SERVER] {
        let count = |t| net.types(side).iter().filter(|x| **x == t).count();
        assert!(count(PacketType::DataAck) > 10, "{:?}", net.types(side));
        assert_eq!(net.delivered[side].len(), 50);
    }
}

/// RFC 4342 section 8 and RFC 4340 section 11.2: Data never carries options that need an Acknowledgement
/// Number, even if they fit.
#[test]
fn data_with_little_room_leaves_all_feedback_to_an_ack() {
    for room in [0, 40, 80, 120] {
        let mut net = Net::pair(Config::default());
        net.end(CLIENT).set_slow_receiver(true);
        let payload = net.end(CLIENT).max_payload(room);
        let bytes = emit(&net.next_from(SERVER, PacketType::Data), &[], b"x");
        assert!(net.inject(CLIENT, &bytes, dccp_proto::Ecn::NotEct));
        let bytes = transmit(&mut net, CLIENT, &[], &vec![1; payload]);
        let packet = dccp_wire::Packet::parse(&bytes).unwrap();
        assert_eq!(packet.header.ptype, PacketType::Data);
        let options: Vec<Opt<'_>> = packet.options().flatten().collect();
        let feedback = |o: &Opt<'_>| !matches!(o, Opt::NdpCount(_));
        assert!(!options.iter().any(feedback), "{room} bytes of room: {options:?}");
        // The feedback is still due.
        let sent_at = net.now;
        net.run(Duration::from_millis(500));
        let acks =
            net.log.iter().filter(|s| s.from == CLIENT && s.at >= sent_at && s.ptype() == PacketType::Ack);
        let vector = |s: &Sent| s.packet().options().flatten().any(|o| matches!(o, Opt::AckVector(..)));
        assert!(acks.clone().any(vector), "{room}");
    }
}

#[test]
fn an_acknowledgement_covers_what_arrived() {
    let mut net = Net::pair(Config::default());
    let first = net.log.len();
    net.network =
        Box::new(
            |s| if s.ptype() == PacketType::Data && s.index % 5 == 0 { Fate::Drop } else { Fate::Deliver },
        );
    net.send_many(CLIENT, 400, &[0; 500]);
    net.run(Duration::from_secs(20));
    // Compares the server's last Ack Vectors with the actual fate of each packet.
    let mut truth = std::collections::BTreeMap::new();
    for sent in net.log[first..].iter().filter(|s| s.from == CLIENT) {
        let lost = sent.ptype() == PacketType::Data && sent.index % 5 == 0;
        truth.insert(sent.packet().header.seq.value(), !lost);
    }
    let mut told = std::collections::BTreeMap::new();
    for ack in net.log[first..].iter().filter(|s| s.from == SERVER && s.ptype() == PacketType::Ack) {
        let mut seq = ack.packet().header.ack.unwrap();
        for option in ack.packet().options().flatten() {
            let Opt::AckVector(_, cells) = option else { continue };
            for (state, run) in ack_vector::runs(cells) {
                for _ in 0..run {
                    told.insert(seq.value(), state == ack_vector::State::Received);
                    seq = seq.sub(1);
                }
            }
        }
    }
    let last = *told.keys().next_back().unwrap();
    for (seq, arrived) in truth.range(..=last) {
        assert_eq!(told.get(seq), Some(arrived), "{seq}");
    }
    // On a one-way flow, acknowledgements of acknowledgements keep the Ack Vectors short
    // (RFC 4341 section 6.2).
    assert!(
        net.log[first..].iter().filter(|s| s.from == SERVER).all(|s| s.packet().option_bytes.len() < 300)
    );
    assert!(net.log[first..].iter().any(|s| s.from == CLIENT && s.ptype() == PacketType::Ack));
}

/// RFC 4340 section 7.7: every packet that follows a packet without data carries NDP Count, even a Reset.
#[test]
fn a_reset_tells_the_run_of_packets_without_data() {
    let mut net = Net::pair(Config { ndp_count: true, ..Config::default() });
    let count = |sent: &Sent| {
        let options: Vec<_> = sent.packet().options().flatten().map(|o| format!("{o:?}")).collect();
        options.iter().any(|o| o.starts_with("NdpCount"))
    };
    net.run(Duration::from_secs(1));
    net.end(CLIENT).abort(ResetCode::Aborted);
    net.pump();
    assert_eq!(
        (net.last(CLIENT).ptype(), count(net.last(CLIENT))),
        (PacketType::Reset, true),
        "a Reset after an Ack carries NDP Count"
    );
}

#[test]
fn ndp_count_tells_the_run_of_packets_without_data() {
    let mut net = Net::pair(Config { ndp_count: true, ..Config::default() });
    let first = net.log.len();
    for n in 0..300 {
        net.send(CLIENT, &[0; 1400]);
        if n % 20 == 0 {
            net.send(SERVER, &[0; 1400]);
        }
    }
    net.run(Duration::from_secs(20));
    let mut runs = 0;
    for side in [CLIENT, SERVER] {
        let mut run = None;
        for sent in net.log[first..].iter().filter(|s| s.from == side) {
            let ndp = sent.packet().options().flatten().find_map(|o| match o {
                Opt::NdpCount(n) => Some(n),
                _ => None,
            });
            let data = sent.ptype().is_data();
            // The first count covers handshake packets, which are not in this part of the log.
            if let Some(run) = run {
                assert_eq!(ndp.unwrap_or(0), run);
                runs = runs.max(run);
            }
            assert!(!data || ndp.is_some());
            run = Some(if data { 0 } else { run.unwrap_or(ndp.unwrap_or(0)) + 1 });
        }
    }
    assert!(runs > 1);
}

#[test]
fn a_long_run_without_data_never_makes_a_packet_too_long() {
    let mut net = Net::pair(Config { ndp_count: true, ..Config::default() });
    for _ in 0..400 {
        net.end(CLIENT).send_options(&[200, 3, 1]);
        net.run(Duration::from_millis(1));
    }
    let room = net.end(CLIENT).max_payload(9);
    let ndp = |bytes: &[u8]| {
        let options = dccp_wire::Packet::parse(bytes).unwrap().options();
        options.flatten().find_map(|o| if let Opt::NdpCount(n) = o { Some(n) } else { None }).unwrap()
    };
    let full = transmit(&mut net, CLIENT, &mp_seq(1), &vec![0; room]);
    assert_eq!((full.len() + OVERHEAD, ndp(&full)), (1500, 255));
    for _ in 0..400 {
        net.end(CLIENT).send_options(&[200, 3, 1]);
        net.run(Duration::from_millis(1));
    }
    assert!(ndp(&transmit(&mut net, CLIENT, &mp_seq(1), &[0; 100])) >= 400);
}

/// RFC 4340 section 9.3: the Data Checksum is verified on any packet, even one of a type that carries no
/// data.
#[test]
fn a_data_checksum_that_fails_on_an_ack_is_reported_too() {
    let mut net = Net::pair(Config::default());
    let header = net.next_from(CLIENT, PacketType::Ack);
    let mut options = OptionBuf::new();
    assert!(options.push(&Opt::DataChecksum(0x1234_5678)));
    assert!(net.strike(CLIENT, &header, options.as_bytes(), b"ignored"), "the packet is acknowledgeable");
    assert_eq!(net.end(SERVER).stats().dropped[&DropReason::DataChecksum], 1);
    assert!(net.delivered[SERVER].is_empty());
    let data = Header { seq: header.seq.next(), ..net.next_from(CLIENT, PacketType::DataAck) };
    assert!(net.strike(CLIENT, &data, &[], b"data"));
    net.run(Duration::from_secs(1));
    let reports = |sent: &&Sent| {
        sent.from == SERVER && sent.packet().options().flatten().any(|o| matches!(o, Opt::DataDropped(_)))
    };
    assert!(net.log.iter().any(|sent| reports(&sent)));
}

#[test]
fn corrupt_data_is_dropped_counted_and_reported() {
    let mut net = Net::pair(Config { check_data_checksum: true, ..Config::default() });
    let good = transmit(&mut net, CLIENT, &[], b"payload");
    assert!(good.windows(2).any(|w| w == [44, 6]));
    let mut bad = transmit(&mut net, CLIENT, &[], b"payload");
    *bad.last_mut().unwrap() ^= 1;
    assert!(net.inject(SERVER, &good, Default::default()));
    // The packet is still acknowledgeable (RFC 4340 section 9.3).
    assert!(net.inject(SERVER, &bad, Default::default()));
    assert_eq!(net.delivered[SERVER], [b"payload"]);
    assert_eq!(net.end(SERVER).stats().dropped[&DropReason::DataChecksum], 1);
    net.run(Duration::from_millis(10));
    let ack = net.last(SERVER).packet();
    let report =
        ack.options().flatten().find_map(|o| if let Opt::DataDropped(b) = o { Some(b) } else { None });
    // The newest packet has a Drop Block with code 3.
    assert_eq!(report, Some(&[0xb0][..]));
    net.run(Duration::from_secs(1));
    // The sender treats the report as an ECN mark (RFC 4340 section 11.7).
    assert_eq!(net.end(CLIENT).tx_view().unwrap().ce, 1);
    // Once the report is acknowledged, it is not repeated.
    net.send(CLIENT, b"more");
    net.run(Duration::from_secs(1));
    net.send(SERVER, b"other way");
    net.run(Duration::from_secs(1));
    net.send(CLIENT, b"again");
    net.run(Duration::from_secs(1));
    assert!(!net.last(SERVER).packet().options().flatten().any(|o| matches!(o, Opt::DataDropped(_))));
}

#[test]
fn partly_covered_data_is_not_delivered() {
    let mut net = Net::pair(Config::default());
    let header = dccp_wire::Header { cscov: 1, ..net.next_from(CLIENT, PacketType::Data) };
    assert!(net.strike(CLIENT, &header, &[], b"loose"));
    assert!(net.delivered[SERVER].is_empty());
    assert_eq!(net.end(SERVER).stats().dropped[&DropReason::Coverage], 1);
}

#[test]
fn options_that_data_may_not_carry_are_ignored_on_it() {
    let mut net = Net::pair(Config::default());
    // The options are Mandatory with an invalid option, Change L(Ack Ratio, 9), Ack Vector, Data Dropped and
    // Elapsed Time.
    let options = [1, 127, 2, 1, 1, 32, 5, 5, 0, 9, 38, 4, 0x40, 0, 40, 3, 0xb0, 43, 4, 0, 1, 1];
    let header = net.next_from(CLIENT, PacketType::Data);
    assert!(net.strike(CLIENT, &header, &options, b"data"));
    assert_eq!(net.delivered[SERVER], [b"data"]);
    net.run(Duration::from_secs(1));
    assert_eq!(net.state(SERVER), State::Open);
    assert_eq!(net.end(SERVER).feature(5, dccp_proto::Side::Remote), 2);
    assert_eq!(net.end(SERVER).tx_view().unwrap().ce, 0);
}

#[test]
fn mandatory_is_obeyed_or_fatal() {
    use ResetCode::{MandatoryError, OptionError};
    #[allow(clippy::type_complexity)]
    let table: [(&[u8], Option<(ResetCode, [u8; 3])>); 15] = [
        (&[1, 0, 0, 0], None),
        (&[1, 2], None),
        (&[1, 41, 6, 1, 2, 3, 4], None),
        (&[127, 4, 1, 2], None),
        (&[1, 127, 4, 8, 9], Some((MandatoryError, [127, 8, 9]))),
        (&[1, 30, 0, 0], Some((MandatoryError, [30, 0, 0]))),
        (&[1, 44, 4, 8, 9], Some((MandatoryError, [44, 8, 9]))),
        (&[1, 34, 4, 99, 1], Some((MandatoryError, [34, 99, 1]))),
        (&[1, 46, 4, 9, 3], Some((MandatoryError, [46, 9, 3]))),
        (&[1, 128, 3, 7], Some((MandatoryError, [128, 7, 0]))),
        (&[1, 1, 2, 0], Some((OptionError, [1, 0, 0]))),
        (&[1, 1, 0, 2], Some((OptionError, [1, 0, 0]))),
        (&[2, 2, 2, 1], Some((OptionError, [1, 0, 0]))),
        // Length 9 exceeds the area.
        (&[127, 9, 1, 1], None),
        (&[1, 127, 9, 1], Some((OptionError, [1, 0, 0]))),
    ];
    for (options, meant) in table {
        let mut net = Net::pair(Config::default());
        let header = net.next_from(CLIENT, PacketType::Ack);
        let valid = net.strike(CLIENT, &header, options, &[]);
        let reset = net.last(SERVER).packet().header.reset.filter(|_| net.state(SERVER) == State::Closed);
        assert_eq!(reset.map(|r| (r.code, r.data)), meant, "{options:?}");
        assert_eq!(valid, meant.is_none());
    }
}

#[test]
fn timestamps_are_echoed_with_the_time_they_were_held() {
    let mut net = Net::pair(Config::default());
    let header = net.next_from(CLIENT, PacketType::Data);
    let from = net.log.len();
    net.strike(CLIENT, &header, &[41, 6, 1, 2, 3, 4], b"x");
    net.run(Duration::from_secs(1));
    let ack = &net.log[from];
    let held = ack.at - (net.now - Duration::from_secs(1));
    let echo = Opt::TimestampEcho(0x0102_0304, (held.as_micros() / 10) as u32);
    assert!(ack.packet().options().any(|o| o == Ok(echo)), "{:?}", ack.packet().option_bytes);
    let echoes = net.log[from..].iter().flat_map(|s| s.packet().options().flatten());
    assert_eq!(echoes.filter(|o| matches!(o, Opt::TimestampEcho(..))).count(), 1);
}

#[test]
fn timestamps_are_echoed_once_in_a_round_trip() {
    let mut net = Net::pair(Config::default());
    let from = net.log.len();
    let mut header = net.next_from(CLIENT, PacketType::Data);
    let mut strike = |times: usize, pause: u64| {
        for _ in 0..times {
            net.strike(CLIENT, &header, &[41, 6, 1, 2, 3, 4], b"x");
            header.seq = header.seq.next();
            net.run(Duration::from_millis(pause));
        }
        let echoes = net.log[from..].iter().flat_map(|s| s.packet().options().flatten());
        echoes.filter(|o| matches!(o, Opt::TimestampEcho(..))).count()
    };
    assert_eq!(strike(10, 2), 1);
    assert_eq!(strike(4, 100), 4);
}

/// A Timestamp Echo refers to an older packet than the one acknowledged by the same Ack.
#[test]
fn the_time_that_an_echo_was_held_is_not_that_of_the_acknowledged_packet() {
    let mut net = open(5);
    net.network = Box::new(|_| Fate::Drop);
    net.send(CLIENT, b"x");
    net.run(Duration::from_millis(40));
    let header = net.next_from(SERVER, PacketType::Ack);
    // The peer echoes some Timestamp that it has held for 30 ms.
    assert!(net.strike(SERVER, &header, &[42, 8, 0, 0, 0, 1, 0x0b, 0xb8, 38, 3, 0], &[]));
    let rtt = net.end(CLIENT).tx_view().unwrap().rtt.latest();
    assert_eq!(rtt, Some(Duration::from_millis(40)));
}

#[test]
fn a_slow_receiver_says_so() {
    let mut net = Net::pair(Config::default());
    net.send(CLIENT, b"x");
    net.run(Duration::from_secs(1));
    assert_eq!(net.end(CLIENT).stats().slow_receiver, 0);
    net.end(SERVER).set_slow_receiver(true);
    net.send(CLIENT, b"x");
    net.run(Duration::from_secs(1));
    assert!(net.end(CLIENT).stats().slow_receiver > 0);
}

#[test]
fn empty_datagrams_are_datagrams_and_padding_of_acks_is_not() {
    let mut net = Net::pair(Config::default());
    net.send(CLIENT, b"");
    net.run(Duration::from_secs(1));
    let header = net.next_from(CLIENT, PacketType::Ack);
    assert!(net.strike(CLIENT, &header, &[], b"padding"));
    assert_eq!(net.delivered[SERVER], [b""]);
}

#[test]
fn data_on_a_request_is_refused_and_reported() {
    let mut net = Net::new(Config::default(), Config::default());
    let request =
        dccp_wire::Header { ack: None, ..net.forge(CLIENT, PacketType::Request, Seq::new(5), None) };
    net.strike(CLIENT, &request, &[], b"early");
    assert!(net.delivered[SERVER].is_empty());
    let response = net.log.iter().find(|s| s.from == SERVER).unwrap();
    assert!(response.packet().options().any(|o| o == Ok(Opt::DataDropped(&[0x80]))));
}

#[test]
fn the_gate_waits_for_the_handshake() {
    for multipath in [false, true] {
        let cfg = Config { multipath, ack_on_open: multipath, ..Config::default() };
        let mut net = Net::new(cfg.clone(), cfg);
        assert_eq!(net.gate(CLIENT), Gate::Closed(Why::Handshake));
        net.run(Duration::from_millis(41));
        assert_eq!(net.state(CLIENT), State::PartOpen);
        let open = matches!(net.gate(CLIENT), Gate::Open { .. });
        assert_eq!(open, !multipath);
        if !multipath {
            net.send(CLIENT, b"early");
            net.run(Duration::from_millis(1));
            assert_eq!(net.last(CLIENT).ptype(), PacketType::DataAck);
        }
        net.run(Duration::from_secs(1));
        assert_eq!(net.state(SERVER), State::Open);
        net.close(CLIENT, false);
        assert_eq!(net.gate(CLIENT), Gate::Closed(Why::Closing));
    }
}

#[test]
fn the_servers_ack_makes_a_silent_client_open() {
    let cfg = Config { ack_on_open: true, ..Config::default() };
    let mut net = Net::new(Config::default(), cfg);
    let mut acks = 0;
    // The server's first two Acks are lost. The client keeps retransmitting its own Ack until one of the
    // server's Acks arrives.
    net.network = Box::new(move |s| {
        let ack = s.from == SERVER && s.ptype() == PacketType::Ack;
        acks += u32::from(ack);
        if ack && acks <= 2 { Fate::Drop } else { Fate::Deliver }
    });
    net.run(Duration::from_secs(5));
    assert_eq!(net.events[CLIENT], [Event::Responded, Event::Opened]);
    let sent = net.log.len();
    net.run(Duration::from_secs(60));
    assert_eq!(net.log.len(), sent);
}

#[test]
fn owners_options_leave_as_soon_as_possible_and_are_bounded() {
    let mut net = Net::new(Config::default(), Config { ack_on_open: true, ..Config::default() });
    for n in 0..100u8 {
        net.end(CLIENT).send_options(&[200, 100, n]);
    }
    net.end(CLIENT).send_options(&[0; 2000]);
    assert_eq!(net.end(CLIENT).stats().options_dropped, 37);
    net.run(Duration::from_secs(1));
    let open = net.log.iter().rposition(|s| s.from == SERVER && s.index == 1).unwrap();
    assert!(net.log[..open].iter().all(|s| !s.bytes.windows(2).any(|w| w == [200, 100])));
    let carried: usize =
        net.log[open..].iter().map(|s| s.bytes.windows(2).filter(|w| *w == [200, 100]).count()).sum();
    assert_eq!(carried, 64);
    assert!(net.log.iter().all(|s| s.bytes.len() + OVERHEAD <= 1500));
}

/// When the MTU shrinks, options that the owner has queued may no longer fit into an Ack. They must be
/// dropped. Otherwise an Ack would stay due for them forever.
#[test]
fn owners_options_that_a_smaller_mtu_has_no_room_for_are_dropped() {
    let mut net = Net::pair(Config::default());
    let option = |len: u8| [vec![200, len], vec![7; usize::from(len) - 2]].concat();
    [100, 20].into_iter().for_each(|len| net.end(CLIENT).send_options(&option(len)));
    net.end(CLIENT).set_mtu(mpdccp_units::Time::ZERO, 130);
    let (now, mut wire) = (net.now, Outbox::new());
    while net.end(CLIENT).poll_transmit(now, &mut wire) && wire.len() < 10 {}
    assert_eq!((wire.len(), net.end(CLIENT).stats().options_dropped), (1, 1));
    assert!(wire[0].2.windows(2).any(|w| w == [200, 20]), "the shorter option must leave");
}

#[test]
fn a_new_mtu_counts_at_once() {
    let mut net = Net::pair(Config::default());
    let before = net.end(CLIENT).max_payload(9);
    net.end(CLIENT).set_mtu(mpdccp_units::Time::ZERO, 1280);
    assert_eq!(net.end(CLIENT).max_payload(9), before - 220);
    // An Ack leaves even with an impossible MTU.
    net.end(SERVER).set_mtu(mpdccp_units::Time::ZERO, 0);
    assert_eq!(net.end(SERVER).max_payload(9), 0);
    net.send_many(CLIENT, 10, b"x");
    net.run(Duration::from_secs(1));
    assert_eq!(net.end(CLIENT).tx_view().unwrap().delivered.packets, 10);
    assert!(net.types(SERVER).len() < 20);
}

#[test]
fn reordering_and_duplicates_do_no_harm() {
    let mut net = Net::pair(Config::default());
    let mut n = 0u64;
    net.network = Box::new(move |_| {
        n += 1;
        match n % 11 {
            3 => Fate::Late(Duration::from_millis(n % 7)),
            7 => Fate::Twice,
            _ => Fate::Deliver,
        }
    });
    for n in 0..2000u32 {
        net.send(CLIENT, &n.to_be_bytes());
    }
    net.run(Duration::from_secs(30));
    let mut got = net.delivered[SERVER].clone();
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 2000);
    assert_eq!(net.states(), [State::Open, State::Open]);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let cfg = Config { tx_ccids: vec![5], rx_ccids: vec![5], ndp_count: true, ..Config::default() };
        let mut net = Net::new(cfg.clone(), cfg);
        net.network = Box::new(|s| if s.index % 23 == 7 { Fate::Drop } else { Fate::Deliver });
        for n in 0..500u32 {
            net.send(CLIENT, &n.to_be_bytes());
            net.send(SERVER, &[7; 1000]);
        }
        net.run(Duration::from_secs(10));
        net.close(CLIENT, false);
        net.run(Duration::from_secs(10));
        net.log.into_iter().map(|s| (s.from, s.at, s.bytes)).collect::<Vec<_>>()
    };
    let (a, b) = (run(), run());
    assert!(a.len() > 1000);
    assert!(a == b);
}

#[test]
fn data_checksum_is_crc32c() {
    let mut net = Net::pair(Config { check_data_checksum: true, ..Config::default() });
    let bytes = transmit(&mut net, CLIENT, &[], b"123456789");
    let packet = dccp_wire::Packet::parse(&bytes).unwrap();
    assert!(packet.options().any(|o| o == Ok(Opt::DataChecksum(checksum::crc32c(b"123456789")))));
}

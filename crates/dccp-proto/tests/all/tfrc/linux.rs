//! Feeds a capture of Linux with CCID 3 to our halves. Linux sent one packet of 1,000 bytes every 8 ms.

use super::ccids;
use crate::captures::capture;
use crate::common::route;
use dccp_proto::Side;
use dccp_proto::ccid::{self, AckDue, Arrival, Feedback, HalfConfig};
use dccp_proto::{Connection, Ecn, Outbox};
use dccp_wire::{Opt, OptionBuf, Options, Packet, PacketType, feature};
use mpdccp_units::{Duration, Time};

fn config(first: &Packet<'_>) -> HalfConfig {
    HalfConfig::new(1500, first.header.seq, Some(Duration::from_micros(500)))
}

fn is_data(packet: &Packet<'_>) -> bool {
    matches!(packet.header.ptype, PacketType::Data | PacketType::DataAck)
}

fn ndp(packet: &Packet<'_>) -> Option<u64> {
    packet.options().find_map(|option| match option {
        Ok(Opt::NdpCount(count)) => Some(count),
        _ => None,
    })
}

#[test]
fn our_receiver_measures_what_linux_measures() {
    let frames = capture("plain_ccid3.pcap");
    let packets: Vec<(Time, Packet<'_>)> =
        frames.iter().map(|(at, bytes)| (*at, Packet::parse(bytes).unwrap())).collect();
    let client = packets[0].1.header.src_port;
    let mut half = ccid::receiver(3, &config(&packets[0].1)).unwrap();
    let (mut reports, mut newest) = (0, packets[0].1.header.seq);
    for (now, packet) in packets.iter().filter(|(_, p)| p.header.src_port == client) {
        let header = &packet.header;
        let arrival = Arrival {
            seq: header.seq,
            ecn: Ecn::NotEct,
            data: is_data(packet),
            ccval: header.ccval,
            ndp: ndp(packet),
            bytes: packet.payload.len() as u32 + 60,
            payload: if is_data(packet) { packet.payload.len() as u32 } else { 0 },
        };
        half.on_packet(*now, &arrival);
        newest = header.seq;
        if half.ack_due(*now) != AckDue::Now {
            continue;
        }
        let mut out = OptionBuf::new();
        half.write_feedback(*now, header.seq, newest, 300, &mut out);
        reports += 1;
        for option in Options::new(out.as_bytes()) {
            match option.unwrap() {
                Opt::Ccid(194, rate) if reports > 2 => {
                    let rate = u32::from_be_bytes(rate.try_into().unwrap());
                    assert!((115_000..=135_000).contains(&rate), "{rate}");
                }
                Opt::Ccid(192, rate) => assert_eq!(rate, [0xff; 4]),
                _ => {}
            }
        }
    }
    // The rate is below one packet per round trip, so our receiver reports every packet, as Linux does.
    assert!((180..=190).contains(&reports), "{reports}");
    assert!(newest.after(packets[0].1.header.seq));
}

#[test]
fn our_sender_obeys_what_linux_reports() {
    let frames = capture("plain_ccid3.pcap");
    let packets: Vec<(Time, Packet<'_>)> =
        frames.iter().map(|(at, bytes)| (*at, Packet::parse(bytes).unwrap())).collect();
    let client = packets[0].1.header.src_port;
    let mut half = ccid::sender(3, &config(&packets[0].1)).unwrap();
    for (now, packet) in &packets {
        let header = &packet.header;
        if header.src_port == client {
            let payload = is_data(packet).then_some(packet.payload.len() as u32);
            half.on_sent(*now, header.seq, packet.payload.len() as u32 + 60, payload);
        } else if let Some(ack) = header.ack.filter(|_| header.ptype == PacketType::Ack) {
            let feedback = Feedback { options: packet.option_bytes, ..Feedback::new(ack, &[]) };
            half.on_feedback(*now, &feedback);
        }
    }
    let view = half.view();
    assert_eq!((view.phase, view.lost.packets, view.timeouts), ("slow_start", 0, 0));
    assert!(view.delivered.packets >= 185 && view.inflight.packets <= 4, "{view:?}");
    // Both ends ran on one machine, so round trips take well below a millisecond. Without losses, the rate is
    // at least 4 packets per round trip.
    assert!(
        view.rtt.srtt().unwrap() < Duration::from_millis(1) && view.pacing.unwrap().mbps() > 30.0,
        "{view:?}"
    );
    assert!((view.delivery_rate.mbps() - 1.06).abs() < 0.1, "{:?}", view.delivery_rate);
}

#[test]
fn a_request_of_linux_is_answered_with_what_it_insists_on() {
    let frames = capture("plain_ccid3.pcap");
    let request = Packet::parse(&frames[0].1).unwrap();
    let mut config = ccids(3, 3);
    config.service_code = request.header.service_code.unwrap();
    let mut server = Connection::server(config, Time::ZERO, route(), &request, [1; 32]).unwrap();
    let mut wire = Outbox::new();
    assert!(server.poll_transmit(Time::ZERO, &mut wire));
    let response = Packet::parse(&wire[0].2).unwrap();
    assert_eq!(response.header.ptype, PacketType::Response);
    let confirmed = |wanted: Opt<'_>| response.options().any(|option| option == Ok(wanted));
    // Linux sent its requests for Loss Event Rate and NDP Count with Mandatory.
    assert!(confirmed(Opt::ConfirmL(feature::SEND_LOSS_EVENT_RATE, &[1, 1, 0])));
    // RFC 4340 section 13.1: the next packet carries the echo, which Linux uses to measure its first
    // round-trip time.
    let stamp = request.options().find_map(|option| match option {
        Ok(Opt::Timestamp(stamp)) => Some(stamp),
        _ => None,
    });
    assert!(confirmed(Opt::TimestampEcho(stamp.expect("Linux sends one"), 0)));
    assert_eq!(server.feature(feature::SEND_NDP_COUNT, Side::Local), 1);
    assert_eq!(server.feature(feature::CCID, Side::Local), 3);
    assert_eq!(server.feature(feature::CCID, Side::Remote), 3);
    assert_eq!(server.feature(feature::SEND_ACK_VECTOR, Side::Local), 0);
}

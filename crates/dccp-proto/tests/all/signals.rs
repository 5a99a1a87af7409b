//! Signals other than acknowledgements: Slow Receiver, Drop Codes and ECN failures.

use crate::common::*;
use dccp_proto::Side;
use dccp_proto::{Ecn, Gate, State, Why};
use dccp_wire::{PacketType, feature};
use mpdccp_units::Duration;

/// Sends 200 packets from the client, ten every 100 ms.
fn talk(net: &mut Net) {
    for _ in 0..20 {
        net.send_many(CLIENT, 10, &[1; 100]);
        net.run(Duration::from_millis(100));
    }
}

/// Returns the ECN field of the client's newest data packet.
fn newest_ecn(net: &Net) -> Ecn {
    net.log.iter().rfind(|sent| sent.from == CLIENT && sent.ptype() == PacketType::Data).unwrap().ecn
}

#[test]
fn slow_receiver_counts_on_any_packet() {
    for ptype in [PacketType::Data, PacketType::Sync, PacketType::Ack] {
        let mut net = open(2);
        let phase = |net: &mut Net| net.end(CLIENT).tx_view().unwrap().phase;
        assert_eq!(phase(&mut net), "slow_start");
        let header = net.next_from(SERVER, ptype);
        assert!(net.strike(SERVER, &header, &[2, 0, 0, 0], &[]));
        assert_eq!(phase(&mut net), "congestion_avoidance", "{ptype:?}");
    }
}

#[test]
fn no_data_for_an_application_that_does_not_listen() {
    // RFC 4340 section 11.7.2: Drop Code 1 stops the sender.
    for ccid in [2, 3, 5] {
        let mut net = open(ccid);
        talk(&mut net);
        let header = net.next_from(SERVER, PacketType::Ack);
        assert!(net.strike(SERVER, &header, &[40, 3, 0x90, 0], &[]));
        assert_eq!(net.gate(CLIENT), Gate::Closed(Why::NotListening));
    }
}

#[test]
fn a_path_that_clears_the_ecn_field_is_found() {
    let mut net = open(5);
    net.network = Box::new(|sent| if sent.from == CLIENT { Fate::Bleach } else { Fate::Deliver });
    talk(&mut net);
    assert_eq!(net.end(SERVER).feature(feature::ECN_INCAPABLE, Side::Local), 1);
    assert_eq!(net.end(CLIENT).feature(feature::ECN_INCAPABLE, Side::Remote), 1);
    assert_eq!(newest_ecn(&net), Ecn::NotEct);
    assert_eq!(net.delivered[SERVER].len(), 200);
}

#[test]
fn a_path_that_marks_everything_is_not_believed() {
    let mut net = open(5);
    net.network =
        Box::new(
            |sent| if sent.ecn == Ecn::Ect0 && sent.from == CLIENT { Fate::Mark } else { Fate::Deliver },
        );
    talk(&mut net);
    assert_eq!(newest_ecn(&net), Ecn::NotEct);
    // If a path marks only half of the packets, the marks are taken as genuine.
    let mut net = open(5);
    net.network =
        Box::new(
            |sent| if sent.ecn == Ecn::Ect0 && sent.index % 2 == 0 { Fate::Mark } else { Fate::Deliver },
        );
    talk(&mut net);
    assert_eq!(newest_ecn(&net), Ecn::Ect0);
}

#[test]
fn a_path_that_drops_what_is_ecn_capable_is_found() {
    let mut net = open(2);
    net.network = Box::new(|sent| if sent.ecn == Ecn::NotEct { Fate::Deliver } else { Fate::Drop });
    net.send_many(CLIENT, 50, &[1; 100]);
    net.run(Duration::from_secs(20));
    assert_eq!(net.states(), [State::Open; 2]);
    assert!(net.delivered[SERVER].len() >= 40, "{}", net.delivered[SERVER].len());
}

#[test]
fn a_new_path_that_drops_what_is_ecn_capable_is_found() {
    let mut net = open(2);
    talk(&mut net);
    assert_eq!(net.delivered[SERVER].len(), 200);
    net.network = Box::new(|sent| if sent.ecn == Ecn::NotEct { Fate::Deliver } else { Fate::Drop });
    let now = net.now;
    net.end(CLIENT).on_path_change(now);
    net.send_many(CLIENT, 50, &[1; 100]);
    net.run(Duration::from_secs(20));
    assert!(net.delivered[SERVER].len() >= 240, "{}", net.delivered[SERVER].len());
}

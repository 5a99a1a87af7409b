//! Sequence validity and synchronisation (RFC 4340 section 7.5 and steps 4 to 7 of section 8.5).

use crate::common::*;
use dccp_proto::{CloseReason, Config, Connection, DropReason, Event, Ports, State};
use dccp_wire::{PacketType, ResetCode, Seq};
use mpdccp_units::Duration;

fn dropped(net: &mut Net, side: usize, reason: DropReason) -> u64 {
    net.end(side).stats().dropped.get(&reason).copied().unwrap_or(0)
}

/// Sends data packets regardless of the congestion window. All of them are lost.
fn burn(net: &mut Net, side: usize, packets: usize) {
    let now = net.now;
    let mut wire = Outbox::new();
    for _ in 0..packets {
        net.end(side).transmit(now, &[], b"lost", &mut wire);
    }
}

#[test]
fn syncs_after_a_burst_of_loss_longer_than_the_window() {
    // W is 1024 here, so GSR + 768 is the last valid number.
    for (lost, syncs) in [(767, 0), (768, 1), (5000, 1)] {
        let mut net = Net::pair(Config::default());
        burn(&mut net, CLIENT, lost);
        let now = net.now;
        let mut wire = Outbox::new();
        net.end(CLIENT).transmit(now, &[], b"first", &mut wire);
        let first = wire.pop().unwrap().2;
        assert_eq!(net.inject(SERVER, &first, Default::default()), syncs == 0);
        net.run(Duration::from_millis(500));
        assert_eq!(net.types(SERVER).iter().filter(|t| **t == PacketType::Sync).count(), syncs);
        assert_eq!(net.types(CLIENT).iter().filter(|t| **t == PacketType::SyncAck).count(), syncs);
        assert_eq!(net.end(SERVER).stats().syncs_sent, syncs as u64);
        // The ends are synchronised again. The lost data still fills the sender's window, so the sender has
        // to wait for its timeout first.
        let heard = net.delivered[SERVER].len();
        net.send(CLIENT, b"second");
        net.run(Duration::from_secs(20));
        assert_eq!(net.delivered[SERVER].len(), heard + 1, "{lost}");
    }
}

#[test]
fn an_active_connection_waits_three_round_trips_before_it_believes_a_far_sync() {
    let mut net = Net::pair(Config::default());
    let far = net.gss(CLIENT).add(100_000);
    let ack = net.gss(SERVER);
    for ptype in [PacketType::Sync, PacketType::SyncAck] {
        let mut net = Net::pair(Config::default());
        net.send(CLIENT, b"alive");
        net.run(Duration::from_millis(21));
        let header = net.forge(CLIENT, ptype, far, Some(net.gss(SERVER)));
        assert!(!net.strike(CLIENT, &header, &[], &[]));
        net.run(Duration::from_millis(400));
        let header = net.forge(CLIENT, ptype, far, Some(net.gss(SERVER)));
        assert!(net.strike(CLIENT, &header, &[], &[]));
    }
    // A Sync that acknowledges a number that was never sent is neither accepted nor answered.
    let header = net.forge(CLIENT, PacketType::Sync, far, Some(ack.next()));
    let sent = net.log.len();
    assert!(!net.strike(CLIENT, &header, &[], &[]));
    assert_eq!(net.log.len(), sent);
}

#[test]
fn invalid_packets_are_answered_with_few_syncs() {
    let mut net = Net::pair(Config::default());
    let far = net.gss(CLIENT).add(1 << 40);
    let header = net.forge(CLIENT, PacketType::Data, far, None);
    let from = net.log.len();
    for _ in 0..1000 {
        net.strike(CLIENT, &header, &[], b"blind");
        net.now += Duration::from_millis(1);
    }
    // RFC 4340 section 7.5.4: at most eight Syncs are sent per second: four at once, the others as tokens
    // become available.
    let syncs: Vec<Sent> = net.log[from..].to_vec();
    let at: Vec<u64> = syncs.iter().map(|s| s.at.since(syncs[0].at).as_millis() as u64).collect();
    assert_eq!(at, [0, 1, 2, 3, 250, 500, 750]);
    for sync in syncs {
        let sync = sync.packet().header;
        assert_eq!((sync.ptype, sync.ack), (PacketType::Sync, Some(far)));
    }
    assert_eq!(dropped(&mut net, SERVER, DropReason::SequenceInvalid), 1000);
    assert_eq!(net.delivered[SERVER].len(), 0);
}

#[test]
fn an_invalid_reset_is_challenged_with_what_was_received_last() {
    let mut net = Net::pair(Config::default());
    let gsr = net.gss(CLIENT);
    // An old number, a number beyond the window, and an acknowledgement of a packet that was never sent.
    let table =
        [(gsr, net.gss(SERVER)), (gsr.add(100_000), net.gss(SERVER)), (gsr.next(), net.gss(SERVER).add(50))];
    for (seq, ack) in table {
        net.now += Duration::from_secs(1);
        let header = net.forge(CLIENT, PacketType::Reset, seq, Some(ack));
        assert!(!net.strike(CLIENT, &header, &[], &[]));
        let sync = net.last(SERVER).packet().header;
        assert_eq!((sync.ptype, sync.ack), (PacketType::Sync, Some(gsr)));
        assert_eq!(net.state(SERVER), State::Open);
    }
}

#[test]
fn types_that_make_no_sense_are_answered_with_a_sync() {
    let table = [
        (CLIENT, PacketType::CloseReq),
        (CLIENT, PacketType::Response),
        (CLIENT, PacketType::Request),
        (SERVER, PacketType::Request),
        (SERVER, PacketType::Response),
    ];
    for (from, ptype) in table {
        let mut net = Net::pair(Config::default());
        net.now += Duration::from_secs(1);
        let mut header = net.next_from(from, ptype);
        header.ack = header.ack.filter(|_| ptype.has_ack());
        assert!(!net.strike(from, &header, &[], &[]));
        assert_eq!(dropped(&mut net, 1 - from, DropReason::UnexpectedType), 1);
        let sync = net.last(1 - from).packet().header;
        assert_eq!((sync.ptype, sync.ack), (PacketType::Sync, Some(header.seq)), "{ptype:?}");
        assert_eq!(net.states(), [State::Open, State::Open]);
    }
}

#[test]
fn data_before_the_handshake_ends_is_answered_with_a_sync() {
    let mut net = Net::new(Config::default(), Config::default());
    net.run(Duration::from_millis(21));
    assert_eq!(net.state(SERVER), State::Respond);
    let header = net.forge(CLIENT, PacketType::Data, net.gss(CLIENT).next(), None);
    assert!(!net.strike(CLIENT, &header, &[], b"early"));
    assert_eq!(net.last(SERVER).ptype(), PacketType::Sync);
    assert_eq!(net.state(SERVER), State::Respond);
    net.run(Duration::from_secs(1));
    assert_eq!(net.state(SERVER), State::Open);
}

#[test]
fn a_client_in_request_resets_what_is_no_answer() {
    use PacketType::{Ack, DataAck, Response, Sync};
    for (ptype, short) in [(Sync, false), (Ack, false), (Response, false), (Ack, true), (DataAck, true)] {
        let mut net = Net::new(Config::default(), Config::default());
        net.pump();
        let request = net.gss(CLIENT);
        // A Response that does not acknowledge our Request is as invalid as the other packets.
        let acked = if short { Seq::new(request.value() & 0xff_ffff) } else { request.next() };
        let forged = net.forge(SERVER, ptype, Seq::new(11), Some(acked));
        assert!(!net.strike(SERVER, &dccp_wire::Header { short, ..forged }, &[], &[]));
        let reset = net.last(CLIENT).packet().header;
        // RFC 4340 section 7.5.6, last example, and section 8.3.1: the number of the Reset is one more than
        // the number acknowledged by the invalid packet.
        assert_eq!((reset.seq, reset.ack), (acked.next(), Some(Seq::new(11))), "{ptype:?}, short: {short}");
        let told = reset.reset.unwrap();
        assert_eq!((told.code, told.data), (ResetCode::PacketError, [ptype.number(), 0, 0]));
        assert_eq!(net.state(CLIENT), State::Request);
        net.run(Duration::from_secs(5));
        assert_eq!(net.state(SERVER), State::Open);
    }
}

#[test]
fn a_reset_is_not_answered_in_request() {
    let mut net = Net::new(Config::default(), Config::default());
    net.pump();
    let header = net.forge(SERVER, PacketType::Reset, Seq::new(11), Some(net.gss(CLIENT).next()));
    assert!(!net.strike(SERVER, &header, &[], &[]));
    assert_eq!((net.types(CLIENT), net.state(CLIENT)), (vec![PacketType::Request], State::Request));
}

/// RFC 4340 section 7.5.6, last example: one end crashes and opens a new connection on the same ports, with
/// numbers far from the windows of the old connection.
#[test]
fn a_half_open_connection_is_found_and_ends_within_three_round_trips() {
    let mut net = Net::pair(Config::default());
    let from = net.log.len();
    let (now, seed) = (net.now, [8; 32]);
    net.ends[CLIENT] =
        Some(Connection::client(Config::default(), now, route(), Ports { local: 5001, remote: 5002 }, seed));
    net.run(net.delay * 6);
    use PacketType::{Request, Reset, Sync};
    let types: Vec<_> = net.log[from..].iter().map(Sent::ptype).collect();
    // The first Sync acknowledges the Request, which the server does not recognise. The Sync that answers the
    // Reset acknowledges a number that the server does recognise.
    assert_eq!(types, [Request, Sync, Reset, Sync, Reset]);
    assert_eq!(net.events[SERVER].last(), Some(&Event::Closed(CloseReason::Reset(ResetCode::PacketError))));
    // The server does not enter TIMEWAIT, because the client reuses the same ports.
    assert_eq!(net.states(), [State::Request, State::Closed]);
}

#[test]
fn a_sync_is_answered_at_once_with_its_own_number() {
    let mut net = Net::pair(Config::default());
    let gsr = net.gss(CLIENT);
    // The second packet is reordered, so it is older than the newest received. In this case an Ack carries
    // the feedback.
    for (seq, ack) in [(gsr.add(5), None), (gsr.add(2), Some((PacketType::Ack, Some(gsr.add(5)))))] {
        let header = net.forge(CLIENT, PacketType::Sync, seq, Some(net.gss(SERVER)));
        let from = net.log.len();
        assert!(net.strike(CLIENT, &header, &[], b"padding, ignored"));
        let answers: Vec<_> = net.log[from..].iter().map(|s| (s.ptype(), s.packet().header.ack)).collect();
        let expected: Vec<_> = core::iter::once((PacketType::SyncAck, Some(seq))).chain(ack).collect();
        assert_eq!(answers, expected);
    }
    assert!(net.delivered[SERVER].is_empty());
}

#[test]
fn short_numbers_only_where_agreed() {
    for allow in [false, true] {
        let cfg = Config { allow_short_seqnos: allow, ..Config::default() };
        let mut net = Net::open(Config::default(), cfg);
        let header = dccp_wire::Header { short: true, ..net.next_from(CLIENT, PacketType::DataAck) };
        assert_eq!(net.strike(CLIENT, &header, &[], b"short"), allow);
        assert_eq!(net.delivered[SERVER].len(), usize::from(allow));
        assert_eq!(dropped(&mut net, SERVER, DropReason::ShortSeqno), u64::from(!allow));
        if allow {
            net.run(Duration::from_secs(1));
            assert_eq!(net.last(SERVER).packet().header.ack, Some(header.seq));
        }
    }
}

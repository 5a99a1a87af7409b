//! Syncs that ask for an acknowledgement.

use crate::common::*;
use dccp_proto::{Config, Ecn, Route, Sink};
use dccp_wire::{Header, Opt, Packet, PacketType};
use mpdccp_units::Duration;

/// Opens a connection with a measured round-trip time and sends eight packets. For 100 ms, which is longer
/// than a round trip but shorter than a timeout, the network loses the packets that `lost` selects.
fn after_silence(cfg: &Config, lost: fn(&Sent) -> bool) -> Net {
    let mut net = Net::pair(cfg.clone());
    net.send_many(CLIENT, 8, b"data");
    net.run(Duration::from_secs(1));
    let until = net.now + Duration::from_millis(100);
    net.network =
        Box::new(move |sent| if sent.at < until && lost(sent) { Fate::Drop } else { Fate::Deliver });
    net.send_many(CLIENT, 8, b"data");
    net.run(Duration::from_secs(2));
    net
}

#[test]
fn lost_acknowledgements_cause_no_timeout() {
    for ccid in [2, 5] {
        let cfg = Config { tx_ccids: vec![ccid], rx_ccids: vec![ccid], ..Config::default() };
        let net = &mut after_silence(&cfg, |sent| sent.from == SERVER);
        let view = net.end(CLIENT).tx_view().unwrap();
        assert_eq!((view.timeouts, view.delivered.packets, view.lost.packets), (0, 16, 0), "{ccid}");
        // RFC 4340 section 11.4: the answer reports all packets, not only the Sync.
        let answers = net.log.iter().filter(|s| s.from == SERVER && s.ptype() == PacketType::SyncAck);
        let vectors = |s: &Sent| s.packet().options().flatten().any(|o| matches!(o, Opt::AckVector(..)));
        assert!(answers.clone().count() > 0 && answers.clone().all(vectors), "{ccid}");
    }
}

/// RFC 8985 section 7: a probe turns a lost tail into an ordinary loss.
#[test]
fn a_lost_window_causes_no_timeout() {
    let cfg = Config { tx_ccids: vec![5], rx_ccids: vec![5], ..Config::default() };
    let net = &mut after_silence(&cfg, |sent| sent.ptype() == PacketType::Data);
    let view = net.end(CLIENT).tx_view().unwrap();
    assert_eq!((view.timeouts, view.delivered.packets, view.lost.packets), (0, 8, 8));
}

/// RFC 4340 section 11.7: if an answer reports a packet as received although its data was dropped, the answer
/// also reports the drop.
#[test]
fn an_answer_reports_dropped_data() {
    let mut net = Net::pair(Config { check_data_checksum: true, ..Config::default() });
    net.end(SERVER).set_slow_receiver(true);
    let (now, mut wire) = (net.now, Outbox::new());
    net.end(CLIENT).transmit(now, &[], b"payload", &mut wire);
    let mut corrupt = wire.pop().unwrap().2;
    *corrupt.last_mut().unwrap() ^= 1;
    assert!(net.inject(SERVER, &corrupt, Default::default()));
    let seq = Packet::parse(&corrupt).unwrap().header.seq.next();
    let sync = Header { seq, ..net.next_from(CLIENT, PacketType::Sync) };
    let from = net.log.len();
    assert!(net.strike(CLIENT, &sync, &[], &[]));
    assert_eq!(net.log[from].ptype(), PacketType::SyncAck);
    let options: Vec<Opt<'_>> = net.log[from].packet().options().flatten().collect();
    assert!(
        options.contains(&Opt::DataDropped(&[0, 0xb0])) && options.contains(&Opt::SlowReceiver),
        "{options:?}"
    );
}

/// CCID 3 reports losses only on Acks, so the answer to a Sync reports none.
#[test]
fn an_answer_leaves_the_report_of_ccid_3_to_an_ack() {
    let mut net = open(3);
    net.send(CLIENT, b"data");
    net.pump();
    let data = net.last(CLIENT).bytes.clone();
    assert!(net.inject(SERVER, &data, Default::default()));
    let from = net.log.len();
    assert!(net.strike(CLIENT, &net.next_from(CLIENT, PacketType::Sync), &[], &[]));
    let answers = net.log[from..].iter().filter(|sent| sent.from == SERVER);
    let reports = answers.map(|sent| (sent.ptype(), sent.packet().option_bytes.contains(&194)));
    assert_eq!(reports.collect::<Vec<_>>(), [(PacketType::SyncAck, false), (PacketType::Ack, true)]);
}

/// A forged packet can make every Ack from one end invalid. If each SyncAck then caused an Ack, the ends
/// would exchange Syncs and Acks forever.
#[test]
fn answers_cause_one_ack_for_the_newest_packet() {
    let mut net = open(5);
    net.send_many(CLIENT, 8, b"data");
    net.run(Duration::from_secs(1));
    let next = net.next_from(CLIENT, PacketType::Sync);
    let from = net.log.len();
    assert!(net.strike(CLIENT, &Header { seq: next.seq.add(10), ..next }, &[], &[]));
    for i in 0..3 {
        assert!(net.strike(CLIENT, &Header { seq: next.seq.add(i), ..next }, &[], &[]));
    }
    let answers: Vec<PacketType> =
        net.log[from..].iter().filter(|s| s.from == SERVER).map(Sent::ptype).collect();
    let acks = answers.iter().filter(|ptype| **ptype == PacketType::Ack).count();
    assert_eq!((answers.len() - acks, acks), (4, 1), "{answers:?}");
}

/// RFC 4340 section 7.5.4: a Sync sent because of an invalid packet acknowledges that packet, even if a probe
/// is due.
#[test]
fn a_probe_does_not_replace_a_sync_that_resynchronises() {
    let silent = || {
        let mut net = open(5);
        net.send_many(CLIENT, 8, b"data");
        net.run(Duration::from_secs(1));
        net.network = Box::new(|_| Fate::Drop);
        net.send(CLIENT, b"data");
        net
    };
    let mut net = silent();
    net.run(Duration::from_millis(150));
    let probe = net.log.iter().rfind(|sent| sent.ptype() == PacketType::Sync).unwrap().at;
    let mut net = silent();
    net.run(probe.since(net.now) - Duration::from_millis(1));
    let invalid = Header { seq: net.gss(SERVER).add(100_000), ..net.next_from(SERVER, PacketType::Data) };
    assert!(!net.inject(CLIENT, &emit(&invalid, &[], b"data"), Default::default()));
    net.now = probe;
    net.end(CLIENT).handle_timeout(probe);
    net.pump();
    let sync = net.last(CLIENT).packet().header;
    assert_eq!((sync.ptype, sync.ack), (PacketType::Sync, Some(invalid.seq)));
}

/// Records the lengths of packets, and a 0 for every call of [`Sink::separate`].
struct Lengths(Vec<usize>, Vec<u8>);

impl Sink for Lengths {
    fn reserve(&mut self, _route: &Route, _ecn: Ecn, len: usize) -> &mut [u8] {
        self.0.push(len);
        self.1.resize(len, 0);
        &mut self.1
    }

    fn separate(&mut self, _route: &Route) {
        self.0.push(0);
    }
}

/// A device may accept a segmented send although it would drop the individual packets, so a probe that is
/// part of a segmented send proves nothing about the MTU.
#[test]
fn a_path_mtu_probe_is_sent_by_itself() {
    let mut net = Net::pair(Config { probe_mtu: true, ..Config::default() });
    net.run(Duration::from_secs(1));
    let (now, mut lengths) = (net.now, Lengths(Vec::new(), Vec::new()));
    // The hint puts the current size in doubt.
    net.end(CLIENT).set_mtu(now, 1280);
    while net.end(CLIENT).poll_transmit(now, &mut lengths) {}
    assert_eq!(lengths.0, [0, 1500 - OVERHEAD, 0]);
}

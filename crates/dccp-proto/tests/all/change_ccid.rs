//! Changes the congestion control in the middle of a transfer (RFC 4340 sections 6 and 10.5).

use crate::common::*;
use dccp_proto::Config;
use dccp_proto::ccid::TxView;
use dccp_wire::PacketType;
use mpdccp_units::{Duration, Time};
use std::cell::Cell;
use std::rc::Rc;

const PAYLOAD: usize = 1000;

fn view(net: &mut Net) -> TxView {
    net.end(CLIENT).tx_view().unwrap()
}

/// Returns the number of bytes that the sender keeps in flight: the window, or the rate times the round trip
/// if that is less.
fn pipe(view: &TxView) -> u64 {
    let cwnd = view.cwnd.bytes(1500);
    match (view.bottleneck, view.rtt.srtt()) {
        (Some(rate), Some(srtt)) => rate.bytes_in(srtt).min(cwnd),
        _ => cwnd,
    }
}

fn settings() -> Config {
    Config { rx_ccids: dccp_proto::ccid::CCIDS.map(|ccid| ccid.number).into(), ..Config::default() }
}

/// Sends numbered datagrams for `ms` milliseconds, as many as congestion control allows.
fn send_for(net: &mut Net, next: &mut u32, ms: u64) {
    for _ in 0..ms {
        while net.to_send[CLIENT].len() < 200 {
            let mut data = next.to_be_bytes().to_vec();
            data.resize(PAYLOAD, 0);
            net.send(CLIENT, &data);
            *next += 1;
        }
        net.run(Duration::from_millis(1));
    }
}

/// Returns the numbers of datagrams in order of arrival.
fn arrived(net: &Net) -> Vec<u32> {
    net.delivered[SERVER].iter().map(|data| u32::from_be_bytes(data[..4].try_into().unwrap())).collect()
}

#[test]
fn a_transfer_goes_on_through_changes_of_its_ccid() {
    let mut net = Net::pair(settings());
    let mut next = 0;
    // Losses end the search for the path's capacity.
    let dropped = Rc::new(Cell::new(0));
    let counter = dropped.clone();
    net.network = Box::new(move |sent| {
        let drop = sent.ptype() == PacketType::Data && sent.index % 300 == 299;
        counter.set(counter.get() + usize::from(drop));
        if drop { Fate::Drop } else { Fate::Deliver }
    });
    send_for(&mut net, &mut next, 3000);
    net.network = Box::new(|_| Fate::Deliver);
    send_for(&mut net, &mut next, 200);
    let missing = dropped.get();
    assert!(missing > 0);
    for ccid in [5, 3, 2, 7, 4, 250, 252, 3, 5, 2] {
        let (before, sent_before) = (view(&mut net), net.log.len());
        let before_ccid = net.end(CLIENT).ccids().map(|(tx, _)| tx);
        assert!(net.end(CLIENT).set_ccid(ccid));
        // Both ends agree after one round trip, or later if another feature changes in the meantime. Until
        // then, the old CCID stays in force.
        while net.end(CLIENT).ccids() != Some((ccid, 2)) {
            send_for(&mut net, &mut next, 1);
            assert!(net.log.len() - sent_before < 100_000, "the ends did not agree on CCID {ccid}");
        }
        assert_eq!(net.end(SERVER).ccids(), Some((2, ccid)));
        let after = view(&mut net);
        let (was, is) = (pipe(&before), pipe(&after));
        assert!(is > was / 2 && is < was * 2, "CCID {ccid}: {was} bytes in flight became {is}");
        // CCID 4 sends at most one packet per 10 ms (RFC 5622 section 5).
        let least = if [before_ccid, Some(ccid)].contains(&Some(4)) { 4 } else { 15 };
        assert!(net.log.len() - sent_before > least, "CCID {ccid}: too few packets were sent");
        assert!(
            after.sent.packets > before.sent.packets && after.delivered.packets > before.delivered.packets
        );
        send_for(&mut net, &mut next, 300);
    }
    net.run(Duration::from_secs(60));
    let arrived = arrived(&net);
    assert_eq!(arrived.len(), next as usize - missing, "more is missing than the network dropped");
    assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_change_survives_the_loss_of_its_packets() {
    let mut net = Net::pair(settings());
    let mut next = 0;
    send_for(&mut net, &mut next, 300);
    for (round, ccid) in [3, 2, 5, 4, 7].into_iter().enumerate() {
        // Drop every second packet from both ends for a while.
        net.network =
            Box::new(move |sent| if sent.index % 2 == round % 2 { Fate::Drop } else { Fate::Deliver });
        net.end(CLIENT).set_ccid(ccid);
        send_for(&mut net, &mut next, 300);
        net.network = Box::new(|_| Fate::Deliver);
        send_for(&mut net, &mut next, 4000);
        assert_eq!(net.end(CLIENT).ccids().map(|(tx, _)| tx), Some(ccid));
        assert_eq!(net.end(SERVER).ccids().map(|(_, rx)| rx), Some(ccid));
    }
}

#[test]
fn a_peer_without_it_keeps_the_old_one() {
    let mut net = Net::open(settings(), Config { rx_ccids: vec![2, 3], ..Config::default() });
    let mut next = 0;
    assert!(net.end(CLIENT).set_ccid(5));
    send_for(&mut net, &mut next, 500);
    assert_eq!(net.end(CLIENT).ccids(), Some((2, 2)));
    assert!(net.end(CLIENT).set_ccid(3));
    send_for(&mut net, &mut next, 500);
    assert_eq!(net.end(CLIENT).ccids(), Some((3, 2)));
    assert!(!net.end(CLIENT).set_ccid(99), "an unknown CCID must be refused");
    net.end(CLIENT).close(Default::default(), false);
    assert!(!net.end(CLIENT).set_ccid(2), "closing");
}

#[test]
fn both_ends_may_change_at_once() {
    let mut net = Net::pair(settings());
    net.end(CLIENT).set_ccid(5);
    net.end(SERVER).set_ccid(3);
    for _ in 0..50 {
        net.send(CLIENT, &[0; PAYLOAD]);
        net.send(SERVER, &[0; PAYLOAD]);
    }
    net.run(Duration::from_secs(10));
    assert_eq!((net.end(CLIENT).ccids(), net.end(SERVER).ccids()), (Some((5, 3)), Some((3, 5))));
    assert_eq!((net.delivered[CLIENT].len(), net.delivered[SERVER].len()), (50, 50));
}

/// Bytes delivered and packets dropped for one flow.
type Counts = Rc<(Cell<u64>, Cell<usize>)>;

/// Creates the network of one flow. All flows share a 10 Mbit/s line with a 60 ms queue.
fn shared(line: &Rc<Cell<Time>>, counts: &Counts) -> Network {
    let (line, counts) = (line.clone(), counts.clone());
    Box::new(move |sent| {
        if sent.from == SERVER {
            return Fate::Deliver;
        }
        let leaves =
            line.get().max(sent.at) + Duration::from_nanos((sent.bytes.len() + OVERHEAD) as u64 * 800);
        if leaves - sent.at > Duration::from_millis(60) {
            counts.1.set(counts.1.get() + usize::from(sent.packet().payload.len() == PAYLOAD));
            return Fate::Drop;
        }
        line.set(leaves);
        counts.0.set(counts.0.get() + sent.bytes.len() as u64);
        Fate::Late(leaves - sent.at)
    })
}

/// RFC 4340 section 10.5: changing the CCID gives neither an advantage nor a penalty. One flow changes its
/// CCID while a competing flow always uses CCID 2. Under each CCID, both flows get a share of the line; after
/// all changes, both are back at their initial share.
#[test]
fn fairness_survives_the_way_round() {
    let line = Rc::new(Cell::new(Time::ZERO));
    let counts: [Counts; 2] = Default::default();
    let mut nets = [0, 1].map(|flow| {
        let mut net = Net::pair(settings());
        net.network = shared(&line, &counts[flow]);
        net
    });
    let mut next = [0; 2];
    let mut share = |nets: &mut [Net; 2], seconds: u64| {
        let before = [0, 1].map(|flow| counts[flow].0.get());
        for _ in 0..seconds * 1000 {
            for (net, next) in nets.iter_mut().zip(&mut next) {
                send_for(net, next, 1);
            }
        }
        let [changing, steady] = [0, 1].map(|flow| (counts[flow].0.get() - before[flow]) as f64);
        changing / steady
    };
    share(&mut nets, 5);
    let first = share(&mut nets, 15);
    let mut on_the_way = Vec::new();
    for ccid in [5, 3, 2] {
        assert!(nets[0].end(CLIENT).set_ccid(ccid));
        share(&mut nets, 5);
        assert_eq!(nets[0].end(CLIENT).ccids(), Some((ccid, 2)));
        on_the_way.push(share(&mut nets, 15));
    }
    println!("rate relative to CCID 2: CCID 2 {first:.2}; CCIDs 5, 3 and 2 again {on_the_way:.2?}");
    assert!((0.5..2.0).contains(&first) && (0.5..2.0).contains(&on_the_way[2]), "{first} {on_the_way:?}");
    assert!(on_the_way.iter().all(|share| (0.2..5.0).contains(share)), "{on_the_way:?}");
    // Only packets that the line dropped are missing.
    for (net, counts) in nets.iter_mut().zip(&counts) {
        net.to_send[CLIENT].clear();
        net.run(Duration::from_secs(30));
        let arrived = arrived(net);
        let sent = net.log.iter().filter(|s| s.from == CLIENT && s.packet().payload.len() == PAYLOAD).count();
        assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(arrived.len() + counts.1.get(), sent);
    }
}

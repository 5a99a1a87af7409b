//! Sequence numbers that are never sent. A receiver that acknowledges such a number is lying.

use crate::common::*;
use dccp_proto::{CloseReason, Config, DropReason, Event, State};
use dccp_wire::{Opt, PacketType, ResetCode, Seq};
use mpdccp_units::Duration;

/// All CCIDs except those that use TFRC, where the receiver counts the losses.
const CCIDS: [u8; 4] = [2, 5, 7, 250];

fn config(ccid: u8, skip_numbers: bool, ndp_count: bool) -> Config {
    Config { tx_ccids: vec![ccid], rx_ccids: vec![ccid], ndp_count, skip_numbers, ..Config::default() }
}

/// Returns the numbers that `from` sent, in order.
fn sent(net: &Net, from: usize) -> Vec<Seq> {
    net.log.iter().filter(|s| s.from == from).map(|s| s.packet().header.seq).collect()
}

fn skipped(net: &Net, from: usize) -> Vec<Seq> {
    let sent = sent(net, from);
    sent.windows(2).filter(|w| w[1] != w[0].next()).map(|w| w[0].next()).collect()
}

fn transfer(net: &mut Net, packets: usize) {
    net.send_many(SERVER, packets, &[1; 900]);
    while !net.to_send[SERVER].is_empty() && net.state(SERVER) == State::Open {
        net.run(Duration::from_millis(100));
    }
    net.run(Duration::from_millis(500));
}

/// Simulates a lying receiver, which acknowledges all numbers up to the newest as soon as possible.
fn optimist(net: &mut Net, ccid: u8, vectors: bool) {
    net.network = Box::new(|s| if s.from == CLIENT { Fate::Drop } else { Fate::Deliver });
    net.send_many(SERVER, 1_000, &[1; 900]);
    let (mut acked, first) = (net.gss(SERVER), net.gss(SERVER));
    for _ in 0..1_000 {
        net.run(Duration::from_millis(20));
        let newest = net.gss(SERVER);
        while acked.before(newest) && net.state(SERVER) == State::Open {
            acked = if vectors { newest } else { acked.next() };
            let cells = vec![63; (acked.diff(first) / 64 + 1).min(253) as usize];
            let mut options = dccp_wire::OptionBuf::new();
            assert!(!vectors || options.push(&Opt::AckVector(false, &cells)));
            let header = net.forge(CLIENT, PacketType::Ack, net.gss(CLIENT).next(), Some(acked));
            net.strike(CLIENT, &header, options.as_bytes(), &[]);
        }
        if net.state(SERVER) != State::Open {
            return;
        }
    }
    panic!("CCID {ccid}, vectors {vectors}: the lie was not detected");
}

#[test]
fn a_receiver_that_acknowledges_what_was_never_sent_is_reset() {
    for ccid in CCIDS {
        for vectors in [true, false] {
            let mut net = Net::open(config(ccid, false, false), config(ccid, true, false));
            optimist(&mut net, ccid, vectors);
            let reset = net.last(SERVER).packet().header.reset.unwrap();
            assert_eq!(reset.code, ResetCode::AggressionPenalty, "CCID {ccid}");
            let aborted = Event::Closed(CloseReason::Aborted(ResetCode::AggressionPenalty));
            assert_eq!(net.events[SERVER].last(), Some(&aborted));
            assert_eq!(net.end(SERVER).stats().dropped[&DropReason::NeverSent], 1);
        }
    }
}

/// Linux 6.1 may report a packet as missing and later as received: after 671 consecutive losses, its Ack
/// Vector reported 682 losses, so all older entries had shifted.
#[test]
fn a_number_that_was_reported_missing_may_be_reported_otherwise_later() {
    let mut net = Net::open(config(2, false, false), config(2, true, false));
    transfer(&mut net, 300);
    let numbers = skipped(&net, SERVER);
    let (first, last) = (numbers[0], *numbers.last().unwrap());
    let cells = vec![63; (last.diff(first) / 64) as usize + 1];
    let mut options = dccp_wire::OptionBuf::new();
    assert!(options.push(&Opt::AckVector(false, &cells)));
    let header = net.forge(CLIENT, PacketType::Ack, net.gss(CLIENT).next(), Some(last.next()));
    assert!(net.strike(CLIENT, &header, options.as_bytes(), &[]));
    assert_eq!(net.states(), [State::Open; 2]);
}

#[test]
fn an_honest_receiver_is_none_the_worse() {
    for ccid in CCIDS {
        for ndp in [true, false] {
            let mut times = Vec::new();
            for skip in [false, true] {
                let mut net = Net::open(config(ccid, false, ndp), config(ccid, skip, ndp));
                let begun = net.now;
                transfer(&mut net, 20_000);
                let view = net.end(SERVER).tx_view().unwrap();
                assert_eq!((view.delivered.packets, view.lost.packets, view.timeouts), (20_000, 0, 0));
                assert_eq!(net.delivered[CLIENT].len(), 20_000);
                let numbers = skipped(&net, SERVER);
                if skip {
                    assert!((5..40).contains(&numbers.len()), "CCID {ccid}: {} skipped", numbers.len());
                } else {
                    assert_eq!(numbers, []);
                }
                times.push(net.now.since(begun));
            }
            assert!(times[1] <= times[0] + times[0] / 20, "CCID {ccid}: {times:?}");
        }
    }
}

/// The packet after a skipped number reports that number as a packet without data (RFC 4340 section 7.7).
#[test]
fn ndp_count_tells_that_no_data_is_missing() {
    let mut net = Net::open(config(5, false, true), config(5, true, true));
    transfer(&mut net, 2_000);
    let numbers = skipped(&net, SERVER);
    assert!(!numbers.is_empty());
    for after in
        net.log.iter().filter(|s| s.from == SERVER && numbers.contains(&s.packet().header.seq.sub(1)))
    {
        let count = after.packet().options().flatten().find_map(|option| match option {
            Opt::NdpCount(count) => Some(count),
            _ => None,
        });
        assert!(count >= Some(1), "{count:?}");
    }
}

#[test]
fn receivers_that_count_losses_themselves_miss_nothing() {
    for ccid in [3, 4] {
        let mut net = Net::open(config(ccid, false, false), config(ccid, true, false));
        transfer(&mut net, 1_000);
        assert_eq!(skipped(&net, SERVER), [], "CCID {ccid}");
    }
}

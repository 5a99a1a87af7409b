//! Opening a connection (RFC 4340 section 8.1).
mod common;

use common::*;
use dccp_proto::{CloseReason, Config, Event, State};
use dccp_wire::{PacketType, ResetCode};
use units::Duration;

#[test]
fn opens_in_three_packets_and_moves_data_both_ways() {
    let mut net = Net::new(Config::default(), Config::default());
    for n in 0..200u32 {
        net.send(CLIENT, &n.to_be_bytes());
        net.send(SERVER, &n.to_be_bytes());
    }
    net.run(Duration::from_secs(5));
    assert_eq!(net.states(), [State::Open, State::Open]);
    assert_eq!(net.events[CLIENT], [Event::Responded, Event::Opened]);
    assert_eq!(net.events[SERVER], [Event::Opened]);
    assert_eq!(net.types(CLIENT)[0], PacketType::Request);
    assert_eq!(net.types(SERVER)[0], PacketType::Response);
    let all: Vec<Vec<u8>> = (0..200u32).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(net.delivered[SERVER], all);
    assert_eq!(net.delivered[CLIENT], all);
    let view = net.end(CLIENT).tx_view().unwrap();
    assert_eq!(view.lost.packets, 0);
    assert_eq!(net.end(CLIENT).ccids(), Some((2, 2)));
    assert!(net.ends.iter().flatten().all(|c| c.stats().dropped.is_empty()));
}

#[test]
fn survives_every_loss_pattern_of_the_first_packets() {
    for pattern in 0..1u32 << 8 {
        let cfg = Config {
            ack_on_open: true,
            seq_window: 500,
            ack_ratio: 3,
            request_retries: 9,
            ..Config::default()
        };
        let mut net = Net::new(cfg.clone(), cfg);
        let mut n = 0;
        net.network = Box::new(move |_| {
            n += 1;
            if n <= 8 && pattern >> (n - 1) & 1 == 1 { Fate::Drop } else { Fate::Deliver }
        });
        net.run(Duration::from_secs(300));
        assert_eq!(net.states(), [State::Open, State::Open], "pattern {pattern:b}");
        net.network = Box::new(|_| Fate::Deliver);
        net.send(CLIENT, b"up");
        net.send(SERVER, b"down");
        net.run(Duration::from_secs(30));
        assert_eq!(net.delivered[SERVER], [b"up"], "pattern {pattern:b}");
        assert_eq!(net.delivered[CLIENT], [b"down"], "pattern {pattern:b}");
    }
}

#[test]
fn gives_up_when_nobody_answers() {
    let mut net = Net::new(Config::default(), Config::default());
    net.network = Box::new(|_| Fate::Drop);
    net.run(Duration::from_secs(1000));
    assert_eq!(net.events[CLIENT], [Event::Closed(CloseReason::TimedOut)]);
    let at: Vec<u64> = net.log.iter().map(|s| s.at.as_nanos() / 1_000_000_000).collect();
    // Seven Requests, a second, two, four ... apart, then the Reset.
    assert_eq!(at, [1, 2, 4, 8, 16, 32, 64, 128]);
    let reset = net.last(CLIENT).packet().header;
    assert_eq!(reset.reset.unwrap().code, ResetCode::Aborted);
    assert_eq!(reset.ack.unwrap().value(), 0);
    let first = net.log[0].packet().header.seq;
    assert!(net.log.iter().enumerate().all(|(i, s)| s.packet().header.seq == first.add(i as u64)));
}

//! Ending a connection (RFC 4340 section 8.3), with and without losses.

use crate::common::*;
use dccp_proto::{CloseReason, Config, Connection, Event, Extra, State};
use dccp_wire::{Opt, PacketType, ResetCode};
use mpdccp_units::Duration;

use CloseReason::{Local, Peer};
use PacketType::{Close, CloseReq, Reset};

fn reason(net: &Net, side: usize) -> CloseReason {
    match net.events[side].last() {
        Some(Event::Closed(reason)) => *reason,
        other => panic!("side {side}: {other:?}"),
    }
}

/// Each case has the closing end, whether this end asks the peer to enter TIMEWAIT, the types of the packets
/// that client and server send, and the end that enters TIMEWAIT.
#[allow(clippy::type_complexity)]
const VARIANTS: [(usize, bool, &[PacketType], &[PacketType], usize); 3] = [
    (CLIENT, false, &[Close], &[Reset], CLIENT),
    (SERVER, false, &[Reset], &[Close], SERVER),
    (SERVER, true, &[Close], &[CloseReq, Reset], CLIENT),
];

#[test]
fn closes_in_every_order() {
    for (who, at_peer, client, server, waits) in VARIANTS {
        let mut net = Net::pair(Config::default());
        let from = net.log.len();
        net.close(who, at_peer);
        net.run(Duration::from_secs(2));
        let types = |side| -> Vec<PacketType> {
            net.log[from..].iter().filter(|s| s.from == side).map(Sent::ptype).collect()
        };
        assert_eq!((types(CLIENT), types(SERVER)), (client.to_vec(), server.to_vec()));
        let mut states = [State::Closed; 2];
        states[waits] = State::TimeWait;
        assert_eq!(net.states(), states);
        assert_eq!((reason(&net, who), reason(&net, 1 - who)), (Local, Peer));
        let reset = net.log.iter().find(|s| s.ptype() == Reset).unwrap().packet().header.reset.unwrap();
        assert_eq!(reset.code, ResetCode::Closed);
        // TIMEWAIT lasts 2MSL.
        net.run(Duration::from_secs(236));
        assert_eq!(net.state(waits), State::TimeWait);
        net.run(Duration::from_secs(5));
        assert_eq!(net.states(), [State::Closed; 2]);
    }
}

#[test]
fn closes_under_every_loss_pattern_of_the_first_packets() {
    for (who, at_peer, ..) in VARIANTS {
        for pattern in 0..1u32 << 6 {
            let mut net = Net::pair(Config::default());
            let mut n = 0;
            net.network = Box::new(move |_| {
                n += 1;
                if n <= 6 && pattern >> (n - 1) & 1 == 1 { Fate::Drop } else { Fate::Deliver }
            });
            net.close(who, at_peer);
            net.run(Duration::from_secs(100));
            for side in [CLIENT, SERVER] {
                assert!(matches!(net.state(side), State::TimeWait | State::Closed), "{who} {pattern:b}");
                reason(&net, side);
            }
            assert_eq!(reason(&net, 1 - who), Peer, "{who} {pattern:b}");
        }
    }
}

#[test]
fn both_close_at_once() {
    for at_peer in [false, true] {
        let mut net = Net::pair(Config::default());
        net.close(CLIENT, false);
        net.close(SERVER, at_peer);
        net.run(Duration::from_secs(10));
        assert_eq!((reason(&net, CLIENT), reason(&net, SERVER)), (Local, Local));
    }
}

#[test]
fn close_backs_off_and_gives_up_when_nobody_answers() {
    for (who, at_peer, ..) in VARIANTS {
        let mut net = Net::pair(Config::default());
        net.network = Box::new(|_| Fate::Drop);
        let from = net.log.len();
        net.close(who, at_peer);
        net.run(Duration::from_secs(500));
        assert_eq!(reason(&net, who), CloseReason::TimedOut);
        assert_eq!(net.state(who), State::Closed);
        let at: Vec<_> = net.log[from..].iter().map(|s| s.at).collect();
        let gaps: Vec<_> = at.windows(2).map(|w| w[1] - w[0]).collect();
        // The first interval is two round-trip times of 40 ms each. Intervals double up to 64 s.
        assert_eq!(gaps[0], Duration::from_millis(80));
        assert!(gaps.windows(2).all(|g| g[1] == (g[0] * 2).min(Duration::from_secs(64))), "{gaps:?}");
    }
}

#[test]
fn only_a_server_sends_close_req() {
    let mut net = Net::pair(Config::default());
    net.close(CLIENT, true);
    net.run(Duration::from_secs(1));
    assert!(!net.types(CLIENT).contains(&CloseReq));
    assert_eq!(net.state(CLIENT), State::TimeWait);
}

/// RFC 4340 section 8.3: a client answers a CloseReq with a Close, even if it has already sent a Close that
/// was lost.
#[test]
fn a_close_req_has_a_closing_client_close_at_once() {
    let mut net = Net::pair(Config::default());
    net.network = Box::new(|_| Fate::Drop);
    net.close(CLIENT, false);
    net.pump();
    let closes = |net: &Net| net.types(CLIENT).iter().filter(|ptype| **ptype == Close).count();
    assert_eq!((net.state(CLIENT), closes(&net)), (State::Closing, 1));
    let request = net.next_from(SERVER, CloseReq);
    assert!(net.strike(SERVER, &request, &[], &[]));
    assert_eq!((net.state(CLIENT), closes(&net)), (State::Closing, 2));
}

#[test]
fn an_abort_tells_its_code() {
    for side in [CLIENT, SERVER] {
        let mut net = Net::pair(Config::default());
        net.end(side).abort(ResetCode::AbruptMpTermination);
        net.run(Duration::from_secs(1));
        assert_eq!(reason(&net, side), CloseReason::Aborted(ResetCode::AbruptMpTermination));
        assert_eq!(reason(&net, 1 - side), CloseReason::Reset(ResetCode::AbruptMpTermination));
        assert_eq!((net.state(side), net.state(1 - side)), (State::Closed, State::TimeWait));
        // A second call has no effect.
        net.end(side).abort(ResetCode::Aborted);
        net.close(side, false);
        net.run(Duration::from_secs(1));
        assert_eq!(net.events[side].len(), if side == CLIENT { 3 } else { 2 });
    }
}

#[test]
fn a_close_before_the_handshake_ends_leaves_nothing_behind() {
    // Each stage begins one one-way delay after the previous one: REQUEST without a server, RESPOND,
    // PARTOPEN.
    for (steps, side) in [(0, CLIENT), (1, CLIENT), (1, SERVER), (2, CLIENT), (2, SERVER)] {
        let mut net = Net::new(Config::default(), Config::default());
        net.run(Duration::from_millis(1 + 20 * steps));
        net.close(side, false);
        net.run(Duration::from_secs(100));
        for side in [CLIENT, SERVER] {
            let state = net.state(side);
            assert!(matches!(state, State::TimeWait | State::Closed), "{steps} {side}: {state:?}");
        }
        assert_eq!(reason(&net, side), Local);
    }
}

#[test]
fn the_dead_answer_with_few_resets_and_never_a_reset() {
    let mut net = Net::pair(Config::default());
    net.close(CLIENT, false);
    net.run(Duration::from_secs(1));
    for side in [CLIENT, SERVER] {
        let header = net.next_from(1 - side, PacketType::DataAck);
        let from = net.log.len();
        for _ in 0..1000 {
            assert!(!net.strike(1 - side, &header, &[], b"late"));
            net.now += Duration::from_millis(1);
        }
        assert_eq!(net.log.len() - from, 7);
        let reset = net.last(side).packet().header;
        assert_eq!(reset.reset.unwrap().code, ResetCode::NoConnection);
        // The numbers are those of RFC 4340 section 8.3.1.
        assert_eq!((Some(reset.seq), reset.ack), (header.ack.map(|a| a.next()), Some(header.seq)));
        let header = net.next_from(1 - side, Reset);
        net.now += Duration::from_secs(1);
        let from = net.log.len();
        net.strike(1 - side, &header, &[], &[]);
        assert_eq!(net.log.len(), from);
    }
}

#[test]
fn the_owners_options_are_on_every_copy() {
    let carries = |s: &Sent, byte| s.packet().options().any(|o| o == Ok(Opt::Ccid(200, &[byte])));
    let set = |c: &mut Connection| {
        let all = [Extra::Request, Extra::Response, Extra::HandshakeAck, Extra::Close, Extra::Reset];
        for (byte, extra) in (0u8..).zip(all) {
            c.set_extra(extra, &[200, 3, byte]);
        }
    };
    let mut net = Net::new(Config::default(), Config::default());
    set(net.end(CLIENT));
    let mut n = 0;
    // The Request, the first Ack and the first CloseReq are lost.
    net.network = Box::new(move |s| {
        n += 1;
        let first_ack = s.ptype() == PacketType::Ack && n < 5;
        if n == 1 || first_ack { Fate::Drop } else { Fate::Deliver }
    });
    net.run(Duration::from_millis(1030));
    set(net.end(SERVER));
    net.run(Duration::from_millis(500));
    assert_eq!(net.state(SERVER), State::Open);
    net.network = Box::new(|s| if s.index % 2 == 0 { Fate::Drop } else { Fate::Deliver });
    net.close(SERVER, true);
    net.run(Duration::from_secs(30));
    let mut seen = [0; 5];
    for sent in &net.log {
        let byte = match (sent.from, sent.ptype()) {
            (_, PacketType::Request) => 0,
            (_, PacketType::Response) => 1,
            (CLIENT, PacketType::Ack) => 2,
            (_, Close | CloseReq) => 3,
            (_, Reset) => 4,
            _ => continue,
        };
        // The Response was sent before the test set the server's options. All later packets carry them.
        if byte != 1 {
            assert!(carries(sent, byte), "{:?}", sent.ptype());
        }
        seen[usize::from(byte)] += 1;
    }
    assert!(seen[0] == 2 && seen[2] >= 2 && seen[3] >= 3 && seen[4] >= 1, "{seen:?}");
}

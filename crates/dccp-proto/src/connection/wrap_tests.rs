//! Sequence numbers of both ends wrap at 2^48 in the middle of a transfer. This test is inside the crate
//! because it has to set the numbers: no seed makes them start just below the wrap.

#[path = "../../tests/all/common/mod.rs"]
mod common;

use super::validity::Numbers;
use crate::{Config, State};
use common::{CLIENT, Fate, Net, SERVER};
use dccp_wire::Seq;
use mpdccp_units::Duration;

#[test]
fn numbers_wrap_unnoticed() {
    for before in [0, 1, 2, 3, 4, 5, 100, 1500] {
        for ccid in [2, 5] {
            let cfg = Config {
                tx_ccids: vec![ccid],
                rx_ccids: vec![ccid],
                allow_short_seqnos: true,
                ..Config::default()
            };
            let mut net = Net::new(cfg.clone(), cfg);
            let iss = Seq::new(Seq::MODULUS - 1 - before);
            net.end(CLIENT).numbers = Numbers::new(iss);
            // The server is created when the first Request arrives. Wait until the server exists and its
            // Response is still pending.
            net.network = Box::new(|_| Fate::Drop);
            net.pump();
            let request = net.last(CLIENT).bytes.clone();
            net.inject(SERVER, &request, Default::default());
            let isr = net.end(SERVER).numbers.gsr;
            net.end(SERVER).numbers = Numbers::new(iss.sub(7));
            net.end(SERVER).numbers.set_isr(isr);
            net.network = Box::new(|s| if s.index % 50 == 49 { Fate::Drop } else { Fate::Deliver });
            for n in 0..2000u32 {
                net.send(CLIENT, &n.to_be_bytes());
                net.send(SERVER, &n.to_be_bytes());
            }
            net.run(Duration::from_secs(120));
            assert!(net.gss(CLIENT).value() < 1 << 40 && net.gss(SERVER).value() < 1 << 40);
            for side in [CLIENT, SERVER] {
                assert!(net.to_send[side].is_empty());
                assert!(net.delivered[side].len() > 1900, "{}", net.delivered[side].len());
                assert_eq!(net.end(side).stats().dropped, Default::default(), "{before} {ccid} {side}");
                assert_eq!(net.end(side).stats().syncs_sent, 0);
            }
            let now = net.now;
            net.network = Box::new(|_| Fate::Deliver);
            net.end(CLIENT).close(now, false);
            net.run(Duration::from_secs(1));
            assert_eq!(net.states(), [State::TimeWait, State::Closed]);
        }
    }
}

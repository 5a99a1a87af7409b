//! Syncs that ask for an acknowledgement.

use crate::common::*;
use dccp_proto::Config;
use dccp_wire::{Opt, PacketType};
use mpdccp_units::Duration;

/// Opens a connection with a measured round-trip time, sends eight packets, and loses what `lost` selects for
/// 100 ms, longer than a round trip but shorter than a timeout.
fn after_silence(cfg: &Config, lost: fn(&Sent) -> bool) -> Net {
    let mut net = Net::open(cfg.clone(), cfg.clone());
    (0..8).for_each(|_| net.send(CLIENT, b"data"));
    net.run(Duration::from_secs(1));
    let until = net.now + Duration::from_millis(100);
    net.network =
        Box::new(move |sent| if sent.at < until && lost(sent) { Fate::Drop } else { Fate::Deliver });
    (0..8).for_each(|_| net.send(CLIENT, b"data"));
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

/// RFC 8985 section 7: a lost tail is an ordinary loss.
#[test]
fn a_lost_window_causes_no_timeout() {
    let cfg = Config { tx_ccids: vec![5], rx_ccids: vec![5], ..Config::default() };
    let net = &mut after_silence(&cfg, |sent| sent.ptype() == PacketType::Data);
    let view = net.end(CLIENT).tx_view().unwrap();
    assert_eq!((view.timeouts, view.delivered.packets, view.lost.packets), (0, 8, 8));
}

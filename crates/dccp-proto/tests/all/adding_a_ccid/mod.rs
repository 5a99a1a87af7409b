//! A congestion control implemented outside the crate, as described in docs/adding-a-ccid.md.
#[allow(unreachable_pub, missing_docs)]
mod gaimd;

use self::gaimd::{Gaimd, options};
use crate::common::*;
use dccp_cc::{AckEvent, Amount, CcConfig, Controller, RttEstimator, Window};
use dccp_proto::Config;
use dccp_wire::PacketType;
use mpdccp_units::{Duration, Time};

#[test]
fn the_document_shows_this_code() {
    let document = include_str!("../../../../../docs/adding-a-ccid.md");
    assert!(
        document.contains(include_str!("gaimd.rs")),
        "copy tests/all/adding_a_ccid/gaimd.rs into the document"
    );
}

fn config(tx: &[u8], rx: &[u8], known: bool) -> Config {
    let cc = if known { options() } else { Default::default() };
    Config { tx_ccids: tx.into(), rx_ccids: rx.into(), cc, ..Config::default() }
}

#[test]
fn it_is_negotiated_where_both_ends_have_it() {
    let both = |server_knows| {
        let mut net =
            Net::open(config(&[251, 2], &[251, 2], true), config(&[251, 2], &[251, 2], server_knows));
        let ccids = net.end(CLIENT).ccids();
        assert_eq!(ccids, net.end(SERVER).ccids());
        ccids
    };
    assert_eq!(both(true), Some((251, 251)));
    assert_eq!(both(false), Some((2, 2)));
}

#[test]
fn a_number_outside_the_experimental_range_is_refused() {
    let mut client = config(&[100, 2], &[2], true);
    client.cc.experiment.as_mut().unwrap().ccid = 100;
    let mut server = config(&[2], &[100, 2], true);
    server.cc = client.cc;
    let mut net = Net::open(client, server);
    assert_eq!(net.end(CLIENT).ccids(), Some((2, 2)));
}

#[test]
fn it_carries_data_and_yields_to_a_loss() {
    let mut net = Net::open(config(&[251], &[2], true), config(&[2], &[251], true));
    let mut data = 0;
    net.network = Box::new(move |sent| {
        let is_data = matches!(sent.ptype(), PacketType::Data | PacketType::DataAck);
        let from_client = is_data && sent.from == CLIENT;
        data += u32::from(from_client);
        if from_client && data == 100 { Fate::Drop } else { Fate::Deliver }
    });
    net.send_many(CLIENT, 400, &[0; 500]);
    net.run(Duration::from_secs(20));
    let view = net.end(CLIENT).tx_view().unwrap();
    assert!(view.lost.packets == 1 && net.delivered[SERVER].len() == 399, "{view:?}");
    assert_eq!(view.phase, "avoidance");
}

fn window(gaimd: &Gaimd) -> u64 {
    match gaimd.limits().cwnd {
        Window::Packets(n) => n,
        Window::Bytes(_) => panic!("GAIMD counts packets, not bytes"),
    }
}

/// Acknowledges one packet, with or without congestion.
fn ack(gaimd: &mut Gaimd, congestion: bool) {
    let one = Amount { packets: 1, bytes: 1500 };
    gaimd.on_ack(&AckEvent {
        now: Time::ZERO,
        acked: one,
        lost: if congestion { one } else { Amount::default() },
        ce: 0,
        congestion,
        rtt: None,
        returning: Duration::ZERO,
        estimator: &RttEstimator::default(),
        rate: None,
        inflight_before: one,
        inflight: Amount::default(),
        delivered: one,
        round_end: false,
        app_limited: false,
    });
}

#[test]
fn increase_and_decrease_are_its_own() {
    let mut gaimd = Gaimd::new(&CcConfig { mtu: 1500, packets: true, draft: false, seed: 1 });
    (0..77).for_each(|_| ack(&mut gaimd, false));
    assert_eq!(window(&gaimd), 80, "slow start adds one packet per acknowledged packet");
    ack(&mut gaimd, true);
    assert_eq!(window(&gaimd), 70, "congestion leaves seven eighths of the window");
    // Sixteen rounds of 0.3125 packets each would add five packets. The actual growth is slightly less
    // because rounds become longer as the window grows.
    (0..16 * 70).for_each(|_| ack(&mut gaimd, false));
    assert_eq!(window(&gaimd), 74);
    (0..74).for_each(|_| ack(&mut gaimd, false));
    assert_eq!(window(&gaimd), 75);
    gaimd.on_rto(Time::ZERO);
    assert_eq!(window(&gaimd), 1);
}

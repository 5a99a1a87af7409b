//! Bounds on rates that the application sets.

mod common;

use common::End::{Client, Server};
use common::{Net, config};
use mpdccp_proto::PathId;
use units::{Duration, Rate};

/// Bytes of IP packets with data that each path carries while the client offers 8 Mbit/s for a second, two seconds after it began to.
fn carried(net: &mut Net, id: mpdccp_proto::SessionId) -> [u64; 2] {
    net.stream(Client, id, 0, 2_000, Duration::from_millis(1));
    let sent = |net: &Net| [0, 1].map(|i| net.status(Client, id).paths[i].tx.as_ref().unwrap().sent.bytes);
    let before = sent(net);
    net.stream(Client, id, 2_000, 1_000, Duration::from_millis(1));
    let after = sent(net);
    [0, 1].map(|i| after[i] - before[i])
}

#[test]
fn a_path_carries_no_more_than_it_may_and_the_others_the_rest() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.client.cap_path(net.now, id, PathId(0), Some(Rate::from_bps(800_000)));
    let [capped, free] = carried(&mut net, id);
    assert!((95_000..=103_000).contains(&capped), "{capped} of 100,000");
    assert!(free > 800_000, "{free}");
    let received = net.numbers(Server).len();
    assert!(received > 2_900, "{received}");
    net.client.cap_path(net.now, id, PathId(0), None);
    let [once_capped, _] = carried(&mut net, id);
    assert!(once_capped > 300_000, "{once_capped}");
}

#[test]
fn a_peer_gets_no_more_than_it_may() {
    let (mut net, id) = Net::connected(2, 2, config());
    net.client.cap(net.now, id, Some(Rate::from_bps(1_600_000)));
    let before = net.numbers(Server).len();
    let sum: u64 = carried(&mut net, id).iter().sum();
    // 1,000 bytes of data in packets of less than 1,070.
    assert!((195_000..=220_000).contains(&sum), "{sum}");
    let received = net.numbers(Server).len() - before;
    assert!((550..=640).contains(&received), "{received} of 600");
}

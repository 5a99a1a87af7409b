//! Rate limits set by the application.

use crate::common::End::{Client, Server};
use crate::common::{Net, config, counted};
use mpdccp_proto::{PathId, SessionConfig};
use mpdccp_units::{Duration, Rate};

/// Returns how many bytes of IP packets with data each path carries in one second. The client has been
/// offering 8 Mbit/s for two seconds before that.
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
    assert!((95_000..=103_000).contains(&capped), "{capped} bytes/s; the limit is 100,000");
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
    // A datagram of 1,000 bytes is sent as an IP packet of less than 1,070 bytes.
    assert!((195_000..=220_000).contains(&sum), "{sum}");
    let received = net.numbers(Server).len() - before;
    assert!((550..=640).contains(&received), "{received} datagrams; expected about 600");
}

/// The total memory of all queues is limited. Once the limit is reached, a session with a long queue gets no
/// more memory, but a session with a short queue still does.
#[test]
fn a_session_whose_queue_is_long_leaves_room_for_another() {
    let (mut net, flooding) = Net::connected(3, 1, config());
    let modest = net.connect(config());
    net.run(Duration::from_millis(500));
    net.client.bound_queues(100_000);
    let queued = |net: &Net, id| net.status(Client, id).queue.bytes;
    // The packets have at least 1,000 bytes each. They are queued, and none is sent in the meantime.
    for n in 0..1_000 {
        net.client.send(net.now, flooding, crate::common::datagram(n), Default::default());
    }
    for n in 0..20 {
        net.client.send(net.now, modest, crate::common::datagram(n), Default::default());
    }
    let (flood, rest) = (queued(&net, flooding), queued(&net, modest));
    assert!((90_000..=100_000).contains(&flood), "{flood}");
    assert_eq!(rest, 20 * crate::common::datagram(0).len() as u64);
    let refused = counted(&net.client.stats().counters, "queues_full");
    assert!(refused > 800, "{refused}");
    // The session that lost the datagrams counts them, too.
    let refused_of = |id| counted(&net.status(Client, id).counters, "queues_full");
    assert_eq!((refused_of(flooding), refused_of(modest)), (refused, 0));
    // Once these packets are sent, there is room again.
    net.run(Duration::from_secs(2));
    net.client.send(net.now, flooding, crate::common::datagram(1), Default::default());
    assert_eq!(counted(&net.client.stats().counters, "queues_full"), refused);
    // Sessions that end free their memory.
    for n in 0..1_000 {
        net.client.send(net.now, flooding, crate::common::datagram(n), Default::default());
    }
    let refused = counted(&net.client.stats().counters, "queues_full");
    net.client.abort(net.now, flooding);
    net.run(Duration::from_secs(2));
    for n in 0..50 {
        net.client.send(net.now, modest, crate::common::datagram(n), Default::default());
    }
    assert_eq!(counted(&net.client.stats().counters, "queues_full"), refused);
}

/// Two sessions of one end share a rate limit. A session that offers too much must not reduce the other
/// session's share.
#[test]
fn a_session_that_floods_takes_nothing_from_another() {
    let (mut net, flooding) = Net::connected(3, 1, config());
    let modest = net.connect(config());
    net.run(Duration::from_millis(500));
    net.client.cap_all(Some(Rate::from_bps(4_000_000)));
    // The sessions offer 8 Mbit/s and 1.6 Mbit/s. Together they may send 4 Mbit/s.
    let (mut offered, mut before) = (0, (0, 0));
    let sent = |net: &Net, id| net.status(Client, id).paths[0].tx.as_ref().unwrap().sent.packets;
    for n in 0..6_000 {
        if n == 2_000 {
            (offered, before) = (0, (sent(&net, flooding), sent(&net, modest)));
        }
        net.stream(Client, flooding, n, 1, Duration::from_millis(1));
        if n % 5 == 0 {
            net.client.send(net.now, modest, crate::common::datagram(n), Default::default());
            offered += 1;
        }
    }
    let (flood, modest_sent) = (sent(&net, flooding) - before.0, sent(&net, modest) - before.1);
    assert!(modest_sent + 2 >= offered, "only {modest_sent} of {offered} datagrams were sent");
    assert!((1_180..=1_260).contains(&flood), "the flooding session sent {flood} instead of 1,200");
    assert_eq!(net.status(Client, modest).queue_stats.dropped_full, 0);
    assert!(
        net.status(Client, flooding).queue_stats.dropped_old > 0,
        "the excess must wait in its own queue"
    );
    // Each session alone offers more than half of the limit.
    let before = (sent(&net, flooding), sent(&net, modest));
    for n in 6_000..10_000 {
        net.client.send(net.now, modest, crate::common::datagram(n), Default::default());
        net.stream(Client, flooding, n, 1, Duration::from_millis(1));
    }
    let (a, b) = (sent(&net, flooding) - before.0, sent(&net, modest) - before.1);
    assert!(
        (980..=1_030).contains(&a) && (980..=1_030).contains(&b),
        "{a} and {b} sent; expected 1,000 each"
    );
    net.client.cap_all(None);
    let before = sent(&net, flooding);
    net.stream(Client, flooding, 10_000, 1_000, Duration::from_millis(1));
    assert!(sent(&net, flooding) - before > 900);
}

/// The peer of one session leaves holes everywhere. That session holds no more than its share of the memory,
/// and another session, with a single hole, is not affected.
#[test]
fn a_peer_does_not_fill_the_memory_with_what_waits_for_its_place() {
    let reorder = mpdccp_proto::reorder::ReorderConfig::active_fixed(Duration::from_secs(60));
    let cfg = SessionConfig { reorder, repair: false, ..config() };
    let (mut net, hostile) = Net::connected(3, 1, cfg.clone());
    let modest = net.connect(cfg);
    net.run(Duration::from_millis(500));
    net.server.bound_queues(200_000);
    net.stream(Client, hostile, 0, 1, Duration::from_millis(50));
    net.stream(Client, modest, 1_000_000, 1, Duration::from_millis(50));
    // In each session, the second packet is lost.
    let mut lost = 0;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        let first = from == Client && bytes.len() > 1_000 && lost < 2;
        lost += usize::from(first);
        !first
    }));
    net.stream(Client, hostile, 1, 1, Duration::from_millis(50));
    net.stream(Client, modest, 1_000_001, 1, Duration::from_millis(50));
    net.stream(Client, hostile, 2, 1_000, Duration::from_millis(1));
    net.stream(Client, modest, 1_000_002, 20, Duration::from_millis(1));
    net.run(Duration::from_secs(1));
    let sessions = net.server.sessions();
    let held = |n: usize| net.server.status(net.now, sessions[n]).unwrap().reorder.occupancy_bytes;
    assert!(held(0) <= 200_000, "{}", held(0));
    assert!(held(1) >= 10_000, "{}", held(1));
    let delivered = net.numbers(Server);
    assert!(delivered.iter().filter(|n| **n < 1_000_000).count() > 800, "{}", delivered.len());
}

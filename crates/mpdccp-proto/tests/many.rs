//! Thousands of connections at one listener.

#[path = "all/common/mod.rs"]
mod common;

use common::End::{Client, Server};
use common::*;
use dccp_proto::{PADDED_REQUEST, Ports};
use mpdccp_proto::*;
use mpdccp_units::Duration;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATIONS: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONNECTIONS: u16 = 3_000;
/// Number of datagrams that each connection sends, one every 100 ms.
const EACH: u32 = 5;
/// Maximum number of bytes that both ends of a connection together hold while it is open, and after it has
/// ended.
const MOST_OPEN: usize = 64 << 10;
const MOST_ENDED: usize = 2 << 10;

/// All connections are served, even alongside a greedy one. One more connection is refused. After all have
/// ended, hardly any memory is in use.
#[test]
fn thousands_at_one_listener_are_all_served() {
    let plain = || SessionConfig { fallback: Fallback::Plain, ..config() };
    let mut net = Net::new(1, 1, plain());
    let most = usize::from(CONNECTIONS);
    net.server.listen(ListenConfig {
        max_sessions: most,
        max_sessions_per_source: usize::MAX,
        ..listen(plain())
    });
    let memory = Region::new(ALLOCATIONS);
    let held = |net: &mut Net| {
        net.log = Vec::new();
        let change = memory.change();
        change.bytes_allocated.saturating_sub(change.bytes_deallocated) / most
    };
    let connect = |net: &mut Net, n: u16| {
        let ports = Ports { local: 10_000 + n, remote: PORT };
        let mut cfg = SessionConfig { multipath: false, ..plain() };
        // Pad Requests as mpdccp programs do; otherwise, the listener would limit its answers.
        cfg.connection.least_request = PADDED_REQUEST;
        let session = net.client.connect(net.now, cfg, PathConfig { ports, ..path(0) });
        net.drain();
        session
    };

    let mut sessions = Vec::new();
    for n in 0..CONNECTIONS {
        sessions.push(connect(&mut net, n));
        if n % 20 == 0 {
            net.run(Duration::from_millis(1));
        }
    }
    net.run(Duration::from_millis(500));
    assert_eq!(net.server.sessions().len(), most);
    let late = connect(&mut net, CONNECTIONS);
    net.run(Duration::from_millis(500));
    let refused = |(_, session, event): &(End, SessionId, SessionEvent)| {
        *session == late && matches!(event, SessionEvent::Closed(_))
    };
    assert!(net.events.iter().any(refused) && net.server.sessions().len() == most);

    // The first session sends as much as it can, and the others send from time to time.
    let greedy = sessions[0];
    for round in 0..EACH {
        for (n, session) in (0u32..).zip(&sessions) {
            net.client.send(net.now, *session, datagram(n * EACH + round), PktInfo::default());
        }
        net.drain();
        for _ in 0..100 {
            while net.client.backlog(net.now, greedy).packets < 50 {
                net.client.send(net.now, greedy, datagram(u32::MAX), PktInfo::default());
            }
            net.run(Duration::from_millis(1));
            net.log.clear();
        }
    }
    net.run(Duration::from_millis(500));
    let mut arrived = BTreeMap::<u32, u32>::new();
    for number in net.numbers(Server).into_iter().filter(|number| *number != u32::MAX) {
        *arrived.entry(number / EACH).or_default() += 1;
    }
    assert_eq!(arrived.len(), most);
    assert!(arrived.values().all(|count| *count == EACH), "{arrived:?}");
    let greedily = net.numbers(Server).iter().filter(|number| **number == u32::MAX).count();
    assert!(greedily > 20 * EACH as usize, "the first session sent only {greedily} datagrams");
    net.got.clear();
    net.events = Vec::new();
    let open = held(&mut net);
    assert!(open < MOST_OPEN, "{open} bytes per open connection");

    for session in &sessions {
        net.client.close(net.now, *session);
    }
    net.run(Duration::from_secs(10));
    assert_eq!((net.client.sessions().len(), net.server.sessions().len()), (0, 0));
    net.events = Vec::new();
    let ended = held(&mut net);
    assert!(ended < MOST_ENDED, "{ended} bytes per ended connection");
    println!("{open} bytes per connection while open, {ended} after its end");
    assert!(net.closed_reason(Client).is_none(), "no further session may end");
}

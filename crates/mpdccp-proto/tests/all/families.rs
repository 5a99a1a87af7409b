//! A session with an IPv4 path and an IPv6 path.

use crate::common::End::{Client, Server};
use crate::common::*;
use mpdccp_proto::*;
use mpdccp_units::Duration;

const GAP: Duration = Duration::from_millis(4);

/// Connects a session whose first subflow is on wire 0. Wire `v6` carries IPv6.
fn mixed(v6: usize) -> (Net, SessionId) {
    let mut net = Net::new(1, 2, config());
    net.wires[v6].v6 = true;
    let of = |k| if k == v6 { path_v6(k) } else { path(k) };
    let id = net.client.connect(net.now, config(), of(0));
    net.client.add_path(net.now, id, of(1)).unwrap();
    net.run(Duration::from_millis(500));
    (net, id)
}

/// Returns how many datagrams with payload an end has sent on a wire since log entry `since`.
fn carried(net: &Net, since: usize, from: crate::common::End, wire: usize) -> usize {
    let log = net.log[since..].iter();
    log.filter(|l| l.from == from && l.path == wire && !l.packet().payload.is_empty()).count()
}

/// RFC 9897 section 3.2.8 allows addresses of both families. The session uses paths of both families, either
/// of which may fail and return. The session's largest datagram fits the path with the smaller MTU.
#[test]
fn a_session_has_paths_of_both_families() {
    for v6 in [0, 1] {
        let (mut net, id) = mixed(v6);
        let sid = net.server_id();
        let up = vec![PathState::Up; 2];
        assert_eq!((net.state(Client, id), net.state(Server, sid)), (up.clone(), up.clone()), "joined");
        let families =
            net.status(Server, sid).paths.iter().map(|p| p.route.remote.is_ipv6()).collect::<Vec<_>>();
        assert_eq!(families, [v6 == 0, v6 == 1]);
        let start = net.log.len();
        net.stream(Client, id, 0, 40, GAP);
        net.stream(Server, sid, 0, 40, GAP);
        net.run(Duration::from_secs(1));
        for wire in [0, 1] {
            for from in [Client, Server] {
                assert!(carried(&net, start, from, wire) >= 10, "{from:?} does not use wire {wire}");
            }
        }
        assert_eq!((net.numbers(Server).len(), net.numbers(Client).len()), (40, 40));
        let mut sent = 40;
        for dead in [0, 1] {
            net.wires[dead].up = false;
            net.stream(Client, id, sent, 250, GAP);
            net.stream(Server, sid, sent, 250, GAP);
            assert_ne!(net.state(Client, id)[dead], PathState::Up);
            assert_ne!(net.state(Server, sid)[dead], PathState::Up);
            // Once both ends have detected the failure, no more packets are lost.
            net.run(Duration::from_secs(1));
            let before = [Server, Client].map(|end| net.numbers(end).len());
            net.stream(Client, id, sent + 250, 50, GAP);
            net.stream(Server, sid, sent + 250, 50, GAP);
            net.run(Duration::from_secs(1));
            let after = [Server, Client].map(|end| net.numbers(end).len());
            assert_eq!(
                [after[0] - before[0], after[1] - before[1]],
                [50, 50],
                "all datagrams must arrive over the other family"
            );
            net.wires[dead].up = true;
            net.run(Duration::from_secs(3));
            assert_eq!((net.state(Client, id), net.state(Server, sid)), (up.clone(), up.clone()), "back");
            let start = net.log.len();
            net.stream(Client, id, sent + 300, 20, GAP);
            net.run(Duration::from_secs(1));
            let again = carried(&net, start, Client, dead);
            assert!(again >= 5, "wire {dead} carried only {again} datagrams after its return");
            sent += 320;
        }
    }
}

#[test]
fn the_largest_datagram_is_that_of_ipv6() {
    let (mut four, id) = Net::connected(1, 2, config());
    let (mut both, both_id) = mixed(1);
    let of = |net: &mut Net, id| net.status(Client, id).max_payload.unwrap();
    assert_eq!(of(&mut four, id) - of(&mut both, both_id), 20, "an IPv6 header is 20 bytes longer");
}

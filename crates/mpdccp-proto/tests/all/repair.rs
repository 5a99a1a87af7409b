//! Loss repair: lost packets are retransmitted with the same MP_SEQ.

use crate::common::End::{Client, Server};
use crate::common::*;
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::*;
use mpdccp_units::Duration;

fn waits() -> SessionConfig {
    SessionConfig { reorder: ReorderConfig::adaptive(Duration::from_millis(200)), ..config() }
}

#[test]
fn packets_lost_on_paths_arrive_in_order_and_once() {
    let (mut net, id) = Net::connected(1, 2, waits());
    // With more loss, CCID 2 would fall below the rate that the flows need.
    net.wires.iter_mut().for_each(|w| w.loss = 10);
    net.stream(Client, id, 0, 3000, Duration::from_millis(2));
    net.stream(Server, net.server_id(), 0, 1000, Duration::from_millis(2));
    net.wires.iter_mut().for_each(|w| w.loss = 0);
    net.run(Duration::from_secs(2));
    for (to, sent) in [(Server, 3000), (Client, 1000)] {
        let got = net.numbers(to);
        assert!(got.is_sorted(), "datagrams must arrive in order");
        assert!(got.windows(2).all(|w| w[0] != w[1]), "datagrams must arrive once");
        // Losses among the last packets of a flow are detected too late for repair.
        assert!(got.len() as u32 + 4 >= sent, "{} of {sent} datagrams arrived", got.len());
    }
    let stats = net.status(Client, id).repair;
    assert!((20..60).contains(&stats.sent), "{stats:?}");
}

#[test]
fn packets_behind_a_loss_wait_for_its_repair_only_if_requested() {
    for wait_for_repairs in [true, false] {
        let (mut net, id) = Net::connected(1, 1, SessionConfig { wait_for_repairs, ..waits() });
        net.wires[0].loss = 10;
        net.stream(Client, id, 0, 2000, Duration::from_millis(10));
        net.wires[0].loss = 0;
        net.run(Duration::from_secs(2));
        let mut got = net.numbers(Server);
        assert_eq!(got.is_sorted(), wait_for_repairs);
        got.sort_unstable();
        assert!(got.windows(2).all(|w| w[0] != w[1]), "once");
        assert!(got.len() >= 1996, "{} came", got.len());
    }
}

#[test]
fn packets_of_a_dead_path_are_sent_elsewhere() {
    let (mut net, id) = Net::connected(1, 2, waits());
    net.stream(Client, id, 0, 500, Duration::from_millis(2));
    net.wires[1].up = false;
    net.stream(Client, id, 500, 500, Duration::from_millis(2));
    net.run(Duration::from_secs(1));
    assert_eq!(net.numbers(Server), (0..1000).collect::<Vec<_>>());
}

#[test]
fn an_address_that_changes_amid_a_stream_loses_nothing() {
    for changed in [0, 1] {
        for (from, to) in [(Client, Server), (Server, Client)] {
            let (mut net, id) = Net::connected(1, 2, waits());
            let id = if from == Client { id } else { net.server_id() };
            net.stream(from, id, 0, 500, Duration::from_millis(2));
            net.wires[changed].nat_port += 1;
            let start = net.now;
            net.stream(from, id, 500, 1500, Duration::from_millis(2));
            net.run(Duration::from_secs(1));
            let carried = [0, 1].map(|path| {
                let data = |l: &&Logged| l.from == from && l.path == path && !l.packet().payload.is_empty();
                let before = net.log.iter().filter(|l| l.at < start).filter(data).count();
                (before, net.log.iter().filter(data).count() - before)
            });
            assert!(carried.iter().all(|(before, after)| *before > 0 && *after > 500), "{carried:?}");
            assert_eq!(
                net.numbers(to),
                (0..2000).collect::<Vec<_>>(),
                "path {changed} changed, data from {from:?}"
            );
        }
    }
}

#[test]
fn a_standby_path_repairs_what_the_peer_does_not_miss_yet() {
    let (mut net, id) = Net::connected(1, 2, waits());
    for (end, session) in [(Client, id), (Server, net.server.sessions()[0])] {
        let now = net.now;
        net.end(end).set_prio(now, session, PathId(1), 1);
    }
    net.drain();
    let gap = Duration::from_micros(200);
    net.stream(Client, id, 0, 4000, gap);
    net.wires[0].up = false;
    net.stream(Client, id, 4000, 600, gap);
    net.run(Duration::from_secs(2));
    // The remaining path has the small window of a new path, so the repairs take several round trips, and no
    // newer packets overtake them.
    let repair = net.status(Client, id).repair;
    assert!(repair.sent > 30 && repair.given_up == 0, "{repair:?}");
    assert!(net.numbers(Server).is_sorted());
}

#[test]
fn a_distant_path_that_carries_nothing_makes_nobody_wait() {
    let told = |net: &Net| {
        let sent = net.log.iter().filter(|l| l.from == Client);
        sent.filter_map(Logged::repair_time).next_back().unwrap()
    };
    let (mut net, id) = Net::connected(1, 1, SessionConfig { scheduler: scheduler("cpf"), ..waits() });
    net.add_wire();
    net.wires[1].delay = Duration::from_millis(300);
    net.client.add_path(net.now, id, path(1)).unwrap();
    net.run(Duration::from_secs(3));
    assert_eq!(net.state(Client, id), [PathState::Up; 2]);
    net.stream(Client, id, 0, 200, Duration::from_millis(20));
    assert!(told(&net) < 150, "{} ms", told(&net));
    net.client.set_prio(net.now, id, PathId(1), 4);
    net.drain();
    net.stream(Client, id, 200, 200, Duration::from_millis(20));
    assert_eq!(told(&net), 500, "the wait must follow the path that carries the data");
    net.client.set_prio(net.now, id, PathId(1), 2);
    net.drain();
    net.stream(Client, id, 400, 700, Duration::from_millis(20));
    assert!(told(&net) < 150, "{} ms", told(&net));
}

#[test]
fn nothing_is_repaired_for_who_does_not_wait_or_where_it_is_switched_off() {
    let off = SessionConfig { repair: false, ..waits() };
    for (client, server) in [(waits(), config()), (off, waits())] {
        let mut net = Net::new(1, 2, server);
        let id = net.connect(client);
        net.run(Duration::from_millis(500));
        net.wires.iter_mut().for_each(|w| w.loss = 20);
        net.stream(Client, id, 0, 1000, Duration::from_millis(2));
        assert_eq!(net.status(Client, id).repair, RepairStats::default());
        assert!(net.numbers(Server).len() < 995);
    }
}

#[test]
fn a_peer_of_another_kind_sees_nothing_but_one_private_option_it_may_ignore() {
    let mut net = Net::new(1, 1, waits());
    // Changes the private option in the Response, so that the server does not seem to support it.
    net.meddler = Some(changing(Server, dccp_wire::PacketType::Response, |bytes| _ = spoil(bytes, 11, 3)));
    let id = net.connect(waits());
    net.run(Duration::from_millis(500));
    let before = net.log.len();
    net.wires[0].loss = 20;
    net.stream(Client, id, 0, 1000, Duration::from_millis(2));
    let private =
        |l: &Logged| l.from == Client && l.mp().iter().any(|o| matches!(o, dccp_wire::MpOption::Exp(_)));
    assert!(!net.log[before..].iter().any(private));
    assert_eq!(net.status(Client, id).repair, RepairStats::default());
}

#[test]
fn the_peer_is_told_at_once_of_a_link_reported_down() {
    let (mut net, id) = Net::connected(1, 2, waits());
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.run(Duration::from_millis(11));
    assert_eq!(net.state(Server, net.server_id()), [PathState::Up, PathState::Suspect]);
}

#[test]
fn the_peer_is_told_of_a_death_it_cannot_see() {
    let (mut net, id, sid) = Net::both(1, 2, waits());
    net.stream(Client, id, 0, 200, Duration::from_millis(2));
    // The client notices the failure because its data is not acknowledged. The server sends nothing on this
    // path, so it learns of the failure only from the client's report.
    net.wires[1].up = false;
    net.stream(Client, id, 200, 100, Duration::from_millis(2));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Suspect]);
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Suspect]);
}

/// If both ends put each flow in order separately, losses of one flow do not delay another.
#[test]
fn a_flow_is_not_held_up_by_what_another_lost() {
    for flow_order in [true, false] {
        let reorder = ReorderConfig::adaptive(Duration::from_millis(250));
        let cfg = SessionConfig { reorder, flow_order, ..config() };
        let (mut net, id) = Net::connected(4, 1, cfg);
        let most = net.status(Client, id).max_payload.unwrap();
        assert_eq!(
            most,
            if flow_order { 1440 } else { 1444 },
            "the option must be counted in the largest payload"
        );
        // The window of a new path is small, so let it grow first.
        net.stream(Client, id, 0, 50, Duration::from_millis(10));
        let mut lost = false;
        net.meddler = Some(Box::new(move |from, _, bytes| {
            let is_100 = from == Client && bytes.windows(4).any(|w| w == 100u32.to_be_bytes());
            !is_100 || std::mem::replace(&mut lost, true)
        }));
        for n in 100..104 {
            net.client.send(net.now, id, datagram(n), PktInfo { flow: 1 + n % 2, ..PktInfo::default() });
        }
        net.run(Duration::from_millis(15));
        let got = |net: &Net| net.numbers(Server).into_iter().filter(|n| *n >= 100).collect::<Vec<_>>();
        assert_eq!(got(&net), if flow_order { vec![101, 103] } else { vec![] });
        net.run(Duration::from_secs(1));
        let all = if flow_order { [101, 103, 100, 102] } else { [100, 101, 102, 103] };
        assert_eq!(got(&net), all, "each flow must be repaired in its order");
    }
}

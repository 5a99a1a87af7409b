use crate::ends::End::{Client, Server};
use crate::ends::{self, Net, client_addr, client_route, datagram};
use crate::packets;
use crate::unstructured::Unstructured;
use dccp_proto::{Ecn, Route};
use mpdccp_proto::policy::{Otherwise, Policy, Rule};
use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Fallback, JoinFrom, KeyType, Named, PktInfo, SessionConfig};
use mpdccp_units::{Duration, Rate};
use std::net::SocketAddr;

/// Maximum number of steps in a run. No input is long enough for more steps.
const STEPS: usize = 200;

/// Fuzzes an open multipath session over two paths. The input decides what the applications, the network, and
/// a forger who sees all packets do.
pub fn session(bytes: &[u8]) {
    let input = &mut Unstructured::new(bytes);
    let (client, server) = (config(input), config(input));
    let mut net = Net::new(1, 2, server);
    let id = net.connect(client);
    net.run(Duration::from_millis(200));
    for _ in 0..STEPS {
        if input.is_done() {
            break;
        }
        match input.below(16) {
            0..=3 => net.run(Duration::from_millis(input.pick(&[1, 10, 30, 90, 700, 3000]))),
            4 | 5 => {
                let from = input.pick(&[Client, Server]);
                let id = if from == Client { Some(id) } else { net.server.sessions().first().copied() };
                let Some(id) = id.filter(|id| net.end(from).sessions().contains(id)) else { continue };
                for n in 0..=input.below(20) {
                    let now = net.now;
                    let info = PktInfo { flow: n as u32 % 4, ..PktInfo::default() };
                    net.end(from).send(now, id, datagram(n as u32), info);
                }
            }
            6..=11 => forge(input, &mut net),
            12 | 13 => {
                let wire = &mut net.wires[input.below(2)];
                match input.below(6) {
                    0 => wire.up = !wire.up,
                    1 => wire.loss = input.below(500) as u64,
                    2 => wire.twice = input.below(100) as u64,
                    3 => wire.jitter = Duration::from_millis(input.byte().into()),
                    4 => {
                        wire.mute =
                            if wire.mute.is_some() { None } else { Some(input.pick(&[Client, Server])) }
                    }
                    _ => wire.nat_port = wire.nat_port.wrapping_add(1).max(1),
                }
            }
            _ => command(input, &mut net, id),
        }
        net.drain();
        net.log.drain(..net.log.len().saturating_sub(500));
    }
    net.run(Duration::from_secs(30));
    net.log.clear();
    for end in [Client, Server] {
        for id in net.end(end).sessions() {
            let now = net.now;
            net.end(end).abort(now, id);
        }
    }
    net.run(Duration::from_secs(700));
    assert!(net.log.len() < 4000, "{} packets of ended sessions", net.log.len());
}

/// Returns the settings of one end of the session. Some of them are determined by the last bytes of the
/// input.
pub(crate) fn config(input: &mut Unstructured<'_>) -> SessionConfig {
    let more = &mut input.end(8);
    let known: Vec<u8> = Ccid::known().collect();
    let (flags, switches) = (input.byte(), more.byte());
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let switch = |bit: u8| switches >> bit & 1 == 1;
    let base = ends::config();
    let schedulers: Vec<SchedulerKind> = SchedulerKind::all().collect();
    let reorderers: Vec<ReorderKind> = ReorderKind::all().collect();
    let fec = Rule {
        fec: Some(more.byte() % 16 + 1),
        otherwise: more.pick(&[Otherwise::Any, Otherwise::Wait, Otherwise::Drop]),
        max_loss: more.one_in(4).then_some(0.1),
        ..Rule::default()
    };
    SessionConfig {
        multipath: !flag(0),
        early_data: if switch(0) { b"early".to_vec() } else { Vec::new() },
        fallback: Fallback::Plain,
        key_types: more
            .pick(&[
                &[KeyType::Plain][..],
                &[KeyType::Experimental, KeyType::Plain],
                &[KeyType::Experimental],
            ])
            .to_vec(),
        share_congestion: switch(1),
        policy: Policy(if switch(2) { vec![fec] } else { Vec::new() }),
        reorder: ReorderConfig { proven: switch(3), ..more.pick(&reorderers).into() },
        repair: !switch(4),
        flow_order: switch(5),
        joinable: switch(6),
        join_advertised: more.pick(&[JoinFrom::Nowhere, JoinFrom::One, JoinFrom::All]),
        scheduler: input.pick(&schedulers),
        connection: dccp_proto::Config {
            early_data: switch(7),
            tx_ccids: vec![input.pick(&known), 2],
            rx_ccids: known,
            allow_short_seqnos: flag(1),
            check_data_checksum: flag(2),
            ndp_count: flag(3),
            probe_mtu: flag(4),
            ..base.connection
        },
        ..base
    }
}

/// Sends a packet that resembles a recent packet from either end, on the same route or another one.
pub(crate) fn forge(input: &mut Unstructured<'_>, net: &mut Net) {
    let Some(newest) = net.log.len().checked_sub(1) else { return };
    let old = net.log[newest - input.below(40).min(newest)].clone();
    let bytes = match input.below(12) {
        0 => input.bytes(120),
        1 => old.bytes.clone(),
        _ => packets::packet(input, &old.packet().header),
    };
    let port = if input.one_in(20) { 41_000 } else { net.wires[old.path].nat_port };
    let from = SocketAddr::new(client_addr(old.path), port);
    let (to, route) = match old.from {
        Client => (Server, Route { socket: 0, local: None, remote: from }),
        Server => (Client, client_route(old.path)),
    };
    net.inject(to, route, Ecn::from_bits(input.byte()), &bytes);
}

fn command(input: &mut Unstructured<'_>, net: &mut Net, id: mpdccp_proto::SessionId) {
    let end = input.pick(&[Client, Server]);
    let Some(id) = (if end == Client { Some(id) } else { net.server.sessions().first().copied() }) else {
        return;
    };
    let now = net.now;
    let paths: Vec<_> = net.end(end).rows(now, id).iter().map(|row| row.id).collect();
    let path = if paths.is_empty() { return } else { input.pick(&paths) };
    let end = net.end(end);
    match input.below(12) {
        0 => end.remove_path(now, id, path),
        1 => end.set_prio(now, id, path, input.byte() & 15),
        2 => end.cap_path(now, id, path, Some(Rate::from_mbps(f64::from(input.byte())))),
        3 => drop(end.set_ccid(now, id, input.pick(&[2, 3, 4, 5, 7]))),
        4 => end.set_link(now, id, path, input.one_in(2)),
        5 => end.set_mtu(now, id, path, input.number() as u16),
        6 => drop(end.advertise(now, id, client_addr(input.below(4)), None)),
        7 => end.withdraw(now, id, input.byte()),
        8 => drop(end.send_private(now, id, &input.bytes(40))),
        9 => drop(end.add_path(now, id, ends::path(input.below(2)))),
        10 => end.close(now, id),
        _ => end.abort(now, id),
    }
}

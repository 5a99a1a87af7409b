//! Random events on the paths, with every scheduler and reorderer. Every delivered packet was sent, and is
//! delivered only once. If the reorderer holds packets, the only ones out of order are those that arrive
//! after their hole was given up. Memory is bounded, and the session ends.

use crate::common::End::{self, Client, Server};
use crate::common::*;
use mpdccp_proto::policy::{Policy, Rule};
use mpdccp_proto::reorder::{ReorderConfig, ReorderKind};
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::*;
use mpdccp_units::Duration;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PATHS: usize = 4;

/// An event.
#[derive(Clone, Debug)]
enum Happening {
    Send(bool, u32, u64),
    Pause(u64),
    Up(usize, bool),
    Mute(usize, Option<bool>),
    Rebind(usize),
    Loss(usize, u64),
    Twice(usize, u64),
    Jitter(usize, u64),
    Delay(usize, u64),
    Link(usize, bool),
    Add(usize),
    Remove(usize),
    Prio(usize, u8),
    /// Number of packets per 1000 in which a byte of headers or options is changed.
    Corrupt(u64),
    Flap(usize, u64),
}

fn happenings(corrupt: bool) -> impl Strategy<Value = Vec<Happening>> {
    use Happening::*;
    let p = 0..PATHS;
    let one = prop_oneof![
        8 => (any::<bool>(), 1u32..80, 0u64..8_000).prop_map(|(up, n, gap)| Send(up, n, gap)),
        2 => (1u64..3_000).prop_map(Pause),
        2 => (p.clone(), any::<bool>()).prop_map(|(p, up)| Up(p, up)),
        1 => (p.clone(), prop::option::of(any::<bool>())).prop_map(|(p, end)| Mute(p, end)),
        1 => p.clone().prop_map(Rebind),
        1 => (p.clone(), 0u64..300).prop_map(|(p, n)| Loss(p, n)),
        1 => (p.clone(), 0u64..300).prop_map(|(p, n)| Twice(p, n)),
        1 => (p.clone(), 0u64..40).prop_map(|(p, ms)| Jitter(p, ms)),
        1 => (p.clone(), 1u64..150).prop_map(|(p, ms)| Delay(p, ms)),
        1 => (p.clone(), any::<bool>()).prop_map(|(p, up)| Link(p, up)),
        1 => p.clone().prop_map(Add),
        1 => p.clone().prop_map(Remove),
        1 => (p.clone(), 0u8..16).prop_map(|(p, prio)| Prio(p, prio)),
        1 => (0u64..30).prop_map(move |n| if corrupt { Corrupt(n) } else { Pause(n + 1) }),
        1 => (p, 20u64..700).prop_map(|(p, ms)| Flap(p, ms)),
    ];
    prop::collection::vec(one, 1..40)
}

fn happen(net: &mut Net, id: SessionId, sent: &mut [u32; 2], what: &Happening) {
    let ids: Vec<PathId> =
        net.client.status(net.now, id).map_or(vec![], |s| s.paths.iter().map(|p| p.id).collect());
    let path = |p: &usize| ids.get(*p).copied().unwrap_or(PathId(*p as u32));
    match what {
        Happening::Send(up, n, gap) => {
            let from = if *up { Client } else { Server };
            let session = if *up { Some(id) } else { net.server.sessions().first().copied() };
            let sent = &mut sent[usize::from(!*up)];
            if let Some(session) = session {
                net.stream(from, session, *sent, *n, Duration::from_micros(*gap));
                *sent += n;
            }
        }
        Happening::Pause(ms) => net.run(Duration::from_millis(*ms)),
        Happening::Up(p, up) => net.wires[*p].up = *up,
        Happening::Mute(p, end) => net.wires[*p].mute = end.map(|c| if c { Client } else { Server }),
        Happening::Rebind(p) => net.wires[*p].nat_port += 1,
        Happening::Loss(p, n) => net.wires[*p].loss = *n,
        Happening::Twice(p, n) => net.wires[*p].twice = *n,
        Happening::Jitter(p, ms) => net.wires[*p].jitter = Duration::from_millis(*ms),
        Happening::Delay(p, ms) => net.wires[*p].delay = Duration::from_millis(*ms),
        Happening::Link(p, up) => net.client.set_link(net.now, id, path(p), *up),
        Happening::Add(p) => {
            net.client.add_path(net.now, id, crate::common::path(*p));
        }
        Happening::Remove(p) => net.client.remove_path(net.now, id, path(p)),
        Happening::Prio(p, prio) => net.client.set_prio(net.now, id, path(p), *prio),
        Happening::Corrupt(share) => {
            let (share, mut n) = (*share, 0u64);
            net.meddler = Some(Box::new(move |_, _, bytes| {
                n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let dice = n >> 33;
                let head = bytes.len().saturating_sub(1000);
                if dice % 1000 < share && head > 0 {
                    bytes[(dice / 1000) as usize % head] ^= (n >> 24) as u8 | 1;
                }
                true
            }));
        }
        Happening::Flap(p, ms) => {
            for k in 0..6 {
                net.wires[*p].up = k % 2 == 1;
                net.run(Duration::from_millis(*ms));
            }
        }
    }
    net.drain();
}

fn bounded(status: &SessionStatus) {
    assert!(status.reorder.occupancy <= 16_384 && status.queue.bytes <= 4 << 20);
    assert!(status.reorder.occupancy_bytes <= 16 << 20, "{:?}", status.reorder);
    assert!(status.repair.bytes <= 16 << 20, "{:?}", status.repair);
    // FEC keeps three kinds of packets: packets from which others can be restored, FEC packets waiting for a
    // path, and FEC packets waiting for a protected packet.
    assert!(status.fec.held <= 512 + 64 + 64, "{:?}", status.fec);
    assert!(status.paths.len() <= 60, "{}", status.paths.len());
}

/// Counts the numbers that are smaller than an earlier one.
fn out_of_order(got: &[u32]) -> u64 {
    let mut newest = 0;
    let mut back = 0;
    for n in got {
        back += u64::from(*n < newest);
        newest = newest.max(*n);
    }
    back
}

/// Returns every reorderer. The one with the `proven` option appears both with and without it.
fn reorderers() -> Vec<ReorderConfig> {
    let all = ReorderKind::all().map(ReorderConfig::from);
    let all = all.map(|cfg| ReorderConfig { wait: cfg.wait.min(Duration::from_millis(200)), ..cfg });
    let fixed = ReorderConfig::active_fixed(Duration::from_millis(50));
    all.chain([ReorderConfig { proven: true, ..fixed }]).collect()
}

/// Returns whether the reorderer holds packets behind holes, so that only late packets are out of order.
fn keeps_order(cfg: &ReorderConfig) -> bool {
    ["adaptive", "active-fixed"].contains(&cfg.kind.name())
}

/// Returns rules that send an FEC packet after every three packets.
fn allowed() -> Policy {
    Policy(vec![Rule { fec: Some(3), ..Rule::default() }])
}

#[derive(Clone, Debug)]
struct Choice {
    seed: u8,
    paths: usize,
    scheduler: SchedulerKind,
    reorder: ReorderConfig,
    /// Whether some rules send FEC packets, and packets carry the distance to their flow's previous packet.
    policy: bool,
}

fn choices() -> impl Strategy<Value = Choice> {
    let scheduler = prop::sample::select(SchedulerKind::all().collect::<Vec<_>>());
    let all = (any::<u8>(), 2..=PATHS, scheduler, prop::sample::select(reorderers()), any::<bool>());
    all.prop_map(|(seed, paths, scheduler, reorder, policy)| Choice {
        seed,
        paths,
        scheduler,
        reorder,
        policy,
    })
}

fn world(choice: &Choice, corrupt: bool, story: &[Happening]) {
    let Choice { seed, paths, scheduler, reorder, policy } = choice.clone();
    let rules = if policy { allowed() } else { Policy::default() };
    let cfg = SessionConfig { reorder, scheduler, policy: rules, flow_order: policy, ..config() };
    let mut net = Net::new(seed, PATHS, cfg.clone());
    let id = net.client.connect(net.now, cfg, path(0));
    for k in 1..paths {
        net.client.add_path(net.now, id, path(k));
    }
    net.run(Duration::from_millis(300));
    let mut sent = [0; 2];
    // For each end, the number of late packets of each session.
    let mut late: [BTreeMap<SessionId, u64>; 2] = Default::default();
    for what in story {
        happen(&mut net, id, &mut sent, what);
        let ends: [(End, Option<SessionId>); 2] =
            [(Client, Some(id)), (Server, net.server.sessions().first().copied())];
        for (end, session) in ends {
            let now = net.now;
            if let Some(status) = session.and_then(|s| net.end(end).status(now, s)) {
                bounded(&status);
                late[usize::from(end == Client)].insert(session.unwrap(), status.reorder.late);
            }
            // Once a session has ended, its number of late packets is unknown.
            let late = &late[usize::from(end == Client)];
            let all_there = late.keys().all(|id| net.end(end).sessions().contains(id));
            if keeps_order(&reorder) && !corrupt && all_there {
                let (back, late) = (out_of_order(&net.numbers(end)), late.values().sum());
                assert!(back <= late, "{back} packets out of order at {end:?}, but only {late} late");
            }
        }
    }
    for (to, sent) in [(Server, sent[0]), (Client, sent[1])] {
        let got = net.numbers(to);
        // FEC packets and wrongly restored packets are never delivered, even if numbers were changed.
        assert!(got.iter().all(|n| *n < sent), "a packet was delivered that was not sent");
        let mut once = got.clone();
        once.sort_unstable();
        once.dedup();
        assert!(corrupt || once.len() == got.len(), "a packet was delivered twice");
    }
    // All paths fail. Both ends notice this, end the session, and have nothing left to do.
    net.meddler = None;
    net.wires.iter_mut().for_each(|w| w.up = false);
    net.run(Duration::from_secs(200));
    assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
    assert_eq!((net.client.poll_timeout(), net.server.poll_timeout()), (None, None));
    let ends = |end| net.events_of(end).iter().filter(|e| matches!(e, SessionEvent::Closed(_))).count();
    assert_eq!(ends(Client), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_world(choice in choices(), story in happenings(false)) {
        world(&choice, false, &story);
    }

    #[test]
    fn any_world_that_corrupts(choice in choices(), story in happenings(true)) {
        world(&choice, true, &story);
    }
}

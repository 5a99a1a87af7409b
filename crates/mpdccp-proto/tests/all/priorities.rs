//! Effect of MP_PRIO (RFC 9897 section 3.2.10) on the packets sent. The tests cover every scheduler and both
//! directions, with either end setting the priority.

use crate::common::End::{Client, Server};
use crate::common::*;
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::*;
use mpdccp_units::{Duration, Rate};

/// A session over two paths, in which one end sets the priorities.
struct World {
    net: Net,
    ids: [(End, SessionId); 2],
    sent: u32,
    what: String,
}

impl World {
    fn new(scheduler: SchedulerKind, by: End, prios: [u8; 2]) -> World {
        let (mut net, id) = Net::connected(1, 2, SessionConfig { scheduler, ..config() });
        let ids = [(Client, id), (Server, net.server_id())];
        let own = ids[usize::from(by == Server)].1;
        for (path, prio) in (0..).zip(prios) {
            let now = net.now;
            net.end(by).set_prio(now, own, PathId(path), prio);
        }
        net.run(Duration::from_millis(200));
        let what = format!("{}, {prios:?} by {by:?}", scheduler.name());
        for (end, id) in ids {
            let heard: Vec<u8> = net.status(end, id).paths.iter().map(|p| p.prio).collect();
            assert_eq!(heard, prios, "{what} at {end:?}");
            let state = |prio| if prio <= 1 { PathState::Standby } else { PathState::Up };
            assert_eq!(net.state(end, id), prios.map(state), "{what} at {end:?}");
        }
        World { net, ids, sent: 0, what }
    }

    /// Sends data in one direction, then in the other, and returns the number of packets per direction and
    /// path.
    fn carried(&mut self, count: u32, gap: Duration) -> [[usize; 2]; 2] {
        self.ids.map(|(from, id)| {
            let start = self.net.now;
            self.net.stream(from, id, self.sent, count, gap);
            self.sent += count;
            let data = |path| {
                let log = self.net.log.iter().rev().take_while(|l| l.at >= start);
                log.filter(|l| l.from == from && l.path == path && !l.packet().payload.is_empty()).count()
            };
            [data(0), data(1)]
        })
    }

    /// Sends one packet every 10 ms, far less than a path can carry.
    fn thin(&mut self) -> [[usize; 2]; 2] {
        self.carried(60, Duration::from_millis(10))
    }

    /// Sends 40 Mbit/s. The first path carries 4 Mbit/s.
    fn thick(&mut self) -> [[usize; 2]; 2] {
        self.net.wires[0].rate = Some(Rate::from_mbps(4.0));
        let carried = self.carried(1500, Duration::from_micros(200));
        self.net.run(Duration::from_millis(500));
        self.net.wires[0].rate = None;
        carried
    }
}

/// Runs `check` for every scheduler, with each end setting the priorities.
fn everywhere(prios: [u8; 2], check: impl Fn(&mut World, SchedulerKind)) {
    for scheduler in SchedulerKind::all() {
        for by in [Client, Server] {
            check(&mut World::new(scheduler, by, prios), scheduler);
        }
    }
}

#[test]
fn a_standby_path_carries_only_when_nothing_else_is_usable() {
    everywhere([3, 1], |world, _| {
        for [primary, standby] in world.thin().into_iter().chain(world.thick()) {
            assert!(
                primary > 0 && standby == 0,
                "{}, packets: {primary} primary, {standby} standby",
                world.what
            );
        }
        world.net.wires[0].up = false;
        for [_, standby] in world.thin() {
            assert!(standby > 20, "{}: {standby}", world.what);
        }
    });
    // A secondary path counts as usable.
    everywhere([2, 1], |world, _| {
        for [secondary, standby] in world.thin().into_iter().chain(world.thick()) {
            assert!(
                secondary > 0 && standby == 0,
                "{}, packets: {secondary} secondary, {standby} standby",
                world.what
            );
        }
    });
}

#[test]
fn a_secondary_path_carries_only_when_primaries_are_congested_or_gone() {
    everywhere([3, 2], |world, scheduler| {
        for [primary, secondary] in world.thin() {
            assert!(
                primary > 0 && secondary == 0,
                "{}, packets: {primary} primary, {secondary} secondary",
                world.what
            );
        }
        for [primary, secondary] in world.thick() {
            // A scheduler that uses one path at a time stays with the better path while it is up.
            let helps = scheduler.name() != "handover";
            assert!(
                primary > 0 && (secondary > 0) == helps,
                "{}, packets: {primary} primary, {secondary} secondary",
                world.what
            );
        }
        world.net.wires[0].up = false;
        for [_, secondary] in world.thin() {
            assert!(secondary > 20, "{}: {secondary}", world.what);
        }
    });
}

#[test]
fn a_path_of_priority_0_never_carries_beside_another() {
    everywhere([3, 0], |world, _| {
        for [primary, never] in world.thin().into_iter().chain(world.thick()) {
            assert!(
                primary > 0 && never == 0,
                "{}, packets: {primary} primary, {never} of priority 0",
                world.what
            );
        }
    });
    everywhere([1, 0], |world, _| {
        for [standby, never] in world.thin() {
            assert!(
                standby > 0 && never == 0,
                "{}, packets: {standby} standby, {never} of priority 0",
                world.what
            );
        }
    });
}

/// A path of priority 0 may be forbidden because of its cost, so it carries nothing even if it is the last
/// one. The packets wait, and are dropped and counted when they are too old.
#[test]
fn a_path_of_priority_0_never_carries_alone() {
    let check = |world: &mut World| {
        for [first, second] in world.thin() {
            assert_eq!([first, second], [0, 0], "{}", world.what);
        }
        world.net.run(Duration::from_secs(2));
        for (end, id) in world.ids {
            let status = world.net.status(end, id);
            assert_eq!(
                (status.queue.packets, status.queue_stats.dropped_old),
                (0, 60),
                "{} at {end:?}",
                world.what
            );
        }
    };
    everywhere([0, 0], |world, _| check(world));
    // The other path is removed, and the server forgets it.
    everywhere([3, 0], |world, _| {
        let (now, [(_, client), (_, server)]) = (world.net.now, world.ids);
        world.net.client.remove_path(now, client, PathId(0));
        world.net.run(Duration::from_secs(5));
        assert_eq!(world.net.status(Server, server).paths.len(), 1, "{}", world.what);
        check(world);
    });
}

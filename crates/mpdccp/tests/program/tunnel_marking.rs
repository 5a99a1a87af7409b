//! Tests ECN, DSCP and TTL between inner and outer headers, on both paths and in both directions. Relays
//! between the ends record and change outer headers.

use crate::common::{Bed, CLIENT, REMOTE, SERVER, bed, socket, wait_for};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ECT0: u8 = 2;
const CE: u8 = 3;
/// Size of the test's inner packets, by which the relays recognise them.
const LARGE: usize = 700;
/// MTU probes are larger than this, so the relays can ignore them.
const PROBES: usize = 1_100;

/// Makes a socket receive the TOS byte and the TTL of each datagram.
fn watch(socket: &UdpSocket) {
    if socket.local_addr().unwrap().is_ipv4() {
        setsockopt(socket, sockopt::IpRecvTos, &true).unwrap();
        setsockopt(socket, sockopt::Ipv4RecvTtl, &true).unwrap();
    } else {
        setsockopt(socket, sockopt::Ipv6RecvTClass, &true).unwrap();
        setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true).unwrap();
    }
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
}

/// Receives a datagram. Returns its length, sender, TOS and TTL; `None` after a timeout.
fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> Option<(usize, SocketAddr, u8, i32)> {
    let mut space = nix::cmsg_space!(i32, i32, i32);
    let (mut tos, mut ttl) = (0, 0);
    let mut slices = [IoSliceMut::new(bytes)];
    let got =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty());
    let got = got.ok()?;
    for control in got.cmsgs().unwrap() {
        match control {
            ControlMessageOwned::Ipv4Tos(n) => tos = n,
            ControlMessageOwned::Ipv6TClass(n) => tos = n as u8,
            ControlMessageOwned::Ipv4Ttl(n) | ControlMessageOwned::Ipv6HopLimit(n) => ttl = n,
            _ => {}
        }
    }
    let from = got.address.unwrap();
    let from = match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(a), _) => SocketAddr::V4((*a).into()),
        (_, Some(a)) => SocketAddr::V6((*a).into()),
        _ => unreachable!(),
    };
    Some((got.bytes, from, tos, ttl))
}

fn set_tos(socket: &UdpSocket, tos: u8) {
    if socket.local_addr().unwrap().is_ipv4() {
        setsockopt(socket, sockopt::Ipv4Tos, &i32::from(tos)).unwrap();
    } else {
        setsockopt(socket, sockopt::Ipv6TClass, &i32::from(tos)).unwrap();
    }
}

/// A relay between the client and the server on one path.
#[derive(Clone, Default)]
struct Relay {
    /// The TOS bytes of large datagrams, by direction.
    seen: [Arc<Mutex<BTreeSet<u8>>>; 2],
    /// The TOS byte that the relay sets on large datagrams.
    tos: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn start(bed: &Bed, path: usize) -> Relay {
        let relay = Relay::default();
        let bind = |port| match path {
            0 => format!("{}:{port}", REMOTE[0]),
            _ => format!("[{}]:{port}", REMOTE[1]),
        };
        let space = &bed.space[1];
        let (near, far) = (socket(space, &bind(6600)), socket(space, &bind(0)));
        watch(&near);
        watch(&far);
        let server: SocketAddr = bind(6511).parse().unwrap();
        let client = Arc::new(Mutex::new(None));
        for way in 0..2 {
            let (relay, client) = (relay.clone(), client.clone());
            let (from, to) = if way == 0 { (&near, &far) } else { (&far, &near) };
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 2000];
                while !relay.stop.load(Ordering::Relaxed) {
                    let Some((len, sender, tos, _)) = receive(&from, &mut bytes) else { continue };
                    if way == 0 {
                        *client.lock().unwrap() = Some(sender);
                    }
                    let large = len > LARGE && len < PROBES;
                    if large {
                        relay.seen[way].lock().unwrap().insert(tos);
                    }
                    set_tos(&to, if large { relay.tos.load(Ordering::Relaxed) } else { 0 });
                    let target = if way == 0 { Some(server) } else { *client.lock().unwrap() };
                    let _ = target.map(|target| to.send_to(&bytes[..len], target));
                }
            });
        }
        relay
    }
}

/// The sockets of the inner flows in one direction.
struct Ends {
    sender: UdpSocket,
    receiver: UdpSocket,
    to: String,
}

impl Ends {
    fn new(bed: &Bed, way: usize, version: usize) -> Ends {
        let address = |ip: &str, port: u16| match version {
            0 => format!("{ip}:{port}"),
            _ => format!("[{ip}]:{port}"),
        };
        let (from, to) = if way == 0 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let sender = socket(&bed.space[way], &address(from[version], 0));
        let receiver = socket(&bed.space[1 - way], &address(to[version], 7000));
        watch(&receiver);
        if version == 0 {
            setsockopt(&sender, sockopt::Ipv4Ttl, &33).unwrap();
        } else {
            setsockopt(&sender, sockopt::Ipv6Ttl, &33).unwrap();
        }
        Ends { sender, receiver, to: address(to[version], 7000) }
    }

    /// Sends datagrams with a TOS byte until one arrives. Returns the TOS byte and TTL that it arrived with.
    fn carry(&self, tos: u8) -> (u8, i32) {
        set_tos(&self.sender, tos);
        let mut got = None;
        let mut bytes = [0; 2000];
        // Discard datagrams of earlier calls.
        while receive(&self.receiver, &mut bytes).is_some() {}
        wait_for("an inner packet", || {
            self.sender.send_to(&[tos; 900], &self.to).unwrap();
            got = receive(&self.receiver, &mut bytes).filter(|_| bytes[0] == tos);
            got.is_some()
        });
        got.map(|(_, _, tos, ttl)| (tos, ttl)).unwrap()
    }
}

/// Starts a tunnel whose paths pass through relays.
fn start(common: &str) -> Option<(Bed, [Relay; 2])> {
    let mut bed = bed()?;
    let relays = [0, 1].map(|path| Relay::start(&bed, path));
    bed.remote = [format!("{}:6600", REMOTE[0]), format!("[{}]:6600", REMOTE[1])];
    // With the redundant scheduler, every packet is sent on both paths.
    bed.up(&format!("scheduler = \"redundant\"\n{common}"));
    Some((bed, relays))
}

fn stop(mut bed: Bed, relays: &[Relay; 2]) {
    bed.down();
    for relay in relays {
        relay.stop.store(true, Ordering::Relaxed);
    }
}

fn seen(relays: &[Relay; 2], way: usize) -> [BTreeSet<u8>; 2] {
    [0, 1].map(|i| std::mem::take(&mut *relays[i].seen[way].lock().unwrap()))
}

/// RFC 6040 sections 4.1 and 4.2, RFC 2983 section 3.1: outer fields are copied from the inner fields,
/// congestion marks are applied to inner packets, and the inner DSCP and TTL do not change.
#[test]
fn fields_are_copied_on_both_paths_both_ways() {
    let Some((bed, relays)) = start("ecn = \"copy\"\ndscp = \"copy\"") else { return };
    for (way, version) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let ends = Ends::new(&bed, way, version);
        for (dscp, ecn) in [(46, 0), (10, ECT0), (0, 1), (10, CE)] {
            let tos = dscp << 2 | ecn;
            seen(&relays, way);
            // The relay clears the DSCP but keeps the ECN field.
            relays.iter().for_each(|relay| relay.tos.store(ecn, Ordering::Relaxed));
            assert_eq!(ends.carry(tos), (tos, 33));
            let copies = || relays.iter().all(|r| r.seen[way].lock().unwrap().contains(&tos));
            wait_for("the DSCP on both paths", copies);
            assert_eq!(seen(&relays, way), [BTreeSet::from([tos]), BTreeSet::from([tos])]);
        }
        // The relay marks the packets.
        relays.iter().for_each(|relay| relay.tos.store(CE, Ordering::Relaxed));
        assert_eq!(ends.carry(10 << 2 | ECT0), (10 << 2 | CE, 33));
        // If the inner packet of a marked packet is not ECN-capable, the packet is dropped and counted.
        let end = ["s", "c"][way];
        let dropped = || bed.status(end)["tun"]["drops"]["ce_not_ect"].as_u64().unwrap_or(0);
        let before = dropped();
        set_tos(&ends.sender, 0);
        wait_for("a drop is counted", || {
            ends.sender.send_to(&[0; 900], &ends.to).unwrap();
            dropped() > before
        });
        assert!(receive(&ends.receiver, &mut [0; 2000]).is_none_or(|(_, _, tos, _)| tos == 10 << 2 | CE));
    }
    stop(bed, &relays);
}

/// Outer headers have a fixed DSCP. By default, the outer ECN field belongs to the path's congestion control,
/// and marks are applied only to inner packets that are ECN-capable.
#[test]
fn fields_may_be_pinned() {
    let Some((bed, relays)) = start("dscp = 34") else { return };
    for way in 0..2 {
        let ends = Ends::new(&bed, way, 0);
        seen(&relays, way);
        relays.iter().for_each(|relay| relay.tos.store(CE, Ordering::Relaxed));
        assert_eq!(ends.carry(46 << 2), (46 << 2, 33), "a packet that is not ECN-capable is delivered");
        assert_eq!(ends.carry(46 << 2 | ECT0), (46 << 2 | CE, 33));
        relays.iter().for_each(|relay| relay.tos.store(ECT0, Ordering::Relaxed));
        assert_eq!(ends.carry(46 << 2 | ECT0), (46 << 2 | ECT0, 33));
        assert!(seen(&relays, way).iter().all(|seen| *seen == BTreeSet::from([34 << 2 | ECT0])));
    }
    stop(bed, &relays);
}

//! A simulated world: two clients, two servers that share a key, and a network with a delay of 10 ms in each
//! direction. Packets are not encrypted, but the world checks that the two ends have matching keys.

use crate::host::{Access, Host, OVERHEAD};
use dccp_proto::{Ecn, Outbox, Route};
use dccp_secure::PrivateKey;
use mpdccp_linkem::InFlight;
use mpdccp_tunnel::status::{PathReport, PeerStatus, Status};
use mpdccp_tunnel::{Command, HostEvent, Packet};
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const CLIENTS: usize = 2;
/// Host numbers: first the clients, then the servers' first shards, then their second shards.
pub(crate) const SERVERS: [usize; 2] = [2, 3];
pub(crate) const SERVER: usize = SERVERS[0];
const HOSTS: usize = 4;
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// All paths come up within this time.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// Returns the number of the server that a shard belongs to.
fn whole(shard: usize) -> usize {
    if shard < HOSTS { shard } else { shard - SERVERS.len() }
}

pub(crate) fn server_ip(server: usize) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, server as u8 - 1).into()
}

/// Returns the inner address of a client, or the one that both servers have.
pub(crate) fn inner(host: usize) -> Ipv4Addr {
    if host < CLIENTS { Ipv4Addr::new(10, 0, 0, 2 + host as u8) } else { Ipv4Addr::new(10, 0, 0, 1) }
}

pub(crate) fn inner6(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, inner(host).octets()[3].into())
}

pub(crate) fn key(host: usize) -> PrivateKey {
    PrivateKey::from_random([1 + host.min(SERVERS[0]) as u8; 32])
}

/// Parameters of a client's file.
#[derive(Clone, Debug)]
pub(crate) struct ClientFile {
    /// Interface of the first path: a name or a pattern.
    pub(crate) interface: &'static str,
    /// Priority of the second path, if it exists.
    pub(crate) second: Option<u8>,
    pub(crate) quota: bool,
    /// Whether the client also has inner IPv6 addresses.
    pub(crate) v6: bool,
    /// Addresses of the servers, as the value of the key `remote`.
    pub(crate) remote: String,
    pub(crate) extra: String,
}

impl ClientFile {
    pub(crate) fn new() -> ClientFile {
        let remote = "[\"198.51.100.1\", \"198.51.100.2\"]".into();
        ClientFile { interface: "p0", second: Some(3), quota: false, v6: false, remote, extra: String::new() }
    }

    /// A client that knows only the first server.
    pub(crate) fn of_one_server() -> ClientFile {
        ClientFile { remote: "\"198.51.100.1\"".into(), ..ClientFile::new() }
    }

    pub(crate) fn text(&self, client: usize) -> String {
        let (inner, server) = (inner(client), key(SERVERS[0]).public());
        let (remote, extra) = (&self.remote, &self.extra);
        let (own6, net6) = match self.v6 {
            true => (format!(", \"{}/64\"", inner6(client)), ", \"fd00::/64\""),
            false => (String::new(), ""),
        };
        let addresses = match extra.contains("addresses") {
            true => String::new(),
            false => format!("addresses = [\"{inner}/24\"{own6}]"),
        };
        let quota = if self.quota { "quota = \"1MB\"" } else { "" };
        let second = self.second.map_or_else(String::new, |prio| {
            format!("[[peer.path]]\nname = \"b\"\ninterface = \"p1\"\nremote = {remote}\npriority = {prio}\n")
        });
        format!(
            "role = \"client\"\nprivate_key = \"{}\"\n{addresses}\n{extra}\n[[peer]]\nname = \"hub\"\npublic_key = \"{server}\"\n\
             allowed_ips = [\"10.0.0.0/24\", \"10.9.0.0/16\"{net6}]\n[[peer.path]]\nname = \"a\"\ninterface = \"{}\"\nremote = {remote}\n{quota}\n{second}",
            key(client).to_base64().as_str(),
            self.interface
        )
    }
}

/// Returns the configuration file of a server that has these clients as peers.
pub(crate) fn server_text(clients: [bool; CLIENTS], extra: &str) -> String {
    let own = key(SERVERS[0]);
    let mut text = format!(
        "role = \"server\"\nprivate_key = \"{}\"\naddresses = [\"10.0.0.1/24\"]\nlisten = [\"0.0.0.0\"]\n{extra}\n",
        own.to_base64().as_str()
    );
    for client in (0..CLIENTS).filter(|client| clients[*client]) {
        let (inner, key) = (inner(client), key(client).public());
        let allowed = if extra.contains("assign") {
            String::new()
        } else {
            format!("allowed_ips = [\"{inner}/32\"]\n")
        };
        text += &format!("[[peer]]\nname = \"c{client}\"\npublic_key = \"{key}\"\n{allowed}");
    }
    // A configuration needs at least one peer.
    if clients == [false; CLIENTS] {
        let nobody = PrivateKey::from_random([99; 32]).public();
        text += &format!(
            "[[peer]]\nname = \"nobody\"\npublic_key = \"{nobody}\"\nallowed_ips = [\"10.0.0.99/32\"]\n"
        );
    }
    text
}

struct Flying {
    to: usize,
    from: usize,
    socket: u32,
    /// A DCCP packet, or empty for a channel's handshake.
    bytes: Vec<u8>,
}

/// All hosts, and the packets in flight.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: Time,
    /// Delay in each direction.
    pub(crate) delay: Duration,
    pub(crate) hosts: Vec<Host>,
    flying: InFlight<Flying>,
    /// For each inner packet, by number: the host and inner address that sent it.
    sent: Vec<(usize, Ipv4Addr)>,
    /// TCP segments delivered by an interface, each with its host.
    pub(crate) segments: Vec<(usize, Vec<u8>)>,
    /// DSCP of the stream packets that were sent, each with its host.
    pub(crate) marks: BTreeSet<(usize, u8)>,
    /// IPv6 packets delivered by an interface, each with its host.
    pub(crate) v6: Vec<(usize, Vec<u8>)>,
    /// For each inner packet, by number: the host that received it.
    pub(crate) delivered: BTreeMap<u64, usize>,
}

impl World {
    pub(crate) fn new(files: [ClientFile; CLIENTS], server: &str) -> World {
        let now = Time::from_millis(1_000);
        let client = |n: usize| {
            let mut host = Host::new(now, 1 + n as u8, key(n), &files[n].text(n), None);
            for interface in 0..2u8 {
                let ip = Ipv4Addr::new(192, 0, 2, 10 * n as u8 + interface).into();
                host.access.insert(
                    format!("p{interface}"),
                    Access { ip, up: true, mtu: 1500, mute: false, delay: Duration::ZERO },
                );
            }
            host
        };
        let serve = |(n, shard): (usize, u8)| {
            Host::new(now, 1 + n as u8 + shard * 2, key(n), server, Some((server_ip(n), shard)))
        };
        let mut hosts: Vec<Host> = (0..CLIENTS).map(client).chain(SERVERS.map(|n| serve((n, 0)))).collect();
        if hosts[SERVERS[0]].tunnel.config().shards.0 == 2 {
            hosts.extend(SERVERS.map(|n| serve((n, 1))));
        }
        hosts.iter_mut().for_each(|host| host.begin(now));
        World { now, delay: Duration::from_millis(10), hosts, ..World::default() }
    }

    pub(crate) fn usual() -> World {
        World::new([ClientFile::new(), ClientFile::new()], &server_text([true; CLIENTS], ""))
    }

    /// Advances the virtual time.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut still = 0;
        loop {
            (0..self.hosts.len()).for_each(|n| self.settle(n));
            while self.exchange() {
                (0..self.hosts.len()).for_each(|n| self.settle(n));
            }
            let timeout = |host: &Host| {
                let endpoint = host.endpoint.poll_timeout().map(|(at, _)| at);
                endpoint.into_iter().chain(host.tunnel.poll_timeout()).min().filter(|_| !host.stopped)
            };
            let next = self.hosts.iter().filter_map(timeout).min();
            let next = next.into_iter().chain(self.flying.next_arrival()).min();
            let Some(next) = next.filter(|at| *at <= end) else { break };
            // If a timer stays due, virtual time stops advancing.
            still = if next > self.now { 0 } else { still + 1 };
            assert!(still < 100_000, "time stands still at {:?}", self.now);
            self.now = next.max(self.now);
            while let Some((_, packet)) = self.flying.pop(self.now) {
                self.arrive(packet);
            }
            for host in self.hosts.iter_mut().filter(|host| !host.stopped) {
                if host.endpoint.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    host.endpoint.handle_timeout(self.now);
                }
                if host.tunnel.poll_timeout().is_some_and(|at| at <= self.now) {
                    host.tunnel.handle_timeout(&mut host.endpoint, self.now);
                }
            }
        }
        self.now = end;
    }

    /// Returns the shards of a host.
    fn shards(&self, host: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.hosts.len()).filter(move |shard| whole(*shard) == host)
    }

    /// Delivers messages between shards. Returns false if there was none.
    fn exchange(&mut self) -> bool {
        let (now, mut any) = (self.now, false);
        for from in 0..self.hosts.len() {
            let host = &mut self.hosts[from];
            let (told, packets) =
                (std::mem::take(&mut host.to_shards), std::mem::take(&mut host.handed_over));
            any |= !told.is_empty() || !packets.is_empty();
            let shard = |n: u8| whole(from) + usize::from(n) * SERVERS.len();
            for (n, message) in told {
                let host = &mut self.hosts[shard(n)];
                host.tunnel.handle_shard(&mut host.endpoint, now, message);
                host.act(now);
            }
            for (n, packet) in packets {
                self.hosts[shard(n)].packet(now, Packet::HandedOver(packet));
            }
        }
        any
    }

    /// Reloads a host with another configuration.
    pub(crate) fn reload(&mut self, host: usize, text: &str) {
        for shard in self.shards(host) {
            self.hosts[shard].reload(self.now, text);
        }
    }

    /// Restarts a host with another configuration.
    pub(crate) fn restart(&mut self, host: usize, text: &str) {
        let (now, saved) = (self.now, self.hosts[host].saved.clone());
        for shard in self.shards(host) {
            let host = &mut self.hosts[shard];
            (host.text, host.saved) = (text.into(), saved.clone());
            host.restart(now);
        }
    }

    /// Sends a command to all shards of a host.
    pub(crate) fn command(&mut self, host: usize, command: &Command) {
        for shard in self.shards(host) {
            self.hosts[shard].command(self.now, command.clone());
        }
    }

    /// Returns the inner address of a host.
    pub(crate) fn address(&self, host: usize) -> Ipv4Addr {
        self.hosts[host].given.unwrap_or(inner(host))
    }

    /// Passes input to a host's tunnel and sends the tunnel's output, until neither is left.
    fn settle(&mut self, number: usize) {
        let now = self.now;
        loop {
            let host = &mut self.hosts[number];
            host.act(now);
            while let Some((session, data)) = host.endpoint.poll_deliver() {
                host.packet(now, Packet::Session(session, data));
            }
            let mut outbox = Outbox::new();
            host.endpoint.poll_transmit(now, &mut outbox);
            for (number, socket) in host.sockets.iter_mut().filter(|(_, socket)| !socket.begun) {
                socket.begun = true;
                outbox.push((
                    Route { socket: *number, local: None, remote: socket.remote },
                    Ecn::NotEct,
                    Vec::new(),
                ));
            }
            let mut happened = !outbox.is_empty();
            while let Some((session, event)) = host.endpoint.poll_event() {
                host.tunnel.handle_event(&mut host.endpoint, now, session, event);
                happened = true;
            }
            let received = std::mem::take(&mut host.received);
            outbox.into_iter().for_each(|(route, _, bytes)| self.leave(number, route, bytes));
            received.into_iter().for_each(|packet| self.come_out(number, &packet));
            if !happened {
                return;
            }
        }
    }

    /// Sends an outer packet from a host.
    fn leave(&mut self, from: usize, route: Route, bytes: Vec<u8>) {
        let len = bytes.len() as u16 + OVERHEAD;
        let payload = dccp_wire::Packet::parse(&bytes).map_or(&[][..], |packet| packet.payload);
        self.marks.extend(dccp_streams::dscp(payload).map(|dscp| (from, dscp)));
        let client = if from < CLIENTS { Some(from) } else { self.owner(route.socket) };
        let Some(client) = client else { return };
        let Some(socket) = self.hosts[client].sockets.get_mut(&route.socket) else { return };
        socket.bytes += u64::from(len);
        let (remote, interface) = (socket.remote.ip(), socket.interface.clone());
        let access = &self.hosts[client].access[&interface];
        if !access.up || len > access.mtu || access.mute && from == client {
            return;
        }
        let to =
            if from == client { SERVERS.into_iter().find(|s| server_ip(*s) == remote) } else { Some(client) };
        let Some(to) = to else { return };
        let packet = Flying { to, from: whole(from), socket: route.socket, bytes };
        self.flying.push(self.now + self.delay + access.delay, packet);
    }

    /// Returns the client that has this socket.
    fn owner(&self, socket: u32) -> Option<usize> {
        (0..CLIENTS).find(|n| self.hosts[*n].sockets.contains_key(&socket))
    }

    /// Delivers an outer packet if encryption would accept it: each end must know the other's key, and a new
    /// channel's handshake must be newer than all earlier ones.
    fn arrive(&mut self, Flying { to, from, socket, bytes }: Flying) {
        let now = self.now;
        if self.hosts[to].stopped {
            return;
        }
        let (own, theirs) = (self.hosts[to].key.public(), self.hosts[from].key.public());
        let Some(&peer) = self.hosts[to].peers.get(&theirs) else { return };
        let shards = self.shards(to).count() as u8;
        let to = to + usize::from(dccp_secure::home(peer, shards)) * SERVERS.len();
        if !self.hosts[from].peers.contains_key(&own) {
            return;
        }
        let mut route = Route { socket, local: None, remote: SocketAddr::new(server_ip(from.max(2)), 6511) };
        if from < CLIENTS {
            // If the server does not know the channel, the channel starts with a handshake.
            let handshake = self.hosts[from].handshake_at(now);
            let new = !self.hosts[to].channels.contains_key(&socket);
            let Some(known) = self.hosts[from].sockets.get_mut(&socket) else { return };
            if new {
                known.handshake = handshake;
            }
            let access = &self.hosts[from].access[&self.hosts[from].sockets[&socket].interface];
            let place = SocketAddr::new(access.ip, 40_000);
            let host = &mut self.hosts[to];
            if new {
                if host.newest.get(&theirs).is_some_and(|newest| *newest > handshake) {
                    return;
                }
                host.newest.insert(theirs, handshake);
                host.channels.insert(socket, (peer, place, place));
            }
            let Some((_, first, last)) = host.channels.get_mut(&socket) else { return };
            route.remote = *first;
            if std::mem::replace(last, place) != place {
                host.tell(now, HostEvent::Moved { socket, peer: Some(peer), remote: place });
            }
        } else if self.hosts[to].sockets.get(&socket).is_none_or(|s| s.remote.ip() != server_ip(from)) {
            return;
        }
        if let Some(known) = self.hosts[to].sockets.get(&socket) {
            route.remote = known.remote;
        }
        if bytes.is_empty() {
            return match to < CLIENTS {
                true => self.hosts[to].tell(now, HostEvent::Answered { socket }),
                false => self.leave(to, route, bytes),
            };
        }
        let len = bytes.len() as u32 + u32::from(OVERHEAD);
        self.hosts[to].endpoint.handle_peer(now, &route, peer, Ecn::NotEct, len, &bytes);
    }

    /// Sends a numbered packet from a host to an inner address.
    pub(crate) fn send(&mut self, from: usize, to: Ipv4Addr, len: usize) -> u64 {
        let number = self.sent.len() as u64;
        let mut packet = vec![0; len.max(36)];
        packet[..4].copy_from_slice(&[0x45, 0, (len.max(36) >> 8) as u8, len.max(36) as u8]);
        (packet[6], packet[8], packet[9]) = (0x40, 64, 17);
        let own = self.address(from);
        packet[12..16].copy_from_slice(&own.octets());
        packet[16..20].copy_from_slice(&to.octets());
        packet[28..36].copy_from_slice(&number.to_be_bytes());
        self.sent.push((from, own));
        self.hosts[from].packet(self.now, Packet::Interface(packet));
        number
    }

    /// Delivers a packet to a host's interface. Checks that the host may receive the packet, that it is the
    /// first copy, and that its source is its sender's address.
    fn come_out(&mut self, at: usize, packet: &[u8]) {
        let at = whole(at);
        if packet[0] >> 4 == 6 {
            return self.v6.push((at, packet.to_vec()));
        }
        if packet[9] == 1 {
            return self.hosts[at].log.push("icmp".into());
        }
        if packet[9] == 6 {
            return self.segments.push((at, packet.to_vec()));
        }
        let number = u64::from_be_bytes(*packet[28..].first_chunk().unwrap());
        let to = Ipv4Addr::from(*packet[16..].first_chunk::<4>().unwrap());
        let (from, own) = self.sent[number as usize];
        assert_eq!(packet[12..16], own.octets());
        // A server's host receives packets only from clients. A client's host receives packets only from
        // servers, and only for its own address, current or earlier: servers do not share leases, so a server
        // that the client is leaving may still send to the address it assigned.
        let own_address = to == self.address(at) || self.hosts[at].had.contains(&to.into());
        assert!(
            at >= CLIENTS && from < CLIENTS || at < CLIENTS && from >= CLIENTS && own_address,
            "{from} to {at}"
        );
        assert_eq!(self.delivered.insert(number, at), None, "delivered twice");
    }

    /// Returns whether a packet from one host arrives at the other.
    pub(crate) fn reaches(&mut self, from: usize, to: usize) -> bool {
        let number = self.send(from, self.address(to), 100);
        self.run(Duration::from_millis(500));
        self.delivered.get(&number) == Some(&to)
    }

    /// Returns the server that a client has an open session with.
    pub(crate) fn server_of(&self, client: usize) -> Option<usize> {
        let peer = self.peer(client, "hub")?;
        let path = peer.paths.iter().find(|path| is_up(path))?;
        SERVERS.into_iter().find(|s| path.remote.starts_with(&server_ip(*s).to_string()))
    }

    pub(crate) fn status(&self, host: usize) -> Status {
        let host = &self.hosts[host];
        host.tunnel.status(&host.endpoint, self.now, None)
    }

    pub(crate) fn peer(&self, host: usize, name: &str) -> Option<PeerStatus> {
        let status = |shard: usize| {
            let host = &self.hosts[shard];
            host.tunnel.status(&host.endpoint, self.now, Some(name)).peers.pop()
        };
        self.shards(host).find_map(status)
    }

    pub(crate) fn path(&self, client: usize, name: &str) -> Option<PathReport> {
        self.peer(client, "hub")?.paths.into_iter().rev().find(|path| path.name == name)
    }

    /// Returns the bytes sent over the first client's sockets, by interface.
    pub(crate) fn carried(&self) -> BTreeMap<String, u64> {
        let sockets = self.hosts[0].sockets.values();
        sockets.fold(BTreeMap::new(), |mut sum, socket| {
            *sum.entry(socket.interface.clone()).or_default() += socket.bytes;
            sum
        })
    }

    /// Changes one of a client's access networks and notifies the client's host.
    pub(crate) fn change(&mut self, client: usize, interface: &str, what: impl FnOnce(&mut Access)) {
        what(self.hosts[client].access.get_mut(interface).unwrap());
        self.hosts[client].tell(self.now, HostEvent::Changed);
    }
}

/// Returns the default world, with its paths up.
pub(crate) fn up() -> World {
    up_with([ClientFile::new(), ClientFile::new()], "")
}

/// Returns a world with its paths up. `server` is added to the servers' files.
pub(crate) fn up_with(files: [ClientFile; CLIENTS], server: &str) -> World {
    let mut world = World::new(files, &server_text([true; CLIENTS], server));
    world.run(SOON);
    world
}

/// Sends packets in both directions for a while.
pub(crate) fn talk(world: &mut World, time: Duration, len: usize) {
    for _ in 0..time.as_millis() / 20 {
        for (from, to) in [(0, SERVER), (SERVER, 0)] {
            world.send(from, inner(to), len);
        }
        world.run(Duration::from_millis(20));
    }
}

/// Returns whether a path can carry data.
pub(crate) fn is_up(path: &PathReport) -> bool {
    matches!(&*path.state, "up" | "standby")
}

//! A simulated host that executes and records the actions of its tunnel.

use dccp_secure::{PrivateKey, PublicKey};
use ipnet::IpNet;
use mpdccp_proto::Endpoint;
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{
    Action, Answer, Hook, HostEvent, Interface, Keys, Level, Looked, OpenPath, Outcome, Packet, Saved, Setup,
    ShardMessage, Sizes, StateFile, Tunnel,
};
use mpdccp_units::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Size of the headers around each DCCP packet: IPv4, UDP, encryption.
pub(crate) const OVERHEAD: u16 = 60;
/// A host name with an IPv6 and an IPv4 address. All other names have an IPv4 address.
pub(crate) const BOTH_VERSIONS: &str = "both.test";
/// Start of the simulation in seconds since 1970: 2026-01-15.
pub(crate) const UNIX: u64 = 1_768_435_200;

/// A socket of a client, and its channel.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    pub(crate) interface: String,
    pub(crate) remote: SocketAddr,
    /// Time of the channel's handshake.
    pub(crate) handshake: Duration,
    pub(crate) bytes: u64,
    pub(crate) up: bool,
    /// Whether the handshake of the channel has been sent.
    pub(crate) begun: bool,
}

/// An access network of a client.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) ip: IpAddr,
    pub(crate) up: bool,
    pub(crate) mtu: u16,
    /// Whether the network drops all packets that the client sends.
    pub(crate) mute: bool,
    /// Additional delay of the access network in each direction.
    pub(crate) delay: Duration,
}

/// A host and its tunnel.
pub(crate) struct Host {
    pub(crate) key: PrivateKey,
    pub(crate) text: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) tunnel: Tunnel,
    /// Admitted peers, by key.
    pub(crate) peers: BTreeMap<PublicKey, u32>,
    pub(crate) sockets: BTreeMap<u32, Socket>,
    pub(crate) access: BTreeMap<String, Access>,
    /// On a server: the peer and the two addresses of each channel, by socket, and the newest handshake of
    /// each key.
    pub(crate) channels: BTreeMap<u32, (u32, SocketAddr, SocketAddr)>,
    pub(crate) newest: BTreeMap<PublicKey, Duration>,
    /// Address on which a server listens.
    pub(crate) listen: Option<IpAddr>,
    pub(crate) saved: Saved,
    pub(crate) routes: BTreeSet<IpNet>,
    pub(crate) addresses: BTreeSet<IpNet>,
    /// All addresses that the interface has ever had.
    pub(crate) had: BTreeSet<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) replies: BTreeMap<u64, Answer>,
    pub(crate) commands: u64,
    pub(crate) stopped: bool,
    pub(crate) log: Vec<String>,
    /// The warnings in the log.
    pub(crate) warned: Vec<String>,
    /// Inner packets that the interface delivered.
    pub(crate) received: Vec<Vec<u8>>,
    /// Commands to the proxy's sockets, and packets for the proxy's namespace.
    pub(crate) told: Vec<mpdccp_proxy::Command>,
    pub(crate) diverted: Vec<Vec<u8>>,
    /// Clock offset in seconds. With offset 0, the clock shows [`UNIX`] plus the virtual time.
    pub(crate) clock: i64,
    /// Calls of the hook program and the name server lists that were set, each in order.
    pub(crate) hooks: Vec<Hook>,
    pub(crate) dns_set: Vec<Vec<IpAddr>>,
    /// Last byte of the address to which every name resolves.
    pub(crate) dns: u8,
    /// The address that a server assigned last.
    pub(crate) given: Option<Ipv4Addr>,
    /// Messages to other shards, and packets for peers of other shards.
    pub(crate) to_shards: Vec<(u8, ShardMessage)>,
    pub(crate) handed_over: Vec<(u8, Vec<u8>)>,
    /// The advertised addresses that each TLS socket was told.
    pub(crate) advertised: BTreeMap<u32, Vec<IpAddr>>,
    /// All paths that were ever opened.
    pub(crate) opened: Vec<OpenPath>,
    /// If true, sockets open only when [`hurry`](Self::hurry) is called. Until then, the paths wait in
    /// `slowly`.
    pub(crate) slow: bool,
    slowly: Vec<OpenPath>,
    /// Whether paths use TLS.
    pub(crate) over_tls: bool,
    /// Sockets whose path was suspect at some time.
    pub(crate) suspected: BTreeSet<u32>,
    /// How often the leases were saved.
    pub(crate) leases_saved: u32,
    /// How often the tunnel asked about a destination.
    pub(crate) looks: u32,
    /// How often the channels to a peer had to start over.
    pub(crate) started_over: u32,
    handshakes: Duration,
    began: Time,
    seed: u8,
    shard: u8,
}

fn parse(text: &str) -> Config {
    Config::parse(Path::new("test.toml"), text, 1).unwrap()
}

fn keys(cfg: &Config, own: &PrivateKey) -> Keys {
    let peers = cfg.peers.iter().map(|p| Some((p.get_ref().public_key.unwrap().0, Default::default())));
    Keys { own: Some(own.clone()), peers: peers.collect() }
}

impl Host {
    /// Creates a client, or one shard of a server.
    pub(crate) fn new(
        now: Time,
        seed: u8,
        key: PrivateKey,
        text: &str,
        server: Option<(IpAddr, u8)>,
    ) -> Host {
        let mut endpoint = Endpoint::new([seed; 32]);
        let shard = server.map_or(0, |(_, shard)| shard);
        let times = (now, UNIX + now.as_nanos() / 1_000_000_000);
        let tunnel = make(&mut endpoint, times, (seed, shard), &key, text, Saved::new());
        Host {
            key,
            text: text.into(),
            endpoint,
            tunnel,
            peers: BTreeMap::new(),
            sockets: BTreeMap::new(),
            access: BTreeMap::new(),
            channels: BTreeMap::new(),
            newest: BTreeMap::new(),
            listen: server.map(|(ip, _)| ip),
            saved: Saved::new(),
            routes: BTreeSet::new(),
            addresses: BTreeSet::new(),
            had: BTreeSet::new(),
            mtu: 0,
            replies: BTreeMap::new(),
            commands: 0,
            stopped: false,
            hooks: Vec::new(),
            dns_set: Vec::new(),
            log: Vec::new(),
            warned: Vec::new(),
            received: Vec::new(),
            told: Vec::new(),
            diverted: Vec::new(),
            clock: 0,
            dns: 1,
            given: None,
            to_shards: Vec::new(),
            handed_over: Vec::new(),
            advertised: BTreeMap::new(),
            opened: Vec::new(),
            slow: false,
            slowly: Vec::new(),
            over_tls: false,
            suspected: BTreeSet::new(),
            leases_saved: 0,
            looks: 0,
            started_over: 0,
            handshakes: Duration::ZERO,
            began: now,
            seed,
            shard,
        }
    }

    /// Returns the seconds since 1970 by the host's clock.
    pub(crate) fn unix(&self, now: Time) -> u64 {
        (UNIX + now.as_nanos() / 1_000_000_000).saturating_add_signed(self.clock)
    }

    /// Returns the timestamp of a handshake that starts now.
    pub(crate) fn handshake_at(&self, now: Time) -> Duration {
        self.handshakes + now.since(self.began)
    }

    /// Restarts the host with its saved files. As after a crash, nothing else survives.
    pub(crate) fn restart(&mut self, now: Time) {
        self.seed = self.seed.wrapping_add(10);
        self.endpoint = Endpoint::new([self.seed; 32]);
        let saved = self.saved.clone();
        let times = (now, self.unix(now));
        self.tunnel = make(&mut self.endpoint, times, (self.seed, self.shard), &self.key, &self.text, saved);
        self.sockets.clear();
        self.channels.clear();
        self.newest.clear();
        self.routes.clear();
        self.addresses.clear();
        self.stopped = false;
        self.begin(now);
    }

    /// Starts the program.
    pub(crate) fn begin(&mut self, now: Time) {
        let cfg = self.tunnel.config().clone();
        let wall = Duration::from_secs(self.unix(now));
        (self.handshakes, self.began) = (self.tunnel.handshake_time(wall), now);
        self.peers = (0u32..).zip(&cfg.peers).map(|(n, p)| (p.get_ref().public_key.unwrap().0, n)).collect();
        self.act(now);
        if self.listen.is_some() {
            self.tunnel.listen(&mut self.endpoint, 1500, OVERHEAD);
        }
        let carried = self.tunnel.carried().unwrap_or(mpdccp_tunnel::inner_mtu(1500, OVERHEAD));
        self.mtu = mpdccp_tunnel::interface_mtu(&cfg, carried).unwrap();
        self.addresses = cfg.addresses.iter().copied().collect();
        if cfg.wants_streams() {
            self.tunnel.set_proxy(&mut self.endpoint, Ok(usize::MAX));
        }
        self.tunnel.start(&mut self.endpoint, now, self.mtu);
        self.act(now);
    }

    /// Sends the tunnel a command. Returns the number of the expected answer.
    pub(crate) fn command(&mut self, now: Time, command: mpdccp_tunnel::Command) -> u64 {
        self.commands += 1;
        self.tunnel.handle_command(&mut self.endpoint, now, self.commands, command);
        self.act(now);
        self.commands
    }

    /// Reloads the configuration from another text.
    pub(crate) fn reload(&mut self, now: Time, text: &str) -> u64 {
        let cfg = parse(text);
        self.tunnel.config().check_change(&cfg).unwrap();
        let keys = keys(&cfg, &self.key);
        self.text = text.into();
        self.command(now, mpdccp_tunnel::Command::Reload(Box::new(cfg), keys))
    }

    pub(crate) fn tell(&mut self, now: Time, event: HostEvent) {
        self.answer(now, event);
        self.act(now);
    }

    /// Passes a packet to the tunnel and carries out the outcome.
    pub(crate) fn packet(&mut self, now: Time, packet: Packet) {
        match self.tunnel.handle_packet(&mut self.endpoint, now, packet) {
            Outcome::Done => {}
            Outcome::Write(packet) => self.received.push(packet),
            Outcome::Proxy(packet) => self.diverted.push(packet),
            Outcome::HandOver(shard, packet) => self.handed_over.push((shard, packet)),
        }
        self.act(now);
    }

    /// Passes an event of the proxy's sockets to the tunnel.
    pub(crate) fn sockets(&mut self, now: Time, event: mpdccp_proxy::Event) {
        self.tunnel.handle_sockets(&mut self.endpoint, now, vec![event]);
        self.act(now);
    }

    /// Executes the tunnel's actions.
    pub(crate) fn act(&mut self, now: Time) {
        while let Some(action) = self.tunnel.poll_action() {
            match action {
                Action::OpenPath(path) if self.slow => self.slowly.push(path),
                Action::OpenPath(path) => {
                    let opened = self.open(now, path);
                    self.answer(now, opened);
                }
                Action::CloseSocket(socket) => {
                    assert!(self.sockets.remove(&socket).is_some(), "closed twice, or never opened");
                }
                Action::Look { socket, remote, own } => {
                    self.looks += 1;
                    let looked = self.look(now, socket, remote, own);
                    self.answer(now, looked);
                }
                Action::Suspect(socket) => _ = self.suspected.insert(socket),
                Action::TellServer { socket, advertised, .. } => {
                    self.advertised.insert(socket, advertised);
                }
                Action::ListInterfaces => {
                    let up = self.access.iter().filter(|(_, access)| access.up);
                    let list = up.map(|(name, _)| Interface { name: name.clone(), v4: true, v6: false });
                    let list = HostEvent::Interfaces(list.collect());
                    self.answer(now, list);
                }
                Action::AddRoute { net, replace } => {
                    assert!(self.routes.insert(net) || replace, "{net} is routed already");
                }
                Action::DeleteRoute(net) => assert!(self.routes.remove(&net), "{net} is not routed"),
                Action::SetAddresses { remove, add } => {
                    let v6 = add.iter().any(|net| net.addr().is_ipv6());
                    assert!(!v6 || self.mtu >= 1280, "Linux refuses an IPv6 address at this MTU");
                    assert!(remove.iter().all(|net| self.addresses.remove(net)));
                    assert!(add.iter().all(|net| self.addresses.insert(*net)));
                    self.had.extend(add.iter().map(IpNet::addr));
                    let v4 = |net: &IpNet| match net.addr() {
                        IpAddr::V4(ip) => Some(ip),
                        IpAddr::V6(_) => None,
                    };
                    self.given = add.iter().find_map(v4).or(self.given);
                    self.answer(now, HostEvent::AddressesSet(Ok(())));
                }
                Action::SetMtu(mtu) => {
                    self.mtu = mtu;
                    self.answer(now, HostEvent::MtuSet(mtu, Ok(())));
                }
                Action::Save(file, text) => {
                    self.leases_saved += u32::from(file == StateFile::Leases);
                    self.saved.insert(file, text);
                }
                Action::SaveLine(file, line, text) => {
                    mpdccp_tunnel::put_line(self.saved.entry(file).or_default(), line, &text);
                }
                Action::AddPeer { peer, key, .. } => {
                    assert!(self.peers.insert(key, peer).is_none(), "a key of two peers");
                }
                Action::RemovePeer(peer) => {
                    self.peers.retain(|_, number| *number != peer);
                    self.channels.retain(|_, (number, ..)| *number != peer);
                }
                Action::Reply(id, answer) => {
                    assert!(self.replies.insert(id, answer).is_none(), "answered twice");
                }
                Action::Log(level, message) => {
                    if level == Level::Warn {
                        self.warned.push(message.clone());
                    }
                    self.log.push(message);
                }
                Action::Tcp(command) => self.told.push(command),
                Action::WriteInner(packet) => self.received.push(packet),
                Action::RunHook(hook) => self.hooks.push(hook),
                Action::SetDns(servers) => self.dns_set.push(servers),
                Action::Stop => self.stopped = true,
                Action::Resolve(name) => self.answer(now, self.resolve(name)),
                Action::ToShard(shard, message) => self.to_shards.push((shard, message)),
                Action::SetPrivateKey(_) => panic!("these tests do not change keys"),
                Action::StartOver(_) => self.started_over += 1,
                Action::AssignQueues(_)
                | Action::AssignQueue(..)
                | Action::SetMarking(_)
                | Action::LeaveServer(_)
                | Action::Alive => {}
            }
        }
    }

    /// Passes the outcome of an action to the tunnel.
    fn answer(&mut self, now: Time, event: HostEvent) {
        self.tunnel.handle_host(&mut self.endpoint, now, event);
    }

    fn resolve(&self, name: String) -> HostEvent {
        let v4 = Ipv4Addr::new(198, 51, 100, self.dns).into();
        let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
        let answer = if name == BOTH_VERSIONS { vec![v6, v4] } else { vec![v4] };
        HostEvent::Resolved { name, answer: Ok(answer) }
    }

    /// Opens the sockets that [`slow`](Self::slow) delayed.
    pub(crate) fn hurry(&mut self, now: Time) {
        self.slow = false;
        for path in std::mem::take(&mut self.slowly) {
            let opened = self.open(now, path);
            self.tell(now, opened);
        }
    }

    fn open(&mut self, now: Time, path: OpenPath) -> HostEvent {
        // The routes of the host lead to the first access network.
        let interface = path.interface.clone().unwrap_or_else(|| "p0".into());
        let Some(access) = self.access.get(&interface) else {
            let why = format!("no interface {interface}");
            return HostEvent::PathFailed { request: path.request, absent: true, why };
        };
        let up = access.up;
        self.opened.push(path.clone());
        // A socket's number identifies a channel, so it must be unique across all hosts and restarts.
        let socket = u32::from(self.seed) << 16 | path.request as u32;
        let handshake = self.handshake_at(now);
        let known = Socket { interface, remote: path.remote, handshake, bytes: 0, up, begun: false };
        self.sockets.insert(socket, known);
        let sizes = Sizes { path: Some(1500), device: Some(1500) };
        HostEvent::PathOpened { request: path.request, socket, sizes, overhead: OVERHEAD }
    }

    fn look(&mut self, now: Time, socket: u32, remote: SocketAddr, own: bool) -> HostEvent {
        let handshake = self.sockets.values().map(|s| s.handshake).max();
        let (mut carried, mut source, unix) = (0, None, self.unix(now));
        if let Some(known) = self.sockets.get_mut(&socket) {
            (carried, source) = (known.bytes, Some(self.access[&known.interface].ip));
            let up = self.access[&known.interface].up;
            if own && std::mem::replace(&mut known.up, up) != up {
                for (session, path) in self.endpoint.paths_over(socket, remote) {
                    self.endpoint.set_link(now, session, path, up);
                }
            }
        }
        let sizes = Sizes { path: Some(1500), device: Some(1500) };
        let (over_tls, error, heard) = (self.over_tls, None, true);
        let looked =
            Looked { over_tls, socket, remote, sizes, error, source, carried, heard, handshake, unix };
        HostEvent::Looked(looked)
    }
}

fn make(
    endpoint: &mut Endpoint,
    (now, unix): (Time, u64),
    (seed, shard): (u8, u8),
    key: &PrivateKey,
    text: &str,
    saved: Saved,
) -> Tunnel {
    let cfg = parse(text);
    let wall = Duration::from_secs(unix);
    let setup = Setup { keys: keys(&cfg, key), cfg, saved, wall, shard, seed: [seed; 32], alive: None };
    Tunnel::new(endpoint, now, setup)
}

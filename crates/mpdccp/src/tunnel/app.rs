//! Runs the tunnel on the data thread: passes packets and events to the tunnel, and executes its actions.

use crate::error::Error;
use crate::tunnel::face::events;
use crate::tunnel::face::trace::Trace;
use crate::tunnel::host::helper::{Helper, Request};
use crate::tunnel::host::resolver::Resolver;
use crate::tunnel::host::routes::RouteChange;
use crate::tunnel::host::service::notify;
use crate::tunnel::host::state_files::StateFiles;
use crate::tunnel::host::tun::Interface;
use crate::tunnel::host::{keys, marking_adapter, sockets, tun};
use crate::tunnel::links::Links;
use crate::tunnel::proxy::{self, Proxy};
use dccp_net::{App, Bursts, Capture, ChannelEvent, Core, HostWatch, LinkChange, Tun, Written};
use dccp_secure::Channels;
use mpdccp_proto::{SessionEvent, SessionId};
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::status::Status;
use mpdccp_tunnel::{
    Action, Answer, Command, DropReason, HostEvent, Marker, Outcome, Packet, Setup, ShardMessage, Tunnel,
};
use mpdccp_units::{Duration, Time};
use nix::net::if_::if_nametoindex;
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of packets read from the interface per turn.
const BUDGET: usize = 64;
/// Interval between calls of [`keys::set_facts`].
const FACTS_EVERY: Duration = Duration::from_secs(1);
/// Index of [`HostWatch`] among the descriptors.
const HOST: u32 = 0;
/// Index of [`Proxy`] among the descriptors, if there is one. The interface has the index after it.
const PROXY: u32 = 1;

pub(crate) struct TunnelApp {
    pub(crate) tunnel: Tunnel,
    helper: Helper,
    watch: HostWatch,
    /// Proxy for TCP connections. It must be dropped before the interface, so that it can still reset
    /// connections.
    proxy: Option<Proxy>,
    tun: Bursts,
    mtu: u16,
    pub(crate) names: Resolver,
    files: StateFiles,
    pub(crate) links: Links,
    trace: Option<Trace>,
    /// The callers waiting for answers to commands, by command number.
    replies: BTreeMap<u64, Sender<Answer>>,
    commands: u64,
    /// When to update the facts about this host (see [`FACTS_EVERY`]).
    facts_at: Time,
    /// Whether the tunnel is still starting. Until it has started, failures are fatal.
    starting: bool,
    /// The error that prevented the start.
    error: Option<Error>,
}

impl TunnelApp {
    /// Opens sockets, creates the interface and its routes, and starts to connect. `interface` is a handle of
    /// the interface; for the first shard, which creates the interface, it is `None`.
    pub(crate) fn new(
        core: &mut Core,
        cfg: Config,
        trace: Option<Trace>,
        shard: u8,
        interface: Option<Interface>,
        helper: Helper,
    ) -> Result<TunnelApp, Error> {
        let now = core.clock.now();
        let mut files = StateFiles::new(&cfg, shard);
        let mut patience = u64::MAX;
        // Each shard reports once per interval. It takes at most two intervals until all shards have
        // reported, so two intervals must be shorter than the watchdog's time limit.
        let alive =
            sd_notify::watchdog_enabled(false, &mut patience).then(|| Duration::from_micros(patience / 4));
        let setup = Setup {
            keys: keys::read(&cfg)?,
            saved: files.load(),
            wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            shard,
            seed: dccp_net::random_seed()?,
            alive,
            cfg: cfg.clone(),
        };
        core.net.marking = marking_adapter::of(Marker::new(&cfg));
        let keys = setup.keys.clone();
        let mut tunnel = Tunnel::new(&mut core.endpoint, now, setup);
        keys::secure(core, &cfg, keys, shard, &mut tunnel)?;
        let mut names = Resolver::new();
        let carried = if cfg.is_client() {
            while let Some(action) = tunnel.poll_action() {
                sockets::open_first(core, &cfg, &mut tunnel, &mut names, action);
            }
            if let Some(why) = tunnel.failure() {
                return Err(Error::usage(why));
            }
            tunnel.carried().unwrap_or_else(|| mpdccp_tunnel::guessed_mtu(keys::overhead(&cfg)))
        } else {
            let (mtu, overhead, carried) = sockets::listen(core, &cfg, shard)?;
            tunnel.listen(&mut core.endpoint, mtu, overhead);
            carried
        };
        let Interface { tun, mtu } = interface.map_or_else(|| tun::create(&cfg, carried), Ok)?;
        let proxy = cfg.wants_streams().then(|| Proxy::start(&tun, mtu, &cfg)).map(|started| {
            let able = started.as_ref().map(|_| proxy::room(cfg.shards.0)).map_err(Clone::clone);
            tunnel.set_proxy(&mut core.endpoint, able);
            started.ok()
        });
        if let Some(Some(_)) = proxy {
            files.open_lines();
        }
        if shard == 0 && cfg.default_route {
            helper.tell(&Request::DefaultRoute).map_err(Error::usage)?;
        }
        let tun = Bursts::new(tun, mtu);
        tunnel.start(&mut core.endpoint, now, mtu);
        let mut app = TunnelApp {
            tunnel,
            helper,
            watch: HostWatch::new()?,
            proxy: proxy.flatten(),
            tun,
            mtu,
            names,
            files,
            links: Links::new(shard, cfg.shards.0),
            trace,
            replies: BTreeMap::new(),
            commands: 0,
            facts_at: Time::ZERO,
            starting: true,
            error: None,
        };
        app.execute(core, now);
        app.starting = false;
        match app.error.take() {
            Some(error) => Err(error),
            None => Ok(app),
        }
    }

    /// Returns a handle of the interface for the next shard.
    pub(crate) fn interface(&self) -> std::io::Result<Interface> {
        Ok(Interface { tun: self.tun.tun().queue()?, mtu: self.mtu })
    }

    /// Executes the tunnel's actions, and writes the collected packets to the interface. Every handler of an
    /// event ends with this call.
    fn execute(&mut self, core: &mut Core, now: Time) {
        while let Some(action) = self.tunnel.poll_action() {
            if let Some(answer) = self.act(core, now, action) {
                self.tunnel.handle_host(&mut core.endpoint, now, answer);
            }
        }
        if let Some(proxy) = &mut self.proxy {
            proxy.send();
        }
        let written = self.tun.flush(|block| core.endpoint.put_block(block));
        self.count(&written);
    }

    fn act(&mut self, core: &mut Core, now: Time, action: Action) -> Option<HostEvent> {
        let cfg = self.tunnel.config();
        match action {
            Action::OpenPath(path) => return Some(sockets::open_path(core, cfg, &path)),
            Action::CloseSocket(socket) => core.net.remove(socket),
            Action::Look { socket, remote, own } => {
                return Some(sockets::look(core, now, socket, remote, own));
            }
            Action::Suspect(socket) => core.net.suspect(now, core.net.under(socket)),
            Action::TellServer { socket, advertised, up } => {
                core.net.tell_advertised(now, core.net.under(socket), &advertised, up);
            }
            Action::ListInterfaces => return Some(HostEvent::Interfaces(sockets::interfaces())),
            Action::Resolve(name) => self.names.ask(name),
            Action::AddRoute { net, replace } => {
                let change = if replace { RouteChange::Replace } else { RouteChange::Add };
                if let Err(e) = self.helper.tell(&Request::Route(change, net)) {
                    let e = format!("{e}; to add the routes yourself, set routes = false");
                    match self.starting {
                        true => self.error = self.error.take().or(Some(Error::usage(e))),
                        false => tracing::warn!("{e}"),
                    }
                }
            }
            Action::DeleteRoute(net) => {
                if let Err(e) = self.helper.tell(&Request::Route(RouteChange::Del, net)) {
                    // Do not warn: the kernel may already have deleted the route together with an address.
                    tracing::debug!("{e}");
                }
            }
            Action::SetAddresses { remove, add } => {
                let done = self.helper.tell(&Request::Addresses { remove, add });
                return Some(HostEvent::AddressesSet(done));
            }
            Action::SetMtu(mtu) => {
                return Some(HostEvent::MtuSet(mtu, self.helper.tell(&Request::Mtu(mtu))));
            }
            Action::AssignQueues(nets) => {
                let queues = nets.iter().map(|(net, shard)| (net.network(), net.prefix_len(), *shard));
                tun::log_queue_selection(cfg, self.tun.tun().assign_queues(queues));
            }
            Action::AssignQueue(ip, shard) => {
                let length = if ip.is_ipv4() { 32 } else { 128 };
                tun::log_queue_selection(cfg, self.tun.tun().assign_queue(ip, length, shard));
            }
            Action::Save(file, text) => self.have(&Request::Save(file, text)),
            Action::SaveLine(_, line, text) => self.files.save_line(line, &text),
            Action::SetMarking(marker) => core.net.marking = marking_adapter::of(marker),
            Action::AddPeer { peer, key, preshared } => {
                in_channels(core, |channels| channels.add_peer(peer, key, preshared));
            }
            Action::RemovePeer(peer) => {
                // The packets that tell the peer of the end of its session need the channels.
                core.transmit(now);
                in_channels(core, |channels| channels.remove_peer(peer));
            }
            Action::SetPrivateKey(key) => in_channels(core, |channels| channels.set_private_key(key)),
            Action::StartOver(peer) => in_channels(core, |channels| channels.start_over(peer)),
            Action::LeaveServer(peer) => in_channels(core, |channels| channels.leave_server(peer)),
            Action::ToShard(shard, message) => self.links.tell(shard, message),
            Action::SetDns(servers) => self.have(&Request::Dns(servers)),
            Action::RunHook(hook) => self.have(&Request::Hook(hook)),
            Action::Tcp(command) => {
                if let Some(proxy) = &mut self.proxy {
                    proxy.put(command);
                }
            }
            Action::WriteInner(packet) => self.write(core, packet),
            Action::Reply(id, answer) => {
                if let Some(caller) = self.replies.remove(&id) {
                    // Ignore the error: the caller may have stopped waiting for the answer.
                    let _ = caller.send(answer);
                }
            }
            Action::Log(level, message) => events::write(level, &message),
            Action::Alive => notify(&NotifyState::Watchdog),
            Action::Stop => core.stop(),
        }
        None
    }

    /// Sends a request to the helper process. An error is logged only as a debug message.
    fn have(&self, request: &Request) {
        if let Err(e) = self.helper.tell(request) {
            tracing::debug!("{e}");
        }
    }

    /// Returns the status of the tunnel and its sockets, with all peers or only one.
    pub(crate) fn status(&self, core: &Core, only: Option<&str>) -> Status {
        let mut status = self.tunnel.status(&core.endpoint, core.clock.now(), only);
        status.program = env!("CARGO_PKG_VERSION").into();
        status.sockets = sockets::status(core);
        for path in status.peers.iter_mut().flat_map(|peer| &mut peer.paths) {
            let socket = path.socket.and_then(|socket| core.net.socket(core.net.under(socket)));
            path.encapsulation = socket.map_or("", |socket| socket.name()).into();
            path.over_tls = path.encapsulation == "tls";
        }
        let drops = core.net.channels().map(|channels| channels.drops());
        status.channels = drops.into_iter().flatten().map(|(why, n)| (why.name().into(), *n)).collect();
        for shard in &mut status.shards {
            (shard.handed_over, shard.dropped) = core.net.handed_over();
            shard.tun_handed_over = self.links.handed_over;
        }
        status
    }

    /// Passes a command to the tunnel. `caller` receives the answer.
    pub(crate) fn command(&mut self, core: &mut Core, command: Command, caller: Sender<Answer>) {
        let now = core.clock.now();
        self.commands += 1;
        self.replies.insert(self.commands, caller);
        self.tunnel.handle_command(&mut core.endpoint, now, self.commands, command);
        self.execute(core, now);
    }

    /// Handles an event of this host.
    pub(crate) fn on_host(&mut self, core: &mut Core, now: Time, event: HostEvent) {
        self.tunnel.handle_host(&mut core.endpoint, now, event);
        self.execute(core, now);
    }

    /// Handles a message from another shard.
    pub(crate) fn on_shard(&mut self, core: &mut Core, message: ShardMessage) {
        let now = core.clock.now();
        self.tunnel.handle_shard(&mut core.endpoint, now, message);
        self.execute(core, now);
    }

    /// Handles packets that another shard has read from the interface.
    pub(crate) fn on_packets(&mut self, core: &mut Core, packets: Vec<Vec<u8>>) {
        let now = core.clock.now();
        for packet in packets {
            self.packet(core, now, Packet::HandedOver(packet));
        }
        self.execute(core, now);
    }

    fn packet(&mut self, core: &mut Core, now: Time, packet: Packet) {
        match self.tunnel.handle_packet(&mut core.endpoint, now, packet) {
            Outcome::Done => {}
            Outcome::Write(packet) => self.write(core, packet),
            Outcome::Proxy(packet) => {
                if let Some(proxy) = &self.proxy {
                    proxy.write(&packet);
                }
                core.endpoint.put_block(packet);
            }
            Outcome::HandOver(shard, packet) => self.links.put(shard, packet),
        }
    }

    /// Adds a packet to the burst to be written to the interface.
    fn write(&mut self, core: &mut Core, packet: Vec<u8>) {
        if let Some(written) = self.tun.write(packet, |block| core.endpoint.put_block(block)) {
            self.count(&written);
        }
    }

    fn count(&mut self, written: &Written) {
        self.tunnel.count_written(written.packets, written.bytes);
        if let Some(e) = &written.error {
            let down = Tun::is_down(e);
            let why = if down { DropReason::InterfaceDown } else { DropReason::RefusedByKernel };
            self.tunnel.count_drops(why, written.refused);
        }
    }

    /// Returns whether this shard reads packets from the interface. If the interface has a single queue, only
    /// the first shard reads, so that each flow's packets stay in order.
    fn reads(&self) -> bool {
        self.links.is_first() || self.tun.tun().has_queues()
    }

    /// Reads up to [`BUDGET`] packets from the interface.
    fn read(&mut self, core: &mut Core, now: Time) {
        let mut read = 0;
        while read < BUDGET {
            let (tunnel, proxy) = (&mut self.tunnel, &self.proxy);
            let whole = |whole: &[u8]| {
                proxy.as_ref().is_some_and(|proxy| proxy.takes(tunnel, &mut core.endpoint, now, whole))
            };
            match self.tun.read_unless(whole) {
                Ok(None) => break,
                Ok(Some(0)) => read += 1,
                Ok(Some(packets)) => {
                    for i in 0..packets {
                        let packet = self.tun.take(i, || core.endpoint.take_block());
                        self.packet(core, now, Packet::Interface(packet));
                    }
                    read += packets;
                }
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    self.tunnel.count_drops(DropReason::NotCut, 1);
                    read += 1;
                }
                Err(e) => {
                    // The interface was deleted, so no more packets can arrive from it.
                    let why = format!("interface {} is gone: {e}", self.tunnel.config().interface);
                    self.on_host(core, now, HostEvent::Failed(why));
                    break;
                }
            }
        }
        let dropped = self.links.hand_over();
        self.tunnel.count_drops(DropReason::OtherShardFull, dropped);
        self.execute(core, now);
    }
}

/// Changes the encrypted channels, if there are any.
fn in_channels(core: &mut Core, change: impl FnOnce(&mut Channels)) {
    if let Some(channels) = core.net.channels_mut() {
        change(channels);
    }
}

impl App for TunnelApp {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let tun = self.reads().then(|| self.tun.as_fd());
        let proxy = self.proxy.as_ref().map(|proxy| proxy.as_fd());
        std::iter::once(self.watch.as_fd()).chain(proxy).chain(tun).collect()
    }

    fn on_readable(&mut self, core: &mut Core, now: Time, index: u32) {
        if index == HOST {
            let on = self.watch.drain();
            let own = if_nametoindex(self.tunnel.config().interface.as_str());
            if own.is_ok_and(|own| on.contains(&own)) {
                self.on_host(core, now, HostEvent::SwitchedOn);
            }
            core.net.capture.iter_mut().for_each(Capture::forget_sources);
            return self.on_host(core, now, HostEvent::Changed);
        }
        if let (PROXY, Some(proxy)) = (index, &self.proxy) {
            let (events, failure) = proxy.events();
            self.tunnel.handle_sockets(&mut core.endpoint, now, events);
            self.execute(core, now);
            if let Some(why) = failure {
                self.on_host(core, now, HostEvent::Failed(format!("the TCP proxy failed: {why}")));
            }
            return;
        }
        self.read(core, now);
    }

    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        self.packet(core, now, Packet::Session(session, data));
    }

    fn on_delivered(&mut self, core: &mut Core, now: Time) {
        self.execute(core, now);
        // Programs on this host may already have answered the packets, so read from the interface.
        if self.reads() {
            self.read(core, now);
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        self.tunnel.handle_event(&mut core.endpoint, now, session, event);
        self.execute(core, now);
    }

    fn on_link(&mut self, core: &mut Core, change: &LinkChange) {
        let now = core.clock.now();
        let event = HostEvent::Link {
            socket: change.socket,
            peer: core.net.peer_of(change.socket),
            remote: change.remote,
            error: (!change.up).then(|| change.why.clone()),
        };
        self.on_host(core, now, event);
    }

    fn on_channel(&mut self, core: &mut Core, event: ChannelEvent) {
        let event = match event {
            ChannelEvent::Ready(socket) => HostEvent::Answered { socket },
            ChannelEvent::Moved(socket, remote) => {
                HostEvent::Moved { socket, peer: core.net.peer_of(socket), remote }
            }
        };
        self.on_host(core, core.clock.now(), event);
    }

    fn next_timeout(&self) -> Option<Time> {
        let trace = self.trace.as_ref().map(|t| t.next);
        [trace, self.tunnel.poll_timeout()].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        if self.facts_at <= now {
            self.facts_at = now + FACTS_EVERY;
            keys::set_facts(core, self.tunnel.config());
        }
        if self.tunnel.poll_timeout().is_some_and(|at| at <= now) {
            self.tunnel.handle_timeout(&mut core.endpoint, now);
            self.execute(core, now);
        }
        let Some(trace) = self.trace.as_mut().filter(|t| t.next <= now) else { return };
        trace.advance(now);
        for (session, peer) in self.tunnel.sessions() {
            let Some(status) = core.endpoint.status(now, session) else { continue };
            let rows = core.endpoint.rows(now, session);
            let name = |path: &_| self.tunnel.path_name(session, path);
            if let Err(e) = trace.sample(now, peer, &status, &rows, name) {
                tracing::error!("trace: {e}; the trace ends here");
                self.trace = None;
                return;
            }
        }
    }
}

//! Manages the client's own paths: opens each path once its interface, address and name are available, moves
//! it to another interface or address, and closes it.

use crate::Cx;
use crate::action::{Action, OpenPath as Request, TlsPath};
use crate::client::leaving;
use crate::client::names::Names;
use crate::config::{Encapsulation, PathSpec, Remote};
use crate::host::{Interface, Sizes};
use crate::packet::mtu;
use crate::path::{OpenPath, Opening, WaitingPath};
use crate::peer::Peer;
use crate::peers::Peers;
use crate::tls::Over;
use mpdccp_units::{Duration, Time};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Once a path has not worked for this long, its host name is looked up again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// The socket of a closed path stays open for this long to send its last packets.
const LINGER: Duration = Duration::from_secs(3);

/// The host names and interfaces that paths use, and the sockets that are due to be closed.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    names: Names,
    interfaces: Vec<Interface>,
    requests: u64,
    /// Closed paths whose sockets are still open: when to close the socket, the peer's name, and the path.
    retired: Vec<(Time, String, OpenPath)>,
}

impl Paths {
    /// Asks the host to open every waiting path whose interface and address are available.
    pub(crate) fn open(&mut self, cx: &mut Cx<'_>, peers: &mut Peers) {
        for number in peers.present() {
            for at in 0..peers[number].waiting.len() {
                let peer = &mut peers[number];
                let server = peer.server;
                peer.waiting[at].spec.remote.choose(server);
                if peer.waiting[at].opening.is_none() {
                    match self.opening(cx, peer, at) {
                        Ok(opening) => {
                            let path = &mut peer.waiting[at];
                            cx.out.push(Action::OpenPath(Request {
                                request: opening.request,
                                peer: number as u32,
                                local: path.spec.local,
                                interface: opening.interface.clone(),
                                remote: opening.remote,
                                tls: opening.tls.clone(),
                            }));
                            path.opening = Some(opening);
                        }
                        // While the lookup is in progress, the path has not failed, so nothing is logged.
                        Err(why) if self.is_asking(&peer.waiting[at]) => peer.waiting[at].why = why,
                        Err(why) => wait(cx, peer, at, why),
                    }
                }
            }
        }
    }

    fn is_asking(&self, path: &WaitingPath) -> bool {
        names(&path.spec).any(|name| self.names.is_pending(name))
    }

    /// Returns the request to open the socket of a waiting path. The error says what the path is still
    /// waiting for.
    fn opening(&mut self, cx: &mut Cx<'_>, peer: &Peer, at: usize) -> Result<Opening, String> {
        let WaitingPath { spec, failed, over_tls, .. } = &peer.waiting[at];
        let mut address = |cx: &mut Cx<'_>, of: &Remote, failed| match (of.ip(), of.name()) {
            (Some(ip), _) => Ok(ip),
            (None, name) => {
                let name = name.unwrap_or_default();
                let address = self.names.address(name, spec.local, failed);
                address.inspect_err(|_| self.names.ask(cx, name))
            }
        };
        let ip = address(cx, &spec.remote, *failed)?;
        let proxy = match &spec.proxy {
            None => None,
            Some(proxy) => {
                let at = SocketAddr::new(address(cx, &proxy.at, *failed)?, proxy.at.port.unwrap_or_default());
                Some((at, proxy.login.clone()))
            }
        };
        let (ip, interface) = match spec.pattern() {
            Some(pattern) => {
                let (ip, interface) =
                    self.fitting_either(pattern, (spec, ip, *failed), &peer.interfaces())?;
                (ip, Some(interface))
            }
            None => (ip, spec.interface.clone()),
        };
        let encapsulation = cx.cfg.encapsulation_of(spec);
        let begin = if *over_tls { Over::Tls } else { Over::Udp };
        let auto = (encapsulation == Encapsulation::Auto).then_some(begin);
        let tls =
            encapsulation.has_tls().then(|| TlsPath::of(cx.cfg, spec, proxy, auto, peer.advertised(cx)));
        let port = match (encapsulation, &tls) {
            (Encapsulation::Tls, Some(tls)) => tls.port,
            (Encapsulation::Raw, _) => 0,
            _ => spec.remote.port.unwrap_or(dccp_wire::DCCP_UDP_PORT),
        };
        self.requests += 1;
        Ok(Opening { request: self.requests, interface, remote: SocketAddr::new(ip, port), tls })
    }

    /// Returns the first usable interface that matches the pattern and that no other path of the peer uses.
    fn fitting(&self, pattern: &str, ip: IpAddr, taken: &[String]) -> Result<String, String> {
        let mut usable = self.usable(pattern, ip.is_ipv4());
        usable.find(|name| !taken.iter().any(|t| t == name)).map(str::to_owned).ok_or_else(|| {
            let version = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            format!(
                "this host has no interface `{pattern}*` with a link and an {version} address, or other paths use it; \
                 `ip address` shows the interfaces"
            )
        })
    }

    /// Returns the remote address of a path and an interface that matches its pattern. If no interface fits
    /// `ip`, tries an address of the remote's name with the other IP version.
    fn fitting_either(
        &self,
        pattern: &str,
        (spec, ip, failed): (&PathSpec, IpAddr, Option<IpAddr>),
        taken: &[String],
    ) -> Result<(IpAddr, String), String> {
        let why = match self.fitting(pattern, ip, taken) {
            Ok(interface) => return Ok((ip, interface)),
            Err(why) => why,
        };
        let other: IpAddr = match ip {
            IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.into(),
        };
        let name = spec.remote.name().filter(|_| spec.local.is_none());
        let ip = name.and_then(|name| self.names.address(name, Some(other), failed).ok());
        let found = ip.and_then(|ip| Some((ip, self.fitting(pattern, ip, taken).ok()?)));
        found.ok_or(why)
    }

    /// Returns the interfaces that match a pattern and have an address of the IP version.
    fn usable(&self, pattern: &str, v4: bool) -> impl Iterator<Item = &str> {
        let fits = move |i: &&Interface| i.name.starts_with(pattern) && if v4 { i.v4 } else { i.v6 };
        self.interfaces.iter().filter(fits).map(|i| i.name.as_str())
    }

    /// Handles the host's answer that it opened a socket.
    pub(crate) fn on_opened(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        request: u64,
        (socket, sizes, overhead): (u32, Sizes, u16),
    ) {
        let Some((number, path)) = take_waiting(peers, request) else {
            // The path was removed while the host was opening its socket.
            return cx.out.push(Action::CloseSocket(socket));
        };
        let Some(Opening { interface, remote, tls, .. }) = path.opening else { return };
        let peer = &mut peers[number];
        if !path.why.is_empty() {
            cx.out.info(format!("peer {}: path {} connects to {remote}", peer.name(), path.spec.name));
        }
        let mtu = mtu::first(sizes, path.spec.mtu);
        let open = OpenPath {
            spec: path.spec,
            interface,
            socket,
            remote,
            proxy: tls.as_ref().and_then(|tls| Some(tls.proxy.as_ref()?.0.ip())),
            source: None,
            mtu,
            overhead,
            bad_since: None,
            proved: false,
            charged: 0,
            exhausted: path.exhausted,
            over_tls: tls.as_ref().is_some_and(|tls| tls.auto != Some(Over::Udp)),
            knows: tls.map(|tls| (tls.advertised, false)),
        };
        if path.reply.is_some() {
            cx.out.info(format!("peer {}: path {} added", peer.name(), open.spec.name));
        }
        peer.add_path(cx, open);
        if let Some(id) = path.reply {
            cx.reply(id, Ok(()));
        }
    }

    /// Handles the host's answer that it could not open a socket. Returns the error if it is up to the user
    /// to fix the cause.
    pub(crate) fn on_failed(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        request: u64,
        absent: bool,
        why: String,
    ) -> Option<String> {
        let (number, mut path) = take_waiting(peers, request)?;
        path.opening = None;
        if let Some(id) = path.reply {
            // A command added this path: reply with the error, and drop the path.
            cx.reply(id, Err(format!("path `{}`: {why}", path.spec.name)));
            return None;
        }
        let peer = &mut peers[number];
        let error = format!("peer `{}`, path `{}`: {why}", peer.name(), path.spec.name);
        peer.waiting.push(path);
        wait(cx, peer, peer.waiting.len() - 1, why);
        (!absent).then_some(error)
    }

    /// Handles the list of current interfaces. If the interface of a path no longer works and the path chose
    /// it by a pattern, the path moves to another matching interface, if there is one.
    pub(crate) fn on_interfaces(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, interfaces: Vec<Interface>) {
        self.interfaces = interfaces;
        // Packets sent through the tunnel's own interface would return to the tunnel.
        self.interfaces.retain(|interface| interface.name != cx.cfg.interface);
        for number in peers.present() {
            let taken = peers[number].interfaces();
            let left = |path: &OpenPath| {
                let Some((pattern, own)) = path.spec.pattern().zip(path.interface.as_ref()) else {
                    return false;
                };
                let all = || self.usable(pattern, path.remote.is_ipv4());
                all().all(|name| name != own) && all().any(|name| !taken.iter().any(|t| t == name))
            };
            if let Some(at) = peers[number].paths.iter().position(left) {
                let path = self.close(cx, peers, (number, at), true);
                let again = WaitingPath::again(&path);
                let (peer, gone) = (&mut peers[number], path.interface.unwrap_or_default());
                cx.out.info(format!(
                    "peer {}: path {}: {gone} is no longer usable; the path moves to another interface",
                    peer.name(),
                    path.spec.name
                ));
                peer.waiting.push(again);
            }
        }
        self.open(cx, peers);
    }

    /// Returns whether any path chooses its interface by a pattern.
    pub(crate) fn has_patterns(peers: &Peers) -> bool {
        peers.iter().flat_map(Peer::specs).any(|spec| spec.pattern().is_some())
    }

    /// Looks up the host names of paths, and of their proxies, that have not worked for [`PATIENCE`].
    pub(crate) fn watch_names(&mut self, cx: &mut Cx<'_>, peers: &mut Peers) {
        for peer in peers.iter_mut() {
            let up = peer.up(cx);
            for path in &mut peer.paths {
                if names(&path.spec).next().is_none() {
                    continue;
                }
                if up.contains(&path.socket) {
                    path.bad_since = None;
                } else if cx.now.since(*path.bad_since.get_or_insert(cx.now)) >= PATIENCE {
                    names(&path.spec).for_each(|name| self.names.ask(cx, name));
                }
            }
        }
    }

    /// Handles the result of a lookup. Paths that are not working move to the name's next address.
    pub(crate) fn on_resolved(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        name: &str,
        answer: Result<Vec<IpAddr>, String>,
    ) {
        self.names.learn(name, answer);
        let now = cx.now;
        for number in peers.present() {
            // Returns the address that the path leaves.
            let leaves = |paths: &Paths, path: &OpenPath| {
                if path.bad_since.is_none_or(|at| now.since(at) < PATIENCE) {
                    return None;
                }
                let has_proxy = path.spec.proxy.as_ref().is_some_and(|proxy| proxy.at.name() == Some(name));
                let next = paths.names.address(name, path.spec.local, path.proxy).ok();
                if has_proxy && next.is_some() && next != path.proxy {
                    return path.proxy;
                }
                let there = Some(path.remote.ip());
                // A path keeps its IP version if no interface of its pattern has the other one.
                let other = |pattern: &&str| paths.usable(pattern, !path.remote.is_ipv4()).next().is_none();
                let only = path.spec.pattern().filter(other).and(there);
                let next = paths.names.address(name, path.spec.local.or(only), there).ok();
                there.filter(|_| path.spec.remote.name() == Some(name) && next.is_some() && next != there)
            };
            while let Some((at, failed)) =
                peers[number].paths.iter().enumerate().find_map(|(at, path)| Some((at, leaves(self, path)?)))
            {
                let path = self.close(cx, peers, (number, at), true);
                let why = format!("{failed} does not answer");
                let peer = &mut peers[number];
                cx.out.info(format!("peer {}: path {}: {why}", peer.name(), path.spec.name));
                let failed = Some(failed);
                peer.waiting.push(WaitingPath { why, failed, ..WaitingPath::again(&path) });
                if peer.paths.is_empty() {
                    // The name may now lead to another server, which ignores messages for the former one.
                    cx.out.push(Action::StartOver(number as u32));
                }
            }
        }
        self.open(cx, peers);
    }

    /// Closes a path and removes it. Closing the last path also closes the session. But if the path will open
    /// again elsewhere (`moves`), an open multipath session stays, so that no connection is lost.
    pub(crate) fn close(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        (number, at): (usize, usize),
        moves: bool,
    ) -> OpenPath {
        let id = peers[number].path_id(cx, &peers[number].paths[at].spec.name);
        let multipath = peers[number].status(cx).is_some_and(|status| status.multipath);
        let stays = moves && multipath && peers[number].opened.is_some();
        let path = peers[number].paths.remove(at);
        if peers[number].paths.is_empty() && !stays {
            peers.close_session(cx, number);
        } else if let (Some(session), Some(id)) = (peers[number].session, id) {
            cx.endpoint.remove_path(cx.now, session, id);
        }
        self.retire(cx, peers[number].name(), &path);
        path
    }

    /// Closes the socket of a removed path after its last packets have left.
    pub(crate) fn retire(&mut self, cx: &mut Cx<'_>, peer: &str, path: &OpenPath) {
        // Ask for the time of the last handshake over this socket, in order to store it: a server refuses
        // handshakes that are older than the last one. The answer also has the traffic that the quota does
        // not contain yet.
        cx.out.push(Action::Look { socket: path.socket, remote: path.remote, own: false });
        self.retired.push((cx.now + LINGER, peer.to_owned(), path.clone()));
    }

    /// Returns the closed path that has this socket, and the name of its peer.
    pub(crate) fn retired(&mut self, socket: u32) -> Option<(&str, &mut OpenPath)> {
        let mut all = self.retired.iter_mut().map(|(_, peer, path)| (peer.as_str(), path));
        all.find(|(_, path)| path.socket == socket)
    }

    /// Returns all closed paths whose sockets are still open.
    pub(crate) fn lingering(&self) -> impl Iterator<Item = &OpenPath> {
        self.retired.iter().map(|(.., path)| path)
    }

    /// Closes a path, whether it is open or waiting.
    pub(crate) fn remove(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, number: usize, name: &str) {
        peers[number].forget_waiting(cx, |spec| spec.name == name);
        if let Some(at) = peers[number].paths.iter().position(|p| p.spec.name == name) {
            self.close(cx, peers, (number, at), false);
        }
        let left = leaving::remove_path(cx, &mut peers[number], name);
        left.iter().for_each(|path| self.retire(cx, peers[number].name(), path));
    }

    /// Adds a path on command. Returns true if the caller can reply now, or false if the host must open the
    /// path first.
    pub(crate) fn add(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        id: u64,
        name: Option<&str>,
        mut spec: PathSpec,
    ) -> Result<bool, String> {
        let number = peers.meant(name)?;
        if !cx.cfg.is_client() {
            return Err("only the client can add paths".into());
        }
        cx.cfg.check_path(&spec)?;
        // As in the paths of the file, so that a reload can compare them.
        spec.encapsulation.get_or_insert(cx.cfg.encapsulation);
        spec.tls_port.get_or_insert(cx.cfg.tls_port);
        let (peer, most) = (&mut peers[number], cx.cfg.session().max_paths);
        if peer.has_path(&spec.name) {
            return Err(format!("peer `{}` already has a path `{}`", peer.name(), spec.name));
        }
        if peer.specs().count() >= most {
            return Err(format!("peer `{}` already has {most} paths, the maximum", peer.name()));
        }
        // If the remote is an address, the reply reports any error in opening the path. If the remote is a
        // name or the interface is a pattern, reply at once, because the path may have to wait.
        let pattern = spec.pattern().is_some();
        let at_once = spec.remote.ip().is_some() && !pattern;
        if !at_once {
            cx.out.info(format!("peer {}: path {} added", peer.name(), spec.name));
        }
        peer.waiting.push(WaitingPath { reply: at_once.then_some(id), ..WaitingPath::new(spec) });
        match pattern {
            true => cx.out.push(Action::ListInterfaces),
            false => self.open(cx, peers),
        }
        Ok(!at_once)
    }

    /// Closes a path by command.
    pub(crate) fn delete(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        peer: Option<&str>,
        name: &str,
    ) -> Result<(), String> {
        let number = peers.meant(peer)?;
        let peer = &peers[number];
        if !peer.has_path(name) {
            return Err(peer.no_such_path());
        }
        if peer.specs().count() == 1 {
            return Err(format!(
                "path `{name}` is the last path; to end the tunnel, use `mpdccp tunnel down`"
            ));
        }
        cx.out.info(format!("peer {}: path {name} removed", peer.name()));
        self.remove(cx, peers, number, name);
        Ok(())
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.retired.iter().map(|(at, ..)| *at).min()
    }

    /// Asks about the sockets of closed paths once their linger time has passed. After the answers,
    /// [`on_charged`](Self::on_charged) closes the sockets.
    pub(crate) fn on_timeout(&self, cx: &mut Cx<'_>) {
        for (_, _, path) in self.retired.iter().filter(|(at, ..)| *at <= cx.now) {
            cx.out.push(Action::Look { socket: path.socket, remote: path.remote, own: false });
        }
    }

    /// Closes the socket of a closed path if its linger time has passed. Until the other end learns of the
    /// close, it may send much, so the last traffic must have been charged before.
    pub(crate) fn on_charged(&mut self, cx: &mut Cx<'_>, socket: u32) {
        let now = cx.now;
        for _ in self.retired.extract_if(.., |(at, _, path)| path.socket == socket && *at <= now) {
            cx.out.push(Action::CloseSocket(socket));
        }
    }
}

impl Peer {
    /// Names of the interfaces that the paths use or will use.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let opening = self.waiting.iter().filter_map(|p| p.opening.as_ref()?.interface.clone());
        self.paths.iter().filter_map(|p| p.interface.clone()).chain(opening).collect()
    }

    /// Removes the matching paths that are not open yet, and answers the commands waiting for them.
    pub(crate) fn forget_waiting(&mut self, cx: &mut Cx<'_>, which: impl Fn(&PathSpec) -> bool) {
        self.waiting.retain(|path| {
            let goes = which(&path.spec);
            if let Some(id) = path.reply.filter(|_| goes) {
                cx.reply(id, Err(format!("path `{}` was removed while it was being opened", path.spec.name)));
            }
            !goes
        });
    }
}

/// Returns the host names that a path needs: those of its remote and its proxy.
pub(crate) fn names(spec: &PathSpec) -> impl Iterator<Item = &str> {
    let proxy = spec.proxy.as_ref().and_then(|proxy| proxy.at.name());
    spec.remote.name().into_iter().chain(proxy)
}

/// Removes the path for which this request was sent. Returns the path and the number of its peer.
fn take_waiting(peers: &mut Peers, request: u64) -> Option<(usize, WaitingPath)> {
    let is_it = |path: &WaitingPath| path.opening.as_ref().is_some_and(|o| o.request == request);
    let (number, at) = peers.present().find_map(|number| {
        let at = peers[number].waiting.iter().position(is_it)?;
        Some((number, at))
    })?;
    Some((number, peers[number].waiting.remove(at)))
}

/// Records why a path is waiting. Logs each reason only once.
fn wait(cx: &mut Cx<'_>, peer: &mut Peer, at: usize, why: String) {
    let name = peer.cfg.name.clone();
    let path = &mut peer.waiting[at];
    if path.why != why {
        cx.out.warn(format!("peer {name}: path {} waits: {why}", path.spec.name));
        path.why = why;
    }
}

//! Executes the tunnel's actions.

use std::net::{Ipv4Addr, SocketAddr};

use dccp_net::{ChannelRoutes, is_channel};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use mpdccp_tunnel::{Action, Answer, HostEvent, Looked, OpenPath, Sizes};
use mpdccp_units::Time;

use super::super::program::WALL;
use super::{End, MTU, Socket};

/// First UDP port of a client's sockets.
const FIRST_PORT: u16 = 40_000;

/// MTU that the simulated system reports for every path.
const SIZES: Sizes = Sizes { path: Some(MTU), device: Some(MTU) };

impl End {
    /// Executes the tunnel's actions.
    pub(super) fn act(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(action) = self.tunnel.poll_action() {
            let answer = match action {
                Action::OpenPath(path) => self.open(now, &path),
                Action::Look { socket, remote, .. } => self.look(now, socket, remote),
                Action::Resolve(name) => {
                    let answer = Err("the simulator cannot look up host names".to_owned());
                    HostEvent::Resolved { name, answer }
                }
                Action::ListInterfaces => HostEvent::Interfaces(Vec::new()),
                Action::SetAddresses { .. } => HostEvent::AddressesSet(Ok(())),
                Action::SetMtu(mtu) => {
                    self.mtu = mtu;
                    HostEvent::MtuSet(mtu, Ok(()))
                }
                other => {
                    self.act_silently(other);
                    continue;
                }
            };
            self.tunnel.handle_host(endpoint, now, answer);
        }
    }

    /// Executes an action that needs no answer.
    fn act_silently(&mut self, action: Action) {
        match (action, &mut self.channels) {
            (Action::CloseSocket(socket), _) => self.close(socket),
            (Action::Save(file, text), _) => drop(self.saved.insert(file, text)),
            (Action::SaveLine(file, line, text), _) => {
                mpdccp_tunnel::put_line(self.saved.entry(file).or_default(), line, &text);
            }
            (Action::Reply(_, Answer::Error(why)), _) => self.refused = Some(why),
            (Action::Stop, _) => self.ended = true,
            (Action::Tcp(command), _) => self.commands.push(command),
            (Action::SetMarking(marker), _) => self.marker = marker,
            (Action::AddPeer { peer, key, preshared }, Some(routes)) => {
                routes.channels.add_peer(peer, key, preshared);
            }
            (Action::RemovePeer(peer), Some(routes)) => routes.channels.remove_peer(peer),
            (Action::SetPrivateKey(key), Some(routes)) => routes.channels.set_private_key(key),
            (Action::StartOver(peer), Some(routes)) => routes.channels.start_over(peer),
            (Action::LeaveServer(peer), Some(routes)) => routes.channels.leave_server(peer),
            // The simulated host has no routes, interface queues, log or shards.
            _ => {}
        }
    }

    fn open(&mut self, now: Time, path: &OpenPath) -> HostEvent {
        let (request, remote) = (path.request, path.remote);
        let failed = |why: &str| HostEvent::PathFailed { request, absent: false, why: why.to_owned() };
        let bound = path.interface.as_ref().and_then(|name| name.strip_prefix("path")?.parse().ok());
        let local = match (path.local, bound) {
            (Some(local), _) => local,
            (None, Some(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (None, None) => return failed("no such interface"),
        };
        self.opened += 1;
        let mut socket = u32::from(self.opened);
        let local = SocketAddr::new(local, FIRST_PORT + self.opened);
        self.sockets.insert(socket, Socket { local, path: bound, bytes: 0 });
        if let Some(routes) = &mut self.channels {
            let under = Route { socket, local: None, remote };
            let Some(channel) = routes.open(now, path.peer, &under) else {
                return failed("too many channels");
            };
            socket = channel;
        }
        HostEvent::PathOpened { request, socket, sizes: SIZES, overhead: self.overhead() }
    }

    fn close(&mut self, mut socket: u32) {
        if let Some(routes) = &mut self.channels
            && is_channel(socket)
        {
            let under = routes.resolve(socket).map_or(socket, |under| under.socket);
            routes.close(socket);
            socket = under;
        }
        self.sockets.remove(&socket);
    }

    fn look(&self, now: Time, socket: u32, remote: SocketAddr) -> HostEvent {
        let routes = self.channels.as_ref();
        let under = routes.and_then(|routes| Some(routes.resolve(socket)?.socket)).unwrap_or(socket);
        let heard = |routes: &ChannelRoutes| routes.channels.peer_stats(routes.peer(socket)?)?.heard;
        HostEvent::Looked(Looked {
            over_tls: false,
            error: None,
            source: None,
            socket,
            remote,
            sizes: SIZES,
            carried: self.sockets.get(&under).map_or(0, |socket| socket.bytes),
            heard: routes.is_none_or(|routes| heard(routes).is_some()),
            handshake: routes.and_then(|routes| routes.channels.initiated()),
            unix: (WALL + now.since(Time::ZERO)).as_secs(),
        })
    }
}

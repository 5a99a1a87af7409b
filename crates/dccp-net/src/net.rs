mod connections;
mod flush;
mod receive;

use crate::channels::{Arrived, ChannelEvent, ChannelRoutes, is_channel};
use crate::links::Links;
use crate::outer_mark::{Marking, Part, carried};
use crate::poller::{Poller, Source};
use crate::shards::{Mail, Neighbours};
use crate::shortage::Shortage;
use crate::watch;
use crate::{Batch, Capture, Clock, Encapsulation, LinkChange, Qlog, SocketStats, secure};
use dccp_proto::Route;
use mpdccp_proto::Endpoint;
use mpdccp_units::{Duration, Time};
use rustix::fd::AsFd;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// Suspensions shorter than this do not change the age of keys.
const SUSPENDED: Duration = Duration::from_secs(1);

/// A socket that carries DCCP packets and on which the loop can wait.
pub(crate) trait LinuxSocket: Encapsulation + AsFd {}
impl<T: Encapsulation + AsFd> LinuxSocket for T {}

/// The sockets of a driver, and the packets that are waiting to be sent.
pub struct Net {
    sockets: BTreeMap<u32, Box<dyn LinuxSocket>>,
    /// The number of the next socket.
    next: u32,
    links: Links,
    shortage: Shortage,
    routes: Option<ChannelRoutes>,
    /// The other shards of the same server.
    pub(crate) neighbours: Neighbours,
    /// Packets that the endpoint has written but that have not been sent yet.
    pub batch: Batch,
    /// Records all sent and received packets.
    pub capture: Option<Capture>,
    /// The file for the keys of channels.
    pub keylog: Option<std::fs::File>,
    /// Chooses outer headers according to the data in a packet. Without it, congestion control alone sets the
    /// ECN field.
    pub marking: Option<Box<dyn Marking>>,
    parts: Vec<Part>,
    /// If set, every socket that is added later reports ICMP unreachable messages, which are passed to the
    /// endpoint through [`Endpoint::on_refused`].
    pub heed_refusals: bool,
    refused: Vec<(u32, SocketAddr)>,
    /// Events of channels that the application has not received yet.
    channel_events: Vec<ChannelEvent>,
    /// The qlog file.
    pub qlog: Option<Qlog>,
    /// The host's total time in suspension when the age of the channels' keys was last corrected for it.
    suspended: Duration,
}

impl Net {
    pub(crate) fn new() -> Net {
        Net {
            sockets: BTreeMap::new(),
            next: 0,
            links: Links::default(),
            shortage: Shortage::default(),
            routes: None,
            neighbours: Neighbours::default(),
            batch: Batch::default(),
            capture: None,
            keylog: None,
            marking: None,
            parts: Vec::new(),
            heed_refusals: false,
            refused: Vec::new(),
            qlog: None,
            channel_events: Vec::new(),
            suspended: Clock.suspended(),
        }
    }

    /// Sends all packets through channels from now on.
    pub fn secure(&mut self, channels: secure::Channels) {
        self.routes = Some(ChannelRoutes::new(channels));
    }

    /// Returns the channels, if encryption is on.
    pub fn channels(&self) -> Option<&secure::Channels> {
        self.routes.as_ref().map(|routes| &routes.channels)
    }

    /// Returns the channels for modification, for example to add and remove peers.
    pub fn channels_mut(&mut self) -> Option<&mut secure::Channels> {
        self.routes.as_mut().map(|routes| &mut routes.channels)
    }

    /// Opens a channel to a peer over a socket. Returns the socket number that identifies the channel.
    pub fn open_channel(&mut self, now: Time, peer: u32, to: &Route) -> Option<u32> {
        self.routes.as_mut()?.open(now, peer, to)
    }

    /// Returns the current route of a packet. If the packet's route belongs to a channel, the peer may have
    /// moved.
    pub fn resolve(&self, route: &Route) -> Route {
        let to = is_channel(route.socket).then(|| self.routes.as_ref()?.resolve(route.socket)).flatten();
        to.map_or(*route, |to| Route { socket: to.socket, local: to.local, remote: to.remote })
    }

    /// Returns the socket below a channel. If this end opened the channel, the result stays the same even
    /// after the channel has ended.
    pub fn under(&self, socket: u32) -> u32 {
        let begun = self.routes.as_ref().and_then(|routes| routes.under(socket));
        let route = Route { socket, local: None, remote: SocketAddr::from(([0, 0, 0, 0], 0)) };
        begun.unwrap_or_else(|| self.resolve(&route).socket)
    }

    /// Returns the peer of a channel, which the socket number identifies.
    pub fn peer_of(&self, socket: u32) -> Option<u32> {
        self.routes.as_ref()?.peer(socket)
    }

    pub(crate) fn add(
        &mut self,
        poller: &Poller,
        mut encapsulation: Box<dyn LinuxSocket>,
    ) -> io::Result<u32> {
        let socket = self.next;
        if is_channel(socket) {
            return Err(io::Error::other("too many sockets were opened"));
        }
        if self.heed_refusals {
            encapsulation.heed_refusals()?;
        }
        poller.add(encapsulation.as_fd(), Source::Socket(socket))?;
        self.sockets.insert(socket, encapsulation);
        self.next += 1;
        Ok(socket)
    }

    /// Closes a socket, or a channel that this end opened together with the socket below it. The number is
    /// never used again.
    pub fn remove(&mut self, socket: u32) {
        let under = match &mut self.routes {
            Some(routes) if is_channel(socket) => {
                // The channel may have ended already, together with its peer.
                let under = routes.under(socket);
                routes.close(socket);
                under
            }
            _ => Some(socket),
        };
        for socket in under.into_iter().chain([socket]) {
            self.links.forget(socket);
            self.sockets.remove(&socket);
        }
    }

    /// Returns a socket, unless it was closed.
    pub fn socket(&self, socket: u32) -> Option<&dyn Encapsulation> {
        self.sockets.get(&socket).map(|c| &**c as &dyn Encapsulation)
    }

    /// Returns the counters of each open socket.
    pub fn stats(&self) -> Vec<(u32, SocketStats)> {
        self.sockets.iter().map(|(i, c)| (*i, c.stats())).collect()
    }

    /// Returns the largest IP packet to `remote` that the system allows, in bytes. Forged ICMP messages can
    /// change this value.
    ///
    /// # Errors
    /// If the socket does not exist, or there is no route.
    pub fn path_mtu(&self, socket: u32, remote: SocketAddr) -> io::Result<u16> {
        let to = self.resolve(&Route { socket, local: None, remote });
        self.socket(to.socket).ok_or(io::ErrorKind::NotFound)?.path_mtu(to.remote)
    }

    /// Returns the MTU, in bytes, of the interface through which packets to `remote` leave.
    ///
    /// # Errors
    /// If the socket does not exist, or there is no route.
    pub fn device_mtu(&self, socket: u32, remote: SocketAddr) -> io::Result<u16> {
        let to = self.resolve(&Route { socket, local: None, remote });
        self.socket(to.socket).ok_or(io::ErrorKind::NotFound)?.device_mtu(to.remote)
    }

    /// Returns the interface through which the packets of a route leave.
    ///
    /// # Errors
    /// If the socket does not exist, or there is no route.
    pub fn device(&self, route: &Route) -> io::Result<String> {
        let to = self.resolve(route);
        self.socket(to.socket).ok_or(io::ErrorKind::NotFound)?.device(to.remote)
    }

    /// Checks that the packets of a route leave through the interface that has their source address. Returns
    /// the name of the interface if they leave through another one. Packets to this host pass the check, so
    /// the result is `None`.
    pub fn strays(&self, route: &Route) -> Option<String> {
        let to = self.resolve(route);
        let socket = self.socket(to.socket)?;
        let source = to.local.or_else(|| socket.source(to.remote).ok())?;
        let device = socket.device(to.remote).ok()?;
        let here = watch::holder(to.remote.ip()).is_ok();
        (!here && watch::holder(source).ok()? != device).then_some(device)
    }

    /// Checks whether a destination can be reached, without sending a packet. Returns the reason if it
    /// cannot.
    pub fn watch(&mut self, now: Time, socket: u32, remote: SocketAddr) -> Option<String> {
        let under = self.resolve(&Route { socket, local: None, remote }).socket;
        let present = self.socket(under).map_or(Ok(()), |encapsulation| encapsulation.present());
        let answer = present.and_then(|()| self.path_mtu(socket, remote));
        if self.shortage.is_behind(&answer) {
            return None;
        }
        let why = answer.err()?.to_string();
        self.links.mark(now, socket, remote, why.clone());
        Some(why)
    }

    /// Hands over the packets that belong to other shards.
    fn hand_over(&mut self) {
        let Net { routes: Some(routes), neighbours, sockets, .. } = self else { return };
        while let Some(handshake) = routes.channels.poll_handover() {
            let secure::Address { socket, remote, .. } = *handshake.from();
            if let Some(connection) = sockets.get_mut(&socket).and_then(|under| under.give(remote)) {
                neighbours.put(handshake.shard, Mail::Connection { socket, connection });
            }
            neighbours.put(handshake.shard, Mail::Handshake(Box::new(handshake)));
        }
        neighbours.send();
    }

    /// Handles packets for this shard that arrived at another shard.
    pub(crate) fn take(&mut self, now: Time, mail: Vec<Mail>, endpoint: &mut Endpoint) {
        let Net { routes: Some(routes), marking, sockets, .. } = self else { return };
        for mail in mail {
            match mail {
                Mail::Connection { socket, connection } => {
                    if let Some(encapsulation) = sockets.get_mut(&socket) {
                        encapsulation.take(connection);
                    }
                }
                Mail::Datagram { from, ecn, ip_len, mut bytes } => {
                    let Arrived::Packet(opened) = routes.handle(now, &from, &mut bytes) else {
                        continue;
                    };
                    let inner = carried(marking.as_deref(), ecn, &mut bytes[opened.packet]);
                    endpoint.handle_peer(now, &opened.route, opened.peer, ecn, ip_len, inner);
                }
                Mail::Handshake(handshake) => routes.take_over(now, *handshake),
            }
        }
    }

    /// Returns how many datagrams, handshakes and connections were handed over to other shards, and how many
    /// were dropped because the other shard was overloaded.
    pub fn handed_over(&self) -> (u64, u64) {
        (self.neighbours.handed_over, self.neighbours.dropped)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.routes.as_ref()?.channels.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let Some(routes) = &mut self.routes else { return };
        let suspended = Clock.suspended();
        if suspended >= self.suspended + SUSPENDED {
            routes.channels.on_suspended(now, suspended - self.suspended);
            self.suspended = suspended;
        }
        if routes.channels.poll_timeout().is_some_and(|at| at <= now) {
            routes.channels.handle_timeout(now);
        }
        self.channel_events.extend(routes.events());
    }

    /// Returns when to call [`retry`](Self::retry) next.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.links.next_retry()
    }

    /// Checks the destinations to which sending failed.
    pub(crate) fn retry(&mut self, now: Time, poller: &Poller) {
        let Net { sockets, links, shortage, routes, .. } = self;
        if links.next_retry().is_some_and(|at| at <= now) {
            // A channel may have ended in the meantime. It would stay in the list, whose length is limited.
            let lives = |channel| routes.as_ref().is_some_and(|c| c.resolve(channel).is_some());
            links.retain(|socket| !is_channel(socket) || lives(socket));
        }
        links.retry(now, |socket, remote| {
            let to = routes.as_ref().filter(|_| is_channel(socket)).and_then(|c| c.resolve(socket));
            let (socket, remote) = to.map_or((socket, remote), |to| (to.socket, to.remote));
            match sockets.get_mut(&socket) {
                // The check may have replaced the descriptor, so watch it again.
                Some(encapsulation) => {
                    let answer = encapsulation.check(remote);
                    // If descriptors or memory are short, the result says nothing about the destination,
                    // which stays broken until the system can check it.
                    !shortage.is_behind(&answer)
                        && answer.is_ok()
                        && poller.add(encapsulation.as_fd(), Source::Socket(socket)).is_ok()
                }
                None => false,
            }
        });
    }

    /// Tells the endpoint which destinations have refused packets.
    pub(crate) fn tell_refused(&mut self, now: Time, endpoint: &mut Endpoint) {
        for (socket, remote) in self.refused.drain(..) {
            endpoint.on_refused(now, socket, remote);
            for channel in self.routes.iter().flat_map(|routes| routes.toward(socket, remote)) {
                endpoint.on_refused(now, channel, remote);
            }
        }
    }

    pub(crate) fn take_channel_events(&mut self) -> Vec<ChannelEvent> {
        std::mem::take(&mut self.channel_events)
    }

    pub(crate) fn take_changes(&mut self) -> Vec<LinkChange> {
        self.links.take_changes()
    }
}

#[cfg(test)]
#[path = "../../../tests/limited.rs"]
mod limited;

#[cfg(test)]
mod tests {
    use super::limited::is_limited;
    use super::*;
    use crate::{Bind, UdpEncapsulation};
    use mpdccp_units::Duration;
    use std::fs::File;

    /// Returns a socket, a channel over it to peer 0, and the channel's destination.
    #[cfg(feature = "encryption")]
    fn open(poller: &Poller, net: &mut Net, now: Time, to: [u8; 4]) -> (u32, u32, SocketAddr) {
        use crate::secure::{Channels, PresharedKey, PrivateKey, Settings};
        let bind = Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None };
        let socket = net.add(poller, Box::new(UdpEncapsulation::new(bind).unwrap())).unwrap();
        let (private_key, unix) = (PrivateKey::from_random([1; 32]), Duration::from_secs(1_700_000_000));
        let mut channels = Channels::new(Settings::new(private_key, false, unix, [1; 32]));
        channels.add_peer(0, PrivateKey::from_random([2; 32]).public(), PresharedKey::default());
        net.secure(channels);
        let remote = (to, 6511).into();
        let channel = net.open_channel(now, 0, &Route { socket, local: None, remote }).unwrap();
        (socket, channel, remote)
    }

    /// A server's channel ends without a call of `remove`, because the socket below it stays open.
    #[cfg(feature = "encryption")]
    #[test]
    fn a_channel_that_has_ended_is_no_longer_checked() {
        let (poller, mut net, now) = (Poller::new().unwrap(), Net::new(), Time::from_millis(1));
        let (_, channel, remote) = open(&poller, &mut net, now, [127, 0, 0, 1]);
        net.links.mark(now, channel, remote, "pulled".into());
        net.channels_mut().unwrap().remove_peer(0);
        net.retry(now + Duration::from_secs(1), &poller);
        assert_eq!(net.next_retry(), None);
    }

    #[cfg(feature = "encryption")]
    #[test]
    fn the_socket_of_a_removed_peer_is_closed() {
        for removed in [false, true] {
            let (poller, mut net, now) = (Poller::new().unwrap(), Net::new(), Time::from_millis(1));
            let (socket, channel, _) = open(&poller, &mut net, now, [127, 0, 0, 1]);
            if removed {
                net.channels_mut().unwrap().remove_peer(0);
            }
            assert_eq!(net.under(channel), socket);
            net.remove(channel);
            assert!(net.socket(socket).is_none(), "peer removed: {removed}");
        }
    }

    /// The kernel routes packets to the broadcast address, but refuses to send them.
    #[cfg(feature = "encryption")]
    #[test]
    fn a_path_whose_handshake_the_system_refuses_is_broken() {
        let (poller, mut net, now) = (Poller::new().unwrap(), Net::new(), Time::from_millis(1));
        let (_, channel, remote) = open(&poller, &mut net, now, [255; 4]);
        net.flush(now);
        let changes = net.take_changes();
        let [change] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.socket, change.remote, change.up), (channel, remote, false));
    }

    /// A program may open connections for years.
    #[test]
    fn a_closed_socket_leaves_nothing_behind() {
        let (poller, mut net) = (Poller::new().unwrap(), Net::new());
        let bind = Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None };
        let add =
            |net: &mut Net| net.add(&poller, Box::new(UdpEncapsulation::new(bind.clone()).unwrap())).unwrap();
        let socket = add(&mut net);
        net.remove(socket);
        assert!(net.sockets.is_empty());
        assert_ne!(add(&mut net), socket, "the number is not used again");
    }

    #[test]
    fn a_path_is_not_dead_for_want_of_descriptors() {
        if !is_limited("ulimit -n 64", "net::tests::a_path_is_not_dead_for_want_of_descriptors") {
            return;
        }
        let (poller, mut net, now) = (Poller::new().unwrap(), Net::new(), Time::from_millis(1));
        let bind = Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None };
        let socket = net.add(&poller, Box::new(UdpEncapsulation::new(bind).unwrap())).unwrap();
        let remote = ([127, 0, 0, 1], 6511).into();
        let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!all.is_empty());
        net.watch(now, socket, remote);
        assert_eq!(net.take_changes(), [], "a check that lacks descriptors must not change a path");
        net.links.mark(now, socket, remote, "pulled".into());
        assert!(!net.take_changes()[0].up);
        let later = now + Duration::from_secs(1);
        net.retry(later, &poller);
        assert_eq!(net.take_changes(), []);
        drop(all);
        net.retry(later + Duration::from_secs(1), &poller);
        assert!(net.take_changes()[0].up);
    }
}

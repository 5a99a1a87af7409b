use crate::error::addresses;
use crate::path::Path;
use crate::runtime::Streams;
use crate::runtime::host::{Run, Runtime, on_a_thread};
use crate::stats::Event;
use crate::stream::Stream;
use crate::{ConnectError, Connection, Options, sockets};
use dccp_net::secure::{PresharedKey, PublicKey};
use dccp_net::{Core, with_port};
use mpdccp_proto::{PathId, PathStatus, Reason, SessionId, SessionState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// Opens connections that share one data thread. Use this in programs with many connections, because
/// [`Connection::connect`] starts a thread for each connection.
#[derive(Clone, Debug)]
pub struct Connector {
    pub(crate) runtime: Arc<Runtime>,
    options: Options,
}

impl Connector {
    /// Starts the data thread.
    ///
    /// # Errors
    /// If the options are invalid, or the system reports an error.
    pub fn new(options: Options) -> Result<Connector, ConnectError> {
        Connector::running(options, on_a_thread)
    }

    pub(crate) fn running(options: Options, run: Run) -> Result<Connector, ConnectError> {
        let (runtime, ()) = Runtime::start(options.clone(), None, run, |core, options| {
            sockets::secure(core, options, false)
        })?;
        Ok(Connector { runtime, options })
    }

    /// Connects to a listener. With keys, the listener must be the first peer in the options. If a name has
    /// several addresses, the connector tries them in turn.
    ///
    /// # Errors
    /// As for [`Connection::connect`]; if all addresses fail, the error from the last one.
    pub fn connect(&self, addr: impl ToSocketAddrs) -> Result<Connection, ConnectError> {
        self.connect_with(addr, None)
    }

    /// Connects like [`connect`](Self::connect), but to the peer with this key, which need not be in the
    /// options. If it is, its preshared key applies.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), and [`ConnectError::Options`] if the options have no private key.
    pub fn connect_peer(
        &self,
        addr: impl ToSocketAddrs,
        peer: PublicKey,
    ) -> Result<Connection, ConnectError> {
        self.connect_with(addr, Some(peer))
    }

    fn connect_with(
        &self,
        addr: impl ToSocketAddrs,
        peer: Option<PublicKey>,
    ) -> Result<Connection, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for to in addresses(addr)? {
            let connection = self.start(to, peer);
            let stream = &connection.stream;
            match stream.happened.wait(&stream.state, None, |s| s.opening()) {
                Some(Ok(())) => return Ok(connection),
                Some(Err(e)) => last = e,
                None => {}
            }
        }
        Err(last)
    }

    /// Sends the first Request and returns without waiting for the answer. [`Connection::descriptor`] becomes
    /// readable when the outcome is known, and [`Connection::opened`] returns the outcome. With keys, the
    /// peer is `peer` or, if that is not given, the first peer in the options.
    pub fn start(&self, to: SocketAddr, peer: Option<PublicKey>) -> Connection {
        let stream = Arc::new(Stream::new(&self.options, &self.runtime.budget));
        let connection = Connection::new(&self.runtime, stream.clone());
        if self.runtime.is_forked() {
            stream.fail(ConnectError::Forked);
            return connection;
        }
        let begins = self.runtime.handle().run(move |core, streams| {
            if let Err(e) = begin(core, streams, (to, peer), stream.clone()) {
                stream.fail(e);
            }
        });
        if !begins {
            connection.stream.fail(ConnectError::Refused(Reason::Aborted));
        }
        connection
    }
}

impl Connection {
    /// Connects to a listener. If a name has several addresses, the first one that answers is used. With
    /// keys, the listener must be the first peer in the options. The port is a UDP port or, with
    /// [`Encapsulation::Raw`](crate::Encapsulation::Raw), the DCCP port.
    ///
    /// # Errors
    /// If the options are invalid, the system reports an error, the peer refuses, or no answer arrives within
    /// [`Options::connect_timeout`]. If all addresses fail, the error from the last one.
    pub fn connect(addr: impl ToSocketAddrs, options: Options) -> Result<Connection, ConnectError> {
        Connector::new(options)?.connect(addr)
    }

    /// Adds a path to a client's multipath session. An event reports when the path is up.
    ///
    /// # Errors
    /// A system error; [`ConnectError::Refused`] if the connection has ended; or [`ConnectError::Options`] if
    /// the connection is open but has no multipath session.
    pub fn add_path(&self, path: Path) -> Result<PathId, ConnectError> {
        let id = self.id();
        let added = self.runtime.call(move |core, streams| add_path(core, streams, id, path));
        added.unwrap_or_else(|| Err(self.runtime.missing(ConnectError::Refused(Reason::Aborted))))
    }
}

/// Opens a connection. Called on the data thread.
fn begin(
    core: &mut Core,
    streams: &mut Streams,
    (to, peer): (SocketAddr, Option<PublicKey>),
    stream: Arc<Stream>,
) -> Result<(), ConnectError> {
    let peers = &streams.options.peers;
    let peer = match peer {
        // Peer 0 may be one that another call has named.
        None if peers.is_empty() && streams.options.key.is_some() => {
            return Err(ConnectError::Options("no public key was given for this peer"));
        }
        None => 0,
        Some(key) => {
            let listed = peers.iter().find(|(listed, _)| *listed == key);
            let preshared = listed.map_or_else(PresharedKey::default, |(_, preshared)| preshared.clone());
            streams.add_peer(core, key, preshared)?
        }
    };
    let Streams { options, shared, .. } = streams;
    let first = [Path::unbound()];
    let wanted = if options.paths.is_empty() { &first[..] } else { &options.paths };
    let mut paths = Vec::new();
    let result = wanted.iter().try_for_each(|path| {
        let to = path.remote.unwrap_or(to);
        sockets::open_path(core, shared, options, (path, to), peer).map(|path| paths.push(path))
    });
    let opened: Vec<u32> = paths.iter().map(|path| path.route.socket).collect();
    if let Err(e) = result {
        opened.iter().for_each(|socket| shared.release(core, *socket));
        streams.forget_peer(core, peer);
        return Err(e);
    }
    let now = core.clock.now();
    let session = options.session(options.wants_multipath());
    let id = core.endpoint.connect(now, session, paths[0]);
    for path in &paths[1..] {
        core.endpoint.add_path(now, id, *path);
    }
    streams.insert(now, id, stream, (opened, peer));
    warn_of_strays(core, streams, id);
    Ok(())
}

/// Logs a warning about each path that uses another path's interface.
fn warn_of_strays(core: &Core, streams: &Streams, id: SessionId) {
    let status = core.endpoint.status(core.clock.now(), id);
    let paths = status.map_or_else(Vec::new, |status| status.paths);
    if paths.len() < 2 {
        return;
    }
    for path in &paths {
        let Some(device) = core.net.strays(&path.route) else { continue };
        let shares = |other: &&PathStatus| core.net.device(&other.route).is_ok_and(|other| other == device);
        if let Some(other) = paths.iter().filter(|other| other.id != path.id).find(shares) {
            tracing::warn!(
                "path {} leaves through {device}, the interface of path {}, although its local address belongs to another \
                 interface; set the interface of this path",
                path.id.0,
                other.id.0
            );
            streams.tell(core, id, Event::PathStrays(path.id, other.id));
        }
    }
}

/// Adds a path. Called on the data thread.
pub(crate) fn add_path(
    core: &mut Core,
    streams: &mut Streams,
    id: SessionId,
    path: Path,
) -> Result<PathId, ConnectError> {
    let gone = ConnectError::Refused(Reason::Closed);
    let Some(status) = core.endpoint.status(core.clock.now(), id) else { return Err(gone) };
    if status.state == SessionState::Open && !status.multipath {
        return Err(ConnectError::Options(
            "a plain connection has one path; connect with the option `multipath`",
        ));
    }
    let Some(first) = status.paths.first() else { return Err(gone) };
    let port = if streams.options.encapsulation == crate::Encapsulation::Raw {
        first.ports.remote
    } else {
        first.route.remote.port()
    };
    let to = path.remote.unwrap_or(with_port(first.route.remote, port));
    let peer = streams.peer(id).unwrap_or(0);
    let Streams { options, shared, .. } = &mut *streams;
    let cfg = sockets::open_path(core, shared, options, (&path, to), peer)?;
    let added = core.endpoint.add_path(core.clock.now(), id, cfg);
    match added {
        Some(_) => {
            streams.add_socket(id, cfg.route.socket);
            warn_of_strays(core, streams, id);
        }
        None => streams.shared.release(core, cfg.route.socket),
    }
    added.ok_or(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dccp_net::secure::PrivateKey;
    use std::time::Duration;

    /// `start` returns before the data thread has created the session. The calls after it must not wait for
    /// that, because an event loop or a thread that holds a lock may make them.
    #[test]
    fn a_connection_can_be_aborted_as_soon_as_it_is_started() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let connector = Connector::new(Options::default()).unwrap();
        let (go, gate) = std::sync::mpsc::channel();
        connector.runtime.run(move |_, _| {
            let _ = gate.recv_timeout(Duration::from_secs(10));
        });
        let connection = connector.start(silent.local_addr().unwrap(), None);
        connection.probe(mpdccp_units::Rate::from_bps(1_000_000), Duration::from_secs(1));
        connection.set_priority(PathId(0), 1);
        connection.abort();
        assert!(go.send(()).is_ok(), "a call has waited for the data thread");
        let opened = connection.opened(Duration::from_secs(3));
        assert!(matches!(opened, Some(Err(ConnectError::Refused(Reason::Aborted)))), "{opened:?}");
    }

    #[test]
    fn a_call_without_a_peer_does_not_take_the_peer_of_another_call() {
        let [own, named] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let connector = Connector::new(Options::default().key(own)).unwrap();
        let to = silent.local_addr().unwrap();
        let first = connector.start(to, Some(named.public()));
        let refused = connector.start(to, None).opened(Duration::from_secs(3));
        assert!(matches!(refused, Some(Err(ConnectError::Options(_)))), "{refused:?}");
        assert!(first.opened(Duration::ZERO).is_none());
    }

    #[test]
    fn a_call_that_names_a_peer_keeps_its_preshared_key() {
        let [own, listed] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let (listed, preshared) = (listed.public(), PresharedKey::from_random([3; 32]));
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = Options::default().key(own).peer_with(listed, preshared.clone());
        let connector = Connector::new(options).unwrap();
        let _connection = connector.start(silent.local_addr().unwrap(), Some(listed));
        let kept = connector.runtime.call(move |core, _| {
            core.net.channels().is_some_and(|channels| channels.has_peer(0, &listed, &preshared))
        });
        assert_eq!(kept, Some(true));
    }

    #[test]
    fn a_peer_that_only_a_call_named_is_forgotten_after_its_last_connection() {
        let keys = [1, 2, 3].map(|n| PrivateKey::from_random([n; 32]));
        let [configured, named] = [keys[1].public(), keys[2].public()];
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = Options::default().key(keys[0].clone()).peer(configured);
        let connector = Connector::new(options).unwrap();
        let known = |key: PublicKey| {
            let known = connector.runtime.call(move |core, _| core.net.channels()?.number(&key));
            known.unwrap().is_some()
        };
        let to = silent.local_addr().unwrap();
        let [first, second] = [0; 2].map(|_| connector.start(to, Some(named)));
        for (connection, stays) in [(first, true), (second, false)] {
            assert!(known(named));
            connection.abort();
            assert!(matches!(connection.opened(Duration::from_secs(10)), Some(Err(_))));
            assert_eq!(known(named), stays);
        }
        let refused = connector.start(SocketAddr::new(to.ip(), 0), Some(named));
        assert!(matches!(refused.opened(Duration::from_secs(10)), Some(Err(ConnectError::Options(_)))));
        assert!(!known(named) && known(configured));
    }
}

use crate::options::Path;
use crate::runtime::{Runtime, Streams};
use crate::stats::Event;
use crate::stream::Stream;
use crate::{ConnectError, Connection, Options, sockets};
use dccp_net::Core;
use dccp_secure::PublicKey;
use mpdccp_proto::{PathId, PathStatus, Reason, SessionId};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// Makes connections that share one data thread: for programs that have many. [`Connection::connect`] starts a thread for each.
#[derive(Clone, Debug)]
pub struct Connector {
    pub(crate) runtime: Arc<Runtime>,
    options: Options,
}

impl Connector {
    /// Starts the thread.
    ///
    /// # Errors
    /// What is wrong with the options, and what the system says.
    pub fn new(options: Options) -> Result<Connector, ConnectError> {
        let (runtime, ()) =
            Runtime::start(options.clone(), None, |core, options| sockets::secure(core, options, false))?;
        Ok(Connector { runtime, options })
    }

    /// Connects to a listener; with keys, to the first peer of the options. Where a name has several addresses, they are tried in turn.
    ///
    /// # Errors
    /// As [`Connection::connect`]; of several addresses, that of the last.
    pub fn connect(&self, addr: impl ToSocketAddrs) -> Result<Connection, ConnectError> {
        self.connect_with(addr, None)
    }

    /// As [`connect`](Self::connect), to the peer that has this key, which need not be among those of the options.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), and [`ConnectError::Options`] without a private key of this end.
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
        for to in addr.to_socket_addrs()? {
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

    /// Sends the first Request and does not wait for the answer: [`Connection::descriptor`] is readable once it is known, and
    /// [`Connection::opened`] tells. With keys, the peer is this one, or the first of the options.
    pub fn start(&self, to: SocketAddr, peer: Option<PublicKey>) -> Connection {
        let stream = Arc::new(Stream::new(&self.options, &self.runtime.budget));
        let connection = Connection { runtime: self.runtime.clone(), stream: stream.clone() };
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
    /// Connects to a listener; of several addresses of a name, to the first that answers. With keys, it is the first peer of the options. The
    /// port is a UDP port, or with [`Encapsulation::Raw`](crate::Encapsulation::Raw) the DCCP port.
    ///
    /// # Errors
    /// What is wrong with the options, what the system says, a refusal, or no answer within [`Options::connect_timeout`]; of several
    /// addresses, that of the last.
    pub fn connect(addr: impl ToSocketAddrs, options: Options) -> Result<Connection, ConnectError> {
        Connector::new(options)?.connect(addr)
    }

    /// Adds a path to a client's multipath session; events tell when it is up.
    ///
    /// # Errors
    /// What the system says, and [`ConnectError::Refused`] if the connection is over.
    pub fn add_path(&self, path: Path) -> Result<PathId, ConnectError> {
        let id = self.id();
        let added = self.runtime.call(move |core, streams| add_path(core, streams, id, path));
        added.unwrap_or(Err(ConnectError::Refused(Reason::Aborted)))
    }
}

/// On the data thread.
fn begin(
    core: &mut Core,
    streams: &mut Streams,
    (to, peer): (SocketAddr, Option<PublicKey>),
    stream: Arc<Stream>,
) -> Result<(), ConnectError> {
    let peer = match peer {
        None => 0,
        Some(key) => streams.add_peer(core, key, Default::default())?,
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

/// Tells of paths that leave by the interface of another.
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
                "path {} leaves through {device}, as path {} does, though its address is of another interface",
                path.id.0,
                other.id.0
            );
            streams.tell(core, id, Event::PathStrays(path.id, other.id));
        }
    }
}

/// On the data thread.
pub(crate) fn add_path(
    core: &mut Core,
    streams: &mut Streams,
    id: SessionId,
    path: Path,
) -> Result<PathId, ConnectError> {
    let gone = ConnectError::Refused(Reason::Closed);
    let status = core.endpoint.status(core.clock.now(), id);
    let Some(first) = status.and_then(|status| Some(status.paths.first()?.clone())) else { return Err(gone) };
    let port = if streams.options.encapsulation == crate::Encapsulation::Raw {
        first.ports.remote
    } else {
        first.route.remote.port()
    };
    let to = path.remote.unwrap_or(sockets::with_port(first.route.remote, port));
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

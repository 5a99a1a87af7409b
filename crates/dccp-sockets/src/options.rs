use crate::error::UNKNOWN_CCID;
use crate::path::{Encapsulation, Path};
use crate::{ConnectError, SendPolicy};
use dccp_cc::Remembered;
use dccp_net::secure::{PresharedKey, PrivateKey, PublicKey};
use dccp_proto::ServiceCode;
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Seconds, SessionConfig, Settings};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Largest early data, bytes; leaves room for the options of a Request.
const MAX_EARLY: usize = 512;

/// Settings of connections. All have a default: `Options::default()` is CCID 5 over UDP.
///
/// ```
/// use dccp_sockets::Options;
/// let options = Options::ccid(2).service("SC:chat").queue(4);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) settings: Settings,
    pub(crate) service: Result<ServiceCode, &'static str>,
    /// Only the fields that the methods below set are used.
    pub(crate) connection: dccp_proto::Config,
    pub(crate) also_services: Vec<Result<ServiceCode, &'static str>>,
    pub(crate) early_data: Vec<u8>,
    pub(crate) dccp_port: u16,
    /// UDP and DCCP port to send from; 0 for any.
    pub(crate) source_ports: (u16, u16),
    pub(crate) encapsulation: Encapsulation,
    pub(crate) interface: Option<String>,
    pub(crate) mark: Option<u32>,
    pub(crate) dscp: u8,
    pub(crate) multipath: bool,
    pub(crate) streams: bool,
    pub(crate) paths: Vec<Path>,
    pub(crate) queue: usize,
    pub(crate) queue_time: Option<Duration>,
    pub(crate) policy: SendPolicy,
    pub(crate) receive_queue: usize,
    pub(crate) receive_memory: usize,
    pub(crate) backlog: usize,
    pub(crate) max_connections: usize,
    max_per_source: Option<usize>,
    pub(crate) mtu: u16,
    pub(crate) mtu_probing: bool,
    pub(crate) connect_timeout: Duration,
    /// The remembered capacity that the next connection starts from.
    pub(crate) resume: Option<Remembered>,
    pub(crate) key: Option<PrivateKey>,
    pub(crate) peers: Vec<(PublicKey, PresharedKey)>,
    pub(crate) any_peer: bool,
    pub(crate) qlog: Option<PathBuf>,
    pub(crate) rate_change: u8,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            settings: Settings::of_datagrams(),
            service: Ok(ServiceCode::NONE),
            connection: dccp_proto::Config::default(),
            also_services: Vec::new(),
            early_data: Vec::new(),
            dccp_port: 5001,
            source_ports: (0, 0),
            encapsulation: Encapsulation::default(),
            interface: None,
            mark: None,
            dscp: 0,
            multipath: false,
            streams: false,
            paths: Vec::new(),
            queue: 16,
            queue_time: None,
            policy: SendPolicy::default(),
            receive_queue: 4096,
            receive_memory: 256 << 20,
            backlog: 128,
            max_connections: 16_384,
            max_per_source: None,
            mtu: 1500,
            mtu_probing: true,
            connect_timeout: Duration::from_secs(5),
            resume: None,
            key: None,
            peers: Vec::new(),
            any_peer: false,
            qlog: None,
            rate_change: 0,
        }
    }
}

impl Options {
    /// Options with this congestion control for the data that this end sends: 2 like TCP, 3 and 4 TFRC, 5
    /// BBR, 7 CUBIC, and others that [`known_ccids`](crate::known_ccids) lists. An unknown CCID is an error
    /// when the options are used.
    pub fn ccid(ccid: u8) -> Options {
        let mut options = Options::default();
        options.settings.ccid = Ccid(ccid);
        options
    }

    /// Service Code, which must be that of the peer: `SC:chat`, `SC=7`, `SC=x1f` (RFC 4340 section 8.1.2). 0
    /// by default. An invalid code is an error when the options are used.
    pub fn service(mut self, code: &str) -> Options {
        self.service = service_code(code);
        self
    }

    /// Another Service Code that a listener accepts; [`Connection::service`](crate::Connection::service)
    /// returns the one requested.
    pub fn also_service(mut self, code: &str) -> Options {
        self.also_services.push(service_code(code));
        self
    }

    /// Data in the first packet, some hundred bytes: a client's in its Request, a listener's in its Response
    /// (RFC 4340 sections 8.1.1 and 8.1.3). The peer receives it first, if it accepts such data. An attacker
    /// who sees a Request can replay it: send only data that does no harm twice. Not in multipath sessions.
    pub fn early_data(mut self, data: &[u8]) -> Options {
        self.early_data = data.to_vec();
        self
    }

    /// Whether to receive data in the peer's first packet. By default this data is dropped and the peer is
    /// told.
    pub fn take_early_data(mut self, take: bool) -> Options {
        self.connection.early_data = take;
        self
    }

    /// Short sequence numbers, if both ends set this and the window is small: 4 to 8 bytes less per packet,
    /// but weaker protection against forged packets (RFC 4340 section 7.6).
    pub fn short_numbers(mut self, short: bool) -> Options {
        (self.connection.allow_short_seqnos, self.connection.short_seqnos) = (short, short);
        self
    }

    /// The part of the data sent by this end that the header checksum covers, if the peer accepts it, as in
    /// RFC 4340 section 9.2: 0 all, 1 none of the data, n the first 4 (n - 1) bytes, up to 15. Only with
    /// [`Encapsulation::Raw`], since the UDP checksum covers everything.
    pub fn coverage(mut self, coverage: u8) -> Options {
        self.connection.coverage = coverage.min(15);
        self
    }

    /// Minimum coverage of received data, in the same units; 0 by default: the checksum must cover all data.
    pub fn min_coverage(mut self, coverage: u8) -> Options {
        self.connection.min_coverage = coverage.min(15);
        self
    }

    /// Asks the peer to protect data with a CRC-32c (RFC 4340 section 9.3). Data with a wrong CRC is dropped.
    pub fn data_checksum(mut self, check: bool) -> Options {
        self.connection.check_data_checksum = check;
        self
    }

    /// Whether the Request has a Timestamp, so that the first round-trip time excludes the peer's delay; yes
    /// by default.
    pub fn timestamps(mut self, send: bool) -> Options {
        self.connection.timestamps = send;
        self
    }

    /// The UDP and DCCP ports that a client sends from, instead of any free ones. A listener behind a NAT
    /// must know them to [send Listen packets](crate::Listener::send_listen). Such options allow one
    /// connection at a time.
    pub fn source_ports(mut self, udp: u16, dccp: u16) -> Options {
        self.source_ports = (udp, dccp);
        self
    }

    /// DCCP port of the listener, inside UDP; 5001 by default. Not used by [`Encapsulation::Raw`].
    pub fn dccp_port(mut self, port: u16) -> Options {
        self.dccp_port = port;
        self
    }

    /// The carrier of packets.
    pub fn encapsulation(mut self, encapsulation: Encapsulation) -> Options {
        self.encapsulation = encapsulation;
        self
    }

    /// Sends and receives through this network interface only (SO_BINDTODEVICE), on all paths without their
    /// own. Any by default.
    pub fn interface(mut self, name: &str) -> Options {
        self.interface = Some(name.to_owned());
        self
    }

    /// Marks packets for policy routing and firewalls (SO_MARK); needs CAP_NET_ADMIN. None by default.
    pub fn mark(mut self, mark: u32) -> Options {
        self.mark = Some(mark);
        self
    }

    /// DSCP of IP headers (RFC 2474), 0 to 63, for the networks on the way: 46 is expedited forwarding, 8 the
    /// lowest class. 0 by default. Each end chooses it for the packets that it sends.
    pub fn dscp(mut self, dscp: u8) -> Options {
        self.dscp = dscp;
        self
    }

    /// Requests a multipath session (RFC 9897), to which paths can be added. A peer without multipath makes a
    /// plain connection. Listeners accept both.
    pub fn multipath(mut self, multipath: bool) -> Options {
        self.multipath = multipath;
        self
    }

    /// Carries reliable byte streams next to datagrams, if the peer does too
    /// ([`Connection::open_stream`](crate::Connection::open_stream)); off by default. Makes a multipath
    /// session, even over one path.
    pub fn streams(mut self, streams: bool) -> Options {
        self.streams = streams;
        self
    }

    /// Adds a path of a client's connection. The first replaces the address that the system would choose; two
    /// or more make a multipath session.
    pub fn path(mut self, path: Path) -> Options {
        self.paths.push(path);
        self
    }

    /// The scheduler, which chooses the path of each packet; `auto` by default. `SchedulerKind::named("cpf")?`
    /// gets one by its name ([`Named`](crate::Named)); `SchedulerKind::all()` returns all.
    pub fn scheduler(mut self, scheduler: SchedulerKind) -> Options {
        self.settings.scheduler = scheduler;
        self
    }

    /// The reordering of datagrams from several paths; `adaptive` by default.
    /// `ReorderKind::named("passive")?.into()` delivers them as they arrive.
    pub fn reordering(mut self, reordering: ReorderConfig) -> Options {
        self.settings.reordering = reordering;
        self
    }

    /// Maximum number of datagrams that wait to be sent, at least 1; 16 by default. A short queue keeps data
    /// fresh. The limit includes datagrams that the session has taken but not sent; a [`SendPolicy`] that
    /// drops keeps one more.
    pub fn queue(mut self, datagrams: usize) -> Options {
        self.queue = datagrams.max(1);
        self
    }

    /// Longest time that a datagram waits to be sent. Later it is dropped and counted
    /// ([`Stats::expired`](crate::Stats::expired)). No limit by default; set it for media, which loses its
    /// value with age.
    pub fn queue_time(mut self, longest: Duration) -> Options {
        self.queue_time = Some(longest);
        self
    }

    /// The policy for a full send queue; by default the sender waits.
    pub fn send_policy(mut self, policy: SendPolicy) -> Options {
        self.policy = policy;
        self
    }

    /// Maximum number of received datagrams that wait for the application; 4096 by default. Further datagrams
    /// are dropped and counted ([`Stats::unread`](crate::Stats::unread)).
    pub fn receive_queue(mut self, datagrams: usize) -> Options {
        self.receive_queue = datagrams.max(1);
        self
    }

    /// Memory for received datagrams in all connections of a listener or a connector, bytes; 256 MiB by
    /// default. A connection may use at most as much as remains free for the others: half of the total if it
    /// is alone. Further datagrams are dropped and counted as above.
    pub fn receive_memory(mut self, bytes: usize) -> Options {
        self.receive_memory = bytes;
        self
    }

    /// Maximum number of connections that wait to be accepted; 128 by default. Further connections are ended.
    pub fn backlog(mut self, connections: usize) -> Options {
        self.backlog = connections.max(1);
        self
    }

    /// Maximum number of connections of a listener; 16,384 by default. Further connections are refused with
    /// Reset code 9.
    pub fn max_connections(mut self, connections: usize) -> Options {
        self.max_connections = connections.max(1);
        self
    }

    /// Maximum number of connections from one source, an IPv4 address or an IPv6 /64; by default a quarter of
    /// all, at least 16. Further connections are refused with Reset code 9. Does not apply to peers that are
    /// configured by key.
    pub fn max_connections_per_source(mut self, connections: usize) -> Options {
        self.max_per_source = Some(connections.max(1));
        self
    }

    pub(crate) fn per_source(&self) -> usize {
        self.max_per_source.unwrap_or((self.max_connections / 4).max(16))
    }

    /// Largest IP packet, bytes, at least 576; 1500 by default. The interface may have a smaller MTU, and each
    /// path is probed for the size that it carries ([`mtu_probing`](Self::mtu_probing)).
    pub fn mtu(mut self, bytes: u16) -> Options {
        self.mtu = bytes.max(576);
        self
    }

    /// Whether to discover each path's MTU with padded packets (RFC 8899), up to [`mtu`](Self::mtu);
    /// [`PathStats::path_mtu`](crate::PathStats::path_mtu) has the result. Yes by default. Without it, the MTU
    /// is what the system knows: larger packets vanish where a network drops them without an ICMP message.
    /// Switch it off if every path surely carries [`mtu`](Self::mtu), to save a padded packet per connection
    /// and a round trip before datagrams above 1,100 bytes leave.
    pub fn mtu_probing(mut self, probe: bool) -> Options {
        self.mtu_probing = probe;
        self
    }

    /// Timeout for the peer's answer, at each address of its name; 5 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// Starts from the capacity that an earlier connection to the same peer over the same path measured
    /// ([`PathStats::capacity`](crate::PathStats::capacity)), as Careful Resume (RFC 9959) does: once the
    /// initial window is acknowledged, half of the capacity is used at once, and given up on any loss.
    /// Applies to the first connection made with these options, on its first path; CCIDs 3 and 4 ignore it.
    /// Do not use a capacity that is older than [`RESUME_LIFETIME`](crate::RESUME_LIFETIME), or one of a
    /// connection that still runs.
    pub fn resume(mut self, capacity: Remembered) -> Options {
        self.resume = Some(capacity);
        self
    }

    /// Idle time of a path before this end probes the peer; 12 s by default, twice that at a listener, 0 for
    /// never. Set it lower if NATs forget early, or to detect a crashed peer sooner: detection takes up to
    /// this time plus that of [`survive`](Self::survive).
    pub fn keepalive(mut self, idle: Duration) -> Options {
        self.settings.keepalive = Seconds(idle);
        self
    }

    /// How long a connection survives without a working path; 60 s by default.
    pub fn survive(mut self, time: Duration) -> Options {
        self.settings.survive = Seconds(time);
        self
    }

    /// Reports [`Event::Rate`](crate::Event::Rate) when the rate that congestion control allows differs by
    /// this many percent from the last report; checked twenty times a second. 0, never, by default.
    pub fn tell_rate(mut self, percent: u8) -> Options {
        self.rate_change = percent;
        self
    }

    /// Writes packets, congestion control, losses and paths to a qlog file (JSON-SEQ, version 0.3) for qvis
    /// and similar tools: one file for all connections of a listener or a connector. For debugging; it costs
    /// much more than the traffic itself. Without the crate's feature `qlog`, connections and listeners with
    /// this option fail.
    pub fn qlog(mut self, file: impl Into<PathBuf>) -> Options {
        self.qlog = Some(file.into());
        self
    }

    /// Encrypts with this host's private key. Each peer must be configured by its public key, unless a
    /// listener accepts [`any_peer`](Self::any_peer).
    pub fn key(mut self, key: PrivateKey) -> Options {
        self.key = Some(key);
        self
    }

    /// A peer by its public key: the listener that a client connects to, or a client that a listener accepts.
    pub fn peer(self, key: PublicKey) -> Options {
        self.peer_with(key, PresharedKey::default())
    }

    /// Makes a listener with a key accept every client that has a key, in addition to configured peers.
    /// [`Connection::peer_key`](crate::Connection::peer_key) returns the client's key, and `abort_with`
    /// rejects an unwanted client. Traffic is encrypted, and no client can use another's key. But anyone can
    /// make keys, so the limit per source applies
    /// ([`max_connections_per_source`](Self::max_connections_per_source)).
    pub fn any_peer(mut self, any: bool) -> Options {
        self.any_peer = any;
        self
    }

    /// Like [`peer`](Self::peer), with a preshared key.
    pub fn peer_with(mut self, key: PublicKey, preshared: PresharedKey) -> Options {
        self.peers.push((key, preshared));
        self
    }

    /// The `mpdccp_proto` settings of a session, for a custom event loop; `multipath` says whether a client
    /// requests multipath.
    ///
    /// # Errors
    /// Invalid options.
    pub fn session_config(&self, multipath: bool) -> Result<SessionConfig, ConnectError> {
        self.check().map(|()| self.session(multipath))
    }

    /// The DCCP port of the listener.
    pub fn listening_port(&self) -> u16 {
        self.dccp_port
    }

    /// The largest IP packet, bytes.
    pub fn largest_packet(&self) -> u16 {
        self.mtu
    }

    /// Maximum numbers of connections of a listener and of one source.
    pub fn most_connections(&self) -> (usize, usize) {
        (self.max_connections, self.per_source())
    }

    /// Whether a client asks for a multipath session.
    pub fn wants_multipath(&self) -> bool {
        self.multipath || self.streams || self.paths.len() > 1
    }

    /// Rejects invalid options.
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        for service in [self.service].into_iter().chain(self.also_services.iter().copied()) {
            service.map_err(ConnectError::Options)?;
        }
        if self.early_data.len() > MAX_EARLY {
            return Err(ConnectError::Options("early data is too long; expected at most 512 bytes"));
        }
        let Ccid(ccid) = self.settings.ccid;
        if !dccp_proto::ccid::is_known(ccid) {
            return Err(ConnectError::Options(&UNKNOWN_CCID));
        }
        if self.dscp > 63 {
            return Err(ConnectError::Options("invalid DSCP; expected 0 to 63 (a quarter of the TOS byte)"));
        }
        let names = self.paths.iter().filter_map(|path| path.interface.as_ref());
        if names.chain(&self.interface).any(|name| name.parse::<IpAddr>().is_ok()) {
            return Err(ConnectError::Options(
                "the name of an interface is an IP address; give addresses as the local address of a path",
            ));
        }
        match (&self.key, self.peers.is_empty() && !self.any_peer) {
            (None, false) => Err(ConnectError::Options(
                "peers have public keys, but this end has no private key; give it one in the options",
            )),
            (Some(key), false) if self.peers.iter().any(|(peer, _)| *peer == key.public()) => {
                Err(ConnectError::Options(
                    "the peer's public key is this end's own public key; give the key of the other end",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The settings of a session.
    pub(crate) fn session(&self, multipath: bool) -> SessionConfig {
        let session = self.settings.session();
        let connection = dccp_proto::Config {
            service_code: self.service.unwrap_or_default().0,
            also_services: self.also_services.iter().flatten().map(|code| code.0).collect(),
            early_data: self.connection.early_data,
            allow_short_seqnos: self.connection.allow_short_seqnos,
            short_seqnos: self.connection.short_seqnos,
            coverage: self.connection.coverage,
            min_coverage: self.connection.min_coverage,
            check_data_checksum: self.connection.check_data_checksum,
            timestamps: self.connection.timestamps,
            probe_mtu: self.mtu_probing,
            least_request: if self.key.is_none() { dccp_proto::PADDED_REQUEST } else { 0 },
            ..session.connection
        };
        let early_data = self.early_data.clone();
        SessionConfig { multipath, streams: self.streams, early_data, connection, ..session }
    }
}

fn service_code(text: &str) -> Result<ServiceCode, &'static str> {
    text.parse().map_err(|_| {
        "invalid service code; expected SC: and one to four letters, digits or -_+.*/?@, or SC= and a number; examples: SC:chat, SC=7"
    })
}

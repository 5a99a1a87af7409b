use crate::error::UNKNOWN_CCID;
use crate::path::{Encapsulation, Path};
use crate::{ConnectError, SendPolicy};
use dccp_cc::Remembered;
use dccp_net::secure::{PresharedKey, PrivateKey, PublicKey};
use dccp_proto::ServiceCode;
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Fallback, Seconds, SessionConfig, Settings};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Size limit of early data in bytes. It leaves room for the options of a Request.
const MAX_EARLY: usize = 512;

/// Settings of connections. Every setting has a default: `Options::default()` is CCID 5 over UDP.
///
/// ```
/// use dccp_sockets::Options;
/// let options = Options::ccid(2).service("SC:chat").queue(4);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) settings: Settings,
    pub(crate) service: Result<ServiceCode, &'static str>,
    /// Holds only the settings that the methods below set; the other fields are not used.
    pub(crate) connection: dccp_proto::Config,
    pub(crate) also_services: Vec<Result<ServiceCode, &'static str>>,
    pub(crate) early_data: Vec<u8>,
    pub(crate) dccp_port: u16,
    /// UDP port and DCCP port to send from; 0 for any port.
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
    /// The capacity that the next connection starts with.
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
    /// Creates options with this congestion control for data that this end sends. CCID 2 is like TCP, 3 and 4
    /// are TFRC, 5 is BBR, 7 is CUBIC; [`known_ccids`](crate::known_ccids) lists them all. An unknown CCID
    /// causes an error when the options are used.
    pub fn ccid(ccid: u8) -> Options {
        let mut options = Options::default();
        options.settings.ccid = Ccid(ccid);
        options
    }

    /// Sets the Service Code (RFC 4340 section 8.1.2), such as `SC:chat`, `SC=7` or `SC=x1f`. Both ends must
    /// use the same code. The default is 0. An invalid code causes an error when the options are used.
    pub fn service(mut self, code: &str) -> Options {
        self.service = service_code(code);
        self
    }

    /// Adds a Service Code that a listener accepts. [`Connection::service`](crate::Connection::service)
    /// returns the code requested by the client.
    pub fn also_service(mut self, code: &str) -> Options {
        self.also_services.push(service_code(code));
        self
    }

    /// Sets data for the first packet, up to a few hundred bytes. A client sends it in its Request, a
    /// listener in its Response (RFC 4340 sections 8.1.1 and 8.1.3). A peer that accepts such data receives
    /// it before all other datagrams. An attacker who sees a Request can replay it, so send only data that
    /// does no harm if received twice. Not for multipath sessions.
    pub fn early_data(mut self, data: &[u8]) -> Options {
        self.early_data = data.to_vec();
        self
    }

    /// Sets whether to receive data in the peer's first packet. By default, such data is dropped, and a
    /// Data Dropped option reports this to the peer.
    pub fn take_early_data(mut self, take: bool) -> Options {
        self.connection.early_data = take;
        self
    }

    /// Sets whether to use short sequence numbers, which need this setting at both ends and a small window.
    /// They save 4 to 8 bytes per packet, but make forging easier (RFC 4340 section 7.6).
    pub fn short_numbers(mut self, short: bool) -> Options {
        (self.connection.allow_short_seqnos, self.connection.short_seqnos) = (short, short);
        self
    }

    /// Sets how much of this end's data the header checksum covers, if the peer agrees
    /// (RFC 4340 section 9.2): 0 covers all data, 1 none, and n from 2 to 15 the first 4 (n - 1) bytes. Needs
    /// [`Encapsulation::Raw`], because the UDP checksum covers everything.
    pub fn coverage(mut self, coverage: u8) -> Options {
        self.connection.coverage = coverage.min(15);
        self
    }

    /// Sets the minimum checksum coverage of received data, with the same values as
    /// [`coverage`](Self::coverage). The default is 0: the checksum must cover all data.
    pub fn min_coverage(mut self, coverage: u8) -> Options {
        self.connection.min_coverage = coverage.min(15);
        self
    }

    /// Asks the peer to protect its data with a CRC-32c (RFC 4340 section 9.3). Data with a wrong CRC is
    /// dropped.
    pub fn data_checksum(mut self, check: bool) -> Options {
        self.connection.check_data_checksum = check;
        self
    }

    /// Sets whether the Request has a Timestamp option, which excludes the peer's delay from the first
    /// round-trip time. Yes by default.
    pub fn timestamps(mut self, send: bool) -> Options {
        self.connection.timestamps = send;
        self
    }

    /// Sets the UDP port and the DCCP port that a client sends from; by default, any free ports. A listener
    /// behind a NAT must know these ports to [send Listen packets](crate::Listener::send_listen). With this
    /// setting, only one connection is possible at a time.
    pub fn source_ports(mut self, udp: u16, dccp: u16) -> Options {
        self.source_ports = (udp, dccp);
        self
    }

    /// Sets the listener's DCCP port inside UDP; 5001 by default. Has no effect with [`Encapsulation::Raw`].
    pub fn dccp_port(mut self, port: u16) -> Options {
        self.dccp_port = port;
        self
    }

    /// Sets the encapsulation of packets.
    pub fn encapsulation(mut self, encapsulation: Encapsulation) -> Options {
        self.encapsulation = encapsulation;
        self
    }

    /// Uses only this network interface (SO_BINDTODEVICE) for paths that do not set an interface themselves.
    /// By default, any interface.
    pub fn interface(mut self, name: &str) -> Options {
        self.interface = Some(name.to_owned());
        self
    }

    /// Marks packets for policy routing and firewalls (SO_MARK). Needs CAP_NET_ADMIN. No mark by default.
    pub fn mark(mut self, mark: u32) -> Options {
        self.mark = Some(mark);
        self
    }

    /// Sets the DSCP in IP headers (RFC 2474), 0 to 63, by which networks classify packets. 46 is expedited
    /// forwarding, 8 the lowest class; 0 by default. Each end sets the DSCP of the packets that it sends.
    pub fn dscp(mut self, dscp: u8) -> Options {
        self.dscp = dscp;
        self
    }

    /// Requests a multipath session (RFC 9897), to which paths can be added. If the peer does not support
    /// multipath, a plain connection results. Listeners accept both kinds.
    pub fn multipath(mut self, multipath: bool) -> Options {
        self.multipath = multipath;
        self
    }

    /// Allows reliable byte streams alongside datagrams, if the peer allows them too
    /// ([`Connection::open_stream`](crate::Connection::open_stream)). Off by default. If set, the session is
    /// a multipath session, even over a single path.
    pub fn streams(mut self, streams: bool) -> Options {
        self.streams = streams;
        self
    }

    /// Adds a path to a client's connection. Without this setting, there is one path, whose local address the
    /// system chooses. Two or more paths make the connection a multipath session.
    pub fn path(mut self, path: Path) -> Options {
        self.paths.push(path);
        self
    }

    /// Sets the scheduler, which chooses the path of each packet; `auto` by default.
    /// `SchedulerKind::named("cpf")?` returns a scheduler by name ([`Named`](crate::Named)), and
    /// `SchedulerKind::all()` returns all schedulers.
    pub fn scheduler(mut self, scheduler: SchedulerKind) -> Options {
        self.settings.scheduler = scheduler;
        self
    }

    /// Sets how datagrams from several paths are put in order; `adaptive` by default.
    /// `ReorderKind::named("passive")?.into()` delivers datagrams in the order of arrival.
    pub fn reordering(mut self, reordering: ReorderConfig) -> Options {
        self.settings.reordering = reordering;
        self
    }

    /// Sets how many datagrams may be waiting to be sent, at least 1; 16 by default. A short queue keeps data
    /// fresh. The limit includes datagrams that the session has taken from the queue but not sent yet. With a
    /// [`SendPolicy`] that drops datagrams, the queue holds one more.
    pub fn queue(mut self, datagrams: usize) -> Options {
        self.queue = datagrams.max(1);
        self
    }

    /// Sets how long a datagram may wait to be sent before it is dropped and counted
    /// ([`Stats::expired`](crate::Stats::expired)). No limit by default. Set a limit for media, whose value
    /// declines with age.
    pub fn queue_time(mut self, longest: Duration) -> Options {
        self.queue_time = Some(longest);
        self
    }

    /// Sets what happens when the send queue is full. By default, the sender waits.
    pub fn send_policy(mut self, policy: SendPolicy) -> Options {
        self.policy = policy;
        self
    }

    /// Sets how many received datagrams may be waiting for the application; 4096 by default. Further
    /// datagrams are dropped and counted ([`Stats::unread`](crate::Stats::unread)).
    pub fn receive_queue(mut self, datagrams: usize) -> Options {
        self.receive_queue = datagrams.max(1);
        self
    }

    /// Sets the memory in bytes for received datagrams over all connections of a listener or connector; 256
    /// MiB by default. A connection may hold at most as much as remains free, so a single connection can hold
    /// half of it. Further datagrams are dropped and counted, as with [`receive_queue`](Self::receive_queue).
    pub fn receive_memory(mut self, bytes: usize) -> Options {
        self.receive_memory = bytes;
        self
    }

    /// Sets how many connections may wait to be accepted; 128 by default. Further ones are closed.
    pub fn backlog(mut self, connections: usize) -> Options {
        self.backlog = connections.max(1);
        self
    }

    /// Sets how many connections a listener may have; 16,384 by default. Further connections are refused with
    /// Reset code 9.
    pub fn max_connections(mut self, connections: usize) -> Options {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets how many connections one source may have. A source is an IPv4 address or an IPv6 /64. This is the
    /// limit of an empty listener; it becomes smaller as the listener fills. By default it is a quarter of
    /// all connections, but at least 16. Further connections are refused with Reset code 9. Peers configured
    /// by key are not limited.
    pub fn max_connections_per_source(mut self, connections: usize) -> Options {
        self.max_per_source = Some(connections.max(1));
        self
    }

    pub(crate) fn per_source(&self) -> usize {
        self.max_per_source.unwrap_or((self.max_connections / 4).max(16))
    }

    /// Sets the size of the largest IP packet in bytes, at least 576; 1500 by default. The interface may have
    /// a smaller MTU. Each path is probed for the size that it carries ([`mtu_probing`](Self::mtu_probing)).
    pub fn mtu(mut self, bytes: u16) -> Options {
        self.mtu = bytes.max(576);
        self
    }

    /// Sets whether to discover each path's MTU with padded packets (RFC 8899), up to [`mtu`](Self::mtu).
    /// [`PathStats::path_mtu`](crate::PathStats::path_mtu) has the result. Yes by default. Without probing,
    /// the MTU is the one known to the system, and packets are lost if a network drops them without an ICMP
    /// error. If every path is certain to carry [`mtu`](Self::mtu), turning probing off saves a padded packet
    /// per connection, and a round trip before datagrams above 1,100 bytes can be sent.
    pub fn mtu_probing(mut self, probe: bool) -> Options {
        self.mtu_probing = probe;
        self
    }

    /// Sets how long to wait for an answer from each of the peer's addresses; 5 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Options {
        self.connect_timeout = timeout;
        self
    }

    /// Starts with the capacity that an earlier connection to the same peer measured on the same path
    /// ([`PathStats::capacity`](crate::PathStats::capacity)), as in Careful Resume (RFC 9959). As soon as the
    /// initial window is acknowledged, half of the capacity is used at once. A loss ends the resumption. This
    /// applies to the first path of the first connection made with these options; CCIDs 3 and 4 ignore it. Do
    /// not use a capacity older than [`RESUME_LIFETIME`](crate::RESUME_LIFETIME) or from a connection that is
    /// still open.
    pub fn resume(mut self, capacity: Remembered) -> Options {
        self.resume = Some(capacity);
        self
    }

    /// Sets how long a path may be idle before a client probes the peer; 12 s by default, 0 for never. A
    /// listener waits twice as long. Set a lower value if NATs time out quickly, or to detect a crashed peer
    /// sooner. Detection takes up to this time plus [`survive`](Self::survive).
    pub fn keepalive(mut self, idle: Duration) -> Options {
        self.settings.keepalive = Seconds(idle);
        self
    }

    /// Sets how long a connection survives without a working path; 60 s by default.
    pub fn survive(mut self, time: Duration) -> Options {
        self.settings.survive = Seconds(time);
        self
    }

    /// Reports [`Event::Rate`](crate::Event::Rate) when the rate that congestion control allows differs by
    /// this many percent from the last one reported. The rate is checked twenty times a second. 0 by default,
    /// which means never.
    pub fn tell_rate(mut self, percent: u8) -> Options {
        self.rate_change = percent;
        self
    }

    /// Writes packets, congestion control, losses and paths to a qlog file (JSON-SEQ, version 0.3) for qvis
    /// and similar tools. All connections of a listener or connector write to the same file. This is for
    /// debugging: it costs much more than the traffic itself. Unless the crate's feature `qlog` is enabled,
    /// connections and listeners with this option fail.
    pub fn qlog(mut self, file: impl Into<PathBuf>) -> Options {
        self.qlog = Some(file.into());
        self
    }

    /// Encrypts, using this private key for this host. Each peer must be configured by its public key, unless
    /// a listener accepts [`any_peer`](Self::any_peer).
    pub fn key(mut self, key: PrivateKey) -> Options {
        self.key = Some(key);
        self
    }

    /// Adds a peer by its public key: for a client, the listener to connect to; for a listener, a client to
    /// accept.
    pub fn peer(self, key: PublicKey) -> Options {
        self.peer_with(key, PresharedKey::default())
    }

    /// Makes a listener with a key accept every client that has a key, in addition to configured peers.
    /// [`Connection::peer_key`](crate::Connection::peer_key) returns the client's key, and `abort_with`
    /// rejects an unwanted client. Traffic is encrypted, and no client can use another client's key. However,
    /// anyone can create keys, so the limit per source applies
    /// ([`max_connections_per_source`](Self::max_connections_per_source)).
    pub fn any_peer(mut self, any: bool) -> Options {
        self.any_peer = any;
        self
    }

    /// Adds a peer like [`peer`](Self::peer), with a preshared key.
    pub fn peer_with(mut self, key: PublicKey, preshared: PresharedKey) -> Options {
        self.peers.push((key, preshared));
        self
    }

    /// Returns the session settings for `mpdccp_proto`, for programs that have their own event loop.
    /// `multipath` says whether a client requests multipath.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn session_config(&self, multipath: bool) -> Result<SessionConfig, ConnectError> {
        self.check().map(|()| self.session(multipath))
    }

    /// Returns the DCCP port of the listener.
    pub fn listening_port(&self) -> u16 {
        self.dccp_port
    }

    /// Returns the size of the largest IP packet in bytes.
    pub fn largest_packet(&self) -> u16 {
        self.mtu
    }

    /// Returns the maximum number of connections of a listener, in total and from one source.
    pub fn most_connections(&self) -> (usize, usize) {
        (self.max_connections, self.per_source())
    }

    /// Returns whether a client requests a multipath session.
    pub fn wants_multipath(&self) -> bool {
        self.multipath || self.streams || self.paths.len() > 1
    }

    /// Returns an error if the options are invalid.
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
            return Err(ConnectError::Options("invalid DSCP; expected 0 to 63 (the TOS byte / 4)"));
        }
        let names = self.paths.iter().filter_map(|path| path.interface.as_ref());
        if names.chain(&self.interface).any(|name| name.parse::<IpAddr>().is_ok()) {
            return Err(ConnectError::Options(
                "an interface name must not be an IP address; give an address as the local address of a path",
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

    /// Returns the settings of a session.
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
        // Also accept a peer without multipath.
        let fallback = Fallback::Plain;
        SessionConfig { multipath, fallback, streams: self.streams, early_data, connection, ..session }
    }
}

fn service_code(text: &str) -> Result<ServiceCode, &'static str> {
    text.parse().map_err(|_| {
        "invalid service code; expected SC: and one to four letters, digits or -_+.*/?@, or SC= and a number; examples: SC:chat, SC=7"
    })
}

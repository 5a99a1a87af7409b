//! Handshake of the first subflow: exchange of keys, or fallback (RFC 9897 sections 3.3 and 3.6).

use super::private::Private;
use super::subflow::Stage;
use super::{Reason, Role, Session, encode};
use crate::{Counter, Fallback, PathConfig, PathName, SessionConfig, SessionState};
use dccp_proto::{Connection, Extra, Ports, Route};
use dccp_wire::{MpOption, Opt, OptionBuf, Packet, Reset, ResetCode, feature};
use mpdccp_units::Time;

/// Multipath options of a Request or Response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hello<'a> {
    /// Whether the packet has a Change R for Multipath Capable that lists version 0.
    pub(super) version_0: bool,
    /// MP_KEY: connection identifier and keys.
    pub(super) key: Option<(u32, &'a [u8])>,
    /// MP_JOIN: Address ID, connection identifier, nonce.
    pub(super) join: Option<(u8, u32, u32)>,
    /// MP_HMAC directly after MP_JOIN.
    pub(super) join_tag: Option<&'a [u8; 20]>,
    /// A private MP_EXP option of mpdccp.
    pub(super) private: Option<Private>,
    /// The name that the peer gave the path.
    pub(super) name: PathName,
    /// Whether any multipath option on the packet is invalid.
    pub(super) malformed: bool,
}

impl<'a> Hello<'a> {
    pub(super) fn read(packet: &Packet<'a>) -> Hello<'a> {
        let mut hello = Hello::default();
        let mut after_join = false;
        for option in packet.options().map_while(Result::ok) {
            let follows_join = core::mem::take(&mut after_join);
            match option {
                // RFC 9897 section 3.1: the high four bits are the version, and the low four bits are
                // ignored.
                Opt::ChangeR(feature::MULTIPATH_CAPABLE, list) => {
                    hello.version_0 = list.iter().any(|value| value >> 4 == 0);
                }
                Opt::Mp(MpOption::Key { ci, keys }) => hello.key = Some((ci, keys)),
                Opt::Mp(MpOption::Join { addr_id, ci, nonce }) => {
                    hello.join = Some((addr_id, ci, nonce));
                    after_join = true;
                }
                Opt::Mp(MpOption::Hmac(tag)) if follows_join => hello.join_tag = Some(tag),
                Opt::Mp(MpOption::Exp(bytes)) => match Private::read(bytes) {
                    Some(Private::Name(name)) => hello.name = name,
                    private => hello.private = hello.private.or(private),
                },
                Opt::Invalid(46, _) => hello.malformed = true,
                _ => {}
            }
        }
        hello
    }
}

/// A Request that opens a new session.
pub(crate) struct Offer<'a, 'p> {
    pub(crate) cfg: &'a SessionConfig,
    pub(crate) route: Route,
    pub(crate) request: &'a Packet<'p>,
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    /// The [`crate::PeerFilter::id`] of the peer.
    pub(crate) peer: u32,
    pub(crate) ci: u32,
    pub(crate) seed: [u8; 32],
    /// Init Cookie to send with the Response; empty for none.
    pub(crate) cookie: &'a [u8],
    /// Whether the Response may carry application data.
    pub(crate) early: bool,
}

impl Session {
    /// Creates a session that answers a Request. On error, returns the Reset to send instead, and its
    /// counter.
    pub(crate) fn server(now: Time, offer: &Offer<'_, '_>) -> Result<Session, (Reset, Counter)> {
        let hello = Hello::read(offer.request);
        if hello.malformed && offer.cfg.multipath {
            // RFC 9897 section 3.5 suggests the code Option Error. By section 3.6, a malformed MP_KEY closes
            // the subflow. To a plain server, these options are unknown, so it ignores them.
            return Err((reset(ResetCode::OptionError), Counter::MalformedMpOption));
        }
        let mut session = Session::new(offer.cfg.clone(), Role::Server, now, offer.ci, offer.seed);
        // RFC 9897 section 3.2.4: the Response has exactly one key, of a type that the client offered.
        let remote = hello.key.filter(|(_, keys)| hello.version_0 && session.keys.choose(keys));
        match remote {
            Some((ci, _)) if session.multipath => session.keys.remote_ci = ci,
            None if session.multipath && offer.cfg.fallback == Fallback::Refuse => {
                return Err((reset(ResetCode::ConnectionRefused), Counter::RefusedNoMultipath));
            }
            _ => session.multipath = false,
        }
        let mut config = session.connection_config(offer.mtu, offer.overhead);
        // An answer without state cannot keep the Request's data, so it reports the data as dropped.
        config.early_data &= offer.cookie.is_empty();
        let seed = session.seed();
        let mut conn = Connection::server(config, now, offer.route, offer.request, seed)
            .map_err(|reset| (reset, Counter::RefusedRequest))?;
        session.service_code = conn.service_code();
        let mut options = OptionBuf::new();
        session.early_data(&mut conn, offer.early);
        if session.multipath {
            let key = session.keys.negotiated();
            let option = MpOption::Key { ci: session.keys.local_ci, keys: &key };
            options = session.hello().with(|hello| encode(&[option, hello]));
            session.greet(hello.private);
        }
        if !offer.cookie.is_empty() {
            options.push(&Opt::InitCookie(offer.cookie));
        }
        conn.set_extra(Extra::Response, options.as_bytes());
        session.peer = offer.peer;
        let path = PathConfig::new(offer.route, conn.ports(), offer.mtu, offer.overhead);
        let i = session.new_path(PathConfig { name: hello.name, ..path });
        session.paths[i].yields = true;
        session.paths[i].start(now, conn, Stage::Proven);
        Ok(session)
    }

    /// Gives a plain connection the data for its Request or Response, and takes the peer's data from it.
    pub(super) fn early_data(&mut self, conn: &mut Connection, may_send: bool) {
        if !self.multipath {
            if may_send {
                conn.set_early_data(&self.cfg.early_data);
            }
            if let Some(data) = conn.take_early_data() {
                self.deliver_plain(&data);
            }
        }
    }

    /// Client: creates the first connection, whose Request has MP_KEY if multipath is wanted.
    pub(super) fn connect_first(&mut self, now: Time, i: usize, ports: Ports) {
        let PathConfig { route, mtu, overhead, .. } = self.paths[i].cfg;
        let (config, seed) = (self.connection_config(mtu, overhead), self.seed());
        let mut conn = Connection::client(config, now, route, ports, seed);
        self.early_data(&mut conn, true);
        let mut stage = Stage::Proven;
        if self.multipath {
            let key = self.keys.all();
            let option = MpOption::Key { ci: self.keys.local_ci, keys: &key };
            let options = self.hello().with(|hello| self.named(i, &[option, hello]));
            conn.set_extra(Extra::Request, options.as_bytes());
            stage = Stage::KeySent;
        }
        self.paths[i].start(now, conn, stage);
    }

    /// Client: handles the Response to the first Request.
    pub(super) fn on_key_response(&mut self, i: usize, packet: &Packet<'_>) {
        let negotiated = self.paths[i].conn.as_ref().is_some_and(Connection::is_multipath);
        let hello = Hello::read(packet);
        if hello.malformed {
            return self.reset_path(i, ResetCode::OptionError, Counter::MalformedMpOption);
        }
        match hello.key {
            Some((ci, keys)) if negotiated => {
                // RFC 9897 section 3.3: the Response must have exactly one key, of a type that this end
                // offered.
                if MpOption::keys(keys).count() != 1 || !self.keys.choose(keys) {
                    return self.reset_path(i, ResetCode::OptionError, Counter::BadMpKey);
                }
                self.keys.remote_ci = ci;
                self.greet(hello.private);
                self.paths[i].stage = Stage::Proven;
            }
            _ if self.cfg.fallback == Fallback::Plain => {
                self.count(Counter::FallbackToPlain);
                self.multipath = false;
                self.greet(None);
                self.paths[i].stage = Stage::Proven;
            }
            _ => {
                self.reset_path(i, ResetCode::Aborted, Counter::RefusedNoMultipath);
                self.finish(Reason::NoMultipath);
            }
        }
    }

    /// Encodes the options of a Request, including the name of the path for use in the peer's rules.
    pub(super) fn named(&self, i: usize, options: &[MpOption<'_>]) -> OptionBuf {
        let name = self.paths[i].cfg.name;
        let mut options = encode(options);
        // Other implementations may not expect private options on later Requests.
        let ours = self.peer_is_ours || self.state == SessionState::Connecting;
        if name.is_known() && ours {
            Private::Name(name).with(|option| options.push(&Opt::Mp(option)));
        }
        options
    }

    /// Applies the capabilities that the peer announced in the handshake. An earlier attempt may have reached
    /// a peer with other capabilities.
    fn greet(&mut self, private: Option<Private>) {
        self.peer_is_ours = matches!(private, Some(Private::Hello { .. }));
        match private {
            Some(Private::Hello { repairs, flows, fec, streams }) => {
                self.on_hello(repairs, flows, fec, streams)
            }
            _ => self.on_hello(false, false, false, false),
        }
    }

    /// The first subflow is open.
    pub(super) fn on_first_open(&mut self, now: Time, i: usize) {
        self.state = SessionState::Open;
        self.greet_streams();
        let route = self.paths[i].cfg.route;
        // RFC 9897 section 3.2.2: the first subflow has Address ID 0 at both ends.
        self.local_addrs.set_first(&route);
        (self.paths[i].local_addr, self.paths[i].remote_addr) = (Some(0), Some(0));
        if self.role == Role::Server {
            self.events.push_back(super::SessionEvent::Accepted { peer: self.peer });
        }
        self.events.push_back(super::SessionEvent::Opened { multipath: self.multipath });
        // RFC 9897 section 3.3: other subflows may be opened only after the server's Ack has confirmed the
        // handshake.
        for path in self.paths.iter_mut().filter(|p| p.conn.is_none()) {
            path.connect_at = Some(now);
        }
        if !self.multipath {
            self.drop_other_paths(i);
        }
    }
}

pub(super) fn reset(code: ResetCode) -> Reset {
    Reset { code, data: [0; 3] }
}

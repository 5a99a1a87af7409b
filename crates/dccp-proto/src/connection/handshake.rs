//! Opening a connection (RFC 4340 section 8.1).

use super::options::{self, Seen};
use super::outbox::{Control, Outbox};
use super::timers::{Backoff, FOUR_MSL, Timers};
use super::validity::Numbers;
use super::*;
use dccp_wire::{Packet, PacketType, ResetCode};
use rand_core::{RngCore, SeedableRng};

/// Maximum number of Requests and Responses whose send time is kept.
const MAX_HANDSHAKE_TIMES: usize = 8;
/// A Service Code that no server may accept (RFC 4340 section 8.1.2).
const INVALID_SERVICE_CODE: u32 = u32::MAX;

impl Connection {
    /// Creates a client. Its Request leaves with the next `poll_transmit`.
    pub fn client(cfg: Config, now: Time, route: Route, ports: Ports, seed: [u8; 32]) -> Connection {
        let mut connection = Connection::new(cfg, now, route, ports, seed, false);
        connection.outbox.control = Some(Control::Request);
        // RFC 4340 section 8.1.1: the first retransmission is after a second, and the interval doubles up to
        // 64 s.
        connection.timers.retransmit = Some(Backoff::new(now, Duration::from_secs(1)));
        connection
    }

    /// Creates a server that answers `request`. Its Response leaves with the next `poll_transmit`. On error,
    /// returns the Reset to send instead, for example because of a bad Service Code or a failed mandatory
    /// feature (see [`refuse`]).
    pub fn server(
        cfg: Config,
        now: Time,
        route: Route,
        request: &Packet<'_>,
        seed: [u8; 32],
    ) -> Result<Connection, Reset> {
        let refused = |code| Reset { code, data: [0; 3] };
        let header = &request.header;
        if header.ptype != PacketType::Request {
            return Err(refused(ResetCode::NoConnection));
        }
        let mut cfg = cfg;
        let asked = header.service_code.unwrap_or(INVALID_SERVICE_CODE);
        // RFC 4340 section 8.1.2: the Service Code must be valid, and this server must accept it.
        if asked == INVALID_SERVICE_CODE || asked != cfg.service_code && !cfg.also_services.contains(&asked) {
            return Err(refused(ResetCode::BadServiceCode));
        }
        cfg.service_code = asked;
        let ports = Ports { local: header.dst_port, remote: header.src_port };
        let mut connection = Connection::new(cfg, now, route, ports, seed, true);
        connection.numbers.set_isr(header.seq);
        let multipath = connection.cfg.multipath;
        let seen = options::read(request, header.seq, None, multipath, &mut connection.features)?;
        connection.timestamp = seen.timestamp.map(|value| (value, now));
        connection.apply_features(now);
        connection.accept_data(request, header.seq, &seen);
        connection.take_handshake_data(request, &seen);
        connection.outbox.control = Some(Control::Response);
        // RFC 4340 section 8.1.3: a server may leave RESPOND after 4MSL.
        connection.timers.give_up = Some(now + FOUR_MSL);
        Ok(connection)
    }

    fn new(
        cfg: Config,
        now: Time,
        route: Route,
        ports: Ports,
        seed: [u8; 32],
        is_server: bool,
    ) -> Connection {
        let mut rng = ChaCha8Rng::from_seed(seed);
        // RFC 4340 section 7.2: the initial number must be unpredictable, and far from the numbers of any
        // earlier connection.
        let iss = Seq::initial(rng.next_u64());
        let state = if is_server { State::Respond } else { State::Request };
        trace(&route, ports, State::Closed, state);
        let skipped = cfg.skip_numbers.then(|| skipped::Skipped::new(&mut rng));
        Connection {
            features: preferences::negotiator(&cfg, is_server),
            cfg,
            is_server,
            state,
            route,
            ports,
            rng,
            numbers: Numbers::new(iss),
            negotiated: Negotiated::default(),
            halves: None,
            handshake_sent: VecDeque::new(),
            handshake_rtt: None,
            requests_sent: 0,
            listen_received: false,
            last_response: iss,
            last_sync: None,
            followed: None,
            cookies: Vec::new(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            extras: Default::default(),
            skipped,
            ndp_run: 0,
            drops: dropped::DropReport::default(),
            peer_drops: dropped::PeerDrops::default(),
            ecn: ecn::EcnPath::default(),
            timestamp: None,
            echo_after: Time::ZERO,
            slow_receiver: false,
            early_data: Vec::new(),
            early_received: None,
            error_text: Vec::new(),
            peer_error_text: None,
            pmtu: None,
            last_valid: now,
            last_answered: now,
            answers_full_at: now,
            closing: None,
            events: VecDeque::new(),
            stats: ConnectionStats::default(),
            scratch: OptionBuf::new(),
        }
    }

    /// A Request or Response was sent.
    pub(super) fn on_handshake_sent(&mut self, now: Time, seq: Seq) {
        self.handshake_sent.push_back((seq, now));
        if self.handshake_sent.len() > MAX_HANDSHAKE_TIMES {
            self.handshake_sent.pop_front();
        }
    }

    /// A Listen says that the server is ready and that its middlebox is open, so packets that were lost
    /// before may now pass (RFC 5596 section 2.2.3.1).
    pub(super) fn on_listen(&mut self, now: Time, service_code: Option<u32>) {
        // RFC 5596 section 2.2.3: in all other states, a Listen is ignored. Several Listens trigger only one
        // retransmission.
        if self.state != State::Request || self.listen_received || service_code != Some(self.cfg.service_code)
        {
            return;
        }
        self.listen_received = true;
        if let Some(retransmit) = &mut self.timers.retransmit {
            retransmit.back_off(now);
            // Retransmit even if no retries are left. Otherwise a forged Listen could end the connection
            // attempt.
            self.outbox.control = Some(Control::Request);
        }
    }

    /// Measures the round-trip time of the handshake. `held` is how long the peer waited before answering.
    fn measure_handshake(&mut self, now: Time, ack: Option<Seq>, held: Duration) {
        let sent = self.handshake_sent.iter().find(|(seq, _)| Some(*seq) == ack);
        self.handshake_rtt = sent.map(|(_, at)| now.since(*at)).map(|rtt| match rtt.checked_sub(held) {
            Some(without) if !without.is_zero() => without,
            _ => rtt,
        });
        self.handshake_sent.clear();
    }

    /// Keeps the data of the first Request or Response that arrives. Retransmissions repeat the same data
    /// (RFC 4340 section 8.1.3). The caller must also call [`accept_data`](Self::accept_data), which reports
    /// corrupt data.
    pub(super) fn take_handshake_data(&mut self, packet: &Packet<'_>, seen: &Seen<'_>) {
        if packet.payload.is_empty() || seen.corrupt {
            return;
        }
        let refused = if !self.cfg.early_data {
            DropReason::DataNotAllowed
        } else if self.covers_too_little(packet.header.cscov) {
            DropReason::Coverage
        } else {
            self.early_received = Some(packet.payload.into());
            return;
        };
        self.count_drop(refused);
        self.drops.note(packet.header.seq, dropped::PROTOCOL_CONSTRAINTS);
    }

    /// Step 10 of RFC 4340 section 8.5: the Response arrived.
    pub(super) fn enter_part_open(&mut self, now: Time, ack: Option<Seq>, held: Duration) {
        self.enter(State::PartOpen);
        self.measure_handshake(now, ack, held);
        // RFC 4340 section 8.1.5: the timer is about 200 ms, and each packet restarts it. PARTOPEN ends after
        // 4MSL.
        self.timers.retransmit = Some(Backoff::new(now, Duration::from_millis(200)));
        self.timers.give_up = Some(now + FOUR_MSL);
        self.outbox.control = None;
        self.outbox.ack = true;
        self.events.push_back(Event::Responded);
        self.make_halves(now);
    }

    /// Steps 11 and 12 of RFC 4340 section 8.5: the handshake is complete.
    pub(super) fn enter_open(&mut self, now: Time, seq: Seq, ack: Option<Seq>) {
        self.enter(State::Open);
        self.numbers.osr = seq;
        self.timers.retransmit = None;
        self.timers.give_up = None;
        self.outbox.control = None;
        self.cookies.clear();
        self.features.establish();
        // RFC 9897 section 3.1: Multipath Capable is negotiated only in the handshake.
        self.features.retire(feature::MULTIPATH_CAPABLE);
        if self.is_server {
            self.measure_handshake(now, ack, Duration::ZERO);
            self.make_halves(now);
            // RFC 9897 section 3.3: this Ack tells the client that its HandshakeAck arrived.
            self.outbox.ack |= self.cfg.ack_on_open;
        }
        self.apply_features(now);
        if self.state == State::Open {
            self.events.push_back(Event::Opened);
        }
    }
}

//! Two connections and the network between them, in virtual time.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub use dccp_proto::Outbox;
use dccp_proto::{Config, Connection, Ecn, Event, Extra, Gate, Outcome, Ports, Route, State, refuse};
use dccp_wire::{Header, Packet, PacketType, Reset, ResetCode, Seq};
use mpdccp_linkem::InFlight;
use mpdccp_units::{Duration, Time};
use std::collections::VecDeque;

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// Length of the IP and UDP headers, as assumed by the harness.
pub const OVERHEAD: usize = 28;

/// Fate of a packet in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Deliver,
    Drop,
    /// The packet is delivered with this delay on top of the normal one.
    Late(Duration),
    Twice,
    /// Two copies of the packet are delivered, with these delays on top of the normal one.
    Copies(Duration, Duration),
    Mark,
    /// The network clears the ECN field.
    Bleach,
}

/// A sent packet: the sender, the time, and the packet's number among those from that side.
#[derive(Clone, Debug)]
pub struct Sent {
    pub from: usize,
    pub at: Time,
    pub index: usize,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
}

impl Sent {
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).unwrap()
    }

    pub fn ptype(&self) -> PacketType {
        self.packet().header.ptype
    }
}

pub type Network = Box<dyn FnMut(&Sent) -> Fate>;

pub struct Net {
    pub now: Time,
    pub ends: [Option<Connection>; 2],
    pub server_cfg: Config,
    pub server_seed: [u8; 32],
    pub delay: Duration,
    pub network: Network,
    /// All sent packets, including lost ones.
    pub log: Vec<Sent>,
    pub events: [Vec<Event>; 2],
    pub delivered: [Vec<Vec<u8>>; 2],
    pub to_send: [VecDeque<Vec<u8>>; 2],
    counts: [usize; 2],
    flying: InFlight<Sent>,
}

pub fn route() -> Route {
    Route { socket: 0, local: None, remote: "192.0.2.1:6511".parse().unwrap() }
}

pub fn new_client(cfg: Config, now: Time) -> Connection {
    Connection::client(cfg, now, route(), Ports { local: 5001, remote: 5002 }, [7; 32])
}

pub fn emit(header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.packet_len(options.len(), payload.len())];
    header.emit(options, &mut bytes).copy_from_slice(payload);
    bytes
}

/// Opens a connection that uses the same CCID in both directions.
pub fn open(ccid: u8) -> Net {
    Net::pair(Config { tx_ccids: vec![ccid], rx_ccids: vec![ccid], ..Config::default() })
}

/// Returns a client that has received a Response with these options, the Response's header, and the time. The
/// client's Ack carries the options `extra`.
pub fn answered(extra: &[u8], options: &[u8]) -> (Connection, Header, Time) {
    let now = Time::from_millis(5);
    let mut client = new_client(Config::default(), now);
    client.set_extra(Extra::HandshakeAck, extra);
    let mut wire = Outbox::new();
    client.poll_transmit(now, &mut wire);
    let request = Packet::parse(&wire[0].2).unwrap().header;
    let response = Header {
        ptype: PacketType::Response,
        src_port: 5002,
        dst_port: 5001,
        ack: Some(request.seq),
        seq: Seq::new(77),
        ..request
    };
    hear(&mut client, now, &response, options);
    (client, response, now)
}

/// Delivers a packet to a client.
pub fn hear(client: &mut Connection, now: Time, header: &Header, options: &[u8]) {
    let bytes = emit(header, options, &[]);
    client.handle_packet(now, Ecn::NotEct, 100, &Packet::parse(&bytes).unwrap());
}

impl Net {
    pub fn new(client: Config, server: Config) -> Net {
        let now = Time::from_millis(1000);
        Net {
            now,
            ends: [Some(new_client(client, now)), None],
            server_cfg: server,
            server_seed: [9; 32],
            delay: Duration::from_millis(20),
            network: Box::new(|_| Fate::Deliver),
            log: Vec::new(),
            events: Default::default(),
            delivered: Default::default(),
            to_send: Default::default(),
            counts: [0; 2],
            flying: InFlight::default(),
        }
    }

    /// Creates a pair with both ends in OPEN and no packet in flight.
    pub fn open(client: Config, server: Config) -> Net {
        let mut net = Net::new(client, Config { ack_on_open: true, ..server });
        net.run(Duration::from_millis(500));
        assert_eq!(net.states(), [State::Open, State::Open]);
        net
    }

    /// Creates such a pair whose ends have the same configuration.
    pub fn pair(cfg: Config) -> Net {
        Net::open(cfg.clone(), cfg)
    }

    pub fn end(&mut self, side: usize) -> &mut Connection {
        self.ends[side].as_mut().unwrap()
    }

    /// Closes the connection at this end. `at_peer` tells that the peer is to hold TIMEWAIT.
    pub fn close(&mut self, side: usize, at_peer: bool) {
        let now = self.now;
        self.end(side).close(now, at_peer);
    }

    pub fn gate(&mut self, side: usize) -> Gate {
        let now = self.now;
        self.end(side).gate(now)
    }

    pub fn state(&self, side: usize) -> State {
        self.ends[side].as_ref().map_or(State::Closed, |c| c.state())
    }

    pub fn states(&self) -> [State; 2] {
        [self.state(CLIENT), self.state(SERVER)]
    }

    /// Returns the packet types sent by `side` so far.
    pub fn types(&self, side: usize) -> Vec<PacketType> {
        self.log.iter().filter(|s| s.from == side).map(Sent::ptype).collect()
    }

    pub fn last(&self, side: usize) -> &Sent {
        self.log.iter().rfind(|s| s.from == side).unwrap()
    }

    pub fn send(&mut self, side: usize, payload: &[u8]) {
        self.to_send[side].push_back(payload.to_vec());
    }

    /// Sends the same datagram `times` times.
    pub fn send_many(&mut self, side: usize, times: usize, payload: &[u8]) {
        (0..times).for_each(|_| self.send(side, payload));
    }

    /// Sends the same datagram `times` times, once every `interval`.
    pub fn send_paced(&mut self, side: usize, times: usize, payload: &[u8], interval: Duration) {
        for _ in 0..times {
            self.send(side, payload);
            self.run(interval);
        }
    }

    /// Delivers bytes to one end as the network would. Returns whether they form a valid packet.
    pub fn inject(&mut self, to: usize, bytes: &[u8], ecn: Ecn) -> bool {
        let Ok(packet) = Packet::parse(bytes) else { return false };
        let len = (bytes.len() + OVERHEAD) as u32;
        if self.ends[to].is_none() {
            if to == CLIENT {
                return false;
            }
            let made =
                Connection::server(self.server_cfg.clone(), self.now, route(), &packet, self.server_seed);
            match made {
                Ok(connection) => self.ends[to] = Some(connection),
                Err(reset) => {
                    let mut wire = Outbox::new();
                    refuse(&packet, reset, &[], &route(), &mut wire);
                    self.launch(to, wire);
                }
            }
            return true;
        }
        let end = self.ends[to].as_mut().unwrap();
        match end.handle_packet(self.now, ecn, len, &packet) {
            Outcome::Received(received) => {
                if let Some(data) = received.data {
                    self.delivered[to].push(data.to_vec());
                }
                true
            }
            Outcome::Dropped(_) => false,
        }
    }

    /// Returns a header that `from` could send, with the given numbers.
    pub fn forge(&self, from: usize, ptype: PacketType, seq: Seq, ack: Option<Seq>) -> Header {
        let ports = if from == CLIENT { (5001, 5002) } else { (5002, 5001) };
        let reset = Some(Reset { code: ResetCode::Closed, data: [0; 3] });
        Header { ack, service_code: Some(0), reset, ..Header::new(ports, ptype, seq) }
    }

    /// Returns the newest sequence number used by `from`.
    pub fn gss(&self, from: usize) -> Seq {
        self.last(from).packet().header.seq
    }

    /// Returns a header of the next packet of `from`, with valid numbers.
    pub fn next_from(&self, from: usize, ptype: PacketType) -> Header {
        self.forge(from, ptype, self.gss(from).next(), Some(self.gss(1 - from)))
    }

    /// Delivers a forged packet at once and sends the answers. Returns whether the receiver accepted it as
    /// valid.
    pub fn strike(&mut self, from: usize, header: &Header, options: &[u8], payload: &[u8]) -> bool {
        let bytes = emit(header, options, payload);
        let valid = self.inject(1 - from, &bytes, Ecn::NotEct);
        self.pump();
        valid
    }

    /// Sends everything that either end has to send now.
    pub fn pump(&mut self) {
        for side in [CLIENT, SERVER] {
            let Some(end) = self.ends[side].as_mut() else { continue };
            let mut wire = Outbox::new();
            for _ in 0..1000 {
                let mut busy = end.poll_transmit(self.now, &mut wire);
                if !self.to_send[side].is_empty() && matches!(end.gate(self.now), Gate::Open { .. }) {
                    let payload = self.to_send[side].pop_front().unwrap();
                    end.transmit(self.now, &[], &payload, &mut wire);
                    busy = true;
                }
                if !busy {
                    break;
                }
            }
            while let Some(event) = end.poll_event() {
                self.events[side].push(event);
            }
            self.launch(side, wire);
        }
    }

    fn launch(&mut self, from: usize, wire: Outbox) {
        for (_, ecn, bytes) in wire {
            let sent = Sent { from, at: self.now, index: self.counts[from], ecn, bytes };
            self.counts[from] += 1;
            self.log.push(sent.clone());
            let arrival = self.now + self.delay;
            let mut fly = |at, sent| self.flying.push(at, sent);
            match (self.network)(&sent) {
                Fate::Deliver => fly(arrival, sent),
                Fate::Drop => {}
                Fate::Late(more) => fly(arrival + more, sent),
                Fate::Twice => {
                    fly(arrival, sent.clone());
                    fly(arrival + Duration::from_micros(10), sent);
                }
                Fate::Copies(first, second) => {
                    fly(arrival + first, sent.clone());
                    fly(arrival + second, sent);
                }
                Fate::Bleach => fly(arrival, Sent { ecn: Ecn::NotEct, ..sent }),
                Fate::Mark => fly(arrival, Sent { ecn: Ecn::Ce, ..sent }),
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let timers = self.ends.iter().flatten().filter_map(|c| c.poll_timeout()).map(|(at, _)| at);
        let gates =
            [CLIENT, SERVER].into_iter().filter(|s| !self.to_send[*s].is_empty()).filter_map(|s| match self
                .ends[s]
                .as_ref()?
                .gate(self.now)
            {
                Gate::At(at, _) => Some(at),
                _ => None,
            });
        timers.chain(gates).chain(self.flying.next_arrival()).min()
    }

    /// Runs for `d` of virtual time.
    pub fn run(&mut self, d: Duration) {
        let end = self.now + d;
        let mut steps = 0u64;
        loop {
            self.pump();
            let Some(next) = self.next().filter(|at| *at <= end) else { break };
            steps += 1;
            assert!(steps < 2_000_000, "endless loop at {:?}", self.now);
            self.now = self.now.max(next);
            while let Some((_, sent)) = self.flying.pop(self.now) {
                self.inject(1 - sent.from, &sent.bytes, sent.ecn);
                // Send pending packets after every input. Otherwise several Acks would merge into one.
                self.pump();
            }
            for end in self.ends.iter_mut().flatten() {
                if end.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }
}

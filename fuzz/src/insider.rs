//! A hostile peer with valid keys, the insider. It completes handshakes, then sends packets with valid HMACs.

mod frames;

use crate::ends::End::{self, Client, Server};
use crate::ends::{Net, PORT, client_addr, client_route, datagram};
use crate::unstructured::Unstructured;
use crate::{packets, session};
use dccp_proto::{Ecn, Route};
use dccp_wire::{
    Header, MpOption, Opt, OptionBuf, Packet, PacketType, Reset, ResetCode, RttType, Seq, feature,
};
use hmac::{Hmac, Mac};
use mpdccp_proto::{PktInfo, SessionConfig};
use mpdccp_units::Duration;
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of steps in a run. No input is long enough for more steps.
const STEPS: usize = 200;
/// Maximum number of subflows that the insider has at a time.
const SUBFLOWS: usize = 12;

/// The insider's state for one connection.
#[derive(Clone, Debug)]
struct Subflow {
    /// Index of the insider's address.
    place: usize,
    /// The insider's port and the victim's port.
    ports: (u16, u16),
    /// The next sequence number to send, and the greatest one received.
    seq: Seq,
    gsr: Seq,
    /// The nonces of a join, the insider's first.
    nonces: (u32, u32),
}

struct Insider {
    victim: End,
    /// Both keys, their common type, and both connection identifiers.
    key: Vec<u8>,
    its_key: Vec<u8>,
    kind: u8,
    ci: u32,
    its_ci: u32,
    mp_seq: Seq,
    subflows: Vec<Subflow>,
    /// Number of ports that the insider has used so far.
    opened: u16,
}

/// Fuzzes a listener with a hostile client, or a client with a hostile server. Sequence numbers and MP_SEQ
/// start at any value, often just below a limit.
pub fn insider(bytes: &[u8]) {
    let input = &mut Unstructured::new(bytes);
    let cfg = SessionConfig { streams: input.one_in(2), joinable: input.one_in(2), ..session::config(input) };
    let mut net = Net::new(3, 2, cfg.clone());
    let victim = input.pick(&[Server, Client]);
    let key_len = if input.one_in(4) { 64 } else { 8 };
    let mut insider = Insider {
        victim,
        key: (0..key_len).map(|_| input.byte()).collect(),
        its_key: Vec::new(),
        kind: if key_len == 64 { 255 } else { 0 },
        ci: input.number(),
        its_ci: 0,
        mp_seq: first_number(input),
        subflows: Vec::new(),
        opened: 0,
    };
    let id = match victim {
        Server => {
            insider.open(input, &mut net, None);
            None
        }
        Client => {
            let id = net.client.connect(net.now, cfg, crate::ends::path(0));
            let _ = net.client.add_path(net.now, id, crate::ends::path(1));
            insider.fetch(input, &mut net);
            Some(id)
        }
    };
    for _ in 0..STEPS {
        if input.is_done() {
            break;
        }
        let id = id.or_else(|| net.server.sessions().first().copied());
        match input.below(16) {
            0..=2 => {
                let time = Duration::from_millis(input.pick(&[1, 10, 30, 90, 700, 3000, 70_000]));
                insider.wait(input, &mut net, time);
            }
            3 => {
                for n in 0..=input.below(40) {
                    let (now, info) = (net.now, PktInfo { flow: n as u32 % 4, ..PktInfo::default() });
                    id.into_iter().for_each(|id| net.end(victim).send(now, id, datagram(n as u32), info));
                }
            }
            7 if input.one_in(2) => {
                let now = net.now;
                if let Some(id) = id {
                    net.end(victim).streams(now, id, |streams| frames::use_streams(input, streams));
                }
            }
            4 => insider.join(input, &mut net),
            5 if input.one_in(4) => {
                let now = net.now;
                id.into_iter().for_each(|id| net.end(victim).close(now, id));
            }
            6 | 7 => insider.burst(input, &mut net),
            _ => insider.say(input, &mut net),
        }
        insider.fetch(input, &mut net);
        assert!(net.end(victim).sessions().len() <= 70, "too many sessions");
    }
    for id in net.end(victim).sessions() {
        let now = net.now;
        net.end(victim).abort(now, id);
    }
    // From now on, the insider does not answer.
    insider.subflows.clear();
    insider.wait(&mut Unstructured::new(&[]), &mut net, Duration::from_secs(1_400));
    assert!(net.end(victim).sessions().is_empty(), "a session did not end");
}

fn first_number(input: &mut Unstructured<'_>) -> Seq {
    match input.below(4) {
        0 => Seq::new(Seq::MODULUS - 1 - input.below(200) as u64),
        1 => Seq::new((1 << 24) - input.below(200) as u64),
        2 => Seq::new(input.long()),
        _ => Seq::new(input.below(4) as u64),
    }
}

impl Insider {
    fn route(&self, place: usize) -> Route {
        match self.victim {
            Server => Route { socket: 0, local: None, remote: SocketAddr::new(client_addr(place), 40_000) },
            Client => client_route(place % 2),
        }
    }

    fn inject(&self, input: &mut Unstructured<'_>, net: &mut Net, place: usize, bytes: &[u8]) {
        let ecn = if input.one_in(8) { Ecn::from_bits(input.byte()) } else { Ecn::Ect0 };
        net.inject(self.victim, self.route(place), ecn, bytes);
    }

    /// Receives the victim's packets and answers handshakes.
    fn fetch(&mut self, input: &mut Unstructured<'_>, net: &mut Net) {
        // Four rounds are enough, because an answer rarely causes another answer.
        for _ in 0..4 {
            let sent = net.intercept(self.victim);
            while net.end(self.victim).poll_deliver().is_some() {}
            while net.end(self.victim).poll_event().is_some() {}
            if sent.is_empty() {
                return;
            }
            for bytes in sent {
                self.hear(input, net, &bytes);
            }
        }
    }

    fn hear(&mut self, input: &mut Unstructured<'_>, net: &mut Net, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { panic!("the victim's packet is invalid") };
        let header = packet.header;
        let ports = (header.dst_port, header.src_port);
        if header.ptype == PacketType::Request && self.subflows.len() < SUBFLOWS {
            return self.respond(input, net, &packet);
        }
        let Some(at) = self.subflows.iter().position(|flow| flow.ports == ports) else { return };
        self.subflows[at].gsr = header.seq;
        if header.ptype != PacketType::Response {
            return;
        }
        let mut join = false;
        for option in packet.options().map_while(Result::ok) {
            match option {
                Opt::Mp(MpOption::Key { ci, keys }) => {
                    self.its_ci = ci;
                    self.its_key = keys.get(1..).unwrap_or_default().to_vec();
                }
                Opt::Mp(MpOption::Join { nonce, .. }) => {
                    (self.subflows[at].nonces.1, join) = (nonce, true);
                }
                _ => {}
            }
        }
        let mut options = OptionBuf::new();
        if join {
            let (ours, its) = self.subflows[at].nonces;
            let tag = self.tag(&[&ours.to_be_bytes(), &its.to_be_bytes()]);
            options.push(&Opt::Mp(MpOption::Hmac(&tag)));
        }
        options.extend(&agree(&packet));
        self.send(input, net, at, PacketType::Ack, options.as_bytes(), &[]);
    }

    /// Sends a Response, as a hostile server.
    fn respond(&mut self, input: &mut Unstructured<'_>, net: &mut Net, packet: &Packet<'_>) {
        let mut options = OptionBuf::new();
        options.push(&Opt::ConfirmL(feature::MULTIPATH_CAPABLE, &[0, 0]));
        let mut nonces = (input.number(), 0);
        for option in packet.options().map_while(Result::ok) {
            match option {
                Opt::Mp(MpOption::Key { ci, keys }) => {
                    self.its_ci = ci;
                    let Some((kind, key)) = MpOption::keys(keys).next() else { continue };
                    (self.kind, self.its_key) = (kind.number(), key.to_vec());
                    self.key.resize(key.len(), 7);
                    let list = [&[self.kind], &self.key[..]].concat();
                    options.push(&Opt::Mp(MpOption::Key { ci: self.ci, keys: &list }));
                    options.push(&Opt::Mp(MpOption::Exp(&frames::hello(input))));
                }
                Opt::Mp(MpOption::Join { nonce, .. }) => {
                    nonces.1 = nonce;
                    let tag = self.tag(&[&nonces.0.to_be_bytes(), &nonce.to_be_bytes()]);
                    options.push(&Opt::Mp(MpOption::Join {
                        addr_id: input.byte() % 4,
                        ci: self.its_ci,
                        nonce: nonces.0,
                    }));
                    options.push(&Opt::Mp(MpOption::Hmac(&tag)));
                }
                _ => {}
            }
        }
        options.extend(&agree(packet));
        let header = packet.header;
        let ports = (header.dst_port, header.src_port);
        self.subflows.retain(|flow| flow.ports != ports);
        self.subflows.push(Subflow { place: 0, ports, seq: first_number(input), gsr: header.seq, nonces });
        let at = self.subflows.len() - 1;
        // The insider does not know the path of the Request, so it tries both. On the wrong path, the victim
        // has no such connection, so it ignores the Response and sets no timer.
        for place in 0..2 {
            self.subflows[at].place = place;
            let seq = self.subflows[at].seq;
            self.send(input, net, at, PacketType::Response, options.as_bytes(), &[]);
            if net.end(self.victim).poll_timeout().is_some_and(|(at, _)| at > net.now) {
                self.subflows[at].seq = seq;
            } else {
                break;
            }
        }
    }

    /// Sends the Request of a join if `join` has a nonce, and otherwise the Request of the first subflow.
    fn open(&mut self, input: &mut Unstructured<'_>, net: &mut Net, join: Option<u32>) {
        let place = self.subflows.len();
        let flow = Subflow {
            place: place % 4,
            ports: (50_000 + self.opened, PORT),
            seq: first_number(input),
            gsr: Seq::default(),
            nonces: (join.unwrap_or(0), 0),
        };
        self.subflows.push(flow);
        self.opened += 1;
        let mut options = OptionBuf::new();
        options.push(&Opt::ChangeR(feature::MULTIPATH_CAPABLE, &[0]));
        let list = [&[self.kind], &self.key[..]].concat();
        match join {
            Some(nonce) => {
                options.push(&Opt::Mp(MpOption::Join { addr_id: input.byte() % 4, ci: self.its_ci, nonce }))
            }
            None => {
                options.push(&Opt::Mp(MpOption::Key { ci: self.ci, keys: &list }));
                options.push(&Opt::Mp(MpOption::Exp(&frames::hello(input))))
            }
        };
        self.send(input, net, place, PacketType::Request, options.as_bytes(), &[]);
        self.fetch(input, net);
    }

    fn join(&mut self, input: &mut Unstructured<'_>, net: &mut Net) {
        if self.subflows.len() < SUBFLOWS {
            let nonce = input.number();
            self.open(input, net, Some(nonce));
        } else {
            self.subflows.remove(input.below(SUBFLOWS));
        }
    }

    fn wait(&mut self, input: &mut Unstructured<'_>, net: &mut Net, time: Duration) {
        let end = net.now + time;
        for turn in 0.. {
            assert!(turn < 1_000_000, "time does not advance at {:?}", net.now);
            let next = net.end(self.victim).poll_timeout().map(|(at, _)| at);
            let Some(next) = next.filter(|at| *at <= end) else { break };
            net.now = next.max(net.now);
            let now = net.now;
            net.end(self.victim).handle_timeout(now);
            self.fetch(input, net);
        }
        net.now = end;
    }

    /// Sends many data packets at once, to exercise reordering, repair and FEC.
    fn burst(&mut self, input: &mut Unstructured<'_>, net: &mut Net) {
        let (step, payload) = (input.below(3) as u64 + input.below(2) as u64 * 1_000, input.below(1400));
        let payload = vec![input.byte(); payload];
        for n in 0..input.below(60) {
            if self.subflows.is_empty() {
                return;
            }
            self.mp_seq = self.mp_seq.add(step);
            let mut options = OptionBuf::new();
            let fec =
                [&frames::MAGIC[..], &[4, input.byte()], &self.mp_seq.value().to_be_bytes()[2..]].concat();
            options.push(&match n % 8 {
                7 if step == 2 => Opt::Mp(MpOption::Exp(&fec)),
                _ => Opt::Mp(MpOption::Seq(self.mp_seq)),
            });
            let at = n % self.subflows.len();
            self.send(input, net, at, PacketType::Data, options.as_bytes(), &payload);
        }
    }

    /// Sends a packet of any type with any options. The sequence number is correct or nearly correct.
    fn say(&mut self, input: &mut Unstructured<'_>, net: &mut Net) {
        if self.subflows.is_empty() {
            return;
        }
        let at = input.below(self.subflows.len());
        let types = [4, 4, 2, 3, 3, 8, 9, 0, 1, 5, 6, 7, 10];
        let known = if input.one_in(6) { types.len() } else { 7 };
        let ptype = PacketType::from_number(types[input.below(known)]);
        let mut options = Vec::new();
        if !input.one_in(4) {
            // The Ack Vector acknowledges packets sent by the victim.
            push(&mut options, Opt::AckVector(false, &vec![63; input.below(4) + 1]));
        }
        let keys = [self.its_key.clone(), self.key.clone()];
        for _ in 0..input.below(6) {
            let (small, number) = (input.byte(), input.number());
            let seq = match small % 8 {
                0..=3 => self.mp_seq.next(),
                4 => input.near(self.mp_seq),
                5 => self.mp_seq.add(1 << 47),
                6 => Seq::new(Seq::MODULUS - 1),
                _ => Seq::new(input.long()),
            };
            match input.below(18) {
                0..=3 => {
                    push(&mut options, Opt::Mp(MpOption::Seq(seq)));
                    if input.one_in(4) { self.mp_seq = seq } else { self.mp_seq = self.mp_seq.next() }
                }
                4 | 5 => {
                    let addr = client_addr(usize::from(small) % 6);
                    let (addr_id, port) = (small % 16, (number % 2 == 0).then_some(number as u16));
                    push(&mut options, Opt::Mp(MpOption::AddAddr { addr_id, nonce: number, addr, port }));
                    let IpAddr::V4(ip) = addr else { continue };
                    let parts = (number.to_be_bytes(), port.unwrap_or(0).to_be_bytes());
                    let tag = self.tag(&[&[addr_id], &parts.0, &ip.octets(), &parts.1]);
                    push(&mut options, Opt::Mp(MpOption::Hmac(&tag)));
                }
                6 => {
                    let addr_id = small % 16;
                    push(&mut options, Opt::Mp(MpOption::RemoveAddr { addr_id, nonce: number }));
                    let tag = self.tag(&[&[addr_id], &number.to_be_bytes()]);
                    push(&mut options, Opt::Mp(MpOption::Hmac(&tag)));
                }
                7 => push(&mut options, Opt::Mp(MpOption::Prio(small % 16))),
                8 => {
                    let kind =
                        [RttType::Raw, RttType::Min, RttType::Max, RttType::Smooth, RttType::Other(small)];
                    let kind = kind[usize::from(small) % 5];
                    push(&mut options, Opt::Mp(MpOption::Rtt { kind, rtt_ms: number, age_ms: number >> 3 }));
                }
                9 => {
                    let mut list = Vec::new();
                    push(&mut list, Opt::Mp(MpOption::Seq(seq)));
                    push(&mut list, Opt::Mp(MpOption::Prio(small % 16)));
                    list.extend(packets::options(input));
                    list.truncate(200);
                    push(&mut options, Opt::Mp(MpOption::Confirm(&list)));
                }
                10 if input.one_in(4) => {
                    push(&mut options, Opt::Mp(MpOption::Close(&keys[usize::from(small) % 2])))
                }
                11 if input.one_in(4) => {
                    push(&mut options, Opt::Mp(MpOption::FastClose(&keys[usize::from(small) % 2])))
                }
                12 => {
                    // Either one of this stack's private options, or the option that marks stream packets.
                    let mut private = [&frames::MAGIC[..], &[small % 6]].concat();
                    let len = [2, 2, 2, 4, 7, 0][usize::from(small % 6)];
                    private.extend((0..len).map(|_| input.byte()));
                    if small > 240 {
                        private.clear();
                    }
                    push(&mut options, Opt::Mp(MpOption::Exp(&private)));
                }
                13 => push(
                    &mut options,
                    Opt::Mp(MpOption::Join { addr_id: small % 4, ci: self.its_ci, nonce: number }),
                ),
                14 => {
                    let list = [&[self.kind], &self.key[..]].concat();
                    push(&mut options, Opt::Mp(MpOption::Key { ci: self.ci, keys: &list }));
                }
                15 => {
                    let (ours, its) = self.subflows[at].nonces;
                    let tag = self.tag(&[&ours.to_be_bytes(), &its.to_be_bytes()]);
                    push(&mut options, Opt::Mp(MpOption::Hmac(&tag)));
                }
                _ => options.extend(packets::options(input)),
            }
        }
        options.truncate(900);
        let most = if input.one_in(4) { 1400 } else { 60 };
        let payload = match input.below(4) {
            0 => {
                options.clear();
                push(&mut options, Opt::Mp(MpOption::Exp(&[])));
                frames::stream_packet(input)
            }
            _ => input.bytes(most),
        };
        self.send(input, net, at, ptype, &options, &payload);
    }

    fn send(
        &mut self,
        input: &mut Unstructured<'_>,
        net: &mut Net,
        at: usize,
        ptype: PacketType,
        options: &[u8],
        payload: &[u8],
    ) {
        let flow = &mut self.subflows[at];
        let header = Header {
            ack: Some(flow.gsr),
            service_code: Some(7),
            reset: Some(Reset { code: ResetCode::from_number(input.byte() % 14), data: [0; 3] }),
            ..Header::new(flow.ports, ptype, flow.seq)
        };
        // Simulates losses.
        flow.seq = flow.seq.add(if input.one_in(16) { input.below(300) as u64 } else { 1 });
        let place = flow.place;
        let mut bytes = vec![0; header.packet_len(options.len(), payload.len())];
        header.emit(options, &mut bytes).copy_from_slice(payload);
        self.inject(input, net, place, &bytes);
    }

    /// Returns the HMAC of RFC 9897 section 3.2.6. The sender's key comes first.
    fn tag(&self, parts: &[&[u8]]) -> [u8; 20] {
        let both = [&self.key[..], &self.its_key[..]].concat();
        let mut key = [0; 64];
        if both.len() <= key.len() {
            key[..both.len()].copy_from_slice(&both);
        } else {
            key[..32].copy_from_slice(&Sha256::digest(&both));
        }
        let mut mac = Hmac::<Sha256>::new(&key.into());
        parts.iter().for_each(|part| mac.update(part));
        let full = mac.finalize().into_bytes();
        let mut tag = [0; 20];
        tag.copy_from_slice(&full[..20]);
        tag
    }
}

fn push(options: &mut Vec<u8>, option: Opt<'_>) {
    let mut buf = OptionBuf::new();
    buf.push(&option);
    options.extend(buf.as_bytes());
}

/// Returns Confirm options that accept the first value of every Change option except the one for multipath.
fn agree(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for option in packet.options().map_while(Result::ok) {
        let (left, number, list) = match option {
            Opt::ChangeL(number, list) => (true, number, list),
            Opt::ChangeR(number, list) => (false, number, list),
            _ => continue,
        };
        // A Confirm of a number has just the number. A Confirm of a list has its first value, then the list.
        let value = if [3, 5].contains(&number) {
            list.to_vec()
        } else {
            [list.get(..1).unwrap_or_default(), list].concat()
        };
        match left {
            _ if number == feature::MULTIPATH_CAPABLE => {}
            true => push(&mut out, Opt::ConfirmR(number, &value)),
            false => push(&mut out, Opt::ConfirmL(number, &value)),
        }
    }
    out
}

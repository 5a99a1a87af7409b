//! Two connections with an emulated link in each direction, in virtual time. Each end sends as much as its
//! congestion control allows.

use crate::common::{CLIENT, OVERHEAD, SERVER, new_client, route};
use dccp_proto::ccid::TxView;
use dccp_proto::{Config, Connection, Gate, Outbox, Outcome, State};
use dccp_wire::{Packet, PacketType};
use mpdccp_linkem::{Link, LinkConfig, Meta, Verdict};
use mpdccp_units::{Duration, Time};

/// Traffic of one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Payload of each packet. If 0, nothing is sent.
    pub(crate) payload: usize,
    /// Interval between packets. If zero, packets are sent as fast as allowed.
    pub(crate) every: Duration,
}

impl Load {
    pub(crate) const NONE: Load = Load { payload: 0, every: Duration::ZERO };

    pub(crate) const fn bulk(payload: usize) -> Load {
        Load { payload, every: Duration::ZERO }
    }
}

/// Packets that arrived at one end, or that were dropped on the way to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Data packets delivered: time and payload bytes.
    pub(crate) data: Vec<(Time, usize)>,
    /// Data packets offered to the link: time, and whether they were dropped.
    pub(crate) offered: Vec<(Time, bool)>,
    /// Number of Acks, without DataAcks.
    pub(crate) acks: u64,
    /// CCVal of the data packets offered.
    pub(crate) counters: Vec<u8>,
}

pub(crate) struct Line {
    pub(crate) now: Time,
    pub(crate) ends: [Connection; 2],
    /// The link from each end.
    pub(crate) links: [Link<Vec<u8>>; 2],
    pub(crate) loads: [Load; 2],
    due: [Time; 2],
    pub(crate) seen: [Seen; 2],
    /// Samples of the client's sending half, every 100 ms.
    pub(crate) views: Vec<(Time, TxView)>,
    next_view: Time,
}

impl Line {
    /// Opens a connection over these two links, from the client and from the server.
    pub(crate) fn open(client: Config, server: Config, links: [LinkConfig; 2], seed: u64) -> Line {
        let start = Time::from_millis(1000);
        let mut client = new_client(client, start);
        let [up, down] = links;
        let mut links =
            [Link::new(up, seed * 2, start).unwrap(), Link::new(down, seed * 2 + 1, start).unwrap()];
        let mut wire = Outbox::new();
        client.poll_transmit(start, &mut wire);
        let (_, ecn, request) = wire.remove(0);
        links[CLIENT].push(start, Meta { bytes: (request.len() + OVERHEAD) as u32, ecn, flow: 0 }, request);
        let (now, request) = loop {
            let now = links[CLIENT].next_event().unwrap();
            if let Some(delivery) = links[CLIENT].pop(now) {
                break (now, delivery.packet);
            }
        };
        let packet = Packet::parse(&request).unwrap();
        let server = Config { ack_on_open: true, ..server };
        let server = Connection::server(server, now, route(), &packet, [9; 32]).unwrap();
        let mut line = Line {
            now,
            ends: [client, server],
            links,
            loads: [Load::NONE; 2],
            due: [now; 2],
            seen: Default::default(),
            views: Vec::new(),
            next_view: now,
        };
        line.run(Duration::from_secs(1));
        assert_eq!(line.ends.each_ref().map(|end| end.state()), [State::Open; 2]);
        line.seen = Default::default();
        line
    }

    pub(crate) fn view(&self, side: usize) -> TxView {
        self.ends[side].tx_view().unwrap()
    }

    fn launch(&mut self, from: usize, wire: Outbox) {
        for (_, ecn, bytes) in wire {
            let packet = Packet::parse(&bytes).unwrap();
            let data = matches!(packet.header.ptype, PacketType::Data | PacketType::DataAck);
            let ccval = packet.header.ccval;
            let meta = Meta { bytes: (bytes.len() + OVERHEAD) as u32, ecn, flow: from as u32 };
            let verdict = self.links[from].push(self.now, meta, bytes);
            if data {
                self.seen[1 - from].offered.push((self.now, matches!(verdict, Verdict::Dropped(_))));
                self.seen[1 - from].counters.push(ccval);
            }
        }
    }

    fn pump(&mut self) {
        for side in [CLIENT, SERVER] {
            let mut wire = Outbox::new();
            for _ in 0..10_000 {
                let end = &mut self.ends[side];
                let mut busy = end.poll_transmit(self.now, &mut wire);
                let load = self.loads[side];
                if load.payload > 0
                    && self.due[side] <= self.now
                    && matches!(end.gate(self.now), Gate::Open { .. })
                {
                    end.transmit(self.now, &[], &vec![0; load.payload], &mut wire);
                    self.due[side] = self.due[side].max(self.now) + load.every;
                    busy = true;
                }
                if !busy {
                    break;
                }
            }
            while self.ends[side].poll_event().is_some() {}
            self.launch(side, wire);
        }
    }

    fn next(&self) -> Option<Time> {
        let timers = self.ends.iter().filter_map(|c| c.poll_timeout()).map(|(at, _)| at);
        let gates = [CLIENT, SERVER].into_iter().filter(|s| self.loads[*s].payload > 0).filter_map(|s| {
            match self.ends[s].gate(self.now) {
                Gate::At(at, _) => Some(at.max(self.due[s])),
                Gate::Open { .. } => Some(self.due[s]),
                Gate::Closed(_) => None,
            }
        });
        timers.chain(gates).chain(self.links.iter().filter_map(|l| l.next_event())).min()
    }

    fn deliver(&mut self, from: usize) {
        while let Some(delivered) = self.links[from].pop(self.now) {
            let to = 1 - from;
            let packet = Packet::parse(&delivered.packet).unwrap();
            self.seen[to].acks += u64::from(packet.header.ptype == PacketType::Ack);
            let outcome =
                self.ends[to].handle_packet(self.now, delivered.meta.ecn, delivered.meta.bytes, &packet);
            if let Outcome::Received(received) = outcome
                && let Some(data) = received.data
            {
                self.seen[to].data.push((self.now, data.len()));
            }
        }
    }

    /// Runs for `d` of virtual time.
    pub(crate) fn run(&mut self, d: Duration) {
        let end = self.now + d;
        let mut spins = 0;
        loop {
            self.pump();
            let Some(next) = self.next().filter(|at| *at <= end) else { break };
            spins = if next <= self.now { spins + 1 } else { 0 };
            assert!(spins < 1000, "endless loop at {:?}", self.now);
            self.now = self.now.max(next);
            while self.next_view <= self.now {
                if let Some(view) = self.ends[CLIENT].tx_view() {
                    self.views.push((self.now, view));
                }
                self.next_view += Duration::from_millis(100);
            }
            self.deliver(CLIENT);
            self.deliver(SERVER);
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.now = end;
    }

    /// Returns the payload delivered to `side` between two times, in bytes per second.
    pub(crate) fn goodput(&self, side: usize, from: Time, to: Time) -> f64 {
        let bytes: usize = self.seen[side].data.iter().filter(|d| d.0 >= from && d.0 < to).map(|d| d.1).sum();
        bytes as f64 / to.since(from).as_secs_f64()
    }
}

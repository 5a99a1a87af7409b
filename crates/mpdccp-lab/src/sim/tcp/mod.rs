//! A model of Linux TCP: one connection with both ends, for competition with DCCP and as traffic inside tunnels. docs/calibration.md compares it with
//! the kernel's TCP.

mod acks;
mod board;
mod detector;
mod frto;
mod handshake;
mod prr;
mod receiver;
pub(crate) mod segment;
mod sender;
mod timers;
mod undo;
mod window;

use dccp_cc::{Bbr1, Controller, Cubic, Reno};
use mpdccp_units::Time;

pub(crate) use detector::Rule;
use handshake::{Handshake, Step};
use receiver::Receiver;
use segment::{HEADERS, Segment};
pub(crate) use sender::Sender;

use super::side::Side;
use crate::TcpCounters;

/// Internal name of a congestion control, from the kernel's name.
pub(crate) fn name(cc: &str) -> &str {
    match cc {
        "reno" => "Reno",
        "bbr" => "BBR",
        _ => "CUBIC",
    }
}

/// A connection whose data goes from the client to the server.
#[derive(Debug)]
pub(crate) struct Tcp {
    flow: u16,
    handshake: Handshake,
    sender: Sender,
    receiver: Receiver,
}

/// A packet sent by a connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) from: Side,
    pub(crate) packet: Vec<u8>,
}

impl Tcp {
    /// A connection with packets of at most `mtu` bytes. `cc` is the kernel's name; BBR is the first version.
    pub(crate) fn new(flow: u16, mtu: u16, cc: &str, rule: Rule, seed: u64) -> Tcp {
        let controller: Box<dyn Controller> = match cc {
            "reno" => Box::new(Reno::tcp(mtu)),
            "bbr" => Box::new(Bbr1::tcp(mtu, seed)),
            _ => Box::new(Cubic::tcp(mtu)),
        };
        let mss = u32::from(mtu).saturating_sub(HEADERS as u32).max(1);
        Tcp {
            flow,
            handshake: Handshake::default(),
            sender: Sender::new(flow, mss, controller, rule),
            receiver: Receiver::new(flow),
        }
    }

    /// Enables ECN.
    pub(crate) fn use_ecn(&mut self) {
        self.sender.use_ecn();
    }

    /// The sending half.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The application has no more data.
    pub(crate) fn finish(&mut self) {
        self.sender.finish();
    }

    /// Bytes that the receiving application has received in order.
    pub(crate) fn delivered(&self) -> u64 {
        self.receiver.next()
    }

    pub(crate) fn counters(&self) -> TcpCounters {
        self.sender.counters()
    }

    /// A packet arrived at `to`.
    pub(crate) fn handle(&mut self, now: Time, to: Side, segment: &Segment) {
        match (to, segment) {
            (Side::Server, Segment::Data(data)) => self.receiver.on_data(now, data),
            (Side::Client, Segment::Ack(ack)) => self.sender.on_ack(now, ack),
            (_, Segment::Open(_, step)) => {
                if let Some(rtt) = self.handshake.on_step(now, *step) {
                    self.sender.on_handshake(now, rtt);
                }
            }
            _ => {}
        }
    }

    /// When to call [`poll`](Self::poll) without input.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if !self.handshake.open() {
            return self.handshake.next_timeout();
        }
        self.sender.next_timeout().into_iter().chain(self.receiver.next_timeout()).min()
    }

    /// The next packet that may leave now; call until it returns `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(step) = self.handshake.poll(now) {
            let from = if step == Step::SynAck { Side::Server } else { Side::Client };
            return Some(Outgoing { from, packet: segment::open(self.flow, step) });
        }
        if !self.handshake.open() {
            return None;
        }
        if self.sender.next_timeout().is_some_and(|t| t <= now) {
            self.sender.handle_timeout(now);
        }
        if let Some(ack) = self.receiver.poll(now) {
            return Some(Outgoing { from: Side::Server, packet: ack.packet() });
        }
        let data = self.sender.poll(now)?;
        Some(Outgoing { from: Side::Client, packet: data.packet() })
    }
}

#[cfg(test)]
mod tests;

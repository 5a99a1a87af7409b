//! A model of TCP: one connection with both its ends, for competition beside DCCP and as traffic inside tunnels. No handshake, no
//! ECN, windows limited by congestion control and send buffer only.

mod board;
mod detector;
mod receiver;
pub(crate) mod segment;
mod sender;
mod timers;

use dccp_cc::{Algorithm, CcConfig};
use units::Time;

pub(crate) use detector::Rule;
use receiver::Receiver;
use segment::{HEADERS, Segment};
pub(crate) use sender::Sender;

use super::world::Side;
use crate::TcpCounters;

/// A connection whose data goes from the client to the server.
#[derive(Debug)]
pub(crate) struct Tcp {
    sender: Sender,
    receiver: Receiver,
}

/// A packet that a connection sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) from: Side,
    pub(crate) packet: Vec<u8>,
}

impl Tcp {
    /// A connection in packets of at most `mtu` bytes. `cc` by the kernel's name; its BBR is the first version.
    pub(crate) fn new(flow: u16, mtu: u16, cc: &str, rule: Rule, seed: u64) -> Tcp {
        let algorithm = match cc {
            "reno" => Algorithm::Reno,
            "bbr" => Algorithm::Bbr1,
            _ => Algorithm::Cubic,
        };
        let controller = algorithm.controller(&CcConfig { mtu, packets: false, draft: true, seed });
        let mss = u32::from(mtu).saturating_sub(HEADERS as u32).max(1);
        Tcp { sender: Sender::new(flow, mss, controller, rule), receiver: Receiver::new(flow) }
    }

    /// The sending half.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The application has no more.
    pub(crate) fn finish(&mut self) {
        self.sender.finish();
    }

    /// Bytes that the receiving application has got, all in order.
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
            _ => {}
        }
    }

    /// When to call [`poll`](Self::poll) though nothing arrived.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.sender.next_timeout().into_iter().chain(self.receiver.next_timeout()).min()
    }

    /// What leaves now; call until it gives nothing.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
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

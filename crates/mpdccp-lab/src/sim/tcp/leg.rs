//! Models a connection between two kernels: the client's sending half, the server's receiving half, and the
//! handshake.

use dccp_cc::{Bbr1, Controller, Cubic, Reno};
use mpdccp_units::Time;

use super::super::side::Side;
use super::handshake::{Handshake, Step};
use super::loss_detector::Rule;
use super::receiver::Receiver;
use super::segment::{self, HEADERS, Segment};
use super::sender::Sender;

/// A packet sent by a connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) from: Side,
    pub(crate) packet: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Leg {
    flow: u16,
    pub(super) handshake: Handshake,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

impl Leg {
    /// Creates a connection. `cc` is the kernel's name for the congestion control, where `bbr` is BBR version
    /// 1.
    pub(super) fn new(flow: u16, mtu: u16, cc: &str, rule: Rule, seed: u64) -> Leg {
        let controller: Box<dyn Controller> = match cc {
            "reno" => Box::new(Reno::tcp(mtu)),
            "bbr" => Box::new(Bbr1::tcp(mtu, seed)),
            _ => Box::new(Cubic::tcp(mtu)),
        };
        let mss = u32::from(mtu).saturating_sub(HEADERS as u32).max(1);
        Leg {
            flow,
            handshake: Handshake::default(),
            sender: Sender::new(flow, mss, controller, rule),
            receiver: Receiver::new(flow, rule),
        }
    }

    pub(super) fn handle(&mut self, now: Time, to: Side, segment: &Segment) {
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

    pub(super) fn next_timeout(&self) -> Option<Time> {
        if !self.handshake.open() {
            return self.handshake.next_timeout();
        }
        self.sender.next_timeout().into_iter().chain(self.receiver.next_timeout()).min()
    }

    pub(super) fn poll(&mut self, now: Time) -> Option<Outgoing> {
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

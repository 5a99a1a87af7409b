//! Models Linux TCP. A connection includes both ends, and either competes with DCCP or is traffic inside a
//! tunnel. docs/calibration.md compares the model with the kernel's TCP.

mod acks;
mod frto;
mod handshake;
mod info;
mod leg;
mod loss_detector;
mod proxied;
mod prr;
mod receiver;
mod scoreboard;
pub(crate) mod segment;
mod sender;
mod timers;
mod undo;
mod usage;
mod window;

use std::collections::VecDeque;

use mpdccp_proxy::{Command, Event};
use mpdccp_units::Time;

use leg::Leg;
pub(crate) use leg::Outgoing;
pub(crate) use loss_detector::Rule;
use proxied::Proxied;
use segment::Segment;
pub(crate) use sender::Sender;

use super::side::Side;
use crate::TcpCounters;

/// Returns the display name for the kernel's name of a congestion control.
pub(crate) fn name(cc: &str) -> &str {
    match cc {
        "reno" => "Reno",
        "bbr" => "BBR",
        _ => "CUBIC",
    }
}

/// A connection that carries data from the client to the server.
#[derive(Debug)]
pub(crate) struct Tcp {
    flow: u16,
    mtu: u16,
    rule: Rule,
    /// The client's connection, whose other end is the server or the client's end of the tunnel.
    near: Leg,
    /// State of a connection that the tunnel carries, or is trying to carry, as a stream.
    proxied: Option<Box<Proxied>>,
    /// Whether the tunnel reset the connection.
    reset: bool,
}

impl Tcp {
    /// Creates a connection whose packets have at most `mtu` bytes. `cc` is the kernel's name for the
    /// congestion control, where `bbr` is BBR version 1.
    pub(crate) fn new(flow: u16, mtu: u16, cc: &str, rule: Rule, seed: u64) -> Tcp {
        Tcp { flow, mtu, rule, near: Leg::new(flow, mtu, cc, rule, seed), proxied: None, reset: false }
    }

    /// Enables ECN.
    pub(crate) fn use_ecn(&mut self) {
        self.near.sender.use_ecn();
    }

    /// Returns the sending half.
    pub(crate) fn sender(&self) -> &Sender {
        &self.near.sender
    }

    /// Makes the application write `bytes`.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.near.sender.write(bytes);
    }

    /// Ends the data of the application.
    pub(crate) fn finish(&mut self) {
        self.near.sender.finish();
    }

    /// Returns the number of bytes that the receiving application has received in order.
    pub(crate) fn delivered(&self) -> u64 {
        match &self.proxied {
            Some(proxied) if proxied.accepts() => proxied.delivered(),
            _ => self.near.receiver.next(),
        }
    }

    pub(crate) fn counters(&self) -> TcpCounters {
        self.near.sender.counters()
    }

    /// Handles a packet that has arrived at `to`.
    pub(crate) fn handle(&mut self, now: Time, to: Side, segment: &Segment) {
        self.near.handle(now, to, segment);
    }

    /// Returns whether the tunnel carries the connection as a stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.proxied.as_ref().is_some_and(|proxied| proxied.accepts())
    }

    /// Handles a host's packet that goes to the private namespace of the tunnel at `side`.
    pub(crate) fn handle_proxied(&mut self, now: Time, side: Side, packet: &[u8]) {
        if let Some(proxied) = &mut self.proxied {
            proxied.on_packet(now, side, packet);
        }
    }

    /// Executes a command of the tunnel at a host.
    pub(crate) fn on_command(&mut self, now: Time, command: &Command) {
        match (command, &mut self.proxied) {
            (Command::Connect { flow, .. }, _) => {
                self.proxied = Some(Box::new(Proxied::new(*flow, self.flow, self.mtu)));
            }
            // After a reset, the hosts send no more packets, and the model's applications do not reconnect.
            (Command::Reset(_), _) => self.reset = true,
            (command, Some(proxied)) => proxied.on_command(now, &mut self.near, command),
            (_, None) => {}
        }
    }

    /// Ends a stream whose data has arrived at the server in full, and returns the events for the two
    /// tunnels.
    pub(crate) fn close(mut self) -> VecDeque<(Side, Event)> {
        self.proxied
            .as_mut()
            .map(|proxied| {
                proxied.finish();
                std::mem::take(&mut proxied.events)
            })
            .unwrap_or_default()
    }

    /// Takes the next event, and returns it with the host whose tunnel must handle it.
    pub(crate) fn poll_event(&mut self) -> Option<(Side, Event)> {
        self.proxied.as_mut()?.events.pop_front()
    }

    /// Returns when to call [`poll`](Self::poll) if there is no input before then.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if self.reset {
            return None;
        }
        let proxied = self.proxied.as_ref().and_then(|proxied| proxied.next_timeout());
        self.near.next_timeout().into_iter().chain(proxied).min()
    }

    /// Returns the next packet that may leave now. Call this repeatedly until it returns `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if self.reset {
            return None;
        }
        let mut out = match &mut self.proxied {
            None => self.near.poll(now)?,
            Some(proxied) => proxied.poll(now, &mut self.near)?,
        };
        if self.rule == Rule::Three {
            segment::over_udp(&mut out.packet);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests;

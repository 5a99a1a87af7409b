//! Sockets that carry packets over connections, or that choose among encapsulations.

use super::Net;
use crate::Burst;
use crate::shards::Mail;
use mpdccp_units::Time;
use std::net::{IpAddr, SocketAddr};

impl Net {
    /// Gives a connection to the shard to which its packets belong. From then on, only that shard can send
    /// over it.
    pub(super) fn give(&mut self, socket: u32, remote: SocketAddr, shard: u8) {
        let Some(encapsulation) = self.sockets.get_mut(&socket) else { return };
        if let Some(connection) = encapsulation.give(remote) {
            self.neighbours.put(shard, Mail::Connection { socket, connection });
        }
    }

    /// Tells a socket that the path over it is failing, even if packets still arrive.
    pub fn suspect(&mut self, now: Time, socket: u32) {
        if let Some(encapsulation) = self.sockets.get_mut(&socket) {
            encapsulation.on_suspect(now);
        }
    }

    /// Tells a socket which addresses the peer's host advertises, and whether the path over it is up.
    pub fn tell_advertised(&mut self, now: Time, socket: u32, addresses: &[IpAddr], up: bool) {
        if let Some(encapsulation) = self.sockets.get_mut(&socket) {
            encapsulation.on_advertised(now, addresses, up);
        }
    }

    /// Sends echo requests over encapsulations that are currently carrying no packets, to find out whether
    /// they work.
    pub(super) fn ask(&mut self, now: Time) {
        let Net { sockets, routes: Some(routes), .. } = self else { return };
        for socket in routes.sockets() {
            let Some(encapsulation) = sockets.get_mut(&socket) else { continue };
            if !encapsulation.asks(now) {
                continue;
            }
            for (to, question) in routes.questions(now, socket) {
                encapsulation.ask(&Burst::of_one(to.local, to.remote, &question));
            }
        }
    }
}

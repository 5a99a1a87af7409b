//! Moves the output of the hosts to links and applications.

use core::time::Duration;
use dccp_proto::Ecn;
use dccp_wire::Packet;
use mpdccp_linkem::Meta;
use mpdccp_proto::SessionEvent;

use super::super::end::{HEADERS, Inner};
use super::super::outer::Outer;
use super::super::probe;
use super::super::side::Side;
use super::{Arrived, LinkEvent, SERVER_PORT, Watch, What, Wire, World};

impl World {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn enter(
        &mut self,
        (path, detour): (usize, Duration),
        from: Side,
        meta: Meta,
        data: Option<(u16, u64)>,
        what: What,
        bytes: Vec<u8>,
        watch: &mut Watch<'_>,
    ) {
        let entered = &mut self.entered[path][from.index()];
        let number = std::mem::replace(entered, *entered + 1);
        let link = &mut self.links[self.owners[path]][from.index()];
        link.push_farther(self.now, meta, detour, Wire { number, path, ecn: meta.ecn, what, bytes });
        let queue_bytes = link.queue_len().bytes;
        watch(self.now, path, from, LinkEvent::Entered { data, bytes: meta.bytes, queue_bytes });
    }

    pub(super) fn drain(&mut self, watch: &mut Watch<'_>) {
        for side in [Side::Client, Side::Server] {
            while self.drain_host(side, watch) {}
            let end = self.hosts[side.index()].end.as_mut();
            let commands = end.into_iter().flat_map(|end| end.take_commands());
            self.arrived.extend(commands.map(|command| Arrived::Tcp(side, command)));
        }
    }

    /// Sends and delivers a host's output. Returns whether more output may follow.
    fn drain_host(&mut self, side: Side, watch: &mut Watch<'_>) -> bool {
        let now = self.now;
        let host = &mut self.hosts[side.index()];
        let mut more = false;
        host.endpoint.poll_transmit(now, &mut self.outbox);
        while let Some((id, data)) = host.endpoint.poll_deliver() {
            let packet = match &mut host.end {
                Some(end) => end.deliver(now, &mut host.endpoint, id, data),
                None => Some(Inner::Host(data)),
            };
            // A datagram without a packet is a control message between the tunnel's ends, which may need a
            // reply, so poll again.
            more |= packet.is_none();
            self.arrived.extend(packet.map(|packet| packet.arrived(side)));
        }
        while let Some((id, event)) = host.endpoint.poll_event() {
            if let Some(end) = &mut host.end {
                end.on_event(now, &mut host.endpoint, id, event);
                more = true;
                continue;
            }
            if let SessionEvent::Accepted { peer } = event {
                host.sessions[peer as usize] = Some(id);
            }
            self.events.push((now, side, event));
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        for (route, ecn, bytes) in outbox.drain(..) {
            let parsed = Packet::parse(&bytes).ok();
            let data = parsed.as_ref().and_then(|p| probe::read(p.payload));
            if let Some(end) = &mut self.hosts[side.index()].end {
                if let Some((outer, ecn, bytes)) = end.leave(now, &route, ecn, bytes) {
                    self.enter_tunnel(outer, side, (ecn, data), bytes, watch);
                }
                continue;
            }
            // Queues distinguish sessions by their ports, as if each session had its own socket.
            let flow = bytes.first_chunk().map_or(0, |ports| u32::from_be_bytes(*ports));
            let meta = Meta { bytes: bytes.len() as u32 + u32::from(HEADERS), ecn, flow };
            let [client, server] = [(flow >> 16) as u16, flow as u16];
            let port = if side == Side::Client { server } else { client };
            let session = usize::from(port.wrapping_sub(SERVER_PORT));
            let detour = self.detours.get(session).copied().unwrap_or_default();
            self.enter((route.socket as usize, detour), side, meta, data, What::Plain, bytes, watch);
        }
        self.outbox = outbox;
        while let Some((outer, message)) =
            self.hosts[side.index()].end.as_mut().and_then(|end| end.poll_message())
        {
            self.enter_tunnel(outer, side, (Ecn::NotEct, None), message, watch);
        }
        let host = &mut self.hosts[side.index()];
        if let (Some(end), false) = (&mut host.end, more) {
            end.settle(now, &mut host.endpoint);
        }
        more
    }

    /// Puts one of the tunnel's datagrams on the path to its destination.
    fn enter_tunnel(
        &mut self,
        outer: Outer,
        from: Side,
        (ecn, data): (Ecn, Option<(u16, u64)>),
        bytes: Vec<u8>,
        watch: &mut Watch<'_>,
    ) {
        let meta = Meta { bytes: bytes.len() as u32 + u32::from(HEADERS), ecn, flow: outer.flow() };
        self.enter((outer.path(), Duration::ZERO), from, meta, data, What::Tunnel(outer), bytes, watch);
    }
}

impl Inner {
    pub(super) fn arrived(self, side: Side) -> Arrived {
        match self {
            Inner::Host(packet) => Arrived::Session(side, packet),
            Inner::Namespace(packet) => Arrived::Proxied(side, packet),
        }
    }
}

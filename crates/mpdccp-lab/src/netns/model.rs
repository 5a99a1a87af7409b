//! Runs the simulator's TCP model over UDP datagrams. The model has loss detection that the kernel's TCP
//! lacks: like QUIC, it can declare a packet lost as soon as three later packets have arrived, even on a path
//! that reorders packets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use dccp_net::Clock;
use mpdccp_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flow::{Counters, Flow, Sent};
use super::namespaces::{Namespace, ip};
use super::udp::{NAP, sleep_until};
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket};
use crate::scenario::FlowSpec;
use crate::sim::Side;
use crate::sim::tcp::segment::{self, Segment};
use crate::sim::tcp::{self, Rule, Tcp};
use linkem_net::{Urgency, hurry};

/// Size in bytes of the IP header at the start of the model's packets. The model writes whole IP packets,
/// whereas here the kernel writes the IP header, and a UDP header replaces the TCP header.
const IP_HEADER: usize = 20;
const UDP_HEADER: u16 = 8;
const BUFFER: usize = 4 << 20;

/// Both ends of one bulk flow.
pub(super) struct Modelled {
    spec: FlowSpec,
    index: u16,
    seed: u64,
    to: SocketAddr,
    server: UdpSocket,
    counters: Counters,
}

impl Modelled {
    /// Opens the server's socket.
    pub(super) fn start(
        spec: &FlowSpec,
        (index, seed): (u16, u64),
        server: &Namespace,
        to: SocketAddr,
    ) -> Result<Modelled, LabError> {
        let server = server.inside(|| socket(to.port()))?;
        Ok(Modelled { spec: spec.clone(), index, seed, to, server, counters: Counters::default() })
    }

    fn cc(&self) -> &str {
        self.spec.cc.as_deref().unwrap_or_default()
    }

    /// Receives one of the model's packets, if there is one. Stores the packet's source address in `peer`,
    /// because the server must learn the client's address.
    fn receive(
        &self,
        socket: &UdpSocket,
        buf: &mut [u8],
        peer: &mut Option<SocketAddr>,
    ) -> Option<(Segment, u32)> {
        let (n, from) = socket.recv_from(&mut buf[IP_HEADER..]).ok()?;
        *peer = Some(from);
        let segment = segment::read(&buf[..IP_HEADER + n])?;
        Some((segment, n as u32 + IP_HEADER as u32 + u32::from(UDP_HEADER)))
    }
}

impl Flow for Modelled {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError> {
        client.enter()?;
        hurry(Urgency::Traffic);
        let socket = socket(0)?;
        sleep_until(from, over);
        let mtu = mtu(client, self.to)?.saturating_sub(UDP_HEADER);
        let mut tcp = Tcp::new(self.index, mtu, self.cc(), Rule::Three, self.seed);
        tcp.write(u64::MAX);
        let mut sent = Sent::default();
        let (mut peers, mut buf) = ([Some(self.to), None], vec![0; 1 << 16]);
        segment::write_ip_header(&mut buf);
        while !over.load(Ordering::Relaxed) {
            let now = Clock.now();
            if now < to {
                sent.stream_bytes = Some(tcp.delivered());
            } else {
                tcp.finish();
            }
            while let Some(out) = tcp.poll(now) {
                if let Some(Segment::Data(_)) = segment::read(&out.packet) {
                    let bytes = out.packet.len() as u32 + u32::from(UDP_HEADER);
                    sent.packets.push(SentPacket { at: now, bytes });
                }
                let (socket, peer) = match out.from {
                    Side::Client => (&socket, peers[0]),
                    Side::Server => (&self.server, peers[1]),
                };
                // A packet that the kernel refuses (no route, no buffer) counts as lost.
                peer.map(|peer| socket.send_to(&out.packet[IP_HEADER..], peer));
            }
            let wait = tcp.next_timeout().map_or(NAP, |at| at.since(Clock.now()).min(NAP));
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
            let mut ready = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&self.server, PollFlags::IN)];
            let _ = poll(&mut ready, Some(&wait));
            for (at, (socket, side)) in
                [(&socket, Side::Client), (&self.server, Side::Server)].into_iter().enumerate()
            {
                while let Some((segment, bytes)) = self.receive(socket, &mut buf, &mut peers[at]) {
                    let now = Clock.now();
                    tcp.handle(now, side, &segment);
                    if let (Segment::Data(data), Side::Server) = (&segment, side) {
                        sent.echoed.push(ReceivedPacket { seq: data.no, at: now, bytes });
                        self.counters.bytes.fetch_add(bytes.into(), Ordering::Relaxed);
                        let left = sent.packets.get(data.no as usize).map_or(now, |packet| packet.at);
                        self.counters.latency_ns.store(now.since(left).as_nanos() as u64, Ordering::Relaxed);
                    }
                }
            }
        }
        sent.tcp = Some(tcp.counters());
        Ok(sent)
    }

    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError> {
        let model = Some(format!("model of TCP {}", tcp::name(self.cc())));
        Ok(FlowRecord { model, ..sent.record(self.spec.name.as_ref(), "tcp") })
    }
}

fn socket(port: u16) -> Result<UdpSocket, LabError> {
    use socket2::{Domain, Protocol, Socket, Type};
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.set_send_buffer_size(BUFFER)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        Ok(socket.into())
    };
    open().map_err(|e: std::io::Error| LabError::failed("cannot open a modelled flow's socket", e))
}

/// Returns the MTU of the interface through which `client` reaches `to`.
fn mtu(client: &Namespace, to: SocketAddr) -> Result<u16, LabError> {
    let told = |args: &[&str], key: &str| {
        let text = ip(&[&["-n", client.name.as_str(), "-j"], args].concat())?;
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        Ok::<_, LabError>(json[0][key].clone())
    };
    let device = told(&["route", "get", &to.ip().to_string()], "dev")?;
    let device = device.as_str().unwrap_or_default();
    let mtu = told(&["link", "show", "dev", device], "mtu")?;
    let mtu = mtu.as_u64().and_then(|mtu| u16::try_from(mtu).ok());
    mtu.ok_or_else(|| LabError::Failed(format!("`ip` shows no MTU for the route to {}", to.ip())))
}

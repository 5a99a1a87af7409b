//! The sockets of one end. The test acts as the tunnel and, segment by segment, as the host.
#![allow(dead_code)]

use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader};
use mpdccp_proxy::{Command, Event, Flow, Segment, Sockets, SocketsHandle};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than any step of a test takes, so only a failing test waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Sequence number of the host's first segment after its SYN.
pub(crate) const FIRST: u32 = 8;

pub(crate) struct Lone {
    pub(crate) handle: SocketsHandle,
    pub(crate) events: Receiver<Vec<Event>>,
    packets: Receiver<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl Lone {
    /// Starts the sockets. If this is not possible, prints the reason and returns `None`.
    pub(crate) fn new() -> Option<Lone> {
        let (tell, events) = channel();
        let (tell_packet, packets) = channel();
        let (ready, handle) = channel();
        let thread = std::thread::spawn(move || {
            let on_events = move |events| drop(tell.send(events));
            let on_packet = move |packet: &[u8]| drop(tell_packet.send(packet[10..].to_vec()));
            match Sockets::enter(1_400, on_events, on_packet) {
                Ok((sockets, handle)) => {
                    ready.send(handle).unwrap();
                    sockets.run().unwrap();
                }
                Err(e) => println!("SKIPPED no network namespace with a TUN device: {e}"),
            }
        });
        Some(Lone { handle: handle.recv().ok()?, events, packets, thread })
    }

    /// Sends a segment of the host, which uses this port, to the namespace.
    pub(crate) fn host(
        &self,
        port: u16,
        seq: u32,
        data: &[u8],
        make: impl FnOnce(PacketBuilderStep<TcpHeader>) -> PacketBuilderStep<TcpHeader>,
    ) {
        let packet = segment((port, 80), seq, data, make);
        rustix::io::write(self.handle.tun(), &[&[0; 10][..], &packet].concat()).unwrap();
    }

    /// Returns the next segment from the namespace that `wanted` selects.
    pub(crate) fn find(&self, wanted: impl Fn(&Segment) -> bool) -> Segment {
        let packets = std::iter::repeat_with(|| self.packets.recv_timeout(PATIENCE).unwrap());
        packets.filter_map(|packet| Segment::parse(&packet)).find(wanted).unwrap()
    }

    /// Passes the host's SYN, with these ports, to the namespace.
    pub(crate) fn accept(&self, flow: Flow, ports: (u16, u16)) {
        let syn = segment(ports, FIRST - 1, &[], |tcp| tcp.syn());
        let tuple = Segment::parse(&syn).unwrap().tuple;
        self.handle.send([Command::Accept { flow, tuple, syn }]);
    }

    /// Passes the host's SYN to the namespace. Returns the sequence number that follows the SYN-ACK.
    pub(crate) fn syn(&self, flow: Flow, port: u16) -> u32 {
        self.accept(flow, (port, 80));
        let answer = self.find(|segment| segment.ack == Some(FIRST) && segment.tuple.to.port() == port);
        answer.seq.wrapping_add(1)
    }

    /// Opens a connection from the host. Returns the sequence number of the namespace's next segment.
    pub(crate) fn open(&self, flow: Flow, port: u16) -> u32 {
        let next = self.syn(flow, port);
        self.host(port, FIRST, &[], |tcp| tcp.ack(next));
        assert_eq!(self.events.recv_timeout(PATIENCE).unwrap(), [Event::Connected(flow)]);
        next
    }

    pub(crate) fn stop(self) {
        self.handle.send([Command::Stop]);
        self.thread.join().unwrap();
    }
}

fn segment(
    ports: (u16, u16),
    seq: u32,
    data: &[u8],
    make: impl FnOnce(PacketBuilderStep<TcpHeader>) -> PacketBuilderStep<TcpHeader>,
) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(ports.0, ports.1, seq, 1_000);
    make(builder).write(&mut packet, data).unwrap();
    packet
}

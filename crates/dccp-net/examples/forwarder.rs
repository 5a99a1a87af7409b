//! Does the minimum work of a user-space tunnel: carries the IP packets of a TUN device in UDP datagrams,
//! using the kernel's offloads in both directions. tools/bench/all uses it as the baseline without
//! encryption.
//!
//!   forwarder INTERFACE ADDRESS/PREFIX LOCAL:PORT REMOTE:PORT

use dccp_net::{Bind, Bursts, Encapsulation, Tun, TunConfig, UdpEncapsulation};
use dccp_net::{Burst, SendError};
use dccp_proto::Ecn;
use rustix::event::{PollFd, PollFlags, poll};
use std::net::SocketAddr;

type Error = Box<dyn std::error::Error>;

/// The MTU of Ethernet minus IPv4 and UDP headers.
const MTU: u16 = 1472;
/// Limits on one send, in segments and in bytes.
const SEGMENTS: usize = 64;
const BYTES: usize = 65_507;
/// Number of bursts that are read from the device before the socket is read.
const TURN: usize = 4;

/// Sends packets. One system call sends consecutive packets of equal size (a run).
struct Sender {
    remote: SocketAddr,
    run: Vec<u8>,
    /// Size of the packets in the run, and whether a shorter packet has ended it.
    segment: usize,
    ended: bool,
}

impl Sender {
    fn put(&mut self, udp: &mut UdpEncapsulation, packet: &[u8]) -> Result<(), SendError> {
        let full = self.run.len() + packet.len() > BYTES || self.run.len() >= SEGMENTS * self.segment;
        if !self.run.is_empty() && (self.ended || full || packet.len() > self.segment) {
            self.flush(udp)?;
        }
        if self.run.is_empty() {
            (self.segment, self.ended) = (packet.len(), false);
        }
        self.ended |= packet.len() < self.segment;
        self.run.extend_from_slice(packet);
        Ok(())
    }

    fn flush(&mut self, udp: &mut UdpEncapsulation) -> Result<(), SendError> {
        if self.run.is_empty() {
            return Ok(());
        }
        let (remote, segment, bytes) = (self.remote, self.segment, &self.run[..]);
        let sent = udp.send(&Burst { local: None, remote, dscp: 0, ecn: Ecn::NotEct, segment, bytes });
        self.run.clear();
        match sent {
            // The packets are dropped, as in a full queue.
            Err(SendError::BufferFull) => Ok(()),
            sent => sent,
        }
    }
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, inner, local, remote] = &args[..] else {
        return Err("usage: forwarder INTERFACE ADDRESS/PREFIX LOCAL:PORT REMOTE:PORT".into());
    };
    let (address, prefix) = inner.split_once('/').ok_or("expected ADDRESS/PREFIX, such as 10.0.0.1/24")?;
    let addresses = vec![(address.parse()?, prefix.parse()?)];
    let tun = Tun::create(&TunConfig { name: name.clone(), addresses, mtu: MTU, offload: true })?;
    let mut tun = Bursts::new(tun, MTU);
    let mut udp = UdpEncapsulation::new(Bind { addr: local.parse()?, interface: None })?;
    let mut sender = Sender { remote: remote.parse()?, run: Vec::new(), segment: 0, ended: false };
    loop {
        let mut ready = [PollFd::new(&tun, PollFlags::IN), PollFd::new(&udp, PollFlags::IN)];
        poll(&mut ready, None)?;
        let [from_tun, from_udp] = [0, 1].map(|i: usize| ready[i].revents().contains(PollFlags::IN));
        if from_udp {
            udp.receive(&mut |packet| drop(tun.write(packet.bytes.to_vec(), drop)))?;
            tun.flush(drop);
        }
        for _ in 0..if from_tun { TURN } else { 0 } {
            let packets = tun.read()?;
            for i in 0..packets {
                sender.put(&mut udp, tun.packet(i)).map_err(|e| format!("{e:?}"))?;
            }
            if packets == 0 {
                break;
            }
        }
        sender.flush(&mut udp).map_err(|e| format!("{e:?}"))?;
    }
}

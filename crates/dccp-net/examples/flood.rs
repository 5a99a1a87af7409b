//! Sends a flood of handshakes from spoofed addresses to a tunnel server, which must process each handshake
//! before it can reject it. Usage: `flood SERVER:PORT PUBLIC_KEY RATE SECONDS FIRST_SOURCE SOURCES`. With
//! `requests` in place of the key, it sends the DCCP-Requests of `mpdccp perf`. With `refused`, it sends
//! Requests for an unknown Service Code. tools/bench/flood creates the namespaces and runs this program. The
//! kernel must accept the sources as local addresses.

use dccp_net::{Bind, Burst, Clock, Encapsulation as _, UdpEncapsulation};
use dccp_secure::{Address, Channels, PresharedKey, PrivateKey, PublicKey, Settings};
use dccp_wire::{Header, PacketType, Seq};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Number of different handshakes to create in advance, because creating a handshake costs as much as
/// answering it.
const DIFFERENT: usize = 512;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let mut next =
        || args.next().ok_or("usage: flood SERVER:PORT PUBLIC_KEY RATE SECONDS FIRST_SOURCE SOURCES");
    let server: SocketAddr = next()?.parse()?;
    let key = next()?;
    let rate: f64 = next()?.parse()?;
    let seconds: f64 = next()?.parse()?;
    let first = u32::from(next()?.parse::<Ipv4Addr>()?);
    let sources: u32 = next()?.parse()?;

    let messages = match key.as_str() {
        "requests" => requests(*b"perf"),
        "refused" => requests(*b"none"),
        key => handshakes(server, key.parse()?)?,
    };
    let bind = Bind { addr: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 4500), interface: None };
    let mut socket = UdpEncapsulation::new(bind)?;
    let (since, mut sent) = (Instant::now(), 0u64);
    while since.elapsed().as_secs_f64() < seconds {
        let due = (since.elapsed().as_secs_f64() * rate) as u64;
        if sent >= due {
            std::thread::sleep(Duration::from_micros(500));
        }
        while sent < due {
            let local = IpAddr::from(Ipv4Addr::from(first + (sent % u64::from(sources)) as u32));
            let bytes = &messages[sent as usize % DIFFERENT];
            // Ignore the error: if the buffer is full, the datagram is dropped, as the result shows.
            let _ = socket.send(&Burst::of_one(Some(local), server, bytes));
            sent += 1;
        }
    }
    let mut answers = 0;
    while socket.receive(&mut |_| answers += 1)? > 0 {}
    let rate = socket.stats().tx_packets as f64 / since.elapsed().as_secs_f64();
    println!("sent {rate:.0} packets a second; read {answers} answers from the socket at the end");
    Ok(())
}

fn handshakes(server: SocketAddr, key: PublicKey) -> Result<Vec<Vec<u8>>, Error> {
    let mut messages = Vec::new();
    for n in 0..DIFFERENT {
        let private_key = PrivateKey::from_random(dccp_net::random_seed()?);
        let unix = mpdccp_units::Duration::from_nanos(Clock.wall_nanos());
        let mut channels = Channels::new(Settings::new(private_key, false, unix, dccp_net::random_seed()?));
        channels.add_peer(0, key, PresharedKey::default());
        let to = Address { socket: 0, local: None, remote: server };
        let now = mpdccp_units::Time::from_millis(n as u64);
        let channel = channels.open(now, 0, to).ok_or("no channel")?;
        let _ = channels.seal(now, channel, &mut [0; 100], 100);
        messages.push(channels.poll_transmit().ok_or("no handshake")?.1);
    }
    Ok(messages)
}

fn requests(service: [u8; 4]) -> Vec<Vec<u8>> {
    let request = |n: u16| {
        let header = Header::new((49_152 + n, 5001), PacketType::Request, Seq::new(u64::from(n) << 20));
        let header = Header { service_code: Some(u32::from_be_bytes(service)), ..header };
        let mut bytes = vec![0; header.packet_len(0, 0)];
        header.emit(&[], &mut bytes);
        bytes
    };
    (0..DIFFERENT as u16).map(request).collect()
}

//! DCCP in a custom event loop built from the state machine, a UDP socket and mio. On a microcontroller, the
//! network stack and a timer take the place of mio; the calls stay the same. This program runs both ends of
//! an echo, each in its own loop.

use dccp_proto::{Ecn, Ports, Route, Sink};
use mio::{Events, Interest, Poll, Token, net::UdpSocket};
use mpdccp_proto::{Endpoint, ListenConfig, PathConfig};
use mpdccp_proto::{PktInfo, SessionConfig, SessionEvent};
use mpdccp_units::Time;
use std::{error::Error, fs::File, io::Read, net::SocketAddr, time::Instant};

const DCCP_PORT: u16 = 5001;
/// Size in bytes of the IPv4 and UDP headers before each packet, which congestion control counts.
const OVERHEAD: u16 = 28;

/// The packets to send.
struct Outbox(Vec<(SocketAddr, Vec<u8>)>);

impl Sink for Outbox {
    fn reserve(&mut self, route: &Route, _ecn: Ecn, len: usize) -> &mut [u8] {
        let last = self.0.len();
        self.0.push((route.remote, vec![0; len]));
        &mut self.0[last].1
    }
}

/// Serves echoes or, if `text` is given, connects to an echo server and returns the answer.
fn run(mut socket: UdpSocket, text: Option<(SocketAddr, &str)>) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut seed, start) = ([0; 32], Instant::now());
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let mut endpoint = Endpoint::new(seed);
    let clock = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    let send = |to: &mut Endpoint, session, data| to.send(clock(), session, data, PktInfo::default());
    let route = |remote| Route { socket: 0, local: None, remote };
    let session = SessionConfig { multipath: false, ..SessionConfig::default() };
    match text {
        Some((to, _)) => {
            let ports = Ports { local: 50_000, remote: DCCP_PORT };
            endpoint.connect(clock(), session, PathConfig::new(route(to), ports, 1500, OVERHEAD));
        }
        None => endpoint.listen(ListenConfig {
            max_sessions_per_source: 10,
            ..ListenConfig::for_anyone(DCCP_PORT, session, OVERHEAD, 100)
        }),
    }
    let mut poll = Poll::new()?;
    poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
    let (mut events, mut out, mut answer) = (Events::with_capacity(1), Outbox(Vec::new()), None);
    let mut buffer = [0; 65_535];
    loop {
        endpoint.handle_timeout(clock());
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let (packet, wire) = (&buffer[..len], len as u32 + u32::from(OVERHEAD));
            endpoint.handle_datagram(clock(), &route(from), Ecn::NotEct, wire, packet);
        }
        while let Some((session, event)) = endpoint.poll_event() {
            match (event, text) {
                (SessionEvent::Opened { .. }, Some((_, text))) => send(&mut endpoint, session, text.into()),
                (SessionEvent::Closed(why), Some(_)) => return answer.ok_or(why.to_string().into()),
                _ => {}
            }
        }
        while let Some((session, data)) = endpoint.poll_deliver() {
            if text.is_none() {
                send(&mut endpoint, session, data);
            } else {
                endpoint.close(clock(), session);
                answer = Some(data);
            }
        }
        endpoint.poll_transmit(clock(), &mut out);
        for (to, packet) in out.0.drain(..) {
            let _ = socket.send_to(&packet, to); // A refused packet is lost, as on the network.
        }
        poll.poll(&mut events, endpoint.poll_timeout().map(|(at, _)| at.since(clock())))?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    let to = server.local_addr()?;
    std::thread::spawn(|| run(server, None).map(drop).map_err(|e| e.to_string()));
    let answer = run(UdpSocket::bind("127.0.0.1:0".parse()?)?, Some((to, "hello")))?;
    assert_eq!(answer, b"hello");
    println!("the server answered: {}", answer.escape_ascii());
    Ok(())
}

#[test]
fn the_echo_answers() {
    main().unwrap();
}

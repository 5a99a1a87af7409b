//! Tests of the data-plane loop.

use dccp_net::{App, Bind, Clock, Core, Driver, UdpEncapsulation};
use dccp_proto::{Outbox, Ports, Route};
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::{Endpoint, ListenConfig, PathConfig, PktInfo, SessionConfig, SessionEvent, SessionId};
use mpdccp_units::{Duration, Time};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

const PORT: u16 = 5001;

/// A server that ends a session as soon as the peer sends a private option.
#[derive(Default)]
struct Server {
    log: Vec<String>,
}

impl App for Server {
    fn on_deliver(&mut self, _: &mut Core, _: Time, _: SessionId, data: Vec<u8>) {
        self.log.push(String::from_utf8(data).unwrap());
    }
    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Private(..) => core.endpoint.abort(now, session),
            SessionEvent::Closed(_) => self.log.push("closed".into()),
            _ => {}
        }
    }
}

struct World {
    client: Endpoint,
    server: Driver<Server>,
    remote: SocketAddr,
    begun: Instant,
}

impl World {
    /// Carries packets once in each direction, except the datagram "two", which is lost. Returns the client's
    /// packets.
    fn carry(&mut self) -> Vec<Vec<u8>> {
        assert!(self.begun.elapsed().as_secs() < 10, "nothing happened within 10 s");
        let now = Clock.now();
        let route = Route { socket: 0, local: None, remote: self.remote };
        let (mut up, mut down) = (Outbox::new(), Outbox::new());
        self.client.handle_timeout(now);
        self.client.poll_transmit(now, &mut up);
        self.server.with(|core, _| {
            for (_, ecn, bytes) in up.iter().filter(|(.., bytes)| !bytes.ends_with(b"two")) {
                core.endpoint.handle_datagram(now, &route, *ecn, bytes.len() as u32 + 28, bytes);
            }
            core.endpoint.handle_timeout(now);
            core.endpoint.poll_transmit(now, &mut down);
        });
        for (_, ecn, bytes) in &down {
            self.client.handle_datagram(now, &route, *ecn, bytes.len() as u32 + 28, bytes);
        }
        up.into_iter().map(|(.., bytes)| bytes).collect()
    }
}

/// A session holds data behind a missing packet. When an event handler ends the session, the application gets
/// this data before the event of the end, and nothing afterwards.
#[test]
fn data_comes_before_the_end_of_its_session() {
    let session = SessionConfig {
        reorder: ReorderConfig::active_fixed(Duration::from_secs(60)),
        repair: false,
        private_options: true,
        ..SessionConfig::default()
    };
    // The last packets of the server end up in this socket.
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = far.local_addr().unwrap();
    let server = Driver::new(Endpoint::new([1; 32]), |core| {
        core.add_socket(UdpEncapsulation::new(Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None })?)?;
        core.endpoint.listen(ListenConfig::for_anyone(PORT, session.clone(), 28, 10));
        Ok::<Server, io::Error>(Server::default())
    });
    let mut client = Endpoint::new([2; 32]);
    let route = Route { socket: 0, local: None, remote };
    let path = PathConfig::new(route, Ports { local: 50_000, remote: PORT }, 1500, 28);
    let id = client.connect(Clock.now(), session, path);
    let mut world = World { client, server: server.unwrap(), remote, begun: Instant::now() };
    while !world.client.status(Clock.now(), id).unwrap().paths[0].state.is_up() {
        world.carry();
    }
    for data in ["one", "two", "three"] {
        world.client.send(Clock.now(), id, data.into(), PktInfo::default());
    }
    while !world.carry().iter().any(|bytes| bytes.ends_with(b"three")) {}
    assert!(world.client.send_private(Clock.now(), id, b"end"));
    while !world.server.with(|_, app| app.log.contains(&"closed".into())) {
        world.carry();
        world.server.turn().unwrap();
    }
    assert_eq!(world.server.with(|_, app| app.log.clone()), ["one", "three", "closed"]);
}

//! Tests of encrypted channels over real sockets.

use dccp_net::secure::{Address, Channels, PresharedKey, PrivateKey, Settings};
use dccp_net::{App, Bind, ChannelEvent, Core, Driver, UdpEncapsulation};
use dccp_proto::Route;
use mpdccp_proto::{Endpoint, SessionId};
use mpdccp_units::{Duration, Time};
use std::io;
use std::net::UdpSocket;
use std::sync::mpsc::{Sender, channel};

/// An application that stops at the first event of a channel.
struct Client {
    stop_at: Time,
    seen: Sender<ChannelEvent>,
}

impl App for Client {
    fn on_deliver(&mut self, _: &mut Core, _: Time, _: SessionId, _: Vec<u8>) {}
    fn on_channel(&mut self, core: &mut Core, event: ChannelEvent) {
        self.seen.send(event).unwrap();
        core.stop();
    }
    fn next_timeout(&self) -> Option<Time> {
        Some(self.stop_at)
    }
    fn on_timeout(&mut self, core: &mut Core, _: Time) {
        core.stop();
    }
}

fn channels(n: u8) -> Channels {
    let (private_key, unix) = (PrivateKey::from_random([n; 32]), Duration::from_secs(1_700_000_000));
    let mut channels = Channels::new(Settings::new(private_key, n == 2, unix, [n; 32]));
    channels.add_peer(0, PrivateKey::from_random([3 - n; 32]).public(), PresharedKey::default());
    channels
}

#[test]
fn a_channel_that_carries_nothing_yet_is_ready_once_the_other_end_answers() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = server.local_addr().unwrap();
    server.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    std::thread::spawn(move || {
        let (mut bytes, mut channels) = ([0; 1500], channels(2));
        while let Ok((len, from)) = server.recv_from(&mut bytes) {
            let from = Address { socket: 0, local: None, remote: from };
            channels.handle(Time::from_millis(1), &from, &mut bytes[..len]);
            while let Some((to, answer)) = channels.poll_transmit() {
                server.send_to(&answer, to.remote).unwrap();
            }
        }
    });
    let (seen, events) = channel();
    let driver = Driver::new(Endpoint::new([1; 32]), |core| -> io::Result<Client> {
        let bind = Bind { addr: "127.0.0.1:0".parse().unwrap(), interface: None };
        let socket = core.add_socket(UdpEncapsulation::new(bind)?)?;
        core.net.secure(channels(1));
        let now = core.clock.now();
        let channel = core.net.open_channel(now, 0, &Route { socket, local: None, remote });
        assert_eq!(channel, Some(1 << 31));
        Ok(Client { stop_at: now + Duration::from_secs(10), seen })
    });
    driver.unwrap().run().unwrap();
    assert_eq!(events.recv(), Ok(ChannelEvent::Ready(1 << 31)));
}

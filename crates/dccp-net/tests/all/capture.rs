//! A capture is a pcap file of IP packets, which contain the packets as they were sent.

use dccp_net::{App, Bind, Capture, Core, Driver, UdpEncapsulation};
use dccp_proto::{Ports, Route};
use mpdccp_proto::{Endpoint, PathConfig, SessionConfig, SessionId};
use mpdccp_units::{Duration, Time};
use std::fs::Permissions;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

/// An application that connects, and stops a while after it has sent the Request.
struct Caller {
    stop_at: Time,
}

impl App for Caller {
    fn on_deliver(&mut self, _: &mut Core, _: Time, _: SessionId, _: Vec<u8>) {}
    fn next_timeout(&self) -> Option<Time> {
        Some(self.stop_at)
    }
    fn on_timeout(&mut self, core: &mut Core, _: Time) {
        core.stop();
    }
}

#[test]
fn a_request_is_sent_and_captured() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let remote = peer.local_addr().unwrap();
    let file = std::env::temp_dir().join(format!("mpdccp-capture-{}.pcap", std::process::id()));
    // The file exists and all users can read it, which the capture must change.
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let driver = Driver::new(Endpoint::new([1; 32]), |core| -> io::Result<Caller> {
        core.net.capture = Some(Capture::create(&file)?);
        // The socket is not bound to an address, so the capture must find out the source address.
        let bind = Bind { addr: "0.0.0.0:0".parse().unwrap(), interface: None };
        let socket = core.add_socket(UdpEncapsulation::new(bind)?)?;
        let now = core.clock.now();
        let route = Route { socket, local: None, remote };
        let path = PathConfig::new(route, Ports { local: 1, remote: 2 }, 1500, 28);
        core.endpoint.connect(now, SessionConfig::default(), path);
        Ok(Caller { stop_at: now + Duration::from_millis(50) })
    });
    driver.unwrap().run().unwrap();
    let mut request = [0; 1500];
    let n = peer.recv(&mut request).unwrap();
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600,
        "only the owner may read the capture"
    );
    let pcap = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();

    let word = |at: usize| u32::from_ne_bytes(*pcap[at..].first_chunk().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 101));
    let ip = &pcap[24 + 16..];
    assert_eq!(word(24 + 8) as usize, 28 + n);
    assert_eq!((ip[0], ip[9]), (0x45, 17));
    assert_eq!((&ip[12..16], &ip[16..20]), (&[127, 0, 0, 1][..], &[127, 0, 0, 1][..]));
    assert_eq!(ip[22..24], remote.port().to_be_bytes());
    assert_eq!(ip[28..28 + n], request[..n]);
    let sum: u32 = ip[..20].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

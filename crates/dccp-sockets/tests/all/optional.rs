//! Tests optional parts of RFC 4340 through the sockets.

use crate::{PATIENT, pair};
use dccp_sockets::{ConnectError, Connection, Listener, Options, Path, Reason, RecvError, ResetCode};

#[test]
fn data_goes_with_the_first_packets() {
    let server = Options::ccid(2).take_early_data(true).early_data(b"welcome");
    let (_listener, here, there) = pair(server, Options::ccid(2).take_early_data(true).early_data(b"hello"));
    here.send(b"then").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"hello");
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"then");
    assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"welcome");

    let (_listener, here, there) = pair(Options::ccid(2), Options::ccid(2).early_data(b"unwanted"));
    here.send(b"wanted").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"wanted");
    assert!(Connection::connect("127.0.0.1:9", Options::ccid(2).early_data(&[0; 600])).is_err());
}

#[test]
fn a_listener_takes_several_services() {
    let server = Options::ccid(2).service("SC:a").also_service("SC:b").also_service("SC=7");
    for code in ["SC:a", "SC:b", "SC=7"] {
        let (_listener, here, there) = pair(server.clone(), Options::ccid(2).service(code));
        assert_eq!(there.service(), Some(code.parse().unwrap()));
        assert_eq!(here.service(), there.service());
    }
    assert!(Listener::bind("127.0.0.1:0", server.also_service("SC:too long")).is_err());
}

#[test]
fn the_peer_is_told_why() {
    let (_listener, here, there) = pair(Options::ccid(2), Options::ccid(2));
    there.abort_with("out of disk space");
    assert_eq!(here.recv_timeout(PATIENT), Err(RecvError::Closed(Reason::ResetByPeer(ResetCode::Aborted))));
    assert_eq!(here.peer_said().as_deref(), Some("out of disk space"));
    assert_eq!(there.peer_said(), None);
}

#[test]
fn all_at_once_they_agree_and_carry_data() {
    let options = Options::ccid(2)
        .short_numbers(true)
        .min_coverage(1)
        .coverage(1)
        .data_checksum(true)
        .timestamps(false);
    let (_listener, here, there) = pair(options.clone(), options);
    for n in 0..200u8 {
        here.send(&[n; 300]).unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), [n; 300]);
    }
    let path = here.stats().paths[0].id;
    here.path_changed(path);
    here.send(b"on").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"on");
    here.finish().unwrap();
}

#[test]
fn a_client_that_is_sent_listen_packets_comes_from_its_port() {
    let listener = Listener::bind("127.0.0.1:0", Options::ccid(2)).unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = udp.local_addr().unwrap();
    listener.send_listen(client, 50_001).unwrap();
    let mut listen = [0; 64];
    udp.set_read_timeout(Some(PATIENT)).unwrap();
    let (len, from) = udp.recv_from(&mut listen).unwrap();
    assert_eq!((len, from), (20, listener.local_addr()));
    // RFC 5596 section 2.2.1: the packet type is 10, and the X bit is set.
    assert_eq!(listen[8], 10 << 1 | 1);
    drop(udp);
    let options = Options::ccid(2).source_ports(client.port(), 50_001);
    let here = Connection::connect(listener.local_addr(), options).unwrap();
    listener.accept_timeout(PATIENT).unwrap().send(b"there you are").unwrap();
    assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"there you are");
}

#[test]
fn one_source_cannot_have_all_connections() {
    let server = Options::ccid(2).max_connections_per_source(2);
    let (listener, _first, _theirs) = pair(server, Options::ccid(2));
    let address = listener.local_addr();
    let _second = Connection::connect(address, Options::ccid(2)).unwrap();
    let refused = Connection::connect(address, Options::ccid(2)).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(Reason::ResetByPeer(ResetCode::TooBusy))), "{refused:?}");
    let elsewhere = Path::from("127.0.0.2".parse().unwrap());
    Connection::connect(address, Options::ccid(2).path(elsewhere)).unwrap();
}

use super::connection::{Connection, End, UNSENT};
use super::{MTU, certificate, proxy};
use mpdccp_tunnel::config::{Config, TlsCheck};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const UNACKNOWLEDGED: Duration = Duration::from_secs(7);

pub(super) fn config() -> Config {
    // The state directory is not writable, so the certificate exists only in this process.
    config_with("state = \"/proc/mpdccp\"")
}

fn config_with(more: &str) -> Config {
    let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
    let text = format!(
        "{more}\nrole = \"server\"\nlisten = \"127.0.0.1\"\nencapsulation = \"tls\"\naddresses = [\"10.0.0.1/24\"]\nprivate_key = \"{key}\"\n[[peer]]\nname = \"c\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.0.0.2/32\"]\n"
    );
    Config::parse(Path::new("t"), &text, 1).unwrap()
}

/// Returns the two ends of a TCP connection. Neither end blocks.
fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ends = [client, listener.accept().unwrap().0];
    ends.iter().for_each(|end| end.set_nonblocking(true).unwrap());
    ends
}

/// Returns both ends after the handshake. An error includes the errors of both client and server.
fn connected(check: TlsCheck) -> Result<[Connection; 2], String> {
    connected_to(certificate::server(&config())?, check)
}

fn connected_to(server_config: Arc<ServerConfig>, check: TlsCheck) -> Result<[Connection; 2], String> {
    let [client, server] = pair();
    let name = ServerName::try_from("vpn.example.org").unwrap();
    let client_tls = ClientConnection::new(certificate::client(check)?, name).unwrap();
    let server_tls = ServerConnection::new(server_config).unwrap();
    let mut c = Connection::new(client, client_tls, UNACKNOWLEDGED).unwrap();
    let mut s = Connection::new(server, server_tls, UNACKNOWLEDGED).unwrap();
    while !c.is_ready() || !s.is_ready() {
        c.write().unwrap();
        s.read(&mut |_| {}).map_err(|end| format!("server: {end:?}"))?;
        if let Err(end) = c.read(&mut |_| {}) {
            loop {
                if let Err(told) = s.read(&mut |_| {}) {
                    return Err(format!("{end:?}; the server: {told:?}"));
                }
            }
        }
    }
    Ok([c, s])
}

/// Receives the next `n` packets.
pub(super) fn receive(end: &mut Connection, n: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while packets.len() < n {
        end.read(&mut |packet| packets.push(packet.to_vec())).unwrap();
    }
    packets
}

#[test]
fn packets_pass_both_ways_and_what_does_not_fit_is_dropped() {
    let [mut c, mut s] = connected(TlsCheck::None).unwrap();
    let packets: Vec<Vec<u8>> = [40, 1_472, 9_000].map(|n| vec![n as u8; n]).into();
    assert_eq!(c.send(packets.iter().map(Vec::as_slice)).unwrap(), 3);
    assert_eq!(receive(&mut s, 3), packets);
    assert_eq!(s.send(packets.iter().rev().map(Vec::as_slice)).unwrap(), 3);
    assert_eq!(receive(&mut c, 3)[0], packets[2]);
    // Neither end reads. The buffers are limited, and sending must not block.
    let many = vec![vec![7; usize::from(MTU)]; 100];
    let sent: usize = (0..1_000).map(|_| s.send(many.iter().map(Vec::as_slice)).unwrap()).sum();
    assert!(s.is_full() && sent < 50_000, "{sent} of 100000");
    assert_eq!(s.send(many.iter().map(Vec::as_slice)).unwrap(), 0);
    // All accepted packets arrive.
    let mut arrived = 0;
    while arrived < sent {
        c.read(&mut |packet| arrived += usize::from(packet == &many[0][..])).unwrap();
        s.write().unwrap();
    }
}

#[test]
fn a_connection_waits_for_nothing_and_holds_little() {
    let [c, s] = connected(TlsCheck::None).unwrap();
    for end in [c, s] {
        let socket = SockRef::from(&end.stream);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
        assert!(socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_notsent_lowat().unwrap() as usize, UNSENT);
    }
}

#[test]
fn a_stream_ends_with_its_last_packet() {
    let [client, server] = pair();
    let tls = ServerConnection::new(certificate::server(&config()).unwrap()).unwrap();
    let other = std::thread::spawn(move || {
        server.set_nonblocking(false).unwrap();
        let mut stream = rustls::StreamOwned::new(tls, server);
        stream.write_all(&[0, 3, 7, 7, 7]).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        // Keep the TCP connection open.
        stream
    });
    let name = ServerName::try_from("vpn.example.org").unwrap();
    let tls = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
    let mut c = Connection::new(client, tls, UNACKNOWLEDGED).unwrap();
    c.write().unwrap();
    let mut packets = Vec::new();
    let end = loop {
        if let Err(end) = c.read(&mut |packet| packets.push(packet.to_vec())) {
            break end;
        }
    };
    assert!(matches!(end, End::Closed), "{end:?}");
    assert_eq!(packets, [[7; 3]]);
    drop(other.join().unwrap());
}

#[test]
fn a_browser_gets_404() {
    let [client, server] = pair();
    client.set_nonblocking(false).unwrap();
    let server_tls = ServerConnection::new(certificate::server(&config()).unwrap()).unwrap();
    let mut s = Connection::new(server, server_tls, UNACKNOWLEDGED).unwrap();
    let browser = std::thread::spawn(move || {
        let name = ServerName::try_from("vpn.example.org").unwrap();
        let mut tls = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
        let mut client = client;
        let mut stream = rustls::Stream::new(&mut tls, &mut client);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: vpn.example.org\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(tls.alpn_protocol(), Some(super::ALPN));
        answer
    });
    let end = loop {
        if let Err(end) = s.read(&mut |_| panic!("no packet")) {
            break end;
        }
    };
    assert!(matches!(end, End::NotFrames), "{end:?}");
    s.refuse();
    assert!(browser.join().unwrap().starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_client_checks_what_its_file_says() {
    let [client, _] = connected(TlsCheck::None).unwrap();
    let presented = client.tls.peer_certificates().unwrap()[0].clone();
    let wrong = connected(TlsCheck::Sha256([7; 32])).unwrap_err();
    assert!(wrong.contains("ApplicationVerificationFailure"), "{wrong}");
    assert!(
        wrong.contains("the server: Failed") && wrong.contains("AccessDenied"),
        "the server learns the reason: {wrong}"
    );
    let own = certificate::digest(&presented);
    assert!(connected(TlsCheck::Sha256(own)).is_ok(), "the right digest");
    // The certificate was not issued by a known authority.
    let unknown = connected(TlsCheck::Name);
    assert!(unknown.is_err(), "self-signed");
    // Anyone can copy the certificate, but only the right server has its key.
    let stolen = certified(presented, certificate::own(&config()).unwrap().1);
    for check in [TlsCheck::None, TlsCheck::Sha256(own)] {
        let wrong = connected_to(stolen.clone(), check).unwrap_err();
        assert!(wrong.contains("BadSignature"), "{wrong}");
    }
}

/// Returns the configuration of a server that presents this certificate with this key, which need not match
/// it.
fn certified(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Arc<ServerConfig> {
    let key = CertifiedKey::new(vec![certificate], any_supported_type(&key).unwrap());
    let mut config = ServerConfig::clone(&certificate::server(&config()).unwrap());
    config.cert_resolver = Arc::new(SingleCertAndKey::from(key));
    config.into()
}

#[test]
fn the_certificate_stays_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let state = |name: &str| {
        let cfg = config_with(&format!("state = \"{}/{name}\"", directory.path().display()));
        certificate::own(&cfg).unwrap().0
    };
    let first = state("a");
    assert_eq!(state("a"), first);
    assert_ne!(state("b"), first);
    let file = directory.path().join("a/mpdccp0.tls.pem");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "the file contains the private key");
    // Now the certificate comes from the files named in the configuration.
    let files = format!("tls_certificate = \"{0}\"\ntls_key = \"{0}\"", file.display());
    assert_eq!(certificate::own(&config_with(&files)).unwrap().0, first);
    std::fs::write(&file, "nothing").unwrap();
    let wrong = certificate::own(&config_with(&files)).unwrap_err();
    assert!(wrong.contains("tls_certificate: ") && wrong.contains("no certificate in PEM format"), "{wrong}");
}

#[test]
fn proxies_accept_or_say_why_not() {
    let ask = |answer: &str, has_login| {
        let [mut proxy, client] = pair();
        let mut read = Vec::new();
        // The proxy's answer arrives in two parts.
        let (begin, end) = answer.split_at(answer.len() / 2);
        proxy.write_all(begin.as_bytes()).unwrap();
        assert!(!proxy::accepts(&client, &mut read, has_login).unwrap());
        proxy.write_all(end.as_bytes()).unwrap();
        drop(proxy);
        loop {
            match proxy::accepts(&client, &mut read, has_login) {
                Ok(false) => {}
                Ok(true) => return "ok".to_owned(),
                Err(End::Failed(e)) => return e.to_string(),
                Err(end) => return format!("{end:?}"),
            }
        }
    };
    assert_eq!(ask("HTTP/1.1 200 Connection established\r\nVia: a\r\n\r\n", false), "ok");
    assert_eq!(ask("HTTP/1.0 204 Fine\r\n\r\n", false), "ok");
    assert!(ask("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", false).contains("requires a password"));
    assert!(ask("HTTP/1.1 407 No\r\n\r\n", true).contains("refuses the user or password"));
    assert_eq!(ask("HTTP/1.1 403 Not\x1b here\r\n\r\n", false), "the proxy refuses: HTTP/1.1 403 Not here");
    assert_eq!(ask("SSH-2.0-x 200\r\n\r\n", false), "the proxy refuses: SSH-2.0-x 200");
    assert!(ask(&"x".repeat(9_000), false).contains("too long"));
    assert_eq!(ask("HTTP/1.1 200 cut", false), "Closed");
    let to = "[2001:db8::1]:443".parse().unwrap();
    let secret = "ann:pass word".to_owned().into();
    assert_eq!(
        *proxy::request(to, Some(&secret)),
        "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nProxy-Authorization: Basic YW5uOnBhc3Mgd29yZA==\r\n\r\n"
    );
    assert!(!proxy::request(to, None).contains("Authorization"));
}

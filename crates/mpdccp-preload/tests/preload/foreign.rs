//! Tests with a client that does not use the daemon, so that the test decides when each packet leaves.

use super::Host;
use dccp_proto::{Ports, Route, Sink};
use mpdccp_proto::{Endpoint, PathConfig, PktInfo, SessionConfig, SessionEvent, SessionId};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Collects the packets sent by the client.
struct Out(Vec<Vec<u8>>);

impl Sink for Out {
    fn reserve(&mut self, _: &Route, _: dccp_proto::Ecn, len: usize) -> &mut [u8] {
        self.0.push(vec![0; len]);
        self.0.last_mut().unwrap()
    }
}

/// A client that does not use the daemon, and its server, a Python program that does.
struct Client {
    server: Child,
    lines: BufReader<ChildStdout>,
    to: SocketAddr,
    socket: UdpSocket,
    endpoint: Endpoint,
    session: SessionId,
    /// The type of the latest packet from the server.
    last_type: u8,
    begun: Instant,
}

impl Client {
    /// Starts the server and a client, which sends a Request to the server. The server's script can use the
    /// listening socket `l`. Returns `None` if Python is not installed.
    fn new(host: &Host, options: &str, serve: &str) -> Option<Client> {
        let mut server = host.command("python3");
        let script = format!(
            "import signal, socket as s, struct
signal.alarm(120)
l = s.socket(s.AF_INET, 6, 33); l.setsockopt(269, 2, struct.pack('!I', 7)); {options}l.bind(('', 5007)); l.listen(5)
print('listening', flush=True)
a, _ = l.accept()
{serve}"
        );
        let Ok(mut server) = server.args(["-c", &script]).stdout(Stdio::piped()).spawn() else {
            println!("SKIPPED a server in Python: python3 is not installed");
            return None;
        };
        let lines = BufReader::new(server.stdout.take().unwrap());
        let to = SocketAddr::from(([127, 0, 0, 1], host.port));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut endpoint = Endpoint::new([7; 32]);
        let connection = dccp_proto::Config { service_code: 7, ..dccp_proto::Config::default() };
        let config = SessionConfig { multipath: false, connection, ..SessionConfig::default() };
        let route = Route { socket: 0, local: None, remote: to };
        let path = PathConfig::new(route, Ports { local: 50_000, remote: 5007 }, 1500, 28);
        let session = endpoint.connect(dccp_net::Clock.now(), config, path);
        let (last_type, begun) = (0, Instant::now());
        let mut client = Client { server, lines, to, socket, endpoint, session, last_type, begun };
        client.await_line("listening");
        Some(client)
    }

    /// Waits for a line from the server, without sending or receiving packets in the meantime.
    fn await_line(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    /// Sends the packets for which `passes` returns true, and handles one received packet. Returns a datagram
    /// from the server, if any.
    fn turn(&mut self, passes: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        assert!(self.begun.elapsed() < Duration::from_secs(60), "the server does not answer");
        let now = dccp_net::Clock.now();
        self.endpoint.handle_timeout(now);
        let mut out = Out(Vec::new());
        self.endpoint.poll_transmit(now, &mut out);
        for packet in out.0.iter().filter(|packet| passes(packet)) {
            self.socket.send_to(packet, self.to).unwrap();
        }
        let mut bytes = [0; 2000];
        if let Ok((len, remote)) = self.socket.recv_from(&mut bytes) {
            self.last_type = bytes[8] >> 1 & 0xf;
            let route = Route { socket: 0, local: None, remote };
            let (now, ecn) = (dccp_net::Clock.now(), dccp_proto::Ecn::NotEct);
            self.endpoint.handle_datagram(now, &route, ecn, len as u32 + 28, &bytes[..len]);
        }
        self.endpoint.poll_deliver().map(|(_, data)| data)
    }

    /// Opens the connection, and waits until the server has accepted it. Then sends the datagrams, and
    /// aborts.
    fn send_and_abort(&mut self, datagrams: &[&str]) {
        let mut opened = false;
        while !opened {
            opened = matches!(self.endpoint.poll_event(), Some((_, SessionEvent::Opened { .. })));
            // One more turn sends the Ack that opens the connection at the server.
            self.turn(|_| true);
        }
        self.await_line("accepted");
        for data in datagrams {
            let data = data.as_bytes().to_vec();
            self.endpoint.send(dccp_net::Clock.now(), self.session, data, PktInfo::default());
        }
        while self.endpoint.backlog(dccp_net::Clock.now(), self.session).packets > 0 {
            self.turn(|_| true);
        }
        self.endpoint.abort(dccp_net::Clock.now(), self.session);
        self.turn(|_| true);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// The client's first datagram arrives in the packet that opens the connection. The Linux kernel can send
/// such packets.
#[test]
fn data_that_opens_a_connection_is_not_lost() {
    let host = Host::new();
    let Some(mut client) = Client::new(&host, "", "a.send(a.recv(100)); print(a.recv(100))") else { return };
    // The client sends the datagram as soon as the handshake allows it.
    client.endpoint.send(dccp_net::Clock.now(), client.session, b"first".to_vec(), PktInfo::default());
    // The test drops the Acks, so the DataAck opens the connection.
    let echoed = loop {
        if let Some(data) = client.turn(|packet| packet[8] >> 1 & 0xf != 3) {
            break data;
        }
    };
    assert_eq!(echoed, b"first");
}

/// The daemon reads the packet that opens the connection, the datagram and the Close in the same turn.
#[test]
fn a_connection_that_ends_at_once_is_accepted() {
    let host = Host::new();
    let Some(mut client) = Client::new(&host, "", "print(a.recv(9), a.recv(9), flush=True)") else { return };
    let is_opened = |(_, event): (SessionId, SessionEvent)| matches!(event, SessionEvent::Opened { .. });
    while !std::iter::from_fn(|| client.endpoint.poll_event()).any(is_opened) {
        client.turn(|_| true);
    }
    let ((pause, paused), (resume, resumed)) = (channel(), channel::<()>());
    host.handle.run(move |_, _| {
        pause.send(()).unwrap();
        let _ = resumed.recv();
    });
    paused.recv().unwrap();
    client.endpoint.send(dccp_net::Clock.now(), client.session, b"last".to_vec(), PktInfo::default());
    while client.endpoint.backlog(dccp_net::Clock.now(), client.session).packets > 0 {
        client.turn(|_| true);
    }
    client.endpoint.close(dccp_net::Clock.now(), client.session);
    client.turn(|_| true);
    drop(resume);
    client.await_line("b'last' b''");
}

/// The client acknowledges nothing until the server has queued all datagrams, so until then the server can
/// send only its first window.
#[test]
fn the_most_urgent_datagrams_leave_first() {
    let host = Host::new();
    let serve =
        "for i in range(60): a.sendmsg([bytes([i % 3]), bytes(999)], [(269, 1, struct.pack('I', i % 3))])
print('queued', flush=True); a.recv(9)";
    let options = "l.setsockopt(269, 16, 1); l.setsockopt(269, 17, 100); ";
    let Some(mut client) = Client::new(&host, options, serve) else { return };
    let mut order = Vec::new();
    let mut opened = false;
    while !opened {
        opened = matches!(client.endpoint.poll_event(), Some((_, SessionEvent::Opened { .. })));
        // One more turn sends the Ack that opens the connection at the server.
        order.extend(client.turn(|_| true).map(|data| data[0]));
    }
    client.await_line("queued");
    while order.len() < 60 {
        order.extend(client.turn(|_| true).map(|data| data[0]));
    }
    assert!(order[20..].is_sorted_by(|a, b| a >= b), "{order:?}");
}

/// The call that receives the last datagrams returns them. The next call returns the error.
#[test]
fn an_error_behind_a_datagram_is_not_lost() {
    let host = Host::new();
    let serve = "print('accepted', flush=True)
import ctypes, errno
recvmmsg = ctypes.CDLL(None, use_errno=True).recvmmsg
room = ctypes.create_string_buffer(9); part = (ctypes.c_size_t * 2)(ctypes.addressof(room), 9)
messages = (ctypes.c_size_t * 16)()
for i in (2, 10): messages[i], messages[i + 1] = ctypes.addressof(part), 1
print(recvmmsg(a.fileno(), messages, 2, 0, None), room.value.decode(), flush=True)
print(recvmmsg(a.fileno(), messages, 2, 0, None), errno.errorcode[ctypes.get_errno()], flush=True)";
    let Some(mut client) = Client::new(&host, "", serve) else { return };
    client.send_and_abort(&["last"]);
    client.await_line("1 last");
    client.await_line("-1 ECONNRESET");
}

/// Programs ask for the size of the next datagram with MSG_PEEK and MSG_TRUNC, without a buffer.
#[test]
fn a_question_for_the_size_gets_the_error() {
    let host = Host::new();
    let serve = "print('accepted', flush=True)
import ctypes, errno
recv = ctypes.CDLL(None, use_errno=True).recv
print(recv(a.fileno(), None, 0, 0x22), a.recv(9).decode(), flush=True)
print(recv(a.fileno(), None, 0, 0x22), errno.errorcode[ctypes.get_errno()], flush=True)";
    let Some(mut client) = Client::new(&host, "", serve) else { return };
    client.send_and_abort(&["last"]);
    client.await_line("4 last");
    client.await_line("-1 ECONNRESET");
}

/// A call with an empty buffer drops the datagram. The next call returns the error.
#[test]
fn an_empty_buffer_does_not_get_the_error_behind_a_datagram() {
    for call in ["recv(a.fileno(), None, 0, 0)", "len(a.recvmsg(0)[0])"] {
        let host = Host::new();
        let serve = format!(
            "print('accepted', flush=True)
import ctypes, errno, select
recv = ctypes.CDLL(None).recv
ended = select.poll(); ended.register(a, 0); ended.poll()
print({call}, flush=True)
try: a.recv(9)
except OSError as e: print(errno.errorcode[e.errno], flush=True)"
        );
        let Some(mut client) = Client::new(&host, "", &serve) else { return };
        client.send_and_abort(&["last"]);
        client.await_line("0");
        client.await_line("ECONNRESET");
    }
}

/// The calls read and readv cannot tell an empty datagram from the end.
#[test]
fn an_error_behind_an_empty_datagram_waits_for_the_rest() {
    let host = Host::new();
    let serve = "print('accepted', flush=True)
import errno, os, select
ended = select.poll(); ended.register(a, 0); ended.poll()
print(os.read(a.fileno(), 9), os.read(a.fileno(), 9), flush=True)
try: os.read(a.fileno(), 9)
except OSError as e: print(errno.errorcode[e.errno], flush=True)";
    let Some(mut client) = Client::new(&host, "", serve) else { return };
    client.send_and_abort(&["", "last"]);
    client.await_line("b'' b'last'");
    client.await_line("ECONNRESET");
}

/// By default, the kernel's server asks the client to close (CloseReq), and the client holds TIMEWAIT. With
/// DCCP_SOCKOPT_SERVER_TIMEWAIT, the server sends a Close.
#[test]
fn a_server_holds_timewait_only_on_request() {
    const CLOSE_REQ: u8 = 5;
    const CLOSE: u8 = 6;
    for (serve, expected) in [("a.close()", CLOSE_REQ), ("a.setsockopt(269, 6, 1); a.close()", CLOSE)] {
        let host = Host::new();
        let Some(mut client) = Client::new(&host, "", serve) else { return };
        while !matches!(client.last_type, CLOSE_REQ | CLOSE) {
            client.turn(|_| true);
        }
        assert_eq!(client.last_type, expected);
    }
}

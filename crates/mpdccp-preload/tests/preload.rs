//! Tests with programs that know only the kernel's interface: Python's socket module and, if installed,
//! socat.

use dccp_net::Handle;
use dccp_proto::{Ports, Route, Sink};
use mpdccp_proto::{Endpoint, PathConfig, PathName, PktInfo, SessionConfig, SessionEvent, SessionId};
use mpdccp_socketd::{Daemon, Settings};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A daemon for one test.
struct Host {
    dir: tempfile::TempDir,
    port: u16,
    handle: Handle<Daemon>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn new() -> Host {
        let dir = tempfile::tempdir().unwrap();
        // All users must be able to access the daemon's directory.
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let control = dir.path().join("socketd.sock");
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // If another program takes the free port before the daemon does, try again with a different one.
            let (port, driver) = loop {
                let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
                let settings = Settings { control: control.clone(), udp_port: Some(port), ccid: 2 };
                match Daemon::driver(settings) {
                    Err(e) if e.kind() == ErrorKind::AddrInUse => {}
                    driver => break (port, driver.unwrap()),
                }
            };
            sender.send((port, driver.handle())).unwrap();
            driver.run().unwrap();
        });
        let (port, handle) = receiver.recv().unwrap();
        Host { dir, port, handle, thread: Some(thread) }
    }

    fn stop(&mut self) {
        self.handle.run(|core, _| core.stop());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn command(&self, program: &str) -> Command {
        let library: PathBuf = std::env::current_exe().unwrap().with_file_name("libdccp_preload.so");
        assert!(library.exists(), "{}", library.display());
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", library).env("MPDCCP_SOCKETD", self.dir.path().join("socketd.sock"));
        command
    }

    /// Runs a Python script, preceded by common helper code. Returns `None` if Python is not installed.
    fn python(&self, script: &str) -> Option<Output> {
        let begin = "\
import errno, os, select, signal, socket as s, struct, subprocess, sys, threading, time
signal.alarm(120)
def new(family=s.AF_INET): return s.socket(family, 6, 33)
def listening(family=s.AF_INET, host='127.0.0.1', service=7):
    l = new(family); l.setsockopt(269, 2, struct.pack('!I', service)); l.bind((host, 0)); l.listen(5); return l
def pair():
    l = listening(); c = new(); c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(l.getsockname())
    a, who = l.accept(); assert who == c.getsockname(), (who, c.getsockname())
    l.close(); return c, a
def fails(code, f, *args):
    try: f(*args)
    except OSError as e: assert e.errno == code, (errno.errorcode[e.errno], errno.errorcode[code])
    else: raise AssertionError(errno.errorcode[code] + ' expected')
";
        let mut command = self.command("python3");
        let run =
            command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = run else {
            println!("SKIPPED preloading into Python: python3 is not installed");
            return None;
        };
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{begin}{script}\nprint('done')\n").as_bytes())
            .unwrap();
        Some(child.wait_with_output().unwrap())
    }

    fn passes(&self, script: &str) {
        if let Some(output) = self.python(script) {
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("done"), "{}: {text}", output.status);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn datagrams_go_both_ways_and_the_end_is_the_end() {
    Host::new().passes(
        "c, a = pair()
for i in range(50): c.send(b'%d' % i)
assert [a.recv(2000) for i in range(50)] == [b'%d' % i for i in range(50)]
a.send(b''); a.send(b'after nothing')
assert c.recv(10) == b'' and c.recv(20) == b'after nothing'
a.send(b'whose?'); assert c.recvfrom(10) == (b'whose?', None), c
fails(errno.EAGAIN, c.recv, 10, s.MSG_DONTWAIT)
for f in (c.recv, c.recvfrom, c.recvmsg): fails(errno.EAGAIN, lambda: f(10, *([0] if f == c.recvmsg else []), s.MSG_ERRQUEUE))
a.send(b'last'); a.close()
assert c.recv(10) == b'last' and c.recv(10) == b'' and c.recv(10) == b''
time.sleep(.1)
fails(errno.EPIPE, c.send, b'x')",
    );
}

#[test]
fn addresses_and_options_are_those_of_dccp() {
    Host::new().passes(
        "l = listening(); c = new()
assert c.getsockname() == ('0.0.0.0', 0)
fails(errno.ENOTCONN, c.getpeername)
c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(l.getsockname()); a, _ = l.accept()
e = new(); e.setsockopt(269, 2, struct.pack('!I', 7)); e.connect(('0.0.0.0', l.getsockname()[1])); l.accept()
assert c.getpeername() == l.getsockname() == a.getsockname() and a.getpeername() == c.getsockname()
get = lambda x, o, level=269: x.getsockopt(level, o)
assert (get(c, s.SO_TYPE, s.SOL_SOCKET), get(c, 39, 1), get(c, 38, 1)) == (6, s.AF_INET, 33)
assert get(l, s.SO_ACCEPTCONN, 1) == 1 and get(c, s.SO_ACCEPTCONN, 1) == 0
assert c.getsockopt(269, 2, 4) == struct.pack('!I', 7)
assert 1000 < get(c, 5) <= 1472 and (get(c, 14), get(c, 15)) == (2, 2)
assert set(c.getsockopt(269, 12, 64)) >= {2, 3, 4, 5, 7}
assert get(c, 17) == 5; c.setsockopt(269, 17, 20); assert get(c, 17) == 20
fails(errno.EINVAL, c.setsockopt, 269, 17, -1)
for o in (1, 3, 4): c.setsockopt(269, o, 1)
fails(errno.ENOPROTOOPT, c.setsockopt, 269, 99, 1)
fails(errno.ENOPROTOOPT, c.getsockopt, 269, 99)
fails(errno.EISCONN, c.setsockopt, 269, 13, b'\\x05')
fails(errno.EINVAL, new().setsockopt, 269, 13, b'\\x63')
fails(errno.EINVAL, new().setsockopt, 269, 10, 16)
d = new(); d.setsockopt(269, 13, b'\\x05'); d.setsockopt(269, 2, struct.pack('!I', 7)); d.connect(l.getsockname())
assert get(d, 14) == 5
c.setsockopt(s.SOL_SOCKET, s.SO_SNDBUF, 1 << 20)
c.shutdown(s.SHUT_WR); c.send(b'no half-close'); assert a.recv(99) == b'no half-close'",
    );
}

#[test]
fn refusals_have_the_kernels_numbers() {
    Host::new().passes(
        "l = listening(); to = l.getsockname()
c = new(); fails(errno.EBADRQC, c.connect, to)
c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(to)
fails(errno.EISCONN, c.connect, to)
fails(errno.EINVAL, c.listen)
fails(errno.EINVAL, new().accept)
fails(errno.EADDRINUSE, new().bind, to)
fails(errno.EADDRNOTAVAIL, new().bind, ('192.0.2.1', 0))
fails(errno.ENETUNREACH, new().connect, ('224.0.0.1', 5))
# After the peer has ended the connection, the daemon no longer notices when the program closes the socket.
b = new(); b.setsockopt(269, 2, struct.pack('!I', 7)); b.bind(('127.0.0.1', 0)); used = b.getsockname()
l.accept(); b.connect(to); l.accept()[0].close(); assert b.recv(9) == b''
b.close(); new().bind(used)
l.close(); time.sleep(.05)
fails(errno.ECONNREFUSED, new().connect, to)
b = new(); b.bind(to)
if os.getuid() == 0:
    pid = os.fork()
    if pid == 0:
        os.setuid(65534); fails(errno.EACCES, new().bind, ('127.0.0.1', 80)); os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0",
    );
}

#[test]
fn a_program_without_free_descriptors_gets_the_kernels_number() {
    Host::new().passes(
        "import resource
l = listening(); c = new(); c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(l.getsockname())
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
try:
    while True: held.append(os.dup(0))
except OSError as e: assert e.errno == errno.EMFILE, e
fails(errno.EMFILE, new)
fails(errno.EMFILE, l.accept)
# The request takes the only free descriptor.
os.close(held.pop())
fails(errno.EMFILE, new)
for fd in held: os.close(fd)
a, _ = l.accept(); c.send(b'accepted'); assert a.recv(9) == b'accepted'",
    );
}

#[test]
fn poll_sees_a_pending_connect_an_accept_and_its_failure() {
    Host::new().passes(
        "def polled(x, what, ms=0):
    p = select.poll(); p.register(x, what); return p.poll(ms)
l = listening(); l.setblocking(False)
fails(errno.EAGAIN, l.accept)
c = new(); c.setblocking(False); c.setsockopt(269, 2, struct.pack('!I', 7))
fails(errno.EINPROGRESS, c.connect, l.getsockname())
assert polled(l, select.POLLIN, 9000); assert polled(c, select.POLLOUT, 9000)
assert c.getsockopt(s.SOL_SOCKET, s.SO_ERROR) == 0
c.connect(l.getsockname()); fails(errno.EISCONN, c.connect, l.getsockname())
a, _ = l.accept(); c.send(b'x'); assert polled(a, select.POLLIN, 9000); assert a.recv(9) == b'x'
n = new(); n.setblocking(False)
fails(errno.EINPROGRESS, n.connect, l.getsockname())
assert polled(n, select.POLLOUT, 9000) and n.getsockopt(s.SOL_SOCKET, s.SO_ERROR) == errno.EBADRQC
fails(errno.EINPROGRESS, n.connect, l.getsockname()); assert polled(n, select.POLLOUT, 9000)
fails(errno.EBADRQC, n.connect, l.getsockname())
n.setsockopt(269, 2, struct.pack('!I', 7)); n.setblocking(True); n.connect(l.getsockname())",
    );
}

#[test]
fn datagrams_sent_before_connect_are_not_part_of_the_connection() {
    Host::new().passes(
        "l = listening(); c = new(); c.setsockopt(269, 2, struct.pack('!I', 7))
for i in range(2): c.send(b'early')
c.connect(l.getsockname()); a, _ = l.accept(); c.send(b'first')
assert a.recv(9) == b'first'",
    );
}

/// Runs in a separate network namespace, which only root can create.
#[test]
fn a_connect_without_an_answer_is_pending_and_other_namespaces_are_not_served() {
    let thread = std::thread::spawn(|| {
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
            return println!("SKIPPED a socket daemon in a network namespace: it needs root");
        }
        let ip = |args: &str| assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success());
        ip("link set lo up");
        // This interface drops all packets.
        ip("link add hole type veth peer name far");
        ip("addr add 192.0.2.1/24 dev hole");
        ip("link set hole up");
        ip("link set far up");
        ip("neigh add 192.0.2.77 lladdr 02:00:00:00:00:01 dev hole");
        let host = Host::new();
        host.passes(
            "x = new(); x.setblocking(False); x.bind(('192.0.2.1', 0))
fails(errno.EINPROGRESS, x.connect, ('192.0.2.77', 5))
p = select.poll(); p.register(x, select.POLLOUT); assert p.poll(50) == []
fails(errno.EALREADY, x.connect, ('192.0.2.77', 5))
fails(errno.ENETUNREACH, new().connect, ('198.51.100.1', 5))
y = new(); y.setsockopt(s.SOL_SOCKET, s.SO_SNDTIMEO, struct.pack('ll', 0, 50_000))
fails(errno.EINPROGRESS, y.connect, ('192.0.2.77', 5))
# A blocking call waits for the attempt that is pending.
x.setblocking(True); waited = []
def wait():
    try: x.connect(('192.0.2.77', 5))
    except OSError as e: waited.append(e.errno)
waiting = threading.Thread(target=wait); waiting.start()
# Another thread closes the descriptor.
z, ended = new(), []
def attempt():
    try: z.connect(('192.0.2.77', 5))
    except OSError as e: ended.append(e.errno)
t = threading.Thread(target=attempt); t.start(); time.sleep(.2); os.close(z.detach()); t.join(20)
assert ended == [errno.ECONNABORTED], ended
# After a signal, Python polls the socket and reads SO_ERROR. By then, a host answers at the address.
signal.signal(signal.SIGUSR1, lambda *_: None)
def interrupt():
    time.sleep(.2); signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    time.sleep(.2); subprocess.run('ip addr add 192.0.2.77/32 dev lo'.split(), check=True)
threading.Thread(target=interrupt).start()
fails(errno.ECONNREFUSED, new().connect, ('192.0.2.77', 5))
waiting.join(60); assert waited == [errno.ECONNREFUSED], waited
elsewhere = 'import socket as s\\ntry: s.socket(2, 6, 33)\\nexcept OSError: print(1)'
assert subprocess.run(['unshare', '-n', sys.executable, '-c', elsewhere], capture_output=True).stdout == b'1\\n'",
        );
    });
    thread.join().unwrap();
}

#[test]
fn datagrams_that_are_too_long_are_refused_by_every_call() {
    Host::new().passes(
        "c, a = pair(); most = c.getsockopt(269, 5)
c.send(b'x' * most); assert len(a.recv(9000)) == most
long = b'x' * (most + 1)
for f in (c.send, lambda d: os.write(c.fileno(), d), lambda d: c.sendmsg([d[:9], d[9:]]), lambda d: os.writev(c.fileno(), [d]), lambda d: c.sendto(d, c.getpeername())):
    fails(errno.EMSGSIZE, f, long)
os.write(c.fileno(), b'short'); assert a.recv(9) == b'short'",
    );
}

/// Packets with IPv6 carry less. The library remembers the sizes of sockets for a while.
#[test]
fn a_descriptor_that_is_used_again_has_the_size_of_its_new_socket() {
    Host::new().passes(
        "try: s.socket(s.AF_INET6, s.SOCK_DGRAM).bind(('::1', 0))
except OSError: print('done'); sys.exit()
c, a = pair(); most = c.getsockopt(269, 5)
l = listening(s.AF_INET6, '::1'); d = new(s.AF_INET6); d.setsockopt(269, 2, struct.pack('!I', 7)); d.connect(l.getsockname())
assert d.getsockopt(269, 5) < most
c.send(b'x' * most)
os.dup2(d.fileno(), c.fileno())
fails(errno.EMSGSIZE, os.write, c.fileno(), b'x' * most)",
    );
}

#[test]
fn many_datagrams_are_received_as_the_kernel_does() {
    Host::new().passes(
        "import ctypes
recvmmsg = ctypes.CDLL(None, use_errno=True).recvmmsg
def many(n, flags=0, limit=None):
    rooms = [ctypes.create_string_buffer(9) for _ in range(n)]
    parts = [(ctypes.c_size_t * 2)(ctypes.addressof(room), 9) for room in rooms]
    messages = (ctypes.c_size_t * (8 * n))()
    for i in range(n): messages[8 * i + 2], messages[8 * i + 3] = ctypes.addressof(parts[i]), 1
    left = limit and (ctypes.c_long * 2)(*limit)
    got = recvmmsg(c.fileno(), messages, n, flags, left)
    return [room.value for room in rooms[:got]] if got >= 0 else ctypes.get_errno(), left and left[0] + left[1] / 1e9
c, a = pair()
# Without MSG_WAITFORONE, the call waits for all datagrams.
a.send(b'one'); later = threading.Timer(.2, a.send, [b'two']); later.start()
assert many(2) == ([b'one', b'two'], None); later.join()
a.send(b'three'); assert many(2, 0x10000) == ([b'three'], None)
# The time limit ends the call after a datagram, and becomes the time that is left.
a.send(b'four'); got, left = many(1, 0, (100, 0)); assert got == [b'four'] and 0 < left < 100, left
a.send(b'five'); assert many(2, 0, (0, 1)) == ([b'five'], 0)
for wrong in ((-1, 0), (0, 10 ** 9)): assert many(1, 0, wrong)[0] == errno.EINVAL",
    );
}

#[test]
fn a_socket_survives_dup_fork_exec_and_the_process() {
    Host::new().passes(
        "c, a = pair(); d = os.dup(c.fileno()); c.close()
os.write(d, b'dup'); assert a.recv(9) == b'dup'
if os.fork() == 0:
    os.write(d, b'fork'); os._exit(0)
assert a.recv(9) == b'fork'; os.wait()
os.set_inheritable(d, True)
child = '''import socket as s, sys
x = s.socket(fileno=int(sys.argv[1])); assert (x.family, x.type, x.proto) == (s.AF_INET, 6, 33), x
x.getpeername()
for i in range(40): x.send(b'exec %d' % i)'''
subprocess.run([sys.executable, '-c', child, str(d)], close_fds=False, check=True)
os.close(d)
# All descriptors were closed immediately, but the datagrams are still sent.
assert [a.recv(99) for i in range(40)] == [b'exec %d' % i for i in range(40)]
assert a.recv(9) == b''",
    );
}

#[test]
fn datagrams_may_have_priorities() {
    Host::new().passes(
        "l = listening(); c = new(); c.setsockopt(269, 2, struct.pack('!I', 7)); c.setsockopt(269, 16, 1); c.setsockopt(269, 17, 100)
c.connect(l.getsockname()); a, _ = l.accept()
for i in range(60): c.sendmsg([b'%d' % (i % 3) + b'x' * 1000], [(269, 1, struct.pack('I', i % 3))])
got = []
a.settimeout(2)
try:
    while len(got) < 60: got.append(a.recv(2000)[:1])
except TimeoutError: pass
assert sorted(got) == sorted(b'%d' % (i % 3) for i in range(60)), got
# Without the policy for priorities, the kernel refuses them.
c, a = pair(); fails(errno.EINVAL, c.sendmsg, [b'x'], [(269, 1, struct.pack('I', 1))])",
    );
}

#[test]
fn ipv6_sockets_take_both_families() {
    Host::new().passes(
        "try: s.socket(s.AF_INET6, s.SOCK_DGRAM).bind(('::1', 0))
except OSError: print('done'); sys.exit()
l = listening(s.AF_INET6, '::')
for family, host in ((s.AF_INET6, '::1'), (s.AF_INET, '127.0.0.1')):
    c = new(family); c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect((host, l.getsockname()[1]))
    a, who = l.accept(); c.send(b'hi'); assert a.recv(9) == b'hi' and a.family == s.AF_INET6
    assert who[:2] == (('::ffff:' if family == s.AF_INET else '') + host, c.getsockname()[1]), who
    assert a.getpeername()[:2] == who[:2]",
    );
}

#[test]
fn ccid_3_tells_its_rates() {
    let host = Host::new();
    host.passes(
        "l = new(); c = new()
for end in (l, c): end.setsockopt(269, 2, struct.pack('!I', 7)); end.setsockopt(269, 13, bytes([3]))
l.bind(('127.0.0.1', 0)); l.listen(5)
c.connect(l.getsockname()); a, _ = l.accept()
for n in range(50): c.send(b'x' * 500); a.recv(600)
x, x_recv, x_calc, rtt, p, rto, ipi, _ = struct.unpack('QQIIIIII', c.getsockopt(269, 192, 64))
assert x > 0 and rtt > 0 and abs(rto - 4 * rtt) < 4 and p == 0, (x, rtt, rto, p)
rate, rtt, p = struct.unpack('III', a.getsockopt(269, 128, 64))
assert rate > 0 and p == 0, (rate, p)
fails(errno.ENOPROTOOPT, new().getsockopt, 269, 192, 64)
c, a = pair()
fails(errno.ENOPROTOOPT, c.getsockopt, 269, 192, 64)",
    );
}

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
        let path = PathConfig {
            route: Route { socket: 0, local: None, remote: to },
            ports: Ports { local: 50_000, remote: 5007 },
            name: PathName::default(),
            prio: 3,
            mtu: 1500,
            overhead: 28,
        };
        let session = endpoint.connect(dccp_net::Clock.now(), config, path);
        let mut client = Client { server, lines, to, socket, endpoint, session, begun: Instant::now() };
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
            let route = Route { socket: 0, local: None, remote };
            let (now, ecn) = (dccp_net::Clock.now(), dccp_proto::Ecn::NotEct);
            self.endpoint.handle_datagram(now, &route, ecn, len as u32 + 28, &bytes[..len]);
        }
        self.endpoint.poll_deliver().map(|(_, data)| data)
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

#[test]
fn tos_and_device_are_those_of_the_socket() {
    let host = Host::new();
    host.passes(
        "c = new(); c.setsockopt(269, 2, struct.pack('!I', 7))
for size in (s.SO_SNDBUF, s.SO_RCVBUF):
    c.setsockopt(s.SOL_SOCKET, size, 100_000); assert c.getsockopt(s.SOL_SOCKET, size) == 200_000
assert c.getsockopt(s.IPPROTO_IP, s.IP_TOS) == 0
c.setsockopt(s.IPPROTO_IP, s.IP_TOS, 0xb9)
assert c.getsockopt(s.IPPROTO_IP, s.IP_TOS) == 0xb8
fails(errno.EINVAL, c.setsockopt, s.IPPROTO_IP, s.IP_TOS, 256)
fails(errno.ENODEV, c.setsockopt, s.SOL_SOCKET, s.SO_BINDTODEVICE, b'no-such-dev')
c.setsockopt(s.SOL_SOCKET, s.SO_BINDTODEVICE, b'lo' + bytes(1))
assert c.getsockopt(s.SOL_SOCKET, s.SO_BINDTODEVICE, 16) == b'lo' + bytes(1)
l = new(); l.setsockopt(269, 2, struct.pack('!I', 7)); l.setsockopt(s.SOL_SOCKET, s.SO_BINDTODEVICE, b'lo')
l.bind(('127.0.0.1', 0)); l.listen(5)
c.connect(l.getsockname()); a, _ = l.accept()
c.send(b'through lo'); assert a.recv(100) == b'through lo'
fails(errno.EISCONN, c.setsockopt, s.SOL_SOCKET, s.SO_BINDTODEVICE, b'lo')",
    );
}

/// A link-local address needs an interface, but the host itself need not have such an address.
#[test]
fn link_local_peers_are_reached_through_their_interface() {
    let host = Host::new();
    host.passes(
        "table = '/proc/net/if_inet6'
rows = [r.split() for r in open(table) if r.startswith('fe80')] if os.path.exists(table) else []
if not rows: print('SKIPPED: no link-local address here')
else:
    ip = s.inet_ntop(s.AF_INET6, bytes.fromhex(rows[0][0])); scope = int(rows[0][1], 16)
    l = new(s.AF_INET6); l.setsockopt(269, 2, struct.pack('!I', 7)); l.bind((ip, 0, 0, scope)); l.listen(5)
    where = l.getsockname(); assert where[3] == scope, where
    c = new(s.AF_INET6); c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(where); a, who = l.accept()
    assert who[3] == scope, who
    c.send(b'local'); assert a.recv(100) == b'local'
    a.send(b'too'); assert c.recv(100) == b'too'",
    );
}

#[test]
fn a_thread_can_be_cancelled_wherever_it_is() {
    let host = Host::new();
    let source = host.dir.path().join("cancel.c");
    std::fs::write(
        &source,
        r#"#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
static void *reads(void *fd) { char b[9]; for (;;) recv(*(int *)fd, b, sizeof b, 0); return 0; }
int main(void) {
    for (int i = 0; i < 200; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof to; pthread_t thread; void *how;
        int l = socket(AF_INET, 6, 33), c = socket(AF_INET, 6, 33), a;
        assert(!bind(l, (void *)&to, len) && !listen(l, 1) && !getsockname(l, (void *)&to, &len));
        assert(!connect(c, (void *)&to, len) && (a = accept(l, 0, 0)) >= 0);
        assert(!pthread_create(&thread, 0, reads, &a));
        if (i % 2) close(c);
        usleep(i * 10);
        assert(!pthread_cancel(thread) && !pthread_join(thread, &how) && how == PTHREAD_CANCELED);
        if (!(i % 2)) close(c);
        close(a); close(l);
    }
}
"#,
    )
    .unwrap();
    let program = source.with_extension("");
    let compiled = Command::new("cc").arg(&source).args(["-pthread", "-o"]).arg(&program).status();
    if compiled.is_err() {
        return println!("SKIPPED cancelled threads: no C compiler is installed");
    }
    let run = host.command(program.to_str().unwrap()).output().unwrap();
    assert!(run.status.success(), "{}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_hostile_program_does_no_harm_to_others() {
    Host::new().passes(
        "import random
c, a = pair()
random.seed(1)
def ask(data, fds=()):
    x = s.socket(s.AF_UNIX, s.SOCK_SEQPACKET); x.connect(os.environ['MPDCCP_SOCKETD'])
    s.send_fds(x, [data], fds) if fds else x.send(data)
    x.settimeout(.005)
    try: return x.recv(99)
    except OSError: return b''
null, other = os.open('/dev/null', os.O_RDWR), s.socketpair(s.AF_UNIX, s.SOCK_SEQPACKET)[0]
for i in range(600):
    data = bytes([random.randrange(10)]) + random.randbytes(random.randrange(64))
    ask(data, random.choice(((), (null,), (other.fileno(),), (null, null, null))))
# The number of sockets is limited.
held = []
try:
    for i in range(2000): held.append(new())
except OSError as e: assert e.errno == errno.ENFILE, e
assert 900 < len(held) < 1100, len(held)
held.clear()
# Descriptors with the data, and a datagram that this library would refuse to send.
s.send_fds(c, [b'with descriptors'], [null, null])
assert a.recv(99) == b'with descriptors'
syscall = __import__('ctypes').CDLL(None).syscall
syscall(1, c.fileno(), b'x' * 4000, 4000)
c.send(b'still here'); assert a.recv(9000) == b'still here'
d, b = pair(); d.send(b'new'); assert b.recv(9) == b'new'
# Another user opens as many sockets and requests as one user may have.
if os.getuid() == 0:
    r, w = os.pipe(); hostile = os.fork()
    if hostile == 0:
        os.setuid(65534); held = []
        try:
            while True: held.append(new())
        except OSError: pass
        for i in range(300): x = s.socket(s.AF_UNIX, s.SOCK_SEQPACKET); x.connect(os.environ['MPDCCP_SOCKETD']); held.append(x)
        x.settimeout(9)
        try: ended = x.recv(9) == b''
        except OSError: ended = False
        os.write(w, str(len(held) * ended).encode()); signal.alarm(20); signal.pause()
    assert int(os.read(r, 9)) > 1000
    d, b = pair(); d.send(b'beside'); assert b.recv(9) == b'beside'
    os.kill(hostile, signal.SIGKILL); os.waitpid(hostile, 0)",
    );
}

/// A file in a file system may have the inode number of another user's socket.
#[test]
fn a_socket_file_is_no_proof_that_a_program_may_use_a_socket() {
    Host::new().passes(
        "file = os.environ['MPDCCP_SOCKETD'] + '.file'
s.socket(s.AF_UNIX).bind(file)
x = s.socket(s.AF_UNIX, s.SOCK_SEQPACKET); x.connect(os.environ['MPDCCP_SOCKETD'])
# The request of getsockname; the answer is an errno value.
s.send_fds(x, [bytes([6])], [os.open(file, os.O_PATH)])
answer = x.recv(99); assert answer == bytes([1, 2 * errno.EBADF]), answer",
    );
}

#[test]
fn without_its_daemon_a_connection_is_reset() {
    let mut host = Host::new();
    let mut command = host.command("python3");
    let script = "import socket as s, sys
l = s.socket(2, 6, 33); l.bind(('127.0.0.1', 0)); l.listen()
c = s.socket(2, 6, 33); c.connect(l.getsockname()); print('open', flush=True)
try: c.recv(9)
except ConnectionResetError: print('reset')
try: s.socket(2, 6, 33)
except OSError: print('no dccp')";
    let child = command.args(["-c", script]).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        return println!("SKIPPED preloading into Python: python3 is not installed");
    };
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    host.stop();
    std::io::Read::read_to_string(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "open\nreset\nno dccp\n");
    child.wait().unwrap();
}

#[test]
fn socat_connects_and_listens() {
    let host = Host::new();
    let has = Command::new("socat").arg("-V").output();
    let Ok(version) = has else {
        return println!("SKIPPED preloading into socat: it is not installed");
    };
    let address = |verb: &str, rest: &str| match String::from_utf8_lossy(&version.stdout)
        .contains("socat version 1.7")
    {
        true => format!("SOCKET-{verb}:2:33:{rest},type=6"),
        false => format!("DCCP-{verb}:{rest}"),
    };
    let to = |port: u16| match String::from_utf8_lossy(&version.stdout).contains("socat version 1.7") {
        true => format!("x{port:04x}7f0000010000000000000000"),
        false => format!("127.0.0.1:{port}"),
    };
    let listen = address("LISTEN", &if to(1).starts_with('x') { to(5003) } else { "5003".into() });
    let socat = |from: &str, to: &str| {
        let mut command = host.command("timeout");
        command.args(["60", "socat", from, to]);
        command
    };
    let mut server = socat(&listen, "EXEC:cat").spawn().unwrap();
    // The server does not report when it starts listening. Connections are refused until then, so retry.
    let echoed = loop {
        let connect = address("CONNECT", &to(5003));
        let mut client = socat("-", &connect);
        let mut client =
            client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        client.stdin.take().unwrap().write_all(b"as ever\n").unwrap();
        let output = client.wait_with_output().unwrap();
        if output.status.success() {
            break output.stdout;
        }
        assert!(server.try_wait().unwrap().is_none(), "the listener ended");
    };
    assert_eq!(String::from_utf8_lossy(&echoed), "as ever\n");
    server.wait().unwrap();
}

//! Tests of connect, and of calls that are refused.

use super::Host;
use std::process::Command;

#[test]
fn refusals_have_the_kernels_numbers() {
    Host::new().passes(
        "l = listening(); to = l.getsockname()
c = new(); fails(errno.EBADRQC, c.connect, to)
c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(to)
fails(errno.EISCONN, c.connect, to); fails(errno.EISCONN, l.connect, to)
fails(errno.EINVAL, c.listen)
fails(errno.EINVAL, new().accept)
fails(errno.EADDRINUSE, new().bind, to)
fails(errno.EADDRNOTAVAIL, new().bind, ('192.0.2.1', 0))
fails(errno.ENETUNREACH, new().connect, ('224.0.0.1', 5))
# After the peer has ended the connection, the daemon no longer notices when the program closes the socket.
b = new(); b.setsockopt(269, 2, struct.pack('!I', 7)); b.bind(('127.0.0.1', 0)); used = b.getsockname()
l.accept(); b.connect(to); l.accept()[0].close(); assert b.recv(9) == b''
fails(errno.EISCONN, b.connect, to)
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

/// The connection that waits to be accepted must not be read as data, and nobody reads what is sent.
#[test]
fn a_listening_socket_refuses_to_receive_and_to_send() {
    Host::new().passes(
        "l = listening(); c = new(); c.setsockopt(269, 2, struct.pack('!I', 7)); c.connect(l.getsockname())
assert select.select([l], [], [], 20)[0]
reads = (lambda n: os.read(l.fileno(), n), lambda n: os.readv(l.fileno(), [bytearray(n)]))
for f in (l.recv, l.recvfrom, l.recvmsg, *reads): fails(errno.ENOTCONN, f, 99)
writes = (lambda d: os.write(l.fileno(), d), lambda d: os.writev(l.fileno(), [d]), lambda d: l.sendmsg([d]))
for f in (l.send, *writes): fails(errno.EPIPE, f, b'x')
a, _ = l.accept(); c.send(b'x'); assert a.recv(9) == b'x'",
    );
}

#[test]
fn other_sockets_may_have_the_longest_path() {
    Host::new().passes(
        "import ctypes
libc = ctypes.CDLL(None)
path = os.path.dirname(os.environ['MPDCCP_SOCKETD']) + '/'
address = struct.pack('H', s.AF_UNIX) + path.ljust(108, 'x').encode()
u = s.socket(s.AF_UNIX); assert libc.bind(u.fileno(), address, len(address)) == 0; u.listen(1)
v = s.socket(s.AF_UNIX); assert libc.connect(v.fileno(), address, len(address)) == 0
w, _ = u.accept(); w.send(b'data'); w.close()
assert v.recv(9) == b'data' and v.recv(9) == b''",
    );
}

/// The second connection uses another port, because the first one is in TIMEWAIT.
#[test]
fn a_port_is_free_again_after_each_connection() {
    Host::new().passes(
        "l = listening(); used = ('127.0.0.1', 0)
for i in range(3):
    c = new(); c.setsockopt(269, 2, struct.pack('!I', 7)); c.bind(used); used = c.getsockname()
    c.connect(l.getsockname()); a, who = l.accept(); assert who == c.getsockname() and (who == used) == (i == 0)
    a.close(); assert c.recv(9) == b''",
    );
}

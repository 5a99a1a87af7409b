//! Tests with programs that know only the kernel's interface: Python's socket module and, if installed,
//! socat.

use dccp_net::Handle;
use mpdccp_socketd::{Daemon, Settings};
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

mod connect;
mod datagrams;
mod foreign;

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
        // Each request to the daemon begins with this number.
        let format = postcard::to_stdvec(&mpdccp_socketd::FORMAT).unwrap();
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
            .write_all(format!("FORMAT = bytes({format:?})\n{begin}{script}\nprint('done')\n").as_bytes())
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
a.setsockopt(269, 6, 1); assert get(a, 6) == 1
for x in (c, l): fails(errno.EOPNOTSUPP, x.setsockopt, 269, 6, 1)
fails(errno.ENOPROTOOPT, c.setsockopt, 269, 99, 1)
fails(errno.ENOPROTOOPT, c.getsockopt, 269, 99)
fails(errno.EISCONN, c.setsockopt, 269, 13, b'\\x05')
fails(errno.EINVAL, new().setsockopt, 269, 13, b'\\x63')
fails(errno.EINVAL, new().setsockopt, 269, 10, 16)
new().setsockopt(269, 2, bytes(4 * 32)); fails(errno.EINVAL, new().setsockopt, 269, 2, bytes(4 * 33))
d = new(); d.setsockopt(269, 13, b'\\x05'); d.setsockopt(269, 2, struct.pack('!I', 7)); d.connect(l.getsockname())
assert get(d, 14) == 5
c.setsockopt(s.SOL_SOCKET, s.SO_SNDBUF, 1 << 20); c.setsockopt(s.SOL_SOCKET, s.SO_REUSEPORT, 1)
import ctypes
libc, value, negative = ctypes.CDLL(None, use_errno=True), ctypes.byref(ctypes.c_int(9)), ctypes.c_int(-1)
for level, option in ((269, 17), (s.SOL_SOCKET, s.SO_SNDBUF)):
    assert libc.setsockopt(c.fileno(), level, option, value, -1) == -1 and ctypes.get_errno() == errno.EINVAL
    assert libc.getsockopt(c.fileno(), level, option, value, ctypes.byref(negative)) == -1
    assert ctypes.get_errno() == errno.EINVAL
ccids, few, size = c.getsockopt(269, 12, 64), ctypes.create_string_buffer(4), ctypes.c_int(4)
assert libc.getsockopt(c.fileno(), 269, 12, few, ctypes.byref(size)) == 0
assert few.raw == ccids[:4] and size.value == len(ccids) > 4, (few.raw, size)
c.shutdown(s.SHUT_WR); c.send(b'no half-close'); assert a.recv(99) == b'no half-close'",
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
    data = FORMAT + bytes([random.randrange(10)]) + random.randbytes(random.randrange(64))
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
s.send_fds(x, [FORMAT + bytes([6])], [os.open(file, os.O_PATH)])
answer = x.recv(99); assert answer == bytes([1, 2 * errno.EBADF]), answer",
    );
}

/// After an upgrade, programs may still run with the previous version of the library.
#[test]
fn a_library_of_another_version_gets_an_error() {
    Host::new().passes(
        "c, a = pair()
def ask(data, fds=()):
    x = s.socket(s.AF_UNIX, s.SOCK_SEQPACKET); x.connect(os.environ['MPDCCP_SOCKETD'])
    s.send_fds(x, [data], fds) if fds else x.send(data); return x.recv(99)
# An answer is 1 and twice the errno value, seven bits at a time.
error = lambda code: bytes([1, 2 * code & 0x7f | 0x80, 2 * code >> 7])
assert ask(bytes([0, 0])) == error(errno.EPROTO)
# Its sockets were those of the previous daemon.
assert ask(bytes([6]), [c.fileno()]) == error(errno.ECONNRESET)
c.send(b'same version'); assert a.recv(99) == b'same version'",
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

//! Tests of calls that send and receive datagrams.

use super::Host;

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

/// Programs use shutdown to wake their threads.
#[test]
fn a_shutdown_ends_receiving_but_not_sending() {
    Host::new().passes(
        "c, a = pair()
a.send(b'queued'); assert select.select([c], [], [], 20)[0]
c.shutdown(s.SHUT_RDWR); assert c.recv(9) == b'queued' and c.recv(9) == b''
c.send(b'sent'); assert a.recv(9) == b'sent'
def woken(call, x):
    results = []
    def wait():
        try: results.append(call())
        except OSError as e: results.append(e.errno)
    t = threading.Thread(target=wait); t.start(); time.sleep(.1); x.shutdown(s.SHUT_RD); t.join(20)
    return results
assert woken(lambda: a.recv(9), a) == [b'']
l = listening(); assert woken(l.accept, l) == [errno.EINVAL]",
    );
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
# The kernel allows 1,024 parts.
fails(errno.EMSGSIZE, c.sendmsg, [b'x'] * 1025, [(269, 1, struct.pack('I', 1))])
# Without the policy for priorities, the kernel refuses them.
c, a = pair(); fails(errno.EINVAL, c.sendmsg, [b'x'], [(269, 1, struct.pack('I', 1))])",
    );
}

"""The installed package: scripts/test-python builds the wheel, installs it, and runs this."""

import array
import asyncio
import base64
import contextlib
import errno
import gc
import json
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import mpdccp
from mpdccp import aio

PATIENT = 20
# The public key of a private key of 32 bytes 0x01.
PUBLIC_OF_ONES = "pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk="


def pair(server=None, client=None):
    listener = mpdccp.Listener("127.0.0.1:0", **(server or {}))
    here = mpdccp.connect(listener.address, **(client or {}))
    return listener, here, listener.accept(PATIENT)


class Blocking(unittest.TestCase):
    def test_objects_show_their_attributes(self):
        shown = "Path(interface=None, local='10.0.0.1', priority=3, remote=('10.0.0.2', 7))"
        self.assertEqual(repr(mpdccp.Path("10.0.0.1", remote=("10.0.0.2", 7))), shown)

    def test_the_types_name_every_scheduler_and_reorderer(self):
        for option in ("scheduler", "reordering"):
            with self.assertRaises(ValueError) as caught:
                mpdccp.Connector(**{option: "best"})
            names = str(caught.exception).split("expected one of: ")[1].split(", ")
            self.assertGreater(len(names), 3)
            # The annotation is text, because types in other annotations do not exist at run time.
            annotation = mpdccp.Options.__annotations__[option].__forward_arg__
            self.assertEqual([f'"{name}"' in annotation or f"'{name}'" in annotation for name in names], [True] * len(names))

    def test_an_echo(self):
        with mpdccp.Listener("127.0.0.1:0", ccid=2, service=["SC:chat", "SC:echo"]) as listener:

            def serve():
                connection = listener.accept(PATIENT)
                for datagram in connection:
                    connection.send(datagram)

            thread = threading.Thread(target=serve)
            thread.start()
            with mpdccp.connect(listener.address, ccid=5, service="SC:echo") as connection:
                self.assertEqual(connection.service, "SC:echo")
                self.assertEqual(connection.peer_address, listener.address)
                for text in (b"hello", bytearray(b"again"), memoryview(b"view"), array.array("i", [1, 2])):
                    connection.send(text)
                    self.assertEqual(connection.recv(PATIENT), bytes(text))
                room = bytearray(8)
                connection.send(b"into")
                self.assertEqual(connection.recv_into(room, PATIENT), 4)
                self.assertEqual(room, b"into\0\0\0\0")
                numbers, table = array.array("i", [0, 0]), memoryview(bytearray(8)).cast("B", (2, 4))
                for buffer in (numbers, table):
                    connection.send(array.array("i", [3, 4]))
                    self.assertEqual(connection.recv_into(buffer, PATIENT), 8)
                    self.assertEqual(bytes(buffer), bytes(array.array("i", [3, 4])))
                with self.assertRaises(ValueError):
                    connection.recv_into(memoryview(b"read only"))
                stats = connection.stats()
                self.assertEqual((stats.sent, stats.received), (7, 7))
                self.assertEqual(stats.paths[0].ccids, (5, 2))
            self.assertEqual(connection.end, "closed")
            thread.join()

    def test_unknown_clients_with_keys(self):
        server, client = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
        listener = mpdccp.Listener("127.0.0.1:0", private_key=server, any_peer=True)
        with self.assertRaises(ValueError):
            mpdccp.Listener("127.0.0.1:0", any_peer=True)
        here = mpdccp.connect(listener.address, private_key=client, peers=[PUBLIC_OF_ONES])
        there = listener.accept(PATIENT)
        self.assertEqual(here.peer_key, PUBLIC_OF_ONES)
        self.assertNotIn(there.peer_key, (None, PUBLIC_OF_ONES))

    def test_the_size_that_a_path_carries(self):
        carries = 1300

        @contextlib.contextmanager
        def relay(server):
            """Forwards one client's packets that fit. Yields the relay's address and the packets that do not fit."""
            sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
            front, back, over = sockets
            for each in front, over:
                each.bind(("127.0.0.1", 0))
            back.connect(server)
            dropped = []

            def carry():
                client = None
                while over not in (readable := select.select(sockets, [], [])[0]):
                    for each in readable:
                        data, sender = each.recvfrom(2048)
                        client = sender if each is front else client
                        if len(data) + 28 > carries:
                            dropped.append(data)
                        elif each is front:
                            back.send(data)
                        else:
                            front.sendto(data, client)

            thread = threading.Thread(target=carry)
            thread.start()
            try:
                yield front.getsockname(), dropped
            finally:
                front.sendto(b"", over.getsockname())
                thread.join()
                for each in sockets:
                    each.close()

        with mpdccp.Listener("127.0.0.1:0", mtu_probing=False) as listener:
            with relay(listener.address) as (address, dropped), mpdccp.connect(address, mtu_probing=False) as here:
                # A client probes the MTU only after it knows that the connection is open.
                here.send(b"data")
                there = listener.accept(PATIENT)
                there.send(there.recv(PATIENT))
                here.send(here.recv(PATIENT))
                there.recv(PATIENT)
                self.assertEqual((dropped, here.stats().paths[0].path_mtu), ([], 1500))
            with relay(listener.address) as (address, dropped), mpdccp.connect(address) as here:
                deadline = time.monotonic() + PATIENT
                while here.stats().paths[0].path_mtu > carries:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)

    def test_a_closed_port_and_a_probe(self):
        listener, here, there = pair(client={"tell_rate": 10, "dscp": 46})
        there.close()
        listener.close()
        here, there = pair()[1:]
        here.probe(8_000_000, 3600)
        while here.stats().paths[0].sent < 20:
            time.sleep(0.01)
        here.send(b"data")
        self.assertEqual(there.recv(PATIENT), b"data")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            closed = nobody.getsockname()
        with self.assertRaises(ConnectionRefusedError):
            mpdccp.connect(closed, connect_timeout=3600)

    def test_streams(self):
        _listener, here, there = pair({"streams": True}, {"streams": True})
        data = bytes(range(256)) * 4000

        def serve():
            with there.accept_stream(PATIENT) as stream:
                while part := stream.read(timeout=PATIENT):
                    stream.write(part)

        thread = threading.Thread(target=serve)
        thread.start()
        stream = here.open_stream()
        writer = threading.Thread(target=lambda: (stream.write(data), stream.end()))
        writer.start()
        got = b""
        while part := stream.read(timeout=PATIENT):
            got += part
        self.assertEqual(got, data)
        with self.assertRaises(BrokenPipeError):
            stream.write(b"more")
        writer.join()
        thread.join()
        with self.assertRaises(BlockingIOError):
            here.accept_stream(0)
        # Keep the other end in a variable. Otherwise it would be closed, and the error would be that of the
        # close.
        plain = pair()
        with self.assertRaises(OSError) as none:
            plain[1].open_stream()
        self.assertEqual(none.exception.errno, errno.EOPNOTSUPP)

    def test_the_timeout_of_a_write_limits_the_whole_call(self):
        _listener, here, there = pair({"streams": True}, {"streams": True})
        stream = here.open_stream()
        stream.write(b"begin")
        reading, done = there.accept_stream(PATIENT), threading.Event()

        def read_slowly():
            while not done.wait(0.05):
                reading.read(100_000, PATIENT)

        thread = threading.Thread(target=read_slowly)
        thread.start()
        with self.assertRaises(TimeoutError):
            stream.write(bytes(64 << 20), timeout=1)
        done.set()
        thread.join()
        here.abort()

    def test_streams_of_asyncio(self):
        data = bytes(range(256)) * 4000

        async def serve(listener):
            connection = await listener.accept()
            async with await connection.accept_stream() as stream:
                async for part in stream:
                    await stream.write(part)
            return connection

        async def main():
            async with await aio.listen("127.0.0.1:0", streams=True) as listener:
                server = asyncio.ensure_future(serve(listener))
                async with await aio.connect(listener.address, streams=True) as connection:
                    stream = await connection.open_stream()

                    async def write():
                        await stream.write(data)
                        stream.end()

                    writing = asyncio.ensure_future(write())
                    got = b"".join([part async for part in stream])
                    await writing
                    await stream.finish()
                    await server
                    return got

        self.assertEqual(asyncio.run(asyncio.wait_for(main(), 60)), data)

    def test_batches(self):
        _listener, here, there = pair()
        sent = [b"%d" % n for n in range(10)]
        self.assertEqual(here.send_many(sent), 10)
        received = []
        while len(received) < 10:
            received += there.recv_many(timeout=PATIENT)
        self.assertEqual(received, sent)
        here.finish(PATIENT)
        self.assertEqual(there.recv_many(timeout=PATIENT), [])
        self.assertRaises(ValueError, there.recv_many, 0)

    def test_errors_are_those_of_sockets(self):
        listener, here, there = pair(server={"service": "SC:one"}, client={"service": "SC:one"})
        with self.assertRaises(ConnectionRefusedError):
            mpdccp.connect(listener.address, service="SC:two")
        with self.assertRaises(BlockingIOError):
            here.recv(0)
        with self.assertRaises(TimeoutError):
            here.recv(0.01)
        with self.assertRaises(OSError) as large:
            here.send(bytes(here.max_datagram + 1))
        self.assertEqual(large.exception.errno, errno.EMSGSIZE)
        with self.assertRaises(ValueError):
            here.send(b"")
        with self.assertRaises(TypeError):
            here.send("text")
        there.abort("enough")
        with self.assertRaises(ConnectionResetError):
            here.recv(PATIENT)
        self.assertEqual(here.peer_said, "enough")
        with self.assertRaises(ConnectionResetError):
            here.send(b"late")
        _listener, here, _there = pair()
        here.finish(PATIENT)
        self.assertEqual(here.recv(PATIENT), b"")
        with self.assertRaises(BrokenPipeError):
            here.send(b"late")

    def test_bad_options_are_refused(self):
        for options, error in [
            ({"ccdi": 5}, TypeError),
            ({"ccid": 99}, ValueError),
            ({"ccid": "five"}, TypeError),
            ({"service": "echo"}, ValueError),
            ({"scheduler": "best"}, ValueError),
            ({"private_key": "secret"}, ValueError),
            ({"send_policy": "never"}, ValueError),
            ({"queue_time": -1}, ValueError),
            ({"queue": -1}, ValueError),
            ({"ccid": 300}, ValueError),
            ({"paths": "lo"}, TypeError),
            ({"peers": "key"}, TypeError),
            ({"paths": ["nosuchdevice"]}, OSError),
        ]:
            with self.subTest(options), self.assertRaises(error) as raised:
                mpdccp.connect("127.0.0.1:9", **options)
            self.assertNotIn("secret", str(raised.exception))
            # These errors come from a combination of options or from the system, so they name no option.
            if options not in ({"ccid": 99}, {"service": "echo"}, {"paths": ["nosuchdevice"]}):
                self.assertIn(f"option {next(iter(options))}: ", str(raised.exception))
        with self.assertRaisesRegex(ValueError, "CCID, expected one of: 2, 3, "):
            mpdccp.connect("127.0.0.1:9", ccid=99)
        with self.assertRaisesRegex(ValueError, "expected HOST:PORT"):
            mpdccp.connect("127.0.0.1")
        for address in ("127.0.0.1:x", ("127.0.0.1", 70000)):
            with self.subTest(address), self.assertRaises((ValueError, OSError, TypeError)):
                mpdccp.connect(address)

    def test_two_paths(self):
        with mpdccp.Listener("127.0.0.1:0") as listener:
            paths = ["127.0.0.1", mpdccp.Path("127.0.0.2", priority=5)]
            connection = mpdccp.connect(listener.address, paths=paths)
            self.assertTrue(connection.is_multipath)
            up = set()
            while len(up) < 2:
                event = connection.next_event(PATIENT)
                if event.kind == "path_up":
                    up.add(event.path)
            self.assertEqual(len(connection.stats().paths), 2)
            self.assertRaises(ValueError, connection.set_priority, 0, 16)
            self.assertRaises(ValueError, connection.set_scheduler, "best")
            connection.set_scheduler("redundant")
            connection.remove_path(max(up))
            while (event := connection.next_event(PATIENT)).kind != "path_down":
                pass
            self.assertEqual(event.reason, "removed")

    def test_closing_wakes_other_threads(self):
        _listener, here, _there = pair()
        got = []
        thread = threading.Thread(target=lambda: got.append(here.recv()))
        thread.start()
        time.sleep(0.05)
        here.close()
        thread.join(PATIENT)
        self.assertEqual(got, [b""])

    def test_ctrl_c_ends_a_call_that_waits(self):
        # A shell starts background commands with SIGINT ignored, so the program sets the handler itself.
        program = (
            "import mpdccp, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "l = mpdccp.Listener('127.0.0.1:0')\n"
            "print('waits', flush=True)\n"
            "try: l.accept()\n"
            "except KeyboardInterrupt: print('interrupted')\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(child.stdout.readline(), "waits\n")
            time.sleep(0.2)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=PATIENT)[0], "interrupted\n")
        finally:
            child.kill()
            child.wait()

    def test_a_selector_sees_what_comes(self):
        _listener, here, there = pair()
        self.assertEqual(here.next_event(PATIENT).kind, "path_up")
        while here.try_event() is not None:
            pass
        with self.assertRaises(BlockingIOError):
            here.next_event(0)
        here.ready()
        self.assertEqual(select.select([here], [], [], 0)[0], [])
        there.send(b"ping")
        self.assertEqual(select.select([here], [], [], PATIENT)[0], [here])
        self.assertEqual(here.try_recv(), b"ping")
        self.assertIsNone(here.try_recv())

    def test_a_block_may_abort_its_connection_and_reset_its_stream(self):
        listener, here, there = pair(server={"streams": True}, client={"streams": True})
        with here.open_stream() as stream:
            stream.write(b"not needed")
            stream.reset(7)
        with self.assertRaises(BrokenPipeError):
            stream.write(b"after the reset")
        for _ in range(20):
            with mpdccp.connect(listener.address) as connection:
                connection.abort("enough")
        here.abort()
        there.abort()

    def test_close_ends_the_events_before_the_connection_has_ended(self):
        _listener, here, _there = pair(server={"streams": True}, client={"streams": True})
        # The peer does not read, so the stream's data keeps the connection open.
        stream = here.open_stream()
        with self.assertRaises(TimeoutError):
            for _ in range(1000):
                stream.write(bytes(1 << 20), timeout=1)
        here.close()
        while here.next_event(PATIENT) is not None:
            pass
        self.assertIsNone(here.end)
        here.abort()

    def test_a_fork_gets_errors(self):
        _listener, here, _there = pair()
        child = os.fork()
        if child == 0:
            # The alarm ends the child if a call waits for the thread that it does not have.
            signal.alarm(PATIENT)
            try:
                for call in (lambda: here.send(b"from the child"), here.next_event, here.finish):
                    with self.assertRaises(PermissionError):
                        call()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_encryption(self):
        # The keys of RFC 7748 section 6.1.
        ours, theirs = (
            ("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="),
            ("XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="),
        )
        listener, here, there = pair(
            server={"private_key": theirs[0], "peers": [ours[1]]},
            client={"private_key": ours[0], "peers": [theirs[1]]},
        )
        self.assertEqual((here.peer_key, there.peer_key), (theirs[1], ours[1]))
        listener.remove_peer(ours[1])
        with self.assertRaises(TimeoutError):
            mpdccp.connect(
                listener.address, private_key=ours[0], peers=[theirs[1]], connect_timeout=0.1, survive=0.1
            )


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_many_echoes(self):
        async with await aio.listen("127.0.0.1:0") as listener:

            async def echo(connection):
                async with connection:
                    async for datagram in connection:
                        await connection.send(datagram)

            async def serve():
                async with asyncio.TaskGroup() as group:
                    async for connection in listener:
                        group.create_task(echo(connection))

            server = asyncio.create_task(serve())
            connector = aio.Connector(queue=2)

            async def client(number):
                async with await connector.connect(listener.address) as connection:
                    sent = [b"%d of %d" % (n, number) for n in range(50)]

                    async def send():
                        for datagram in sent:
                            await connection.send(datagram)

                    sending = asyncio.create_task(send())
                    received = []
                    while len(received) < len(sent):
                        received += await asyncio.wait_for(connection.recv_many(), PATIENT)
                    await sending
                    self.assertEqual(received, sent)

            await asyncio.gather(*(client(number) for number in range(20)))
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
        await asyncio.sleep(0)

    async def test_a_loop_watches_one_descriptor_and_sleeps_while_nobody_waits(self):
        listener = await aio.listen("127.0.0.1:0")
        connections = [await aio.connect(listener.address) for _ in range(3)]
        accepted = [await listener.accept() for _ in range(3)]
        loop = asyncio.get_running_loop()
        self.assertEqual(len(loop._selector.get_map()), 2, "the loop's own and ours")
        looks = []
        hub = aio._Hub.here()
        ready, hub._ready = hub._ready, lambda: (looks.append(1), ready())
        loop.add_reader(hub._epoll.fileno(), hub._ready)
        for n in range(100):
            accepted[0].native.send(b"%d" % n)
        while connections[0].stats().received < 100:
            await asyncio.sleep(0.01)
        self.assertLess(len(looks), 20, "unread datagrams do not keep the loop awake")
        self.assertEqual([await connections[0].recv() for _ in range(100)], [b"%d" % n for n in range(100)])
        for connection in connections + accepted:
            connection.close()
        listener.close()
        self.assertEqual(len(loop._selector.get_map()), 1)

    async def test_a_listener_takes_the_first_address_that_works(self):
        # No host has the first address, which is for documentation.
        found = [("192.0.2.1", 0), ("127.0.0.1", 0)]
        with unittest.mock.patch.object(aio, "_addresses", unittest.mock.AsyncMock(return_value=found)):
            async with await aio.listen("name:0") as listener:
                self.assertEqual(listener.address[0], "127.0.0.1")

    async def test_a_link_local_address_keeps_its_interface(self):
        host = f"fe80::1%{socket.if_nametoindex('lo')}"
        self.assertEqual(list(await aio._addresses("[fe80::1%lo]:6511")), [(host, 6511)])
        mpdccp.Connector().start(host, 6511).abort()

    async def test_a_read_or_a_write_does_not_hide_from_finish_that_all_has_arrived(self):
        listener = await aio.listen("127.0.0.1:0", streams=True)
        connection = await aio.connect(listener.address, streams=True)
        there = await listener.accept()

        async def read(stream):
            self.assertEqual(await stream.read(), b"answer")

        async def write(stream):
            with self.assertRaises(BrokenPipeError):
                await stream.write(b"after the end")

        for call in (read, write):
            with self.subTest(call.__name__):
                stream = await connection.open_stream()
                await stream.write(b"question")
                answering = await there.accept_stream()
                # Unread data would keep the descriptor readable.
                if call is read:
                    await answering.write(b"answer")
                finish = asyncio.create_task(stream.finish())
                await asyncio.sleep(0)
                # Everything arrives while the loop does not look.
                time.sleep(0.5)
                await call(stream)
                await asyncio.wait_for(finish, PATIENT)
        for each in (connection, there, listener):
            each.close()

    async def test_a_large_write_is_not_copied_again_and_again(self):
        listener = await aio.listen("127.0.0.1:0", streams=True)
        connection = await aio.connect(listener.address, streams=True)
        there = await listener.accept()
        stream = await connection.open_stream()
        lengths = []

        class Counting:
            def __init__(self, native):
                self.native = native

            def __getattr__(self, name):
                return getattr(self.native, name)

            def try_write(self, data):
                lengths.append(len(data))
                return self.native.try_write(data)

        stream.native = Counting(stream.native)
        data = bytes(4 << 20)
        writing = asyncio.create_task(stream.write(data))
        reading, received = await there.accept_stream(), 0
        while received < len(data):
            received += len(await asyncio.wait_for(reading.read(), PATIENT))
        await writing
        self.assertLessEqual(max(lengths), 1 << 18)
        for each in (connection, there, listener):
            each.close()

    async def test_a_sender_hears_of_room_although_nobody_reads(self):
        listener = await aio.listen("127.0.0.1:0")
        connection = await aio.connect(listener.address, queue=1)
        there = await listener.accept()
        await there.send(b"unread")
        while connection.stats().received < 1:
            await asyncio.sleep(0.01)
        for _ in range(200):
            await asyncio.wait_for(connection.send(bytes(1000)), PATIENT)
        await asyncio.wait_for(connection.finish(), PATIENT)

    async def test_errors_and_cancelling(self):
        listener = await aio.listen("127.0.0.1:0", service="SC:one")
        with self.assertRaises(ConnectionRefusedError):
            await aio.connect(listener.address, service="SC:two")
        with self.assertRaises(ValueError):
            await aio.connect("127.0.0.1")
        connection = await aio.connect("127.0.0.1:%d" % listener.address[1], service="SC:one")
        there = await listener.accept()
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(connection.recv(), 0.05)
        await there.send(b"kept")
        self.assertEqual(await asyncio.wait_for(connection.recv(), PATIENT), b"kept")
        there.abort("enough")
        with self.assertRaises(ConnectionResetError):
            await asyncio.wait_for(connection.recv(), PATIENT)
        events = []
        while (event := await asyncio.wait_for(connection.next_event(), PATIENT)) is not None:
            events.append(event.kind)
        self.assertEqual(events[-1], "closed")

    async def test_a_cancelled_recv_takes_no_datagram(self):
        listener = await aio.listen("127.0.0.1:0")
        connection = await aio.connect(listener.address)
        there = await listener.accept()
        sent, received = [b"%d" % n for n in range(200)], []

        async def send():
            for datagram in sent:
                await there.send(datagram)
                await asyncio.sleep(0.0005)

        sending = asyncio.create_task(send())
        while len(received) < len(sent):
            try:
                received.append(await asyncio.wait_for(connection.recv(), 0.0002))
            except TimeoutError:
                pass
        await sending
        # Let the datagram arrive in the same turn of the loop as the cancellation.
        receiving = asyncio.create_task(connection.recv())
        await asyncio.sleep(0)
        there.native.send(b"last")
        while connection.stats().received <= len(sent):
            time.sleep(0.001)
        connection._look()
        receiving.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await receiving
        received.append(await asyncio.wait_for(connection.recv(), PATIENT))
        self.assertEqual(received, [*sent, b"last"])
        self.assertEqual(there.stats().sent, len(received))

    async def freed(self, before, what):
        """Waits until all descriptors since `before` are closed."""
        for _ in range(PATIENT * 100):
            left = [fd for fd in os.listdir("/proc/self/fd") if fd not in before]
            if len(left) <= 1:  # the descriptor of the directory itself
                return
            await asyncio.sleep(0.01)
        self.fail(f"{what} left {len(left) - 1} descriptors")

    async def test_what_is_cancelled_refused_or_dropped_leaves_no_descriptor(self):
        listener = await aio.listen("127.0.0.1:0", streams=True)
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        accepted = []

        async def connected():
            connection = await aio.connect(listener.address, streams=True)
            there = await listener.accept()
            accepted.append(there)
            return connection

        async def timed_out():
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(aio.connect(silent.getsockname()), 0.01)

        async def refused():
            with contextlib.suppress(ConnectionRefusedError):
                await aio.connect(listener.address, service="SC:none")

        async def dropped():
            await connected()

        async def cancelled(enter):
            async with await connected() as connection:
                await enter(connection)

        async def in_finish(connection):
            await connection.send(b"data")
            asyncio.current_task().cancel()

        async def in_a_stream(connection):
            async with await connection.open_stream() as stream:
                await stream.write(b"data")
                asyncio.current_task().cancel()

        # The first connection starts the loop's thread for name lookups, which keeps running, so connect once
        # before counting descriptors.
        await connected()
        accepted.pop().close()
        gc.collect()
        await asyncio.sleep(0.1)
        before = os.listdir("/proc/self/fd")
        # Reference counting alone must free everything, so turn off the search for cycles.
        gc.disable()
        self.addCleanup(gc.enable)
        for what in (timed_out, refused, dropped):
            for _ in range(3):
                await what()
                if accepted:
                    accepted.pop().close()
            await self.freed(before, what.__name__)
        for enter in (in_finish, in_a_stream):
            with self.assertRaises(asyncio.CancelledError):
                await asyncio.create_task(cancelled(enter))
            there = accepted.pop()
            with contextlib.suppress(ConnectionResetError):
                while await asyncio.wait_for(there.recv(), PATIENT):
                    pass
            there.close()
            del there
            await self.freed(before, enter.__name__)
        listener.close()

    async def test_close_and_abort_work_within_a_block_and_before_finish(self):
        async with asyncio.timeout(PATIENT), await aio.listen("127.0.0.1:0", streams=True) as listener:
            for end in ("close", "abort"):
                async with await aio.connect(listener.address, streams=True) as connection:
                    there = await listener.accept()
                    async with await connection.open_stream() as stream:
                        await stream.write(b"data")
                        stream.close()
                    getattr(connection, end)()
                there.close()
            connection = await aio.connect(listener.address, streams=True)
            there = await listener.accept()
            stream = await connection.open_stream()
            await stream.write(b"data")
            stream.close()
            await stream.finish()
            finishing = asyncio.create_task(connection.finish())
            await asyncio.sleep(0)
            connection.close()
            await finishing
            there.close()

    async def test_a_listener_may_have_any_descriptor(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # select.select() refuses descriptors from 1024 on.
        for fd in [os.open("/dev/null", os.O_RDONLY) for _ in range(1024)]:
            self.addCleanup(os.close, fd)
        async with asyncio.timeout(PATIENT), await aio.listen("127.0.0.1:0") as listener:
            connecting = asyncio.create_task(aio.connect(listener.address))
            there = await listener.accept()
            await (await connecting).finish()
            there.close()

    async def test_a_task_that_nobody_refers_to_keeps_its_connection(self):
        listener = await aio.listen("127.0.0.1:0")
        done = asyncio.Event()

        async def serve():
            connection = await listener.accept()
            async for datagram in connection:
                await connection.send(datagram)
            done.set()

        asyncio.create_task(serve())
        connection = await aio.connect(listener.address)
        for datagram in (b"one", b"two"):
            await asyncio.sleep(0.05)
            gc.collect()
            await connection.send(datagram)
            self.assertEqual(await asyncio.wait_for(connection.recv(), PATIENT), datagram)
        await connection.finish()
        await asyncio.wait_for(done.wait(), PATIENT)


class Lab(unittest.TestCase):
    def test_results_are_data_frames(self):
        from mpdccp import lab

        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaises(FileNotFoundError):
                lab.runs(directory)
            metrics = [("one", 0, 10.0), ("one", 1, 14.0), ("two", 0, 5.0)]
            flows = [{"name": "bulk"}]
            runs = [
                {"cell": "base", "label": label, "repeat": n, "metrics": {"app_p95_ms": ms}, "flows": flows}
                for label, n, ms in metrics
            ]
            folder = pathlib.Path(directory)
            (folder / "summary.json").write_text(json.dumps({"runs": runs}))
            (folder / "series/base_one_1").mkdir(parents=True)
            (folder / "series/base_one_1/packets-bulk.csv").write_text("sent_s,app_latency_ms\n0.5,3\n0.6,\n")
            table = lab.runs(directory)
            self.assertEqual(table.groupby("label")["app_p95_ms"].median().to_dict(), {"one": 12.0, "two": 5.0})
            packets = lab.packets(directory, "one", repeat=1)
            self.assertEqual((len(packets), packets["app_latency_ms"].count()), (2, 1))
            self.assertEqual(list(lab.series(directory, "one", repeat=1)), ["packets-bulk"])
            for wrong in (("three",), ("one", "web")):
                with self.assertRaises(KeyError):
                    lab.packets(directory, *wrong)
            (folder / "sweep.csv").write_text("variant,app_p95_ms\none,1\n")
            self.assertEqual(len(lab.sweep(directory)), 1)


if __name__ == "__main__":
    unittest.main()

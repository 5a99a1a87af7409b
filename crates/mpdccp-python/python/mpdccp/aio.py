"""The sockets for asyncio:

    async with await aio.connect("example.org:6511", ccid=5, paths=["eth0", "wwan0"]) as connection:
        await connection.send(b"hello")
        async for datagram in connection:
            ...

Each event loop watches one descriptor for all its connections. The loop wakes only when a connection for which a
task waits becomes ready, not for each datagram. Calls can be cancelled at any time without loss. A connection that
no variable or task refers to any more is closed in the background.
"""

from __future__ import annotations

import asyncio
import select
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from . import _mpdccp
from ._mpdccp import Event, Path, Stats

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import Buffer

    from ._types import Address, Options

__all__ = ["Connection", "Connector", "Listener", "Stream", "connect", "listen"]

_READABLE, _WRITABLE, _EVENT, _CHANGE, _STREAM = range(5)
# A native write copies the whole buffer that it gets, but a stream never takes more bytes than this at a time.
_PART = 256 << 10
_T = TypeVar("_T")


class _Hub:
    """The descriptors of all sockets of a loop, combined in one."""

    _of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._epoll = select.epoll()
        # The references are weak, so a socket that the program no longer uses disappears from here.
        self._sockets: weakref.WeakValueDictionary[int, _Waiting] = weakref.WeakValueDictionary()
        # asyncio has only weak references to tasks. This set keeps sockets with waiting tasks, and thereby the
        # tasks, alive.
        self._awaited: set[_Waiting] = set()

    @classmethod
    def here(cls) -> _Hub:
        loop = asyncio.get_running_loop()
        hub = cls._of_loop.get(loop)
        if hub is None:
            hub = cls._of_loop[loop] = cls(loop)
        return hub

    def add(self, fd: int, socket: _Waiting) -> None:
        if self._sockets.get(fd) is socket:
            return
        loop = self._loop()
        if not self._sockets and loop is not None:
            loop.add_reader(self._epoll.fileno(), self._ready)
        # Edge-triggered, so that a socket without waiting tasks does not keep the loop awake.
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        self._sockets[fd] = socket

    def remove(self, fd: int) -> None:
        if self._sockets.pop(fd, None) is None:
            return
        self._epoll.unregister(fd)
        loop = self._loop()
        if not self._sockets and loop is not None and not loop.is_closed():
            loop.remove_reader(self._epoll.fileno())

    def _ready(self) -> None:
        for fd, _ in self._epoll.poll(0, max(len(self._sockets), 1)):
            socket = self._sockets.get(fd)
            if socket is not None:
                socket._look()


class _Waiting:
    """A socket, and the tasks that wait for it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._left = False
        self._waiters: tuple[list[asyncio.Future[None]], ...] = ([], [], [], [], [])
        self._hub = _Hub.here()
        self._hub.add(fd, self)

    def _flags(self) -> tuple[bool, ...]:
        raise NotImplementedError

    def _look(self) -> tuple[bool, ...]:
        """Reads the socket's readiness, and wakes the tasks that wait for it."""
        flags = self._flags()
        for ready, waiters in zip(flags, self._waiters):
            if ready:
                self._wake(waiters)
        return flags

    def _wake(self, waiters: list[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    async def _until(self, what: int) -> None:
        # _look() reports what is ready now. Later changes trigger an edge of the descriptor.
        if what != _CHANGE and self._look()[what]:
            return
        # close() has removed the descriptor from the hub, but another task may still wait for the end of the
        # connection.
        self._hub.add(self._fd, self)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[what].append(waiter)
        self._hub._awaited.add(self)
        try:
            await waiter
        finally:
            if waiter in self._waiters[what]:
                self._waiters[what].remove(waiter)
            if not any(self._waiters):
                self._hub._awaited.discard(self)

    async def _retry(self, what: int, call: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Repeats a native call with timeout 0 until it no longer raises BlockingIOError, and waits between
        the attempts."""
        while True:
            try:
                return call(*args, **kwargs, timeout=0)
            except BlockingIOError:
                await self._until(what)

    def _leave(self) -> None:
        self._left = True
        self._hub.remove(self._fd)
        for waiters in self._waiters:
            self._wake(waiters)

    async def __aenter__(self) -> Self:
        return self


class Connection(_Waiting):
    """A connection. `native` is its blocking object, with stats(), set_ccid() and all other calls that do not wait."""

    def __init__(self, native: _mpdccp.Connection) -> None:
        self.native = native
        super().__init__(native.fileno())

    def _flags(self) -> tuple[bool, ...]:
        readable, writable, event, closed, stream = self.native.ready()
        return readable or closed, writable or closed, event or closed, True, stream or closed

    async def send(self, data: Buffer, *, priority: int = 0, expires: float | None = None) -> None:
        """Queues a datagram. Waits while the queue is full."""
        await self._retry(_WRITABLE, self.native.send, data, priority=priority, expires=expires)

    async def recv(self) -> bytes:
        """Waits for the next datagram. Returns b"" after a clean end."""
        while (data := self.native.try_recv()) is None:
            await self._until(_READABLE)
        return data

    async def recv_many(self, most: int = 64) -> list[bytes]:
        """Waits for a datagram. Returns all available ones; [] after a clean end."""
        return await self._retry(_READABLE, self.native.recv_many, most)

    async def next_event(self) -> Event | None:
        """Waits for the next event. Returns None after the last event."""
        return await self._retry(_EVENT, self.native.next_event)

    async def open_stream(self) -> Stream:
        """Opens a reliable stream to the peer. Both ends need the option `streams`."""
        return Stream(self.native.open_stream())

    async def accept_stream(self) -> Stream:
        """Waits for a stream that the peer opens."""
        return Stream(await self._retry(_STREAM, self.native.accept_stream))

    async def finish(self) -> Stats:
        """Sends the queue, waits until it is acknowledged or lost, and closes. Returns the counters."""
        stats = await self._retry(_CHANGE, self.native.finish)
        self._leave()
        return stats

    def close(self) -> None:
        """Finishes the connection in the background."""
        self._leave()
        self.native.close()

    def abort(self, why: str | None = None) -> None:
        """Ends the connection immediately. The peer receives the text."""
        self._leave()
        self.native.abort(why)

    def stats(self) -> Stats:
        return self.native.stats()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self.recv()
        if not data:
            raise StopAsyncIteration
        return data

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif self.native.end is None and not self._left:
            await self.finish()
        else:
            self.close()


class Stream(_Waiting):
    """A reliable stream of bytes in both directions; `native` is its blocking object."""

    def __init__(self, native: _mpdccp.Stream) -> None:
        self.native = native
        super().__init__(native.fileno())

    def _flags(self) -> tuple[bool, ...]:
        return (*self.native.ready(), False, True, False)

    async def write(self, data: Buffer) -> None:
        """Writes all data. If the call is cancelled, the peer may receive only the start of the data."""
        rest = memoryview(data).cast("B")
        try:
            while rest:
                taken = self.native.try_write(rest[:_PART])
                rest = rest[taken:]
                if not taken:
                    await self._until(_WRITABLE)
        finally:
            # A native write clears what the descriptor reports, so other tasks must check again.
            self._wake(self._waiters[_WRITABLE])
            self._wake(self._waiters[_CHANGE])

    async def read(self, most: int = 65536) -> bytes:
        """Waits for data. Returns the available bytes; b"" at the end."""
        try:
            return await self._retry(_READABLE, self.native.read, most)
        finally:
            # A native read clears what the descriptor reports, so finish() in another task must check again.
            self._wake(self._waiters[_CHANGE])

    def end(self) -> None:
        """Ends writing. The peer still receives everything that was written."""
        self.native.end()

    async def finish(self) -> None:
        """Ends writing, and waits until the peer has received everything."""
        await self._retry(_CHANGE, self.native.finish)

    def reset(self, code: int = 0) -> None:
        """Resets both directions immediately. The peer receives the code."""
        self._leave()
        self.native.reset(code)

    def close(self) -> None:
        """Stops reading. Data that was written still arrives."""
        self._leave()
        self.native.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return self.reset()
        if not self._left:
            await self.finish()
        self.close()


async def _addresses(address: Address) -> Iterable[tuple[str, int]]:
    if isinstance(address, str):
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"address {address!r}: expected HOST:PORT, such as example.org:6511 or [::1]:6511")
        address = host.removeprefix("[").removesuffix("]"), int(port)
    found = await asyncio.get_running_loop().getaddrinfo(*address, type=2)
    return [_numeric(info[4]) for info in found]


def _numeric(found: tuple[Any, ...]) -> tuple[str, int]:
    """The host and the port of a resolved address. The host includes the interface of a link-local address."""
    host, port, *rest = found
    scope = rest[1] if len(rest) > 1 else 0
    return f"{host}%{scope}" if scope and "%" not in host else str(host), int(port)


class Connector:
    """Opens connections that share one thread. Connections to the same peer also share one socket."""

    def __init__(self, **options: Unpack[Options]) -> None:
        self._native = _mpdccp.Connector(**options)

    async def connect(self, address: Address, peer_key: str | None = None) -> Connection:
        last: OSError | None = None
        for host, port in await _addresses(address):
            connection = Connection(self._native.start(host, port, peer_key))
            try:
                while not connection.native.opened():
                    await connection._until(_CHANGE)
                return connection
            except OSError as error:
                connection.abort()
                last = error
            except BaseException:
                connection.abort()
                raise
        try:
            raise last or OSError("the name has no address")
        finally:
            # The error and this frame refer to each other, which would keep `connection` alive.
            last = None


async def connect(address: Address, **options: Unpack[Options]) -> Connection:
    """Connects to a listener at the first address of a name that answers."""
    return await Connector(**options).connect(address)


class Listener(_Waiting):
    """Accepts connections; `native` is its blocking object."""

    def __init__(self, native: _mpdccp.Listener) -> None:
        self.native = native
        self.address = native.address
        super().__init__(native.fileno())

    def _flags(self) -> tuple[bool, ...]:
        # select.select() refuses descriptors from 1024 on.
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return (bool(poll.poll(0)), False, False, False, False)

    async def accept(self) -> Connection:
        while (native := self.native.try_accept()) is None:
            await self._until(_READABLE)
        return Connection(native)

    def close(self) -> None:
        """Stops listening. Accepted connections continue."""
        self._leave()
        self.native.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Connection:
        try:
            return await self.accept()
        except ConnectionAbortedError:
            raise StopAsyncIteration from None

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def listen(address: Address, **options: Unpack[Options]) -> Listener:
    """Listens on the first address of a name that works. Port 0 selects any free port."""
    last: OSError | None = None
    for at in await _addresses(address):
        try:
            return Listener(_mpdccp.Listener(at, **options))
        except OSError as error:
            last = error
    try:
        raise last or OSError("the name has no address")
    finally:
        # The error and this frame refer to each other.
        last = None

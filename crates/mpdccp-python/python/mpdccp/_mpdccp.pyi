from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Literal, Self, Unpack, final

from typing_extensions import Buffer

from ._types import Address, Options

__all__ = [
    "__version__",
    "Connection",
    "Connector",
    "Listener",
    "Event",
    "PathStats",
    "Stats",
    "Stream",
    "Path",
]
__version__: str

@final
class Path:
    """A path of a multipath connection. A string in its place is a local address or the name of an interface."""
    local: str | None
    """Local address."""
    interface: str | None
    """Outgoing network interface."""
    remote: tuple[str, int] | None
    """Address and port of the peer."""
    priority: int
    """0 never, 1 standby, 2 overflow, 3 to 15 primary."""
    def __new__(
        cls,
        local: str | None = None,
        interface: str | None = None,
        remote: tuple[str, int] | None = None,
        priority: int = 3,
    ) -> Self: ...

@final
class Stats:
    """Counters and state of a connection. Rates are bits per second, times are seconds."""
    sent: int
    """Datagrams that `send` accepted."""
    sent_bytes: int
    """Bytes of `sent`."""
    queued: int
    """Datagrams of `sent` that still wait in the queue."""
    dropped: int
    """Datagrams of `sent` that were dropped because no path could carry their size any more, or
    because the connection broke."""
    displaced: int
    """Datagrams of `sent` that were dropped because the queue was full (option `send_policy`)."""
    expired: int
    """Datagrams of `sent` that were dropped because they waited too long (`expires`, option
    `queue_time`)."""
    lost: int
    """Data packets that congestion control considers lost; with several paths they may have been
    repaired. CCID 3 and 4 report loss events: all losses within a round-trip time count as one."""
    received: int
    """Datagrams that arrived."""
    received_bytes: int
    """Bytes of `received`."""
    unread: int
    """Datagrams of `received` that were dropped because the program did not fetch them (option
    `receive_queue`)."""
    rate: int | None
    """Measured rate of all paths together, bit/s. None while `app_limited`: the capacity is unknown
    then."""
    allowed: int
    """Rate that congestion control allows now, bit/s."""
    app_limited: bool
    """Whether the program sends less than congestion control allows."""
    oldest: float | None
    """Age of the oldest datagram in the queue, seconds; None while the queue is empty."""
    paths: list[PathStats]
    """The paths."""

@final
class PathStats:
    """One path of a connection."""
    id: int
    """Number of the path, for `remove_path` and `set_priority`."""
    peer: tuple[str, int]
    """The peer's current address: (host, port)."""
    state: Literal["connecting", "up", "suspect", "down", "standby"]
    """"connecting", "up", "suspect" (silent, or its link is down), "down" or "standby"."""
    ccids: tuple[int, int] | None
    """CCIDs of sent and of received data, once negotiated."""
    rtt: float | None
    """Smoothed round-trip time, seconds."""
    window: int
    """Congestion window, bytes."""
    path_mtu: int
    """Largest IP packet that the path carries as far as known, bytes."""
    rate: int | None
    """Measured rate, bit/s; None while the program limits the sending on this path."""
    allowed: int
    """Rate that congestion control allows on this path now, bit/s."""
    sent: int
    """Data packets that left."""
    lost: int
    """Data packets that congestion control considers lost; with CCID 3 and 4 see Stats.lost."""

@final
class Event:
    """An event of a connection: `kind` is "path_up", "path_suspect", "path_down", "size", "rate", "path_strays"
    (packets leave through the interface of `other` instead of the one with its address) or "closed"."""
    kind: Literal["path_up", "path_suspect", "path_down", "size", "rate", "path_strays", "closed", "other"]
    """One of the kinds above, or "other" from a later version."""
    path: int | None
    """The path, for the kinds "path_..."."""
    size: int | None
    """The new `max_datagram`, bytes, for "size"."""
    reason: str | None
    """Why a path or the connection ended, for "path_down" and "closed"."""
    rate: int | None
    """The rate that congestion control allows now, bit/s, for "rate" (option `tell_rate`)."""
    other: int | None
    """The path whose interface the packets use, for "path_strays"."""

@final
class Connection:
    """A connection: datagrams in both directions, as fast as congestion control allows. Threads may share it."""
    def send(
        self, data: Buffer, *, priority: int = 0, expires: float | None = None, timeout: float | None = None
    ) -> None:
        """Queues a datagram and waits while the queue is full."""
    def send_many(self, datagrams: Iterable[Buffer]) -> int:
        """Queues as many datagrams as fit; returns their number."""
    def recv(self, timeout: float | None = None) -> bytes:
        """The next datagram; b"" after a clean end."""
    def try_recv(self) -> bytes | None:
        """The next datagram if there is one, b"" after a clean end, otherwise None."""
    def recv_into(self, buffer: Buffer, timeout: float | None = None) -> int:
        """Copies the next datagram into a writable buffer; returns its length, 0 after a clean end."""
    def recv_many(self, most: int = 64, timeout: float | None = None) -> list[bytes]:
        """Waits for a datagram and returns all available ones, at most `most`; [] after a clean end."""
    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, None after the last."""
    def try_event(self) -> Event | None:
        """The next event if there is one, otherwise None."""
    def finish(self, timeout: float | None = None) -> Stats:
        """Sends the queued datagrams, waits until they are acknowledged or lost, and closes the connection;
        returns the counters."""
    def close(self) -> None:
        """Closes it in the background: waiting calls of other threads return."""
    def abort(self, why: str | None = None) -> None:
        """Aborts it at once; the peer receives the text."""
    def opened(self, timeout: float | None = 0.0) -> bool | None:
        """Whether it is open, for a connection from `Connector.start`; None while unknown."""
    def open_stream(self) -> Stream:
        """Opens a reliable stream to the peer; both ends need the option `streams`."""
    def accept_stream(self, timeout: float | None = None) -> Stream:
        """Waits for a stream that the peer opens."""
    def ready(self) -> tuple[bool, bool, bool, bool, bool]:
        """Readiness for recv, send and next_event; whether the connection is over; and whether a stream waits to
        be accepted. Rearms the descriptor."""
    def fileno(self) -> int:
        """A descriptor for selectors, for read events only; it belongs to the connection."""
    def stats(self) -> Stats:
        """Counters and state."""
    def probe(self, rate: int, duration: float) -> None:
        """Sends `rate` bits per second for a while, with padding if there is no data: afterwards
        `stats().allowed` shows the capacity of the path."""
    def add_path(self, path: Path | str) -> int:
        """Adds a path to a client's multipath session; returns its number."""
    def remove_path(self, path: int) -> None:
        """Closes a path cleanly."""
    def set_priority(self, path: int, priority: int) -> None:
        """Changes a path's priority at both ends."""
    def set_ccid(self, ccid: int) -> None:
        """Changes the congestion control of this end's packets."""
    @property
    def max_datagram(self) -> int:
        """Largest datagram that all paths carry now, bytes."""
    @property
    def is_multipath(self) -> bool:
        """Whether it is a multipath session (RFC 9897)."""
    @property
    def peer_address(self) -> tuple[str, int] | None:
        """Address of the peer when the connection opened."""
    @property
    def local_address(self) -> tuple[str, int] | None:
        """Local address of the connection when it opened."""
    @property
    def peer_key(self) -> str | None:
        """The peer's public key, if the connection is encrypted."""
    @property
    def service(self) -> str | None:
        """The Service Code."""
    @property
    def peer_said(self) -> str | None:
        """The peer's message when it ended the connection."""
    @property
    def end(self) -> str | None:
        """Why it ended, such as "closed_by_peer"; None while it is open."""
    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

@final
class Stream:
    """A reliable stream of bytes in both directions, next to the datagrams of its connection."""
    def write(self, data: Buffer, timeout: float | None = None) -> None:
        """Writes all data; waits while there is no room."""
    def try_write(self, data: Buffer) -> int:
        """Writes as much as fits; returns the number of bytes."""
    def read(self, most: int = 65536, timeout: float | None = None) -> bytes:
        """Waits for data and returns the available bytes, at most `most`; b"" at the end."""
    def end(self) -> None:
        """Ends writing: the peer reads to the end. Reading continues."""
    def finish(self, timeout: float | None = None) -> None:
        """Ends writing, and waits until the peer has received everything."""
    def reset(self, code: int = 0) -> None:
        """Aborts both directions at once; the peer receives the code."""
    def close(self) -> None:
        """Stops reading; written data still arrives."""
    def ready(self) -> tuple[bool, bool]:
        """Whether a read, and a write, would return at once."""
    def fileno(self) -> int:
        """A descriptor for selectors, for read events only; it belongs to the stream."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

@final
class Connector:
    """Creates connections that share one thread and, to the same peer, one socket."""
    def __new__(cls, **kwargs: Unpack[Options]) -> Self: ...
    def connect(self, address: Address, peer_key: str | None = None) -> Connection:
        """Connects; for a name with several addresses, to the first that answers. With keys, connects to the
        peer with this public key, or to the first peer of the options."""
    def start(self, host: str, port: int, peer_key: str | None = None) -> Connection:
        """Sends the first packet to a numeric address and returns at once: the descriptor is readable once
        `opened` has an answer."""

@final
class Listener:
    """Accepts connections."""
    def __new__(cls, address: Address, **kwargs: Unpack[Options]) -> Self: ...
    def accept(self, timeout: float | None = None) -> Connection:
        """The next connection."""
    def try_accept(self) -> Connection | None:
        """The next connection if there is one, otherwise None."""
    def fileno(self) -> int:
        """A descriptor for selectors, readable while a connection waits; it belongs to the listener."""
    def add_peer(self, key: str, preshared_key: str | None = None) -> None:
        """Admits a peer by its public key from now on."""
    def remove_peer(self, key: str) -> None:
        """Stops admitting a peer, and ends its connections."""
    @property
    def address(self) -> tuple[str, int]:
        """The address it listens on."""
    def close(self) -> None:
        """Stops listening; accepted connections continue."""
    def __iter__(self) -> Iterator[Connection]: ...
    def __next__(self) -> Connection: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

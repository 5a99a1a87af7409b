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
    """A path of a multipath connection. Instead of a Path, a string may be given: a local address or an
    interface name."""
    local: str | None
    """Local address."""
    interface: str | None
    """Network interface through which packets are sent."""
    remote: tuple[str, int] | None
    """Address and port of the peer."""
    priority: int
    """Priority: 0 never, 1 standby, 2 overflow, 3 to 15 primary."""
    def __new__(
        cls,
        local: str | None = None,
        interface: str | None = None,
        remote: tuple[str, int] | None = None,
        priority: int = 3,
    ) -> Self: ...

@final
class Stats:
    """Counters and state of a connection. Rates are in bits per second, times in seconds."""
    sent: int
    """Number of datagrams that `send` accepted."""
    sent_bytes: int
    """Total size of the datagrams counted by `sent`, bytes."""
    queued: int
    """How many of `sent` are still waiting in the queue."""
    dropped: int
    """How many of `sent` were dropped because no path could carry their size any more, because the peer's
    application no longer listens, or because the connection failed."""
    displaced: int
    """How many of `sent` were dropped because the queue was full (option `send_policy`)."""
    expired: int
    """How many of `sent` were dropped because they waited too long (`expires`, option `queue_time`)."""
    lost: int
    """Data packets that congestion control considers lost. With several paths, some may have been
    retransmitted. CCID 3 and 4 count loss events: all losses within a round-trip time are one event."""
    received: int
    """Number of datagrams that arrived."""
    received_bytes: int
    """Total size of the datagrams counted by `received`, bytes."""
    unread: int
    """How many of `received` were dropped because the program did not fetch them (option `receive_queue`)."""
    rate: int | None
    """Measured rate of all paths together, bit/s. None while `app_limited`, because the capacity is then
    unknown."""
    allowed: int
    """Rate that congestion control currently allows, bit/s."""
    app_limited: bool
    """Whether the program is sending less than congestion control allows."""
    oldest: float | None
    """Age of the oldest datagram in the queue, seconds; None while the queue is empty."""
    paths: list[PathStats]
    """The paths."""

@final
class PathStats:
    """A path of a connection."""
    id: int
    """Number of the path, for `remove_path` and `set_priority`."""
    peer: tuple[str, int]
    """Current address of the peer: (host, port)."""
    state: Literal["connecting", "up", "suspect", "down", "standby"]
    """"connecting", "up", "suspect" (silent, or its link is down), "down" or "standby"."""
    ccids: tuple[int, int] | None
    """CCIDs as a pair, for sent data and for received data; None until they are negotiated."""
    rtt: float | None
    """Smoothed round-trip time, seconds."""
    window: int
    """Congestion window, bytes."""
    path_mtu: int
    """Largest IP packet that the path is known to carry, bytes."""
    rate: int | None
    """Measured rate, bit/s; None while the program sends less on this path than congestion control allows."""
    allowed: int
    """Rate that congestion control allows on this path now, bit/s."""
    sent: int
    """Number of data packets sent."""
    lost: int
    """Data packets that congestion control considers lost. For CCID 3 and 4 see Stats.lost."""

@final
class Event:
    """An event of a connection. `kind` is "path_up", "path_suspect", "path_down", "size", "rate", "path_strays"
    (packets leave through the interface of the path `other`, not through the one that has their source
    address) or "closed"."""
    kind: Literal["path_up", "path_suspect", "path_down", "size", "rate", "path_strays", "closed", "other"]
    """One of the kinds above, or "other" for a kind introduced in a later version."""
    path: int | None
    """Number of the path, for the kinds "path_..."."""
    size: int | None
    """The new `max_datagram`, bytes, for "size"."""
    reason: str | None
    """For "path_down" and "closed": why the path or the connection ended."""
    rate: int | None
    """For "rate" (option `tell_rate`): the rate that congestion control currently allows, bit/s."""
    other: int | None
    """For "path_strays": the number of the path whose interface the packets use."""

@final
class Connection:
    """A connection carries datagrams in both directions, as fast as congestion control allows. It may be shared
    between threads."""
    def send(
        self, data: Buffer, *, priority: int = 0, expires: float | None = None, timeout: float | None = None
    ) -> None:
        """Queues a datagram, waiting while the queue is full."""
    def send_many(self, datagrams: Iterable[Buffer]) -> int:
        """Queues as many datagrams as fit, and returns how many were queued."""
    def recv(self, timeout: float | None = None) -> bytes:
        """Waits for the next datagram. Returns b"" after a clean end."""
    def try_recv(self) -> bytes | None:
        """Returns the next datagram if there is one, b"" after a clean end, or None otherwise."""
    def recv_into(self, buffer: Buffer, timeout: float | None = None) -> int:
        """Waits for the next datagram, and copies it into a writable buffer. Returns its length, or 0 after a
        clean end."""
    def recv_many(self, most: int = 64, timeout: float | None = None) -> list[bytes]:
        """Waits for a datagram, then returns all that are available, at most `most`, or [] after a clean end.
        Raises ValueError if `most` is 0."""
    def next_event(self, timeout: float | None = None) -> Event | None:
        """Waits for the next event. Returns None after the last event."""
    def try_event(self) -> Event | None:
        """Returns the next event if there is one, or None otherwise."""
    def finish(self, timeout: float | None = None) -> Stats:
        """Sends the queued datagrams, waits until they are acknowledged or lost, and closes the connection.
        Returns the counters."""
    def close(self) -> None:
        """Finishes the connection in the background. Calls waiting in other threads return, except `finish`."""
    def abort(self, why: str | None = None) -> None:
        """Ends the connection immediately. The peer receives the text."""
    def opened(self, timeout: float | None = 0.0) -> bool | None:
        """For a connection from `Connector.start`: None until the peer answers, then True. Raises an error if
        the connection failed."""
    def open_stream(self) -> Stream:
        """Opens a reliable stream to the peer. Both ends need the option `streams`."""
    def accept_stream(self, timeout: float | None = None) -> Stream:
        """Waits for the peer to open a stream."""
    def ready(self) -> tuple[bool, bool, bool, bool, bool]:
        """Returns five values. The first three say whether recv, send and next_event would return without
        waiting. The fourth says whether the connection has ended, and the fifth whether a stream is waiting
        to be accepted. After this call, the descriptor reports the next change."""
    def fileno(self) -> int:
        """A descriptor for selectors, for read events only. It belongs to the connection."""
    def stats(self) -> Stats:
        """Counters and state of the connection."""
    def probe(self, rate: int, duration: float) -> None:
        """Sends `rate` bits per second for `duration` seconds, with padding if there is no data. In this way,
        `stats().allowed` shows the capacity of the path before the program sends more."""
    def add_path(self, path: Path | str) -> int:
        """Adds a path to a client's multipath session, and returns the path's number."""
    def remove_path(self, path: int) -> None:
        """Closes a path cleanly."""
    def set_priority(self, path: int, priority: int) -> None:
        """Changes the priority of a path at both ends."""
    def set_scheduler(self, scheduler: str) -> None:
        """Changes the scheduler, which chooses the path of each datagram that this end sends."""
    def set_ccid(self, ccid: int) -> None:
        """Changes the congestion control for data that this end sends."""
    @property
    def max_datagram(self) -> int:
        """Largest datagram that all paths can currently carry, in bytes."""
    @property
    def is_multipath(self) -> bool:
        """Whether the connection is a multipath session (RFC 9897)."""
    @property
    def peer_address(self) -> tuple[str, int] | None:
        """Address that the peer had when the connection opened."""
    @property
    def local_address(self) -> tuple[str, int] | None:
        """Local address that the connection had when it opened."""
    @property
    def peer_key(self) -> str | None:
        """The public key of the peer, if the connection is encrypted."""
    @property
    def service(self) -> str | None:
        """The Service Code of the connection."""
    @property
    def peer_said(self) -> str | None:
        """The text that the peer sent when it ended the connection."""
    @property
    def end(self) -> str | None:
        """Why the connection ended, such as "closed_by_peer"; None until it has ended."""
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
        """Writes all data, waiting while the buffer is full. The timeout limits the whole call. If it passes,
        the peer may receive only the start of the data."""
    def try_write(self, data: Buffer) -> int:
        """Writes as much as fits, and returns the number of bytes written."""
    def read(self, most: int = 65536, timeout: float | None = None) -> bytes:
        """Waits for data. Returns the available bytes, at most `most`; b"" at the end."""
    def end(self) -> None:
        """Ends writing. The peer still receives everything written so far. Reading can continue."""
    def finish(self, timeout: float | None = None) -> None:
        """Ends writing, and waits until the peer has received everything."""
    def reset(self, code: int = 0) -> None:
        """Resets both directions immediately. The peer receives the given code."""
    def close(self) -> None:
        """Stops reading. Data already written still reaches the peer."""
    def ready(self) -> tuple[bool, bool]:
        """Returns two values: whether a read would return at once, and whether a write would."""
    def fileno(self) -> int:
        """A descriptor for selectors, for read events only. It belongs to the stream."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

@final
class Connector:
    """Opens connections that share one thread. Connections to the same peer also share one socket."""
    def __new__(cls, **kwargs: Unpack[Options]) -> Self: ...
    def connect(self, address: Address, peer_key: str | None = None) -> Connection:
        """Connects to the first of a name's addresses that answers. With encryption, `peer_key` is the public
        key of the peer; the default is the first peer in the options."""
    def start(self, host: str, port: int, peer_key: str | None = None) -> Connection:
        """Sends the first packet to a numeric address, and returns the connection at once. Its descriptor
        becomes readable once `opened` has a result."""

@final
class Listener:
    """Accepts connections."""
    def __new__(cls, address: Address, **kwargs: Unpack[Options]) -> Self: ...
    def accept(self, timeout: float | None = None) -> Connection:
        """Waits for the next connection."""
    def try_accept(self) -> Connection | None:
        """Returns the next connection if there is one, or None otherwise."""
    def fileno(self) -> int:
        """A descriptor for selectors, which belongs to the listener. It is readable while a connection is
        waiting."""
    def add_peer(self, key: str, preshared_key: str | None = None) -> None:
        """From now on, accepts the peer with this public key."""
    def remove_peer(self, key: str) -> None:
        """Stops accepting a peer, and ends its connections."""
    @property
    def address(self) -> tuple[str, int]:
        """The address on which the listener listens."""
    def close(self) -> None:
        """Stops listening. Accepted connections continue."""
    def __iter__(self) -> Iterator[Connection]: ...
    def __next__(self) -> Connection: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

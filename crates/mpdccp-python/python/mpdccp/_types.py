"""Types of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    from ._mpdccp import Path

Address: TypeAlias = str | tuple[str, int]


class Options(TypedDict, total=False):
    """Keyword arguments of connect(), Connector and Listener. Times are seconds."""

    # Congestion control of this end's data: 2 like TCP, 3 and 4 TFRC, 5 BBR (the default), 7 CUBIC.
    ccid: int
    # Service Code, such as "SC:chat"; a listener may have several.
    service: str | Sequence[str]
    # A client's paths: interfaces, addresses of this host, or Path objects.
    paths: Iterable[Path | str]
    # Public keys of accepted peers, or (key, preshared key); a client connects to the first.
    peers: Iterable[str | tuple[str, str | None]]
    # A listener accepts any client with a key.
    any_peer: bool
    # Key of this end in base64; enables encryption.
    private_key: str
    # DSCP of IP headers, 0 to 63.
    dscp: int
    # Change of the allowed rate, in per cent, that causes an event "rate"; 0 (the default) for none.
    tell_rate: int
    # A client requests a multipath session even over one path.
    multipath: bool
    # Allows reliable streams; both ends must set it.
    streams: bool
    # IP protocol 33 instead of UDP; needs CAP_NET_RAW.
    raw: bool
    # Network interface of all paths that name none.
    interface: str
    # SO_MARK of all packets, for policy routing; needs CAP_NET_ADMIN.
    mark: int
    # Chooses the path of each packet: a name of docs/schedulers.md.
    scheduler: str
    # Order of datagrams from several paths: "adaptive" (the default), or "passive" as they arrive.
    reordering: str
    # Maximum number of datagrams that wait to be sent; 16 by default.
    queue: int
    # Longest time that a datagram waits to be sent; then it is dropped.
    queue_time: float
    # Effect of a full queue.
    send_policy: Literal["wait", "drop_oldest", "drop_newest", "priority"]
    # Maximum number of received datagrams that wait for the application; 4096 by default.
    receive_queue: int
    # Maximum bytes of received datagrams in all connections of a thread; 256 MiB by default.
    receive_memory: int
    # Maximum number of connections that wait to be accepted; 128 by default.
    backlog: int
    # Maximum number of connections of a listener; 16384 by default.
    max_connections: int
    # Maximum number of connections from one address; by default a quarter of `max_connections`.
    max_connections_per_source: int
    # Largest IP packet, bytes; 1500 by default.
    mtu: int
    # Time to wait for the peer's answer; 5 by default.
    connect_timeout: float
    # Idle time of a path before the peer is probed; 12 by default, 24 at a listener, 0 for never.
    keepalive: float
    # How long a connection survives without a working path; 60 by default.
    survive: float
    # Data for the first packet, at most 512 bytes; an attacker who sees it can replay it.
    early_data: bytes
    # A listener accepts early data.
    take_early_data: bool
    # UDP and DCCP port that a client sends from; 0 for any.
    source_ports: tuple[int, int]
    # DCCP port of a listener inside UDP; 5001 by default.
    dccp_port: int
    # File for a trace in qlog format.
    qlog: str | PathLike[str]

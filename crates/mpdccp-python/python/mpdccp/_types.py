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

    ccid: int
    """Congestion control of this end's data: 2 like TCP, 3 and 4 TFRC, 5 BBR (the default), 7 CUBIC."""
    service: str | Sequence[str]
    """Service Code, such as "SC:chat"; a listener may have several."""
    paths: Iterable[Path | str]
    """A client's paths: interfaces, addresses of this host, or Path objects."""
    peers: Iterable[str | tuple[str, str | None]]
    """Public keys of accepted peers, or (key, preshared key); a client connects to the first."""
    any_peer: bool
    """A listener accepts any client with a key."""
    private_key: str
    """Key of this end in base64; enables encryption."""
    dscp: int
    """DSCP of IP headers, 0 to 63."""
    tell_rate: int
    """Change of the allowed rate, in per cent, that causes an event "rate"; 0 (the default) for none."""
    multipath: bool
    """A client requests a multipath session even over one path."""
    streams: bool
    """Allows reliable streams; both ends must set it."""
    raw: bool
    """IP protocol 33 instead of UDP; needs CAP_NET_RAW."""
    interface: str
    """Network interface of all paths that name none."""
    mark: int
    """SO_MARK of all packets, for policy routing; needs CAP_NET_ADMIN."""
    scheduler: Literal[
        "auto", "cpf", "acpf", "rr", "weighted-rr", "srtt", "otias", "ecf", "blest", "redundant", "handover"
    ]
    """Chooses the path of each packet; "auto" by default. docs/schedulers.md compares them."""
    reordering: Literal["adaptive", "active-fixed", "equalised", "passive"]
    """Order of datagrams from several paths: "adaptive" (the default), or "passive" as they arrive."""
    queue: int
    """Maximum number of datagrams that wait to be sent; 16 by default."""
    queue_time: float
    """Longest time that a datagram waits to be sent; then it is dropped."""
    send_policy: Literal["wait", "drop_oldest", "drop_newest", "priority"]
    """Effect of a full queue: the sender waits (the default), or a datagram is dropped."""
    receive_queue: int
    """Maximum number of received datagrams that wait for the application; 4096 by default."""
    receive_memory: int
    """Maximum bytes of received datagrams in all connections of a thread; 256 MiB by default."""
    backlog: int
    """Maximum number of connections that wait to be accepted; 128 by default."""
    max_connections: int
    """Maximum number of connections of a listener; 16384 by default."""
    max_connections_per_source: int
    """Maximum number of connections from one address; by default a quarter of `max_connections`."""
    mtu: int
    """Largest IP packet, bytes; 1500 by default."""
    mtu_probing: bool
    """Discover the MTU of each path, up to `mtu`; True by default."""
    connect_timeout: float
    """Time to wait for the peer's answer; 5 by default."""
    keepalive: float
    """Idle time of a path before the peer is probed; 12 by default, 24 at a listener, 0 for never."""
    survive: float
    """How long a connection survives without a working path; 60 by default."""
    early_data: bytes
    """Data for the first packet, at most 512 bytes; an attacker who sees it can replay it."""
    take_early_data: bool
    """A listener accepts early data."""
    source_ports: tuple[int, int]
    """UDP and DCCP port that a client sends from; 0 for any."""
    dccp_port: int
    """DCCP port of a listener inside UDP; 5001 by default."""
    qlog: str | PathLike[str]
    """File for a trace in qlog format."""

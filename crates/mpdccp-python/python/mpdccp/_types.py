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
    """Congestion control for data that this end sends: 2 like TCP, 3 and 4 TFRC, 5 BBR (the default), 7 CUBIC."""
    service: str | Sequence[str]
    """Service Code, such as "SC:chat". A listener may accept several."""
    paths: Iterable[Path | str]
    """A client's paths: interfaces, addresses of this host, or Path objects."""
    peers: Iterable[str | tuple[str, str | None]]
    """Public keys of the peers to accept, or (key, preshared key). A client connects to the first."""
    any_peer: bool
    """Whether a listener accepts every client that has a key."""
    private_key: str
    """Private key of this end in base64; enables encryption."""
    dscp: int
    """DSCP of IP headers, 0 to 63."""
    tell_rate: int
    """Change of the allowed rate, in percent, that causes an event "rate". 0 (the default) means no such events."""
    multipath: bool
    """Whether a client requests a multipath session even over one path."""
    streams: bool
    """Whether to allow reliable streams. Both ends must set this."""
    raw: bool
    """Whether to use IP protocol 33 instead of UDP. Needs CAP_NET_RAW."""
    interface: str
    """Network interface for all paths that do not set one themselves."""
    mark: int
    """SO_MARK of all packets, for policy routing; needs CAP_NET_ADMIN."""
    scheduler: Literal[
        "auto", "cpf", "acpf", "rr", "weighted-rr", "srtt", "otias", "ecf", "blest", "redundant", "handover"
    ]
    """Chooses the path of each packet; "auto" by default. docs/schedulers.md compares them."""
    reordering: Literal["adaptive", "active-fixed", "equalised", "passive"]
    """Reordering of datagrams from several paths: "adaptive" by default; "passive" keeps the order of arrival."""
    queue: int
    """Maximum number of datagrams that wait to be sent; 16 by default."""
    queue_time: float
    """Longest time that a datagram may wait to be sent before it is dropped; no limit by default."""
    send_policy: Literal["wait", "drop_oldest", "drop_newest", "priority"]
    """What happens when the send queue is full: the sender waits (the default), or a datagram is dropped."""
    receive_queue: int
    """Maximum number of received datagrams that wait for the application; 4096 by default."""
    receive_memory: int
    """Memory for received datagrams of all connections of a listener or connector, bytes; 256 MiB by default."""
    backlog: int
    """Maximum number of connections that wait to be accepted; 128 by default."""
    max_connections: int
    """Maximum number of connections of a listener; 16384 by default."""
    max_connections_per_source: int
    """Maximum number of connections from one IPv4 address or IPv6 /64; by default a quarter of `max_connections`, but at least 16."""
    mtu: int
    """Largest IP packet, bytes; 1500 by default."""
    mtu_probing: bool
    """Whether to discover the MTU of each path, up to `mtu`; True by default."""
    connect_timeout: float
    """How long to wait for the peer's answer; 5 by default."""
    keepalive: float
    """How long a path may be idle before the peer is probed; 12 by default, 24 at a listener, 0 for never."""
    survive: float
    """How long a connection survives without a working path; 60 by default."""
    early_data: bytes
    """Data for the first packet, at most 512 bytes. An attacker who sees the packet can replay it."""
    take_early_data: bool
    """Whether a listener accepts early data."""
    source_ports: tuple[int, int]
    """UDP port and DCCP port from which a client sends, as a pair; 0 for any."""
    dccp_port: int
    """DCCP port of a listener inside UDP; 5001 by default."""
    qlog: str | PathLike[str]
    """File for a trace in qlog format."""

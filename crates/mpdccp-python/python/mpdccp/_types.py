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
    service: str | Sequence[str]
    paths: Iterable[Path | str]
    peers: Iterable[str | tuple[str, str | None]]
    any_peer: bool
    private_key: str
    dscp: int
    tell_rate: int
    multipath: bool
    streams: bool
    raw: bool
    interface: str
    mark: int
    scheduler: str
    reordering: str
    queue: int
    queue_time: float
    send_policy: Literal["wait", "drop_oldest", "drop_newest", "priority"]
    receive_queue: int
    receive_memory: int
    backlog: int
    max_connections: int
    max_connections_per_source: int
    mtu: int
    connect_timeout: float
    keepalive: float
    survive: float
    early_data: bytes
    take_early_data: bool
    source_ports: tuple[int, int]
    dccp_port: int
    qlog: str | PathLike[str]

"""DCCP (RFC 4340) and Multipath DCCP (RFC 9897) sockets in user space: datagrams with congestion control.

connect() and Listener are blocking; mpdccp.aio has the same for asyncio. Errors are those of Python's own sockets:
ConnectionRefusedError, TimeoutError, BrokenPipeError and other OSErrors; ValueError for invalid arguments.

Every timeout is in seconds: None waits without limit, 0 does not wait and raises BlockingIOError instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._mpdccp import Connection, Connector, Event, Listener, Path, PathStats, Stats, Stream
from ._mpdccp import __version__ as __version__
from ._types import Address, Options

if TYPE_CHECKING:
    from typing import Unpack

__all__ = [
    "Address",
    "Connection",
    "Connector",
    "Event",
    "Listener",
    "Options",
    "Path",
    "PathStats",
    "Stats",
    "Stream",
    "connect",
]


def connect(address: Address, **options: Unpack[Options]) -> Connection:
    """Connects to a listener: connect("example.org:6511", ccid=5, service="SC:chat")."""
    return Connector(**options).connect(address)

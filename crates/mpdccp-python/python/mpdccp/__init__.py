"""DCCP (RFC 4340) and Multipath DCCP (RFC 9897) sockets in user space: datagrams with congestion control.

connect() and Listener are blocking; mpdccp.aio has the same for asyncio. Errors are those of Python's own sockets:
ConnectionRefusedError, TimeoutError, BrokenPipeError and other OSErrors; ValueError for invalid arguments.

Every timeout is in seconds: None waits without limit, 0 does not wait and raises BlockingIOError instead.
"""

from ._mpdccp import Connection, Connector, Event, Listener, Path, PathStats, Stats, Stream, __version__
from ._types import Address, Options

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


def connect(address, **options):
    """Connects to a listener: connect("example.org:6511", ccid=5, service="SC:chat")."""
    return Connector(**options).connect(address)

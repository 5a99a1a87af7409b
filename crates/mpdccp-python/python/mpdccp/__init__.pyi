from typing import Unpack

from ._mpdccp import Connection, Connector, Event, Listener, Path, PathStats, Stats, Stream
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
__version__: str

def connect(address: Address, **options: Unpack[Options]) -> Connection: ...

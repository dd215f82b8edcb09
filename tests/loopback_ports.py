"""Choose a port for a server that must know it before it listens.

Where a server can be given port 0 and asked for its address, do that instead.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 10_000


def choose_port() -> int:
    """Return a free loopback port that the system gives to no other program meanwhile.

    Ports in the range for port 0 and outgoing connections may be taken before the server starts.
    """
    first = 32_768
    with suppress(OSError, ValueError):
        first = int(_RANGE.read_text().split()[0])
    if first <= _LOWEST:
        first = 65_536
    for _ in range(1_000):
        port = random.SystemRandom().randrange(_LOWEST, first)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no loopback port is free")

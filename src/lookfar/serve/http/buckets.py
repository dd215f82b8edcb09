"""Limit how often each client may do something: token buckets that fill with time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_BURST_SECONDS: Final = 2.0
"""A burst may use the requests of this many seconds at once."""
_MAX_CLIENTS: Final = 10_000


class Buckets:
    """A token bucket per client, which limits its request rate."""

    def __init__(
        self,
        per_second: float,
        burst_seconds: float = _BURST_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._rate = per_second
        self._size = max(per_second * burst_seconds, 1.0)
        self._clock = clock or time.monotonic
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token; return 0, or the seconds to wait if the bucket is empty."""
        if not self._rate:
            return 0.0
        now = self._clock()
        level, since = self._clients.pop(client, (self._size, now))
        level = min(self._size, level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._clients[client] = (level if wait else level - 1, now)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
        return wait

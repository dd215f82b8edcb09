"""A cache of recently read texts, uncompressed, because line searches read the same texts again.

It is shared by all collections of a process and bounded in bytes; the least recently used text is
dropped. Texts are keyed by their hash, so an entry is never stale.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

MOST_BYTES: Final = 64 << 20


class RecentTexts:
    """A bounded, thread-safe cache of texts."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            texts = {sha: self._texts[sha] for sha in hashes if sha in self._texts}
            for sha in texts:
                self._texts.move_to_end(sha)
        return texts

    def add(self, sha: bytes, text: bytes) -> None:
        """Add a text that was checked against its hash."""
        if len(text) > self._most // 8:
            return
        with self._lock:
            if sha in self._texts:
                return
            self._texts[sha] = text
            self._bytes += len(text)
            while self._bytes > self._most:
                _, gone = self._texts.popitem(last=False)
                self._bytes -= len(gone)


RECENT: Final = RecentTexts()

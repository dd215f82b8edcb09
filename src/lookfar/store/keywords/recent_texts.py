"""Texts that were read last, unpacked: whoever searches by line comes back for the same ones.

Takes: texts by their hashes. Gives: them again, without the disk. Refuses: to hold more than some
tens of megabytes, for all collections of a process together; what was not asked for longest goes.

A text is named by its hash, so what is here is never stale, whichever generation asks for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

MOST_BYTES: Final = 64 << 20


class RecentTexts:
    """A bounded memory of texts, for any number of threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the texts asked for that are here."""
        with self._lock:
            found = {sha: self._texts[sha] for sha in hashes if sha in self._texts}
            for sha in found:
                self._texts.move_to_end(sha)
        return found

    def add(self, sha: bytes, text: bytes) -> None:
        """Keep a text that was compared with its hash."""
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

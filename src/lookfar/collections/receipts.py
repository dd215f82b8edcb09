"""How much reading Lookfar saved: answers given, their tokens, and those of the files they cite.

Takes: a receipt for each answer. Gives: their sum, over all processes that answer from one index.
Refuses: to cost an answer anything; receipts are kept in memory and written now and then, and what
cannot be written is kept for later.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from lookfar.errors import LookfarError
from lookfar.model import Receipts
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

RECEIPTS_FILE: Final = "receipts.json"
RECEIPTS_LOCK: Final = "receipts.lock"
_SECONDS: Final = 10.0
"""Between two writes."""


class ReceiptBook:
    """The receipts of one index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unwritten = Receipts()
        self._due = time.monotonic() + _SECONDS
        self._lock = Lock()

    def add(self, tokens: int, document_tokens: int) -> None:
        """Record an answer of so many tokens from files of so many."""
        with self._lock:
            self._unwritten += Receipts(1, tokens, document_tokens)
            if time.monotonic() >= self._due:
                self._write()

    def total(self) -> Receipts:
        """All receipts, written or not."""
        with self._lock:
            return self._read() + self._unwritten

    def close(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        self._due = time.monotonic() + _SECONDS
        if not self._unwritten.answers or not self._folder.is_dir():
            return
        # A sum is a convenience: a full or read-only disk, or another writer, must not fail a call.
        with suppress(LookfarError):
            lock = files.WriterLock(self._folder / RECEIPTS_LOCK)
            lock.acquire()
            with lock:
                total = self._read() + self._unwritten
                record = {
                    "answers": total.answers,
                    "tokens": total.tokens,
                    "document_tokens": total.document_tokens,
                }
                files.write_atomic(self._folder / RECEIPTS_FILE, pack_record(record), sync=False)
                self._unwritten = Receipts()

    def _read(self) -> Receipts:
        try:
            record = unpack_record((self._folder / RECEIPTS_FILE).read_bytes())
            return Receipts(record["answers"], record["tokens"], record["document_tokens"])
        except (OSError, ValueError, KeyError):
            return Receipts()

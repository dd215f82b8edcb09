"""Count what agents ask and how long the answers are, to show how much reading was saved.

Receipts of all processes that use one index are added up. They are kept in memory and written now
and then, so that they never delay or fail an answer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import Final

from lookfar.errors import LookfarError
from lookfar.model import Receipts, SessionReceipt
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

RECEIPTS_FILE: Final = "receipts.json"
RECEIPTS_LOCK: Final = "receipts.lock"
_WRITE_SECONDS: Final = 10.0
"""Seconds between two writes."""


class ReceiptBook:
    """The receipts of one index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unwritten = Receipts()
        self._due = 0.0
        self._lock = Lock()

    def add(self, receipts: Receipts) -> None:
        with self._lock:
            self._unwritten += receipts
            if time.monotonic() >= self._due:
                self._write()

    def total(self) -> Receipts:
        """Return the sum of all receipts, written or not."""
        with self._lock:
            return self._read() + self._unwritten

    def close(self) -> None:
        """Write what is not written yet; more may be added later."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        self._due = time.monotonic() + _WRITE_SECONDS
        if self._unwritten == Receipts() or not self._folder.is_dir():
            return
        # Statistics must not fail a call, for example if the disk is full or read-only.
        with suppress(LookfarError):
            lock = files.WriterLock(self._folder / RECEIPTS_LOCK)
            lock.acquire()
            with lock:
                total = self._read() + self._unwritten
                record = pack_record(asdict(total))
                files.write_atomic(self._folder / RECEIPTS_FILE, record, sync=False)
                self._unwritten = Receipts()

    def _read(self) -> Receipts:
        try:
            record = unpack_record((self._folder / RECEIPTS_FILE).read_bytes())
            # Older versions wrote no sessions.
            sessions = tuple(SessionReceipt(**shape) for shape in record.get("sessions", ()))
            return Receipts(
                record["answers"], record["tokens"], record["document_tokens"], sessions
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Receipts()


class PassedOnReceipts(ReceiptBook):
    """The receipts of a process that leaves it to another one to record them."""

    def add(self, receipts: Receipts) -> None:
        # Calls of client sessions are counted where the clients are.
        with self._lock:
            self._unwritten += replace(receipts, sessions=())

    def take(self) -> Receipts:
        """Return and forget what was added since the last call."""
        with self._lock:
            receipts, self._unwritten = self._unwritten, Receipts()
        return receipts

    def close(self) -> None:
        """Write nothing."""

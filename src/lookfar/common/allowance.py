"""The limits for extracting the text of one file."""

from __future__ import annotations

from typing import NamedTuple


class Allowance(NamedTuple):
    """What extracting one file may cost."""

    seconds: float = 60.0
    """Processor time."""
    memory_bytes: int = 1 << 30
    """Address space of the process; on Windows and macOS its physical memory."""

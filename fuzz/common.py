"""What all fuzz targets share: one run of a target, and what is promised for every input.

Takes: a target and some bytes. Gives: nothing when all is well, and else an ``AssertionError``
that names what does not hold. Refuses: exceptions other than those a target names.

For every input: the same result twice, what the target itself checks, and no more than the
target's limit of CPU time for 64 KiB. Few inputs are that long, so a short one is stretched: its
middle part is repeated, which shows what grows faster than the text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

SIZE = 64 * 1024
"""Bytes that limits are about."""
LIMIT = 0.1
"""Seconds of CPU time for that much, unless a target says otherwise."""
MARGIN = 3.0
"""How many times slower than promised a noisy machine may be before that counts as a fault.

The nightly lane allows nothing, and takes the best of more tries.
"""
TRIES = 3

NAMES = (
    "canvas", "code", "encodings", "epub", "frontmatter", "globs", "html", "japanese",
    "mail", "markdown", "notebook", "pack", "pdf", "query", "rtf", "sheets", "slides", "subtitles",
    "wire", "word",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """One thing to fuzz."""

    work: Callable[[bytes], Any]
    """What the product does; results are compared with ``==``."""
    check: Callable[[bytes, Any], None]
    """What must hold for a result. Not called for an input that was refused."""
    refusals: tuple[type[Exception], ...] = ()
    """Exceptions by which the product may refuse an input."""
    limit: float = LIMIT
    size: int = SIZE
    """What the time is measured on, where the product refuses more than so many bytes."""
    words: tuple[str, ...] = ()
    """What a mutation may insert."""


@dataclass(frozen=True)
class Refusal:
    """The result of an input that was refused."""

    text: str


def target_of(name: str) -> Target:
    found: Target = import_module(f"fuzz.{name}").TARGET
    return found


def outcome(target: Target, data: bytes) -> Any:
    """What comes of an input; an exception that no target names goes on its way."""
    try:
        return target.work(data)
    except target.refusals as error:
        if getattr(error, "code", "") == "INTERNAL":  # Typed, too, and no refusal.
            raise AssertionError(f"an internal error: {error}") from error
        return Refusal(f"{type(error).__name__}: {error}")


def examine(target: Target, data: bytes) -> None:
    """Everything that is promised, save time."""
    result = outcome(target, data)
    assert result == outcome(target, data), "the same input gave another result"
    if not isinstance(result, Refusal):
        target.check(data, result)


def stretched(data: bytes, size: int) -> bytes:
    """The input, its middle third repeated until it has ``size`` bytes."""
    third = len(data) // 3
    head, middle, tail = data[:third], data[third : len(data) - third], data[len(data) - third :]
    if not middle or len(data) >= size:
        return data[:size]
    room = size - len(head) - len(tail)
    return head + (middle * (room // len(middle) + 1))[:room] + tail


def seconds(target: Target, data: bytes, tries: int = TRIES) -> float:
    """CPU time of one run: the least of several when the first is too long."""
    least = float("inf")
    for _ in range(tries):
        begun = time.thread_time()
        outcome(target, data)
        least = min(least, time.thread_time() - begun)
        if least <= target.limit:
            break
    return least


def examine_time(target: Target, data: bytes, margin: float = MARGIN) -> float:
    """The time for 64 KiB made of an input; an error where that is too much."""
    spent = seconds(target, stretched(data, target.size))
    assert spent <= target.limit * margin, f"{spent:.2f} s for 64 KiB made of this"
    return spent

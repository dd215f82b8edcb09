"""ULIDs: 26-character names that sort by creation time.

48 bits of time in milliseconds and 80 random bits, in Crockford's base 32. Within a process each
one is greater than the one before.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from hashlib import sha256
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUE: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
# The first digit has three bits only: 26 digits of five bits would be two too many.
_ULID: Final = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_RANDOM_BITS: Final = 80
_MOST_MILLISECONDS: Final = (1 << 48) - 1

_lock = threading.Lock()
_last = 0


def new() -> str:
    """Return a new ULID, greater than every earlier one of this process."""
    global _last
    moment = min(time.time_ns() // 1_000_000, _MOST_MILLISECONDS)
    candidate = (moment << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    with _lock:
        # Count up within a millisecond, and if the clock went back.
        _last = candidate if candidate > _last else _last + 1
        return encode(_last.to_bytes(16, "big"))


def derived(owner: str, *parts: str) -> str:
    """Return a ULID with the time of ``owner`` and a hash of ``parts``: always the same."""
    moment = decode(owner)[:6] if owner else bytes(6)
    content = "\x1f".join((owner, *parts)).encode("utf-8", "surrogatepass")
    return encode(moment + sha256(content).digest()[:10])


def is_ulid(text: str) -> bool:
    return _ULID.fullmatch(text) is not None


def encode(raw: bytes) -> str:
    number = int.from_bytes(raw, "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def decode(text: str) -> bytes:
    assert is_ulid(text)
    number = 0
    for letter in text:
        number = number << 5 | _VALUE[letter]
    return number.to_bytes(16, "big")


def moment_of(text: str) -> int:
    """Return the time in a ULID, in milliseconds since 1970."""
    return int.from_bytes(decode(text)[:6], "big")

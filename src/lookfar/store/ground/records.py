"""Small JSON files next to an index, each with its own hash.

The hash is checked on reading: JSON with a flipped bit is often still valid JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_HASH = "sha256"


def pack_record(record: Mapping[str, Any]) -> bytes:
    content = {**record, _HASH: _hash(record)}
    return json.dumps(content, indent=2, sort_keys=True).encode("utf-8")


def unpack_record(data: bytes) -> dict[str, Any]:
    """Decode a record; raise ``ValueError`` if it does not match its hash."""
    record = json.loads(data)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    expected = record.pop(_HASH, None)
    if expected != _hash(record):
        raise ValueError("its hash differs")
    return record


def _hash(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, sort_keys=True).encode("utf-8")).hexdigest()

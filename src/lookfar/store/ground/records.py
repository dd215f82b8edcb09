"""Small JSON files beside an index, with a hash in them.

Takes: an object to keep. Gives: bytes to write, and the object back. Refuses: what does not fit
its hash; a flipped bit in JSON is JSON as often as not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_HASH = "sha256"


def packed(record: Mapping[str, Any]) -> bytes:
    """A record as a file."""
    told = {**record, _HASH: _hash(record)}
    return json.dumps(told, indent=2, sort_keys=True).encode("utf-8")


def unpacked(data: bytes) -> dict[str, Any]:
    """A record from its file; ``ValueError`` where it is not what was written."""
    told = json.loads(data)
    if not isinstance(told, dict):
        raise ValueError("no object")
    known = told.pop(_HASH, None)
    if known != _hash(told):
        raise ValueError("its hash differs")
    return told


def _hash(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, sort_keys=True).encode("utf-8")).hexdigest()

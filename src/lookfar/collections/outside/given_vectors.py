"""The vectors that came with a pack, in a file next to the files of the source.

    {"dimensions": ..., "model": ..., "vectors": ...}\\n
    content name and float16 row of each
    SHA-256 of everything above

They are only for the collection of that pack: indexes of the user's own files never take them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.sources.pack_format import NAME_BYTES
from lookfar.store.ground import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from lookfar.sources.pack_format import Body, Manifest

GIVEN_FILE: Final = "vectors.bin"
_NEXT_FILE: Final = "vectors.next"
_LONGEST_HEAD: Final = 10_000
_HASH_BYTES: Final = 32
_ROWS_AT_ONCE: Final = 4_096
_LONGEST_NORM: Final = 1.01
"""Models give unit vectors, and rounding to float16 changes their length a little."""


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """Finds vectors in a file. Can be pickled; damaged or missing files have none."""

    path: Path
    model: str
    dimensions: int

    def vectors(self, contents: Collection[bytes]) -> dict[bytes, bytes]:
        rows = _load(self.path, self._stamp(), self.model, self.dimensions) if contents else {}
        return {content: rows[content] for content in contents if content in rows}

    def _stamp(self) -> tuple[int, int]:
        try:
            info = self.path.stat()
        except OSError:
            return 0, 0
        return info.st_mtime_ns, info.st_size


@lru_cache(maxsize=1)
def _load(
    path: Path,
    stamp: tuple[int, int],  # noqa: ARG001 - the cache compares it
    model: str,
    dimensions: int,
) -> dict[bytes, bytes]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    body, known = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    head, newline, _ = data[:_LONGEST_HEAD].partition(b"\n")
    if not newline or sha256(body).digest() != known:
        return {}
    record = json.loads(head)
    if (record["model"], record["dimensions"]) != (model, dimensions):
        return {}
    step = NAME_BYTES + 2 * dimensions
    return {
        body[at : at + NAME_BYTES]: body[at + NAME_BYTES : at + step]
        for at in range(len(head) + 1, len(body) - step + 1, step)
    }


def forget_given() -> None:
    """Release the memory of the vectors that were read last."""
    _load.cache_clear()


def write_given(
    folder: Path, manifest: Manifest, body: Body, refuse: Callable[[str], None]
) -> None:
    """Store the vectors of a pack beside those in use.

    ``refuse`` is called for a vector that is not finite or too long.
    """
    head = {key: getattr(manifest, key) for key in ("dimensions", "model", "vectors")}
    files.make_folder(folder)
    files.write_pieces(folder / _NEXT_FILE, _encode(head, manifest, body, refuse))


def take_over_given(folder: Path) -> None:
    """Use the vectors that were stored last. They are found by content, so they fit any files."""
    files.rename(folder / _NEXT_FILE, folder / GIVEN_FILE)


def _encode(
    head: dict[str, object], manifest: Manifest, body: Body, refuse: Callable[[str], None]
) -> Iterator[bytes]:
    import numpy as np

    total = sha256()
    line = json.dumps(head, sort_keys=True).encode("ascii") + b"\n"
    total.update(line)
    yield line
    step = NAME_BYTES + 2 * manifest.dimensions
    for piece in body.pieces(step * _ROWS_AT_ONCE):
        rows = np.frombuffer(piece, np.uint8).reshape(-1, step)[:, NAME_BYTES:]
        vectors = np.ascontiguousarray(rows).view("<f2").astype(np.float32)
        # Also false for NaN.
        if not bool((np.linalg.norm(vectors, axis=1) <= _LONGEST_NORM).all()):
            refuse("it contains invalid vectors")
        total.update(piece)
        yield piece
    yield total.digest()

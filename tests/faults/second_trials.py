"""Runs the trials of `test_second_model.py`: imports once, and forks for each of them.

Run as a program: folder, how many trials at least. It indexes a folder once; a trial takes a copy
of that index, embeds its passages in a forked child that fails at one fault point, and looks at
what is left in another. Prints one line of JSON for each trial that was bad, and one about all.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import lookfar.retrieve.search  # noqa: F401
from faults.zygote import in_child, tell
from lookfar.errors import LookfarError
from lookfar.index import embed_process
from lookfar.library import Library
from lookfar.store.vectors.quality_vectors import open_all
from points import Points

PAGES = 7
DIMENSIONS = 8
WAYS = ("kill", "short kill", "EIO", "full")
embed_process.BATCH = 2


class Hashed:
    """A second model whose vectors are the hashes of texts."""

    name = fingerprint = "hashed:1"
    dimensions = DIMENSIONS


def encode(texts: Sequence[str]) -> list[bytes | None]:
    hashes = (
        np.frombuffer(sha256(text.encode()).digest()[:DIMENSIONS], np.uint8) for text in texts
    )
    return [(values.astype(np.float32) - 127.5).astype("<f2").tobytes() for values in hashes]


def open_library(base: Path) -> Library:
    settings = {"embed.provider": "hash", "index.workers": 1}
    return Library.open(base / "root", index_dir=base / "index", settings=settings)


def embed(library: Library, acknowledged: Path | None = None) -> None:
    def note(passages: int) -> None:
        if acknowledged is not None:
            with acknowledged.open("a") as file:
                file.write(f"{passages}\n")

    store: Any = library.folder().store
    model: Any = Hashed()
    embed_process.run_quality_pass(store, model, encode=encode, on_batch=note)


def read_vectors(library: Library) -> dict[str, str]:
    """Return the vectors that a search would use, by content."""
    store: Any = library.folder().store
    with store.snapshot() as snapshot:
        rows = [row.vector for row in snapshot.list_vector_rows()]
        contents = snapshot.read_contents(rows)
    shown = {}
    for vectors in open_all(next(store.folder.glob("epoch-*"))):
        stored = vectors.rows()
        sound = vectors.find_sound(rows, stored, lambda wanted: {r: contents[r] for r in wanted})
        for row, is_sound in zip(rows, sound.tolist(), strict=True):
            if is_sound:
                shown[contents[row].hex()] = stored[row].tobytes().hex()
    return shown


def prepare(base: Path) -> int:
    with open_library(base) as library:
        return library.index().added


def complete(base: Path) -> dict[str, Any]:
    with open_library(base) as library, Points().watching() as counted:
        embed(library)
        return {"points": len(counted.seen), "vectors": read_vectors(library)}


def fail(base: Path, at: int, how: str) -> str:
    try:
        with open_library(base) as library, Points(at, how).watching():
            embed(library, base / "acknowledged")
    except LookfarError as error:
        return error.code
    return "done"


def look(base: Path) -> dict[str, Any]:
    with open_library(base) as library:
        found: dict[str, Any] = {"damage": library.verify(), "vectors": read_vectors(library)}
        found["hits"] = len(library.search("amber and birch").hits)
        embed(library)
        return {**found, "completed": read_vectors(library)}


def judge(found: dict[str, Any] | None, acknowledged: int, expected: dict[str, str]) -> str:
    if found is None or "raised" in found:
        return f"the next process failed: {found}"
    if found["damage"]:
        return f"damage: {found['damage']}"
    if not found["vectors"].items() <= expected.items():
        return "a wrong vector is used"
    if len(found["vectors"]) < acknowledged:
        return f"{acknowledged} were acknowledged, {len(found['vectors'])} are there"
    if not found["hits"] or found["completed"] != expected:
        return "it was not completed"
    return ""


def main(base: Path, least: int) -> None:
    root, index, copy = base / "root", base / "index", base / "copy"
    root.mkdir()
    for number in range(PAGES):
        text = f"# Page {number}\n\nThe amber, birch and cedar of day {number}.\n"
        (root / f"page{number}.md").write_text(text)
    assert in_child(partial(prepare, base)) == (0, PAGES)
    shutil.copytree(index, copy)
    _, whole = in_child(partial(complete, base))
    expected = whole["vectors"]
    assert len(expected) == PAGES, whole
    every = [(at, how) for at in range(1, whole["points"] + 1) for how in WAYS]
    chosen = every[:: max(1, len(every) // least)]
    bad = 0
    for at, how in chosen:
        shutil.rmtree(index)
        shutil.copytree(copy, index)
        noted = base / "acknowledged"
        noted.unlink(missing_ok=True)
        status, result = in_child(partial(fail, base, at, how))
        acknowledged = sum(map(int, noted.read_text().split())) if noted.exists() else 0
        wrong = judge(in_child(partial(look, base))[1], acknowledged, expected)
        if status not in (0, -signal.SIGKILL) or (isinstance(result, dict) and not wrong):
            wrong = f"it ended with {status}: {result}"
        if wrong:
            bad += 1
            tell({"at": at, "how": how, "wrong": wrong})
    tell({"trials": len(chosen), "points": whole["points"], "bad": bad})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

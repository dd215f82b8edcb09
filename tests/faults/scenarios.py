"""What the harnesses of this folder do to an index, step by step, and all that it then shows.

Takes: a folder to work in. Gives: three scenarios as lists of steps. A step changes the sources,
or damages the index, and then asks Lookfar for one thing; it may be asked again. Refuses: nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookfar.collections.read_documents import contains
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import IndexCorrupt
from lookfar.index import build, prepare
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.ports import Store
from lookfar.store.catalogue.erasing import has_traces
from lookfar.store.keywords.segment import Segment
from lookfar.store.keywords.signatures import sign
from lookfar.store.sqlite.store import CollectionStore

SETTINGS: Mapping[str, Any] = {
    "embed.provider": "hash",
    "index.workers": 1,
    "index.retain_generations": 3,
    "chunk.min_tokens": 0,
    "chunk.max_tokens": 60,
    "chunk.hard_max_tokens": 80,
}
WORDS = ("amber", "birch", "cedar", "delta", "ember")
DATABASE = "notes"


def page(number: int, *words: str) -> str:
    parts = (
        f"## Part {part}\n\n{word} {' '.join(words)} {number}\n"
        for part, word in zip("ab", WORDS[:2], strict=True)
    )
    return f"# Page {number}\n\nSee [[page{number + 1}]].\n\n" + "\n".join(parts)


FIRST = {f"page{number}.md": page(number, WORDS[number % 5]) for number in range(6)}
SECOND = {
    **{uri: text for uri, text in FIRST.items() if uri not in ("page1.md", "page2.md")},
    "page0.md": page(0, "ember", "delta"),  # edited
    "new.md": page(10, "cedar"),  # added
    "moved/page2.md": FIRST["page2.md"],  # renamed; page1.md is deleted
}
THIRD = {**SECOND, "page3.md": page(3, "amber", "amber"), "late.txt": "birch\n\nember\n"}


class Step(NamedTuple):
    """One thing that is asked for, on sources that are so and not otherwise."""

    name: str
    act: Callable[[Library], object]
    sources: Mapping[str, str]
    settings: Mapping[str, Any] = SETTINGS
    dimensions: int = 64
    before: Callable[[Path], object] | None = None
    """Done to the index folder first, behind the store's back."""
    gap: bool = False
    """Whether there may be no index in between."""


def index(library: Library) -> None:
    library.index(wait_seconds=5)


def in_batches(library: Library) -> None:
    """With a checkpoint after every few files."""
    kept = build._BATCH_FILES, prepare._CHECKPOINT_SECONDS, prepare._CHECKPOINT_SHARE
    build._BATCH_FILES, prepare._CHECKPOINT_SECONDS, prepare._CHECKPOINT_SHARE = 2, 0.0, 1e9
    try:
        index(library)
    finally:
        build._BATCH_FILES, prepare._CHECKPOINT_SECONDS, prepare._CHECKPOINT_SHARE = kept


def cut_vectors(folder: Path) -> None:
    for path in folder.glob("*/epoch-*/vectors.f16"):
        os.truncate(path, 70)


def spoil_catalogue(folder: Path) -> None:
    for path in folder.glob("*/epoch-*/catalogue.db"):
        with path.open("r+b") as file:
            file.seek(100)
            file.write(bytes(8092))


NAMES = {"one": "01BX5ZZKBKACTAV9WEVGEMMVS0", "two": "01BX5ZZKBKACTAV9WEVGEMMVS1"}


def insert(name: str) -> Callable[[Library], object]:
    given = {"title": name}
    return lambda library: library.database(DATABASE).insert(
        text_of(name), given, doc_id=NAMES[name]
    )


def text_of(name: str) -> str:
    return f"{name} amber birch {name}\n"


def erase(library: Library) -> None:
    database = library.database(DATABASE)
    if contains(database, NAMES["two"]):
        database.delete(NAMES["two"])
    database.writer().put([])  # The next writer finishes what was interrupted.


OTHER_CHUNKS = {**SETTINGS, "chunk.max_tokens": 20, "chunk.hard_max_tokens": 30}
SCENARIOS: Mapping[str, tuple[Step, ...]] = {
    "first": (
        Step("first index", index, FIRST, gap=True),
        Step("delete", lambda library: library.folder().delete(), FIRST, gap=True),
        Step("first index in batches", in_batches, FIRST, gap=True),
    ),
    "incremental": (
        Step("first index", index, FIRST, gap=True),
        Step("edit, add, delete, rename", index, SECOND),
        Step("edit and add", index, THIRD),
        Step("nothing changed", index, THIRD),
        Step("back", index, FIRST),
    ),
    "clean-up": (
        Step("first index", index, FIRST, gap=True),
        Step("second", index, SECOND),
        Step("third", index, THIRD),
        Step("pin", lambda library: library.pin(2), THIRD),
        Step("roll back", lambda library: library.roll_back(1), THIRD),
        Step("roll forward", lambda library: library.roll_back(3), THIRD),
        Step("roll back again", lambda library: library.roll_back(2), THIRD),
        Step("index what was rolled back", index, FIRST),
        Step("unpin", lambda library: library.unpin(2), FIRST),
        Step("prune", lambda library: library.prune(1), FIRST),
        Step("purge", index, SECOND),
        Step("other chunks", in_batches, SECOND, OTHER_CHUNKS),
        Step("other model", index, SECOND, OTHER_CHUNKS, 32),
        Step("model before", index, SECOND, OTHER_CHUNKS),
        Step("repair", index, THIRD, OTHER_CHUNKS, before=cut_vectors, gap=True),
        Step("set aside", index, THIRD, OTHER_CHUNKS, before=spoil_catalogue, gap=True),
        Step("database", lambda library: library.database(DATABASE).create(), THIRD, gap=True),
        Step("insert", insert("one"), THIRD),
        Step("insert again", insert("two"), THIRD),
        Step("erase", erase, THIRD),
        Step("delete", lambda library: library.folder().delete(), THIRD, gap=True),
    ),
}


def lay_out(root: Path, sources: Mapping[str, str]) -> None:
    """Let the sources be these, touching those only that are not."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir():
            shutil.rmtree(path) if not any(path.iterdir()) else None
        elif path.relative_to(root).as_posix() not in sources:
            path.unlink()
    for uri, text in sources.items():
        path = root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def opened(base: Path, step: Step, index_dir: str = "index") -> Library:
    settings = {**step.settings, "documents.dir": str(base / index_dir / "databases")}
    library = Library.open(base / "root", index_dir=base / index_dir, settings=settings)
    library.folder().__dict__["embedder"] = HashedEmbedder(step.dimensions)
    return library


# -- all that an index shows ---------------------------------------------------


def state(library: Library) -> dict[str, Any]:
    """Of the folder and of the database, if there is one. Nothing is freshened or healed."""
    folder = _state(library.folder().store, library.folder().embedder)
    database = library.database(DATABASE)
    shown = _state(database.store, database.embedder)
    if shown["index"] == "there" and not contains(database, NAMES["two"]):
        shown["traces"] = shown["traces"] or traces_of_two(database.store.folder)
    return {"folder": folder, "database": shown}


def traces_of_two(folder: Path) -> list[str]:
    """Return the files that contain the name of the erased document, its text or its signature."""
    text = text_of("two").encode()
    wanted = (NAMES["two"].encode(), text, zlib.compress(text), sign(text))
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [path.name for path in paths if any(part in path.read_bytes() for part in wanted)]
    segments = [path for path in paths if path.suffix == ".words"]
    return found + [path.name for path in segments if Segment(path).find_lists("two")]


def _state(store: Store, embedder: Any) -> dict[str, Any]:
    assert isinstance(store, CollectionStore)
    if not store.exists:
        return {"index": "none"}
    try:
        problems = [each.detail for each in store.verify()]
        if problems:
            return {"index": "damaged", "why": problems}
        active, kept = store.history()
        with store.snapshot() as snapshot:
            width = snapshot.vectors([]).shape[-1]
            content = _content(snapshot, embedder if embedder.dimensions == width else None)
        older = {each.number: [each.pinned, _texts(store, each.number)] for each in kept}
        return {
            "index": "there",
            "content": content,
            "active": active,
            "held": store.held(),
            "older": older,
            "traces": store._read(has_traces),
            "noted": bool(store.damage()),
        }
    except IndexCorrupt as error:
        return {"index": "damaged", "why": [error.developer]}


def _texts(store: CollectionStore, number: int) -> str:
    with store.snapshot(number) as snapshot:
        return _digest({uri: snapshot.text(uri) for uri in snapshot.uris()})


def _content(snapshot: Any, embedder: Any) -> dict[str, Any]:
    """Documents, texts, sections, chunks, spans and vectors, and answers with their scores, without
    internal numbers."""
    uris = snapshot.uris()
    uri_of = {snapshot.document(uri)["id"]: uri for uri in uris}
    chunks = {uri: snapshot.chunks(uri) for uri in uris}
    found: dict[str, Any] = {
        "texts": {uri: snapshot.text(uri) for uri in uris},
        "sections": {uri: [repr(each) for each in snapshot.sections(uri)] for uri in uris},
        "chunks": {
            uri: [(at.start, at.end, at.start_line, at.end_line, at.sha.hex()) for at in places]
            for uri, places in chunks.items()
        },
        "vectors": {
            uri: sha256(np.asarray(snapshot.vectors(places)).tobytes()).hexdigest()
            for uri, places in chunks.items()
        },
        "words": {
            word: sorted(
                (at.uri, at.start, at.end, score)
                for at, score in snapshot.keyword_search([word], {"body": 1.0}, 1000, Filters())
            )
            for word in WORDS
        },
        "pages": {
            word: sorted(
                (uri_of[document], score)
                for document, score in snapshot.page_search([word], {"page": 1.0}, 1000, Filters())
            )
            for word in WORDS
        },
    }
    if embedder is not None:
        query = embedder.embed([" ".join(WORDS)])[0]
        found["near"] = sorted(
            (round(score, 5), at.uri, at.start)
            for at, score in snapshot.vector_search(query, 1000, Filters())
        )
    return found


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


_WHOLE = ("index", "content", "active", "held", "older")


def digest(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a short form for reports: one hash for the content, one for everything."""
    parts = {}
    for name in ("folder", "database"):
        part = shown[name]
        parts[name] = {
            "index": part["index"],
            "content": _digest(part.get("content")),
            "held": part.get("held"),
            "pins": [number for number, (pinned, _) in part.get("older", {}).items() if pinned],
            "traces": part.get("traces", False),
            "noted": part.get("noted", False),
            "all": _digest({key: part.get(key) for key in _WHOLE}),
            "why": part.get("why", []),
        }
    return parts

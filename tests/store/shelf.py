"""A collection on a real disk, written and read as the indexer and the ranking do."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import lookfar.errors
from lookfar.embed.hashed import HashedEmbedder
from lookfar.index.extraction import decode_content
from lookfar.index.prepare import Prepared, Stages, embed, prepare
from lookfar.index.words import Words
from lookfar.model import Filters, Fingerprint
from lookfar.ports import CollectionSnapshot, Place, Store, Version, Writer
from lookfar.store.keywords.analyser import terms_of
from lookfar.store.sqlite.epoch import Epoch
from lookfar.store.sqlite.store import CollectionStore
from lookfar.text.chunk.headings import Sizes

SIZES = Sizes(max_tokens=60, hard_max_tokens=80, min_tokens=1, overlap_tokens=0, merge_small=False)
WEIGHTS = {"title": 0.5, "headings": 0.5, "tags": 0.5, "body": 1.0, "code": 1.0}
PAGE_WEIGHTS = {"title": 0.5, "page": 1.0}
Elsewhere = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs some lines in another process."""
SOURCE = Path(lookfar.errors.__file__).parents[1]


class Shelf:
    """One collection: ``write`` makes a generation from URIs and texts; ``None`` removes a URI."""

    def __init__(self, kept: Path | Store, retain: int = 3, fingerprint: str = "one") -> None:
        self.embedder = HashedEmbedder()
        self.store: Store = CollectionStore(kept) if isinstance(kept, Path) else kept
        self.retain = retain
        self.fingerprint = fingerprint

    @contextmanager
    def session(self, *, rebuild: bool = False, wait: float = 0.0) -> Iterator[Writer]:
        with self.store.writer(
            self.fingerprint,
            self.embedder.dimensions,
            about={"root": "/nowhere"},
            retain=self.retain,
            rebuild=rebuild,
            wait_seconds=wait,
        ) as session:
            yield session

    def version(self, uri: str, text: str, session: Writer) -> Version:
        raw = text.encode()
        prepared = prepare(
            uri,
            decode_content(raw),
            Fingerprint(len(raw), 1, 1, 1),
            settled=True,
            stages=Stages(SIZES, Words(self.embedder)),
        )
        assert isinstance(prepared, Prepared)
        embed([prepared], self.embedder, session.missing)
        return prepared.version

    def fill(self, session: Writer, texts: Mapping[str, str | None]) -> None:
        for uri, text in texts.items():
            if text is None:
                session.remove(uri)
            else:
                session.put(self.version(uri, text, session))

    def write(self, texts: Mapping[str, str | None], *, rebuild: bool = False) -> int:
        with self.session(rebuild=rebuild) as session:
            self.fill(session, texts)
            return session.activate({})

    def found(self, query: str, limit: int = 50, **filters: object) -> list[str]:
        """Return URIs by words, each as often as it has chunks in the answer."""
        with self.store.snapshot() as snapshot:
            return [place.uri for place, _ in words(snapshot, query, limit, **filters)]

    def everything(self) -> dict[str, str]:
        with self.store.snapshot() as snapshot:
            return {uri: snapshot.text(uri) or "" for uri in snapshot.uris()}


def words(
    snapshot: CollectionSnapshot, query: str, limit: int = 50, **filters: object
) -> list[tuple[Place, float]]:
    return snapshot.keyword_search(
        terms_of(query),
        WEIGHTS,
        limit,
        Filters(**filters),  # type: ignore[arg-type]
    )


def pages(
    snapshot: CollectionSnapshot, query: str, limit: int = 50, **filters: object
) -> list[tuple[int, float]]:
    return snapshot.page_search(
        terms_of(query),
        PAGE_WEIGHTS,
        limit,
        Filters(**filters),  # type: ignore[arg-type]
    )


def rows_of(shelf: Shelf, statement: str) -> list[tuple[Any, ...]]:
    """Query the catalogue of the serving epoch."""
    name = (shelf.store.folder / "CURRENT").read_text()
    with closing(sqlite3.connect(shelf.store.folder / name / "catalogue.db")) as connection:
        return connection.execute(statement).fetchall()


def change_row(shelf: Shelf, statement: str, values: Sequence[object] = ()) -> None:
    """Change a row without the store's knowledge."""
    name = (shelf.store.folder / "CURRENT").read_text()
    with closing(sqlite3.connect(shelf.store.folder / name / "catalogue.db")) as connection:
        connection.execute(statement, values)
        connection.commit()


def serving_epoch(shelf: Shelf) -> Epoch:
    assert isinstance(shelf.store, CollectionStore)
    return shelf.store._serving()


def epoch_folder(shelf: Shelf) -> Path:
    return shelf.store.folder / (shelf.store.folder / "CURRENT").read_text()


def python(code: str, *arguments: object) -> list[str]:
    """The command line of another process that can import Lookfar and these helpers."""
    here = Path(__file__).parent
    known = [str(SOURCE), str(here), str(here.parent)]
    prelude = f"import sys; sys.path[:0] = {known!r}\n"
    return [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]


_TERMS = ("crimson", "turquoise", "text", "beta")


def visible_state(shelf: Shelf) -> dict[str, object]:
    """Return what readers can observe of the active generation, without internal numbers."""
    with shelf.store.snapshot() as snapshot:
        uri_of = {snapshot.document(uri)["id"]: uri for uri in snapshot.uris()}  # type: ignore[index]
        query = shelf.embedder.embed(["crimson turquoise text"])[0]
        return {
            "texts": {uri: snapshot.text(uri) for uri in snapshot.uris()},
            "counts": snapshot.counts(),
            "words": {
                term: sorted((at.uri, at.start, at.sha) for at, _ in words(snapshot, term))
                for term in _TERMS
            },
            "pages": {
                term: sorted(uri_of[document] for document, _ in pages(snapshot, term))
                for term in _TERMS
            },
            "near": sorted(
                (round(score, 6), place.uri, place.start)
                for place, score in snapshot.vector_search(query, 50, Filters())
            ),
        }

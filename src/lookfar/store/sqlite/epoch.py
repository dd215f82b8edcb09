"""One epoch: catalogue, keywords and vectors that share a model, a chunking and a format.

Takes: a folder. Gives: snapshots to read from; writing is
:mod:`lookfar.store.sqlite.write_session`'s business. Refuses: to mix; an epoch's fingerprint never
changes, another model or chunking is another epoch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lookfar.model import (
    Counts,
    Damage,
    Failure,
    Filters,
    GenerationDiff,
    PageInfo,
    Section,
    VectorPass,
)
from lookfar.ports import (
    EVERYTHING,
    Definition,
    Edge,
    Facts,
    Keywords,
    Known,
    Lead,
    LeftOut,
    Member,
    Need,
    Place,
    Statistics,
    Streams,
    Terms,
    Version,
)
from lookfar.store.catalogue import generations, graph, journal
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.diff import diff
from lookfar.store.catalogue.erasing import has_traces
from lookfar.store.catalogue.exports import version_of
from lookfar.store.catalogue.generations import Generation
from lookfar.store.catalogue.graph import Graph
from lookfar.store.catalogue.migrations import (
    FORMAT,
    FORMAT_RECORD,
    FORMAT_WITH_NAMES,
    check,
    migrate,
)
from lookfar.store.catalogue.owners import Owners
from lookfar.store.catalogue.remembered import Remembered, State
from lookfar.store.catalogue.scope import Scope, overlaps, resolve
from lookfar.store.catalogue.seals import TABLES, seal
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, Readers, commit, connect, damaged, typed_errors
from lookfar.store.ground.sql import Connection
from lookfar.store.health.check import Watch
from lookfar.store.health.verify import OnStep, unfinished, verify
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.recent_texts import RECENT
from lookfar.store.keywords.signatures import (
    SIGNATURES,
    Documents,
    SignatureFile,
    Signed,
    signed_texts,
)
from lookfar.store.keywords.tantivy_index import KEYWORDS, KeywordIndex, KeywordView
from lookfar.store.vectors.vector_file import COARSE_ABOVE, VECTORS, VectorFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

_FEW_DOCUMENTS = 0.05
_ALWAYS_LISTED = 500
"""Documents that are named to the search, however large a part of the collection they are."""
_MOST_DOCUMENTS = 0.5
"""The share from which it is quicker to skip what is not admitted than to mark what is."""
_SPARE = 1.3
_MOST_AT_FIRST = 5_000
_MOST_LISTED = 5_000
_APART = 4
"""Terms that a name may put between two words."""
_MOST_READ = 500
_MOST_SIGNED = 2_000
"""Documents without a signature that a write session gives one, so that an edit stays quick."""
_MOST_SEGMENTS = 1_000
_SPARE_ROWS = 1_000


class Epoch(Remembered):
    """The artefacts of one epoch, opened."""

    def __init__(
        self, folder: Path, coarse_above: int = COARSE_ABOVE, *, only_copy: bool = False
    ) -> None:
        """Of more than ``coarse_above`` vectors a coarse pass chooses what to score; 0: never.
        An epoch that is the ``only_copy`` of its documents is checked before it answers, and
        keeps a journal of them."""
        super().__init__()
        self.folder = folder
        self.catalogue = folder / CATALOGUE
        self._readers = Readers(self.catalogue)
        # Before they are opened: what is replaced in between shows later.
        self._opened = self._files()
        try:
            self.fingerprint, dimensions, version = self._identity()
            self.keywords = KeywordIndex(folder / KEYWORDS, older=version < FORMAT)
        except BaseException:
            self._readers.close()
            raise
        self.vectors = VectorFile(folder / VECTORS, dimensions, coarse_above)
        self.signatures = SignatureFile(folder / SIGNATURES)
        self._owners = Owners()
        self.journal = folder / journal.JOURNAL if only_copy else None
        self._watch = Watch(self.catalogue, self.vectors) if only_copy else None

    @contextmanager
    def _borrow(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading; refused where the only copy is not as it was written."""
        with self._readers.borrow() as connection:
            if self._watch is not None:
                self._watch.check(connection)
            yield connection

    def check_before_writing(self, connection: sqlite3.Connection) -> None:
        """Refuse to write beside damage, where there is no other copy of what is there."""
        if self._watch is not None:
            self._watch.check(connection)
            self._watch.check_texts(connection)

    def check_version(self, connection: Connection, document: int) -> None:
        """Refuse a version that is shown from the only copy and is not as it was written."""
        if self._watch is not None:
            self._watch.check_version(connection, document)

    def _files(self) -> list[tuple[int, int]] | None:
        """What the disk calls its files; ``None`` where one is not there."""
        try:
            found = [os.stat(self.folder / name) for name in (CATALOGUE, KEYWORDS, VECTORS)]
        except OSError:
            return None
        return [(each.st_dev, each.st_ino) for each in found]

    @property
    def replaced(self) -> bool:
        """Whether others have taken the places of its files: a repair in another process, or an
        index that was deleted and made again."""
        now = self._files()
        return now is not None and now != self._opened

    def _identity(self) -> tuple[str, int, int]:
        with self._readers.borrow() as connection:
            version = check(connection)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get(FORMAT_RECORD, str(version)) != str(version):
            said = meta[FORMAT_RECORD]
            raise damaged(self.catalogue, f"its header says format {version}, and meta {said}")
        try:
            return meta["fingerprint"], int(meta["dimensions"]), version
        except (KeyError, ValueError) as error:
            raise damaged(self.catalogue, f"meta: {type(error).__name__}: {error}") from error

    @classmethod
    def create(
        cls, folder: Path, fingerprint: str, dimensions: int, *, model: str = "", after: int = 0,
        coarse_above: int = COARSE_ABOVE, only_copy: bool = False,
    ) -> Epoch:  # fmt: skip
        """An empty epoch, which nobody sees before the collection points at it.

        ``after`` is the generation that the first one here follows: numbers only grow.
        """
        files.make_folder(folder, sync=False)  # Activation and publication sync all of it.
        path = folder / CATALOGUE
        with typed_errors(path), closing(connect(path, write=True)) as connection:
            files.point("commit", path.name)
            migrate(connection)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [
                    ("fingerprint", fingerprint),
                    ("dimensions", str(dimensions)),
                    (catalog.MODEL, model),
                    (generations.ACTIVE, str(after)),
                    (FORMAT_RECORD, str(FORMAT)),
                ],
            )
            seal(connection, *TABLES)
            commit(connection)
        KeywordIndex(folder / KEYWORDS, create=True)
        VectorFile(folder / VECTORS, dimensions).create()
        if only_copy:
            journal.create(folder / journal.JOURNAL)
        return cls(folder, coarse_above, only_copy=only_copy)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        """One generation with all three artefacts pinned: whatever is activated, purged or
        even removed meanwhile does not show in it."""
        with self._borrow() as connection:
            view = self._pinned_keywords(connection)
            wanted = generations.resolve(connection, generation)
            rows = self.vectors.rows(catalog.vector_rows(connection))
            yield EpochSnapshot(self, connection, view, rows, wanted)

    def _pinned_keywords(self, connection: sqlite3.Connection) -> KeywordView:
        """The keywords of the state that ``connection`` has begun to read, or one commit ahead.

        What one commit adds, this catalogue does not know and skips; what it drops, this
        catalogue has purged. Two commits ahead could lack what the snapshot still shows, so
        the view is taken before the catalogue's state, and both again when it was too old.
        """
        while True:
            view, recorded = self.keywords.view, catalog.keywords_stamp(connection)
            if view.stamp >= recorded:
                return view
            connection.execute("COMMIT")
            self.keywords.reload()
            if self.keywords.view.stamp < recorded:  # It was durable before that was recorded.
                raise damaged(self.folder / KEYWORDS, "the keywords are behind the catalogue")
            connection.execute("BEGIN")

    def allowed_rows(self, connection: Connection, scope: Scope, count: int) -> NDArray[np.bool_]:
        """Which of the first ``count`` vectors belong to documents that a scope admits."""
        return self._owners.rows_of(connection, scope.documents, count)

    def generations(self) -> list[Generation]:
        with self._borrow() as connection:
            return generations.listed(connection)

    def highest(self) -> int:
        with self._borrow() as connection:
            return generations.highest(connection)

    def held(self) -> int | None:
        with self._borrow() as connection:
            return generations.held(connection)

    def refuse_held(self) -> None:
        with self._borrow() as connection:
            generations.refuse_held(connection)

    def history(self) -> tuple[int, list[Generation]]:
        """The active number and all that are kept, of one moment."""
        with self._borrow() as connection:
            return generations.active(connection), generations.listed(connection)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        with self._borrow() as connection:
            return diff(connection, *(generations.resolve(connection, n) for n in (older, newer)))

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the list of generations, for the holder of the writer lock."""
        with (
            typed_errors(self.catalogue),
            closing(connect(self.catalogue, write=True)) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            seal(connection)
            commit(connection)

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        with self._readers.borrow() as connection:
            view = self._pinned_keywords(connection)
            keywords = self.folder / KEYWORDS
            return verify(connection, self.vectors, keywords, view, on_step, self.journal)

    def tend_signatures(self, connection: Connection) -> None:
        """Give some documents that lack a signature one, and write the file anew where most of
        it is of documents that are gone; for the holder of the writer lock."""
        known = catalog.document_count_of_all(connection)
        rows, segments = self.signatures.size()
        if known <= rows <= 2 * known + _SPARE_ROWS and segments <= _MOST_SEGMENTS:
            return
        signed, lacking = self._signed(connection)
        signed += signed_texts(connection, lacking[:_MOST_SIGNED])
        self.signatures.rewrite(signed)

    def _signed(self, connection: Connection) -> tuple[list[Signed], list[int]]:
        """All sound signatures of documents that are kept, and the documents that lack one."""
        kept = catalog.text_hashes(connection)
        documents = self.signatures.documents(list(kept), kept.values())
        signed = self.signatures.signatures(documents, list(kept.values()))
        have = {each.document for each in signed}
        return signed, [number for number in kept if number not in have]

    def renew_signatures(self, connection: Connection) -> None:
        """Write the file anew, of the documents that are kept and of nothing else; the caller
        syncs the folder."""
        signed, lacking = self._signed(connection)
        self.signatures.rewrite([*signed, *signed_texts(connection, lacking)])

    def has_traces(self) -> bool:
        """Whether something was erased whose bytes may still lie in the files."""
        with self._borrow() as connection:
            return has_traces(connection)

    def checkpointed(self) -> bool:
        """Whether an unfinished build left something to go on from."""
        with self._readers.borrow() as connection:
            return catalog.high_marks(connection).document > 0

    def continues(self, fingerprint: str, dimensions: int, model: str, after: int) -> bool:
        """Whether a build of this recipe may go on from the checkpoint found here: it is

        of the same recipe, follows the same generation, and all that it names is sound.
        """
        if (self.fingerprint, self.vectors.dimensions) != (fingerprint, dimensions):
            return False
        with self._readers.borrow() as connection:
            if catalog.model_of(connection) != model or not catalog.high_marks(connection).document:
                return False
            view = self.keywords.view
            behind = view.stamp < catalog.keywords_stamp(connection)
            if behind or not generations.never_served(connection, after):
                return False
            return not unfinished(connection, self.vectors, self.folder / KEYWORDS, view)

    def close(self) -> None:
        self._readers.close()


class EpochSnapshot:
    """One generation of one epoch, read inside one SQLite snapshot."""

    def __init__(
        self,
        epoch: Epoch,
        connection: Connection,
        keywords: Keywords,
        rows: NDArray[np.float16],
        generation: int,
    ) -> None:
        self._epoch = epoch
        self._connection = connection
        self._keywords = keywords
        self._rows = rows
        self._manifest: Mapping[str, Any] | None = None
        self._moves: int | None = None
        self.generation = generation

    def keyword_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        scope = self._scope(filters)
        listed = self._listed(scope)
        fetch = self._enough(limit, scope, listed)
        while True:
            hits = self._keywords.search(terms, weights, fetch, listed)
            alive = catalog.places_by_key(
                self._connection, [key for key, _ in hits], self.generation
            )
            kept = [
                (alive[key], score)
                for key, score in hits
                if key in alive and (scope is None or scope.admits(alive[key]))
            ]
            if len(kept) >= limit or len(hits) < fetch:
                return kept[:limit]
            fetch *= 4

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        filters: Filters,
    ) -> list[tuple[Place, float]]:
        """One chunk of each named live document: the best by words, else the first."""
        scope = self._scope(filters)
        admits = None if scope is None else scope.admits_words
        best = dict(self._keywords.best_of_each(terms, weights, documents, admits))
        places = list(catalog.places_by_key(self._connection, list(best), self.generation).values())
        bare = set(documents).difference(place.document for place in places)
        places += catalog.first_places(self._connection, sorted(bare), self.generation)
        return [
            (place, best.get(place.key, 0.0))
            for place in places
            if scope is None or scope.admits(place)
        ]

    def page_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]:
        """Live documents by their whole text, best first."""
        scope = self._scope(filters)
        listed = self._listed(scope)
        fetch = self._enough(limit, scope, listed)
        while True:
            hits = self._keywords.search_pages(terms, weights, fetch, listed)
            alive = (
                scope.documents
                if scope is not None
                else catalog.live_among(
                    self._connection, [document for document, _ in hits], self.generation
                )
            )
            kept = [hit for hit in hits if hit[0] in alive]
            if len(kept) >= limit or len(hits) < fetch:
                return kept[:limit]
            fetch *= 4

    def page_scores(
        self, terms: Terms, weights: Mapping[str, float], documents: Sequence[int]
    ) -> dict[int, float]:
        """The whole-text score of each named document that has one."""
        return dict(self._keywords.search_pages(terms, weights, len(documents), documents))

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        if query.ndim == 2:
            # Each model puts forward its own; of the other's texts it can say nothing, which is 0.
            found = [hit for row in query for hit in self.vector_search(row, limit, filters)]
            return sorted((hit for hit in found if hit[1]), key=lambda hit: -hit[1])
        scope = self._scope(filters)
        listed = self._listed(scope)
        among = None if listed is None else self._vector_rows(listed)
        allowed = None
        most = self._known_documents() * _MOST_DOCUMENTS
        if scope is not None and among is None and len(scope.documents) < most:
            allowed = self._epoch.allowed_rows(self._connection, scope, len(self._rows))
        fetch = self._enough(limit, scope, listed) if allowed is None else limit
        while True:
            rows, scores = self._epoch.vectors.nearest(query, self._rows, fetch, among, allowed)
            alive = catalog.places_by_vector(self._connection, rows.tolist(), self.generation)
            kept = [
                (place, float(score))
                for row, score in zip(rows.tolist(), scores, strict=True)
                for place in alive.get(row, ())
                if scope is None or scope.admits(place)
            ]
            if len(kept) >= limit or len(rows) < fetch:
                return kept[:limit]
            fetch *= 4

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        """Similarity of each place; 0 for one without a vector."""
        rows = [place.vector for place in places if place.vector is not None]
        # A passage has numbers for one model alone: the sum is what that one says.
        summed = query if query.ndim == 1 else query.sum(axis=0)
        found = iter(self._epoch.vectors.scores(summed, self._rows, rows).tolist())
        return [0.0 if place.vector is None else next(found) for place in places]

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        """One row for each place; zeros for one without a vector."""
        having = [at for at, place in enumerate(places) if place.vector is not None]
        rows = [place.vector for place in places if place.vector is not None]
        found = np.zeros((len(places), self._epoch.vectors.dimensions), dtype=np.float32)
        found[having] = self._epoch.vectors.chosen(self._rows, rows)
        return found

    def _scope(self, filters: Filters) -> Scope | None:
        if not filters:
            return None
        return self._epoch.scope(self._state(), filters, self._resolved)

    def _state(self) -> State:
        if self._moves is None:
            self._moves = catalog.moves(self._connection)
        return State(self.generation, self._moves)

    def _resolved(self, filters: Filters) -> Scope:
        if not filters.phrases and not filters.without:
            return resolve(self._connection, self.generation, filters)
        scope = resolve(self._connection, self.generation, replace(filters, phrases=(), without=()))
        without = frozenset(key for each in filters.without for key in self._holding(each))
        if not filters.phrases:
            return replace(scope, without=without)
        only = frozenset.intersection(
            *(frozenset(self._holding(phrase)) for phrase in filters.phrases)
        )
        held = catalog.places_by_key(self._connection, sorted(only), self.generation)
        documents = scope.documents.intersection(place.document for place in held.values())
        return replace(scope, documents=documents, only=only, without=without)

    def holding(self, phrase: str, filters: Filters) -> list[int]:
        """The admitted chunks that hold these words beside each other, in whatever form."""
        scope = self._scope(filters)
        held = catalog.places_by_key(self._connection, self._holding(phrase), self.generation)
        return [key for key, place in held.items() if scope is None or scope.admits(place)]

    def _holding(self, phrase: str) -> list[int]:
        """``WebAssembly`` is more terms than ``webassembly``: where they may be parts of such a
        name, words that stand a little apart in the index are looked up in the text."""
        terms = analyse(phrase).split()
        found = self._keywords.holding(terms) if terms else []
        plain = analyse(phrase.lower())
        count = plain.count(" ")
        if not count or len(phrase.split()) == 1:
            return found
        apart = sorted(
            set(self._keywords.holding(plain.split(), _APART * count)).difference(found)
        )[:_MOST_READ]
        texts: dict[str, str] = {}
        for key, place in catalog.places_by_key(self._connection, apart, self.generation).items():
            if place.uri not in texts:
                texts[place.uri] = self.text(place.uri) or ""
            text = texts[place.uri][place.start : place.end]
            said = (analyse(each.lower()) for each in (*place.path, text))
            if any(f" {plain} " in f" {each} " for each in said):
                found.append(key)
        return found

    def few_holding(self, phrase: str, most: int, filters: Filters) -> list[Place] | None:
        terms = analyse(phrase).split()
        keys = self._keywords.holding(terms, most=most + 1) if terms else []
        if len(keys) > most:
            return None
        scope = self._scope(filters)
        held = catalog.places_by_key(self._connection, keys, self.generation).values()
        return [place for place in held if scope is None or scope.admits(place)]

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], places: Sequence[Place]
    ) -> dict[int, int]:
        return self._keywords.adjoining(pairs, _keys(places))

    def wording(
        self, groups: Sequence[Mapping[str, float]], places: Sequence[Place]
    ) -> dict[int, float]:
        return self._keywords.wording(groups, _keys(places))

    def kept(self, name: str, make: Callable[[], T]) -> T:
        return self._epoch.kept(self._state(), name, make)

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        return self._keywords.vocabulary(prefix, most)

    def _listed(self, scope: Scope | None) -> list[int] | None:
        """The admitted documents, if naming them is cheaper than skipping all others."""
        if scope is None or len(scope.documents) > _MOST_LISTED:
            return None
        few = max(_ALWAYS_LISTED, self._known_documents() * _FEW_DOCUMENTS)
        return sorted(scope.documents) if len(scope.documents) <= few else None

    def _known_documents(self) -> int:
        return catalog.highest_document(self._connection)

    def _enough(self, limit: int, scope: Scope | None, listed: list[int] | None) -> int:
        """How many to fetch, so that as many as asked for are likely left of them."""
        if scope is None or listed is not None:
            return limit
        share = len(scope.documents) / max(1, self._known_documents())
        return min(round(limit * _SPARE / max(share, 1e-9)), max(limit, _MOST_AT_FIRST))

    def _vector_rows(self, documents: Sequence[int]) -> NDArray[np.intp]:
        rows: set[int] = set()
        for some in catalog.batches(documents):
            found = self._connection.execute(
                "SELECT vector FROM chunks WHERE vector IS NOT NULL AND document IN"
                f" ({catalog.marks(some)})",
                some,
            )
            rows.update(row for (row,) in found)
        return np.array(sorted(rows), dtype=np.intp)

    def statistics(self, terms: Sequence[str]) -> Statistics:
        return self._keywords.statistics(terms)

    def score_with(self, shared: Statistics) -> None:
        self._keywords = self._keywords.scored_with(shared)

    def knows(self, term: str) -> bool:
        """Whether any text, title or path holds this term."""
        return self._keywords.knows(term)

    def has_code_in(self, language: str) -> bool:
        """Whether there is source code in this language; to say no, every document is looked at."""
        return self.kept(
            f"code in {language}",
            lambda: catalog.has_code_in(self._connection, self.generation, language),
        )

    def ending_in(self, path: str, filters: Filters) -> list[Place]:
        """The first chunk of documents whose URI ends in ``path``, if those are few."""
        scope = self._scope(filters)
        found = catalog.documents_ending_in(self._connection, self.generation, path)
        places = catalog.first_places(self._connection, found, self.generation)
        return [place for place in places if scope is None or scope.admits(place)]

    def uris(self, prefix: str = "") -> list[str]:
        return catalog.uris(self._connection, self.generation, prefix)

    def titles(self, prefix: str = "") -> list[tuple[str, str]]:
        return catalog.titles(self._connection, self.generation, prefix)

    def document(self, uri: str) -> dict[str, Any] | None:
        found = catalog.live_document(self._connection, uri, self.generation)
        if found is not None:
            self._epoch.check_version(self._connection, found["id"])
        return found

    def pages(self) -> list[PageInfo]:
        """Every document that has text, by URI."""
        return catalog.pages(self._connection, self.generation)

    def chunks(self, uri: str) -> list[Place]:
        """The chunks of a document, in order."""
        found = self.document(uri)
        return catalog.neighbours(self._connection, found["id"], 0, catalog.END) if found else []

    def admitted(self, uri: str, filters: Filters) -> list[Place]:
        scope = self._scope(filters)
        return [each for each in self.chunks(uri) if scope is None or scope.admits(each)]

    def sections(self, uri: str) -> list[Section]:
        found = self.document(uri)
        return catalog.sections(self._connection, found["id"]) if found else []

    def model(self) -> str:
        """The fingerprint of the model that made its vectors; empty where there is none."""
        return catalog.model_of(self._connection)

    def version(self, uri: str) -> Version | None:
        """A document as it could be given to another store, but for its terms."""

        def numbers(places: Sequence[Place]) -> list[bytes]:
            return [row.astype("<f2").tobytes() for row in self.vectors(places)]

        return version_of(self._connection, self.generation, uri, numbers)

    def streams(self, uri: str) -> Streams | None:  # noqa: ARG002
        """The terms of a document where they are kept; here they are in no order any more."""
        return None

    def text(self, uri: str) -> str | None:
        found = self.document(uri)
        return catalog.text(self._connection, found["text_sha"]) if found else None

    def documents_with(self, need: Need, filters: Filters) -> list[int]:
        """The admitted documents that may hold what is needed, in order; those that do are
        among them."""
        scope = self._scope(filters)
        admitted = None if scope is None else sorted(scope.documents)
        if need != EVERYTHING and admitted != []:
            return self._narrowed(need, admitted)
        return admitted if admitted is not None else self._every_document()

    def _every_document(self) -> list[int]:
        return list(self.kept("hashes", self._hashes))

    def _narrowed(self, need: Need, admitted: list[int] | None) -> list[int]:
        """Those of the admitted documents, or of all, whose signature does not rule them out."""
        known = self.kept("signatures", self._signatures)
        among = None if admitted is None else np.array(admitted, dtype=np.int64)
        numbers: list[int] = known.holding(need, among).tolist()
        return numbers

    def _hashes(self) -> dict[int, bytes]:
        return catalog.text_hashes(self._connection, self.generation)

    def _signatures(self) -> Documents:
        hashes = self.kept("hashes", self._hashes)
        return self._epoch.signatures.documents(list(hashes), hashes.values())

    def texts(self, documents: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The normalised texts of these documents as UTF-8, in any order."""
        hashes = self.kept("hashes", self._hashes)
        recent = RECENT.known(hashes[each] for each in documents if each in hashes)
        lacking = []
        for document in documents:
            text = recent.get(hashes.get(document, b""))
            if text is None:
                lacking.append(document)
            else:
                yield document, text
        for document, text in catalog.texts(self._connection, lacking):
            if document in hashes:
                RECENT.add(hashes[document], text)
            yield document, text

    def admitted_parts(self, document: int, filters: Filters) -> list[tuple[int, int]] | None:
        """The parts of an admitted document that pass the filters; None for all of it."""
        scope = self._scope(filters)
        if scope is None:
            return None
        parts = scope.parts(document)
        if scope.only is None and not scope.without:
            return parts
        chunks = catalog.neighbours(self._connection, document, 0, catalog.END)
        held = [(each.start, each.end) for each in chunks if scope.admits_words(each.key)]
        return held if parts is None else overlaps(parts, held)

    def definitions(self, documents: Sequence[int]) -> dict[int, list[Definition]]:
        return catalog.definitions(self._connection, documents)

    def defining(self, name: str) -> list[tuple[str, Section]]:
        return catalog.defining(self._connection, self.generation, name)

    def neighbours(self, document: int, first: int, last: int) -> list[Place]:
        return catalog.neighbours(self._connection, document, first, last)

    def links_from(self, uri: str, start: int = 0, end: int | None = None) -> list[Edge]:
        """The links that a document has in this part of it, in order."""
        graph.refuse_older(self._connection)
        found = self.document(uri)
        if found is None:
            return []
        last = catalog.END if end is None else end
        return graph.links_from(self._connection, self.generation, found["id"], start, last)

    def targets(self, uri: str = "") -> list[str]:
        """What links are written to lead to, each once: those of a document, in their order,
        or all."""
        if not uri:
            return catalog.targets(self._connection)
        found = self.document(uri)
        return catalog.targets(self._connection, found["id"]) if found else []

    def linking(self, targets: Sequence[str], text: str = "") -> list[tuple[str, str, int]]:
        """The documents with a link written so, the latest first: URI, title and time; with
        ``text`` only those whose link reads so."""
        return catalog.linking(self._connection, self.generation, targets, text)

    def links_named(self, names: Iterable[str]) -> list[tuple[str, Edge]]:
        """The links that look for one of these names, wherever what they mean may be."""
        graph.refuse_older(self._connection)
        return graph.links_named(self._connection, self.generation, names)

    def meant(
        self, links: Iterable[tuple[str, str, str]], absent: str = ""
    ) -> dict[tuple[str, str, str], tuple[str, str]]:
        """URI and title of what links of another collection (name, kind, target) mean here."""
        graph.refuse_older(self._connection)
        return graph.meant(self._connection, self.generation, links, absent)

    def links_to(self, uri: str) -> list[Edge]:
        """The links of other documents that mean this one, by URI and place."""
        graph.refuse_older(self._connection)
        found = self.document(uri)
        return graph.links_to(self._connection, self.generation, found["id"]) if found else []

    def community(self, uri: str) -> list[Member]:
        """The other documents of its community, the closest first."""
        graph.refuse_older(self._connection)
        return self._epoch.graph(self._connection, self.generation).around(uri)

    def leads(self, documents: Sequence[int], among: Collection[int] | None = None) -> list[Lead]:
        """The links of these documents that mean others: any, or those ``among`` some."""
        # An older index answers while a new one is built beside it.
        if check(self._connection) < FORMAT_WITH_NAMES:
            return []
        return graph.leads(self._connection, self.generation, documents, among)

    def communities(self, uris: Collection[str]) -> dict[str, int]:
        """The community of each of these documents that has links."""
        if check(self._connection) < FORMAT_WITH_NAMES:
            return {}
        stored = graph.stored_communities(self._connection, self.generation, uris)
        if stored is not None:
            return stored
        return self._epoch.graph(self._connection, self.generation).communities_of(uris)

    def modified(self, documents: Sequence[int]) -> dict[int, int]:
        """When the disk says that each was changed, in nanoseconds since 1970."""
        return catalog.modified(self._connection, documents)

    def centre(
        self, uri: str, start: int = 0, end: int | None = None
    ) -> NDArray[np.float32] | None:
        """The mean direction of the chunks that touch this part; ``None`` without vectors."""
        found = self.document(uri)
        if found is None:
            return None
        wanted = catalog.vectors_between(self._connection, found["id"], start, end)
        return self._epoch.vectors.mean(self._rows, wanted)

    def vector_pass(self) -> VectorPass:
        """How the nearest vectors are found, and how well."""
        return self._epoch.vectors.told(len(self._rows), catalog.recall(self._connection))

    @property
    def dimensions(self) -> int:
        """How long its vectors are."""
        return self._epoch.vectors.dimensions

    def facts(self, documents: Sequence[int] | None = None) -> list[Facts]:
        """What these documents are called and belong to; without, all that are alive."""
        return catalog.facts(self._connection, self.generation, documents)

    def admitting(self, filters: Filters) -> list[Facts]:
        """The documents that filters admit; with words that must not occur, those without any."""
        found = self.kept("listed", self.facts)
        scope = self._scope(filters)
        if scope is None:
            return found
        refused = catalog.places_by_key(self._connection, sorted(scope.without), self.generation)
        admitted = scope.documents.difference(place.document for place in refused.values())
        return [facts for facts in found if facts.document in admitted]

    def line_counts(self, documents: Sequence[int]) -> dict[int, int]:
        return catalog.line_counts(self._connection, documents)

    def graph(self) -> Graph:
        """All live documents with their neighbours and communities."""
        graph.refuse_older(self._connection)
        return self._epoch.graph(self._connection, self.generation)

    def size(self) -> int:
        """How many documents are alive."""
        return catalog.document_count(self._connection, self.generation)

    def counts(self) -> Counts:
        """What it holds, as recorded: to count a million rows takes seconds."""
        told = self.manifest()
        if Counts.__annotations__.keys() <= told.keys():
            return Counts(**{name: told[name] for name in Counts.__annotations__})
        return catalog.counts(self._connection, self.generation)

    def held(self) -> int | None:
        """The generation that a roll-back holds the collection at, in this state of it."""
        return generations.held(self._connection)

    def manifest(self) -> Mapping[str, Any]:
        """What was recorded of this generation when it was activated."""
        if self._manifest is None:
            self._manifest = generations.manifest(self._connection, self.generation)
        return self._manifest

    def failures(self) -> list[Failure]:
        return catalog.failures(self._connection)

    def known(self) -> dict[str, Known]:
        return catalog.known(self._connection, self.generation)

    def left_out(self) -> dict[str, LeftOut]:
        return catalog.left_out(self._connection)

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        return catalog.unembedded(self._connection, contents)


def _keys(places: Sequence[Place]) -> list[int]:
    """Of chunks; a place that is only a part of one has none in the index."""
    return [place.key for place in places if place.key >= 0]

"""Save the documents of a damaged epoch that is their only copy.

Every live document with a copy that matches its hash is returned, from the journal or the
catalogue; the URIs of the others are reported. Nothing that is read is changed.

One broken page must not cost the rows of others, so rows are read one by one, by numbers collected
from every table and index that has them.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from lookfar.errors import LookfarError
from lookfar.ports import Digest, StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.journal import JOURNAL, Log, find_last_commit
from lookfar.store.catalogue.seals import broken_tables, broken_version
from lookfar.store.ground.database import CATALOGUE, connect, connect_ignoring_log

_MOST_TRIED = 1_000_000
"""How many version numbers to try one by one where no table lists them."""
_UNREADABLE = (sqlite3.Error, LookfarError, UnicodeDecodeError, TypeError, ValueError)

Fits = Callable[[StoredDocument, bytes], bool]


class Rescue:
    """The intact documents of damaged epochs, newest first; counts are final once all were read."""

    def __init__(self, folders: Sequence[Path], digest: Digest) -> None:
        self._digest = digest
        self.saved = 0
        self.lost: set[str] = set()
        """URIs of documents without an intact copy, as far as they are known."""
        self.expected = 0
        """How many documents the serving generation recorded; 0 where that is unreadable."""
        self.highest = 0
        """The newest known generation."""
        self.complete = False
        """Whether one copy lists all documents, even if there are none."""
        self._folders = folders
        for folder in folders:
            with _open_damaged(folder) as catalogue:
                number, documents = catalogue.read_counts()
                committed = Log(folder / JOURNAL, rewritten=True).committed
                self.highest = max(self.highest, number, committed)
                self.expected = self.expected or documents

    @property
    def missing(self) -> int:
        """How many documents could not be saved."""
        return max(len(self.lost), self.expected - self.saved)

    def fits(self, document: StoredDocument, raw_sha: bytes) -> bool:
        """Return whether a document is what was given when it was inserted."""
        return self._digest(document) == raw_sha

    def documents(self) -> Iterator[StoredDocument]:
        """Yield the newest intact copy of each document."""
        seen: set[str] = set()
        named: set[str] = set()
        for folder in self._folders:
            with _open_damaged(folder) as catalogue:
                number, log, committed = catalogue.compare(folder / JOURNAL)
                intact = bool(log.committed) and not log.gaps
                # An intact log has everything of its time: what else is older was deleted by then.
                after = committed if intact else -1
                live = catalogue.live_documents(self.fits, seen, named, after)
                only = catalogue.list_live(number) if number > committed else None
                if 0 < number < committed and intact:
                    self.expected = len(log.uris)
                self.complete = intact or only is not None
                logged = _read_log(log, seen, only)
                newest_first = (live, logged) if self.complete else (logged, live)
                # What is newer than a complete log may have been inserted again.
                erased = set() if self.complete else log.erased
                for document in chain(*newest_first):
                    if document.uri not in seen and document.uri not in erased:
                        seen.add(document.uri)
                        self.saved += 1
                        yield document
                # What was erased here must not come back from an older epoch.
                named -= erased
                seen |= erased
                if self.complete:
                    break
        self.lost = named - seen


def _read_log(log: Log, seen: set[str], only: set[str] | None) -> Iterator[StoredDocument]:
    for uri in sorted(log.uris if only is None else only.intersection(log.uris)):
        entry = log.entry(uri) if uri not in seen else None
        if entry is None:
            continue
        with suppress(*_UNREADABLE):
            yield StoredDocument(
                uri,
                entry.metadata,
                catalog.decompress_text(entry.text_sha, entry.body).decode("utf-8"),
            )


@contextmanager
def _open_damaged(folder: Path) -> Iterator[_Catalogue]:
    path = folder / CATALOGUE
    with ExitStack() as stack:
        connection = None
        with suppress(*_UNREADABLE):
            connection = connect(path, write=False) if path.is_file() else None
        behind = connection is None
        if behind and path.is_file():
            # Without the broken log, the database shows the state before it.
            with suppress(*_UNREADABLE):
                connection = connect_ignoring_log(path)
        if connection is not None:
            stack.enter_context(closing(connection))
        yield _Catalogue(connection, behind)


class _Catalogue:
    """A catalogue that may be damaged anywhere: what cannot be read counts as absent."""

    def __init__(self, connection: sqlite3.Connection | None, behind: bool) -> None:
        """``behind`` means opened without its log: what was committed last is not visible."""
        self._connection = connection
        self._behind = behind
        self._texts: dict[bytes, int] | None = None

    def read_counts(self) -> tuple[int, int]:
        """Return the newest generation, and how many documents the serving one recorded."""
        if self._behind or not self._is_sealed():
            rows = self._rows("SELECT max(number) FROM generations")
            return max((number or 0 for (number,) in rows), default=0), 0
        assert self._connection is not None
        number = generations.active(self._connection)
        documents = generations.manifest(self._connection, number).get("documents", 0)
        return generations.highest(self._connection), int(documents)

    def compare(self, path: Path) -> tuple[int, Log, int]:
        """Return the serving generation, the journal up to its last commit, and the newest
        generation that the journal proves; what is unknown is 0, or read to the end."""
        if not self._is_sealed():
            log = Log(path, rewritten=True)
            return 0, log, log.committed
        assert self._connection is not None
        number = generations.active(self._connection)
        committed, end = find_last_commit(path, self._connection)
        known = committed >= number and not self._behind
        return number, Log(path, end if known else None, rewritten=True), committed

    def list_live(self, number: int) -> set[str] | None:
        """Return the documents of the serving generation; ``None`` if not all are readable."""
        assert self._connection is not None
        live = {uri for (uri,) in self._rows("SELECT uri FROM documents WHERE died IS NULL")}
        recorded = generations.manifest(self._connection, number).get("documents")
        return live if len(live) == recorded else None

    def _is_sealed(self) -> bool:
        if self._connection is None:
            return False
        with suppress(*_UNREADABLE):
            return not {"meta", "generations"}.intersection(broken_tables(self._connection))
        return False

    def live_documents(
        self, fits: Fits, seen: set[str], named: set[str], after: int
    ) -> Iterator[StoredDocument]:
        """Yield the live documents that match their hashes and were not ``seen``.

        Only those added ``after`` a generation count; all of their URIs are added to ``named``.
        """
        indexed = dict(
            self._rows("SELECT id, uri FROM documents INDEXED BY documents_by_uri WHERE uri > ''")
        )
        if after < 0:
            named.update(uri for uri in indexed.values() if isinstance(uri, str))
        for number in sorted(self._collect_numbers()):
            for uri, died, metadata, raw_sha, text_sha in self._rows(
                "SELECT uri, died, metadata, raw_sha, text_sha FROM documents"
                " WHERE id = ? AND born > ?",
                number, after,
            ):  # fmt: skip
                if died is not None or uri in seen:
                    continue
                name = self._choose_uri(number, uri, indexed)
                if name is None or name in seen:
                    continue
                named.add(name)
                text = self._read_text(text_sha)
                if text is not None and isinstance(metadata, str):
                    document = StoredDocument(name, metadata, text)
                    if fits(document, raw_sha):
                        yield document

    def _choose_uri(self, number: int, uri: Any, indexed: Mapping[int, Any]) -> str | None:
        """Return the URI in a version's row if that matches its hash, otherwise the copy in the
        index."""
        with suppress(*_UNREADABLE):
            if self._connection is not None and not broken_version(self._connection, number):
                return str(uri)
        name = indexed.get(number, uri)
        return name if isinstance(name, str) else None

    def _collect_numbers(self) -> set[int]:
        """Collect the numbers of versions from all tables and indexes that have them."""
        numbers: set[Any] = set()
        for statement in (
            "SELECT id FROM documents NOT INDEXED ORDER BY id",
            "SELECT id FROM documents NOT INDEXED ORDER BY id DESC",
            "SELECT id FROM documents INDEXED BY documents_by_uri WHERE uri > ''",
            "SELECT document FROM checks ORDER BY document",
            "SELECT document FROM checks ORDER BY document DESC",
        ):
            numbers.update(number for (number,) in self._rows(statement))
        (last,) = next(self._rows("SELECT value FROM meta WHERE key = 'last_document'"), ("0",))
        with suppress(TypeError, ValueError):
            numbers.update(range(1, min(int(last), _MOST_TRIED) + 1))
        return {number for number in numbers if isinstance(number, int)}

    def _read_text(self, sha: Any) -> str | None:
        for (body,) in self._rows("SELECT body FROM texts WHERE sha = ?", sha):
            with suppress(*_UNREADABLE):
                return catalog.decompress_text(sha, body).decode("utf-8")
        # The index on the hashes may be damaged.
        if self._texts is None:
            self._texts = dict(self._hash_texts())
        number = self._texts.get(sha)
        for (body,) in self._rows("SELECT body FROM texts WHERE id = ?", number):
            with suppress(*_UNREADABLE):
                return catalog.decompress_text(sha, body).decode("utf-8")
        return None

    def _hash_texts(self) -> Iterator[tuple[bytes, int]]:
        """Yield the hash of each readable text, computed from its content, and its number."""
        numbers: set[Any] = set()
        for order in ("", " DESC"):
            statement = f"SELECT id FROM texts NOT INDEXED ORDER BY id{order}"
            numbers.update(number for (number,) in self._rows(statement))
        highest = max((number for number in numbers if isinstance(number, int)), default=0)
        for number in range(1, min(highest, _MOST_TRIED) + 1):
            for (body,) in self._rows("SELECT body FROM texts WHERE id = ?", number):
                with suppress(zlib.error, TypeError):
                    yield sha256(zlib.decompress(body)).digest(), number

    def _rows(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows before the first unreadable one."""
        if self._connection is not None:
            with suppress(*_UNREADABLE):
                yield from self._connection.execute(statement, values)

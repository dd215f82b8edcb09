"""What can be saved of a damaged epoch that is the only copy of its documents.

Takes: the folders of epochs, the newest first. Gives: every live document of which a copy fits its
hash, from the journal or from the catalogue, and the names of those of which none does. Refuses: to
change what it reads, and to give out a text or metadata that differs from its hash.

One broken page must not cost the rows of others: rows are read one by one, by their numbers, which
are gathered from every table and index that names them.
"""

from __future__ import annotations

import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from lookfar.errors import LookfarError
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import StoredDocument
from lookfar.store.catalogue.journal import JOURNAL, Log, recorded_end
from lookfar.store.catalogue.seals import broken_tables, broken_version
from lookfar.store.ground.database import CATALOGUE, connect, connect_ignoring_log

_MOST_TRIED = 1_000_000
"""Numbers of versions that are tried one after the other where no table lists them."""
_UNREADABLE = (sqlite3.Error, LookfarError, UnicodeDecodeError, TypeError, ValueError)

Digest = Callable[[StoredDocument], bytes]
"""The hash that was stored of a document as it was given."""
Fits = Callable[[StoredDocument, bytes], bool]


class Rescue(ABC):
    """What is intact of a damaged collection; the counts hold once all documents were taken."""

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.saved = 0
        self.lost: set[str] = set()
        """The names of documents of which no copy is intact, as far as they are known."""
        self.expected = 0
        """How many documents the serving generation had by its own account, where that is left."""
        self.highest = 0
        """The newest generation that is known of."""

    @abstractmethod
    def documents(self) -> Iterator[StoredDocument]:
        """Each document once, the newest intact copy of it."""

    @property
    def missing(self) -> int:
        """How many documents could not be saved."""
        return max(len(self.lost), self.expected - self.saved)

    def fits(self, kept: StoredDocument, raw_sha: bytes) -> bool:
        """Whether a document is what was given when it was inserted."""
        return self._digest(kept) == raw_sha


class EpochRescue(Rescue):
    """The same of epochs in folders."""

    def __init__(self, folders: Sequence[Path], digest: Digest) -> None:
        super().__init__(digest)
        self._folders = folders
        for folder in folders:
            with _opened(folder) as catalogue:
                number, documents = catalogue.account()
                self.highest = max(self.highest, number)
                self.expected = self.expected or documents

    def documents(self) -> Iterator[StoredDocument]:
        """Each document once, the newest intact copy of it."""
        taken: set[str] = set()
        named: set[str] = set()
        for folder in self._folders:
            with _opened(folder) as catalogue:
                log = Log(folder / JOURNAL, catalogue.journal_end())
                for kept in chain(_of_log(log, taken), catalogue.live(self.fits, taken, named)):
                    if kept.uri not in taken and kept.uri not in log.erased:
                        taken.add(kept.uri)
                        self.saved += 1
                        yield kept
                # What was erased here must not come back from an older epoch.
                named -= log.erased
                taken |= log.erased
        self.lost = named - taken


def _of_log(log: Log, taken: set[str]) -> Iterator[StoredDocument]:
    for uri in sorted(log.uris):
        entry = log.entry(uri) if uri not in taken else None
        if entry is None:
            continue
        with suppress(*_UNREADABLE):
            yield StoredDocument(
                uri,
                entry.metadata,
                catalog.decompress_text(entry.text_sha, entry.body).decode("utf-8"),
            )


@contextmanager
def _opened(folder: Path) -> Iterator[_Catalogue]:
    path = folder / CATALOGUE
    with ExitStack() as stack:
        connection = None
        with suppress(*_UNREADABLE):
            connection = connect(path, write=False) if path.is_file() else None
        behind = connection is None
        if behind and path.is_file():
            # A log that is broken hides what was committed to it; the database before it is left.
            with suppress(*_UNREADABLE):
                connection = connect_ignoring_log(path)
        if connection is not None:
            stack.enter_context(closing(connection))
        yield _Catalogue(connection, behind)


class _Catalogue:
    """A catalogue that may be damaged anywhere: what cannot be read counts as absent."""

    def __init__(self, connection: sqlite3.Connection | None, behind: bool) -> None:
        """One that was opened without its log is ``behind``: it is sound, and says nothing of
        what was committed last."""
        self._connection = connection
        self._behind = behind
        self._texts: dict[bytes, int] | None = None

    def account(self) -> tuple[int, int]:
        """The newest generation, and how many documents it has by its own account."""
        if not self._is_sealed():
            rows = self._rows("SELECT max(number) FROM generations")
            return max((number or 0 for (number,) in rows), default=0), 0
        assert self._connection is not None
        number = generations.active(self._connection)
        documents = generations.manifest(self._connection, number).get("documents", 0)
        return generations.highest(self._connection), int(documents)

    def journal_end(self) -> int | None:
        """Where the journal ended with the last commit; ``None`` where nobody can tell."""
        if not self._is_sealed():
            return None
        assert self._connection is not None
        return recorded_end(self._connection)

    def _is_sealed(self) -> bool:
        if self._connection is None or self._behind:
            return False
        with suppress(*_UNREADABLE):
            return not {"meta", "generations"}.intersection(broken_tables(self._connection))
        return False

    def live(self, fits: Fits, taken: set[str], named: set[str]) -> Iterator[StoredDocument]:
        """The live documents that fit their hashes and were not ``taken``; all names that were
        seen are added to ``named``."""
        indexed = dict(
            self._rows("SELECT id, uri FROM documents INDEXED BY documents_by_uri WHERE uri > ''")
        )
        named.update(uri for uri in indexed.values() if isinstance(uri, str))
        for number in sorted(self._numbers()):
            for uri, died, told, raw_sha, text_sha in self._rows(
                "SELECT uri, died, metadata, raw_sha, text_sha FROM documents WHERE id = ?", number
            ):
                if died is not None or uri in taken:
                    continue
                name = self._name(number, uri, indexed)
                if name is None or name in taken:
                    continue
                named.add(name)
                text = self._text(text_sha)
                if text is not None and isinstance(told, str):
                    kept = StoredDocument(name, told, text)
                    if fits(kept, raw_sha):
                        yield kept

    def _name(self, number: int, uri: Any, indexed: Mapping[int, Any]) -> str | None:
        """What a version is called: by its row if that fits its hash, else by the index, whose
        names are a copy of those in the rows."""
        with suppress(*_UNREADABLE):
            if self._connection is not None and not broken_version(self._connection, number):
                return str(uri)
        found = indexed.get(number, uri)
        return found if isinstance(found, str) else None

    def _numbers(self) -> set[int]:
        """The numbers of versions, from wherever they are named."""
        found: set[Any] = set()
        for statement in (
            "SELECT id FROM documents NOT INDEXED ORDER BY id",
            "SELECT id FROM documents NOT INDEXED ORDER BY id DESC",
            "SELECT id FROM documents INDEXED BY documents_by_uri WHERE uri > ''",
            "SELECT document FROM checks ORDER BY document",
            "SELECT document FROM checks ORDER BY document DESC",
        ):
            found.update(number for (number,) in self._rows(statement))
        (last,) = next(self._rows("SELECT value FROM meta WHERE key = 'last_document'"), ("0",))
        with suppress(TypeError, ValueError):
            found.update(range(1, min(int(last), _MOST_TRIED) + 1))
        return {number for number in found if isinstance(number, int)}

    def _text(self, sha: Any) -> str | None:
        for (body,) in self._rows("SELECT body FROM texts WHERE sha = ?", sha):
            with suppress(*_UNREADABLE):
                return catalog.decompress_text(sha, body).decode("utf-8")
        # Its index may be what is damaged.
        if self._texts is None:
            self._texts = dict(self._bodies())
        number = self._texts.get(sha)
        for (body,) in self._rows("SELECT body FROM texts WHERE id = ?", number):
            with suppress(*_UNREADABLE):
                return catalog.decompress_text(sha, body).decode("utf-8")
        return None

    def _bodies(self) -> Iterator[tuple[bytes, int]]:
        """The hash of each text that can be read, by its content, and its number."""
        numbers: set[Any] = set()
        for order in ("", " DESC"):
            statement = f"SELECT id FROM texts NOT INDEXED ORDER BY id{order}"
            numbers.update(number for (number,) in self._rows(statement))
        highest = max((each for each in numbers if isinstance(each, int)), default=0)
        for number in range(1, min(highest, _MOST_TRIED) + 1):
            for (body,) in self._rows("SELECT body FROM texts WHERE id = ?", number):
                with suppress(zlib.error, TypeError):
                    yield sha256(zlib.decompress(body)).digest(), number

    def _rows(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows before the first that cannot be read."""
        if self._connection is not None:
            with suppress(*_UNREADABLE):
                yield from self._connection.execute(statement, values)

"""A collection of the files of one outside source. They change only when it is updated."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections.file_collection import Files
from lookfar.collections.outside.given_vectors import GIVEN_FILE, GivenVectors, forget_given
from lookfar.collections.outside.shelf import Origins, Shelf
from lookfar.errors import IndexBusy, IndexReadOnly, LookfarError
from lookfar.freshness.changed_names import SEEN_FILE
from lookfar.index.recipe import epoch_fingerprint
from lookfar.sources.confine import Root
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.store.vectors.reuse import mark_foreign

if TYPE_CHECKING:
    from lookfar.collections.collection import OpenModel
    from lookfar.config import Settings
    from lookfar.edit.editor import Editor
    from lookfar.model import Filters, Incomplete, IndexReport, OutsideSource

OUTSIDE_KINDS: Final = frozenset(("sources", "deps"))
"""Kinds of questions that name outside sources as a whole, whatever their documents are."""


class Outside(Files):
    kind = "outside"

    def __init__(
        self,
        shelf: Shelf,
        source: OutsideSource,
        load_settings: Callable[[], Settings],
        open_model: OpenModel | None,
    ) -> None:
        def load() -> Settings:
            return _adapt_settings(load_settings(), source)

        self.shelf = shelf
        self.described = source
        root = Root.open(shelf.files_folder(source))
        super().__init__(root, load(), load, (), None, open_model, name=source.name)
        self._stamp: tuple[int, int, int] | None = None
        """The stamp of the record whose files are known to be indexed."""
        self._origins: Origins | None = None

    # -- the index ---------------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        wait_seconds: float = 0.0,
        many: bool = True,
    ) -> IndexReport:
        """Read what changed since the last update. The number of files is not limited: the
        user asked for this source."""
        stamp = self.shelf.stamp(self.name)
        self.described = self.shelf.get(self.name)
        if self.described.kind == "pack":
            mark_foreign(self.store.folder)
        report = super().index(
            rebuild=rebuild,
            only=only,
            wait_seconds=wait_seconds,
            many=many,
        )
        forget_given()
        with suppress(LookfarError):  # The next process compares the files again.
            seen = pack_record({"digest": self.described.digest})
            files.write_shared(self.store.folder / SEEN_FILE, seen)
        self._stamp, self._origins = stamp, None
        return report

    def freshen(self) -> list[Incomplete]:
        """Index the files if an update changed them since; only a folder elsewhere is compared."""
        if self.described.kind == "folder":
            return super().freshen()
        if self.sealed:
            return []
        if self.rebuilding or not self.store.exists:
            return super().freshen()
        with suppress(IndexBusy):  # Another process is finishing it; the index is still whole.
            self.shelf.finish(self.name)
        if self.store.held() is not None:
            return []
        stamp = self.shelf.stamp(self.name)
        is_new = stamp != self._stamp and self._read_seen() != self.shelf.get(self.name).digest
        if is_new or self.store.fingerprint() != epoch_fingerprint(self.settings, self.embedder):
            self.index()
        elif stamp != self._stamp:
            self.described, self._stamp = self.shelf.get(self.name), stamp
            self._origins = None
        return []

    def find_given_vectors(self) -> GivenVectors | None:
        """Return the vectors that came with a pack, if they are those of the model in use."""
        if self.described.kind != "pack" or self.embedder is None:
            return None
        path = self.shelf.place(self.name) / GIVEN_FILE
        return GivenVectors(path, self.embedder.fingerprint, self.embedder.dimensions)

    def _read_seen(self) -> str:
        """Return the digest of the files that are indexed; empty if it is unknown."""
        try:
            record = unpack_record((self.store.folder / SEEN_FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return ""
        return str(record.get("digest", ""))

    # -- queries -----------------------------------------------------------------

    def narrow(self, filters: Filters) -> Filters:
        """Drop the kinds that name outside sources: their documents are docs and code."""
        if OUTSIDE_KINDS.isdisjoint(filters.lanes):
            return filters
        return replace(filters, lanes=())

    def origin_of(self, uri: str) -> str:
        """Return where a document comes from: the address of its page, or the whole source's."""
        if self._origins is None:
            self._origins = self.shelf.origins(self.name)
        source = self.described
        whole = source.name.rpartition("@")[0] if source.kind == "package" else source.origin
        return str(self._origins.get(uri, {}).get("url") or whole)

    # -- edits -------------------------------------------------------------------

    def editor(self, collection: str = "", unsure: str = "") -> Editor:  # noqa: ARG002
        raise IndexReadOnly(
            f"{collection or self.name} is read-only: it was fetched from elsewhere.",
            hint="Edit it where it comes from, then run: lookfar update",
        )

    def recover_edits(self) -> None:
        """Do nothing: there are no edits."""

    def watch(self, *_: Any, **__: Any) -> None:
        """Do nothing: only an update changes the files."""


def _adapt_settings(settings: Settings, source: OutsideSource) -> Settings:
    """Return the user's settings for an outside source: all its files, and no history."""
    everything = source.kind != "folder"
    if source.kind == "package":
        # To start processes and load the model in each costs more than most packages do.
        settings = replace(settings, index=replace(settings.index, workers=1))
    return replace(
        settings,
        sources=replace(
            settings.sources,
            include=() if everything else settings.sources.include,
            exclude=() if everything else settings.sources.exclude,
            respect_ignore_files=not everything and settings.sources.respect_ignore_files,
        ),
        git=replace(settings.git, history=False),
    )

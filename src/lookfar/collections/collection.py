"""Base class for all collections: their store, model, and snapshots for queries."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from lookfar.collections.generations import Generations
from lookfar.collections.healing import RepairedIndex
from lookfar.embed.providers import find_quality_model
from lookfar.errors import (
    IndexHeld,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    StoreUnavailable,
    how_many,
    wrong_dimensions,
)
from lookfar.freshness.following import Following
from lookfar.model import (
    Document,
    Filters,
    Incomplete,
    Status,
    Watching,
)
from lookfar.ports import CollectionSnapshot, Embedder, SecondModel, Snapshot, Store

if TYPE_CHECKING:
    from lookfar.collections.variants import Variants
    from lookfar.common.caller import Progress
    from lookfar.config import Settings
    from lookfar.ports import LackingDocument
    from lookfar.retrieve.ranking import Plan

Kind = Literal["files", "commits", "memory", "documents", "outside"]
OpenModel = Callable[[], "Embedder | None"]


class Collection(RepairedIndex):
    """The index of one source. May be shared by threads."""

    kind: ClassVar[Kind]
    """What it is a collection of, to tell kinds apart without importing them all."""
    gains_by_second_model: ClassVar[bool] = True
    """Whether the second model improves the answers of this kind of collection."""
    variants: Variants | None = None
    """The indexes of the same source for other presets; None if there can be only one."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        store: Store,
        *,
        open_model: OpenModel | None = None,
        can_roll_back: bool = True,
    ) -> None:
        """``open_model`` shares the model of another collection, so that it is loaded once."""
        super().__init__(name, settings, store)
        self.following = Following()
        self.generations = Generations(store, can_roll_back=can_roll_back)
        self.without_model = ""
        """Why there is no model although the settings name one; empty if there is one."""
        self.embedding = EmbeddingState()
        self.without_second_model = ""
        """Why there is no second model although it is not turned off; empty if there is one."""
        self._open_shared_model = open_model

    # -- what each kind defines --------------------------------------------------

    @abstractmethod
    def source(self, uri: str) -> str | None:
        """Return a document's normalised text as its source has it now."""

    @abstractmethod
    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """Return what is indexed; with ``check``, compare the source with it."""

    @abstractmethod
    def freshen(self) -> list[Incomplete]:
        """Update the index as far as that is quick; return notes on what is still stale."""

    @abstractmethod
    def read_current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """Return a document as its source has it now, and whether that is what was indexed."""

    def narrow(self, filters: Filters) -> Filters:
        """Return the filters in terms that the store understands."""
        return filters

    @property
    def recent(self) -> tuple[float, float] | None:
        """For how many days a document counts as recent, and by what factor that weighs."""
        return None

    # -- the index ---------------------------------------------------------------

    @property
    def indexed(self) -> bool:
        return self.store.exists

    @property
    def was_indexed(self) -> bool:
        """Whether there is an index, or one was set aside as damaged: then a query waits for the
        new one."""
        return self.store.exists or bool(self.store.damage())

    @property
    def begun(self) -> bool:
        """Whether there is any part of an index, finished or not."""
        return self.store.present

    @property
    def place(self) -> str:
        """Where the index is, for people: a folder, or a server and a name there."""
        return self.store.place

    @property
    def index_dir(self) -> Path:
        return self.store.folder

    @property
    def building_since(self) -> str:
        """When the running pass began, in ISO format; empty when none is running."""
        return self.passes.began

    @property
    def progress(self) -> Progress | None:
        """How far the running pass has come, if that is known."""
        return self.passes.progress

    @property
    def failure(self) -> LookfarError | None:
        """Why the last pass failed; None once one succeeded."""
        return self.passes.failure

    def remove_index(self, wait_seconds: float) -> None:
        """Remove everything that was made from the source, and leave the source alone."""
        from lookfar.collections.variants import list_extra_files

        self.passes.acquire_or_refuse()
        try:
            others = self.variants.list_others() if self.variants else ()
            for store in (self.store, *others):
                store.delete(list_extra_files(), wait_seconds)
            self.passes.generation, self.passes.failure = 0, None
        finally:
            self.passes.lock.release()

    # -- the model ---------------------------------------------------------------

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedding model; None if the default one is missing: then only words are searched."""
        if self._open_shared_model is not None:
            return self._open_shared_model()
        embedder, self.without_model = open_model(self.settings)
        return embedder

    @cached_property
    def second_model(self) -> SecondModel | None:
        """The model that improves on the first; None if there is none, or none is needed."""
        if not self.gains_by_second_model or not uses_second_model(self.settings):
            return None
        try:
            folder = find_quality_model(self.settings.quality)
            if folder is None:
                return None
            from lookfar.embed.quality import open_quality_model

            return open_quality_model(folder)
        except ModelUnavailable as error:
            self.without_second_model = error.message
            return None

    def has_second_vectors(self) -> bool:
        """Return whether a query can make use of the second model here."""
        model = self.second_model
        if model is None or not self.store.exists:
            return False
        try:
            return self.store.has_quality(model.fingerprint, model.dimensions)
        except LookfarError:
            return False  # Opening the index reports what is wrong with it.

    def drop_second_model(self, why: str) -> None:
        """Release a second model that failed; the next query opens it again, or a newer version."""
        self.__dict__.pop("second_model", None)
        self.without_second_model = why

    def forget_model(self) -> None:
        """Release the models; the next query opens those that the settings name then."""
        self.__dict__.pop("embedder", None)
        self.__dict__.pop("second_model", None)
        self.without_model = self.without_second_model = ""

    # -- queries -----------------------------------------------------------------

    @contextmanager
    def open_snapshot(
        self, plan: Plan, as_of: int | None
    ) -> Iterator[tuple[Plan, CollectionSnapshot, list[Incomplete]]]:
        """Open a generation for a query, as up to date as it can quickly be.

        Gives the plan that fits it, without a vector if another model made the index, and notes
        on what may be missing.
        """
        plan = replace(plan, filters=self.narrow(plan.filters))
        with ExitStack() as stack:

            def open_now() -> tuple[list[Incomplete], CollectionSnapshot]:
                try:
                    notes = self.freshen() if as_of is None else []
                except IndexHeld as held:
                    notes = [Incomplete("held", f"{held.message} {held.hint}")]
                except StoreUnavailable:
                    notes = []
                snapshot = stack.enter_context(self.store.snapshot(as_of))
                outdated = self.store.outdated
                return [*notes, *([Incomplete("stale", outdated)] if outdated else [])], snapshot

            notes, snapshot = self.run_when_ready(open_now)
            if self.variants is not None:
                self.variants.note_asked()
            # Vectors of two models cannot be compared.
            ours = self.embedder.fingerprint if self.embedder else ""
            is_ours = snapshot.manifest().get("model_fingerprint", ours) == ours
            if plan.vector is not None and not is_ours:
                if as_of is not None or plan.mode == "vector":
                    raise _other_model(snapshot)
                model = snapshot.manifest().get("model", "another")
                detail = f"the index was made with the model {model}, the settings name another"
                notes = [*notes, Incomplete("no_model", f"{detail}. Words only.")]
                plan = replace(plan, vector=None, quality=None)
            elif plan.vector is not None and plan.vector.shape[-1] != snapshot.dimensions:
                # A service may offer another model under the old name, with the same fingerprint.
                raise wrong_dimensions(int(plan.vector.shape[-1]), snapshot.dimensions)
            held = note_held(snapshot) if as_of is None else []
            if failures := snapshot.failures():
                detail = f"{how_many(len(failures), 'file')} could not be read: see lookfar status"
                uris = tuple(failure.uri for failure in failures[:100])
                notes = [*notes, Incomplete("failed", detail, uris)]
            yield plan, snapshot, [*held, *notes]

    def citation_reader(self, snapshot: Snapshot) -> Callable[[str], str | None]:
        """Return how citations are checked: against the source, or where there is none (a
        read-only store) against the snapshot."""
        return snapshot.text if self.settings.store.read_only else self.readable

    def readable(self, uri: str) -> str | None:
        """Return a document's text for citing; None if the disk refuses to read it."""
        try:
            return self.source(uri)
        except IOFailed:
            return None

    # -- following the source ----------------------------------------------------

    def watching(self) -> Watching | None:
        """Return how following the source goes; None when it is not followed."""
        return self.following.state()

    # -- resting -----------------------------------------------------------------

    @property
    def awake(self) -> bool:
        """Whether it holds anything that :meth:`rest` releases."""
        return "embedder" in self.__dict__ or self.__dict__.get("second_model") is not None

    def rest(self) -> None:
        """Release what a query can load again: the model, open index files and caches."""
        from lookfar.retrieve.answer.focus import forget_sentences
        from lookfar.retrieve.answer.units import forget_files
        from lookfar.retrieve.retrievers.verbatim import RECENT_TEXTS
        from lookfar.retrieve.stages.links import RECENT_ENTRIES
        from lookfar.store.keywords.analyser import forget_words
        from lookfar.store.sqlite.snapshot import RECENT

        self.__dict__.pop("embedder", None)
        self.__dict__.pop("second_model", None)
        self.store.close()
        # All collections share these, and fill them again.
        RECENT.forget()
        forget_words()
        RECENT_ENTRIES.clear()
        RECENT_TEXTS.clear()
        forget_sentences()
        forget_files()


def open_model(settings: Settings) -> tuple[Embedder | None, str]:
    """Open the model that the settings name; if it is the default and missing, return why."""
    from lookfar.embed.providers import open_embedder

    try:
        return open_embedder(settings.embed), ""
    except ModelUnavailable as error:
        if settings.origin.get("embed.provider", "default") != "default":
            raise
        return None, error.message


def uses_second_model(settings: Settings) -> bool:
    """Return whether the settings allow a second model beside the first.

    It improves on the bundled table; a transformer of the user's own needs no second one, unless
    the user asks for it.
    """
    chosen, first = settings.quality.enabled, settings.embed
    bundled = first.provider == "static" and not (first.code_provider or first.code_model)
    return chosen == "on" or (chosen == "auto" and bundled)


def note_held(snapshot: CollectionSnapshot) -> list[Incomplete]:
    """Return a note if a roll-back holds the index at an earlier generation."""
    number = snapshot.held()
    if number is None:
        return []
    detail = (
        f"the index is held at generation {number} since a roll-back and does not follow the"
        " disk; to release it, run: lookfar index"
    )
    return [Incomplete("held", detail)]


def _other_model(snapshot: CollectionSnapshot) -> InvalidArgument:
    return InvalidArgument(
        f"Generation {snapshot.generation} was made with the model"
        f" {snapshot.manifest()['model']}, and the settings name another.",
        hint="Search it by words (--mode keyword), name the settings it was made with,"
        " or index with these: lookfar index PATH.",
    )


_MOST_ASKED: Final = 10_000


@dataclass(slots=True)
class EmbeddingState:
    """What a process does for one collection, for its status."""

    working: bool = False
    paused: str = ""
    """Why it waits; empty if it does not."""
    pace: float = 0.0
    """Passages per second recently."""
    failure: str = ""
    """Why the last attempt failed; empty if it did not."""
    retry_at: float = 0.0
    """When to try again after a failure, by the monotonic clock."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each document was a hit."""

    def note_hits(self, uris: Iterable[str]) -> None:
        """Remember which documents are asked for: they are embedded first."""
        self.asked.update(uris)
        if len(self.asked) > _MOST_ASKED:
            self.asked = Counter(dict(self.asked.most_common(_MOST_ASKED // 2)))

    def take_hits(self) -> tuple[str, ...]:
        """Return the documents that were noted, and forget them: for another process to note."""
        asked, self.asked = self.asked, Counter()
        return tuple(asked.elements())

    def prefer(self, documents: Sequence[LackingDocument]) -> Sequence[LackingDocument]:
        """Put the documents that were asked for first, and keep the order of the others."""
        asked = self.asked.copy()
        return sorted(documents, key=lambda document: -asked[document.uri])

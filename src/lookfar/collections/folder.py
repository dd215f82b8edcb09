"""A folder of files as a collection: indexed, kept true to the disk, and read.

Takes: a root and its settings. Gives: passes, snapshots to search in, documents as the
disk has them now, earlier states, and a keeper that follows the disk. Refuses: to rank;
which collections a question is asked of, and how their answers meet, is the library's
business.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, ClassVar

from lookfar import config
from lookfar.collections.collection import (
    KEEPER_PATIENCE,
    PATIENCE,
    REBUILD_PATIENCE,
    Closing,
    Collection,
    Kind,
    now,
    store_of,
    unknown,
)
from lookfar.common.turns import TURNS
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexHeld,
    IndexReadOnly,
    InvalidArgument,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotFound,
    RootNotFound,
    as_out_of_memory,
)
from lookfar.index import freshness
from lookfar.index.recipe import epoch_fingerprint, policy_from, secrets_from
from lookfar.model import Document, Incomplete, IndexReport, Lane, Ruling, Status
from lookfar.retrieve.locate.address import SCHEME, parse_address
from lookfar.retrieve.locate.target import parse_target
from lookfar.sources.confine import Refused, Root
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for

if TYPE_CHECKING:
    from lookfar.collections.commits import Commits
    from lookfar.collections.databases import Documents
    from lookfar.collections.memories import Memories
    from lookfar.collections.receipts import ReceiptBook
    from lookfar.common.target import Target
    from lookfar.edit.editor import Editor
    from lookfar.index.build import Build
    from lookfar.index.keeper import Pass
    from lookfar.index.progress import OnProgress, Progress
    from lookfar.index.strategies import Work
    from lookfar.model import Edit, EditResult, UndoStep, Validation
    from lookfar.ports import Snapshot
    from lookfar.sources.folder.walk import Walk
    from lookfar.sources.git.repositories import Repository
    from lookfar.store.health.repair import Maker
    from lookfar.store.shared.snapshot import StoredSnapshot


_log = logging.getLogger(__name__)

_EDITS = "edits"
"""Where transactions are kept, beside the index; deleting that does not forget them."""
_EDIT_PATIENCE = 30.0
"""Seconds that an edit which is done waits for the index to take it in."""
_RESTRUCTURING = frozenset(("create", "replace", "insert", "move", "rename", "delete", "fix"))
"""What may change where links lead."""
_RENEW_PAUSE = 60.0
"""Seconds between attempts to rebuild an index in the background."""
_SCRUB_AFTER = 900.0
"""Seconds that a folder is followed before its index is checked row by row."""
_SCRUB_PAUSE = 86_400.0
"""Seconds until that is done again."""
_STOP_SECONDS = 2.0
_PASS_PATIENCE = 3.0
"""A question waits so long for a pass under way, so that what was just saved is found."""
_LOOK_AGAIN = 0.5
"""Seconds between looks at how far a build in the background is."""
_LOOK_BELOW = 10.0
"""Seconds for which repositories below a folder are taken for all that there are."""
_QUICK = 5.0
"""Seconds that a question waits for the keeper to index what just changed."""


class Folder(Collection):
    """One folder and its index. May be shared by threads."""

    kind: ClassVar[Kind] = "files"

    def __init__(
        self,
        root: Root,
        settings: config.Settings,
        resolve: Callable[[], config.Settings] | None = None,
        settings_files: tuple[Path, ...] = (),
        lane: Lane | None = None,
    ) -> None:
        """``resolve`` gives the settings anew when one of ``settings_files`` was edited.

        ``lane`` is that of all its documents, where it is not for each to say.
        """
        name = Path(root.path).name or "root"
        source = f"{lane}\0{root.path}" if lane else root.path
        super().__init__(name, settings, store_of(name, source, settings))
        self._lane = lane
        self.root = root
        self._resolve = resolve or (lambda: settings)
        self._settings_files = settings_files
        self._settled = _stamps(settings_files)
        self._settling = Lock()
        self._watched_as: tuple[Any, ...] | None = None
        self._watch_again = False
        self._walk: Walk | None = None
        self._background: Thread | None = None
        self._mending = Lock()
        self._set_aside = False
        """Whether a damaged index was set aside here, to be built anew in the background."""
        self._histories: dict[str, Commits] = {}
        self._repositories: dict[str, Repository] = {}
        """Those below, as they were found last."""
        self._looked_in: Walk | None = None
        self._look_at = 0.0
        self._memories: Memories | None = None
        self._memories_at: tuple[str, int, int] | None = None
        self._databases: dict[str, Documents] = {}
        self.watch_wanted: bool | None = None
        """Whether somebody asked to follow the folder, or not to; None where nobody did."""
        self._searches = count()
        self._renew_at = 0.0
        self._scrub_at = time.monotonic() + _SCRUB_AFTER
        self._scrubber: Thread | None = None

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        index_dir: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Folder:
        """A folder with its settings; nothing is read or written yet.

        ``settings`` are dotted keys, as in the settings reference, and win over
        every file and variable. ``environ`` stands in for the variables of this process.
        """
        shown = Path(path).expanduser()
        explicit = dict(settings or {})
        if index_dir is not None:
            explicit["index.dir"] = str(Path(index_dir).expanduser().absolute())
        try:
            root = Root.open(shown)
        except RootNotFound:
            if not config.load(None, explicit, environ).store.read_only:
                raise
            root = Root.absent(shown)
        resolve = partial(config.load, Path(root.path), explicit, environ)
        files = config.settings_files(Path(root.path), environ)
        resolved = resolve()
        if resolved.sources.allow_hard_links:
            root = Root.open(shown, allow_hard_links=True)
        return cls(root, resolved, resolve, files)

    def settle(self) -> None:
        """Take over settings that were edited since, before a question is made ready for it."""
        self._settle()
        if self._memories is not None:
            self._memories.settle()

    def _settle(self) -> None:
        """Take over settings that were edited since; where the index lies stays as it was."""
        stamps = _stamps(self._settings_files)
        if stamps == self._settled:
            return
        with self._settling:
            before, after = self.settings, self._resolve()
            self._settled = stamps
            after = replace(after, index=replace(after.index, dir=before.index.dir))
            if after == before:
                return
            other_model = after.embed != before.embed
            if other_model:
                self.__dict__.pop("embedder", None)
                self._without_model = ""
            self.settings, self._walk = after, None
            for each in self._histories.values():
                each.settings = after
                if other_model:  # It has that of the folder.
                    each.__dict__.pop("embedder", None)
            # Not here: this may be the keeper's own thread.
            self._watch_again = self._watched_as is not None

    # -- the index ---------------------------------------------------------

    @property
    def sealed(self) -> bool:
        """Whether it is answered from the store alone, and the disk is none of its business."""
        return self.settings.store.read_only

    def _refuse_sealed(self) -> None:
        if self.sealed:
            raise IndexReadOnly(
                "This process only answers from the store (store.read_only).",
                hint="Index and edit where the folder lies; this one shows it at once.",
            )

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
        many: bool = False,
    ) -> IndexReport:
        """Make the index true to the disk: what changed is read, with ``rebuild`` everything.

        ``only`` names the documents to look at. Another writer means ``IndexBusy``, after
        ``wait_seconds``. A damaged index is set aside and built anew. ``many`` lets in more
        files than ``sources.max_files``.
        """
        self._refuse_sealed()
        with self._held(on_progress):
            return self._index(
                rebuild=rebuild,
                only=only,
                on_progress=on_progress,
                wait_seconds=wait_seconds,
                many=many,
            )

    def _index(self, *, wait_seconds: float, **how: Any) -> IndexReport:
        before = None if how["rebuild"] else self._walk
        run = partial(self._pass, before, wait_seconds=wait_seconds, **how)
        try:
            return run()
        except IndexCorrupt as damage:
            if self._remade(damage, how["on_progress"]) is not None:
                return run()
            self._store.set_aside(damage.developer, wait_seconds=wait_seconds)
            return run()

    def start_index(self, *, rebuild: bool = False, only: Several[str] | None = None) -> None:
        """The same in the background. A pass under way, here or elsewhere, is ``IndexBusy``."""
        self._refuse_sealed()
        self._take_building()
        try:
            self._store.refuse_busy()
            self._began = now()
            how = {"rebuild": rebuild, "only": only}
            self._background = Thread(
                target=self._in_background, kwargs=how, name="lookfar-index", daemon=True
            )
            self._background.start()
        except BaseException:
            self._began = ""
            self._building.release()
            raise

    def _in_background(self, **how: Any) -> None:
        def go_on(_: Progress) -> None:
            if self._closing:
                raise Closing

        try:
            self._index(on_progress=go_on, wait_seconds=PATIENCE, **how)
        except LookfarError as error:
            self.failure = error
        except Closing:
            pass  # What was done so far is kept for the next build, where that is worth it.
        except Exception as error:
            self.failure = as_out_of_memory(error) or LookfarError(
                "Indexing failed.",
                hint="Index the folder again.",
                developer=f"{type(error).__name__}: {error}",
            )
        finally:
            self._began = ""
            self._building.release()

    def delete(self, *, wait_seconds: float = 0.0) -> None:
        """Stop following the disk and remove the index. The sources are not touched."""
        self._refuse_sealed()
        wanted = self.watch_wanted
        self.unwatch()
        # That was for the deletion; a new index may be followed, unless somebody minds.
        self.watch_wanted = False if wanted is False else None
        self._remove_index(wait_seconds)
        self._walk = None

    def _pass(
        self,
        before: Walk | None,
        *,
        on_progress: OnProgress | None = None,
        wait_seconds: float = 0.0,
        **how: Any,
    ) -> IndexReport:
        """One pass, for whoever holds the lock on building."""
        self._mend_edits()

        def told(now: Progress) -> None:
            self.progress = now
            if on_progress is not None:
                on_progress(now)

        def write(wait: float) -> tuple[IndexReport, Walk | None]:
            return self._build(told).run(before=before, wait_seconds=wait, **how)

        def run() -> IndexReport:
            try:
                report, self._walk = self._when_free(write, wait_seconds, on_progress)
            finally:
                self.progress = None
            return report

        return self._passed(run)

    def _build(self, on_progress: OnProgress | None = None) -> Build:
        from lookfar.index.build import Build

        return Build(
            self.root,
            self.name,
            self._store,
            self.settings,
            self.embedder,
            on_progress,
            self._lane,
        )

    # -- what could be indexed ---------------------------------------------------

    def extent(self, prefix: str = "") -> Mapping[str, int]:
        """The files that a pass over everything would read, by URI, and their bytes."""
        from lookfar.sources.folder.walk import walk

        self._walk = found = walk(
            self.root, policy_from(self.settings, self.root.path), before=self._walk
        )
        return {
            each.uri: each.fingerprint.size
            for each in found.files
            if each.uri.startswith(prefix) and parser_for(each.uri) is not None
        }

    def folder_count(self) -> int:
        """How many folders a watcher would have to follow."""
        from lookfar.sources.folder.walk import walk

        self._walk = found = walk(
            self.root, policy_from(self.settings, self.root.path), before=self._walk
        )
        return len(found.memory.folders)

    def why(self, path: str) -> Ruling:
        """Which rule admits or refuses a path below this folder, and where it stands.

        ``path`` is a URI, or absolute; ``OutsideRoot`` for one that leaves the folder.
        """
        from lookfar.sources.folder.why import why

        uri = self.root.uri_of(path) if os.path.isabs(path) else _plain(path)
        understood = parser_for(uri) is not None
        found = why(
            self.root,
            policy_from(self.settings, self.root.path),
            uri,
            understood=understood,
            decode=lambda raw: normalise(raw)[0],
        )
        return replace(found, indexed=self.has(uri), collection=self.name)

    def why_not(self, uri: str) -> str:
        """The word for why a file is not indexed (``symlink``, ``gone``, ``ignored``, ...).

        Empty for one that is; ``OutsideRoot`` for a path that leaves the folder.
        """
        from lookfar.sources.folder.walk import judge_file

        try:
            raw, _ = self.root.read(uri, self.settings.sources.max_file_bytes)
        except Refused as refusal:
            return refusal.reason
        verdict = judge_file(self.root, policy_from(self.settings, self.root.path), uri)
        if verdict is not None:
            return verdict.reason
        if parser_for(uri) is None:
            return "no_parser"
        refused = secrets_from(self.settings).screen(uri, normalise(raw)[0]).refused
        return "secret" if refused else ""

    # -- what a question needs -------------------------------------------------

    def first_index(self, on_progress: OnProgress | None = None) -> None:
        """Index it if it never was, or wait for whoever does."""
        if not self._store.exists:
            self._freshen(on_progress)

    def _freshen(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """Index what was never indexed, bring a few changed files up to date, admit the rest."""
        self._settle()
        if self.sealed:
            return []
        self._mend_edits()
        if self._watch_again and self._watched_as is not None:
            self._watch_again = False
            self._follow(*self._watched_as)
        if self._rebuilding:
            self._ready(REBUILD_PATIENCE, on_progress)
        elif not self._store.exists:
            self.index(on_progress=on_progress, wait_seconds=PATIENCE)
            return []
        if self._store.held() is not None:
            return []
        fingerprint = epoch_fingerprint(self.settings, self.embedder)
        if self._store.fingerprint() != fingerprint:
            return self._renew(on_progress)
        kept = self._kept()
        if kept is not None:
            return kept
        with self._store.snapshot() as snapshot:
            # As recorded when it was made: counting takes a millisecond for 15,000 documents.
            if snapshot.manifest().get("documents", 0) > freshness.MOST_CHECKED:
                return [self._unsure()]
            if next(self._searches) % self.settings.index.check_every_searches:
                return [freshness.NOT_THIS_TIME]
            known, left_out = snapshot.known(), snapshot.left_out()
        if not self._await(self._building, on_progress, _PASS_PATIENCE):
            detail = f"the index is being updated{self._how_far()}; what it was before answers"
            return [Incomplete("rebuilding", detail)]
        try:
            found = freshness.ensure(
                self.root,
                policy_from(self.settings, self.root.path),
                known,
                left_out,
                lambda walked: self._pass(walked, let_go=False),
                self._walk,
                # Whoever waits for commits wants to be told, not indexed.
                0 if self._strategy() == "git" else self.settings.index.max_auto_files,
            )
            self._walk = found.walk
        finally:
            self._building.release()
            TURNS.settle()
        return found.notes()

    def _renew(self, on_progress: OnProgress | None) -> list[Incomplete]:
        """The settings ask for another index, of another model perhaps. Whoever serves builds it
        in the background, and the old one answers meanwhile; anybody else waits for it.
        """
        try:
            if self._keeper is None and not self._began:
                self.index(on_progress=on_progress)
                return []
            if not self._began and time.monotonic() >= self._renew_at:
                self._renew_at = time.monotonic() + _RENEW_PAUSE
                self.start_index()
        except IndexBusy:
            pass  # Another process does it.
        except ModelUnavailable as error:
            return [Incomplete("no_model", f"{error.message} Words only, from the older index.")]
        failed = self.failure if not self._began else None
        why = f" (it failed: {failed.message})" if failed else self._how_far()
        detail = f"the index is being rebuilt for other settings{why}; the older one answers"
        return [Incomplete("rebuilding", detail)]

    def _how_far(self) -> str:
        how_far = self.progress
        return f" ({how_far.files:,} of {how_far.total_files:,} files)" if how_far else ""

    # -- building anew what was damaged -------------------------------------------

    def heal(self, damage: IndexCorrupt, on_progress: OnProgress | None = None) -> Incomplete:
        """One at a time: whoever comes second finds it mended, or under way."""
        with self._held(on_progress, self._mending):
            if self._rebuilding:
                return Incomplete("healed", f"the index was damaged: {damage.developer}")
            return super().heal(damage, on_progress)

    def _build_anew(self, on_progress: OnProgress | None) -> str:
        """Whoever follows the folder builds it in the background: a large one takes minutes."""
        if self._keeper is None:
            return super()._build_anew(on_progress)
        self._set_aside = True
        with suppress(IndexBusy):  # Then somebody builds it already.
            self.start_index()
        return "is rebuilt"

    @property
    def _rebuilding(self) -> bool:
        return self._set_aside and not self._store.exists

    def _ready(self, patience: float, on_progress: OnProgress | None = None) -> None:
        """Wait for it, but not for long; then ``IndexBusy`` says how far it is."""
        deadline = time.monotonic() + patience
        while self._rebuilding:
            # Whoever found the damage may be about to begin.
            with self._held(on_progress, self._mending):
                background = self._background
            if background is None or not background.is_alive():
                # Another process builds it, or nobody could: then the error shows here.
                self.index(on_progress=on_progress, wait_seconds=PATIENCE)
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise IndexBusy(
                    f"The index was damaged and is being rebuilt{self._how_far()}.",
                    hint="Ask again in a while; the files themselves can be read meanwhile.",
                    details={"rebuilding": True, "since": self._began},
                )
            if on_progress is not None and self.progress is not None:
                on_progress(self.progress)
            with TURNS.wait():
                background.join(min(left, _LOOK_AGAIN))

    # -- following the disk --------------------------------------------------

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        """Follow the folder in the background; again, to change strategy or pause.

        What is not given is taken from the settings; nothing outlives this library.
        """
        if self.sealed:
            return
        keeper = self._keeper
        if keeper is not None and debounce_ms is None and on_pass is None:
            from lookfar.index.strategies import checked_strategy

            chosen = self.settings.watch.strategy if strategy is None else strategy
            keeper.switch(checked_strategy(chosen))
            return
        self._follow(strategy, debounce_ms, on_pass)

    def _follow(
        self,
        strategy: str | None,
        debounce_ms: int | None,
        on_pass: Callable[[Pass], None] | None,
    ) -> None:
        from lookfar.index import strategies
        from lookfar.index.keeper import Keeper
        from lookfar.sources.folder.watch import FolderWatcher

        chosen = self.settings.watch
        how = strategies.checked_strategy(chosen.strategy if strategy is None else strategy)
        pause = strategies.checked_debounce(
            chosen.debounce_ms if debounce_ms is None else debounce_ms
        )
        with self._watching:
            self.watch_wanted = True
            self._watched_as = (strategy, debounce_ms, on_pass)
            self._let_keeper_go()
            self._keeper = Keeper(
                FolderWatcher(
                    self.root,
                    policy_from(self.settings, self.root.path),
                    pause,
                    apart=str(Path(self.settings.index.dir).resolve()),
                ),
                strategies.Dirty(self._store.folder),
                self._catch_up,
                strategy=how,
                head=partial(strategies.head_of, self.root),
                reconcile_seconds=chosen.reconcile_seconds,
                on_pass=on_pass,
            )
            self._keeper.start()

    def unwatch(self) -> None:
        """Stop following, after the pass that is under way."""
        with self._watching:
            self.watch_wanted = False
            self._watched_as = None
            self._let_keeper_go()
        for each in self._others():
            each.unwatch()

    def _catch_up(self, work: Work) -> IndexReport:
        """The keeper's pass: what is dirty, and never over a roll-back that someone chose."""
        self._settle()

        def go_on(_: Progress) -> None:
            if self._closing:
                raise Closing

        def catch_up() -> IndexReport:
            with self._held(go_on):
                return self._pass(
                    self._walk,
                    only=work.only,
                    on_progress=go_on,
                    let_go=False,
                    wait_seconds=KEEPER_PATIENCE,
                )

        report = self._healing(catch_up)
        self._follow_histories()
        self.memories()
        self._scrub()
        return report

    def _scrub(self) -> None:
        """Now and then check every row and file, beside everything else, and repair what differs:
        a question notices damage only in what it is answered from.
        """
        busy = self._scrubber is not None and self._scrubber.is_alive()
        if busy or self._closing or time.monotonic() < self._scrub_at:
            return
        self._scrub_at = time.monotonic() + _SCRUB_PAUSE
        self._scrubber = Thread(target=self._scrubbed, name="lookfar-scrub", daemon=True)
        self._scrubber.start()

    def _scrubbed(self) -> None:
        def go_on(_: str) -> None:
            if self._closing:
                raise Closing

        try:
            found = self.verified(repair=True, on_step=go_on)
        except Closing:
            return
        except LookfarError as error:
            _log.warning("the index of %s could not be checked: %s", self.root.path, error)
            return
        for damage in found.found:
            what = "repaired" if found.repaired else "damaged"
            _log.warning("%s: %s: %s: %s", self.root.path, what, damage.artefact, damage.detail)

    def _kept(self) -> list[Incomplete] | None:
        """What the keeper knows of the disk; None where it has to be looked at."""
        keeper = self._keeper
        if keeper is None:
            return None
        dirty = keeper.pending()
        few = dirty is not None and len(dirty) <= self.settings.index.max_auto_files
        waits = keeper.strategy == "lazy" or (keeper.strategy == "realtime" and few)
        if waits and dirty != frozenset():
            keeper.drain(_QUICK, "search")
            left = keeper.pending()
            # What came after the question was asked is not its business.
            dirty = left if left is None or dirty is None else _still(dirty, left)
        return None if dirty is None else freshness.stale_notes(sorted(dirty))

    def _unsure(self) -> Incomplete:
        """Why an answer may lack what was written last, where the disk is not looked at."""
        state = self.watching()
        if state is None or not state.healthy:
            return freshness.UNCHECKED
        # Without fences, as on macOS and on a network, nothing that waits is no proof.
        return freshness.FOLLOWING if state.everything or state.queued else freshness.UNPROVED

    def source(self, uri: str) -> str | None:
        """A document's normalised text as the disk has it now, or the store where that is all.

        Secrets are masked as when it was indexed; of a file of secrets there is nothing.
        """
        if self.sealed:
            with self._store.snapshot() as snapshot:
                return snapshot.text(uri)
        try:
            raw, _ = self.root.read(uri, self.settings.sources.max_file_bytes)
        except Refused:
            return None
        screened = secrets_from(self.settings).screen(uri, normalise(raw)[0])
        return None if screened.refused else screened.text

    # -- reading -----------------------------------------------------------

    def _current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        """A document parsed from the disk, and whether it is the one that was indexed."""
        known = snapshot.document(uri)
        text = self.source(uri) if known else None
        parse = parser_for(uri)
        if known is None or text is None or parse is None:
            if known is not None and text is None:
                raise NotFound(
                    f"{uri!r} is gone from the disk since it was indexed.",
                    hint="Search shows the text that was indexed; lookfar index forgets it.",
                )
            raise unknown(snapshot, uri)
        same = sha256(text.encode("utf-8")).digest() == known["text_sha"]
        return parse(uri, text), same

    # -- editing -----------------------------------------------------------

    def edit(
        self,
        edits: Sequence[Edit],
        *,
        dry_run: bool = False,
        rewrite_links: bool = False,
        collection: str = "",
    ) -> EditResult:
        """Change documents by section, all or none; what was written is indexed, too."""
        self._refuse_sealed()
        self._settle()
        unsure = ""
        if any(each.op in _RESTRUCTURING for each in edits):
            unsure = "this folder was never indexed"
            if self._store.exists:  # Who links here is asked of the index.
                notes = self._freshen(None)
                unsure = "; ".join(each.detail for each in notes)
        editor = self._editor(collection, unsure)
        try:
            result = editor.edit(edits, dry_run=dry_run, rewrite_links=rewrite_links)
        except NotFound as error:
            raise self._named_better(error) from error
        return self._taken_in(result)

    def undo(self, uri: str, *, dry_run: bool = False, collection: str = "") -> EditResult:
        """Take back the last transaction that changed a document."""
        self._refuse_sealed()
        return self._taken_in(self._editor(collection).undo(_plain(uri), dry_run=dry_run))

    def undoable(self, *, collection: str = "") -> list[UndoStep]:
        """The transactions that can be taken back, the newest first."""
        return self._editor(collection).undoable()

    def validate(
        self, uri: str, *, single_h1: bool | None = None, collection: str = ""
    ) -> Validation:
        """What the rules for headings say about a document."""
        try:
            return self._editor(collection).validate(_plain(uri), single_h1=single_h1)
        except NotFound as error:
            raise self._named_better(error) from error

    def _editor(self, collection: str, unsure: str = "") -> Editor:
        from lookfar.edit.editor import Editor

        return Editor(
            self.root,
            policy_from(self.settings, self.root.path),
            self._store.folder / _EDITS,
            resolve=self._resolve_target,
            collection=collection or self.name,
            single_h1=self.settings.edit.single_h1,
            templates=self.settings.edit.templates,
            backlinks=self._backlinks,
            unsure=unsure,
        )

    def _backlinks(self, uri: str) -> Iterator[tuple[str, str, str]]:
        """Yield the links to a document: source, kind, and target as written."""
        if self._store.exists:
            with self._store.snapshot() as snapshot:
                for edge in snapshot.links_to(uri):
                    yield edge.source, edge.kind, edge.written

    def _resolve_target(self, edit: Edit) -> Target:
        """Parse the target of an edit."""
        target, of_all = edit.target, edit.op in ("create", "fix")
        if target.startswith(SCHEME):
            _, wanted = parse_address(target)
        else:
            plain = bool(edit.path) or of_all or self.root.contains(target)
            wanted = parse_target(target, plain, self.root.contains)
        part = wanted.heading or wanted.lines or wanted.chars
        if isinstance(edit.path, str) and not edit.path.strip():
            # An empty path is a mistake; it must not select the whole document.
            raise InvalidArgument("The heading path is empty.", hint="Name a heading, or omit it.")
        if part and (edit.path or of_all):
            raise InvalidArgument(
                f"{target!r} names a part of a document, but the whole document is needed.",
                hint="Give only its URI.",
            )
        return replace(wanted, uri=_plain(wanted.uri))

    def _named_better(self, error: NotFound) -> NotFound:
        """The same, with the documents that are called nearly so."""
        if error.details.get("reason") != "gone" or not self._store.exists:
            return error
        with self._store.snapshot() as snapshot:
            better = unknown(snapshot, str(error.details["uri"]))
        details = {**error.details, **better.details}
        return NotFound(error.message, hint=better.hint, details=details)

    def _taken_in(self, result: EditResult) -> EditResult:
        """Have the index take in what was written; the edit is done whether it can or not."""
        uris = [each.uri for each in result.documents if each.action != "unchanged"]
        if result.dry_run or not uris or not self._store.exists:
            return result
        try:
            if not self._building.acquire(timeout=_EDIT_PATIENCE):
                raise IndexBusy("The index is being built.", hint="Wait for it.")
            try:
                self._pass(self._walk, only=uris, let_go=False, wait_seconds=_EDIT_PATIENCE)
            finally:
                self._building.release()
        except IndexHeld as held:
            return replace(result, warnings=(*result.warnings, f"Not searched yet: {held}"))
        except (IndexBusy, IndexCorrupt, IOFailed) as error:
            why = f"Not indexed yet, but with the next pass: {error}"
            return replace(result, warnings=(*result.warnings, why))
        written = [each.uri for each in result.documents if each.action in ("created", "changed")]
        with self._store.snapshot() as snapshot:
            # What the policy keeps out was written and is not searched.
            found = all(snapshot.document(uri) is not None for uri in written)
        return replace(result, indexed=found)

    def _mend_edits(self) -> None:
        """Finish or take back an edit that a crash interrupted, before anything is read."""
        if not (self._store.folder / _EDITS / "journal.json").exists():
            return
        try:
            self._editor("").transactions.recover()
        except IOFailed:
            return  # Reading goes on all the same; the next edit will say what is wrong.

    # -- earlier states ----------------------------------------------------

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        """What is indexed; with ``check`` the disk is compared with it."""

        def stale_in(snapshot: StoredSnapshot) -> tuple[str, ...]:
            from lookfar.sources.folder.walk import walk

            self._walk = walk(
                self.root, policy_from(self.settings, self.root.path), before=self._walk
            )
            return freshness.differences(self._walk, snapshot.known(), snapshot.left_out())[1]

        fingerprint = epoch_fingerprint(self.settings, self.embedder)
        looked = stale_in if check and not self.sealed else None
        state = self._status(collection, self.root.path, fingerprint, looked)
        return replace(state, receipts=self.receipts.total())

    @cached_property
    def receipts(self) -> ReceiptBook:
        """What its answers cost whoever read them."""
        from lookfar.collections.receipts import ReceiptBook

        return ReceiptBook(self.index_dir)

    @property
    def _made_of(self) -> str:
        return self.root.path

    def _read_again(self, gone: list[str], on_progress: OnProgress | None) -> str:
        """Whoever follows the folder answers from what is sound meanwhile."""
        if self._keeper is None or self.held is not None:
            return super()._read_again(gone, on_progress)
        with suppress(IndexBusy):  # Then the pass that is under way reads them, or the next.
            self.start_index(only=gone)
        return f"; {len(gone):,} documents were damaged, are being read again and lack until then"

    def _maker(self) -> Maker:
        from lookfar.index.rederive import file_maker

        return file_maker(self.settings, self.embedder, self._lane)

    # -- its history -------------------------------------------------------------

    def histories(self, *, look: bool) -> dict[str, Commits]:
        """The commits of the repository that this folder is or lies in, under ``""``; with
        ``look``, which takes a walk, also of those below it, by their URI.
        """
        if not self.settings.git.history or self.sealed:
            return {}
        from lookfar.collections.commits import Commits
        from lookfar.sources.git.repositories import find_repository, is_there

        trusted = self.settings.git.trusted
        around = find_repository(self.root.path, trusted)
        if around is None and look:
            self._look_below()
        gone: list[Commits] = []
        with self._settling:
            below = self._repositories if around is None else {}
            found = {
                uri: repository
                for uri, repository in below.items()
                if is_there(repository, self.root.path, trusted)
            }
            if around is not None:
                found = {"": around}
            for uri, known in list(self._histories.items()):
                if found.get(uri) != known.repository:
                    gone.append(self._histories.pop(uri))
            for uri, repository in found.items():
                if uri not in self._histories:
                    self._histories[uri] = Commits(
                        repository, self.name, self.settings, lambda: self.embedder
                    )
            current = dict(self._histories)
        for each in gone:
            each.close()
        return current

    def _look_below(self) -> None:
        """Find repositories below, again where folders may have come since."""
        from lookfar.sources.folder.walk import walk
        from lookfar.sources.git.repositories import repositories_in

        known, now = self._walk, time.monotonic()
        if known is not None and known is self._looked_in and now < self._look_at:
            return
        if known is None or (known is self._looked_in and self._keeper is None):
            # Else a pass has walked, and will again when a folder comes.
            policy = policy_from(self.settings, self.root.path)
            self._walk = known = walk(self.root, policy, before=known)
        trusted = self.settings.git.trusted
        found = dict(repositories_in(self.root.path, known.memory.folders, trusted))
        with self._settling:
            self._repositories = found
        self._looked_in, self._look_at = known, now + _LOOK_BELOW

    def _follow_histories(self) -> None:
        """With the keeper, once the folder itself is indexed."""
        if self.watch_wanted and not self._closing:
            for each in self.histories(look=True).values():
                each.watch()

    # -- what is remembered of it ------------------------------------------------

    @property
    def memory_folder(self) -> Path:
        """Where memories of this folder lie, or would."""
        return config.memory_folder(self.settings, self.root.path)

    def memories(self) -> Memories | None:
        """The memories of this folder, as soon as there is a folder for them."""
        chosen, here = self.settings.memory, _identity(self.memory_folder)
        with self._settling:
            former, found = None, self._memories
            if here != self._memories_at:
                # Another folder was chosen, or another one lies there now.
                former, found = found, None
                if here is not None and not self._closing:
                    from lookfar.collections.memories import Memories

                    name = "user@memory" if chosen.scope == "user" else f"{self.name}@memory"
                    found = Memories(
                        Root.open(here[0]), name, self._resolve, self._settings_files,
                        lambda: self.embedder,
                    )  # fmt: skip
                self._memories, self._memories_at = found, here
        if former is not None:
            former.close()
        if found is not None and self.watch_wanted and not found.watch_wanted:
            found.watch()
        return found

    # -- what programs inserted --------------------------------------------------

    def database(self, name: str) -> Documents:
        """A database of inserted documents, there or not, by the settings and with the model of
        this folder."""
        from lookfar.collections.databases import Documents

        with self._settling:
            found = self._databases.get(name)
            if found is None or found.settings != self.settings:
                if found is not None:
                    found.close()
                found = Documents(name, self.settings, lambda: self.embedder)
                self._databases[name] = found
            return found

    # -- leaving -----------------------------------------------------------

    def _others(self) -> list[Commits | Memories | Documents]:
        """The collections that come with this one."""
        memories = [self._memories] if self._memories is not None else []
        return [*self._histories.values(), *memories, *self._databases.values()]

    def rest(self) -> None:
        """Let go of what a question can load again: the model and what was read of the index."""
        for each in self._others():
            each.rest()
        self._walk = None
        super().rest()

    def close(self) -> None:
        """Stop following the disk and building, and let go of the index files."""
        self._closing = True
        self.unwatch()
        if self._background is not None:
            self._background.join()
        if self._scrubber is not None:
            self._scrubber.join(_STOP_SECONDS)
        for each in self._others():
            each.close()
        self.receipts.close()
        self._store.close()


def _still(dirty: frozenset[str], left: frozenset[str]) -> frozenset[str]:
    """Which names are left, by themselves or with all that lies in a folder."""
    folders = tuple(each for each in left if each.endswith("/"))
    return frozenset(each for each in dirty if each in left or each.startswith(folders))


def _plain(path: str) -> str:
    """A relative path as people type it, as a URI."""
    plain = path.replace(os.sep, "/").rstrip("/")
    while plain.startswith("./"):
        plain = plain[2:].lstrip("/")
    return plain


def _identity(folder: Path) -> tuple[str, int, int] | None:
    """Which folder lies at a path: its real path and what the disk calls it, or none."""
    real = os.path.realpath(folder)
    try:
        info = os.stat(real)
    except OSError:
        return None
    return (real, info.st_dev, info.st_ino) if os.path.isdir(real) else None


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """What the disk says of some files, to notice that one was edited, made or removed."""

    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            info = path.stat(follow_symlinks=False)
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    return tuple(map(stamp, files))

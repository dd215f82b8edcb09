"""What is remembered of a folder, as a collection: Markdown files in a lane of their own.

Takes: the folder that memories are about and theirs, which :mod:`lookfar.edit.memories`
writes. Gives: the same index, watcher and snapshots as any folder, who mentions a document,
and which memories cite what changed since. Refuses: to write anything, and to follow links
of memories anywhere but into memories and the folders they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from lookfar.collections.folder import Folder
from lookfar.edit.memories import MemoryFolder
from lookfar.edit.memory_file import MAX_BYTES
from lookfar.errors import IOFailed
from lookfar.index.recipe import secrets_from
from lookfar.retrieve.neighbours.mentions import find_mentions, read_front_matter, resolve_outgoing
from lookfar.sources.confine import Refused
from lookfar.store.catalogue.link_names import link_name
from lookfar.text.parse.markdown import parse

if TYPE_CHECKING:
    from pathlib import Path

    from lookfar.config import Settings
    from lookfar.model import RelatedEntry
    from lookfar.ports import Embedder
    from lookfar.sources.confine import Root
    from lookfar.store.shared.snapshot import StoredSnapshot

_DIGITS = 16
"""Of the hash of a document, kept with the memory that cites it."""
_MOST_CHECKED = 1_000


class Memories(Folder):
    """The memories of one project or user. May be shared by threads."""

    kind = "memory"

    def __init__(
        self,
        root: Root,
        name: str,
        resolve: Callable[[], Settings],
        settings_files: tuple[Path, ...],
        embedder: Callable[[], Embedder | None],
    ) -> None:
        """``resolve`` gives the settings of the folder they are about, ``embedder`` its model."""

        def own() -> Settings:
            return _settings_of(resolve())

        super().__init__(root, own(), own, settings_files, lane="memory")
        self.name = name
        self._embedder = embedder

    def _open_embedder(self) -> Embedder | None:
        return self._embedder()

    def memories(self) -> None:
        """Nothing is remembered of memories."""

    @property
    def recent(self) -> tuple[float, float]:
        """For how many days a memory counts more, and how much."""
        return self.settings.memory.recent_days, self.settings.memory.recent_factor

    # -- its links -----------------------------------------------------------

    def refresh(self) -> None:
        """Index what was written since."""
        self._freshen(None)

    def mentioning(self, home: Folder, uri: str, limit: int) -> tuple[list[RelatedEntry], int]:
        """The memories that link to a document of ``home``, there or not, and how many."""
        self.refresh()
        with _snapshot(self) as ours, _snapshot(home) as theirs:
            return find_mentions(ours, theirs, uri, limit)

    def led_out(self, home: Folder, uri: str) -> dict[str, tuple[str, str]]:
        """URI and title of what a memory links to in ``home``, by target as written."""
        if not home.indexed:
            return {}
        with _snapshot(self) as ours, _snapshot(home) as theirs:
            return resolve_outgoing(ours, theirs, uri)

    def changed_since(self, homes: Sequence[Folder], uri: str) -> tuple[str, ...]:
        """The documents that a memory cites and that changed or went since it was written.

        By their hash, where the memory was written with it; and only what is newer than the
        memory: whoever edited it afterwards has seen them.
        """
        with _snapshot(self) as ours:
            known = ours.document(uri)
            said = read_front_matter(ours, uri).get("cites", {})
        if known is None:
            return ()
        found: dict[str, None] = {}
        for home in homes:
            cited = _cited_in(home, said)
            # A memory that serves several projects says which of them it means.
            linked = [target for target, _ in self.led_out(home, uri).values()]
            shared = home.settings.memory.scope == "user"
            for target in dict.fromkeys((*cited, *(() if shared else linked))):
                now = digest_of(home, target)
                newer = not now or _newer(home, target, known["mtime_ns"])
                if newer and now != cited.get(target):
                    found[target] = None
        return tuple(found)


def notebook(folder: Folder, homes: Sequence[Folder]) -> MemoryFolder:
    """Where memories of ``folder`` are written; what they cite is looked up in ``homes``.

    Documents that change while a question is answered are not waited for: a hash is of the
    moment of writing.
    """

    def cites(text: str) -> dict[str, str]:
        found: dict[str, str] = {}
        links = [
            (link_name("", link.kind, link.target), link.kind, link.target)
            for link in parse("memory.md", text).links
        ]
        for home in homes if links else ():
            if not home.indexed:
                continue
            with _snapshot(home) as snapshot:
                meant = snapshot.meant(link for link in links if link[0])
            for uri, _ in meant.values():
                digest = digest_of(home, uri)
                if digest:
                    found[_key(home, uri)] = digest
        return found

    secrets = secrets_from(folder.settings)
    return MemoryFolder(folder.memory_folder, cites=cites, secrets=secrets)


def _key(home: Folder, uri: str) -> str:
    """What a cited document is called: memories of the user have those of many projects."""
    return f"{home.root.path}/{uri}" if home.settings.memory.scope == "user" else uri


def _cited_in(home: Folder, said: object) -> dict[str, object]:
    """The documents of a folder that a memory cites, with their hashes then."""
    cites: Mapping[str, object] = said if isinstance(said, dict) else {}
    inside = _key(home, "")
    return {uri.removeprefix(inside): cites[uri] for uri in cites if uri.startswith(inside)}


def digest_of(home: Folder, uri: str) -> str:
    """The beginning of the hash of a document as the disk has it; empty where it has none."""
    try:
        text = home.readable(uri)
    except (Refused, ValueError):
        return ""
    return sha256(text.encode("utf-8")).hexdigest()[:_DIGITS] if text is not None else ""


def _newer(home: Folder, uri: str, than: int) -> bool:
    try:
        info = home.root.stat(uri)
    except (Refused, IOFailed):
        return True
    return info is None or info.mtime_ns >= than


@contextmanager
def _snapshot(folder: Folder) -> Iterator[StoredSnapshot]:
    with folder._store.snapshot() as snapshot:
        yield snapshot


def _settings_of(settings: Settings) -> Settings:
    """Those of a folder, for its memories: Markdown, all of it, whatever else is left out."""
    watch = settings.watch
    return replace(
        settings,
        sources=replace(
            settings.sources,
            include=("*.md",),
            exclude=(),
            respect_ignore_files=False,
            max_file_bytes=MAX_BYTES,
        ),
        index=replace(settings.index, check_every_searches=1, max_auto_files=_MOST_CHECKED),
        git=replace(settings.git, history=False),
        # Nobody commits them, so no commit can be waited for.
        watch=replace(watch, strategy="realtime" if watch.strategy == "git" else watch.strategy),
    )

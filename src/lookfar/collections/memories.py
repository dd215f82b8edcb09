"""The memories of a project or a user, as a collection: Markdown files of the kind ``memory``.

:mod:`lookfar.edit.memories` writes them. Their links are followed into other memories and into
the folders they are about, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from lookfar.collections.collection import OpenModel
from lookfar.collections.file_collection import Files
from lookfar.config import Settings
from lookfar.edit.memories import MemoryFolder
from lookfar.edit.memory_file import MAX_BYTES, Memory, NearMemory
from lookfar.errors import IOFailed
from lookfar.index.recipe import secrets_from
from lookfar.model import Filters, RelatedEntry
from lookfar.ports import Embedder, Snapshot
from lookfar.retrieve.neighbours.mentions import find_mentions, read_front_matter, resolve_outgoing
from lookfar.sources.confine import Refused, Root
from lookfar.store.catalogue.link_names import link_name
from lookfar.text.parse.markdown import parse

_DIGEST_LENGTH = 16
"""Characters of a document's hash that are stored in a memory that cites it."""
_MOST_CHECKED = 1_000


class Memories(Files):
    kind = "memory"

    def __init__(
        self,
        root: Root,
        name: str,
        load_settings: Callable[[], Settings],
        settings_files: tuple[Path, ...],
        open_model: OpenModel,
    ) -> None:
        """``load_settings`` and ``open_model`` are those of the folder the memories are about."""

        def load() -> Settings:
            return _adapt_settings(load_settings())

        super().__init__(root, load(), load, settings_files, "memory", open_model)
        self.name = name

    @property
    def recent(self) -> tuple[float, float]:
        return self.settings.memory.recent_days, self.settings.memory.recent_factor

    def refresh(self) -> None:
        """Index what was written since."""
        self.freshen()

    def find_superseding(self, uri: str) -> str:
        """Return the URI of the memory that supersedes this one; empty if none does."""
        with self.store.snapshot() as snapshot:
            return snapshot.superseded().get(uri, "")

    def find_near(self, memory: Memory) -> tuple[NearMemory, ...]:
        """Return the memories with a sentence close in meaning to one of a new memory.

        Those that are superseded, and those that the new one supersedes, are not among them.
        """
        if self.embedder is None:
            return ()
        self.refresh()
        with self.store.snapshot() as snapshot:
            skipped = {memory.name, *memory.supersedes, *snapshot.superseded()}
            return find_near_memories(memory, snapshot, self.embedder, skipped)

    def find_mentions(self, home: Files, uri: str, limit: int) -> tuple[list[RelatedEntry], int]:
        """Return the memories that link to a document of ``home``, and how many there are.

        The document need not exist.
        """
        self.refresh()
        with self.store.snapshot() as ours, home.store.snapshot() as theirs:
            return find_mentions(ours, theirs, uri, limit)

    def outgoing_links(self, home: Files, uri: str) -> dict[str, tuple[str, str]]:
        """Return URI and title of what a memory links to in ``home``, by target as written."""
        if not home.indexed:
            return {}
        with self.store.snapshot() as ours, home.store.snapshot() as theirs:
            return resolve_outgoing(ours, theirs, uri)

    def changed_since(self, homes: Sequence[Files], uri: str) -> tuple[str, ...]:
        """Return the cited documents that changed or were deleted since a memory was written.

        They are compared by the hash stored in the memory. A document older than the memory does
        not count: the last editor of the memory has seen it.
        """
        with self.store.snapshot() as ours:
            row = ours.document(uri)
            cites = read_front_matter(ours, uri).get("cites", {})
        if row is None:
            return ()
        changed: dict[str, None] = {}
        for home in homes:
            cited = _cited_in(home, cites)
            # A memory of the user serves several projects: only its citations name the project.
            shared = home.settings.memory.scope == "user"
            linked = [] if shared else [t for t, _ in self.outgoing_links(home, uri).values()]
            for target in dict.fromkeys((*cited, *linked)):
                digest = digest_document(home, target)
                newer = not digest or _is_newer(home, target, row["mtime_ns"])
                if newer and digest != cited.get(target):
                    changed[target] = None
        return tuple(changed)


def open_notebook(folder: Files, place: Path, homes: Sequence[Files]) -> MemoryFolder:
    """Return the memories at ``place`` as files; documents they cite are looked up in ``homes``.

    The stored hash is that of the moment of writing: nothing waits for the index.
    """

    def find_citations(text: str) -> dict[str, str]:
        citations: dict[str, str] = {}
        links = [
            (link_name("", link.kind, link.target), link.kind, link.target)
            for link in parse("memory.md", text).links
        ]
        for home in homes if links else ():
            if not home.indexed:
                continue
            with home.store.snapshot() as snapshot:
                resolved = snapshot.resolve_links(link for link in links if link[0])
            for uri, _ in resolved.values():
                digest = digest_document(home, uri)
                if digest:
                    citations[_citation_key(home, uri)] = digest
        return citations

    return MemoryFolder(place, cites=find_citations, secrets=secrets_from(folder.settings))


def _citation_key(home: Files, uri: str) -> str:
    """Return the name of a cited document: absolute in memories of the user."""
    return f"{home.root.path}/{uri}" if home.settings.memory.scope == "user" else uri


def _cited_in(home: Files, cites: object) -> dict[str, object]:
    """Return the cited documents of one folder, with the hashes they had."""
    hashes: Mapping[str, object] = cites if isinstance(cites, dict) else {}
    prefix = _citation_key(home, "")
    return {key.removeprefix(prefix): hashes[key] for key in hashes if key.startswith(prefix)}


def digest_document(home: Files, uri: str) -> str:
    """Return the start of the hash of a document on the disk; empty if it cannot be read."""
    try:
        text = home.readable(uri)
    except (Refused, ValueError):
        return ""
    return sha256(text.encode("utf-8")).hexdigest()[:_DIGEST_LENGTH] if text is not None else ""


def _is_newer(home: Files, uri: str, mtime_ns: int) -> bool:
    try:
        info = home.root.stat(uri)
    except (Refused, IOFailed):
        return True
    return info is None or info.mtime_ns >= mtime_ns


def _adapt_settings(settings: Settings) -> Settings:
    """Return a folder's settings for its memories: all Markdown files, whatever it excludes."""
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
        # Memories are not committed, so no commit would ever make them due.
        watch=replace(watch, strategy="realtime" if watch.strategy == "git" else watch.strategy),
    )


CLOSE: Final = 0.45
"""The least cosine of two sentences, for the bundled model: of twenty pairs of contradicting
statements on one subject 90% are closer, and of 760 pairs on different subjects none."""
_CANDIDATES: Final = 10
_MOST_SENTENCES: Final = 40
_MOST_NAMED: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_LEAST_LETTERS: Final = 8


def find_near_memories(
    memory: Memory, snapshot: Snapshot, embedder: Embedder, skipped: Collection[str]
) -> tuple[NearMemory, ...]:
    """Return the nearest memories, nearest first; without those in ``skipped``."""
    own = _split(memory.text)
    if not own:
        return ()
    vectors = embedder.embed(own)
    candidates: dict[str, str] = {}
    hits = snapshot.vector_search(
        embedder.embed([memory.text])[0], _CANDIDATES + len(skipped), Filters()
    )
    for place, _ in hits:
        text = snapshot.text(place.uri) if place.uri not in skipped else None
        if text is not None and len(candidates) < _CANDIDATES:
            candidates.setdefault(place.uri, text[place.start : place.end])
    near = []
    for uri, text in candidates.items():
        sentences = _split(text)
        if not sentences:
            continue
        similarities = (embedder.embed(sentences) @ vectors.T).max(axis=1)
        best = int(similarities.argmax())
        if similarities[best] >= CLOSE:
            title = str((snapshot.document(uri) or {}).get("title") or uri)
            similarity = round(float(similarities[best]), 3)
            near.append(NearMemory(uri, title, sentences[best], similarity))
    near.sort(key=lambda item: (-item.similarity, item.name))
    return tuple(near[:_MOST_NAMED])


def _split(text: str) -> list[str]:
    parts = (part.strip(" #*->") for part in _SENTENCE.split(text))
    sentences = [part for part in parts if sum(map(str.isalpha, part)) >= _LEAST_LETTERS]
    return sentences[:_MOST_SENTENCES]

"""A folder of memories: Markdown files with front matter that people may edit with any editor.

    FOLDER/why-we-retry.md                    a memory
    FOLDER/.trash/why-we-retry.000003.md      an earlier or deleted version of it
    FOLDER/.trash/journal.jsonl               who did what, and when

A writer holds the lock of the folder, across threads and processes, and replaces whole files.
The replaced version goes to the trash first, so every write can be undone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lookfar.common.folders import list_folder
from lookfar.common.properties import read_moment
from lookfar.edit.memory_file import (
    MAX_TAGS,
    MAX_TITLE,
    SUFFIX,
    TYPES,
    Memory,
    append_text,
    build_memory,
    check_name,
    check_size,
    check_status,
    check_tags,
    check_text,
    check_type,
    clean_author,
    edit_memory,
    encode,
    first_words,
    mark_superseded,
    match_name,
    one_line,
    parse_memory,
    read_cites,
    version_name,
)
from lookfar.edit.memory_listing import TRASH, MemoryListing, Trashed
from lookfar.errors import IndexBusy, InvalidArgument, IOFailed, NotFound
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, copies_mask
from lookfar.sources.secrets.values import MASK
from lookfar.store.ground import files

_MAX_CITED: Final = 50
_LOCK_SECONDS: Final = 30.0
_TRIES: Final = 20
_LOCK: Final = ".memories.lock"


@dataclass(frozen=True, slots=True)
class MemoryStats:
    total: int
    by_type: Mapping[str, int]
    by_status: Mapping[str, int]
    by_tag: Mapping[str, int]
    bytes: int
    trashed: int


class MemoryFolder(MemoryListing):
    """The memories of one folder, which is created by the first write."""

    def __init__(
        self,
        folder: str | Path,
        *,
        cites: Callable[[str], Mapping[str, str]] = lambda _: {},
        clock: Callable[[], float] = time.time,
        secrets: Secrets = NO_EXCEPTIONS,
    ) -> None:
        """``cites`` returns the documents that a text links to, each with its current hash. The
        hashes are stored with the memory, to tell later which documents changed. ``secrets``
        are masked in everything returned; the files keep them.
        """
        super().__init__(folder)
        self._cites = cites
        self._clock = clock
        self._secrets = secrets

    # -- reading -----------------------------------------------------------

    def read(self, name: str) -> Memory:
        """Return a memory by its file name, with or without suffix."""
        existing = self._find(name)
        memory = self._masked_memory(existing, self._bytes(existing))
        return mark_superseded([*self._all(), memory])[-1]

    def memories(
        self, *, type: str = "", tags: Iterable[str] = (), status: str = ""
    ) -> list[Memory]:
        """Return the memories that match, by name; unreadable files are skipped."""
        wanted = {tag.casefold() for tag in tags}
        return [
            memory
            for memory in mark_superseded(self._all())
            if type in ("", memory.type)
            and status in ("", memory.status)
            and wanted <= {tag.casefold() for tag in memory.tags}
        ]

    def _all(self) -> list[Memory]:
        memories = []
        for name in self._names():
            try:
                memories.append(self._masked_memory(name, self._bytes(name)))
            except (NotFound, IOFailed, InvalidArgument):
                continue  # Just deleted, a symbolic link, or too large.
        return memories

    def trash(self) -> list[Trashed]:
        return self._trash.entries()

    def stats(self) -> MemoryStats:
        """Count memories by type, status and tag; the most frequent tags come first."""
        memories = self.memories()
        tags = Counter(tag for memory in memories for tag in memory.tags)
        types = Counter(memory.type or "none" for memory in memories)
        statuses = Counter(memory.status or "none" for memory in memories)
        return MemoryStats(
            total=len(memories),
            by_type=dict(sorted(types.items())),
            by_status=dict(sorted(statuses.items())),
            by_tag=dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))),
            bytes=sum(len(memory.text.encode("utf-8", "replace")) for memory in memories),
            trashed=len({item.name for item in self.trash() if item.deleted}),
        )

    # -- writing -----------------------------------------------------------

    def create(
        self,
        text: str,
        *,
        title: str = "",
        name: str = "",
        type: str = "fact",
        status: str = "active",
        tags: Iterable[str] = (),
        author: str = "",
        supersedes: Iterable[str] = (),
        valid_since: str = "",
    ) -> Memory:
        """Create a memory; without a ``name``, its title or first words name the file.

        ``supersedes`` names memories that it replaces: they are kept, and hidden from answers.
        ``valid_since`` is a date or a time; by default it is valid from now on.
        """
        body = check_text(text)
        title = one_line(title, MAX_TITLE)
        now = self._now()
        values = {
            **({"title": title} if title else {}),
            **self._validity(supersedes, valid_since, now),
            "type": check_type(type),
            "status": check_status(status),
            "tags": check_tags(tags),
            "created_at": now,
            "updated_at": now,
            "author": clean_author(author),
            **self._cited(body),
        }
        raw = build_memory(values, body)
        with self._writing():
            words = self._secrets.masked("", title or first_words(body)).text
            new_name = self._choose_name(name, words)
            self._write(new_name, raw)
            self._log("create", new_name, author)
        return self._describe_written(new_name, raw)

    def _validity(self, supersedes: Iterable[str], since: str, now: str) -> dict[str, Any]:
        """Return the front matter that says what a memory replaces, and since when it is valid."""
        if isinstance(supersedes, str):
            raise InvalidArgument("supersedes is a str.", hint="Pass a list of names.")
        replaced = list(dict.fromkeys(map(self._find, supersedes)))
        if since and read_moment(since) is None:
            raise InvalidArgument(
                f"{since[:40]!r} is not a date.",
                hint="Use a date such as 2026-01-31, or add a time.",
            )
        if not replaced and not since:
            return {}
        return {
            **({"supersedes": replaced} if replaced else {}),
            "valid_since": since or now,
        }

    def update(
        self,
        name: str,
        text: str | None = None,
        *,
        type: str = "",
        status: str = "",
        tags: Iterable[str] | None = None,
        author: str = "",
    ) -> Memory:
        """Replace the text, parts of the front matter, or both."""
        body = None if text is None else check_text(text)
        values: dict[str, Any] = {}
        if type:
            values["type"] = check_type(type)
        if status:
            values["status"] = check_status(status)
        if tags is not None:
            values["tags"] = check_tags(tags)

        def change(raw: bytes) -> bytes:
            if body is not None:
                self._refuse_mask(raw, body)
            new_text = parse_memory("", raw).text if body is None else body
            return edit_memory(raw, values, self._stamps(author, new_text, raw), body)

        return self._change("update", name, change, author)

    def append(self, name: str, text: str, *, author: str = "") -> Memory:
        """Add a paragraph at the end; the existing text is not touched."""
        body = check_text(text)

        def change(raw: bytes) -> bytes:
            new_text = f"{parse_memory('', raw).text}\n\n{body}"
            return append_text(raw, self._stamps(author, new_text, raw), body)

        return self._change("append", name, change, author)

    def delete(self, name: str, *, author: str = "") -> int:
        """Move a memory to the trash, and return its version number there."""
        with self._writing():
            existing = self._find(name)
            version = self._move_to_trash(existing)
            self._log("delete", existing, author)
        return version

    def restore(self, name: str, *, version: int | None = None, author: str = "") -> Memory:
        """Restore a deleted memory, or an earlier version of an existing one.

        The current version goes to the trash, so restoring twice changes nothing.
        """
        with self._writing():
            wanted = check_name(name)
            versions, names = self._trash.versions(), self._names()
            existing = match_name(wanted, names)
            # Versions of other existing memories are not candidates, even with a similar name.
            ours = [other for other in versions if other == existing or other not in names]
            stored = wanted if wanted in ours else match_name(existing or wanted, ours) or wanted
            numbers = versions.get(stored, [])
            if not numbers or (version is not None and version not in numbers):
                raise NotFound(
                    f"{wanted!r} is not in the trash"
                    + (f" with version {version}." if version else "."),
                    hint=f"In the trash: {', '.join(sorted(versions)[:10]) or 'nothing'}.",
                    details={"candidates": sorted(versions)[:10], "versions": numbers},
                )
            number = numbers[-1] if version is None else version
            raw = self._bytes(f"{TRASH}/{version_name(stored, number)}")
            if stored == wanted and not os.path.lexists(self.folder / wanted):
                existing = None  # This file system distinguishes case, so it is another memory.
            if existing is not None:
                self._trash.add(existing, self._bytes(existing))
            self._write(existing or stored, raw)
            self._trash.remove(stored, number)
            self._log("restore", existing or stored, author)
        return self._describe_written(existing or stored, raw)

    def merge(
        self,
        sources: Sequence[str],
        name: str,
        text: str,
        *,
        type: str = "",
        author: str = "",
    ) -> Memory:
        """Replace several memories with one that has all their tags; they go to the trash.

        ``name`` must be one of the sources or unused.
        """
        body = check_text(text)
        with self._writing():
            names = list(dict.fromkeys(map(self._find, sources)))
            if not names:
                raise InvalidArgument("There is nothing to merge.", hint="Name some memories.")
            contents = {source: self._bytes(source) for source in names}
            merged = [parse_memory(source, raw) for source, raw in contents.items()]
            self._refuse_mask(b"\n".join(contents.values()), body)
            types = Counter(memory.type for memory in merged if memory.type in TYPES)
            now = self._now()
            values = {
                "type": check_type(type or (types.most_common(1) or [("fact", 0)])[0][0]),
                "status": "active",
                "tags": check_tags(tag for memory in merged for tag in memory.tags)[:MAX_TAGS],
                "created_at": now,
                "updated_at": now,
                "author": clean_author(author),
                "merged_from": names,
                **self._cited(body),
            }
            raw = check_size(build_memory(values, body))
            into = match_name(check_name(name), self._names())
            if into in names:
                self._trash.add(into, self._bytes(into))
            else:
                into = self._choose_name(name, "")
            # The new file comes first: if the process dies, nothing is lost.
            self._write(into, raw)
            for source in names:
                if source != into:
                    self._move_to_trash(source)
            self._log("merge", into, author, sources=names)
        return self._describe_written(into, raw)

    # -- one write ---------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of the folder, across threads and processes."""
        files.make_folder(self.folder)
        self._trash.make_folder()
        with files.WriterLock(self.folder / _LOCK) as lock:
            lock.acquire(
                _LOCK_SECONDS,
                "Another process is writing memories.",
                "Try again; nothing was changed.",
            )
            self._remove_unfinished()
            yield

    def _remove_unfinished(self) -> None:
        """Remove temporary files of killed writers; only the holder of the lock writes them."""
        for folder in (self.folder, self.folder / TRASH):
            for path in list_folder(folder, ".*.tmp"):
                if path.name.lower().endswith(f"{SUFFIX}.tmp"):
                    files.remove(path)

    def _change(
        self, action: str, name: str, change: Callable[[bytes], bytes], author: str
    ) -> Memory:
        """Replace a file with the result of ``change``; retry if an editor saves it meanwhile."""
        with self._writing():
            existing = self._find(name)
            for _ in range(_TRIES):
                before = self._bytes(existing)
                raw = check_size(change(before))
                if self._bytes(existing) == before:
                    break
            else:
                raise IndexBusy(
                    f"Another program keeps changing {existing!r}.",
                    hint="Close it there and try again.",
                )
            self._trash.add(existing, self._bytes(existing))
            self._write(existing, raw)
            self._log(action, existing, author)
        return self._describe_written(existing, raw)

    def _describe_written(self, name: str, raw: bytes) -> Memory:
        """Return a memory that was just written, with a warning if it closes a loop."""
        memory = self._masked_memory(name, raw)
        # Without others that it supersedes, it cannot be part of a loop.
        return mark_superseded([*self._all(), memory])[-1] if memory.supersedes else memory

    def _masked_memory(self, name: str, raw: bytes) -> Memory:
        memory = parse_memory(name, raw)
        screened = self._secrets.masked(name, raw.decode("utf-8", "surrogateescape"))
        if not screened.findings:
            return memory
        masked = parse_memory(name, encode(screened.text))
        warnings = (*masked.warnings, *screened.warnings())
        return replace(masked, sha256=memory.sha256, warnings=warnings)

    def _refuse_mask(self, raw: bytes, body: str) -> None:
        """Raise if a text contains a mask where the file has a secret."""
        before = raw.decode("utf-8", "surrogateescape")
        if copies_mask(before, body) and self._secrets.masked("", before).findings:
            raise InvalidArgument(
                f"The text contains masked characters ({MASK * 4}). They hide a secret and would"
                " overwrite it.",
                hint="Append to the memory instead, or edit its file.",
                details={"reason": "masked"},
            )

    def _write(self, name: str, raw: bytes) -> None:
        files.write_atomic(self.folder / name, check_size(raw))

    def _move_to_trash(self, name: str) -> int:
        number = self._trash.add(name, self._bytes(name))
        files.remove(self.folder / name)
        return number

    def _log(self, action: str, name: str, author: str, **more: Any) -> None:
        self._trash.log(self._now(), action, name, author, **more)

    def _stamps(self, author: str, text: str, raw: bytes) -> dict[str, Any]:
        old = read_cites(raw)
        # A cited document that was deleted keeps its hash while the text names it.
        remaining = {uri: sha for uri, sha in old.items() if uri.rpartition("/")[2] in text}
        cited = self._cited(text, remaining) or ({"cites": {}} if old else {})
        return {"updated_at": self._now(), "updated_by": clean_author(author), **cited}

    def _cited(self, text: str, known: Mapping[str, str] | None = None) -> dict[str, Any]:
        cites = {**(known or {}), **self._cites(text)}
        return {"cites": dict(list(cites.items())[:_MAX_CITED])} if cites else {}

    def _now(self) -> str:
        when = datetime.fromtimestamp(self._clock(), UTC)
        return when.isoformat(timespec="seconds").replace("+00:00", "Z")

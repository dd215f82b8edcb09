"""Memories on disk: Markdown files with front matter, written so that nothing is ever lost.

Takes: a folder, and what somebody wants to keep. Gives: the memories in it, which people may
edit with anything that writes text. Refuses: names that could lead out of the folder, and to
touch front matter that it cannot read; the rest of such a file it changes all the same.

    FOLDER/why-we-retry.md                    a memory
    FOLDER/.trash/why-we-retry.000003.md      what it was before, or when it was deleted
    FOLDER/.trash/journal.jsonl               who did what, and when

Whoever writes holds the lock of the folder, over threads and processes, and replaces whole
files. What a write replaces goes to the trash first, so each can be taken back.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, get_args
from unicodedata import normalize

from lookfar.common.folders import list_folder, scan_folder
from lookfar.errors import (
    IndexBusy,
    InvalidArgument,
    IOFailed,
    NotFound,
    OutsideRoot,
)
from lookfar.sources.confine import Refused, Root
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, copies_mask
from lookfar.sources.secrets.values import MASK
from lookfar.store.ground import files
from lookfar.text.normalise import normalise
from lookfar.text.parse import frontmatter
from lookfar.text.parse.links import tag_names

MemoryType = Literal["plan", "journal", "fact", "observation", "reflection"]
TYPES: Final[tuple[MemoryType, ...]] = get_args(MemoryType)

STATUSES: Final = ("active", "archived")

MOST_BYTES: Final = 1 << 20
"""Larger files are not indexed, so none is made."""
_MOST_VERSIONS: Final = 20
_MOST_TAGS: Final = 50
_MOST_CITED: Final = 50
_LONGEST_TAG: Final = 100
_LONGEST_TITLE: Final = 200
_LONGEST_STEM: Final = 60
_LONGEST_NAME_BYTES: Final = 200
_PATIENCE: Final = 30.0
_TRIES: Final = 20
_TRASH: Final = ".trash"
_LOCK: Final = ".memories.lock"
_JOURNAL: Final = "journal.jsonl"
_ENDING: Final = ".md"
_VERSION: Final = re.compile(
    r"(?P<stem>.+)\.(?P<number>[0-9]{6,9})(?P<ending>\.[Mm][Dd])", re.DOTALL
)
_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
_ILLEGAL: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_NOT_IN_SLUGS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as its file has it; what the file does not say is empty."""

    name: str
    """Of the file, with its ending."""
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created_at: str
    updated_at: str
    author: str
    text: str
    """Without the front matter and the blank lines around it."""
    sha256: str
    """Of the file's bytes."""
    warnings: tuple[str, ...] = ()
    """What is wrong with its front matter, and which lines are masked."""


@dataclass(frozen=True, slots=True)
class Trashed:
    """A file in the trash: a memory that was deleted, or what one was before."""

    name: str
    version: int
    deleted: bool
    """There is no memory of that name now."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """How much is remembered."""

    total: int
    by_type: Mapping[str, int]
    by_status: Mapping[str, int]
    by_tag: Mapping[str, int]
    bytes: int
    trashed: int


class MemoryFolder:
    """The memories of one folder, which need not exist before something is written."""

    def __init__(
        self,
        folder: str | Path,
        *,
        cites: Callable[[str], Mapping[str, str]] = lambda _: {},
        clock: Callable[[], float] = time.time,
        secrets: Secrets = NO_EXCEPTIONS,
    ) -> None:
        """``cites`` says of a text which documents it links to, and what each is now: a hash
        that is kept with the memory, so that one can tell later what changed since. ``secrets``
        says what is masked in all that is given back; files keep what was written.
        """
        self.folder = Path(folder)
        self._cites = cites
        self._clock = clock
        self._secrets = secrets

    # -- reading -----------------------------------------------------------

    def read(self, name: str) -> Memory:
        """A memory by its file's name, with or without its ending."""
        found = self._found(name)
        return self._memory(found, self._bytes(found))

    def memories(
        self, *, type: str = "", tags: Iterable[str] = (), status: str = ""
    ) -> list[Memory]:
        """The memories that fit, by name; what cannot be read is left out."""
        wanted = {each.casefold() for each in tags}
        found = []
        for name in self._names():
            try:
                memory = self._memory(name, self._bytes(name))
            except (NotFound, IOFailed, InvalidArgument):
                continue  # It went this moment, or is a link or too large to be one.
            fits = type in ("", memory.type) and status in ("", memory.status)
            if fits and wanted <= {each.casefold() for each in memory.tags}:
                found.append(memory)
        return found

    def trash(self) -> list[Trashed]:
        """What is in the trash, by name and then the oldest first."""
        return [
            Trashed(name, number, not os.path.lexists(self.folder / name))
            for name, numbers in sorted(self._versions().items())
            for number in numbers
        ]

    def stats(self) -> MemoryStats:
        """Counts by type, status and tag; the most frequent tags come first."""
        memories = self.memories()
        tags = Counter(tag for each in memories for tag in each.tags)
        return MemoryStats(
            total=len(memories),
            by_type=dict(sorted(Counter(each.type or "none" for each in memories).items())),
            by_status=dict(sorted(Counter(each.status or "none" for each in memories).items())),
            by_tag=dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))),
            bytes=sum(len(each.text.encode("utf-8", "replace")) for each in memories),
            trashed=len({each.name for each in self.trash() if each.deleted}),
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
    ) -> Memory:
        """A new memory. Without a ``name`` the file is called after its title or first words."""
        body = _checked_text(text)
        title = _line(title, _LONGEST_TITLE)
        now = self._now()
        kept = {
            **({"title": title} if title else {}),
            "type": _checked_type(type),
            "status": _checked_status(status),
            "tags": _checked_tags(tags),
            "created_at": now,
            "updated_at": now,
            "author": _line(author, _LONGEST_TAG) or "unknown",
            **self._cited(body),
        }
        raw = _encoded(f"---\n{_block(kept)}---\n\n{body}\n")
        with self._writing():
            words = self._secrets.masked("", title or _first_words(body)).text
            chosen = self._free(name, words)
            self._put(chosen, raw)
            self._note("create", chosen, author)
        return self._memory(chosen, raw)

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
        """Replace the text, or some of the front matter, or both; the rest stays as it is."""
        body = None if text is None else _checked_text(text)
        asked: dict[str, Any] = {}
        if type:
            asked["type"] = _checked_type(type)
        if status:
            asked["status"] = _checked_status(status)
        if tags is not None:
            asked["tags"] = _checked_tags(tags)

        def changed(raw: bytes) -> bytes:
            if body is not None:
                self._refuse_mask(raw, body)
            whole = _memory("", raw).text if body is None else body
            return _edited(raw, asked, self._stamps(author, whole, raw), body)

        return self._change("update", name, changed, author)

    def append(self, name: str, text: str, *, author: str = "") -> Memory:
        """Add a paragraph at the end; what is there is not even read as Markdown."""
        body = _checked_text(text)

        def changed(raw: bytes) -> bytes:
            whole = f"{_memory('', raw).text}\n\n{body}"
            stamped = _edited(raw, {}, self._stamps(author, whole, raw), None)
            end = b"\r\n" if b"\r\n" in raw else b"\n"
            joint = end if stamped.endswith(b"\n") or not stamped else end * 2
            return stamped + joint + _encoded(body.replace("\n", end.decode())) + end

        return self._change("append", name, changed, author)

    def delete(self, name: str, *, author: str = "") -> int:
        """Move a memory into the trash; gives the number it has there."""
        with self._writing():
            found = self._found(name)
            version = self._to_trash(found, move=True)
            self._note("delete", found, author)
        return version

    def restore(self, name: str, *, version: int | None = None, author: str = "") -> Memory:
        """Bring a memory back as it was deleted, or as it was before its last change.

        What it is now goes to the trash in turn, so restoring twice changes nothing.
        """
        with self._writing():
            wanted = _checked_name(name)
            versions, names = self._versions(), self._names()
            now = _alike(wanted, names)
            # Those of other memories that live are theirs, however alike the names are.
            ours = [each for each in versions if each == now or each not in names]
            stored = wanted if wanted in ours else _alike(now or wanted, ours) or wanted
            numbers = versions.get(stored, [])
            if not numbers or (version is not None and version not in numbers):
                raise NotFound(
                    f"The trash has no {wanted!r}" + (f" number {version}." if version else "."),
                    hint=f"It has: {', '.join(sorted(versions)[:10]) or 'nothing'}.",
                    details={"candidates": sorted(versions)[:10], "versions": numbers},
                )
            number = numbers[-1] if version is None else version
            kept = self.folder / _TRASH / _version_name(stored, number)
            raw = self._bytes(f"{_TRASH}/{kept.name}")
            if stored == wanted and not os.path.lexists(self.folder / wanted):
                now = None  # What lives is another one, and this disk tells them apart.
            if now is not None:
                self._to_trash(now, move=False)
            self._put(now or stored, raw)
            files.remove(kept)
            self._note("restore", now or stored, author)
        return self._memory(now or stored, raw)

    def merge(
        self,
        sources: Sequence[str],
        name: str,
        text: str,
        *,
        type: str = "",
        author: str = "",
    ) -> Memory:
        """Make one memory of several, which go to the trash; it has the tags of all of them.

        ``name`` may be one of the sources, and must else be free.
        """
        body = _checked_text(text)
        with self._writing():
            found = list(dict.fromkeys(map(self._found, sources)))
            if not found:
                raise InvalidArgument("Nothing was named to merge.", hint="Name some memories.")
            contents = {each: self._bytes(each) for each in found}
            merged = [_memory(each, raw) for each, raw in contents.items()]
            self._refuse_mask(b"\n".join(contents.values()), body)
            types = Counter(each.type for each in merged if each.type in TYPES)
            now = self._now()
            kept = {
                "type": _checked_type(type or (types.most_common(1) or [("fact", 0)])[0][0]),
                "status": "active",
                "tags": _checked_tags(tag for each in merged for tag in each.tags)[:_MOST_TAGS],
                "created_at": now,
                "updated_at": now,
                "author": _line(author, _LONGEST_TAG) or "unknown",
                "merged_from": found,
                **self._cited(body),
            }
            raw = _fitting(_encoded(f"---\n{_block(kept)}---\n\n{body}\n"))
            into = self._lookup(_checked_name(name))
            if into in found:
                self._to_trash(into, move=False)
            else:
                into = self._free(name, "")
            # The new one first: whatever ends this half-way, nothing is missing.
            self._put(into, raw)
            for each in found:
                if each != into:
                    self._to_trash(each, move=True)
            self._note("merge", into, author, sources=found)
        return self._memory(into, raw)

    # -- one write ---------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Alone in the folder, over threads and processes."""
        files.make_folder(self.folder)
        trash = self.folder / _TRASH
        if trash.is_symlink():
            raise OutsideRoot(
                f"The trash of {self.folder.name!r} is a symbolic link.",
                hint="Replace .trash with a folder; nothing was changed.",
            )
        files.make_folder(trash)
        with files.WriterLock(self.folder / _LOCK) as lock:
            try:
                lock.acquire(_PATIENCE)
            except IndexBusy as busy:
                raise IndexBusy(
                    "Others are writing memories at this moment.",
                    hint="Try again; nothing was changed.",
                    developer=busy.developer,
                    details=busy.details,
                ) from busy
            self._remove_unfinished()
            yield

    def _remove_unfinished(self) -> None:
        """Remove what a killed writer left, inside the lock: nobody else writes such files."""
        for folder in (self.folder, self.folder / _TRASH):
            for path in list_folder(folder, ".*.tmp"):
                if path.name.lower().endswith(f"{_ENDING}.tmp"):
                    files.remove(path)

    def _change(
        self, what: str, name: str, changed: Callable[[bytes], bytes], author: str
    ) -> Memory:
        """Replace a file by what ``changed`` makes of it, also where an editor saves meanwhile."""
        with self._writing():
            found = self._found(name)
            for _ in range(_TRIES):
                before = self._bytes(found)
                raw = _fitting(changed(before))
                if self._bytes(found) == before:
                    break
            else:
                raise IndexBusy(
                    f"{found!r} changes all the time.", hint="Close it elsewhere and try again."
                )
            self._to_trash(found, move=False)
            self._put(found, raw)
            self._note(what, found, author)
        return self._memory(found, raw)

    def _memory(self, name: str, raw: bytes) -> Memory:
        """A memory as it may be shown: secrets that somebody wrote into it are masked."""
        memory = _memory(name, raw)
        screened = self._secrets.masked(name, raw.decode("utf-8", "surrogateescape"))
        if not screened.findings:
            return memory
        shown = _memory(name, _encoded(screened.text))
        warnings = (*shown.warnings, *screened.warnings())
        return replace(shown, sha256=memory.sha256, warnings=warnings)

    def _refuse_mask(self, raw: bytes, body: str) -> None:
        """Refuse a text in which a mask would stand where the file has a secret."""
        before = raw.decode("utf-8", "surrogateescape")
        if copies_mask(before, body) and self._secrets.masked("", before).findings:
            raise InvalidArgument(
                f"The text has masked characters ({MASK * 4}): they stand for a secret that is not"
                " shown, and would replace it.",
                hint="Append to the memory instead, or edit its file.",
                details={"reason": "masked"},
            )

    def _put(self, name: str, raw: bytes) -> None:
        files.write_atomic(self.folder / name, _fitting(raw))

    def _to_trash(self, name: str, *, move: bool) -> int:
        versions = self._versions()
        numbers = versions.get(name, [])
        # Some disks take names for one that differ in case: there, too, no number comes twice.
        alike = (each for each in versions if _folded(each) == _folded(name))
        number = max((max(versions[each]) for each in alike), default=0) + 1
        trash = self.folder / _TRASH
        files.write_atomic(trash / _version_name(name, number), self._bytes(name))
        if move:
            files.remove(self.folder / name)
        for old in numbers[: max(0, len(numbers) + 1 - _MOST_VERSIONS)]:
            files.remove(trash / _version_name(name, old))
        return number

    def _note(self, what: str, name: str, author: str, **more: Any) -> None:
        """Who did what: front matter that cannot be read cannot say it."""
        row = {"at": self._now(), "by": author or "unknown", "did": what, "name": name, **more}
        path = self.folder / _TRASH / _JOURNAL
        size = path.lstat().st_size if path.is_file() else 0
        files.append(path, size, json.dumps(row, ensure_ascii=True).encode() + b"\n")

    def _stamps(self, author: str, text: str, raw: bytes) -> dict[str, Any]:
        by = _line(author, _LONGEST_TAG) or "unknown"
        known = _parts(raw)[2].get("cites")
        cites: Mapping[str, str] = known if isinstance(known, dict) else {}
        # A document that is gone is still cited, as what it was.
        kept = {key: was for key, was in cites.items() if key.rpartition("/")[2] in text}
        cited = self._cited(text, kept) or ({"cites": {}} if cites else {})
        return {"updated_at": self._now(), "updated_by": by, **cited}

    def _cited(self, text: str, kept: Mapping[str, str] | None = None) -> dict[str, Any]:
        found = {**(kept or {}), **self._cites(text)}
        return {"cites": dict(list(found.items())[:_MOST_CITED])} if found else {}

    def _now(self) -> str:
        when = datetime.fromtimestamp(self._clock(), UTC)
        return when.isoformat(timespec="seconds").replace("+00:00", "Z")

    # -- names -------------------------------------------------------------

    def _names(self) -> list[str]:
        return [
            entry.name
            for entry in scan_folder(self.folder)
            if entry.name.lower().endswith(_ENDING)
            and not entry.name.startswith(".")
            and _is_text(entry.name)
            and entry.is_file(follow_symlinks=False)
        ]

    def _versions(self) -> dict[str, list[int]]:
        """The numbers in the trash by the name of their memory, rising."""
        found: dict[str, list[int]] = {}
        for entry in (entry.name for entry in scan_folder(self.folder / _TRASH)):
            match = _VERSION.fullmatch(entry)
            if match is not None and _is_text(entry) and not entry.startswith("."):
                name = match["stem"] + match["ending"]
                found.setdefault(name, []).append(int(match["number"]))
        return {name: sorted(numbers) for name, numbers in found.items()}

    def _lookup(self, name: str) -> str | None:
        """The file of that name, whichever way its letters are written."""
        return _alike(name, self._names())

    def _found(self, name: str) -> str:
        wanted = _checked_name(name)
        found = self._lookup(wanted)
        if found is None:
            near = get_close_matches(wanted, self._names(), n=3, cutoff=0.4)
            trashed = any(_folded(each) == _folded(wanted) for each in self._versions())
            hint = f"Nearest: {', '.join(near)}." if near else "List them: lookfar memory list."
            raise NotFound(
                f"There is no memory {wanted!r}.",
                hint="It is in the trash: restore it first." if trashed else hint,
                details={"candidates": near},
            )
        return found

    def _free(self, name: str, title: str) -> str:
        """The name of a new file: the one wished for, or one made of the title."""
        # Names in the trash are taken: whoever restores one wants that one.
        taken = {_folded(each) for each in (*self._names(), *self._versions())}
        alive = {_folded(each) for each in self._names()}
        if name:
            wanted = f"{_stem(_checked_name(name))}{_ENDING}"
            if _folded(wanted) in alive:
                raise InvalidArgument(
                    f"There is a memory {wanted!r} already.",
                    hint="Update it or append to it, or choose another name.",
                    details={"name": wanted},
                )
            return wanted
        stem, number = slug(title), 1
        while _folded(chosen := _numbered(stem, number)) in taken:
            number += 1
        return chosen

    def _bytes(self, name: str) -> bytes:
        """A file's bytes, read as everything is that people could have exchanged for a link."""
        try:
            return Root.open(self.folder).read(name, MOST_BYTES)[0]
        except Refused as refusal:
            raise NotFound(
                f"{name!r} cannot be read: {refusal.reason}.",
                hint="Look at the file; memories are plain files.",
                developer=f"{refusal.reason}: {refusal.detail}",
            ) from refusal


# --- names ----------------------------------------------------------------------------------------


def slug(title: str) -> str:
    """The stem of a file's name for a title: letters and digits of any script, and hyphens."""
    words = _NOT_IN_SLUGS.sub("-", normalize("NFKC", title).casefold())[:_LONGEST_STEM].strip("-")
    stem = normalize("NFC", words)
    while len(stem.encode("utf-8", "replace")) > _LONGEST_NAME_BYTES // 2:
        stem = stem[:-1].strip("-")
    if not stem or not _is_text(stem):
        return "memory"
    return f"{stem}-memory" if stem in _RESERVED else stem


def _numbered(stem: str, number: int) -> str:
    return f"{stem}{_ENDING}" if number == 1 else f"{stem}-{number}{_ENDING}"


def _stem(name: str) -> str:
    """A name without its ending, in whichever case that is written."""
    return name[: -len(_ENDING)] if name.lower().endswith(_ENDING) else name


def _version_name(name: str, number: int) -> str:
    """The ending stays as it is: of NAME.md and NAME.MD each has versions of its own."""
    stem = _stem(name)
    return f"{stem}.{number:06}{name[len(stem) :]}"


def _alike(name: str, names: Iterable[str]) -> str | None:
    """That name among others, or else the first whose letters are only written otherwise."""
    known = sorted(names)
    if name in known:
        return name
    return next((each for each in known if _folded(each) == _folded(name)), None)


def _folded(name: str) -> str:
    """A name as the least distinguishing of disks compares it."""
    return normalize("NFC", normalize("NFC", name).casefold())


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _checked_name(name: str) -> str:
    """A file's name with its ending, the one given or ours; ``OutsideRoot`` for a path."""
    wanted = normalize("NFC", name) if _is_text(name) else ""
    stem = _stem(wanted)
    if "/" in wanted or "\\" in wanted or stem in (".", ".."):
        raise OutsideRoot(
            f"{name[:100]!r} is a path.", hint="Memories have plain names, like why-we-retry.md."
        )
    wrong = (
        not stem
        or stem != stem.strip(" .")
        or _ILLEGAL.search(stem)
        or stem.split(".")[0].rstrip().casefold() in _RESERVED
        or len(stem.encode()) > _LONGEST_NAME_BYTES
        # In the trash it could not be told from a version of another.
        or _VERSION.fullmatch(f"{stem}{_ENDING}")
    )
    if wrong:
        raise InvalidArgument(
            f"{name[:100]!r} cannot be the name of a file everywhere.",
            hint="Use letters, digits, hyphens and spaces, like why-we-retry.md.",
        )
    return wanted if wanted != stem else f"{stem}{_ENDING}"


# --- values ---------------------------------------------------------------------------------------


def _checked_text(text: str) -> str:
    """A text as it is kept: ``\\n`` between lines and no blank lines around it."""
    kept = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not kept.strip():
        raise InvalidArgument("There is nothing to remember.", hint="Give some text.")
    if "\0" in kept or not _is_text(kept):
        raise InvalidArgument(
            "The text holds zero bytes or half of a character.", hint="Send valid Unicode text."
        )
    return kept


def _checked_type(type: str) -> str:
    if type not in TYPES:
        raise InvalidArgument(
            f"{type[:100]!r} is no type of memory.",
            hint=f"Use one of: {', '.join(TYPES)}.",
            details={"validOptions": list(TYPES)},
        )
    return type


def _checked_status(status: str) -> str:
    if status not in STATUSES:
        raise InvalidArgument(
            f"{status[:100]!r} is no status of a memory.",
            hint=f"Use one of: {', '.join(STATUSES)}.",
            details={"validOptions": list(STATUSES)},
        )
    return status


def _checked_tags(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise InvalidArgument("tags is a str.", hint="Pass a list of tags.")
    kept = list(dict.fromkeys(_line(each, _LONGEST_TAG).lstrip("#").strip("/ ") for each in tags))
    return [each for each in kept if each][:_MOST_TAGS]


def _line(text: str, longest: int) -> str:
    """A text in one line without what front matter could trip over."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.encode("utf-8", "replace").decode().split())[:longest].strip()


def _first_words(text: str) -> str:
    line = next((each.strip() for each in text.split("\n") if each.strip(" #")), "")
    return " ".join(line.split()[:8])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _fitting(raw: bytes) -> bytes:
    if len(raw) > MOST_BYTES:
        raise InvalidArgument(
            f"It would have {len(raw):,} bytes, more than the {MOST_BYTES:,} allowed.",
            hint="Make it shorter, or begin another memory.",
        )
    return raw


# --- front matter ---------------------------------------------------------------------------------


def _block(kept: Mapping[str, Any]) -> str:
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in kept.items())


def _scalar(value: Any) -> str:
    """A value in one line: JSON is YAML, and plain words need no quotes."""
    if isinstance(value, str) and re.fullmatch(r"[a-z]+", value) and value not in _NOT_WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


_NOT_WORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def _parts(raw: bytes) -> tuple[str, str, dict[str, Any], tuple[str, ...], str]:
    """Front matter and body as written, what the former says, what is wrong with it, its syntax."""
    text = raw.decode("utf-8", "surrogateescape")
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    block = frontmatter.split(plain)
    if block is None:
        return "", text, {}, (), ""
    at = 0
    for _ in range(plain.count("\n", 0, block.body)):
        at = text.index("\n", at) + 1
    at = at if plain[block.body - 1] == "\n" else len(text)
    said, warnings = frontmatter.parse(block.raw, block.syntax)
    return text[:at], text[at:], said, warnings, block.syntax


def _memory(name: str, raw: bytes) -> Memory:
    _, body, said, warnings, _ = _parts(raw)

    def word(key: str) -> str:
        value = said.get(key, "")
        return str(value) if isinstance(value, str | int | float) else ""

    text = normalise(body.encode("utf-8", "surrogateescape"))[0].strip("\n")
    heading = next((each.lstrip("# ") for each in text.split("\n") if each.startswith("# ")), "")
    return Memory(
        name=name,
        title=word("title") or heading or _stem(name),
        type=word("type"),
        status=word("status"),
        tags=tuple(dict.fromkeys(tag_names(said.get("tags", [])))),
        created_at=word("created_at"),
        updated_at=word("updated_at"),
        author=word("author"),
        text=text,
        sha256=sha256(raw).hexdigest(),
        warnings=warnings,
    )


def _edited(
    raw: bytes, asked: Mapping[str, Any], stamps: Mapping[str, Any], body: str | None
) -> bytes:
    """The file with other front matter and another body; what is not meant stays as it is.

    ``asked`` must be written or refused; ``stamps`` only where there is front matter to read.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidArgument(
            "It is written in UTF-16, and would be spoiled.", hint="Save it as UTF-8 first."
        )
    head, rest, said, warnings, syntax = _parts(raw)
    end = "\r\n" if "\r\n" in head + rest else "\n"
    if head:
        changed = _with_keys(head, {**asked, **stamps}, end)
        # Written YAML has more forms than lines and keys: what reads otherwise is not kept.
        holds = syntax == "yaml" and not warnings
        if holds and _parts(_encoded(changed))[2:4] == ({**said, **asked, **stamps}, ()):
            head = changed
        elif asked:
            why = warnings[0] if warnings else "it has a form that only people should edit"
            raise InvalidArgument(
                f"The front matter cannot be changed: {why}.",
                hint="Correct it by hand; the text can be changed all the same.",
            )
    elif asked:
        mark = "\ufeff" if rest.startswith("\ufeff") else ""
        block = f"---\n{_block({**asked, **stamps})}---\n\n".replace("\n", end)
        head, rest = mark + block, rest.removeprefix(mark)
    if body is not None:
        mark = "\ufeff" if not head and rest.startswith("\ufeff") else ""
        # Without a blank line before it, a text could read as front matter, or as a mark.
        blank = end if head or body.startswith(("---", "+++", "\ufeff")) else ""
        joint = "" if not head or head.endswith("\n") else end
        rest = mark + joint + blank + body.replace("\n", end) + end
    return _encoded(head + rest)


def _with_keys(head: str, kept: Mapping[str, Any], end: str) -> str:
    """Front matter with some keys set: their lines are replaced, or they come last."""
    lines = _LINES.findall(head)
    for key, value in kept.items():
        name = re.escape(key)
        own = re.compile(rf"(?:{name}|\"{name}\"|'{name}')[ \t]*:")
        row = f"{key}: {_scalar(value)}{end}"
        at = next((n for n, line in enumerate(lines[1:-1], 1) if own.match(line)), None)
        if at is None:
            lines.insert(len(lines) - 1, row)
            continue
        last = behind = at
        # The rest of a value: indented lines and items of a list, with blanks among them.
        while behind + 1 < len(lines) - 1 and _GOES_ON.match(lines[behind + 1]):
            behind += 1
            last = behind if _HOLDS.match(lines[behind]) else last
        lines[at : last + 1] = [row]
    return "".join(lines)


_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_GOES_ON: Final = re.compile(r"[ \t]|-(?:\s|$)|\s*(?:#.*)?$")
_HOLDS: Final = re.compile(r"[ \t]+[^\s#]|-(?:\s|$)")

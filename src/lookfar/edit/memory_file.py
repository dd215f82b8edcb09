"""The file of one memory: its name, and Markdown with front matter, which is read and rewritten.

An edit keeps every byte it does not have to change. Front matter that cannot be parsed is never
changed; the text below it can be.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, get_args
from unicodedata import normalize

from lookfar.common.properties import read_link
from lookfar.common.superseding import describe_loop, find_loops, find_superseded
from lookfar.errors import InvalidArgument, OutsideRoot
from lookfar.text.normalise import normalise
from lookfar.text.parse import frontmatter
from lookfar.text.parse.links import tag_names

SUFFIX: Final = ".md"
VERSION: Final = re.compile(
    r"(?P<stem>.+)\.(?P<number>[0-9]{6,9})(?P<ending>\.[Mm][Dd])", re.DOTALL
)
_MAX_STEM: Final = 60
_MAX_NAME_BYTES: Final = 200
_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
_ILLEGAL: Final = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_NOT_IN_SLUGS: Final = re.compile(r"[\W_]+")
MemoryType = Literal["plan", "journal", "fact", "observation", "reflection"]
TYPES: Final[tuple[MemoryType, ...]] = get_args(MemoryType)
STATUSES: Final = ("active", "archived")
MAX_BYTES: Final = 1 << 20
"""Larger files are not indexed, so none is written."""
MAX_TAGS: Final = 50
MAX_TITLE: Final = 200
_MAX_TAG: Final = 100
_YAML_CONSTANTS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_CONTINUES: Final = re.compile(r"[ \t]|-(?:\s|$)|\s*(?:#.*)?$")
_HAS_VALUE: Final = re.compile(r"[ \t]+[^\s#]|-(?:\s|$)")


def check_name(name: str) -> str:
    """Return a file name with its suffix; ``OutsideRoot`` for a path, else ``InvalidArgument``."""
    wanted = normalize("NFC", name) if is_unicode(name) else ""
    stem = stem_of(wanted)
    if "/" in wanted or "\\" in wanted or stem in (".", ".."):
        raise OutsideRoot(
            f"{name[:100]!r} is a path.", hint="Use a plain file name, like why-we-retry.md."
        )
    wrong = (
        not stem
        or stem != stem.strip(" .")
        or _ILLEGAL.search(stem)
        or stem.split(".")[0].rstrip().casefold() in _RESERVED
        or len(stem.encode()) > _MAX_NAME_BYTES
        # In the trash it would look like a version of another memory.
        or VERSION.fullmatch(f"{stem}{SUFFIX}")
    )
    if wrong:
        raise InvalidArgument(
            f"{name[:100]!r} is not a valid file name on every system.",
            hint="Use letters, digits, hyphens and spaces, like why-we-retry.md.",
        )
    return wanted if wanted != stem else f"{stem}{SUFFIX}"


def slug(title: str) -> str:
    """Return a file name without suffix for a title: letters and digits of any script, hyphens."""
    words = _NOT_IN_SLUGS.sub("-", normalize("NFKC", title).casefold())[:_MAX_STEM].strip("-")
    stem = normalize("NFC", words)
    while len(stem.encode("utf-8", "replace")) > _MAX_NAME_BYTES // 2:
        stem = stem[:-1].strip("-")
    if not stem or not is_unicode(stem):
        return "memory"
    return f"{stem}-memory" if stem in _RESERVED else stem


def numbered(stem: str, number: int) -> str:
    return f"{stem}{SUFFIX}" if number == 1 else f"{stem}-{number}{SUFFIX}"


def stem_of(name: str) -> str:
    """Return a name without its suffix, in any case."""
    return name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name


def version_name(name: str, number: int) -> str:
    """Return the name of a version in the trash; NAME.md and NAME.MD have separate versions."""
    stem = stem_of(name)
    return f"{stem}.{number:06}{name[len(stem) :]}"


def match_name(name: str, names: Iterable[str]) -> str | None:
    """Return the same name among others, or else the first that differs only in case or accents."""
    candidates = sorted(names)
    if name in candidates:
        return name
    return next((other for other in candidates if fold_name(other) == fold_name(name)), None)


def fold_name(name: str) -> str:
    """Fold a name as a file system does that ignores case and normalises accents."""
    return normalize("NFC", normalize("NFC", name).casefold())


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded, so it has no lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class NearMemory:
    """A memory with a sentence that is close in meaning to a new one, which may contradict it."""

    name: str
    title: str
    sentence: str
    similarity: float
    """Cosine of the nearest sentences, up to 1."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory; fields that its file does not set are empty."""

    name: str
    """File name with suffix."""
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created_at: str
    updated_at: str
    author: str
    text: str
    """Without front matter and without blank lines at both ends."""
    sha256: str
    """SHA-256 of the file's bytes."""
    warnings: tuple[str, ...] = ()
    """Problems of its front matter, and which lines are masked."""
    supersedes: tuple[str, ...] = ()
    """Names of the memories that it replaces."""
    valid_since: str = ""
    """Since when it is valid: as its file says, or else when it was created."""
    superseded_by: str = ""
    """Name of the memory that replaces it, if one does."""
    near: tuple[NearMemory, ...] = ()
    """Of a memory that was just written: others that it may contradict."""


class _Parts(NamedTuple):
    head: str
    """Front matter as written, with its delimiters."""
    body: str
    values: dict[str, Any]
    warnings: tuple[str, ...]
    syntax: str


def parse_memory(name: str, raw: bytes) -> Memory:
    parts = _split(raw)

    def text_value(key: str) -> str:
        value = parts.values.get(key, "")
        return str(value) if isinstance(value, str | int | float) else ""

    text = normalise(parts.body.encode("utf-8", "surrogateescape"))[0].strip("\n")
    heading = next((line.lstrip("# ") for line in text.split("\n") if line.startswith("# ")), "")
    return Memory(
        name=name,
        title=text_value("title") or heading or stem_of(name),
        type=text_value("type"),
        status=text_value("status"),
        tags=tuple(dict.fromkeys(tag_names(parts.values.get("tags", [])))),
        created_at=text_value("created_at"),
        updated_at=text_value("updated_at"),
        author=text_value("author"),
        text=text,
        sha256=sha256(raw).hexdigest(),
        warnings=parts.warnings,
        supersedes=tuple(_read_names(parts.values.get("supersedes"))),
        valid_since=text_value("valid_since") or text_value("created_at"),
    )


def _read_names(value: Any) -> list[str]:
    """Return the names in front matter, written as a text, a list or wikilinks."""
    items = value if isinstance(value, list) else [value]
    texts = [item.strip() for item in items if isinstance(item, str) and item.strip()]
    return [read_link(text) or text for text in texts]


def mark_superseded(memories: Sequence[Memory]) -> list[Memory]:
    """Return the memories, each with the name of the one that replaces it.

    Those that supersede each other in a loop have a warning instead.
    """
    supersedes = {memory.name: memory.supersedes for memory in memories}
    replaced_by, loops = find_superseded(supersedes), find_loops(supersedes)
    return [
        replace(
            memory,
            superseded_by=replaced_by.get(memory.name, ""),
            warnings=(*memory.warnings, *describe_loop(loops.get(memory.name, ()))),
        )
        for memory in memories
    ]


def read_cites(raw: bytes) -> Mapping[str, str]:
    """Return the cited documents and their hashes from the front matter."""
    cites = _split(raw).values.get("cites")
    return cites if isinstance(cites, dict) else {}


def build_memory(values: Mapping[str, Any], body: str) -> bytes:
    return encode(f"---\n{_front_matter(values)}---\n\n{body}\n")


def edit_memory(
    raw: bytes, values: Mapping[str, Any], stamps: Mapping[str, Any], body: str | None
) -> bytes:
    """Return the file with changed front matter and body; everything else stays as it is.

    Front matter that cannot be changed safely raises if there are ``values`` to set; ``stamps``
    are then skipped.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidArgument(
            "The file is UTF-16, and editing would damage it.", hint="Save it as UTF-8 first."
        )
    head, rest, old_values, warnings, syntax = _split(raw)
    end = "\r\n" if "\r\n" in head + rest else "\n"
    if head:
        changed = _set_keys(head, {**values, **stamps}, end)
        # YAML has forms that line edits break, so the result must parse to the wanted values.
        valid = syntax == "yaml" and not warnings
        if valid and _split(encode(changed))[2:4] == ({**old_values, **values, **stamps}, ()):
            head = changed
        elif values:
            why = warnings[0] if warnings else "its form is too complex to edit automatically"
            raise InvalidArgument(
                f"The front matter cannot be changed: {why}.",
                hint="Correct it by hand. The text can still be changed.",
            )
    elif values:
        mark = "\ufeff" if rest.startswith("\ufeff") else ""
        block = f"---\n{_front_matter({**values, **stamps})}---\n\n".replace("\n", end)
        head, rest = mark + block, rest.removeprefix(mark)
    if body is not None:
        mark = "\ufeff" if not head and rest.startswith("\ufeff") else ""
        # Without a blank line before it, the text could be read as front matter or as a BOM.
        blank = end if head or body.startswith(("---", "+++", "\ufeff")) else ""
        joint = "" if not head or head.endswith("\n") else end
        rest = mark + joint + blank + body.replace("\n", end) + end
    return encode(head + rest)


def append_text(raw: bytes, stamps: Mapping[str, Any], body: str) -> bytes:
    """Return the file with a paragraph added at its end; the text before it is not changed."""
    stamped = edit_memory(raw, {}, stamps, None)
    end = b"\r\n" if b"\r\n" in raw else b"\n"
    joint = end if stamped.endswith(b"\n") or not stamped else end * 2
    return stamped + joint + encode(body.replace("\n", end.decode())) + end


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# --- checks ---------------------------------------------------------------------------------------


def check_text(text: str) -> str:
    """Return a text with ``\\n`` line ends and no blank lines at both ends."""
    clean = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not clean.strip():
        raise InvalidArgument("There is nothing to remember.", hint="Give some text.")
    if "\0" in clean or not is_unicode(clean):
        raise InvalidArgument(
            "The text contains NUL bytes or a lone surrogate.", hint="Send valid Unicode text."
        )
    return clean


def check_type(type: str) -> str:
    return _check_choice(type, "type", TYPES)


def check_status(status: str) -> str:
    return _check_choice(status, "status", STATUSES)


def _check_choice(value: str, name: str, options: Sequence[str]) -> str:
    if value not in options:
        raise InvalidArgument(
            f"{value[:100]!r} is not a memory {name}.",
            hint=f"Use one of: {', '.join(options)}.",
            details={"validOptions": list(options)},
        )
    return value


def check_tags(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise InvalidArgument("tags must be a list, not a string.", hint="Pass a list of tags.")
    clean = dict.fromkeys(one_line(tag, _MAX_TAG).lstrip("#").strip("/ ") for tag in tags)
    return [tag for tag in clean if tag][:MAX_TAGS]


def check_size(raw: bytes) -> bytes:
    if len(raw) > MAX_BYTES:
        raise InvalidArgument(
            f"The memory would have {len(raw):,} bytes; the limit is {MAX_BYTES:,}.",
            hint="Make it shorter, or start another memory.",
        )
    return raw


def clean_author(author: str) -> str:
    return one_line(author, _MAX_TAG) or "unknown"


def one_line(text: str, longest: int) -> str:
    """Return a text as one line that is safe in front matter."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.encode("utf-8", "replace").decode().split())[:longest].strip()


def first_words(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip(" #")), "")
    return " ".join(line.split()[:8])


# --- front matter ---------------------------------------------------------------------------------


def _split(raw: bytes) -> _Parts:
    text = raw.decode("utf-8", "surrogateescape")
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    block = frontmatter.split(plain)
    if block is None:
        return _Parts("", text, {}, (), "")
    at = 0
    for _ in range(plain.count("\n", 0, block.body)):
        at = text.index("\n", at) + 1
    at = at if plain[block.body - 1] == "\n" else len(text)
    values, warnings = frontmatter.parse(block.raw, block.syntax)
    return _Parts(text[:at], text[at:], values, warnings, block.syntax)


def _front_matter(values: Mapping[str, Any]) -> str:
    return "".join(f"{key}: {_yaml_value(value)}\n" for key, value in values.items())


def _yaml_value(value: Any) -> str:
    """Write a value on one line: JSON is valid YAML, and plain words need no quotes."""
    plain = isinstance(value, str) and re.fullmatch(r"[a-z]+", value)
    return (
        value if plain and value not in _YAML_CONSTANTS else json.dumps(value, ensure_ascii=False)
    )


def _set_keys(head: str, values: Mapping[str, Any], end: str) -> str:
    """Set keys of the front matter: replace their lines, or add them at the end."""
    lines = _LINES.findall(head)
    for key, value in values.items():
        name = re.escape(key)
        own = re.compile(rf"(?:{name}|\"{name}\"|'{name}')[ \t]*:")
        row = f"{key}: {_yaml_value(value)}{end}"
        at = next((n for n, line in enumerate(lines[1:-1], 1) if own.match(line)), None)
        if at is None:
            lines.insert(len(lines) - 1, row)
            continue
        last = line = at
        # The rest of a value: indented lines and list items, with blank lines between them.
        while line + 1 < len(lines) - 1 and _CONTINUES.match(lines[line + 1]):
            line += 1
            last = line if _HAS_VALUE.match(lines[line]) else last
        lines[at : last + 1] = [row]
    return "".join(lines)

"""File names of memories: checked, compared, and derived from titles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from unicodedata import normalize

from lookfar.errors import InvalidArgument, OutsideRoot

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

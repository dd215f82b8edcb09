"""Compare the versions of packages, whatever registry they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

VERSION: Final = re.compile(
    r"(?:(?<![\w.])|(?<=\.\.))v?(\d+(?:\.\d+)+[\w.+-]*?|\d+)(?=\.{2}|[.,;:!?)\]]*(?:\s|$))"
)
"""A version in prose: ``2.1``, ``v3.0.0-rc1``, and a number alone such as ``3``."""
_RELEASE: Final = re.compile(r"\d+(?:\.\d+)*")
_PARTS: Final = re.compile(r"\d+|[a-z]+")
_AFTER: Final = frozenset(("post", "r", "p", "sp", "patch"))
"""Words in a version that comes after the release it is named after."""

_LONGEST: Final = 200
"""Characters that are compared; Python does not read numbers of thousands of digits."""

Key = tuple[tuple[int, ...], int, tuple[tuple[str, int], ...]]


def version_key(version: str) -> Key:
    """Return a key by which versions sort; pre-releases come before their release."""
    main = version.lower().strip().removeprefix("v").partition("+")[0][:_LONGEST]
    match = _RELEASE.match(main)
    release = [int(number) for number in match[0].split(".")] if match else []
    while release and not release[-1]:
        release.pop()  # 2.1 and 2.1.0 are the same version.
    parts = _PARTS.findall(main[match.end() :] if match else main)
    phase = 0 if not parts else 1 if parts[0] in _AFTER else -1
    rest = tuple(("", int(part)) if part.isdigit() else (part, 0) for part in parts)
    return tuple(release), phase, rest


def choose_version(known: Iterable[str], wanted: str) -> str | None:
    """Return the known version that is meant: the same, or the newest that begins with it."""
    versions = sorted(set(known), key=version_key)
    plain = wanted.lower().removeprefix("v")
    for version in versions:
        if version.lower().removeprefix("v") == plain:
            return version
    same = [version for version in versions if version_key(version) == version_key(wanted)]
    below = [v for v in versions if v.lower().removeprefix("v").startswith((f"{plain}.",))]
    return next(iter(same or reversed(below)), None)

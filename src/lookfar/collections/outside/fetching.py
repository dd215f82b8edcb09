"""What an origin is, and who fetches it: one module per kind of source.

A fetcher writes the next state of a source into a folder (:mod:`~lookfar.collections.outside.shelf`
takes it over) and says what it skipped. Nothing is fetched unless the user adds or updates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lookfar.collections.outside.opened import SOURCE_SUFFIX
from lookfar.errors import InvalidArgument
from lookfar.model import OutsideKind, OutsideSource
from lookfar.sources.pack_format import SUFFIX as PACK_SUFFIX
from lookfar.sources.pack_format import is_pack

if TYPE_CHECKING:
    from lookfar.collections.outside.shelf import Origins
    from lookfar.config import Settings

OnFetch = Callable[[str, int, int], None]
"""Called with what is being fetched, how much is done, and how much there is (0: unknown)."""
_REPOSITORY: Final = re.compile(r"git\+\S+|https?://\S+\.git(?:@\S+)?")
_ARCHIVE_ENDING: Final = re.compile(r"\.(?:tgz|zip|tar(?:\.(?:gz|bz2|xz))?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetcher reports about the files that it wrote."""

    version: str = ""
    origins: Origins = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was refused or skipped, and why."""
    unchanged: bool = False
    """Whether the origin has nothing new; then nothing was written."""
    described: OutsideSource | None = None
    """The source as a pack describes it, with the date of its contents."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a fetcher needs to know."""

    source: OutsideSource
    """As it was before; only name, origin and options for a new one."""
    incoming: Path
    """Where the next state is written, with ``shelf.write_incoming``. What an interrupted fetch
    left there may be used."""
    files: Path
    """The state before, which may not exist."""
    origins: Origins
    """What the last fetch reported."""
    settings: Settings
    on_fetch: OnFetch


class Fetcher(Protocol):
    def __call__(self, request: Request) -> Fetched: ...


def find_fetcher(kind: OutsideKind) -> Fetcher:
    """Return who fetches this kind of source."""
    match kind:
        case "folder":
            from lookfar.collections.outside.elsewhere import fetch_folder

            return fetch_folder
        case "repository":
            from lookfar.collections.outside.repositories import fetch_repository

            return fetch_repository
        case "site":
            from lookfar.collections.outside.sites import fetch_site

            return fetch_site
        case "archive":
            from lookfar.collections.outside.archives import fetch_archive

            return fetch_archive
        case "pack":
            from lookfar.collections.outside.packs import fetch_pack

            return fetch_pack
        case "package":
            raise InvalidArgument(
                "A package is not fetched: it is read where it is installed.",
                hint="Install its new version.",
            )


def recognise(
    origin: str, name: str, options: Mapping[str, str | int | bool] | None = None
) -> OutsideSource:
    """Return a new source for what a user typed: an address, a repository or a path."""
    origin = os.path.expanduser(origin.strip())
    kind = _recognise_kind(origin)
    if kind in ("folder", "archive", "pack"):
        if not os.path.exists(origin):
            raise InvalidArgument(
                f"The file or folder {origin!r} does not exist.",
                hint="Check the path. For a site or repository, give https://HOST/PATH or"
                " git+https://HOST/PATH@TAG.",
            )
        origin = os.path.realpath(origin)
    if kind == "pack":
        return _describe_pack(origin, name)
    label = name.removesuffix(SOURCE_SUFFIX) or _suggest_name(origin)
    return OutsideSource(
        f"{label}{SOURCE_SUFFIX}", kind, origin, remote="://" in origin, options=dict(options or {})
    )


def _describe_pack(path: str, name: str) -> OutsideSource:
    """Return the source that a pack describes."""
    from lookfar.collections.outside.packs import FILE_OPTION, describe_pack

    packed_name, origin = describe_pack(path)
    label = re.sub(r"[^\w.@+-]+", "-", name.removesuffix(SOURCE_SUFFIX) or packed_name).strip("-.")
    return OutsideSource(
        f"{label[:80] or 'source'}{SOURCE_SUFFIX}",
        "pack",
        origin,
        remote=True,  # Also if it was made from a folder, its text comes from elsewhere.
        options={FILE_OPTION: path},
    )


def _recognise_kind(origin: str) -> OutsideKind:
    if _REPOSITORY.fullmatch(origin):
        return "repository"
    if origin.startswith(("https://", "http://")):
        return "site"
    if "://" in origin:
        raise InvalidArgument(
            f"{origin!r} is not an address that can be fetched.",
            hint="Use https:// for a site, and git+https://HOST/PATH@TAG for a repository.",
        )
    if is_pack(origin) or origin.endswith(PACK_SUFFIX):
        return "pack"
    return "archive" if _ARCHIVE_ENDING.search(origin) and Path(origin).is_file() else "folder"


def _suggest_name(origin: str) -> str:
    """Return a short name made from an address or a path, such as ``example.org-org-repo@v2``."""
    plain = re.sub(r"^(?:git\+)?[a-z]+://|\.git(?=@|$)|[?#].*$", "", origin)
    if "://" not in origin:
        plain = _ARCHIVE_ENDING.sub("", Path(plain).name)
    return re.sub(r"[^\w.@-]+", "-", plain).strip("-.")[:80] or "source"

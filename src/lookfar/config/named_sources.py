"""Sources that a project's ``lookfar.toml`` names, in tables such as ``[outside.named.manual]``.

That file comes with whatever was cloned. An entry is a suggestion: nothing is fetched until the
user confirms it. It may name an address or an archive inside the project, never another place on
this machine, and its limits can only be lower than the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

from lookfar.config.checks import leaves_root, parse_size, shorten
from lookfar.config.folders import PROJECT_FILE, parse_toml, read_settings_file
from lookfar.config.schema import NAMED_KEY
from lookfar.errors import InvalidConfig
from lookfar.model import NamedSource

_MOST_NAMED: Final = 50
_LONGEST_ORIGIN: Final = 2_000
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,79}", re.ASCII)
_ARCHIVE: Final = re.compile(r"\.(?:tgz|zip|tar(?:\.(?:gz|bz2|xz))?)$", re.IGNORECASE)
_SWITCHES: Final = ("pin", "only_page")
_LIMITS: Final = {"max_pages": 1_000_000, "max_files": 10_000_000, "max_bytes": 10**12}
_KEYS: Final = ("origin", *_SWITCHES, *_LIMITS)
_EXAMPLE: Final = 'Write [outside.named.NAME] and below it origin = "https://HOST/PATH/".'


def read_named_sources(root: Path) -> tuple[NamedSource, ...]:
    """Return the sources that the project file of a folder names; nothing is fetched."""
    path = root / PROJECT_FILE
    text = read_settings_file(path, project=True)
    if text is None:
        return ()
    section = parse_toml(text, path).get("outside")
    named = section.get("named") if isinstance(section, Mapping) else None
    return () if named is None else check_named(named, str(path))


def check_named(entries: object, place: str) -> tuple[NamedSource, ...]:
    """Return the entries of a project file, or raise ``InvalidConfig``."""
    if not isinstance(entries, Mapping):
        _reject(NAMED_KEY, place, "is not a table", _EXAMPLE)
    if len(entries) > _MOST_NAMED:
        _reject(NAMED_KEY, place, f"has more than {_MOST_NAMED} entries", "Remove some of them.")
    return tuple(_check_entry(str(name), entry, place) for name, entry in entries.items())


def _check_entry(name: str, entry: object, place: str) -> NamedSource:
    key = f"{NAMED_KEY}.{name[:80]}"
    if not _NAME.fullmatch(name):
        _reject(key, place, "is not a usable name", "Use letters, digits, dots and hyphens.")
    if not isinstance(entry, Mapping):
        _reject(key, place, "is not a table", _EXAMPLE)
    for unknown in entry.keys() - set(_KEYS):
        known = ", ".join(_KEYS)
        _reject(f"{key}.{str(unknown)[:80]}", place, "is not known", f"An entry has: {known}.")
    _check_origin(key, entry.get("origin"), place)
    for switch in _SWITCHES:
        if not isinstance(entry.get(switch, False), bool):
            _reject(f"{key}.{switch}", place, "must be true or false", "For example: pin = true")
    limits = {
        limit: _check_limit(f"{key}.{limit}", entry[limit], highest, place)
        for limit, highest in _LIMITS.items()
        if limit in entry
    }
    return NamedSource(
        name,
        str(entry["origin"]),
        pin=bool(entry.get("pin")),
        only_page=bool(entry.get("only_page")),
        **limits,
    )


def _check_origin(key: str, origin: object, place: str) -> None:
    key = f"{key}.origin"
    if not isinstance(origin, str) or not origin:
        _reject(key, place, "is missing", _EXAMPLE)
    if len(origin) > _LONGEST_ORIGIN or re.search(r"[\s\x00-\x1f\x7f]", origin):
        _reject(key, place, "is too long or contains spaces", "Give an address.")
    if "://" not in origin:
        if leaves_root(origin) or not _ARCHIVE.search(origin):
            _reject(
                key,
                place,
                f"is not an address or an archive inside the project: {shorten(origin)}",
                "Give https://HOST/PATH/, git+https://HOST/PATH@TAG, or the path of a tar or zip"
                " file in the project. For another place, use lookfar add.",
            )
        return
    scheme, _, rest = origin.partition("://")
    if scheme not in ("https", "http", "git+https", "git+http"):
        _reject(key, place, f"has an unknown scheme: {shorten(scheme)}", "Use https or git+https.")
    try:
        parts = urlsplit(f"https://{rest}")
        usable = bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        _reject(
            key, place, "has no host, or contains a user or password", "Give https://HOST/PATH."
        )


def _check_limit(key: str, value: object, highest: int, place: str) -> int:
    if key.endswith("bytes") and isinstance(value, str):
        value = parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
        _reject(key, place, "is not a valid limit", f"Give a whole number from 1 to {highest:,}.")
    return value


def _reject(key: str, place: str, problem: str, hint: str) -> NoReturn:
    raise InvalidConfig(
        f"{key} (set in {place}) {problem}.",
        hint=hint,
        details={"key": key, "layer": "project", "file": place},
    )

"""Which versions of a package are on this machine, and what changed between two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from lookfar.common.versions import VERSION, choose_version, version_key
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.model import ApiChange, ApiChangeKind, Definition, Incomplete, VersionChanges
from lookfar.retrieve.locate.address import SCHEME, parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lookfar.collections.outside.collection import Outside
    from lookfar.library.members import Members
    from lookfar.model import OutsideSource

_COMPARED: Final = re.compile(
    r"\s*(@?[A-Za-z0-9][\w./@-]*?)[\s@]+(v?\d[\w.+-]*?)\.\.(v?\d[\w.+-]*)\s*"
)
_HEADINGS: Final[Mapping[ApiChangeKind, str]] = {
    "removed": "Removed", "changed": "Changed", "deprecated": "Deprecated", "added": "Added",
    "moved": "Moved", "retyped": "Types changed", "documented": "Documentation changed",
}  # fmt: skip
_MOST_SHOWN: Final = 200
"""Changes of one kind that a report lists."""
_LONGEST_DOC: Final = 300
_LONGEST_SIGNATURE: Final = 160
_MOST_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """A package and two of its versions, as a reader names them: ``requests 2.31..2.32``."""

    package: str
    older: str
    newer: str


def parse_comparison(target: str) -> Comparison | None:
    """Return what a target such as ``requests 2.31.0..2.32.0`` compares; None for others."""
    if target.startswith(SCHEME):  # A citation of an earlier report.
        target = parse_address(target)[1].uri
    match = _COMPARED.fullmatch(target) if ".." in target and len(target) < 300 else None
    return Comparison(match[1], match[2], match[3]) if match else None


class _Reports:
    """The last comparisons: a report is read in parts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[str, ...], VersionChanges] = {}

    def compare(self, package: str, older: Outside, newer: Outside) -> VersionChanges:
        from lookfar.collections.outside.version_changes import compare_versions

        key = (older.name, older.described.digest, newer.name, newer.described.digest)
        with self._lock:
            if key not in self._kept:
                while len(self._kept) >= _MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = compare_versions(package, older, newer)
            return self._kept[key]


_REPORTS: Final = _Reports()


def compare(members: Members, wanted: Comparison, wait_seconds: float = 0.0) -> VersionChanges:
    """Compare two versions of a package; both must be on this machine."""
    _index_installed(members, wanted.package, wait_seconds)
    versions = _find_versions(members, wanted.package)
    chosen: list[OutsideSource] = []
    for version in (wanted.older, wanted.newer):
        name = choose_version(versions, version)
        if name is None:
            here = ", ".join(sorted(versions, key=version_key))
            listed = f"Versions here: {here}." if here else "No version of it is indexed."
            raise NotFound(
                f"{wanted.package} {version} is not on this machine.",
                hint=f"{listed} To index the packages that a project has installed, run:"
                " lookfar deps PATH",
                details={"candidates": sorted(versions, key=version_key)},
            )
        chosen.append(versions[name])
    if chosen[0] == chosen[1]:
        raise InvalidArgument(
            f"{wanted.older} and {wanted.newer} are the same version of {wanted.package} here:"
            f" {chosen[0].version}.",
            hint=f"Versions here: {', '.join(sorted(versions, key=version_key))}.",
        )
    chosen.sort(key=lambda source: version_key(source.version))
    older, newer = (members.outside(source.name) for source in chosen)
    package = str(newer.described.options.get("package", wanted.package))
    return _REPORTS.compare(package, older, newer)


def find_asked_versions(members: Members, question: str) -> tuple[dict[str, str], list[Incomplete]]:
    """Return the stored versions that a question names, by their version, and notes on them.

    Only a package that the question names as well is looked at.
    """
    asked = list(dict.fromkeys(match[1] for match in VERSION.finditer(question)))
    named = _find_named(members, question) if asked else []
    for package in named:
        versions = _find_versions(members, package)
        found = {version: choose_version(versions, version) for version in asked}
        stored = {name: versions[name].name for name in found.values() if name}
        if not stored:
            continue
        notes: list[Incomplete] = []
        missing = [version for version, name in found.items() if name is None and "." in version]
        if missing:
            here = ", ".join(sorted(versions, key=version_key))
            detail = f"{package} {', '.join(missing)} is not on this machine; versions here: {here}"
            notes.append(Incomplete("versions", detail))
        if len(stored) > 1:
            older, *_, newer = sorted(stored, key=version_key)
            detail = f'what changed in {package}: read "{package} {older}..{newer}"'
            notes.append(Incomplete("versions", detail))
        return stored, notes
    return {}, []


def _index_installed(members: Members, package: str, wait_seconds: float) -> None:
    """Index the version that a project of the library has installed, if that was not done."""
    plain = _normalise_name(package)
    for packages in members.packages().values():
        chosen = [
            installed
            for installed in packages.find()
            if plain in {_normalise_name(installed.name), *map(_normalise_name, installed.imports)}
        ]
        if chosen and packages.enable():
            packages.prepare(wait_seconds, chosen)


def _find_versions(members: Members, package: str) -> dict[str, OutsideSource]:
    """Return the stored versions of a package; those of this project's registry if it is used."""
    label, _, registry = package.rpartition("@") if "@" in package[1:] else (package, "", "")
    names = {_normalise_name(label)}
    registries = {registry} if registry else set()
    for packages in members.packages().values():
        for installed in packages.find():
            if _normalise_name(label) in {
                _normalise_name(installed.name),
                *map(_normalise_name, installed.imports),
            }:
                names.add(_normalise_name(installed.name))
                registries = registries if registry else {*registries, installed.registry}
    by_registry: dict[str, dict[str, OutsideSource]] = {}
    for source in members.outside_shelf.list_all():
        if (
            source.kind != "package"
            or _normalise_name(str(source.options.get("package", ""))) not in names
        ):
            continue
        own = source.name.rpartition("@")[2]
        if (not registries or own in registries) and members.reaches_outside(source.name):
            # The same version with other files has a longer name.
            by_registry.setdefault(own, {}).setdefault(source.version, source)
    if len(by_registry) > 1:
        candidates = [f"{label}@{name}" for name in sorted(by_registry)]
        raise Ambiguous(
            f"Several registries have a package {label!r}.",
            hint=f"Name one of them: {', '.join(candidates)}.",
            details={"candidates": candidates},
        )
    return next(iter(by_registry.values()), {})


def _find_named(members: Members, question: str) -> list[str]:
    named = [
        package.name
        for packages in members.packages().values()
        for package in packages.find_named(question)
    ]
    return list(dict.fromkeys(named))


def _normalise_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- the report ------------------------------------------------------------------------------------


def write_report(changes: VersionChanges) -> str:
    """Return the changes as a text: the changelog first, then the public API, with places."""
    lines = [f"# {changes.package} {changes.older} to {changes.newer}", ""]
    counts: dict[ApiChangeKind, list[ApiChange]] = {}
    for change in changes.changes:
        counts.setdefault(change.kind, []).append(change)
    parts = [f"{len(found):,} {_HEADINGS[kind].lower()}" for kind, found in counts.items()]
    lines.append(f"Public API: {', '.join(parts) or 'no differences'}.")
    lines.append(f"Sources: {changes.older_source}, {changes.newer_source}.")
    if not changes.notes:
        lines.append("The package has no changelog for these versions.")
    for note in changes.notes:
        place = f"{note.collection}: {note.uri}:{note.start_line}-{note.end_line}"
        lines += ["", f"## Changelog {note.version} ({place})", "", _demote(note.text)]
    for kind, found in counts.items():
        lines += ["", f"## {_HEADINGS[kind]} ({len(found):,})", ""]
        for change in found[:_MOST_SHOWN]:
            lines += _describe_change(change)
        if len(found) > _MOST_SHOWN:
            lines.append(f"- and {len(found) - _MOST_SHOWN:,} more")
    return "\n".join(lines) + "\n"


def _demote(text: str) -> str:
    """Return a section of a changelog without its own heading, and with deeper ones below ours."""
    head, _, body = text.partition("\n")
    rest = body if head.startswith("#") else text
    return re.sub(r"^(#+) ", r"##\1 ", rest.strip(), flags=re.MULTILINE)


def _describe_change(change: ApiChange) -> list[str]:
    shown = [place for place in (change.before, change.after) if place is not None]
    if change.kind in ("documented", "retyped"):
        shown = shown[1:]
    lines = [f"- {change.name}"]
    for definition in shown:
        version = definition.collection.rpartition("@")[0]
        place = f"{version}: {definition.uri}:{definition.start_line}-{definition.end_line}"
        lines.append(f"  - {place}: `{_shorten(definition.signature)}`")
    if change.before is not None and change.after is not None:
        lines += _compare_parameters(change.before, change.after)
    if change.after is not None and change.kind in ("added", "deprecated", "documented"):
        lines += _quote_doc(change.after)
    return lines


def _compare_parameters(before: Definition, after: Definition) -> list[str]:
    """Return which parameters are gone, new, or have another default."""
    from lookfar.collections.outside.version_changes import split_parameter

    old = dict(map(split_parameter, before.parameters))
    new = dict(map(split_parameter, after.parameters))
    whole = dict(zip(new, after.parameters, strict=False))
    groups = {
        "gone": [name for name in old if name not in new],
        "new": [whole[name] for name in new if name not in old],
        "other default": [whole[name] for name in new if old.get(name, new[name]) != new[name]],
    }
    parts = [
        f"{label}: {', '.join(f'`{name}`' for name in names)}"
        for label, names in groups.items()
        if names
    ]
    return [f"    parameters {'; '.join(parts)}"] if parts else []


def _shorten(signature: str) -> str:
    if len(signature) <= _LONGEST_SIGNATURE:
        return signature
    return f"{signature[:_LONGEST_SIGNATURE]} …"


def _quote_doc(definition: Definition) -> list[str]:
    doc = " ".join(definition.docstring.split())
    return [f"    {doc[:_LONGEST_DOC]}{' …' if len(doc) > _LONGEST_DOC else ''}"] if doc else []


def name_comparison(changes: VersionChanges) -> str:
    return f"{changes.package} {changes.older}..{changes.newer}"

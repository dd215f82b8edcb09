"""What changed between two versions of a package: its public API, and its changelog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from lookfar.common.versions import VERSION, Key, version_key
from lookfar.model import (
    ApiChange,
    ApiChangeKind,
    Definition,
    Document,
    ReleaseNote,
    Section,
    Symbol,
    VersionChanges,
)
from lookfar.text.parse.formats import text_parser_for
from lookfar.text.parse.languages import detect_language

if TYPE_CHECKING:
    from lookfar.collections.outside.collection import Outside

_CHANGELOG: Final = re.compile(
    r"(?i)(?:^|/)(?:changes|change-?log|history|news|release[-_ ]?notes|readme)[^/]*$"
)
_DEPRECATED: Final = re.compile(r"(?i)\bdeprecat")
_FIELDS: Final = frozenset(("interface", "struct", "type", "enum"))
"""Kinds whose fields are not definitions of their own in every language."""
_FUNCTIONS: Final = frozenset(("function", "method"))
_README: Final = re.compile(r"(?i)(?:^|/)readme[^/]*$")
_STARTS_WITH_VERSION: Final = re.compile(r"(?i)\W*(?:version|release)?\W*v?\d+\.\d")
_TYPING: Final = re.compile(r"\b(?:typing|t|collections\.abc)\.")
_OPTIONAL: Final = re.compile(r"\bOptional\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")
_PARAMETER: Final = re.compile(r"[&*.]*\w+\??")
_LONGEST_NOTE: Final = 6_000
_LONGEST_TITLE: Final = 200
_ORDER: Final[Mapping[ApiChangeKind, int]] = {
    "removed": 0, "changed": 1, "deprecated": 2, "added": 3, "moved": 4, "retyped": 5,
    "documented": 6,
}  # fmt: skip


class _Known(NamedTuple):
    """A definition, with what is compared."""

    definition: Definition
    path: tuple[str, ...]
    """Its name within its file, such as ``("Session", "get")``."""
    deprecated: bool
    fields: str


_Api = dict[str, list[_Known]]
"""The definitions of a version by their names; overloads share one."""


def compare_versions(package: str, older: Outside, newer: Outside) -> VersionChanges:
    """Compare two indexed versions of a package."""
    before, after = _read_texts(older), _read_texts(newer)
    same = {uri for uri in before.keys() & after.keys() if before[uri] == after[uri]}
    old_api = _read_api(older.name, before, same)
    new_api = _read_api(newer.name, after, same)
    versions = older.described.version, newer.described.version
    return VersionChanges(
        package,
        *versions,
        older.name,
        newer.name,
        tuple(_compare(old_api, new_api)),
        tuple(_find_notes(newer.name, after, *map(version_key, versions))),
    )


def _read_texts(outside: Outside) -> dict[str, str]:
    """Return the indexed texts of a package by URI."""
    outside.freshen()
    with outside.store.snapshot() as snapshot:
        texts = ((uri, snapshot.text(uri)) for uri in snapshot.uris(""))
        return {uri: text for uri, text in texts if text is not None}


# -- the public API --------------------------------------------------------------------------------


def _read_api(collection: str, texts: Mapping[str, str], skipped: set[str]) -> _Api:
    """Return the public definitions of the files that differ."""
    exported = _find_exported(texts)
    api: _Api = {}
    for uri, text in texts.items():
        if uri in skipped or detect_language(uri) is None:
            continue
        document = text_parser_for(uri, as_source=True)(uri, text)
        for symbol in document.symbols:
            section = document.sections[symbol.section]
            if _is_public(uri, symbol, section, exported):
                known = _describe(collection, document, symbol, section)
                api.setdefault(_qualify_name(uri, section), []).append(known)
    return api


def _find_exported(texts: Mapping[str, str]) -> frozenset[str]:
    """Return the words of Python's ``__init__`` files: what private modules define for others."""
    words: set[str] = set()
    for uri, text in texts.items():
        if uri.endswith(("__init__.py", "__init__.pyi")) and not _is_private_module(uri):
            words.update(re.findall(r"\w+|\*", text))
    return frozenset(words)


def _is_private_module(uri: str) -> bool:
    return any(_is_private_name(part) for part in re.sub(r"\.\w+$", "", uri).split("/"))


def _is_private_name(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _is_public(uri: str, symbol: Symbol, section: Section, exported: frozenset[str]) -> bool:
    if symbol.visibility in ("private", "protected") or any(map(_is_private_name, section.path)):
        return False
    if symbol.kind == "constant" and symbol.name.startswith("__"):
        return False  # Such as __version__ and __all__.
    if uri.endswith((".py", ".pyi")) and _is_private_module(uri):
        return section.path[0] in exported
    return True


def _qualify_name(uri: str, section: Section) -> str:
    inner = ".".join(section.path)
    if not uri.endswith((".py", ".pyi")):
        return inner
    module = re.sub(r"(?:/__init__)?\.pyi?$", "", uri).replace("/", ".")
    return f"{module}.{inner}"


def _describe(collection: str, document: Document, symbol: Symbol, section: Section) -> _Known:
    definition = Definition(
        collection,
        document.uri,
        section.span.start_line,
        section.span.end_line,
        _write_signature(symbol),
        symbol.docstring,
        tuple(" ".join(parameter.split()) for parameter in symbol.parameters),
    )
    deprecated = any(map(_DEPRECATED.search, (symbol.docstring, *symbol.decorators)))
    fields = ""
    if symbol.kind in _FIELDS:
        fields = " ".join(document.text[section.span.start : section.span.end].split())
    return _Known(definition, section.path, deprecated, fields)


def _write_signature(symbol: Symbol) -> str:
    """Return a signature that does not depend on how the code is laid out."""
    if symbol.kind not in _FUNCTIONS:
        return " ".join(symbol.signature.split())
    parameters = ", ".join(" ".join(parameter.split()) for parameter in symbol.parameters)
    returns = f" -> {' '.join(symbol.returns.split())}" if symbol.returns else ""
    return f"{symbol.name}({parameters}){returns}"


def _compare(old: _Api, new: _Api) -> list[ApiChange]:
    changes: list[ApiChange] = []
    removed = {name: old[name][0] for name in old.keys() - new.keys()}
    added = {name: new[name][0] for name in new.keys() - old.keys()}
    places: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for name in sorted(added, reverse=True):
        places.setdefault(_identify(added[name]), []).append(name)
    for name in sorted(old.keys() & new.keys()):
        kind = _judge(old[name], new[name])
        if kind is not None:
            before, after = _choose_pair(old[name], new[name])
            changes.append(ApiChange(kind, name, before, after))
    for name in sorted(removed):
        # What has the same name in another file has moved; code imports it from there.
        gone, same = removed[name].definition, places.get(_identify(removed[name]))
        if same:
            changes.append(ApiChange("moved", name, gone, added.pop(same.pop()).definition))
        else:
            changes.append(ApiChange("removed", name, gone))
    changes += (ApiChange("added", name, None, known.definition) for name, known in added.items())
    return sorted(changes, key=lambda change: (_ORDER[change.kind], change.name))


def _identify(known: _Known) -> tuple[tuple[str, ...], str]:
    """Return what stays the same when a definition moves to another file."""
    return known.path, known.definition.signature


def _judge(old: list[_Known], new: list[_Known]) -> ApiChangeKind | None:
    """Return how definitions with one name differ; None if they do not."""
    if any(known.deprecated for known in new) and not any(known.deprecated for known in old):
        return "deprecated"
    if {_normalise_types(k) for k in old} != {_normalise_types(k) for k in new}:
        callable_ = all(known.definition.parameters for known in (*old, *new))
        same = {_list_parameters(k.definition) for k in old} == {
            _list_parameters(k.definition) for k in new
        }
        return "retyped" if callable_ and same else "changed"
    if {k.definition.docstring for k in old} != {k.definition.docstring for k in new}:
        return "documented"
    return None


def _normalise_types(known: _Known) -> str:
    """Return what is compared of a definition, with one spelling of optional types."""
    text = _TYPING.sub("", f"{known.definition.signature} {known.fields}")
    return _OPTIONAL.sub(r"\1 | None", text)


def _list_parameters(definition: Definition) -> tuple[tuple[str, str], ...]:
    """Return the parameters of a definition with their defaults, without types."""
    return tuple(split_parameter(parameter) for parameter in definition.parameters)


def split_parameter(parameter: str) -> tuple[str, str]:
    """Return the name of a parameter and its default, without its type."""
    name = _PARAMETER.match(parameter)
    default = parameter.partition("=")[2].strip()
    return (name[0] if name else parameter), default


def _choose_pair(old: list[_Known], new: list[_Known]) -> tuple[Definition, Definition]:
    """Return the first of several definitions with one name that differ."""
    known = {(k.definition.signature, k.definition.docstring) for k in old}
    after = next(
        (k for k in new if (k.definition.signature, k.definition.docstring) not in known), new[0]
    )
    kept = {(k.definition.signature, k.definition.docstring) for k in new}
    before = next(
        (k for k in old if (k.definition.signature, k.definition.docstring) not in kept), old[0]
    )
    return before.definition, after.definition


# -- the changelog ---------------------------------------------------------------------------------


def _find_notes(
    collection: str, texts: Mapping[str, str], older: Key, newer: Key
) -> list[ReleaseNote]:
    """Return the sections of changelogs about versions after the older one, newest first."""
    notes: dict[str, ReleaseNote] = {}
    for uri, text in sorted(texts.items()):
        if _CHANGELOG.search(uri):
            for note in _read_notes(collection, uri, text, older, newer):
                notes.setdefault(note.version, note)
    return sorted(notes.values(), key=lambda note: version_key(note.version), reverse=True)


def _read_notes(
    collection: str, uri: str, text: str, older: Key, newer: Key
) -> Iterator[ReleaseNote]:
    document = text_parser_for(uri)(uri, text)
    done = 0
    for section in document.sections:
        title = section.title[:_LONGEST_TITLE].replace("[", " ").replace("]", " ")
        named = VERSION.search(title)
        if named is None or not section.level or section.span.start < done:
            continue
        if _README.search(uri) and not _STARTS_WITH_VERSION.match(section.title):
            continue
        if older < version_key(named[1]) <= newer:
            done = section.span.end
            body = document.text[section.span.start : section.span.end].strip()
            yield ReleaseNote(
                named[1],
                collection,
                uri,
                section.span.start_line,
                section.span.end_line,
                body if len(body) <= _LONGEST_NOTE else body[:_LONGEST_NOTE] + " …",
            )

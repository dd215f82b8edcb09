"""Which document a link means: the names a document answers to, and who answers best.

Takes: links as they are written, and URIs, titles and aliases. Gives: the name that a
link and its target share, by which either is looked up, and the best of the documents
that have it. Refuses: to look anything up; and to guess where a path is spelled out:
``guide.md`` is that file or nothing.

Names are compared without regard to case and to how accents are composed. A page may be
linked without its ending, with that of its web rendering, or by the folder whose index
it is; one that has two endings, such as ``guide.html.md``, is linked without both. Ties are
broken the same way everywhere: fewest folders, same case, shortest URI, first in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from posixpath import normpath
from typing import NamedTuple
from unicodedata import normalize

BY_PATH, BY_ALIAS, BY_TITLE = range(3)
"""How a document came by a name."""

_ROOT = "/"
"""The name of the page that is the index of the whole collection."""
_INDEXES = ("index", "readme", "_index")
_PAGES = frozenset("md markdown mdown mkd mdx rst txt adoc asciidoc org html htm".split())
_RENDERED = ("html", "htm")
# One letter before the colon is a Windows drive, not a scheme.
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_MOST_PREFIX = 2
"""Leading parts of a site's address, such as ``/en/docs``, that no folder may stand for."""
_LEAST_LEFT = 2
_BY_END = 10
"""Matches by the end of a path, of which there may be several as good; see ``Bearers``."""

_LONGEST = 255
"""Characters of what is compared as a name: any file's name has them, and twice as many fit into
a key of a server's index. Longer titles and links are compared by how they begin."""

Match = tuple[int, ...]
"""How well a document fits a link; the lowest fits best."""


class Name(NamedTuple):
    """A name that a document answers to, and how it came by it."""

    name: str
    way: int
    whole: str
    """All of a title or alias; empty for a path, which the URI tells."""


def fold(text: str) -> str:
    """Text as names are compared."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


def names_of(uri: str, title: str, aliases: Iterable[str]) -> list[Name]:
    """All names of a document."""
    path = Path.of(uri)
    found = {
        Name(_last(path.page)[:_LONGEST] or _ROOT, BY_PATH, ""): None,
        Name(_last(path.stem)[:_LONGEST], BY_PATH, ""): None,
    }
    for way, texts in ((BY_ALIAS, aliases), (BY_TITLE, (title,))):
        for text in texts:
            whole = fold(" ".join(text.split()))
            name = _last(Path.of(whole).stem)[:_LONGEST]
            if name:
                found.setdefault(Name(name, way, whole[:_LONGEST]))
    return list(found)


def link_name(source: str, kind: str, target: str) -> str:
    """The name that a link looks for; empty for one that can mean no document here."""
    meant = _meant(folder_of(source), kind, target)
    if meant is None:
        return ""
    name = _last(meant.path.stem) if meant.wiki else _last(meant.path.page) or _ROOT
    return name[:_LONGEST]


def is_attachment(kind: str, target: str) -> bool:
    """Whether a link shows a picture or another file that is no page: ``![[chart.png]]``."""
    if kind == "embed":
        _, dot, ending = _last(target).rpartition(".")
        return bool(dot) and ending.isalnum() and ending.lower() not in _PAGES
    return kind == "image"


class Path(NamedTuple):
    """A path in the forms it is compared in, all folded but the first."""

    raw: str
    whole: str
    stem: str
    """Without the endings of a page."""
    page: str
    """The same, and a folder instead of its index."""
    ending: str
    """The last one of a page, or empty."""

    @classmethod
    def of(cls, raw: str) -> Path:
        stem = whole = fold(raw)
        ending = ""
        while True:
            shorter, dot, last = stem.rpartition(".")
            if not dot or last not in _PAGES or not _last(shorter):
                break
            stem, ending = shorter, ending or last
        folder, _, last = stem.rpartition("/")
        return cls(raw, whole, stem, folder if last in _INDEXES else stem, ending)


class Target(NamedTuple):
    """A document that has the name a link looks for."""

    document: int
    uri: str
    title: str
    path: Path
    names: tuple[tuple[int, str], ...]
    """The ways by which it has that name, with whole titles and aliases."""


class Bearers:
    """The documents that have one name, and which of them a link of that name means."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._targets = tuple(targets)
        self._fitting: dict[tuple[str, str, str], list[tuple[Match, str, Target]]] = {}

    def meant_by(self, folder: str, kind: str, target: str) -> Target | None:
        """The one that fits a link best which is written in ``folder``; ``None`` if none fits."""
        asked = (folder if _is_relative(kind, target) else "", kind, target)
        fitting = self._fitting.get(asked)
        if fitting is None:
            fitting = self._fitting[asked] = self._fit(*asked)
        if len(fitting) > 1 and fitting[0][0][0] >= _BY_END:
            # Of two sites below one root, as of two languages, the link's own is meant.
            same = [each for each in fitting if each[0][:2] == fitting[0][0][:2]]
            return max(same, key=lambda each: _shared(folder, each[2].path.whole))[2]
        return fitting[0][2] if fitting else None

    def _fit(self, folder: str, kind: str, target: str) -> list[tuple[Match, str, Target]]:
        meant = _meant(folder, kind, target)
        if meant is None:
            return []
        if meant.wiki:
            return self._ranked(meant, _as_note)
        return self._ranked(meant, _as_path) or self._ranked(meant, _by_end(meant))

    def _ranked(
        self, meant: _Meant, how: Callable[[_Meant, Target], Match | None]
    ) -> list[tuple[Match, str, Target]]:
        wanted = meant.path
        spelled = wanted.raw[: -len(wanted.ending) - 1] if wanted.ending else wanted.raw
        found = []
        for each in self._targets:
            match = how(meant, each)
            if match is not None:
                uri = each.uri
                rank = (*match, uri.count("/"), spelled not in uri, len(uri))
                found.append((rank, uri, each))
        return sorted(found)


def _is_relative(kind: str, target: str) -> bool:
    """Whether what a target means depends on the folder it is written in."""
    if kind in ("wikilink", "embed"):
        return target.startswith(("./", "../"))
    return not target.startswith("/")


class _Meant(NamedTuple):
    """What a link says, taken apart."""

    wiki: bool
    path: Path
    """From the root, but for a wikilink as written."""
    whole: str
    """A wikilink as titles and aliases are compared."""
    from_root: Path | None
    """The second reading of a path that begins neither with a slash nor with a dot."""
    rooted: bool
    slash: bool
    """It ends like a folder."""


def _meant(folder: str, kind: str, target: str) -> _Meant | None:
    if kind in ("wikilink", "embed") and not _is_relative(kind, target):
        path = Path.of(target.strip("/"))
        if not path.stem or "://" in target:
            return None
        return _Meant(True, path, fold(target)[:_LONGEST], None, target.startswith("/"), False)
    if not target or _EXTERNAL.match(target):
        return None
    target = target.partition("?")[0]
    rooted = target.startswith("/")
    # What leads out of the collection keeps its dots, which no document's path has.
    inside = normpath(f"{folder}/{target}" if folder and not rooted else target or ".")
    path = Path.of("" if inside == "." else inside.lstrip("/"))
    loose = folder and not rooted and not target.startswith(".")
    from_root = Path.of(normpath(target)) if loose and target else None
    return _Meant(False, path, "", from_root, rooted, target.endswith("/"))


def _as_note(meant: _Meant, target: Target) -> Match | None:
    """A wikilink: by path from the root, by the end of a path, by alias, by title."""
    have, wanted = target.path, meant.path
    if wanted.ending and wanted.ending != have.ending:
        pass  # [[Note.md]] names a file; only an alias or a title may read like it otherwise.
    elif have.stem == wanted.stem:
        return (0,)
    elif not meant.rooted and have.stem.endswith(f"/{wanted.stem}"):
        return (1,)
    elif have.page == wanted.stem or (not meant.rooted and have.page.endswith(f"/{wanted.stem}")):
        return (2,)
    ways = [way for way, whole in target.names if whole and whole == meant.whole]
    return (2 + min(ways),) if ways else None


def _as_path(meant: _Meant, target: Target) -> Match | None:
    """A path: where it points, then from the root."""
    how = _same(target.path, meant.path, meant.slash)
    if how is not None:
        return (0, how)
    if meant.from_root is not None:
        how = _same(target.path, meant.from_root, meant.slash)
        if how is not None:
            return (1, how)
    return None


def _by_end(meant: _Meant) -> Callable[[_Meant, Target], Match | None]:
    """A path from a root that is not ours: that of a vault or a web site in a folder below.

    The addresses of a site may begin with parts that are no folders. One word alone could be
    anybody's, but for the first word of a site.
    """
    path = meant.path if meant.rooted else meant.from_root
    parts = path.raw.split("/") if path is not None and path.page else []
    most = 0
    if meant.rooted:
        most = max(0, min(_MOST_PREFIX, len(parts) - _LEAST_LEFT))
    elif len(parts) < _LEAST_LEFT:
        parts = []
    tails = [Path.of("/".join(parts[dropped:])) for dropped in range(most + 1) if parts]

    def fits(meant: _Meant, target: Target) -> Match | None:
        for dropped, tail in enumerate(tails):
            how = _ends(target.path, tail, meant.slash) if tail.page else None
            if how is not None:
                return (_BY_END + dropped, how)
        return None

    return fits


def _same(have: Path, wanted: Path, slash: bool) -> int | None:
    if have.raw == wanted.raw:
        return 0
    if have.whole == wanted.whole:
        return 1
    if wanted.ending not in ("", *_RENDERED) or have.page != wanted.page:
        return None
    return _form(have, slash)


def _ends(have: Path, tail: Path, slash: bool) -> int | None:
    """As ``_same``, for a path of which only the end is known."""
    if have.whole == tail.whole or have.whole.endswith(f"/{tail.whole}"):
        return 1
    if tail.ending not in ("", *_RENDERED):
        return None
    if have.page != tail.page and not have.page.endswith(f"/{tail.page}"):
        return None
    return _form(have, slash)


def _form(have: Path, slash: bool) -> int:
    """Which of the files that could be a page is meant: itself, or the index of its folder."""
    if have.page == have.stem:
        return 6 if slash else 2
    return 3 + _INDEXES.index(_last(have.stem))


def _shared(folder: str, whole: str) -> int:
    """How many leading folders two paths have in common."""
    count = 0
    for one, other in zip(fold(folder).split("/"), whole.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count


def page_of(uri: str) -> str:
    """The page that a document is: its path without endings, and a folder for its index."""
    return Path.of(uri).page


def folder_of(uri: str) -> str:
    """The folder that a document stands in; empty for the root."""
    return uri.rpartition("/")[0]


def _last(path: str) -> str:
    return path.rpartition("/")[2]

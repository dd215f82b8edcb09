"""Decide which document a link leads to: names for lookup, and the best of several candidates.

A path that is spelled out is not guessed: ``guide.md`` is that file or nothing. A page may be
linked without its extensions, with that of its web rendering, or by the folder whose index it is.
Names are compared without case and with composed accents. Ties go to the fewest folders, the same
case, the shortest URI, and the first in order.

Labels and documents of a documentation project are named exactly: a label that several documents
define equally near leads nowhere. The project of a Sphinx page is the folder with its ``conf.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple
from unicodedata import normalize

BY_PATH, BY_ALIAS, BY_TITLE, BY_LABEL = range(4)
"""Where a name of a document comes from."""

_ROOT = "/"
"""The name of the index page of the whole collection."""
_INDEXES = ("index", "readme", "_index")
_PAGES = frozenset("md markdown mdown mkd mdx rst txt adoc asciidoc org html htm".split())
_RENDERED = ("html", "htm")
_MARKDOWN = ("md", "markdown", "mdown", "mkd")
# One letter before the colon is a Windows drive, not a scheme.
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_MOST_PREFIX = 2
"""How many leading parts of a site's address, such as ``/en/docs``, may not be folders."""
_LEAST_LEFT = 2
_BY_END = 10
"""Rank of matches by the end of a path, of which several may be equally good."""

_LONGEST = 255
"""How many characters of a name are compared. Every file name fits, and twice as many fit into the
key of a table on a server. Longer titles and links are compared by their beginning."""

_PARSED = 8192
"""Paths that are kept parsed, at about half a kilobyte each."""

_NOTE_NUMBER = re.compile(r"(\d{8}t?\d{4,9})(?=[ _-])")
"""The id at the start of a file name, as in a Zettelkasten: ``202401011200 Title.md``."""

Match = tuple[int, ...]
"""How well a document matches a link; lower is better."""


PROJECT_FILE = "conf.py"
"""The name of the file at the root of a Sphinx project."""
_SPHINX = "sphinx"
_FAMILIES = {"adoc": "asciidoc", "asciidoc": "asciidoc", "asc": "asciidoc", "org": "org"}
"""Formats by extension, whose labels are apart; all others share those of Sphinx."""


class Name(NamedTuple):
    """A name of a document, and where it comes from."""

    name: str
    way: int
    whole: str
    """The whole title or alias; empty for a path, which is in the URI."""


def fold(text: str) -> str:
    """Fold case and compose accents, for comparing names."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


def list_names(
    uri: str, title: str, aliases: Iterable[str], labels: Iterable[str] = ()
) -> list[Name]:
    path = Path.parse(uri)
    names = {
        Name(_last(path.page)[:_LONGEST] or _ROOT, BY_PATH, ""): None,
        Name(_last(path.stem)[:_LONGEST], BY_PATH, ""): None,
    }
    for way, texts in ((BY_ALIAS, aliases), (BY_TITLE, (title,))):
        for text in texts:
            whole = fold(" ".join(text.split()))
            name = _last(Path.parse(whole).stem)[:_LONGEST]
            if name:
                names.setdefault(Name(name, way, whole[:_LONGEST]))
    number = _NOTE_NUMBER.match(_last(path.stem))
    if number is not None:
        names.setdefault(Name(number[1], BY_ALIAS, number[1]))
    for label in labels:
        name = _fold_label(label)
        if name:
            names.setdefault(Name(name, BY_LABEL, _qualify(uri, name)))
    return list(names)


def _fold_label(label: str) -> str:
    return fold(" ".join(label.removeprefix("#").split()))[:_LONGEST]


def _qualify(uri: str, label: str) -> str:
    """Return a label with the family of formats in which it is known."""
    return f"{_FAMILIES.get(uri.rpartition('.')[2].lower(), _SPHINX)}#{label}"[:_LONGEST]


def link_name(source: str, kind: str, target: str) -> str:
    """Return the name that a link looks for; empty if it cannot lead to a document here."""
    if kind == "label":
        return _fold_label(target)
    if kind == "document":
        return "" if _EXTERNAL.match(target) else _last(Path.parse(target.rstrip("/")).stem)
    link = _parse_link(parent_folder(source), kind, target)
    if link is None:
        return ""
    name = _last(link.path.stem) if link.wiki else _last(link.path.page) or _ROOT
    return name[:_LONGEST]


def is_external(target: str) -> bool:
    """Whether a target is the address of something outside, such as a web page."""
    return _EXTERNAL.match(target) is not None


def is_reported(kind: str, target: str) -> bool:
    """Whether a link that leads nowhere is worth reporting.

    An attachment is not indexed; ``#anchor`` may be generated; ``python:name`` is another project.
    """
    if kind == "label":
        return ":" not in target and not target.startswith("#")
    return not _is_attachment(kind, target)


def _is_attachment(kind: str, target: str) -> bool:
    """Whether a link embeds a picture or another file that is not a page: ``![[chart.png]]``."""
    if kind == "embed":
        _, dot, ending = _last(target).rpartition(".")
        return bool(dot) and ending.isalnum() and ending.lower() not in _PAGES
    return kind == "image"


class Path(NamedTuple):
    """A path in the forms used for comparing; all but ``raw`` are folded."""

    raw: str
    whole: str
    stem: str
    """Without the extensions of a page."""
    page: str
    """The stem, or the folder if this is its index page."""
    ending: str
    """The last extension of a page, or empty."""

    @classmethod
    @lru_cache(maxsize=_PARSED)
    def parse(cls, raw: str) -> Path:
        """Parse a path; cached, because a question compares links with the same few pages."""
        stem = whole = fold(raw)
        ending = ""
        while True:
            shorter, dot, last = stem.rpartition(".")
            if not dot or last not in _PAGES or not _last(shorter):
                break
            stem, ending = shorter, ending or last
        folder, _, last = stem.rpartition("/")
        return cls(raw, whole, stem, folder if last in _INDEXES else stem, ending)


class LinkTarget(NamedTuple):
    """A document that has the name a link looks for."""

    document: int
    uri: str
    title: str
    path: Path
    names: tuple[tuple[int, str], ...]
    """How it has that name, with whole titles and aliases."""


class Origin(NamedTuple):
    """The document that contains a link, as far as it decides where the link leads."""

    folder: str
    labels: str = f"{_SPHINX}#"
    """The family of its labels, as a prefix."""
    project: str | None = None
    """The root of its Sphinx project, if that is known."""


def locate(uri: str, projects: Iterable[str] = ()) -> Origin:
    """Return where a document is; ``projects`` are the folders with a ``conf.py``."""
    around = [at for at in projects if not at or uri.startswith(f"{at}/")]
    return Origin(parent_folder(uri), _qualify(uri, ""), max(around, key=len, default=None))


def leads_by_path(source: str, kind: str, target: str, uri: str) -> bool:
    """Whether a link can lead to a document by its path, and not only by an alias or its title."""
    name = link_name(source, kind, target)
    only = name_target(name, uri, "", ())
    return only is not None and Candidates([only]).resolve(locate(source), kind, target) is not None


def name_target(name: str, uri: str, title: str, aliases: Iterable[str]) -> LinkTarget | None:
    """Return a document as a target for links to a name; None if it does not have the name."""
    ways = tuple((way, whole) for own, way, whole in list_names(uri, title, aliases) if own == name)
    return LinkTarget(0, uri, title, Path.parse(uri), ways) if name and ways else None


class Candidates:
    """The documents that share one name; decides which of them a link leads to."""

    def __init__(self, targets: Iterable[LinkTarget]) -> None:
        self._targets = tuple(targets)
        self._matches: dict[tuple[str, str, str], list[tuple[Match, str, LinkTarget]]] = {}

    def resolve(self, origin: Origin, kind: str, target: str) -> LinkTarget | None:
        """Return the best match for a link, or ``None``."""
        if kind == "label":
            return self._find_label(origin, target)
        if kind == "document":
            return self._find_document(origin, target)
        folder = origin.folder
        key = (folder if _is_relative(kind, target) else "", kind, target)
        matches = self._matches.get(key)
        if matches is None:
            matches = self._matches[key] = self._match(*key)
        if len(matches) > 1 and matches[0][0][0] >= _BY_END:
            # Of two sites or languages below one root, prefer the one of the link.
            equal = [match for match in matches if match[0][:2] == matches[0][0][:2]]
            return max(equal, key=lambda match: _count_shared(folder, match[2].path.whole))[2]
        if not matches and origin.project is not None and not {"/", "."}.intersection(target):
            return self._find_label(origin, target)  # In MyST, [text](label) is a link as well.
        return matches[0][2] if matches else None

    def find_notes(self, target: str) -> list[LinkTarget]:
        """Return the documents that a name means, seen from the root: all of the best level.

        If exactly one of them is spelled in the same case, only that one. A name without an
        extension means the Markdown file, if several files differ in their extension alone.
        """
        ranked = self._match("", "wikilink", target)
        best = [found for rank, _, found in ranked if rank[0] == ranked[0][0][0]]
        path = Path.parse(target)
        ending = f".{path.ending}" if path.ending else ""
        spelled = [other for other in best if _strip_pages(other.uri, ending).endswith(target)]
        best = spelled if len(spelled) == 1 else best
        stems = {other.path.stem for other in best}
        markdown = [other for other in best if other.path.ending in _MARKDOWN]
        return markdown if len(stems) == 1 and len(markdown) == 1 else best

    def _find_label(self, origin: Origin, target: str) -> LinkTarget | None:
        """Return the only document of the project, or the nearest one, that defines a label."""
        wanted = (origin.labels + _fold_label(target))[:_LONGEST]
        defining = [
            other for other in self._targets
            if (BY_LABEL, wanted) in other.names and _is_inside(origin.project, other.uri)
        ]  # fmt: skip
        return _find_nearest(origin.folder, defining)

    def _find_document(self, origin: Origin, target: str) -> LinkTarget | None:
        """Return the document at a path that is relative, or begins at the root of its project."""
        rooted = target.startswith("/")
        base = (origin.project or "") if rooted else origin.folder
        wanted = Path.parse(normpath(f"{base}/{target}").lstrip("/"))
        anywhere = rooted and origin.project is None

        def fits(have: Path) -> bool:
            there, here = have.whole, wanted.whole
            if not wanted.ending:  # The format is not written.
                there, here = have.stem, wanted.stem
            return there == here or (anywhere and there.endswith(f"/{here}"))

        matching = [other for other in self._targets if fits(other.path)]
        return _find_nearest(origin.folder, _prefer_sources(matching))

    def _match(self, folder: str, kind: str, target: str) -> list[tuple[Match, str, LinkTarget]]:
        link = _parse_link(folder, kind, target)
        if link is None:
            return []
        if link.wiki:
            return self._rank(link, _match_note)
        return self._rank(link, _match_path) or self._rank(link, _end_matcher(link))

    def _rank(
        self, link: _ParsedLink, compare: Callable[[_ParsedLink, LinkTarget], Match | None]
    ) -> list[tuple[Match, str, LinkTarget]]:
        wanted = link.path
        spelled = wanted.raw[: -len(wanted.ending) - 1] if wanted.ending else wanted.raw
        ranked = []
        for target in self._targets:
            match = compare(link, target)
            if match is not None:
                uri = target.uri
                rank = (*match, uri.count("/"), spelled not in uri, len(uri))
                ranked.append((rank, uri, target))
        return sorted(ranked)


def _strip_pages(uri: str, ending: str) -> str:
    """Return a URI without the extensions of a page, but with the one that a link has."""
    path = Path.parse(uri)
    # The extensions are ASCII, while folding may change the length of the rest.
    return uri[: len(uri) - (len(path.whole) - len(path.stem))] + ending


def _is_relative(kind: str, target: str) -> bool:
    if kind in ("wikilink", "embed"):
        return target.startswith(("./", "../"))
    return not target.startswith("/")


class _ParsedLink(NamedTuple):
    wiki: bool
    path: Path
    """From the root; for a wikilink, as written."""
    whole: str
    """A wikilink in the form in which titles and aliases are compared."""
    from_root: Path | None
    """Another reading, from the root, of a path that begins with neither a slash nor a dot."""
    rooted: bool
    slash: bool
    """Whether it ends with a slash, as a folder does."""


def _parse_link(folder: str, kind: str, target: str) -> _ParsedLink | None:
    if kind in ("wikilink", "embed") and not _is_relative(kind, target):
        path = Path.parse(target.strip("/"))
        if not path.stem or "://" in target:
            return None
        return _ParsedLink(True, path, fold(target)[:_LONGEST], None, target.startswith("/"), False)
    if not target or _EXTERNAL.match(target):
        return None
    target = target.partition("?")[0]
    rooted = target.startswith("/")
    # A path that leaves the collection keeps its dots, which no document's path has.
    inside = normpath(f"{folder}/{target}" if folder and not rooted else target or ".")
    path = Path.parse("" if inside == "." else inside.lstrip("/"))
    loose = folder and not rooted and not target.startswith(".")
    from_root = Path.parse(normpath(target)) if loose and target else None
    return _ParsedLink(False, path, "", from_root, rooted, target.endswith("/"))


def _match_note(link: _ParsedLink, target: LinkTarget) -> Match | None:
    """Match a wikilink by path from the root, then by the end of a path, alias, and title."""
    have, wanted = target.path, link.path
    if wanted.ending and wanted.ending != have.ending:
        pass  # [[Note.md]] names a file; otherwise only an alias or a title can match it.
    elif have.stem == wanted.stem:
        return (0,)
    elif not link.rooted and have.stem.endswith(f"/{wanted.stem}"):
        return (1,)
    elif have.page == wanted.stem or (not link.rooted and have.page.endswith(f"/{wanted.stem}")):
        return (2,)
    ways = [way for way, whole in target.names if whole and whole == link.whole]
    return (2 + min(ways),) if ways else None


def _match_path(link: _ParsedLink, target: LinkTarget) -> Match | None:
    """Match a path relative to its document, then from the root."""
    form = _compare_paths(target.path, link.path, link.slash)
    if form is not None:
        return (0, form)
    if link.from_root is not None:
        form = _compare_paths(target.path, link.from_root, link.slash)
        if form is not None:
            return (1, form)
    return None


def _end_matcher(link: _ParsedLink) -> Callable[[_ParsedLink, LinkTarget], Match | None]:
    """Match a path from another root, such as a vault or a web site in a subfolder.

    The addresses of a site may begin with parts that are not folders. A single word is too
    ambiguous, unless it is the first word of an address.
    """
    path = link.path if link.rooted else link.from_root
    parts = path.raw.split("/") if path is not None and path.page else []
    most = 0
    if link.rooted:
        most = max(0, min(_MOST_PREFIX, len(parts) - _LEAST_LEFT))
    elif len(parts) < _LEAST_LEFT:
        parts = []
    tails = [Path.parse("/".join(parts[dropped:])) for dropped in range(most + 1) if parts]

    def matches(link: _ParsedLink, target: LinkTarget) -> Match | None:
        for dropped, tail in enumerate(tails):
            form = _compare_ends(target.path, tail, link.slash) if tail.page else None
            if form is not None:
                return (_BY_END + dropped, form)
        return None

    return matches


def _compare_paths(have: Path, wanted: Path, slash: bool) -> int | None:
    if have.raw == wanted.raw:
        return 0
    if have.whole == wanted.whole:
        return 1
    if wanted.ending not in ("", *_RENDERED) or have.page != wanted.page:
        return None
    return _rank_form(have, slash)


def _compare_ends(have: Path, tail: Path, slash: bool) -> int | None:
    """Like ``_compare_paths``, for a path of which only the end is known."""
    if have.whole == tail.whole or have.whole.endswith(f"/{tail.whole}"):
        return 1
    if tail.ending not in ("", *_RENDERED):
        return None
    if have.page != tail.page and not have.page.endswith(f"/{tail.page}"):
        return None
    return _rank_form(have, slash)


def _rank_form(have: Path, slash: bool) -> int:
    """Rank the files that could be a page: the file itself, or the index of its folder."""
    if have.page == have.stem:
        return 6 if slash else 2
    return 3 + _INDEXES.index(_last(have.stem))


def _prefer_sources(targets: list[LinkTarget]) -> list[LinkTarget]:
    """Return the targets in the first of the formats in which Sphinx looks for a document."""
    for endings in (("rst",), ("md", "markdown"), ("txt",)):
        sources = [target for target in targets if target.path.ending in endings]
        if sources:
            return sources
    return targets


def _is_inside(project: str | None, uri: str) -> bool:
    return not project or uri.startswith(f"{project}/")


def _find_nearest(folder: str, targets: Iterable[LinkTarget]) -> LinkTarget | None:
    """Return the target that shares most folders with a link; ``None`` if several share as many."""
    ranked = sorted(targets, key=lambda target: -_count_shared(folder, target.path.whole))
    if len(ranked) > 1:
        first, second = (_count_shared(folder, target.path.whole) for target in ranked[:2])
        if first == second:
            return None
    return ranked[0] if ranked else None


def _count_shared(folder: str, whole: str) -> int:
    """Count the leading folders that two paths have in common."""
    count = 0
    for one, other in zip(fold(folder).split("/"), whole.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count


def page_path(uri: str) -> str:
    """Return the path of a document without extensions; for an index page, its folder."""
    return Path.parse(uri).page


def parent_folder(uri: str) -> str:
    """Return the folder of a document; empty for the root."""
    return uri.rpartition("/")[0]


def _last(path: str) -> str:
    return path.rpartition("/")[2]

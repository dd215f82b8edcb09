"""Give a document another path, and take the links to it along.

A link follows if it names the document by its path or file name; one by alias or title still
leads there. Relative links of the document itself are adjusted to its new folder. Links of others
that the new name would catch are written with the path that they had in mind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lookfar.common.lines import Lines
from lookfar.edit.link_targets import Destination, move_relative, rewrite_links, spell_targets
from lookfar.edit.shape import Change, apply_changes
from lookfar.edit.work import Work, Workspace
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import Document, Link, LinkChange
from lookfar.ports import MovedDocument
from lookfar.store.catalogue.link_names import fold, is_external, leads_by_path, list_names
from lookfar.text.parse import frontmatter
from lookfar.text.parse.markdown import parse

_CANVAS_VALUE = re.compile(r'"(file|text)"\s*:\s*("(?:[^"\\]|\\.)*")')
_ALIAS_KEY = re.compile(r"^(aliases|alias)[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_ALIAS_ITEM = re.compile(r"(?:[ \t]*\n)*([ \t]*)- .*\n?")
_PLAIN_ALIAS = re.compile(r"[^\W\d_][\w .()&+'-]*(?<![ .])")
"""Words that YAML reads as they are."""
_NOT_PLAIN_ALIAS = frozenset(("true", "false", "null", "yes", "no", "on", "off"))
_KINDS = ("wikilink", "embed", "link", "image")
_FORBIDDEN = frozenset('[]|#^\\<>:"*?')
"""Characters that a link cannot contain, or that not every system allows in a file name."""
_CANVAS = ".canvas"


class LinkIndex(Protocol):
    """What a rename asks the index about links."""

    def find_sources(self, uri: str, names: Iterable[str]) -> list[str]:
        """Return the documents that link to a document or to one of these names."""
        ...

    def resolve(
        self, links: Sequence[tuple[str, str, str]], moved: MovedDocument | None
    ) -> list[str]:
        """Return where links (source, kind, target) lead, perhaps after a move."""
        ...


class NoLinks:
    """The links of a folder that has no index: none are known."""

    def find_sources(self, _uri: str, _names: Iterable[str]) -> list[str]:
        return []

    def resolve(
        self, links: Sequence[tuple[str, str, str]], _moved: MovedDocument | None
    ) -> list[str]:
        return [""] * len(links)


@dataclass(slots=True)
class Rename:
    """The documents and links that a rename changes."""

    work: Work
    """The renamed document; its ``uri`` is the new one."""
    old: str
    links: list[LinkChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def find_new_uri(uri: str, name: str, *, folder: bool) -> str:
    """Return the new path: a new name or path, or with ``folder`` the folder to move it to."""
    ending = uri[uri.rindex(".") :]
    parent, _, last = uri.rpartition("/")
    given = name.strip().replace("\\", "/").rstrip("/").removeprefix("./")
    if folder and not given.lower().endswith(ending.lower()):
        new = f"{given.lstrip('/')}/{last}" if given.strip("/") else last
    else:
        given = given if given.lower().endswith(ending.lower()) else f"{given}{ending}"
        new = given.lstrip("/") if "/" in given or folder or not parent else f"{parent}/{given}"
    stem = new.rpartition("/")[2].removesuffix(ending)
    wrong = sorted(_FORBIDDEN.intersection(new))
    if wrong or not stem.strip():
        raise InvalidArgument(
            f"{name!r} is not a valid name for a document"
            + (f": it contains {' '.join(wrong)}" if wrong else "")
            + ".",
            hint="Choose a name that a link can contain.",
            details={"uri": new, "reason": "name"},
        )
    return new


def plan_rename(
    space: Workspace, work: Work, new: str, index: LinkIndex, *, keep_alias: bool
) -> Rename:
    """Change the document and all links to it in the workspace, and return what changed."""
    old = work.uri
    names = [name.name for name in list_names(new, "", ())]
    moves = _Moves(index, MovedDocument(old, new, work.now.title, work.now.aliases))
    rename = Rename(work, old)
    changes, links = moves.rewrite(work.now, old, new)
    if changes:
        space.apply(work, changes)
    rename.links += links
    if keep_alias:
        _keep_alias(space, rename)
    for source in sorted({*index.find_sources(old, names)} - {old}):
        rename.links += _rewrite_source(space, moves, source)
    work.uri = new
    space.works.pop(old, None)
    space.works = {new: work, **space.works}
    return rename


class _Moves:
    """Decides about each link of a document whether it has to be rewritten, and how."""

    def __init__(self, index: LinkIndex, moved: MovedDocument) -> None:
        self._index = index
        self.moved = moved
        self._by_path = MovedDocument(moved.old, moved.new)

    def rewrite(
        self, document: Document, old: str, new: str
    ) -> tuple[tuple[Change, ...], list[LinkChange]]:
        """Return the changes of the links in a document that moves from ``old`` to ``new``.

        The two are the same for a document that only links to the moved one.
        """
        links = [link for link in document.links if link.kind in _KINDS and link.target]
        targets = self._find_targets(links, old, new)
        wanted = {
            link.start: Destination(targets[link.start], link.anchor)
            for link in links
            if link.start in targets
        }
        changes, rewritten = rewrite_links(document, wanted)
        lines = Lines(document.text)
        report = []
        for link in links:
            if link.start in targets:
                written = document.text[link.start : link.end]
                becomes = _show_link(written, link, targets[link.start])
                report.append(
                    LinkChange(
                        uri=new,
                        line=lines.line_of(link.start),
                        written=written,
                        anchor="",
                        heading_path=(link.target,),
                        becomes=becomes,
                        rewritten=link.start in rewritten,
                    )
                )
        return changes, report

    def _find_targets(self, links: Sequence[Link], old: str, new: str) -> dict[int, str]:
        asked = [(old, link.kind, link.target) for link in links]
        then = [(new, link.kind, link.target) for link in links]
        before = self._index.resolve(asked, None)
        after = self._index.resolve(then, self.moved)
        after_by_path = self._index.resolve(then, self._by_path)
        targets: dict[int, str] = {}
        for link, uri, now, now_by_path in zip(links, before, after, after_by_path, strict=True):
            if not uri:
                if old != new and _is_relative_path(link):
                    moved = move_relative(link, old, new)
                    if moved != link.target:
                        targets[link.start] = moved
                continue
            wanted = self.moved.new if uri == self.moved.old else uri
            by_path = leads_by_path(old, link.kind, link.target, uri)
            if (now_by_path if by_path and uri == self.moved.old else now) != wanted:
                targets[link.start] = self._spell(link, new, wanted)
        return targets

    def _spell(self, link: Link, source: str, uri: str) -> str:
        """Return the first way to write a link that leads where it should."""
        ways = spell_targets(link, source, uri)
        leads = self._index.resolve([(source, link.kind, way) for way in ways], self.moved)
        return next((way for way, lead in zip(ways, leads, strict=True) if lead == uri), ways[-1])


def _rewrite_source(space: Workspace, moves: _Moves, source: str) -> list[LinkChange]:
    """Rewrite the links of one other document; report those that cannot be rewritten."""
    if source.lower().endswith(_CANVAS):
        return _rewrite_canvas(space, moves, source)
    try:
        holder = space.load(source)
    except LookfarError:
        unwritable = space.load_read_only(source)
        if unwritable is None:
            return []
        _, links = moves.rewrite(unwritable.now, source, source)
        return [_not_rewritten(link) for link in links]
    holder.edited = False
    changes, links = moves.rewrite(holder.now, source, source)
    if changes:
        space.apply(holder, changes)
        space.works[source] = holder
    return links


def _rewrite_canvas(space: Workspace, moves: _Moves, source: str) -> list[LinkChange]:
    try:
        raw = space.load_text(source)
    except LookfarError:
        return []
    old, new = moves.moved.old, moves.moved.new
    text = raw.decode("utf-8", "replace")
    links: list[LinkChange] = []

    def change_text(value: str) -> str:
        document = parse(source, value)
        changes, own = moves.rewrite(document, source, source)
        links.extend(link for link in own if link not in links)
        return apply_changes(value, changes)

    changed = rewrite_canvas(text, lambda file: new if file == old else file, change_text)
    at = text.find(old)
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        links.insert(0, LinkChange(source, line, old, "", (old,), new, True))
    if changed is None or changed.encode() == raw:
        return [_not_rewritten(link) for link in links] if changed is None else []
    before, after = parse(source, text), parse(source, changed)
    space.works[source] = Work(source, raw, changed.encode(), before, after, {}, edited=False)
    return links


def _keep_alias(space: Workspace, rename: Rename) -> None:
    """Add the old name to the aliases of the renamed document."""
    alias = rename.old.rpartition("/")[2].rpartition(".")[0]
    changes = add_alias(rename.work.now, alias)
    if changes is None:
        rename.warnings.append(
            f"The alias {alias!r} was not added: the front matter of {rename.old} cannot be changed"
            " safely."
        )
    elif changes:
        space.apply(rename.work, changes)


def _not_rewritten(link: LinkChange) -> LinkChange:
    return LinkChange(
        link.uri, link.line, link.written, link.anchor, link.heading_path, link.becomes, False
    )


def _is_relative_path(link: Link) -> bool:
    """Whether a link to something that is not indexed is a path from the document's folder."""
    if is_external(link.target) or link.target.startswith("/"):
        return False
    return link.kind in ("link", "image") or link.target.startswith(("./", "../"))


def _show_link(written: str, link: Link, target: str) -> str:
    """Return a link as it will be written, for a preview."""
    for old in (link.target, link.target.replace(" ", "%20")):
        if old in written:
            head, _, tail = (
                written.rpartition(old)
                if link.kind in ("link", "image")
                else (written.partition(old))
            )
            return head + (target if old == link.target else target.replace(" ", "%20")) + tail
    return target


def rewrite_canvas(
    canvas: str, change_file: Callable[[str], str], change_text: Callable[[str], str]
) -> str | None:
    """Return a canvas with changed files and texts of its nodes; None if that is not possible.

    The result is parsed again and compared with what was intended.
    """

    def replace(match: re.Match[str]) -> str:
        value = json.loads(match[2])
        changed = change_file(value) if match[1] == "file" else change_text(value)
        if changed == value:
            return match[0]
        return match[0][: match.start(2) - match.start()] + json.dumps(changed, ensure_ascii=False)

    try:
        before = json.loads(canvas)
        changed = _CANVAS_VALUE.sub(replace, canvas)
        after = json.loads(changed)
    except (ValueError, RecursionError):
        return None
    return changed if _map_nodes(before, change_file, change_text) == after else None


def _map_nodes(
    canvas: Any, change_file: Callable[[str], str], change_text: Callable[[str], str]
) -> Any:
    if not isinstance(canvas, dict) or not isinstance(canvas.get("nodes"), list):
        return canvas
    changes = {"file": change_file, "text": change_text}
    nodes = [
        {
            key: changes[key](value) if key in changes and isinstance(value, str) else value
            for key, value in node.items()
        }
        if isinstance(node, dict)
        else node
        for node in canvas["nodes"]
    ]
    return {**canvas, "nodes": nodes}


def add_alias(document: Document, alias: str) -> tuple[Change, ...] | None:
    """Return the change that adds an alias; empty if the note has it, None if it is not possible.

    The result is parsed again: only the aliases may differ.
    """
    if fold(alias) in map(fold, document.aliases):
        return ()
    front = frontmatter.split(document.text)
    if front is None:
        changes = (Change(0, 0, (f"---\naliases:\n  - {_quote_alias(alias)}\n---\n",)),)
    elif front.syntax == "yaml":
        changes = (_change_yaml_aliases(document.text, front.raw, alias),)
    else:
        return None
    now = parse(document.uri, apply_changes(document.text, changes))
    others = {key: value for key, value in now.metadata.items() if key not in ("aliases", "alias")}
    before = {
        key: value for key, value in document.metadata.items() if key not in ("aliases", "alias")
    }
    same = others == before and now.title == document.title
    return changes if same and set(now.aliases) == {*document.aliases, alias} else None


def _change_yaml_aliases(text: str, raw: str, alias: str) -> Change:
    start = text.find("\n") + 1
    key = _ALIAS_KEY.search(raw)
    if key is None:
        end = start + len(raw)
        return Change(end, end, (f"aliases:\n  - {_quote_alias(alias)}\n",))
    value, at = key[2].strip(), start + key.start(2)
    written = _quote_alias(alias)
    if value.startswith("[") and value.endswith("]"):
        inside = value[1:-1].strip()
        return Change(
            at, start + key.end(2), (f"[{inside}, {written}]" if inside else f"[{written}]",)
        )
    if value:  # A text with commas.
        return Change(start + key.end(2), start + key.end(2), (f", {alias}",))
    line = key.end() + 1
    end, indent = line, "  "
    while (item := _ALIAS_ITEM.match(raw, end)) is not None:
        end, indent = item.end(), item[1]
    return Change(start + end, start + end, (f"{indent}- {written}\n",))


def _quote_alias(alias: str) -> str:
    if _PLAIN_ALIAS.fullmatch(alias) and alias.lower() not in _NOT_PLAIN_ALIAS:
        return alias
    return json.dumps(alias, ensure_ascii=False)

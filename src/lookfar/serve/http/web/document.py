"""The routes of the web page that show a document: its text, its rendering and its colours."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from lookfar.collections.pictures import find_picture
from lookfar.common.hidden_characters import flags
from lookfar.common.lines import Lines
from lookfar.errors import Ambiguous, NotFound
from lookfar.model import Outline, Reading
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.http.web.marks import find_marks, marked_terms
from lookfar.serve.http.web.pictures import PictureNames
from lookfar.serve.http.web.rendering.highlight import highlight
from lookfar.serve.http.web.rendering.markdown_tree import Reference, render_markdown
from lookfar.serve.http.web.rendering.nodes import Node, text_of, walk_nodes
from lookfar.serve.show import json_shapes
from lookfar.serve.show.snippet import strip_markup
from lookfar.serve.tools.related import usual_kinds
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.text.extract.formats import extractor_for
from lookfar.text.parse import frontmatter

_DOCUMENT_CHARS: Final = 400_000
"""How much of a document the page shows."""
_MARKDOWN: Final = (".md", ".markdown", ".mdx")
_MOST_PROPERTIES: Final = 60
_LONGEST_PROPERTY: Final = 1_000
_TEXTS: Final = "web.texts"
_MOST_TEXTS: Final = 4
_LOCK: Final = threading.Lock()
_WIKILINK: Final = re.compile(r"\[\[[^\[\]\n]+\]\]")
_HEADING: Final = re.compile(r"(?P<uri>.+?)#(?P<heading>.+)")


class DocumentInput(Input):
    target: Annotated[
        str, Field(min_length=1, description="URI, URI#Heading, URI:10-20, symbol, or a cite")
    ]
    collection: str = ""
    query: Annotated[
        str, Field(description="Mark the words of this question", max_length=10_000)
    ] = ""
    render: Annotated[bool, Field(description="Add a tree of nodes, if it is Markdown")] = False
    alone: Annotated[bool, Field(description="Only the part, without outline and related")] = False


def _document(session: Session, given: DocumentInput, _: Call) -> Result:
    library = session.library
    library.first_index()
    part, missing = _read_part(session, given)
    outline: Outline | None = None
    whole = part
    entries: list[Json] = []
    totals: Json = {}
    if part.state != "gone":
        if given.target != part.uri:
            whole = library.read(part.uri, collection=part.collection)
        outline = library.outline(part.uri, collection=part.collection)
        _remember(session, whole, outline)
        if not given.alone:
            entries, totals = _find_related(session, part)
    text = whole.text[:_DOCUMENT_CHARS]
    terms = marked_terms(given.query) if given.query.strip() else frozenset[str]()
    # A request for the whole document has no part to highlight.
    is_part = (part.span.start, part.span.end) != (whole.span.start, whole.span.end)
    data = json_shapes.reading(whole)
    data |= {
        "text": text,
        "truncated": len(whole.text) > len(text),
        "state": part.state,
        "cite": format_citation(part.collection, part.uri, part.span, part.sha256),
        "part": [part.span.start, part.span.end] if is_part and part.state != "gone" else None,
        "missing": missing,
        "flags": flags(text),
        "marks": [[start, end] for start, end in find_marks(text, terms)] if terms else [],
        "outline": json_shapes.outline(outline) if outline and not given.alone else None,
        "related": entries,
        "totals": totals,
    }
    if given.render and outline is not None:
        data |= _render(session, whole, text, outline)
        if given.alone:
            _cut(data)
    return Result(data, "")


def _read_part(session: Session, given: DocumentInput) -> tuple[Reading, str]:
    """Read what was asked for, or the whole document if only its heading is missing.

    Returns the missing heading, too: a link should not fail because a heading was renamed.
    """
    try:
        return session.library.read(given.target, collection=given.collection), ""
    except (Ambiguous, NotFound):
        named = _HEADING.fullmatch(given.target)
        if named is None:
            raise
        whole = session.library.read(named["uri"], collection=given.collection)
        return whole, named["heading"]


def _find_related(session: Session, part: Reading) -> tuple[list[Json], Json]:
    related = json_shapes.related(
        session.library.related(
            part.uri, kinds=usual_kinds(session), limit=50, collection=part.collection
        )
    )
    for entry in related["entries"]:
        if entry["uri"].endswith(_MARKDOWN) or extractor_for(entry["uri"]) is not None:
            entry["context"] = strip_markup(entry["context"], "markdown")
    calls = _find_calls(session, part)
    return [*calls["entries"], *related["entries"]], {**calls["totals"], **related["totals"]}


def _find_calls(session: Session, part: Reading) -> Json:
    """Return the callers, callees and tests of the definition that a part is in."""
    if not part.heading_path:
        return {"entries": [], "totals": {}}
    target = f"{part.uri}#{' > '.join(part.heading_path)}"
    try:
        related = session.library.related(
            target, kinds=("callers", "callees", "tests"), limit=20, collection=part.collection
        )
    except (Ambiguous, NotFound):
        # It has no name of its own, or the file changed since it was indexed.
        return {"entries": [], "totals": {}}
    return json_shapes.related(related)


# -- rendering -------------------------------------------------------------------------------------


def _is_rendered(whole: Reading, outline: Outline) -> bool:
    """Return whether a document is Markdown, or text that was extracted as Markdown."""
    return outline.language == "markdown" or whole.extracted


def _render(session: Session, whole: Reading, text: str, outline: Outline) -> Json:
    """Return the tree and the properties of a document; the tree of code is None."""
    if not _is_rendered(whole, outline):
        return {"tree": None, "properties": []}
    rendered = render_markdown(text)
    nodes = _insert_places(rendered.nodes, _place_offsets(text, outline))
    front = frontmatter.split(text)
    values = frontmatter.parse(front.raw, front.syntax)[0] if front else {}
    properties, linked = _list_properties(values)
    _resolve(session, whole, [*rendered.references, *linked])
    return {"tree": nodes, "properties": properties}


def _place_offsets(text: str, outline: Outline) -> list[tuple[int, str]]:
    lines = Lines(text)
    return [(lines.start_of(line), label) for line, label in outline.places if line <= len(lines)]


def _insert_places(nodes: list[Node], places: Sequence[tuple[int, str]]) -> list[Node]:
    """Put the pages, slides and ranges of an extracted text between its blocks."""
    merged: list[Node] = []
    waiting = list(reversed(places))
    for node in nodes:
        while waiting and waiting[-1][0] < node[2]:
            start, label = waiting.pop()
            merged.append(["place", start, start, [], {"label": label}])
        merged.append(node)
    return merged


def _resolve(session: Session, whole: Reading, references: Sequence[Reference]) -> None:
    """Complete the links of a document: which document or picture each one means."""
    if not references:
        return
    library = session.library
    folder = library.folder(whole.collection) if whole.collection in library.collections else None
    targets = library.link_targets(whole.uri, collection=whole.collection)
    pictures = PictureNames(session, whole.collection, folder)
    for kind, target, anchor, details in references:
        uri = targets.get(target) or _find_itself(whole.uri, target)
        if uri:
            details |= {"uri": uri, "anchor": anchor}
        elif kind in ("image", "embed") and folder is not None:
            path = find_picture(folder, whole.uri, target) or pictures.find(target)
            details |= {"path": path} if path else {"missing": target}
        else:
            details["missing"] = target


def _find_itself(uri: str, target: str) -> str:
    """Return the URI of the document if a link leads to a place in the same document."""
    if not target:
        return uri
    path = posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
    return uri if path in (uri, posixpath.splitext(uri)[0]) else ""


def _list_properties(values: Mapping[str, Any]) -> tuple[list[Json], list[Reference]]:
    """Return the front matter as rows of texts, and the wikilinks among these."""
    rows: list[Json] = []
    linked: list[Reference] = []
    for name, value in list(values.items())[:_MOST_PROPERTIES]:
        row: Json = {"name": name, "values": [], "links": []}
        for item in (value if isinstance(value, list) else [value])[:100]:
            text = _format_value(item)
            references = render_markdown(text).references if _WIKILINK.fullmatch(text) else []
            linked += references
            row["values"].append(strip_markup(text, "markdown") if references else text)
            row["links"].append(references[0].details if references else {})
        rows.append(row)
    return rows, linked


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        pairs = (f"{name}: {_format_value(item)}" for name, item in value.items())
        return "; ".join(pairs)[:_LONGEST_PROPERTY]
    return str(value)[:_LONGEST_PROPERTY]


def _cut(data: Json) -> None:
    """Reduce a document to one of its parts; offsets still count from its beginning."""
    if not data["part"]:
        data["base"] = 0
        return
    start, end = data["part"]
    if data["tree"] is not None:
        nodes = [node for node in data["tree"] if start <= node[1] < end]
        data["tree"] = nodes
        end = max([end, *(node[2] for node in nodes)])
    data |= {"text": data["text"][start:end], "base": start, "marks": [], "part": None}


# -- colours ---------------------------------------------------------------------------------------


class HighlightInput(Input):
    target: Annotated[str, Field(min_length=1, description="URI")]
    collection: str = ""
    sha256: Annotated[
        str, Field(description="The hash of the text as it was shown, which saves reading it again")
    ] = ""


class _Shown(NamedTuple):
    """A text that the page shows, and the language to colour it by."""

    text: str
    language: str
    """Empty if it is rendered, so that only its code blocks are coloured."""


def _remember(session: Session, whole: Reading, outline: Outline) -> _Shown:
    """Keep the last texts by their hashes: parsing a long file again takes time."""
    language = "" if _is_rendered(whole, outline) else outline.language
    shown = _Shown(whole.text[:_DOCUMENT_CHARS], language)
    with _LOCK:
        texts: dict[tuple[str, str], _Shown] = session.memory.setdefault(_TEXTS, {})
        texts.pop((whole.collection, whole.sha256), None)
        texts[(whole.collection, whole.sha256)] = shown
        while len(texts) > _MOST_TEXTS:
            del texts[next(iter(texts))]
    return shown


def _highlight(session: Session, given: HighlightInput, _: Call) -> Result:
    """Return the tokens of a source file, or of the code in a Markdown document."""
    library = session.library
    digest, shown = given.sha256, None
    if given.collection in library.collections:  # The token gives access to it.
        with _LOCK:
            shown = session.memory.get(_TEXTS, {}).get((given.collection, given.sha256))
    if shown is None:
        library.first_index()
        whole = library.read(given.target, collection=given.collection)
        outline = library.outline(whole.uri, collection=whole.collection)
        digest, shown = whole.sha256, _remember(session, whole, outline)
    if shown.language:
        tokens = highlight(shown.text, shown.language)
    else:
        tokens = _highlight_blocks(shown.text)
    return Result({"sha256": digest, "tokens": tokens}, "")


def _highlight_blocks(text: str) -> list[tuple[int, int, str]]:
    """Return the tokens of all code blocks, at their offsets in the document."""
    tokens: list[tuple[int, int, str]] = []
    for node in walk_nodes(render_markdown(text).nodes):
        if node[0] != "code_block" or not node[4]["language"]:
            continue
        code, pieces = text_of([node], text), node[3]
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(text_of([piece], text)))
        for start, end, kind in highlight(code, node[4]["language"]):
            tokens += _map_token(start, end, kind, pieces, starts)
    return tokens


def _map_token(
    start: int, end: int, kind: str, pieces: Sequence[Node], starts: Sequence[int]
) -> list[tuple[int, int, str]]:
    """Map a token of a code block to the document, where quote marks may interrupt it."""
    mapped = []
    for at, piece in enumerate(pieces):
        low, high = max(start, starts[at]), min(end, starts[at + 1])
        if low < high and len(piece) == 3:
            mapped.append((piece[1] + low - starts[at], piece[1] + high - starts[at], kind))
    return mapped


ROWS: Sequence[Tool] = (
    Tool(
        "document",
        "A document as it is on disk now, with its outline and related documents.",
        DocumentInput, _document,
    ),
    Tool(
        "highlight",
        "The keywords, strings, comments and names in the code of a document.",
        HighlightInput, _highlight,
    ),
)  # fmt: skip

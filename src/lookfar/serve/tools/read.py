"""The tool ``read``: documents, sections, lines, definitions and citations, one or several.

A large document is shown as its outline and its beginning, unless a budget asks for more. With
``find``, only the parts that match are shown. If some of several targets cannot be read, they are
named and the others are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument, LookfarError, how_many
from lookfar.model import Outline, Reading, Section
from lookfar.retrieve.answer.pack import cut, tokens
from lookfar.retrieve.grep.find_in_text import Found, find_in_text
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.show import json_shapes
from lookfar.serve.show.locations import name_part
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import Cursor, recall_call, remember_call
from lookfar.serve.tools.dates import end_of
from lookfar.serve.tools.embedded import show_embeds
from lookfar.serve.tools.inputs import LEAST_TOKENS, Budget
from lookfar.serve.tools.output_schemas import READ_PLACES
from lookfar.serve.tools.tool import Call, Input, Json, Passage, Result, Session, Tool, bounded

_TOKENS = 8_000
"""Default budget for one target."""
_TOKENS_TOGETHER = 4_000
"""Default budget for several targets together."""
_TOKENS_FOUND = 1_500
"""Default budget for the parts of one target that ``find`` matches."""
_LARGE = 2_500
"""A document with more tokens is shown as outline and beginning."""
_BEGINNING = 500
_OUTLINE = 700
_MOST_MEMBERS = 60
_MOST_MEMBERS_BESIDE = 20
"""The most members to name if matching lines are shown, too."""
_MOST_LEFT = 12
"""How many matching lines that are not shown are named by their numbers."""
_SHORT_REST = 10
"""A text is not cut if it would lose at most this many lines."""
_MOST_TARGETS = 12
_KIND = "read"
_MOST_WARNINGS = 3
_DIGITS = 16
"""Digits of a hash that are enough to identify it."""


def _few(targets: list[str]) -> list[str]:
    if len(targets) > _MOST_TARGETS:
        raise ValueError(f"It takes at most {_MOST_TARGETS}")
    if not all(target.strip() for target in targets):
        raise ValueError("A target is empty")
    return targets


class ReadInput(Input):
    target: Annotated[str, Field(description="path, path#Heading, path:10-20, name, cite")] = ""
    targets: Annotated[list[str], AfterValidator(_few)] = []
    find: Annotated[str, Field(description="Words, name, /regex/")] = ""
    at: Annotated[str, Field(description="Date")] = ""
    embeds: Annotated[bool, Field(default_factory=bool)]
    collection: str = ""
    budget: Budget
    cursor: str = ""


def _read(session: Session, given: ReadInput, _: Call) -> Result:
    if given.cursor and not given.target:
        given = ReadInput.model_validate(
            {**recall_call(session.memory, given.cursor), "cursor": given.cursor}
        )
    targets = [*([given.target] if given.target.strip() else []), *given.targets]
    if not targets:
        raise InvalidArgument(
            "read needs the argument 'target'.",
            hint="Add target, or targets for several.",
            details={"field": "target", "value": given.target, "reason": "missing"},
        )
    if given.embeds and (given.targets or given.at or given.find):
        other = "targets" if given.targets else "at" if given.at else "find"
        raise InvalidArgument(
            f"embeds cannot be combined with {other}.",
            hint="Read one target as it is now.",
            details={"field": "embeds", "value": True, "reason": f"with {other}"},
        )
    session.library.first_index()
    if given.find.strip():
        return _find_in_targets(session, given, targets)
    if given.targets:
        return _read_several(session, given, targets)
    before = end_of(given.at, "at")
    reading = session.library.read(given.target, collection=given.collection, before=before)
    if before is not None:
        return _read_one(session, given, reading)
    whole = not reading.heading_path and reading.span.start == 0
    if whole and not given.budget and not given.cursor and tokens(reading.text) > _LARGE:
        tree = session.library.outline(reading.uri, collection=reading.collection)
        if given.target.strip().endswith(reading.uri) and tree.lines == reading.span.end_line:
            return _show_outline(session, reading, tree, given)
    return _read_one(session, given, reading)


def _read_one(session: Session, given: ReadInput, reading: Reading) -> Result:
    about = {"target": given.target, "sha256": reading.sha256}
    cursor = Cursor.read(given.cursor, about, _KIND)
    remaining = reading.text[cursor.offset :]
    embeds = session.library.embeds(reading) if given.embeds else ()

    @cache
    def members() -> str:
        tree = None if given.at else _read_outline(session, reading)
        return _describe_members(reading, tree, _MOST_MEMBERS)[1]

    def show(budget: int) -> Result:
        text = _cut(remaining, budget)
        rest = len(remaining) - len(text)
        data = _shape(reading, text)
        data["truncated"] = bool(cursor.offset or rest)
        data["cursor"] = ""
        more = ""
        if rest:
            data["cursor"] = _next(session, given, cursor.offset + len(text), about)
            lines_shown = reading.text.count("\n", 0, cursor.offset + len(text))
            follows = _address(reading, reading.span.start_line + lines_shown)
            more = safe_name(f"Cut. The rest: {follows}, or cursor {data['cursor']}")
            if not cursor.offset:
                more = "\n".join(filter(None, (more, members())))
        passage = Passage(
            ("text",), _where(reading, data, session.write), data["cite"], reading.uri
        )
        passages = [passage] if text or not more else []
        if given.embeds:
            shown = range(cursor.offset, cursor.offset + len(text))
            own = [embed for embed in embeds if embed.start in shown]
            data["embeds"] = json_shapes.embeds(own)
            passages += show_embeds(data["embeds"], budget - tokens(text))
        return Result(data, more, tuple(passages))

    return bounded(show, given.budget or _TOKENS, LEAST_TOKENS)


def _next(session: Session, given: ReadInput, offset: int, about: Json) -> str:
    cursor = Cursor((offset,)).write(about, _KIND)
    arguments = given.model_dump(
        include={"target", "collection", "budget", "at", "embeds"}, exclude_unset=True
    )
    remember_call(session.memory, cursor, arguments)
    return cursor


def _show_outline(session: Session, reading: Reading, tree: Outline, given: ReadInput) -> Result:
    """Show the sections of a document with their lines, and its beginning."""
    about = {"target": given.target, "sha256": reading.sha256}
    text = cut(reading.text, _BEGINNING)
    data = _shape(reading, text)
    data["truncated"] = True
    data["cursor"] = _next(session, given, len(text), about)
    sections = _sections_that_fit(tree.sections)
    data["outline"] = [
        {"line": section.span.start_line, "level": section.level, "title": section.title}
        for section in sections
    ]
    left = len(tree.sections) - len(sections)
    size = f"{tree.lines:,} lines, {tokens(reading.text):,} tokens"
    head = f"{size}: the outline and the beginning. All of it with cursor {data['cursor']}"
    lines = [head]
    lines += (
        safe_name(f"{'  ' * section.level}{_span(section)} {section.title}") for section in sections
    )
    if left:
        lines.append(f"  and {left:,} deeper sections")
    passage = Passage(("text",), _where(reading, data, session.write), data["cite"], reading.uri)
    return Result(data, "\n".join(lines), (passage,))


def _span(section: Section) -> str:
    return f"{section.span.start_line}-{section.span.end_line}"


def _sections_that_fit(sections: Sequence[Section]) -> list[Section]:
    """Return all sections down to the deepest level that fits, or else as many as fit."""
    deepest = max((section.level for section in sections), default=0)
    for level in range(deepest, 0, -1):
        chosen = [section for section in sections if section.level <= level]
        if sum(len(section.title) // 4 + 6 for section in chosen) <= _OUTLINE:
            return chosen
    return list(sections[: _OUTLINE // 10])


@dataclass(frozen=True, slots=True)
class _Unread:
    """A target that cannot be read, and why."""

    target: str
    error: LookfarError


def _read_all(
    session: Session, given: ReadInput, targets: Sequence[str]
) -> tuple[list[Reading], list[_Unread]]:
    """Read targets; raise the first error if none of them can be read."""
    readings: list[Reading] = []
    unread: list[_Unread] = []
    before = end_of(given.at, "at")
    for target in dict.fromkeys(targets):
        try:
            readings.append(
                session.library.read(target, collection=given.collection, before=before)
            )
        except LookfarError as error:
            unread.append(_Unread(target, error))
    if not readings:
        raise unread[0].error
    return readings, unread


def _name_unread(unread: Sequence[_Unread]) -> str:
    return "\n".join(
        safe_name(f"Not read: {missing.target}: {missing.error.message} {missing.error.hint}")
        for missing in unread
    )


def _read_several(session: Session, given: ReadInput, targets: Sequence[str]) -> Result:
    readings, unread = _read_all(session, given, targets)

    @cache
    def outline(at: int) -> Outline | None:
        return None if given.at else _read_outline(session, readings[at])

    def show(budget: int) -> Result:
        shares = _fair_shares([tokens(reading.text) for reading in readings], budget)
        shapes: list[Json] = []
        passages: list[Passage] = []
        for at, (reading, share) in enumerate(zip(readings, shares, strict=True)):
            text = _cut(reading.text, share)
            data = _shape(reading, text)
            data["truncated"] = len(text) < len(reading.text)
            where = _where(reading, data, session.write)
            if data["truncated"]:
                rest = _address(reading, reading.span.start_line + text.count("\n"))
                _, members = _describe_members(reading, outline(at), _MOST_MEMBERS_BESIDE)
                cut_at = f"cut, the rest: {safe_name(rest)}"
                where = " | ".join(filter(None, (where, members, cut_at)))
            passages.append(Passage(("readings", at, "text"), where, data["cite"], reading.uri))
            shapes.append(data)
        return Result(_join(shapes, unread), _name_unread(unread), tuple(passages))

    return bounded(show, given.budget or _TOKENS_TOGETHER, LEAST_TOKENS)


def _join(shapes: list[Json], unread: Sequence[_Unread]) -> Json:
    failed = [{"target": missing.target, **missing.error.as_dict()} for missing in unread]
    return {"readings": shapes, "unread": failed}


def _find_in_targets(session: Session, given: ReadInput, targets: Sequence[str]) -> Result:
    """Show the matching parts of targets, and the members of a class or module."""
    readings, unread = _read_all(session, given, targets)
    outlines = [None if given.at else _read_outline(session, reading) for reading in readings]
    wanted = given.find.strip()

    def find(budgets: Sequence[int]) -> list[Found]:
        return [
            find_in_text(reading, tree, wanted, budget)
            for reading, tree, budget in zip(readings, outlines, budgets, strict=True)
        ]

    def show(budget: int) -> Result:
        whole = find([budget] * len(readings))
        found = find(_fair_shares([tokens(part.text) for part in whole], budget))
        shapes: list[Json] = []
        passages: list[Passage] = []
        for at, (reading, tree, part) in enumerate(zip(readings, outlines, found, strict=True)):
            data = {**json_shapes.found(reading, part), **_shape(reading, part.text)}
            data["truncated"] = True
            where = [_where(reading, data, session.write), _count_matches(wanted, reading, part)]
            data["members"] = []
            # Name the headings of a page only if nothing matches.
            if tree is not None and (tree.symbols or not part.text):
                most = _MOST_MEMBERS_BESIDE if part.text else _MOST_MEMBERS
                data["members"], named = _describe_members(reading, tree, most)
                where += filter(None, [named])
            path = ("readings", at, "text") if given.targets else ("text",)
            passages.append(Passage(path, " | ".join(where), data["cite"], reading.uri))
            shapes.append(data)
        joined = _join(shapes, unread) if given.targets else shapes[0]
        return Result(joined, _name_unread(unread), tuple(passages))

    usual = min(_TOKENS_FOUND * len(readings), _TOKENS_TOGETHER)
    return bounded(show, given.budget or usual, LEAST_TOKENS)


def _read_outline(session: Session, reading: Reading) -> Outline | None:
    """Return the outline of a document that was read; None if it has none."""
    with suppress(LookfarError):
        return session.library.outline(reading.uri, collection=reading.collection)
    return None


def _count_matches(wanted: str, reading: Reading, found: Found) -> str:
    if not found.matches:
        whole = " The text is short; all of it:" if found.text else ""
        return safe_name(f"No line matches {wanted!r:.80}.{whole}")
    count = how_many(found.matches, "matching line")
    if not found.left:
        return count
    named = ", ".join(map(str, found.left[:_MOST_LEFT]))
    more = f" and {len(found.left) - _MOST_LEFT:,} more" if len(found.left) > _MOST_LEFT else ""
    return safe_name(f"{count}; not shown, of {reading.uri}: {named}{more}")


def _list_members(reading: Reading, tree: Outline | None) -> list[Section]:
    """Return the direct members of a class, module or section that was read as a whole."""
    if tree is None:
        return []
    lines = reading.span.start_line, reading.span.end_line
    if lines == (1, tree.lines):
        outer = [section for section in tree.sections if len(section.path) == 1]
        if len(outer) == 1 and not tree.symbols:  # The title of a page.
            outer = [section for section in tree.sections if len(section.path) == 2]
        return outer
    return [
        section
        for owner in tree.sections
        if owner.path == reading.heading_path
        and (owner.span.start_line, owner.span.end_line) == lines
        for section in tree.sections
        if section.parent == owner.ordinal
    ]


def _describe_members(reading: Reading, tree: Outline | None, most: int) -> tuple[list[Json], str]:
    """Return at most ``most`` members, functions before constants, and a line that names them."""
    members = _list_members(reading, tree)
    if tree is None or not members:
        return [], ""
    constants = {symbol.section for symbol in tree.symbols if symbol.kind == "constant"}
    kept = sorted(members, key=lambda member: member.ordinal in constants)[:most]
    shapes: list[Json] = [
        {"line": member.span.start_line, "title": member.title}
        for member in sorted(kept, key=lambda member: member.ordinal)
    ]
    names = ", ".join(f"{shape['title']} {shape['line']}" for shape in shapes)
    more = f" and {len(members) - len(kept):,} more" if len(members) > len(kept) else ""
    return shapes, safe_name(f"{'Members' if tree.symbols else 'Sections'}: {names}{more}")


def _cut(text: str, budget: int) -> str:
    """Cut a text to a budget, unless almost all of it fits."""
    start = cut(text, budget)
    rest = text[len(start) :]
    is_short = rest.count("\n") <= _SHORT_REST and tokens(rest) <= budget // 4
    return text if is_short else start


def _address(reading: Reading, first: int) -> str:
    """Return a target for the rest of a reading, starting at a line."""
    return f"{reading.uri}:{first}-{reading.span.end_line}"


def _fair_shares(costs: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: cover small costs, and divide the rest equally among large ones."""
    shares = [0] * len(costs)
    left = budget
    order = sorted(range(len(costs)), key=lambda at: costs[at])
    for position, at in enumerate(order):
        shares[at] = min(costs[at], left // (len(order) - position))
        left -= shares[at]
    return shares


def _shape(reading: Reading, text: str) -> Json:
    data = json_shapes.reading(reading)
    data["cite"] = format_citation(reading.collection, reading.uri, reading.span, reading.sha256)
    data["text"], data["flags"] = text, flags(text)
    return data


def _where(reading: Reading, data: Json, write: bool) -> str:
    parts = [
        f"{reading.uri}{_name_read_part(reading)}" if reading.state != "gone" else reading.uri,
        *([" > ".join(reading.heading_path)] if reading.heading_path else []),
        *([] if reading.state == "same" else [_STATES[reading.state]]),
        # The hash for an edit; some clients show a model only this line.
        *([f"sha256 {reading.sha256[:_DIGITS]}"] if write and reading.state != "gone" else []),
        *(f"contains {flag} characters" for flag in data["flags"]),
        *([f"also {', '.join(reading.also[:_MOST_WARNINGS])}"] if reading.also else []),
        *reading.warnings[:_MOST_WARNINGS],
    ]
    return safe_name(" | ".join(parts))


def _name_read_part(reading: Reading) -> str:
    """Return the lines, after the place if the text was extracted from a single one."""
    lines = f":{reading.span.start_line}-{reading.span.end_line}"
    return f"{name_part(reading)} {lines[1:]}" if len(reading.places) == 1 else lines


_STATES = {
    "moved": "moved since it was cited",
    "changed": "changed since it was indexed or cited",
    "gone": "gone from the disk",
}

READ = Tool(
    "read",
    "Read a document or part as on disk now; of a large one, the outline; with find, what matches.",
    ReadInput,
    _read,
    advice="If its lines are not enough, `{name}` the best places in one call"
    " (targets; find for long ones).",
    always_listed=True,
    lean=True,
    by_reader=True,
    title="Read",
    output_schema=READ_PLACES,
)

"""The tool ``read``: documents, sections, lines, definitions and citations, one or several.

A large document is shown as its outline and its beginning, unless a budget asks for more. If some
of several targets cannot be read, they are named and the others are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import Outline, Reading, Section
from lookfar.retrieve.answer.pack import cut, tokens
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
_LARGE = 2_500
"""A document with more tokens is text as outline and beginning."""
_BEGINNING = 500
_OUTLINE = 700
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
    target: Annotated[
        str, Field(description="path, path#Heading, path:10-20, symbol, note, cite")
    ] = ""
    targets: Annotated[list[str], AfterValidator(_few), Field(description="Several")] = []
    at: Annotated[str, Field(description="Date: as it was")] = ""
    embeds: Annotated[bool, Field(default_factory=bool)]
    collection: str = ""
    budget: Budget
    cursor: str = ""


def _read(session: Session, given: ReadInput, call: Call) -> Result:
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
    if given.embeds and (given.targets or given.at):
        other = "targets" if given.targets else "at"
        raise InvalidArgument(
            f"embeds cannot be combined with {other}.",
            hint="Read one target as it is now.",
            details={"field": "embeds", "value": True, "reason": f"with {other}"},
        )
    session.library.first_index(on_progress=call.on_progress())
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

    def show(budget: int) -> Result:
        text = cut(remaining, budget)
        rest = len(remaining) - len(text)
        data = _shape(reading, text)
        data["truncated"] = bool(cursor.offset or rest)
        data["cursor"] = ""
        more = ""
        if rest:
            data["cursor"] = _next(session, given, cursor.offset + len(text), about)
            more = f"{rest:,} characters follow with cursor: {data['cursor']}"
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
    """Return all sections down to the deepest level that fits, or else the first ones."""
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


def _read_several(session: Session, given: ReadInput, targets: Sequence[str]) -> Result:
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

    def show(budget: int) -> Result:
        shares = _fair_shares([tokens(reading.text) for reading in readings], budget)
        shapes: list[Json] = []
        passages: list[Passage] = []
        lines = [
            safe_name(f"Not read: {missing.target}: {missing.error.message} {missing.error.hint}")
            for missing in unread
        ]
        for at, (reading, share) in enumerate(zip(readings, shares, strict=True)):
            text = cut(reading.text, share)
            data = _shape(reading, text)
            data["truncated"] = len(text) < len(reading.text)
            where = _where(reading, data, session.write)
            if data["truncated"]:
                first = reading.span.start_line + text.count("\n")
                rest = f"{reading.uri}:{first}-{reading.span.end_line}"
                where = f"{where} | cut, the rest: {safe_name(rest)}"
            passages.append(Passage(("readings", at, "text"), where, data["cite"], reading.uri))
            shapes.append(data)
        failed = [{"target": missing.target, **missing.error.as_dict()} for missing in unread]
        return Result({"readings": shapes, "unread": failed}, "\n".join(lines), tuple(passages))

    return bounded(show, given.budget or _TOKENS_TOGETHER, LEAST_TOKENS)


def _fair_shares(costs: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: small costs are covered, large ones share the rest equally."""
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
    "Read lines, a section, a definition, a citation or a document as on disk now; of a"
    " large document, the outline.",
    ReadInput,
    _read,
    advice="If its lines are not enough, `{name}` the two or three best places in one call"
    " (targets).",
    always_listed=True,
    lean=True,
    by_reader=True,
    title="Read",
    output_schema=READ_PLACES,
)

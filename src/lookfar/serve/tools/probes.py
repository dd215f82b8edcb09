"""What a call of ``search`` asks: words, a literal text, a regular expression, or an address.

how are retries limited      words, or the name of a definition
"retry limit reached"        lines with this text; words if no line has it
/retr(y|ies)_left/           lines that match; /.../i ignores case
src/net.py#Session.get       the definition, section or lines at this address
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from lookfar.errors import LookfarError
from lookfar.model import Incomplete, Lane, Reading
from lookfar.retrieve.answer.pack import cut
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.inputs import between
from lookfar.serve.tools.tool import Input, Json, Session, plain_refusal
from lookfar.sources.globs import BETWEEN

MOST_PROBES: Final = 20
READ_TOKENS: Final = 400
"""Default budget of an address."""
_ADDRESS: Final = re.compile(r"[^\s#:\"]*[./][^\s#:\"]*(?:#\S[^\n]*|:\d+(?:-\d+)?)")
_REGEX: Final = re.compile(r"/(.+)/(i?)", re.DOTALL)
_LITERAL: Final = re.compile(r'"([^"\n]+)"')

Way = Literal["words", "literal", "regex", "address"]


class Part(NamedTuple):
    """The answer to one probe."""

    text: str
    shape: Json
    """The same for programs."""
    excerpts: Mapping[tuple[str | int, ...], Any] = {}
    """The parts of longer texts in ``shape`` that ``text`` shows, by their paths."""
    reached: int = 1
    """How many documents, definitions or sections it deals with; the next page skips them."""
    more: bool = False
    notes: Sequence[Incomplete] = ()
    sizes: Mapping[tuple[str, str], int] = {}
    """The characters of each document that it shows lines of."""
    found: str = ""
    """How many lines match."""


def _join(globs: Any) -> Any:
    several = isinstance(globs, list) and all(isinstance(glob, str) for glob in globs)
    return BETWEEN.join(globs) if several else globs


Globs = Annotated[
    str,
    BeforeValidator(_join),
    # A list is accepted as well, but clients refuse schemas with unions.
    WithJsonSchema({"type": "string"}),
]
"""One or several globs; those that begin with ``!`` exclude. They are joined to one text."""


class Probe(Input):
    """One of several questions, with its own limit and filters."""

    query: str
    limit: Annotated[int, AfterValidator(between(1, 50))] = 0
    kinds: list[Lane] = []
    glob: Globs = ""

    def read_way(self) -> tuple[Way, str]:
        """Return how it is meant, and its text without the marks that say so."""
        text = self.query.strip()
        if (literal := _LITERAL.fullmatch(text)) is not None:
            return "literal", literal[1]
        if (regex := _REGEX.fullmatch(text)) is not None:
            return "regex", f"(?i){regex[1]}" if regex[2] else regex[1]
        return ("address" if _ADDRESS.fullmatch(text) else "words"), self.query


NO_PROBE: Final = Probe(query="")


def _read_objects(probes: Any) -> Any:
    """Read texts as probes; one may be a JSON object, as a client may insist on texts."""
    if not isinstance(probes, list):
        return probes
    return [_read_object(probe) if isinstance(probe, str) else probe for probe in probes]


def _read_object(text: str) -> Json:
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            shape = json.loads(text)
            if isinstance(shape, dict) and "query" in shape:
                return shape
    return {"query": text}


def check_probes(probes: list[Probe]) -> list[Probe]:
    """Refuse too many probes, and empty ones."""
    if len(probes) > MOST_PROBES:
        raise ValueError(f"It takes at most {MOST_PROBES}")
    if not all(probe.query.strip() for probe in probes):
        raise ValueError("A question is empty")
    return probes


Probes = Annotated[
    list[Probe],
    BeforeValidator(_read_objects),
    AfterValidator(check_probes),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]


def read_address(session: Session, target: str) -> Reading | None:
    """Return the text at an address; None if there is none."""
    try:
        return session.library.read(target)
    except LookfarError:
        return None


def draw_reading(reading: Reading, budget: int) -> Part:
    """Show the numbered lines of a text, as many as fit, and what to read for the rest."""
    first, last = reading.span.start_line, reading.span.end_line
    # Each number takes some tokens as well.
    lines = cut(reading.text, budget * 4 // 5).rstrip("\n").split("\n")
    heading = " > ".join(reading.heading_path[-2:])
    state = "" if reading.state == "same" else f"  ({reading.state} on disk)"
    shown = [safe_name(f"{reading.uri}{state}"), safe_name(f"  {first}-{last} {heading}".rstrip())]
    shown += (
        f"    {number}| {safe_name(line.expandtabs(4))}" for number, line in enumerate(lines, first)
    )
    following = first + len(lines)
    cut_off = following <= last
    if cut_off:
        shown.append(f"    the rest: {safe_name(reading.uri)}:{following}-{last}")
    shape: Json = json_shapes.reading(reading)
    shape["cite"] = format_citation(reading.collection, reading.uri, reading.span, reading.sha256)
    shape["text"] = "\n".join(lines)
    shape["truncated"] = cut_off
    return Part(
        "\n".join(shown), {"reading": shape}, {("reading", "text"): shape["text"]}, reached=1
    )


class Refused(NamedTuple):
    """A probe that cannot be answered, such as an invalid expression; the others are."""

    error: LookfarError


def draw_refusal(refused: Refused) -> Part:
    error = refused.error
    return Part(
        "",
        {"error": plain_refusal(error)},
        found=safe_name(f"not searched: {error.message} {error.hint}"),
    )

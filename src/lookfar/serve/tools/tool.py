"""What a tool is: a name, an input it checks, a handler, and a result that every face can show.

Takes: a table row (:class:`Tool`) and the arguments of a call. Gives: checked input, and
results whose texts exist once (:class:`Result`). Refuses: an argument that is unknown, of
the wrong type or out of range, with the name that was probably meant.

A handler is plain blocking code. What it needs from whoever called (progress, a
confirmation) it asks of its :class:`Call`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from lookfar.common.turns import TURNS
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.retrieve.answer.pack import tokens

if TYPE_CHECKING:
    from lookfar.index.progress import OnProgress
    from lookfar.library import Library

Json = dict[str, Any]

MOST_TOKENS = 20_000
"""No result costs its reader more."""
_AROUND_A_PASSAGE = 50
"""Tokens of what the protocol wraps around a text and a link."""


class Input(BaseModel):
    """The arguments of a tool: JSON as it came, nothing guessed and nothing ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Call(Protocol):
    """One call, seen from its handler."""

    @property
    def client(self) -> str:
        """The name of the program that called, or empty."""

    def on_progress(self) -> OnProgress:
        """Something that tells the caller how far a pass is; raises when the call is given up."""

    def confirm(self, question: str) -> bool:
        """Ask the person behind the caller; ``ConfirmationNeeded`` where nobody can be asked."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text from a document inside a result, and the line that says whose it is."""

    at: tuple[str | int, ...]
    """Where in the result's data the text stands."""
    line: str
    address: str
    """What ``read`` takes to give it again."""
    name: str
    language: str = "markdown"


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gives: data for programs, a few words for models, and whose texts are in it."""

    data: Json
    text: str
    """Our own words. Texts from documents are in ``data``, where ``passages`` point, and in
    ``body``."""
    passages: tuple[Passage, ...] = ()
    body: str = ""
    """Lines of documents with their places, laid out for a model. Each line begins with a path of
    ours or is indented, so that no document can forge one of ours."""
    excerpts: Mapping[tuple[str | int, ...], Any] = field(default_factory=dict)
    """For texts in ``data`` that ``body`` shows a part of: where they are, and that part."""
    verbatim: bool = False
    """Models get the data as it is, in the shape that their clients know."""
    listed: str = ""
    """The key of a list that is all of the result where nothing demands an object."""

    @property
    def shape(self) -> Any:
        """The data as clients of this shape know it: an object, or a list."""
        return self.data[self.listed] if self.listed else self.data

    @property
    def cost(self) -> int:
        """Tokens of all of it: some clients show a model the data, the links and the texts."""
        lines = "".join(f"{each.line}{each.name}{each.address * 2}" for each in self.passages)
        said = json.dumps(self.brief, ensure_ascii=False) + self.text + self.body + lines
        return tokens(said) + _AROUND_A_PASSAGE * (1 + len(self.passages))

    @property
    def brief(self) -> Json:
        """The data with no more of the texts than ``body`` shows."""
        if not self.excerpts:
            return self.data
        data: Json = copy_of(self.data)
        for path, excerpt in self.excerpts.items():
            part_of(data, path[:-1])[path[-1]] = excerpt
        return data


def copy_of(data: Any) -> Any:
    """JSON that can be changed without changing the original."""
    if isinstance(data, dict):
        return {key: copy_of(value) for key, value in data.items()}
    return [copy_of(value) for value in data] if isinstance(data, list) else data


def part_of(data: Any, path: Iterable[str | int]) -> Any:
    """What is at a path inside JSON."""
    for part in path:
        data = data[part]
    return data


def bounded(make: Callable[[int], Result], size: int, least: int = 1) -> Result:
    """What ``make`` gives for ``size``, or for less where that costs more than a result may."""
    while True:
        result = make(size)
        if result.cost <= MOST_TOKENS or size <= least:
            return result
        size = max(least, min(size * MOST_TOKENS // result.cost, size - 1))


REACHABLE: ContextVar[tuple[str, ...]] = ContextVar("REACHABLE", default=())
"""The collections that whoever calls may reach, by the token of the request; none means all."""


class Session:
    """One caller's view: what it may reach, and how."""

    def __init__(
        self,
        library: Library | LookfarError,
        *,
        write: bool = False,
        call: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``call`` surrounds each call, so that what it uses stays at hand."""
        self._library = library
        self.write = write
        self.call = call
        self.memory: dict[str, Any] = {}
        """What a toolset remembers between the calls of one session."""

    @property
    def library(self) -> Library:
        """What was opened; why nothing could be, where nothing was."""
        if isinstance(self._library, LookfarError):
            raise self._library
        reachable = REACHABLE.get()
        return self._library.only(reachable) if reachable else self._library


class WritesNotAllowed(LookfarError):
    """The user did not say that tools may write."""

    code = "WRITES_NOT_ALLOWED"
    exit_code = 2


Handler = Callable[[Session, Any, Call], Result]


def plain_refusal(error: LookfarError) -> Json:
    """An error as the command line and HTTP show it, without what only developers need."""
    shape = error.as_dict()
    del shape["developer_message"]
    return shape


@dataclass(frozen=True, slots=True)
class Tool:
    """A row of the table."""

    name: str
    description: str
    input: type[Input]
    handler: Handler
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    writes: bool = False
    """It changes files of the user, and so is offered only where the user allowed that."""
    refusal: Callable[[LookfarError], Json] = plain_refusal
    """The shape that its callers expect of an error."""
    enhanced: str = ""
    """What the description says more where longer descriptions are wished for."""
    lean: bool = False
    """Its listing leaves out what the protocol gives no meaning: of a tool that only reads, whether
    it destroys and whether it may be called again."""
    light: bool = False
    """It computes next to nothing, so it never waits for a turn."""

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of its arguments, without references and titles."""
        schema = self.input.model_json_schema()
        plain: Json = _plain(schema, schema.get("$defs", {}))
        return plain

    def parse(self, arguments: Mapping[str, Any]) -> Input:
        """The arguments, checked; ``InvalidArgument`` names the first that is wrong."""
        if (broken := _half_a_character(arguments)) is not None:
            reason = "it holds half of a character"
            raise InvalidArgument(
                f"The argument {broken!r} of {self.name} is wrong: {reason}.",
                hint="Send valid Unicode text.",
                details={"field": broken, "value": None, "reason": reason},
            )
        try:
            return self.input.model_validate(dict(arguments))
        except ValidationError as error:
            raise _wrong(self, error.errors(include_url=False)[0]) from None

    def run(self, session: Session, arguments: Mapping[str, Any], call: Call) -> Result:
        if self.writes and not session.write:
            raise WritesNotAllowed(
                f"{self.name} writes files, and this server may not.",
                hint="Ask the user to start it with --write (serve.write).",
            )
        given = self.parse(arguments)
        turn = nullcontext() if self.light else TURNS.take(session)
        with session.call(), turn:
            return self.handler(session, given, call)


def offered(tools: Iterable[Tool], write: bool) -> tuple[Tool, ...]:
    """Those that may be shown: the ones that write only where the user allowed it."""
    return tuple(tool for tool in tools if write or not tool.writes)


def _plain(schema: Any, named: Mapping[str, Any]) -> Any:
    """A schema as people would write it; properties called ``title`` stay."""
    if isinstance(schema, list):
        return [_plain(each, named) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(named[schema["$ref"].rpartition("/")[2]], named)
    plain: Json = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(each, named) for name, each in value.items()}
        elif key == "default" and value in ("", []):
            continue  # What is not given is empty: every session would pay for saying so.
        elif key not in ("title", "$defs"):
            plain[key] = value if key in ("default", "enum", "required") else _plain(value, named)
    return plain


def _wrong(tool: Tool, problem: Any) -> InvalidArgument:
    """What pydantic found, in words that help whoever made the call."""
    field_name = ".".join(str(part) for part in problem["loc"])
    value, context = problem.get("input"), problem.get("ctx", {})
    reason = problem["msg"].removeprefix("Value error, ")
    message = f"The argument {field_name!r} of {tool.name} is wrong: {_lowered(reason)}."
    hint = "Correct it and call again."
    details: Json = {"field": field_name, "value": _short(value), "reason": reason}
    if problem["type"] == "extra_forbidden":
        known = _known_names(tool.input_schema, problem["loc"][:-1])
        near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
        message = f"{tool.name} has no argument {field_name!r}."
        hint = f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(known) or 'none'}."
        details = {"field": field_name, "value": _short(value), "reason": "unknown argument"}
    elif problem["type"] == "missing":
        message, hint = f"{tool.name} needs the argument {field_name!r}.", "Give it."
        details = {"field": field_name, "value": None, "reason": "missing"}
    elif "expected" in context and problem["type"] in ("literal_error", "enum"):
        options = [
            each.strip("' ") for each in context["expected"].replace(" or ", ", ").split(",")
        ]
        hint = f"Use one of: {', '.join(options)}."
        details["validOptions"] = options
    return InvalidArgument(message, hint=hint, details=details)


def _half_a_character(value: Any, at: str = "") -> str | None:
    """Where in the arguments a surrogate stands alone: JSON can say it, and no file can hold it."""
    if isinstance(value, str):
        whole = value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)
        return None if whole else at
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        # A name is a text, too.
        inner = [(name, part) for name, each in value.items() for part in (name, each)]
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    for name, each in inner:
        found = _half_a_character(each, f"{at}.{name}" if at else str(name))
        if found is not None:
            return found.encode("utf-8", "replace").decode()
    return None


def _known_names(schema: Json, inside: tuple[str | int, ...]) -> list[str]:
    for part in inside:
        inner = schema.get("items") if isinstance(part, int) else None
        schema = inner or schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))


def _lowered(reason: str) -> str:
    return reason[:1].lower() + reason[1:]


def _short(value: Any) -> Any:
    """A value fit to be repeated: what is long or deep is only named."""
    if isinstance(value, str):
        return value if len(value) <= 200 else f"{value[:200]}… ({len(value):,} characters)"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return f"({type(value).__name__})"

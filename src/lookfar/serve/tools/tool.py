"""Tools: a name, a checked input, a handler, and a result that every interface can show.

A handler is plain blocking code; its :class:`Call` reports progress and asks for confirmation.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from lookfar.common.caller import Progress, called_by
from lookfar.common.turns import TURNS
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import SessionReceipt
from lookfar.retrieve.answer.pack import tokens

if TYPE_CHECKING:
    from lookfar.library import Library

Json = dict[str, Any]

MOST_TOKENS = 20_000
"""The most tokens that a result may have."""
LONGEST_TIME = 9_999_999.999
"""Replaces the duration of an answer while its tokens are counted, so that the duration does not
decide which texts fit."""
_AROUND_A_PASSAGE = 50
"""Tokens that the protocol adds to a text and a link."""


class Input(BaseModel):
    """The arguments of a tool. Types are not converted, and unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Call(Protocol):
    """What a handler can use during a call."""

    @property
    def client(self) -> str:
        """The name of the calling program, or an empty text."""

    def check(self) -> None:
        """Raise an error if the call was cancelled."""

    def report(self, progress: Progress) -> None:
        """Tell the client how far indexing has come."""

    def confirm(self, question: str) -> bool:
        """Ask the user; raise ``ConfirmationNeeded`` if the client cannot ask."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text from a document in a result, and the line that names its source."""

    at: tuple[str | int, ...]
    """The path of the text in the result's data."""
    line: str
    address: str
    """A target for ``read``."""
    name: str
    language: str = "markdown"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool: data for programs, a short text for models, and the cited passages."""

    data: Json
    text: str
    """Lookfar's own words. Texts from documents are in ``data``, at the paths of ``passages``, and
    in ``body``."""
    passages: tuple[Passage, ...] = ()
    body: str = ""
    """Lines of documents with their places, formatted for a model. Each line starts with a path or
    is indented, so that a document cannot forge a path."""
    excerpts: Mapping[tuple[str | int, ...], Any] = field(default_factory=dict)
    """The parts that ``body`` shows of longer texts in ``data``, by their paths."""
    verbatim: bool = False
    """Whether models get the data as it is, in the shape that clients of another system expect."""
    listed: str = ""
    """The key of the list to return alone where a plain list is allowed."""

    @property
    def shape(self) -> Any:
        """The data as an object, or as a list if ``listed`` names one."""
        return self.data[self.listed] if self.listed else self.data

    @property
    def cost(self) -> int:
        """Tokens of everything: some clients show a model the data, the links and the texts."""
        lines = "".join(
            f"{passage.line}{passage.name}{passage.address * 2}" for passage in self.passages
        )
        data = self.brief
        if "took_ms" in data:
            data = {**data, "took_ms": LONGEST_TIME}
        content = json.dumps(data, ensure_ascii=False) + self.text + self.body + lines
        return tokens(content) + _AROUND_A_PASSAGE * (1 + len(self.passages))

    @property
    def shown(self) -> str:
        """The text that a model reads if its client shows the texts of a result."""
        if self.verbatim:
            return as_json(self.shape)
        passages = (
            f"{passage.line}\n{part_of(self.data, passage.at)}" for passage in self.passages
        )
        return "\n".join(filter(None, (self.body, self.text, *passages)))

    @property
    def brief(self) -> Json:
        """The data, with texts shortened to what ``body`` shows."""
        if not self.excerpts:
            return self.data
        data: Json = copy_of(self.data)
        for path, excerpt in self.excerpts.items():
            part_of(data, path[:-1])[path[-1]] = excerpt
        return data


def as_json(shape: Any) -> str:
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":"), default=str)


def copy_of(data: Any) -> Any:
    """Copy JSON data deeply."""
    if isinstance(data, dict):
        return {key: copy_of(value) for key, value in data.items()}
    return [copy_of(value) for value in data] if isinstance(data, list) else data


def part_of(data: Any, path: Iterable[str | int]) -> Any:
    """Return the part of JSON data at a path."""
    for part in path:
        data = data[part]
    return data


def bounded(make: Callable[[int], Result], size: int, least: int = 1) -> Result:
    """Call ``make`` with a smaller ``size`` until the result fits into ``MOST_TOKENS``."""
    before: tuple[int, int] | None = None
    while True:
        result = make(size)
        cost = result.cost
        if cost <= MOST_TOKENS or size <= least:
            return result
        smaller = size * MOST_TOKENS // cost
        if before is not None and before[1] > cost:
            # Part of the cost does not depend on the size. Two results show how much.
            per_unit = (before[1] - cost) / (before[0] - size)
            smaller = min(smaller, max(int(size - (cost - MOST_TOKENS) / per_unit), size // 2))
        before = size, cost
        size = max(least, min(smaller, size - 1))


REACHABLE: ContextVar[tuple[str, ...]] = ContextVar("REACHABLE", default=())
"""The collections that the token of the current request may reach; empty means all."""


class Readers(Protocol):
    """Processes that answer calls for this one."""

    def answer(
        self, tool: Tool, session: Session, arguments: Mapping[str, Any], call: Call
    ) -> Result | None:
        """Let a reader answer a call; return None if this process has to answer it."""

    def describe(self) -> Json:
        """Return how many processes run and what they answered, for the status."""


class Session:
    """What one client may use: its library, and whether it may write."""

    def __init__(
        self,
        library: Library | LookfarError,
        *,
        write: bool = False,
        call: Callable[[], AbstractContextManager[None]] = nullcontext,
        choose_watch: Callable[[bool, int], None] | None = None,
        readers: Readers | None = None,
    ) -> None:
        """Create a session. ``call`` surrounds each call, to keep open what it uses.

        ``choose_watch`` turns watching on or off for as long as the session lasts, with a pause
        in milliseconds after changes; without it, the folders of the library are watched directly.
        ``readers`` answer calls that only read.
        """
        self._library = library
        self.write = write
        self.call = call
        self._choose_watch = choose_watch
        self.readers = readers
        self.memory: dict[str, Any] = {}
        """State that a toolset keeps between calls."""
        self._number = secrets.token_hex(6)
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    @property
    def library(self) -> Library:
        """The opened library; raises the error that prevented opening it."""
        if isinstance(self._library, LookfarError):
            raise self._library
        reachable = REACHABLE.get()
        return self._library.only(reachable) if reachable else self._library

    def record(self, client: str, shown: str) -> None:
        """Count a call and the tokens that a model reads; calls of the web page are not counted."""
        if client and not isinstance(self._library, LookfarError):
            name = f"{self._number} {client}"  # Several programs may share a session over HTTP.
            receipt = SessionReceipt(name, client, self._started_at, 1, tokens(shown))
            self.library.record_call(receipt)

    @property
    def watches_by_itself(self) -> bool:
        """Whether its folders are watched as the settings say, without a call of ``watch``."""
        return self._choose_watch is not None

    def watch(self, enabled: bool, debounce_ms: int) -> None:
        """Start or stop watching the folders, until the session ends."""
        if self._choose_watch is not None:
            self._choose_watch(enabled, debounce_ms)
        elif enabled:
            self.library.watch(debounce_ms=debounce_ms)
        else:
            self.library.unwatch()


class WritesNotAllowed(LookfarError):
    """The user did not allow tools to write."""

    code = "WRITES_NOT_ALLOWED"
    exit_code = 2


Handler = Callable[[Session, Any, Call], Result]


def plain_refusal(error: LookfarError) -> Json:
    """Return an error as JSON, without the message for developers."""
    shape = error.as_dict()
    del shape["developer_message"]
    return shape


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, input, handler, and how it is listed."""

    name: str
    description: str
    input: type[Input]
    handler: Handler
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    writes: bool = False
    """Whether it changes files of the user, and needs ``--write``."""
    refusal: Callable[[LookfarError], Json] = plain_refusal
    """Converts an error to the shape that its clients expect."""
    error_numbers: Mapping[str, int] | None = None
    """The JSON-RPC numbers of its error codes, if its clients expect JSON-RPC errors instead of
    results that are errors; ``""`` is for all other codes."""
    enhanced: str = ""
    """Text that is added if longer descriptions are enabled."""
    title: str = ""
    """What clients show to people instead of the name."""
    output_schema: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of its structured result, for programs."""
    advice: str = ""
    """What the server's instructions say about it; ``{name}`` is its name where it is offered."""
    always_listed: bool = False
    """Whether clients that show a model only some of many tools should always show this one."""
    lean: bool = False
    """Whether its listing omits the hints that do not apply to a tool that only reads."""
    light: bool = False
    """Whether it needs almost no computation, so that it never waits for other calls."""
    by_reader: bool = False
    """Whether a reader process may answer it: it only reads, and stores nothing but cursors."""

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of its arguments, without references and titles."""
        schema = self.input.model_json_schema()
        plain: Json = _plain(schema, schema.get("$defs", {}))
        return plain

    def parse(self, arguments: Mapping[str, Any]) -> Input:
        """Check the arguments; ``InvalidArgument`` names the first wrong one."""
        if (broken := _find_surrogate(arguments)) is not None:
            reason = "it contains a lone surrogate"
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
        with session.call(), called_by(on_progress=call.report, check=call.check):
            try:
                result = self._answer(session, arguments, given, call)
            except LookfarError as error:
                session.record(call.client, as_json(self.refusal(error)))
                raise
            session.record(call.client, result.shown)
            return result

    def _answer(
        self, session: Session, arguments: Mapping[str, Any], given: Input, call: Call
    ) -> Result:
        if self.by_reader and session.readers is not None:
            result = session.readers.answer(self, session, arguments, call)
            if result is not None:
                return result
        with nullcontext() if self.light else TURNS.take(session):
            return self.handler(session, given, call)


def offered(tools: Iterable[Tool], write: bool) -> tuple[Tool, ...]:
    """Return the tools that a client may see; tools that write need permission."""
    return tuple(tool for tool in tools if write or not tool.writes)


def _plain(schema: Any, named: Mapping[str, Any]) -> Any:
    """Remove references and titles from a schema; properties called ``title`` stay."""
    if isinstance(schema, list):
        return [_plain(part, named) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(named[schema["$ref"].rpartition("/")[2]], named)
    plain: Json = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(part, named) for name, part in value.items()}
        elif key == "default" and value in ("", []):
            continue  # Saying that omitted arguments are empty would cost every client tokens.
        elif key not in ("title", "$defs"):
            plain[key] = value if key in ("default", "enum", "required") else _plain(value, named)
    return plain


def _wrong(tool: Tool, problem: Any) -> InvalidArgument:
    """Convert a problem that pydantic reports to an error that helps the caller."""
    field_name = ".".join(str(part) for part in problem["loc"])
    value, context = problem.get("input"), problem.get("ctx", {})
    reason = problem["msg"].removeprefix("Value error, ")
    message = f"The argument {field_name!r} of {tool.name} is wrong: {_lowered(reason)}."
    hint = "Correct it and call again."
    details: Json = {"field": field_name, "value": _short(value), "reason": reason}
    if problem["type"] == "extra_forbidden":
        known = _list_properties(tool.input_schema, problem["loc"][:-1])
        near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
        message = f"{tool.name} has no argument {field_name!r}."
        hint = f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(known) or 'none'}."
        if (
            not known and len(problem["loc"]) > 1
        ):  # Only the description of the argument says what it takes.
            described = tool.input_schema["properties"][problem["loc"][0]]
            hint = f"It takes: {described.get('description', 'none')}."
        details = {"field": field_name, "value": _short(value), "reason": "unknown argument"}
    elif problem["type"] == "missing":
        message, hint = f"{tool.name} needs the argument {field_name!r}.", "Add it."
        details = {"field": field_name, "value": None, "reason": "missing"}
    elif "expected" in context and problem["type"] in ("literal_error", "enum"):
        options = [
            option.strip("' ") for option in context["expected"].replace(" or ", ", ").split(",")
        ]
        hint = f"Use one of: {', '.join(options)}."
        details["validOptions"] = options
    return InvalidArgument(message, hint=hint, details=details)


def _find_surrogate(value: Any, at: str = "") -> str | None:
    """Return the path of an argument with a lone surrogate, which UTF-8 cannot encode."""
    if isinstance(value, str):
        valid = value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
        return None if valid else at
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        # Names of arguments may contain surrogates, too.
        inner = [(name, text) for name, part in value.items() for text in (name, part)]
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    for name, part in inner:
        path = _find_surrogate(part, f"{at}.{name}" if at else str(name))
        if path is not None:
            return path.encode("utf-8", "replace").decode()
    return None


def _list_properties(schema: Json, inside: tuple[str | int, ...]) -> list[str]:
    for part in inside:
        inner = schema.get("items") if isinstance(part, int) else None
        schema = inner or schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))


def _lowered(reason: str) -> str:
    return reason[:1].lower() + reason[1:]


def _short(value: Any) -> Any:
    """Shorten a value for an error message."""
    if isinstance(value, str):
        return value if len(value) <= 200 else f"{value[:200]}… ({len(value):,} characters)"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    written = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(written) <= 200 else f"{written[:200]}… ({len(written):,} characters)"

"""Parse front matter: YAML between ``---`` or TOML between ``+++`` at the top of a text.

Values are JSON-safe: dates, infinities and integers over 64 bits become strings. What lets a small
file cause much work is refused with a warning: large or deep blocks, anchors, aliases, tags and
merge keys. Scalars follow YAML 1.2: ``no`` and ``on`` are words, ``12:30`` is text.
"""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from typing import Any, Literal, NamedTuple

import yaml  # type: ignore[import-untyped,unused-ignore]

from lookfar.config import DEEP_KEY

MAX_BYTES = 16 * 1024
MAX_DEPTH = 20
_LARGEST_INTEGER_BITS = 63

Syntax = Literal["yaml", "toml"]
Parsed = tuple[dict[str, Any], tuple[str, ...]]


class FrontMatter(NamedTuple):
    """A front-matter block; ``body`` is the offset of the first character after it."""

    syntax: Syntax
    raw: str
    body: int


_FENCES: tuple[tuple[str, Syntax, re.Pattern[str]], ...] = (
    ("---", "yaml", re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)),
    ("+++", "toml", re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)),
)
# The first line that is neither blank nor a comment must look like `key:` or `key =`, and no
# blank line may come before it in YAML. Otherwise a leading `---` is a thematic break, as in
# CommonMark.
_KEY = r"[^\s#:>|\[*`!&%@-].*?:(?:\s|$)"
_MAPPING = {
    "yaml": re.compile(rf"(?![ \t]*\n)(?:[ \t]*(?:#.*)?\n)*{_KEY}"),
    "toml": re.compile(r"(?:[ \t]*(?:#.*)?\n)*[ \t]*(?:\[|[\w\"'. -]+=)"),
}
# After a blank line: a heading that is not a comment on a key, or a line that is not YAML.
_PROSE = re.compile(
    rf"^[ \t]*\n(?:#{{1,6}}[ \t].*\n(?!{_KEY})|(?![\s#}}\]]|{_KEY}).)", re.MULTILINE
)


def split(text: str) -> FrontMatter | None:
    """Return the block, or ``None`` if the text does not start with a complete one."""
    for fence, syntax, closing in _FENCES:
        if not text.startswith(fence):
            continue
        start = text.find("\n") + 1
        if not start or text[len(fence) : start].strip():
            return None
        end = closing.search(text, start)
        if end is None:
            return None
        raw = text[start : end.start()]
        if raw.strip() and not _MAPPING[syntax].match(raw):
            return None
        if syntax == "yaml" and _PROSE.search(raw) and _is_invalid(raw):
            return None  # A page between two thematic breaks, which must stay searchable.
        return FrontMatter(syntax, raw, min(end.end() + 1, len(text)))
    return None


def parse(raw: str, syntax: Syntax) -> Parsed:
    """Read the inside of a block. Never raises."""
    if len(raw) > MAX_BYTES or len(raw.encode("utf-8", "replace")) > MAX_BYTES:
        return {}, (f"front matter ignored: it is larger than {MAX_BYTES // 1024} KiB",)
    if not raw.strip():
        return {}, ()
    try:
        if syntax == "toml":
            if DEEP_KEY.search(raw):
                raise _too_deep()
            values = tomllib.loads(raw)
            return {_encodable(key): _json_safe(value) for key, value in values.items()}, ()
        return _YamlReader(raw).mapping()
    except (_Refused, tomllib.TOMLDecodeError) as error:
        reason = str(error)
    except yaml.YAMLError as error:
        reason = _yaml_reason(error)
    except (RecursionError, ValueError) as error:
        reason = f"{type(error).__name__}"
    return {}, (f"front matter ignored: {reason}",)


def _is_invalid(raw: str) -> bool:
    mapping, warnings = parse(raw, "yaml")
    return not mapping and bool(warnings)


class _Refused(Exception):
    """Raised for front matter that is not supported."""


def _too_deep() -> _Refused:
    return _Refused(f"it is more than {MAX_DEPTH} levels deep")


# libyaml reads the front matter of 200 MB of pages per second, so no shortcut is needed.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"


class _YamlReader:
    """Builds values from parser events, which allows a check of the depth before nesting."""

    def __init__(self, raw: str) -> None:
        self._loader = _Loader(raw)
        self._warnings: list[str] = []

    def mapping(self) -> Parsed:
        """Parse the whole block. Raises ``_Refused`` or ``yaml.YAMLError``."""
        try:
            self._loader.get_event()  # stream start
            if self._loader.check_event(yaml.StreamEndEvent):
                return {}, ()
            self._loader.get_event()  # document start
            value = self._value(self._loader.get_event(), 1)
            self._loader.get_event()  # document end
            if not self._loader.check_event(yaml.StreamEndEvent):
                raise _Refused("it holds more than one YAML document")
        finally:
            self._loader.dispose()
        if value is None:
            return {}, ()
        if not isinstance(value, dict):
            raise _Refused("it is not a mapping")
        return value, tuple(self._warnings)

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _Refused("anchors and aliases are not supported")
        if event.tag is not None:
            raise _Refused("tags are not supported")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
                items.append(self._value(event, depth + 1))
            return items
        entries: dict[str, Any] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in entries:
                self._warnings.append(f"front matter: key {key!r} appears twice, the last counts")
            entries[key] = self._value(self._loader.get_event(), depth + 1)
        return entries

    def _key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise _Refused("a key must be a word")
        if event.anchor is not None or event.tag is not None:
            raise _Refused("anchors and tags are not supported")
        if event.value == "<<" and event.implicit[0]:
            raise _Refused("merge keys are not supported")
        return _encodable(event.value)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        is_word = tag == f"{_TAG}bool" and text.lower() not in ("true", "false")
        is_clock = tag in (f"{_TAG}int", f"{_TAG}float") and ":" in text
        if tag == f"{_TAG}str" or is_word or is_clock:
            return _encodable(text)
        try:
            return _json_safe(self._loader.construct_object(yaml.ScalarNode(tag, text)))
        except (ValueError, yaml.YAMLError):
            # `2024-13-45` looks like a date but is not; `=` and `<<` have special tags.
            return _encodable(text)


def _json_safe(value: Any, depth: int = 1) -> Any:
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > _LARGEST_INTEGER_BITS:
        return str(value)
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, dict):
        return {_encodable(str(key)): _json_safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_safe(item, depth + 1) for item in value]
    return value


def _encodable(text: str) -> str:
    """Replace lone surrogates, which PyYAML accepts and UTF-8 does not, and null characters, which
    PostgreSQL does not accept."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _yaml_reason(error: Exception) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    mark = getattr(error, "problem_mark", None)
    where = f" on its line {mark.line + 1}" if mark else ""
    return f"broken YAML{where}: {problem or type(error).__name__}"

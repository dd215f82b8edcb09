"""Check names, texts and metadata of documents before they are inserted into a database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections import ulids
from lookfar.errors import InvalidArgument, LookfarError

if TYPE_CHECKING:
    from lookfar.index.inserted import Inserted

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEVICE: Final = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]", re.IGNORECASE)
"""Reserved file names on Windows, where a database may be copied to."""
_MAX_METADATA: Final = 65_536
_MAX_DEPTH: Final = 20
_MAX_VALUE: Final = 256
"""Characters of a value that can be filtered by."""
_MAX_TAGS: Final = 1_000


def is_database_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _DEVICE.fullmatch(name) is None


def checked_name(name: str) -> str:
    if not is_database_name(name):
        raise InvalidArgument(
            f"{name[:100]!r} cannot be the name of a database.",
            hint="Use 1 to 64 letters, digits, underscores and hyphens, and none of the device"
            " names that Windows reserves, like CON.",
            details={"database": name[:100]},
        )
    return name


def check_document(doc_id: Any, text: Any, metadata: Any, max_chars: int) -> Inserted:
    """Return a document that may be inserted; raise ``InvalidArgument`` for any other."""
    from lookfar.index.inserted import Inserted

    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument("text is empty.", hint="Give a text with something in it.")
    if not isinstance(doc_id, str) or not ulids.is_ulid(doc_id):
        raise InvalidArgument(
            f"{str(doc_id)[:100]!r} is not a ULID.",
            hint="Omit doc_id, and the document is given one.",
        )
    if len(text) > max_chars:
        raise InvalidArgument(
            f"The text has {len(text):,} characters.",
            hint=f"Insert at most {max_chars:,} at once; split a longer text.",
            details={"characters": len(text), "most": max_chars},
        )
    _refuse_lone_surrogates(text)
    checked = checked_metadata(metadata)
    return Inserted(doc_id, text, checked, ulids.moment_of(doc_id), tags_of(checked))


def parse_lines(lines: Iterable[str], max_chars: int) -> Iterator[Inserted]:
    """Parse lines of JSON as documents; an error names the line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _parse_line(line, max_chars)
        except LookfarError as error:
            raise InvalidArgument(
                f"Line {number}: {error.message}", hint=error.hint, details={"line": number}
            ) from error


def _parse_line(line: str, max_chars: int) -> Inserted:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"It is not JSON: {error}.", hint="Write one JSON object on each line."
        ) from error
    if not isinstance(record, dict) or not record.keys() <= {"doc_id", "text", "metadata"}:
        raise InvalidArgument(
            "It is not an object with text, doc_id and metadata.",
            hint='Write it like this: {"doc_id": "...", "text": "...", "metadata": {}}',
        )
    text, metadata = record.get("text"), record.get("metadata")
    metadata = {} if metadata is None else metadata
    doc_id = record.get("doc_id")
    if doc_id is None and isinstance(text, str):
        doc_id = ulids.derived("", text, json.dumps(metadata, sort_keys=True))
    return check_document(doc_id, text, metadata, max_chars)


def checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as it is stored: a JSON object of limited size and depth."""
    hint = "Give a JSON object of texts, numbers, booleans, null, lists and objects."
    if not isinstance(metadata, Mapping):
        raise InvalidArgument("metadata must be an object.", hint=hint)
    _refuse_depth(metadata, _MAX_DEPTH)
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"The metadata is not JSON: {error}.", hint=hint) from error
    if len(encoded) > _MAX_METADATA:
        raise InvalidArgument(
            f"The metadata has {len(encoded):,} characters.",
            hint=f"Keep it below {_MAX_METADATA:,}; put longer content into the text.",
        )
    _refuse_lone_surrogates(encoded)
    decoded: dict[str, Any] = json.loads(encoded)
    return decoded


def _refuse_depth(value: Any, levels: int) -> None:
    if levels < 0:
        raise InvalidArgument(
            "The metadata is nested too deeply.", hint=f"Nest at most {_MAX_DEPTH} levels."
        )
    children = value.values() if isinstance(value, Mapping) else value
    for child in children if isinstance(value, (Mapping, list, tuple)) else ():
        _refuse_depth(child, levels - 1)


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "The text contains a lone surrogate.", hint="Send valid Unicode text."
        ) from error


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags that a document can be filtered by.

    ``key=value`` for each plain value and each value in a list, and each text of the key ``tags``
    on its own.
    """
    tags: dict[str, None] = {}
    for key, value in metadata.items():
        for item in value if isinstance(value, list) else (value,):
            tag = _make_tag(key, item)
            if tag is not None:
                tags[tag] = None
            if key == "tags" and isinstance(item, str) and 0 < len(item) <= _MAX_VALUE:
                tags[item] = None
    return tuple(list(tags)[:_MAX_TAGS])


def filter_tags(having: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags of documents whose metadata has all of these values."""
    tags: list[str] = []
    for key, value in having.items():
        tag = _make_tag(key, value)
        if tag is None:
            raise InvalidArgument(
                f"Documents cannot be filtered by this value of {key[:100]!r}.",
                hint=f"Give a text of at most {_MAX_VALUE} characters, a number, a boolean"
                " or null.",
            )
        tags.append(tag)
    return tuple(tags)


def _make_tag(key: str, value: Any) -> str | None:
    """Return ``key=value``; a text that reads as JSON, like a number, is quoted."""
    if isinstance(value, (Mapping, list)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    encoded = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and not _reads_as_json(value):
        encoded = value
    return f"{key}={encoded}" if len(key) + len(encoded) <= 2 * _MAX_VALUE else None


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

"""The stored form of what a source file contributes to the call graph."""

from __future__ import annotations

import json
from zlib import compress, decompress, error

from lookfar.model import CallFacts, CallSite, CodeSymbol

VERSION = 2
"""Raise this whenever the same file would give other facts."""


def encode_facts(facts: CallFacts | None) -> bytes:
    """Return facts as bytes for the index; empty without any."""
    if facts is None or not (facts.symbols or facts.calls):
        return b""
    # One text per column is written much faster than a list per call. No name has a line break.
    sections, lines, names, receivers = zip(*facts.calls, strict=True) if facts.calls else [()] * 4
    calls = (
        " ".join(map(str, sections)), " ".join(map(str, lines)),
        "\n".join(names), "\n".join(receivers),
    )  # fmt: skip
    shape = (
        VERSION, facts.language, facts.symbols, calls, facts.imports,
        {str(section): names for section, names in facts.variables.items()},
    )  # fmt: skip
    return compress(json.dumps(shape, separators=(",", ":"), ensure_ascii=False).encode(), 1)


def decode_facts(data: bytes) -> CallFacts | None:
    """Return the facts that were encoded; None if they are damaged or of another version."""
    try:
        version, language, symbols, calls, imports, variables = json.loads(decompress(data))
        if version != VERSION:
            return None
        return CallFacts(
            language=language,
            symbols=tuple(CodeSymbol._make((*row[:7], tuple(row[7]), row[8])) for row in symbols),
            calls=_decode_calls(*calls),
            imports=tuple((bound, module, name) for bound, module, name in imports),
            variables={int(section): names for section, names in variables.items()},
        )
    except (ValueError, TypeError, IndexError, error):
        return None


def _decode_calls(sections: str, lines: str, names: str, receivers: str) -> tuple[CallSite, ...]:
    if not sections:
        return ()
    columns = (
        map(int, sections.split(" ")), map(int, lines.split(" ")),
        names.split("\n"), receivers.split("\n"),
    )  # fmt: skip
    return tuple(map(CallSite._make, zip(*columns, strict=True)))

"""Read the calls of a source file: where each is, the name that it calls, and on what.

Most calls are written like another one in the same function. Therefore a call is only understood
once per function, and what costs time is done by its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from lookfar.model import CallSite
from lookfar.text.parse.calls.call_rules import CallRules
from lookfar.text.parse.calls.expressions import NAME, OWN, PARENT, UNKNOWN, simplify
from lookfar.text.parse.calls.scopes import Captured, Scopes, Sections

_LONGEST_CALLEE = 1_000
"""In a chain of calls, each call contains the one before it."""
_MOST_CALLS = 20_000
_LAST_NAME = re.compile(r"(?:\.|->|::)\s*([^\W\d][\w$]*)\s*$")


class _Called(NamedTuple):
    """What a call names."""

    name: str
    receiver: str
    """A path, or empty."""
    lines: int
    """How many lines below the start of the call its name is."""
    is_local: bool
    """Whether it starts with a name that a function of the file binds."""


def read_sites(
    callees: Iterable[Captured],
    direct: Iterable[Captured],
    rules: CallRules,
    scopes: Scopes,
    sections: Sections,
) -> tuple[CallSite, ...]:
    """Return the calls of a file by line: of expressions, and those with a separate name."""
    reader = _Reader(rules, scopes, sections)
    reader.read_callees(callees)
    reader.read_direct(direct)
    by_line = sorted(reader.sites, key=itemgetter(1))
    return tuple(map(CallSite._make, by_line[:_MOST_CALLS]))


class _Reader:
    """Collects the calls of one file."""

    def __init__(self, rules: CallRules, scopes: Scopes, sections: Sections) -> None:
        self.sites: dict[tuple[int, int, str, str], None] = {}
        """Section, line, name and receiver of every call; a dictionary keeps the order."""
        self._rules = rules
        self._scopes = scopes
        self._sections = sections

    def read_callees(self, matches: Iterable[Captured]) -> None:
        """Read calls whose callee is one expression, such as ``shelf.put``."""
        known: dict[bytes, _Called | None] = {}
        for match in matches:
            node = match["at"][0]
            raw = node.text or b""
            if raw in known:
                called = known[raw]
            else:
                called = self._split(raw.decode("utf-8", "replace"))
                if len(raw) <= _LONGEST_CALLEE:
                    known[raw] = called
            if called is not None:
                self._add(called, node.start_byte)

    def read_direct(self, matches: Iterable[Captured]) -> None:
        """Read calls whose receiver and name are separate nodes."""
        known: dict[tuple[bytes, bytes], _Called | None] = {}
        for match in matches:
            node, before = match["at"][0], match.get("receiver")
            key = (node.text or b"", (before[0].text or b"") if before else b"")
            if key in known:
                called = known[key]
            else:
                name, written = (raw.decode("utf-8", "replace") for raw in key)
                called = self._make(name, simplify(written, self._rules) if before else "", 0)
                if len(key[1]) <= _LONGEST_CALLEE:
                    known[key] = called
            if called is not None:
                self._add(called, node.start_byte)

    def _add(self, called: _Called, start: int) -> None:
        name, receiver, lines, is_local = called
        if is_local:
            name, receiver = self._substitute(name, receiver, start)
        if name:
            # The name is at the end of a chain that may begin lines above.
            line = self._sections.find_line(start) + lines
            self.sites[self._sections.find(start), line, name, receiver] = None

    def _split(self, written: str) -> _Called | None:
        """Split a called expression into receiver and name; None if it has no name."""
        if len(written) > _LONGEST_CALLEE:  # A long chain: only its last name is of use.
            written = "?." + written[-80:].rpartition(".")[2]
        path = simplify(written, self._rules)
        if path == UNKNOWN:
            tail = _LAST_NAME.search(written)
            if tail is None:
                return None
            path = f"?.{tail[1]}"
        receiver, _, name = path.rpartition(".")
        if path in (OWN, PARENT):
            receiver, name = path, "constructor"
        if name.endswith("()"):
            return None
        return self._make(name, receiver, written.count("\n"))

    def _make(self, name: str, receiver: str, lines: int) -> _Called | None:
        name = name.strip("$@")
        if not NAME.fullmatch(name):
            return None
        head = receiver.partition(".")[0].removesuffix("()") if receiver else name
        return _Called(name, receiver, lines, self._scopes.is_local(head))

    def _substitute(self, name: str, receiver: str, start: int) -> tuple[str, str]:
        """Replace a local name by what it stands for; the result is empty if that is not known."""
        scopes = self._scopes
        scope = scopes.find(start)
        if receiver:
            return name, scopes.substitute(receiver, scope)
        value = scopes.look_up(name, scope)
        if value is None:
            return name, ""
        path = scopes.substitute(value, scope, 1) if value != UNKNOWN else UNKNOWN
        if path == UNKNOWN or path.endswith("()") or path in (OWN, PARENT):
            return "", ""  # A parameter or a computed value: which function it is, is not known.
        receiver, _, name = path.rpartition(".")
        return name, receiver

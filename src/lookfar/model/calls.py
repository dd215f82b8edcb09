"""What a source file says about calls, and the call graph that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lookfar.model.answers import Incomplete


class CallSite(NamedTuple):
    """A call as it is written."""

    section: int
    """Ordinal of the innermost section around it, or -1."""
    line: int
    name: str
    """Name of what is called."""
    receiver: str
    """What is before the name: ``a.b``, ``Foo()`` for an object of that class, ``@`` for the
    object whose method calls, ``^`` for its parent class, ``?`` if unknown; or empty."""


class CodeSymbol(NamedTuple):
    """A definition, with what is needed to resolve calls to it."""

    section: int
    parent: int
    """Ordinal of the section around it, or -1."""
    title: str
    """As in the outline: the name, or ``Owner.name`` if it is defined outside its owner."""
    kind: str
    line: int
    end_line: int
    returns: str
    """Simplified type of its result; for a property also of its value."""
    bases: tuple[str, ...]
    """Parent classes, as written."""
    marks: str
    """``p`` for a property, ``o`` for an overload without a body of its own, ``t`` for a test."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Everything that one source file contributes to the call graph."""

    language: str
    symbols: tuple[CodeSymbol, ...] = ()
    calls: tuple[CallSite, ...] = ()
    imports: tuple[tuple[str, str, str], ...] = ()
    """The name here, the module, and the name there; ``*`` binds every name of the module."""
    variables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By section of a class, or -1 for the file: names and the expressions they stand for."""


CallDirection = Literal["callers", "callees"]


@dataclass(frozen=True, slots=True)
class CallNode:
    """A definition in a call graph, and how it was reached."""

    uri: str
    name: str
    """Full name; empty for code outside of any definition."""
    kind: str
    line: int
    """Line of its definition; 1 for code outside of any definition."""
    end_line: int
    depth: int
    """Number of calls between it and the definition that was asked about."""
    parent: int
    """Position of the node it was reached from; -1 for the definition that was asked about."""
    calls: tuple[int, ...]
    """Lines of the calls, in the file of the caller."""
    certain: bool
    """Whether scope, imports or types lead to it; if not, only the name does."""
    test: bool
    """Whether it is a test."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """The callers or callees of a definition, nearest first."""

    collection: str
    generation: int
    direction: CallDirection
    uri: str
    name: str
    kind: str
    line: int
    end_line: int
    nodes: tuple[CallNode, ...]
    depth: int
    """How many calls away was searched."""
    complete: bool
    """False if there are more nodes within this depth."""
    incomplete: tuple[Incomplete, ...] = ()


RouteLink = Literal["call", "override", "mention", "name"]
"""What leads from a definition to the next: a call that the index resolved, a method that overrides
the called one, a mention without a call, or a call of which only the name is known."""


@dataclass(frozen=True, slots=True)
class CallStep:
    """A definition on the way from one to another."""

    uri: str
    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    """The line of its definition."""
    link: RouteLink | None
    """What leads to the next definition; None for the last one."""
    calls: tuple[int, ...]
    """Lines that lead there; none for an override."""
    call: str
    """The first of these lines."""
    namesakes: int
    """If only the name of the next definition is known: how many definitions have it."""


@dataclass(frozen=True, slots=True)
class CallRoute:
    """How a definition reaches another by calls."""

    collection: str
    generation: int
    source: str
    target: str
    steps: tuple[CallStep, ...]
    """From the first definition to the last; empty if no way was found."""
    complete: bool
    """Whether the index resolved every call on the way."""
    searched_all: bool
    """Whether everything that the first one reaches was looked at."""
    reverse: bool
    """Whether no way was found, but there is one from the target to the source."""
    callers: tuple[CallNode, ...] = ()
    """If no way was found: what certainly calls the target, without tests."""
    mentions: tuple[tuple[str, int], ...] = ()
    """If no way was found: documents, without tests, that mention it, and the first line."""
    incomplete: tuple[Incomplete, ...] = ()

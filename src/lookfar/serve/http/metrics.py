"""Metrics of a server in the Prometheus text format.

Labels have few, fixed values: labels that a client could choose would fill the memory.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its values at this moment."""

    name: str
    help_text: str
    kind: Kind
    samples: Sequence[tuple[Labels, float]]

    def lines(self) -> Iterator[str]:
        if self.samples:
            yield from _header(self.name, self.help_text, self.kind)
        for labels, value in self.samples:
            number = int(value) if float(value).is_integer() else repr(float(value))
            yield f"{self.name}{_format_labels(labels)} {number}"


class _Histogram:
    def __init__(self, name: str, help_text: str) -> None:
        self._name, self._help = name, help_text
        self._counts: dict[Labels, list[int]] = {}
        self._sums: Counter[Labels] = Counter()

    def observe(self, labels: Labels, seconds: float) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(_BOUNDS) + 1))
        counts[sum(bound < seconds for bound in _BOUNDS)] += 1
        self._sums[labels] += seconds  # type: ignore[assignment]

    def lines(self) -> Iterator[str]:
        yield from _header(self._name, self._help, "histogram")
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += count
                yield f"{self._name}_bucket{_format_labels((*labels, ('le', bound)))} {total}"
            yield f"{self._name}_sum{_format_labels(labels)} {self._sums[labels]:.6f}"
            yield f"{self._name}_count{_format_labels(labels)} {total}"


class Metrics:
    """The metrics of one server; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._responses: Counter[Labels] = Counter()
        self._refusals: Counter[Labels] = Counter()
        self._requests = _Histogram("lookfar_request_seconds", "Time to answer a request.")
        self._tools = _Histogram("lookfar_tool_seconds", "Time taken by a tool call.")

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        labels = (("method", method), ("route", route))
        with self._lock:
            self._responses[(*labels, ("status", str(status)))] += 1
            self._requests.observe(labels, seconds)

    def refusal(self, code: str) -> None:
        with self._lock:
            self._refusals[(("code", code),)] += 1

    def tool(self, name: str, seconds: float) -> None:
        with self._lock:
            self._tools.observe((("tool", name),), seconds)

    def text(self, states: Iterable[Family]) -> str:
        """Return all metrics as text: the counts, and ``states``."""
        with self._lock:
            lines = [
                *_counter("lookfar_requests_total", "Requests answered.", self._responses),
                *_counter("lookfar_refused_total", "Requests refused, by code.", self._refusals),
                *self._requests.lines(),
                *self._tools.lines(),
            ]
        for family in states:
            lines += family.lines()
        return "\n".join(lines) + "\n"


def _counter(name: str, help_text: str, counts: Counter[Labels]) -> Iterator[str]:
    yield from _header(name, help_text, "counter")
    for labels, count in sorted(counts.items()):
        yield f"{name}{_format_labels(labels)} {count}"


def _header(name: str, help_text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _format_labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

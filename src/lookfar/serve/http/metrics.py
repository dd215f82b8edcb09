"""Figures of a server, in the text format that Prometheus reads.

Takes: what requests, tools and refusals cost. Gives: counters and histograms with few, fixed
labels. Refuses: labels that a client could choose, which would fill the memory.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Labels = tuple[tuple[str, str], ...]


class _Histogram:
    """How often something took at most so long."""

    def __init__(self, name: str, about: str) -> None:
        self._name, self._about = name, about
        self._counts: dict[Labels, list[int]] = {}
        self._sums: Counter[Labels] = Counter()

    def observe(self, labels: Labels, seconds: float) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(_BOUNDS) + 1))
        counts[sum(bound < seconds for bound in _BOUNDS)] += 1
        self._sums[labels] += seconds  # type: ignore[assignment]

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, self._about, "histogram")
        for labels, counts in sorted(self._counts.items()):
            reached = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                reached += count
                yield f"{self._name}_bucket{_shown((*labels, ('le', bound)))} {reached}"
            yield f"{self._name}_sum{_shown(labels)} {self._sums[labels]:.6f}"
            yield f"{self._name}_count{_shown(labels)} {reached}"


class Metrics:
    """The figures of one server. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: Counter[Labels] = Counter()
        self._refused: Counter[Labels] = Counter()
        self._requests = _Histogram("lookfar_request_seconds", "Time to answer a request.")
        self._tools = _Histogram("lookfar_tool_seconds", "Time that a call of a tool took.")

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        place = (("method", method), ("route", route))
        with self._lock:
            self._answered[(*place, ("status", str(status)))] += 1
            self._requests.observe(place, seconds)

    def refusal(self, code: str) -> None:
        with self._lock:
            self._refused[(("code", code),)] += 1

    def tool(self, name: str, seconds: float) -> None:
        with self._lock:
            self._tools.observe((("tool", name),), seconds)

    def text(self, under_way: int, documents: Iterable[tuple[str, int]]) -> str:
        """All of it; ``documents`` counts them by collection."""
        with self._lock:
            lines = [
                *_counter("lookfar_requests_total", "Requests answered.", self._answered),
                *_counter("lookfar_refused_total", "Requests refused, by code.", self._refused),
                *self._requests.lines(),
                *self._tools.lines(),
            ]
        lines += [*_head("lookfar_requests_under_way", "Requests being answered.", "gauge")]
        lines.append(f"lookfar_requests_under_way {under_way}")
        lines += [*_head("lookfar_documents", "Documents in the index.", "gauge")]
        lines += [
            f"lookfar_documents{_shown((('collection', name),))} {count}"
            for name, count in documents
        ]
        return "\n".join(lines) + "\n"


def _counter(name: str, about: str, counts: Counter[Labels]) -> Iterator[str]:
    yield from _head(name, about, "counter")
    for labels, count in sorted(counts.items()):
        yield f"{name}{_shown(labels)} {count}"


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _shown(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

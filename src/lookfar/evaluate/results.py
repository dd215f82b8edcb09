"""The results of a measurement: scores, means by category, latencies, and their JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.evaluate.metrics import METRICS, interval, percentile

FORMAT = 1
_KIND = "lookfar eval"


@dataclass(frozen=True, slots=True)
class Scored:
    """How one question was answered."""

    id: str
    query: str
    category: str
    mark: str
    """Hash of the question and its judgements; only scores with equal marks are compared."""
    scores: Mapping[str, float]
    """By the names of ``METRICS``."""
    rank: int
    """Rank of the first relevant hit; 0 if none was found."""
    took_ms: float
    found: tuple[str, ...]
    """Locations of the first few hits."""
    missing: tuple[str, ...] = ()
    """Relevant targets that are not in the index."""


@dataclass(frozen=True, slots=True)
class Results:
    """How one configuration answered all questions."""

    label: str
    k: int
    mode: str
    model: str
    generations: Mapping[str, int]
    queries: tuple[Scored, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings for this measurement that override files and variables."""
    notes: tuple[str, ...] = ()
    """Why answers may be incomplete, such as files that are not indexed yet."""

    def values(self, metric: str) -> list[float]:
        return [query.scores[metric] for query in self.queries]

    def mean(self, metric: str) -> float:
        return fmean(self.values(metric))

    def means(self) -> dict[str, float]:
        return {metric: self.mean(metric) for metric in METRICS}

    def categories(self) -> dict[str, tuple[int, dict[str, float]]]:
        """Return question count and means by category; empty if no question has a category."""
        groups: dict[str, list[Scored]] = {}
        for query in self.queries:
            groups.setdefault(query.category, []).append(query)
        if set(groups) == {""}:
            return {}
        return {
            name: (len(group), {m: fmean(query.scores[m] for query in group) for m in METRICS})
            for name, group in sorted(groups.items())
        }

    def latency(self) -> dict[str, float]:
        """Return the median and the 95th percentile of the latency in milliseconds."""
        took = [query.took_ms for query in self.queries]
        return {"p50": percentile(took, 0.5), "p95": percentile(took, 0.95)}

    @property
    def missing(self) -> tuple[str, ...]:
        """Relevant targets that are not in the index, each once."""
        return tuple(dict.fromkeys(target for query in self.queries for target in query.missing))


def results_as_json(results: Results) -> dict[str, Any]:
    """Return the results as JSON, the same for every run except for the times."""
    return {
        "kind": _KIND,
        "format": FORMAT,
        "label": results.label,
        "k": results.k,
        "mode": results.mode,
        "model": results.model,
        "generations": dict(results.generations),
        "settings": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in sorted(results.settings.items())
        },
        "metrics": {
            metric: _interval(results.values(metric), results.mean(metric)) for metric in METRICS
        },
        "latency_ms": {name: round(value, 3) for name, value in results.latency().items()},
        "categories": {
            name: {"queries": count, **{metric: _round(value) for metric, value in means.items()}}
            for name, (count, means) in results.categories().items()
        },
        "missing": list(results.missing),
        "notes": list(results.notes),
        "queries": [_query_as_json(query) for query in results.queries],
    }


def read_results(path: str | Path) -> Results:
    path = Path(path)
    try:
        record = json.loads(path.read_bytes().decode("utf-8"))
        if record["kind"] != _KIND or record["format"] != FORMAT:
            raise ValueError("not a file of results")
        queries = tuple(
            Scored(
                id=str(query["id"]),
                query=str(query["query"]),
                category=str(query["category"]),
                mark=str(query["mark"]),
                scores={metric: _check_score(query[metric]) for metric in METRICS},
                rank=int(query["rank"]),
                took_ms=float(query["took_ms"]),
                found=tuple(map(str, query["found"])),
                missing=tuple(map(str, query["missing"])),
            )
            for query in record["queries"]
        )
        if not queries:
            raise ValueError("no questions")
        return Results(
            label=str(record["label"]),
            k=int(record["k"]),
            mode=str(record["mode"]),
            model=str(record["model"]),
            generations={str(name): int(number) for name, number in record["generations"].items()},
            queries=queries,
            settings=dict(record["settings"]),
            notes=tuple(map(str, record["notes"])),
        )
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no file {str(path)!r}.", hint="Save results with --save FILE first."
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidArgument(
            f"{path.name} does not contain results of an evaluation.",
            hint="Name a file that lookfar eval --save FILE wrote.",
            developer=f"{type(error).__name__}: {error}",
        ) from error


def _check_score(value: Any) -> float:
    # Also rejects NaN.
    if not 0 <= float(value) <= 1:
        raise ValueError("a score is not between 0 and 1")
    return float(value)


def _query_as_json(query: Scored) -> dict[str, Any]:
    return {
        "id": query.id,
        "query": query.query,
        "category": query.category,
        **{metric: _round(query.scores[metric]) for metric in METRICS},
        "rank": query.rank,
        "took_ms": round(query.took_ms, 3),
        "found": list(query.found),
        "missing": list(query.missing),
        "mark": query.mark,
    }


def _interval(values: Sequence[float], mean: float) -> dict[str, float]:
    low, high = interval(values)
    return {"mean": _round(mean), "low": _round(low), "high": _round(high)}


def _round(value: float) -> float:
    return round(value, 6)

"""What a measurement found, as frozen data and as a file.

Takes: the scores of each question. Gives: their means, by category too, how long answers took,
and a JSON object that can be kept and read back. Refuses: a file that is no such object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.evaluate.compare import interval
from lookfar.evaluate.metrics import METRICS, percentile

FORMAT = 1
_KIND = "lookfar eval"


@dataclass(frozen=True, slots=True)
class Scored:
    """How one question was answered."""

    id: str
    query: str
    category: str
    mark: str
    """Names the question with all that was judged: scores compare only where it is equal."""
    scores: Mapping[str, float]
    """By the names of ``METRICS``."""
    rank: int
    """Of the first relevant thing; 0 where none was found."""
    took_ms: float
    found: tuple[str, ...]
    """The places of the best answers, the first few."""
    missing: tuple[str, ...] = ()
    """What should be found and is not in the index at all."""


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
    """What was set for this measurement, over files and variables."""
    notes: tuple[str, ...] = ()
    """Why answers may be missing something, such as files that are not indexed yet."""

    def values(self, metric: str) -> list[float]:
        return [each.scores[metric] for each in self.queries]

    def mean(self, metric: str) -> float:
        return fmean(self.values(metric))

    def means(self) -> dict[str, float]:
        return {metric: self.mean(metric) for metric in METRICS}

    def categories(self) -> dict[str, tuple[int, dict[str, float]]]:
        """How many questions each category has, and their means; empty where none is named."""
        groups: dict[str, list[Scored]] = {}
        for each in self.queries:
            groups.setdefault(each.category, []).append(each)
        if set(groups) == {""}:
            return {}
        return {
            name: (len(group), {m: fmean(each.scores[m] for each in group) for m in METRICS})
            for name, group in sorted(groups.items())
        }

    def latency(self) -> dict[str, float]:
        """Milliseconds that half and that 95 of 100 answers did not exceed."""
        took = [each.took_ms for each in self.queries]
        return {"p50": percentile(took, 0.5), "p95": percentile(took, 0.95)}

    @property
    def missing(self) -> tuple[str, ...]:
        """All that should be found and is not in the index, once each."""
        return tuple(dict.fromkeys(one for each in self.queries for one in each.missing))


def shape(results: Results) -> dict[str, Any]:
    """Results as JSON; equal from run to run but for the times."""
    return {
        "kind": _KIND,
        "format": FORMAT,
        "label": results.label,
        "k": results.k,
        "mode": results.mode,
        "model": results.model,
        "generations": dict(results.generations),
        "settings": {key: _plain(value) for key, value in sorted(results.settings.items())},
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
        "queries": [_scored(each) for each in results.queries],
    }


def read_results(path: str | Path) -> Results:
    """What was kept of an earlier measurement."""
    path = Path(path)
    try:
        given = json.loads(path.read_bytes().decode("utf-8"))
        if given["kind"] != _KIND or given["format"] != FORMAT:
            raise ValueError("another kind of file")
        queries = tuple(
            Scored(
                id=str(each["id"]),
                query=str(each["query"]),
                category=str(each["category"]),
                mark=str(each["mark"]),
                scores={metric: _share(each[metric]) for metric in METRICS},
                rank=int(each["rank"]),
                took_ms=float(each["took_ms"]),
                found=tuple(map(str, each["found"])),
                missing=tuple(map(str, each["missing"])),
            )
            for each in given["queries"]
        )
        if not queries:
            raise ValueError("no questions")
        return Results(
            label=str(given["label"]),
            k=int(given["k"]),
            mode=str(given["mode"]),
            model=str(given["model"]),
            generations={str(name): int(each) for name, each in given["generations"].items()},
            queries=queries,
            settings=dict(given["settings"]),
            notes=tuple(map(str, given["notes"])),
        )
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no file {str(path)!r}.", hint="Keep results with --save FILE first."
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidArgument(
            f"{path.name} does not hold results of an evaluation.",
            hint="Give a file that lookfar eval --save FILE wrote.",
            developer=f"{type(error).__name__}: {error}",
        ) from error


def _share(value: Any) -> float:
    """A score as it was kept; also what is no number at all is none."""
    if not 0 <= float(value) <= 1:
        raise ValueError("a score is not between 0 and 1")
    return float(value)


def _scored(each: Scored) -> dict[str, Any]:
    return {
        "id": each.id,
        "query": each.query,
        "category": each.category,
        **{metric: _round(each.scores[metric]) for metric in METRICS},
        "rank": each.rank,
        "took_ms": round(each.took_ms, 3),
        "found": list(each.found),
        "missing": list(each.missing),
        "mark": each.mark,
    }


def _interval(values: Sequence[float], mean: float) -> dict[str, float]:
    low, high = interval(values)
    return {"mean": _round(mean), "low": _round(low), "high": _round(high)}


def _round(value: float) -> float:
    return round(value, 6)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

"""Format evaluation results: text with bars for stdout, and the JSON of ``lookfar eval --json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lookfar.errors import how_many
from lookfar.evaluate.compare import SIGNIFICANT, Comparison, Moved
from lookfar.evaluate.metrics import METRICS, interval
from lookfar.evaluate.results import Results, results_as_json
from lookfar.serve.show.printable import safe_name
from lookfar.serve.show.render import printed, styled

if TYPE_CHECKING:
    from rich.text import Text

_BAR = 24
_MOVED = 10
_LONGEST = 70


def text(
    results: Sequence[Results], comparisons: Mapping[str, Comparison], metric: str, source: str
) -> str:
    """Format the metrics of every configuration, and the comparison if there is one."""
    return printed(_lines(results, comparisons, metric, source))


def json_shape(
    results: Sequence[Results],
    comparisons: Mapping[str, Comparison],
    source: str,
    failures: Sequence[str],
) -> dict[str, Any]:
    """Return what ``--json`` prints; only the times differ between runs."""
    return {
        "source": source,
        "results": [results_as_json(result) for result in results],
        "comparison": {name: _comparison(entry) for name, entry in comparisons.items()},
        "failures": list(failures),
        "passed": not failures,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    shape: dict[str, Any] = {}
    for key, value in _rounded(comparison).items():
        shape[key] = value
        if key == "p":
            shape["significant"] = comparison.significant
    del shape["metric"]
    return shape | {"moved": [_rounded(moved) for moved in comparison.moved]}


def _rounded(record: Comparison | Moved) -> dict[str, Any]:
    fields = asdict(record).items()
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in fields}


def _lines(
    results: Sequence[Results], comparisons: Mapping[str, Comparison], metric: str, source: str
) -> Iterator[Text]:
    first = results[0]
    questions = how_many(len(first.queries), "question")
    yield styled((f"{questions} {source}, first {first.k} answers", "bold"))
    for result in results:
        yield styled()
        yield styled((safe_name(result.label), "bold"), (f"  {_describe(result)}", "dim"))
        yield from _metrics(result)
    yield from _categories(first)
    if comparisons:
        yield from _comparisons(comparisons, metric)


def _describe(result: Results) -> str:
    state = ", ".join(f"{name} {number}" for name, number in result.generations.items())
    return safe_name(f"{result.mode}, model {result.model}, generation of {state}")


def _metrics(result: Results) -> Iterator[Text]:
    for metric in METRICS:
        mean, (low, high) = result.mean(metric), interval(result.values(metric))
        full = round(mean * _BAR)
        yield styled(
            (f"  {_metric_name(metric, result.k):<12}", ""),
            (f"{mean:.4f}  ", "bold"),
            ("█" * full, "cyan"),
            ("░" * (_BAR - full), "dim"),
            (f"  {low:.3f} to {high:.3f}", "dim"),
        )
    latency = result.latency()
    yield styled(
        (f"  {'answered in':<12}p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms", "")
    )
    for note in result.notes:
        yield styled((f"  incomplete: {safe_name(note)}", "yellow"))
    if result.missing:
        examples = ", ".join(map(safe_name, result.missing[:3]))
        more = ", ..." if len(result.missing) > 3 else ""
        yield styled(
            (
                f"  expected, but not in the index: {len(result.missing)} ({examples}{more})",
                "yellow",
            )
        )


def _categories(result: Results) -> Iterator[Text]:
    groups = result.categories()
    if not groups:
        return
    yield styled()
    heads = "".join(f"{_metric_name(metric, result.k):>12}" for metric in METRICS)
    yield styled((f"  {'category':<24}{'questions':>10}{heads}", "dim"))
    for name, (count, means) in groups.items():
        category = safe_name(name or "(none)")[:24]
        columns = "".join(f"{means[metric]:12.4f}" for metric in METRICS)
        yield styled((f"  {category:<24}{count:>10}{columns}", ""))


def _comparisons(comparisons: Mapping[str, Comparison], metric: str) -> Iterator[Text]:
    yield styled()
    yield styled(
        (f"  {'change':<12}{'':>9}{'95 % interval':>22}{'p':>9}  better/worse/equal", "dim")
    )
    for name, comparison in comparisons.items():
        span = f"{comparison.low:+.4f} to {comparison.high:+.4f}"
        figures = f"{comparison.delta:+9.4f}{span:>22}{comparison.p:9.4f}"
        counts = f"  {comparison.wins}/{comparison.losses}/{comparison.ties}"
        yield styled((f"  {name:<12}{figures}{counts}", "bold" if name == metric else ""))
    chosen = comparisons[metric]
    verdict = "No significant difference"
    if chosen.significant:
        verdict = "Significantly better" if chosen.delta > 0 else "Significantly worse"
    sign = "<" if chosen.significant else ">="
    style = "green" if chosen.better else "red" if chosen.worse else ""
    yield styled((f"  {verdict} ({metric}, p {sign} {SIGNIFICANT}).", style))
    if chosen.unpaired:
        yield styled(
            (f"  Not compared, because asked or judged differently: {chosen.unpaired}", "yellow")
        )
    if chosen.moved:
        yield styled()
        yield styled((f"  moved most ({metric}, rank)", "dim"))
        for moved in chosen.moved[:_MOVED]:
            yield _moved(moved)


def _moved(moved: Moved) -> Text:
    query = safe_name(moved.query)
    query = query if len(query) <= _LONGEST else query[: _LONGEST - 1] + "…"
    ranks = f"{moved.rank_before or '-'} -> {moved.rank_after or '-'}"
    style = "green" if moved.delta > 0 else "red"
    return styled((f"  {moved.delta:+.3f}", style), (f"  {ranks:>9}  {query}", ""))


def _metric_name(metric: str, k: int) -> str:
    return f"{metric}@{1 if metric == 'success' else k}"

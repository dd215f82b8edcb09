"""A measurement for people and for scripts.

Takes: results of :mod:`lookfar.evaluate`, and a comparison where there is one. Gives: text with
bars for stdout, and the JSON object of ``lookfar eval --json``. Refuses: to let a question drive
the terminal: questions come from files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lookfar.errors import how_many
from lookfar.evaluate.compare import SIGNIFICANT
from lookfar.evaluate.metrics import METRICS
from lookfar.evaluate.results import results_as_json
from lookfar.evaluate.significance import interval
from lookfar.serve.show.printable import safe_name
from lookfar.serve.show.render import printed, styled

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.evaluate.compare import Comparison, Moved
    from lookfar.evaluate.results import Results

_BAR = 24
_MOVED = 10
_LONGEST = 70


def text(
    results: Sequence[Results], comparisons: Mapping[str, Comparison], metric: str, source: str
) -> str:
    """The first configuration in full, others in a line each, and what moved."""
    return printed(_lines(results, comparisons, metric, source))


def json_shape(
    results: Sequence[Results],
    comparisons: Mapping[str, Comparison],
    source: str,
    failures: Sequence[str],
) -> dict[str, Any]:
    """What ``--json`` prints; equal from run to run but for the times."""
    return {
        "source": source,
        "results": [results_as_json(each) for each in results],
        "comparison": {name: _comparison(each) for name, each in comparisons.items()},
        "failures": list(failures),
        "passed": not failures,
    }


def _comparison(found: Comparison) -> dict[str, Any]:
    return {
        "queries": found.queries,
        "unpaired": found.unpaired,
        "before": round(found.before, 6),
        "after": round(found.after, 6),
        "delta": round(found.delta, 6),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "p": round(found.p, 6),
        "significant": found.significant,
        "wins": found.wins,
        "losses": found.losses,
        "ties": found.ties,
        "moved": [
            {
                "id": each.id,
                "query": each.query,
                "before": round(each.before, 6),
                "after": round(each.after, 6),
                "rank_before": each.rank_before,
                "rank_after": each.rank_after,
            }
            for each in found.moved
        ],
    }


def _lines(
    results: Sequence[Results], comparisons: Mapping[str, Comparison], metric: str, source: str
) -> Iterator[Text]:
    first = results[0]
    asked = how_many(len(first.queries), "question")
    yield styled((f"{asked} {source}, first {first.k} answers", "bold"))
    for each in results:
        yield styled()
        yield styled((safe_name(each.label), "bold"), (f"  {_about(each)}", "dim"))
        yield from _metrics(each)
    yield from _categories(first)
    if comparisons:
        yield from _compared(comparisons, metric)


def _about(each: Results) -> str:
    state = ", ".join(f"{name} {number}" for name, number in each.generations.items())
    return safe_name(f"{each.mode}, model {each.model}, generation of {state}")


def _metrics(each: Results) -> Iterator[Text]:
    for metric in METRICS:
        mean, (low, high) = each.mean(metric), interval(each.values(metric))
        full = round(mean * _BAR)
        yield styled(
            (f"  {_named(metric, each.k):<12}", ""),
            (f"{mean:.4f}  ", "bold"),
            ("█" * full, "cyan"),
            ("░" * (_BAR - full), "dim"),
            (f"  {low:.3f} to {high:.3f}", "dim"),
        )
    took = each.latency()
    yield styled((f"  {'answered in':<12}p50 {took['p50']:.1f} ms, p95 {took['p95']:.1f} ms", ""))
    for note in each.notes:
        yield styled((f"  incomplete: {safe_name(note)}", "yellow"))
    if each.missing:
        shown = ", ".join(map(safe_name, each.missing[:3]))
        more = ", ..." if len(each.missing) > 3 else ""
        yield styled(
            (f"  not in the index, so never found: {len(each.missing)} ({shown}{more})", "yellow")
        )


def _categories(each: Results) -> Iterator[Text]:
    groups = each.categories()
    if not groups:
        return
    yield styled()
    heads = "".join(f"{_named(metric, each.k):>12}" for metric in METRICS)
    yield styled((f"  {'category':<24}{'questions':>10}{heads}", "dim"))
    for name, (count, means) in groups.items():
        shown = safe_name(name or "(none)")[:24]
        columns = "".join(f"{means[metric]:12.4f}" for metric in METRICS)
        yield styled((f"  {shown:<24}{count:>10}{columns}", ""))


def _compared(comparisons: Mapping[str, Comparison], metric: str) -> Iterator[Text]:
    yield styled()
    yield styled(
        (f"  {'change':<12}{'':>9}{'95 % interval':>22}{'p':>9}  better/worse/equal", "dim")
    )
    for name, each in comparisons.items():
        span = f"{each.low:+.4f} to {each.high:+.4f}"
        figures = f"{each.delta:+9.4f}{span:>22}{each.p:9.4f}"
        counts = f"  {each.wins}/{each.losses}/{each.ties}"
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
            (f"  Left out, because not asked or judged alike: {chosen.unpaired}", "yellow")
        )
    if chosen.moved:
        yield styled()
        yield styled((f"  moved most ({metric}, rank)", "dim"))
        for moved in chosen.moved[:_MOVED]:
            yield _moved(moved)


def _moved(each: Moved) -> Text:
    query = safe_name(each.query)
    query = query if len(query) <= _LONGEST else query[: _LONGEST - 1] + "…"
    ranks = f"{each.rank_before or '-'} -> {each.rank_after or '-'}"
    style = "green" if each.delta > 0 else "red"
    return styled((f"  {each.delta:+.3f}", style), (f"  {ranks:>9}  {query}", ""))


def _named(metric: str, k: int) -> str:
    return f"{metric}@{1 if metric == 'success' else k}"

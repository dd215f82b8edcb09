"""A measurement as a picture: an SVG, or a page that holds it.

Takes: results, and a comparison where there are two. Gives: a bar for each metric with its
confidence interval, and below it a bar for each question: its change, or its score. Refuses: to
contain anything that moves, loads or runs; and times, which no two runs share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from lookfar.evaluate.compare import Comparison, interval
from lookfar.evaluate.metrics import METRICS
from lookfar.evaluate.results import Results

_WIDTH, _LEFT, _RIGHT = 760, 110, 60
_BAR, _GAP, _GROUP_GAP = 16, 4, 14
_QUERIES_HEIGHT = 220
_LONGEST_LABEL = 95
_MOST_BARS = 600
"""Of more questions only some are shown, evenly chosen, so that a bar can be seen."""
_COLOURS = ("#2f6fb0", "#a9b4c0", "#6a9f58", "#c28f2c")
_UP, _DOWN, _INK, _GRID = "#3a8f5c", "#c0504d", "#24292f", "#d8dee4"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(results: Sequence[Results], comparison: Comparison | None = None) -> str:
    """The picture of one measurement or of several; the first one's questions are shown."""
    bars = list(_metrics(results))
    top = 44 + len(METRICS) * (len(results) * (_BAR + _GAP) + _GROUP_GAP) + 18 * len(results)
    questions = list(_changes(comparison, top) if comparison else _scores(results[0], top))
    height = top + _QUERIES_HEIGHT + 60
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12"'
        f' fill="{_INK}" role="img">'
    )
    lines = [
        opening,
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, f"{len(results[0].queries)} questions, first {results[0].k} answers", 14),
        *bars,
        *questions,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def html(results: Sequence[Results], comparison: Comparison | None = None) -> str:
    """The same picture in a page of its own."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{_safe(results[0].label)}</title>\n{svg(results, comparison)}</html>\n"
    )


def _metrics(results: Sequence[Results]) -> Iterator[str]:
    """A group of bars for each metric, one bar for each configuration."""
    scale = _WIDTH - _LEFT - _RIGHT
    y = 40
    for at, each in enumerate(results):
        yield _box(_LEFT, y - 9, 10, 10, _COLOURS[at % len(_COLOURS)])
        yield _text(_LEFT + 16, y, (each.label or each.mode)[:_LONGEST_LABEL])
        y += 18
    for metric in METRICS:
        yield _text(12, y + _BAR - 4, _named(metric, results[0].k))
        for at, each in enumerate(results):
            mean, (low, high) = each.mean(metric), interval(each.values(metric))
            middle = y + _BAR / 2
            yield _box(_LEFT, y, mean * scale, _BAR, _COLOURS[at % len(_COLOURS)])
            yield _line(_LEFT + low * scale, middle, _LEFT + high * scale, middle, _INK)
            for end in (low, high):
                yield _line(_LEFT + end * scale, y + 4, _LEFT + end * scale, y + _BAR - 4, _INK)
            yield _text(_LEFT + high * scale + 6, y + _BAR - 4, f"{mean:.3f}")
            y += _BAR + _GAP
        y += _GROUP_GAP


def _changes(comparison: Comparison, top: float) -> Iterator[str]:
    """What each question gained or lost, the largest gain first."""
    moved = sorted(comparison.moved, key=lambda each: (-each.delta, each.id))
    better = [each for each in moved if each.delta > 0]
    worse = [each for each in moved if each.delta < 0]
    same: list[tuple[float, str]] = [(0.0, "unchanged")] * comparison.ties
    values = [
        *((each.delta, each.query) for each in better),
        *same,
        *((each.delta, each.query) for each in worse),
    ]
    yield _text(12, top + 14, f"change of {comparison.metric} for each question", 14)
    told = (
        f"{comparison.delta:+.4f} ({comparison.low:+.4f} to {comparison.high:+.4f}),"
        f" p = {comparison.p:.4f}; {comparison.wins} better, {comparison.losses} worse,"
        f" {comparison.ties} equal"
    )
    yield _text(12, top + 32, told)
    yield from _row(values, top + 40, -1.0)


def _scores(results: Results, top: float) -> Iterator[str]:
    """The score of each question, the best first."""
    metric = METRICS[0]
    values = sorted(
        ((each.scores[metric], each.query) for each in results.queries),
        key=lambda each: (-each[0], each[1]),
    )
    yield _text(12, top + 14, f"{_named(metric, results.k)} of each question", 14)
    yield from _row(values, top + 40, 0.0)


def _row(values: Sequence[tuple[float, str]], top: float, lowest: float) -> Iterator[str]:
    step = -(-len(values) // _MOST_BARS)
    shown = values[::step]
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(shown), 1)
    height = _QUERIES_HEIGHT - 20
    zero = top + height / (1.0 - lowest)
    for mark in (1.0, 0.5, 0.0, -0.5, -1.0):
        if mark >= lowest:
            y = zero - mark * height / (1.0 - lowest)
            yield _line(_LEFT, y, _WIDTH - _RIGHT, y, _GRID if mark else _INK)
            yield _text(_LEFT - 44, y + 4, f"{mark:+.1f}" if lowest else f"{mark:.1f}")
    for at, (value, name) in enumerate(shown):
        long = abs(value) * height / (1.0 - lowest)
        y = zero - long if value > 0 else zero
        colour = _COLOURS[0] if not lowest else _UP if value > 0 else _DOWN
        box = _box(_LEFT + at * width, y, max(width - 0.5, 0.5), long, colour)
        yield box.replace("/>", f"><title>{_safe(name)}: {value:+.3f}</title></rect>")
    if step > 1:
        yield _text(_LEFT, top + height + 18, f"one in {step} of {len(values)} questions")


def _named(metric: str, k: int) -> str:
    shown = {"ndcg": "nDCG", "mrr": "MRR", "recall": "recall", "success": "success"}[metric]
    return f"{shown}@{1 if metric == 'success' else k}"


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, size: int = 12) -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text[:200]))

"""Draw a measurement as SVG, or as an HTML page with that SVG.

There is a bar for each metric with its confidence interval, and a bar for each question: its
change in a comparison, otherwise its score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from lookfar.evaluate.compare import Comparison
from lookfar.evaluate.metrics import METRICS, interval
from lookfar.evaluate.results import Results

_WIDTH, _LEFT, _RIGHT = 760, 110, 60
_BAR, _GAP, _GROUP_GAP = 16, 4, 14
_QUERIES_HEIGHT = 220
_LONGEST_LABEL = 95
_MOST_BARS = 600
"""Of more questions only every n-th is drawn, so that bars remain visible."""
_COLOURS = ("#2f6fb0", "#a9b4c0", "#6a9f58", "#c28f2c")
_UP, _DOWN, _INK, _GRID = "#3a8f5c", "#c0504d", "#24292f", "#d8dee4"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(results: Sequence[Results], comparison: Comparison | None = None) -> str:
    """Draw one or more measurements; the questions are those of the first."""
    bars = list(_draw_metrics(results))
    top = 44 + len(METRICS) * (len(results) * (_BAR + _GAP) + _GROUP_GAP) + 18 * len(results)
    questions = _draw_changes(comparison, top) if comparison else _draw_scores(results[0], top)
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
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{_safe(results[0].label)}</title>\n{svg(results, comparison)}</html>\n"
    )


def _draw_metrics(results: Sequence[Results]) -> Iterator[str]:
    """Draw a group of bars for each metric, one bar for each configuration."""
    scale = _WIDTH - _LEFT - _RIGHT
    y = 40
    for number, result in enumerate(results):
        yield _box(_LEFT, y - 9, 10, 10, _COLOURS[number % len(_COLOURS)])
        yield _text(_LEFT + 16, y, (result.label or result.mode)[:_LONGEST_LABEL])
        y += 18
    for metric in METRICS:
        yield _text(12, y + _BAR - 4, _metric_name(metric, results[0].k))
        for number, result in enumerate(results):
            mean, (low, high) = result.mean(metric), interval(result.values(metric))
            middle = y + _BAR / 2
            yield _box(_LEFT, y, mean * scale, _BAR, _COLOURS[number % len(_COLOURS)])
            yield _line(_LEFT + low * scale, middle, _LEFT + high * scale, middle, _INK)
            for end in (low, high):
                yield _line(_LEFT + end * scale, y + 4, _LEFT + end * scale, y + _BAR - 4, _INK)
            yield _text(_LEFT + high * scale + 6, y + _BAR - 4, f"{mean:.3f}")
            y += _BAR + _GAP
        y += _GROUP_GAP


def _draw_changes(comparison: Comparison, top: float) -> Iterator[str]:
    """Draw what each question gained or lost, the largest gain first."""
    moved = sorted(comparison.moved, key=lambda question: (-question.delta, question.id))
    same: list[tuple[float, str]] = [(0.0, "unchanged")] * comparison.ties
    values = [
        *((question.delta, question.query) for question in moved if question.delta > 0),
        *same,
        *((question.delta, question.query) for question in moved if question.delta < 0),
    ]
    yield _text(12, top + 14, f"change of {comparison.metric} for each question", 14)
    summary = (
        f"{comparison.delta:+.4f} ({comparison.low:+.4f} to {comparison.high:+.4f}),"
        f" p = {comparison.p:.4f}; {comparison.wins} better, {comparison.losses} worse,"
        f" {comparison.ties} equal"
    )
    yield _text(12, top + 32, summary)
    yield from _draw_bars(values, top + 40, -1.0)


def _draw_scores(results: Results, top: float) -> Iterator[str]:
    """Draw the score of each question, the best first."""
    metric = METRICS[0]
    values = sorted(
        ((question.scores[metric], question.query) for question in results.queries),
        key=lambda pair: (-pair[0], pair[1]),
    )
    yield _text(12, top + 14, f"{_metric_name(metric, results.k)} of each question", 14)
    yield from _draw_bars(values, top + 40, 0.0)


def _draw_bars(values: Sequence[tuple[float, str]], top: float, lowest: float) -> Iterator[str]:
    step = -(-len(values) // _MOST_BARS)
    drawn = values[::step]
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(drawn), 1)
    height = _QUERIES_HEIGHT - 20
    zero = top + height / (1.0 - lowest)
    for mark in (1.0, 0.5, 0.0, -0.5, -1.0):
        if mark >= lowest:
            y = zero - mark * height / (1.0 - lowest)
            yield _line(_LEFT, y, _WIDTH - _RIGHT, y, _GRID if mark else _INK)
            yield _text(_LEFT - 44, y + 4, f"{mark:+.1f}" if lowest else f"{mark:.1f}")
    for number, (value, name) in enumerate(drawn):
        length = abs(value) * height / (1.0 - lowest)
        y = zero - length if value > 0 else zero
        colour = _COLOURS[0] if not lowest else _UP if value > 0 else _DOWN
        box = _box(_LEFT + number * width, y, max(width - 0.5, 0.5), length, colour)
        yield box.replace("/>", f"><title>{_safe(name)}: {value:+.3f}</title></rect>")
    if step > 1:
        yield _text(_LEFT, top + height + 18, f"one in {step} of {len(values)} questions")


def _metric_name(metric: str, k: int) -> str:
    name = {"ndcg": "nDCG", "mrr": "MRR", "recall": "recall", "success": "success"}[metric]
    return f"{name}@{1 if metric == 'success' else k}"


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

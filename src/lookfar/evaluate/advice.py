"""Say in a sentence whether the second model is worth it, from a measurement with and without."""

from __future__ import annotations

from lookfar.errors import how_many
from lookfar.evaluate.compare import Comparison
from lookfar.evaluate.results import Results

_FEW = 50
"""Questions below which a difference is seldom significant."""


def advise_tiers(
    comparison: Comparison, both: Results, alone: Results, *, generated: bool = False
) -> str:
    """Advise on the second model; ``comparison`` is that of ``both`` models with the first.

    ``generated`` says that the questions were made from the documents. They use the same words, so
    they show what the second model costs, but hardly what it gains.
    """
    slower = both.latency()["p50"] - alone.latency()["p50"]
    cost = f"a question takes {max(slower, 0.0):.0f} ms more"
    change = f"{comparison.metric} changes by {comparison.delta:+.3f}"
    interval = f"(95 % interval {comparison.low:+.3f} to {comparison.high:+.3f})"
    if comparison.better:
        return f"Keep the second model: {change} {interval}, and {cost}."
    if generated:
        return (
            f"No advice: {change} {interval}, and {cost}, but these questions use the words of"
            " your documents. The second model is for questions in other words; measure it with"
            " your own: lookfar eval questions.jsonl PATH --tiers"
        )
    if comparison.worse:
        return f"Turn the second model off (quality.enabled = off): {change} {interval}."
    asked = how_many(comparison.queries, "question")
    more = "; ask more questions to be sure" if comparison.queries < _FEW else ""
    return (
        f"No significant difference on {asked}: {change} {interval}, and {cost}. The second model"
        f" is not needed here{more}."
    )

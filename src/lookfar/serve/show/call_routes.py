"""Say how one definition reaches another, for people and for models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lookfar.errors import how_many
from lookfar.model import CallRoute, CallStep
from lookfar.serve.show.printable import safe_name

_MOST: Final = 8
"""How many callers, and how many mentions, are named if no route is found."""


def list_steps(route: CallRoute) -> Iterator[str]:
    """Yield the lines of each definition on the route, indented below its path.

    If the index cannot prove a link of the route, a remark follows the name of its target.
    """
    doubt = ""
    for step in route.steps:
        yield safe_name(f"{step.uri}:{step.line}-{step.end_line}  {step.name}{doubt}")
        yield f"  {step.line}| {safe_name(step.signature)}"
        if step.calls and step.calls[0] != step.line:
            yield f"  {step.calls[0]}| {safe_name(step.call)}"
        if len(step.calls) > 1:
            yield f"  also on lines {', '.join(map(str, step.calls[1:]))}"
        doubt = _describe_doubt(step)


def _describe_doubt(step: CallStep) -> str:
    if step.link == "name":
        return f"  (by name only: {how_many(step.namesakes, 'definition')} with this name)"
    return {"override": "  (overrides it)", "mention": "  (named there, not called)"}.get(
        step.link or "", ""
    )


def describe_route(route: CallRoute) -> list[str]:
    """Say whether a route was found, and whether the index resolved each call on it."""
    ways = f"from {route.source} to {route.target}"
    if route.steps:
        count = how_many(len(route.steps) - 1, "step")
        doubts = sum(step.link not in ("call", None) for step in route.steps)
        state = "complete: the index resolved each call"
        if doubts:
            state = (
                f"not complete: {how_many(doubts, 'link')} not proven by the index, marked with ()"
            )
        return [safe_name(f"{count} {ways}; {state}.")]
    lines = [f"No route {ways} was found by calls, overrides or mentions."]
    if not route.searched_all:
        lines.append("The search stopped early, so there may still be one.")
    if route.reverse:
        lines.append(f"But {route.target} reaches {route.source}: ask for that direction.")
    callers = [
        f"{node.uri}:{node.calls[0] if node.calls else node.line} {node.name}".rstrip()
        for node in route.callers[:_MOST]
    ]
    called = f"{route.target} is called by: {'; '.join(callers)}"
    lines.append(called if callers else f"The index has no certain call to {route.target}.")
    mentions = "; ".join(f"{uri}:{line}" for uri, line in route.mentions[:_MOST])
    if mentions:
        lines.append(f"The name is mentioned in: {mentions}")
    return [safe_name(line) for line in lines]

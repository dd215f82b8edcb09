"""The time that an answer took does not decide which of its texts fit the token budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lookfar.library import Library
from lookfar.model import Answer
from lookfar.serve.tools.tool import Result
from lookfar.serve.toolsets import load_tools

CallIn = Callable[..., tuple[dict[str, Any], bool]]

# Each Japanese character counts as a token, so that a few chunks exceed the budget.
SETTINGS = {"chunk.max_tokens": 2_000, "chunk.part_tokens": 2_000, "chunk.hard_max_tokens": 2_000}
FILES = {
    f"{number:02}.md": f"# Page {number}\n\n"
    + " ".join(
        f"A zebra crossed river {number}: シマウマ{number}頭が川を渡り、{part}日後に戻った。"
        for part in range(90)
    )
    for number in range(20)
}
_TIMES = (1.0, 1_234_567.891)

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "msrl": ("msrl.query", {"query": "zebra", "max_excerpt_chars": 20_000}),
    "anvil": ("search_docs", {"query": "zebra"}),
    "search-mcp": ("search_docs", {"query": "zebra"}),
}


@pytest.fixture(params=CALLS)
def toolset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tools(toolset: str) -> Any:
    return load_tools([toolset])


def test_slow_and_fast_answers_have_the_same_texts(
    library: Library, toolset: str, call_in: CallIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the milliseconds are counted: more digits would leave less room for texts."""
    tool, arguments = CALLS[toolset]
    library.index()
    search = library.search

    def ask(took: float, top_k: int) -> tuple[list[Any], float]:
        def search_slowly(*args: Any, **options: Any) -> Answer:
            return replace(search(*args, **options), took_ms=took)

        monkeypatch.setattr(library, "search", search_slowly)
        shape, failed = call_in(library, tool, **arguments, top_k=top_k)
        assert not failed, shape
        flat = {**shape, **shape.get("meta", {})}
        (key,) = {"took_ms", "query_ms", "searchTimeMs"} & set(flat)
        return shape["results"], flat[key]

    # What is left of the budget differs by the number of results; a digit must never use it up.
    for top_k in range(2, 20):
        (texts, took), (same_texts, longer) = (ask(time, top_k) for time in _TIMES)
        assert texts == same_texts
        assert (round(took), round(longer)) == tuple(map(round, _TIMES))


def test_the_cost_of_a_result_does_not_depend_on_its_time() -> None:
    costs = {Result({"took_ms": took, "hits": []}, "").cost for took in _TIMES}
    assert len(costs) == 1

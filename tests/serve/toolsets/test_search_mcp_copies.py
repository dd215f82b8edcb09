"""Code that stands in several places is found once, asked for as search-mcp's clients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TOOLSET = "search-mcp"
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
CODE = "def rotate_zebra(stripes):\n    return stripes[1:] + stripes[:1]\n"


def test_code_that_says_the_same_is_found_once(ask: Ask, put: Put) -> None:
    put(
        {
            "lib/zebra.py": CODE,
            "copied/zebra.py": CODE,
            "other/zebra.py": CODE.replace("[1:]", "[2:]"),
        }
    )
    ask("create_index", confirm=True)
    found = ask("search_code", query="rotate_zebra stripes", top_k=10)["results"]
    texts = [each["text"] for each in found]
    assert len(texts) == len(set(texts)) == 2

"""The first call of a session, in a folder that was never indexed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lookfar.library import Library

TOOLSET = "default"


@pytest.mark.parametrize(
    ("tool", "given"), [("read", {"target": "a.md"}), ("related", {"target": "a.md"})]
)
def test_whatever_is_asked_first_is_answered(
    call: Any, library: Library, put: Callable[..., None], tool: str, given: dict[str, Any]
) -> None:
    """Seen to fail: only a search indexed the folder first, everything else told one to."""
    put({"a.md": "# A\n\nSee [b](b.md).\n", "b.md": "# B\n\nIt is there.\n"})
    assert not library.indexed
    result = call(tool, given)
    assert not result.is_error
    assert "a.md" in str(result.structured_content)
    assert library.indexed

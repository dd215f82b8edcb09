"""The summary of a large file fits its budget, and its pages together are the whole summary."""

from __future__ import annotations

from typing import Any

from lookfar.serve.toolsets.common import count_tokens
from lookfar.serve.toolsets.file_summary import render_summary
from lookfar.text.parse.summary import summarise


def test_what_common_js_exports_is_exported_and_a_signature_has_no_comments() -> None:
    shared = "function connect(url) {}\nfunction hidden() {}\nclass Pool {}\n"
    summary = summarise("a.js", f"{shared}module.exports = {{ connect, Pool }}\n")
    assert [(one.name, one.is_exported) for one in summary.functions] == [
        ("connect", True),
        ("hidden", False),
    ]
    assert [one.is_exported for one in summary.classes] == [True]
    python = "def login(\n    email,  # the address\n):  # a user\n    return email\n"
    assert [one.signature for one in summarise("a.py", python).functions] == ["def login( email, )"]


def test_the_pages_of_a_summary_fit_and_lose_nothing() -> None:
    """Seen to fail with the cursor not advanced, and with a budget of 8,000 tokens."""
    functions = "".join(
        f'def function_{number}(left, right):\n    """Adds {number}."""\n    return left\n\n\n'
        for number in range(700)
    )
    methods = "".join(f"    def method_{number}(self): ...\n" for number in range(300))
    summary = summarise("large.py", f"{functions}class Large:\n{methods}")
    names: list[str] = []
    cursor, pages = 0, 0
    while True:
        page: dict[str, Any] = render_summary(
            summary, 1.0, complexity=True, docstrings=True, cursor=cursor
        )
        assert count_tokens(page) <= 4_000
        names += [function["name"] for function in page["functions"]]
        pages += 1
        if "nextCursor" not in page:
            break
        assert page["truncated"]
        assert page["nextCursor"] > cursor
        cursor = page["nextCursor"]
    assert pages > 2
    assert names == [function.name for function in summary.functions]

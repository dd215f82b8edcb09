"""What documents say about code."""

from __future__ import annotations

import pytest

from lookfar.text.parse.claims import find_claims
from lookfar.text.parse.formats import text_parser_for

GUIDE = """# Guide

Call `open_hold()` with `Ship.load(crate=1, deck=2)`, or run `port --fast-lane`.
Set `MAX_CRATES`, pass `--dry-run`, and read `src/port/crane.py`. A `word` is not a claim.

The old `close_hold()` was removed.

```python
from port.crane import Crane, lift
import port

lift(load=3)
port.dock(slow=True)
unknown(fast=True)
```

## Upgrade from 1.0

Replace `first_mate()`.
"""
RST = """Guide
=====

Use :func:`port.open_hold` and ``Ship.load``, see `a title`_ or `crates_of`.

.. versionchanged:: 2.0

    The method ``Ship.unload_all`` takes a list.

.. currentmodule:: port

.. autofunction:: moor
"""


def claims(uri: str, text: str) -> set[tuple[str, str, int, str]]:
    document = text_parser_for(uri)(uri, text)
    return {(claim.kind, claim.name, claim.line, claim.call) for claim in find_claims(document)}


def test_claims_of_markdown() -> None:
    assert claims("guide.md", GUIDE) == {
        ("symbol", "open_hold", 3, ""),
        ("symbol", "Ship.load", 3, ""),
        ("parameter", "crate", 3, "Ship.load"),
        ("parameter", "deck", 3, "Ship.load"),
        ("option", "--fast-lane", 3, "port"),
        ("setting", "MAX_CRATES", 4, ""),
        ("option", "--dry-run", 4, ""),
        ("file", "src/port/crane.py", 4, ""),
        ("import", "port.crane.Crane", 9, ""),
        ("import", "port.crane.lift", 9, ""),
        ("parameter", "load", 12, "port.crane.lift"),
        ("parameter", "slow", 13, "port.dock"),
    }


def test_claims_of_restructured_text() -> None:
    assert claims("guide.rst", RST) == {
        ("symbol", "port.open_hold", 4, ""),
        ("symbol", "Ship.load", 4, ""),
        ("symbol", "port.moor", 12, ""),
    }


@pytest.mark.parametrize("uri", ["CHANGES.md", "docs/release-notes/2.md", "docs/upgrading.md"])
def test_documents_about_the_past_claim_nothing(uri: str) -> None:
    assert claims(uri, "# Notes\n\nUse `open_hold()`.\n") == set()

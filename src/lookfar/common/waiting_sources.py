"""Describe the sources that a project's ``lookfar.toml`` names and that are not fetched yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lookfar.errors import how_many

COMMAND: Final = "lookfar add --named"
"""The command that shows each of them, asks, and fetches it."""


def describe_waiting(names: Sequence[str]) -> str:
    """Say which named sources are not there, and how to fetch them; empty if all are."""
    if not names:
        return ""
    number = how_many(len(names), "source")
    return f"{number} named in lookfar.toml not fetched yet: {', '.join(names)}; run: {COMMAND}"

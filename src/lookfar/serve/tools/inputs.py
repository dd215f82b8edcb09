"""Numbers in a range and texts that are not empty, as inputs of tools.

The limits are not part of the schema, because every client pays for each word of a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from lookfar.serve.tools.tool import MOST_TOKENS

T = TypeVar("T")

LEAST_TOKENS = 100


def between(least: int, most: int) -> Callable[[int], int]:
    """Return a function that checks that a number is in a range."""

    def check(value: int) -> int:
        if not least <= value <= most:
            raise ValueError(f"It must be from {least:,} to {most:,}")
        return value

    return check


def _refuse_empty(value: T) -> T:
    if not value or (isinstance(value, str) and not value.strip()):
        raise ValueError("It is empty")
    return value


FILLED = AfterValidator(_refuse_empty)
"""Refuses a blank text and an empty list."""

Budget = Annotated[
    int,
    AfterValidator(between(LEAST_TOKENS, MOST_TOKENS)),
    Field(default_factory=int, description="Tokens"),
]
"""0 if omitted. A factory keeps this default out of the schema."""

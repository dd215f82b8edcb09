"""What several tools take: numbers in a range, without a word about it in the schema.

Every client session pays for each word of a schema; a number out of range gets an error that says
what the range is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from lookfar.serve.tools.tool import MOST_TOKENS

LEAST_TOKENS = 100


def between(least: int, most: int) -> Callable[[int], int]:
    """Check that a number that was given is in a range."""

    def check(value: int) -> int:
        if not least <= value <= most:
            raise ValueError(f"It must be from {least:,} to {most:,}")
        return value

    return check


Budget = Annotated[
    int,
    AfterValidator(between(LEAST_TOKENS, MOST_TOKENS)),
    Field(default_factory=int, description="Tokens"),
]
"""0 where none is given. A factory keeps that default out of the schema."""

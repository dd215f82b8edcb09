"""The sum of receipts in a few words, for people and models."""

from __future__ import annotations

from lookfar.errors import how_many
from lookfar.model import Receipts


def saved(receipts: Receipts) -> str:
    """How many answers there were, what they cost, and what the files they cite would have."""
    return (
        f"{how_many(receipts.answers, 'answer')} with {receipts.tokens:,} tokens"
        f" from files with {receipts.document_tokens:,}"
    )

"""Summarise how many tokens answers cost."""

from __future__ import annotations

from lookfar.errors import how_many
from lookfar.model import Receipts


def describe_receipts(receipts: Receipts) -> str:
    """Describe the number of answers, their tokens, and the tokens of the files they cite."""
    return (
        f"{how_many(receipts.answers, 'answer')} with {receipts.tokens:,} tokens"
        f" from files with {receipts.document_tokens:,}"
    )

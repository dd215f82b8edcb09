"""Passages small enough to compute by hand."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from lookfar.ports import Place
from lookfar.retrieve.answer.diversify import Passage


def passage(uri: str, score: float, text: str = "", **more: Any) -> Passage:
    """Return one chunk of a document; equal ``text`` means equal hashes."""
    start, end = more.get("start", 0), more.get("end", more.get("start", 0) + 10)
    sha = sha256(text.encode()).digest()
    place = Place(
        key=0,
        id=bytes(16),
        document=more.get("document", 1),
        vector=None,
        uri=uri,
        title="",
        lane=more.get("lane", "docs"),
        path=more.get("path", ()),
        ordinal=0,
        part=1,
        parts=1,
        start=start,
        end=end,
        start_line=1,
        end_line=2,
        overlap=0,
        sha=sha,
    )
    return Passage(
        best=0,
        score=score,
        place=place,
        source=0,
        start=start,
        end=end,
        start_line=1,
        end_line=2,
        texts=((0, sha),),
    )


def list_duplicates(passages: list[Passage]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return URIs, each with the URIs of its duplicates and how they are alike."""
    return [
        (passage.place.uri, [(other.place.uri, by) for other, by in passage.folded])
        for passage in passages
    ]

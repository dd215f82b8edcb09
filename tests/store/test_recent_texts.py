"""The cache of recent texts returns them unchanged and stays within its limit."""

from __future__ import annotations

from lookfar.store.sqlite.snapshot import RecentTexts


def test_the_least_recently_used_text_is_dropped() -> None:
    """Seen to fail with a text that keeps its place although it was asked for."""
    texts = RecentTexts(most_bytes=100)
    for number in range(10):
        texts.add(bytes([number]), bytes([number]) * 10)
    assert set(texts.known([b"\x00"])) == {b"\x00"}
    texts.add(b"new", b"x" * 10)
    assert texts.known([b"\x00", b"\x01", b"new"]) == {b"\x00": b"\x00" * 10, b"new": b"x" * 10}


def test_texts_are_counted_once_and_large_ones_not_cached() -> None:
    texts = RecentTexts(most_bytes=100)
    for _ in range(20):
        texts.add(b"a", b"a" * 10)
    texts.add(b"b", b"b" * 10)
    texts.add(b"large", b"l" * 50)
    assert set(texts.known([b"a", b"b", b"large"])) == {b"a", b"b"}

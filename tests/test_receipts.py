"""What answers cost and what the cited files would have cost, summed over processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lookfar.collections import receipts
from lookfar.collections.receipts import RECEIPTS_FILE, ReceiptBook
from lookfar.library import Library
from lookfar.model import Receipts
from lookfar.serve.tools.table import TOOLS
from lookfar.serve.tools.tool import Session

SETTINGS = {"embed.provider": "hash", "index.workers": 1}


class Quiet:
    client = "tester"

    def on_progress(self) -> Any:
        return lambda now: None

    def confirm(self, question: str) -> bool:
        return True


def test_receipts_of_several_processes_add_up(tmp_path: Path) -> None:
    one, other = ReceiptBook(tmp_path), ReceiptBook(tmp_path)
    one.add(10, 100)
    other.add(5, 50)
    assert one.total() == Receipts(1, 10, 100)
    one.close()
    other.close()
    assert ReceiptBook(tmp_path).total() == Receipts(2, 15, 150)


def test_they_are_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_WRITE_SECONDS", 0.0)
    ReceiptBook(tmp_path).add(10, 100)
    assert (tmp_path / RECEIPTS_FILE).exists()


def test_what_cannot_be_written_fails_nobody(tmp_path: Path) -> None:
    gone = ReceiptBook(tmp_path / "gone")
    gone.add(10, 100)
    gone.close()
    assert gone.total() == Receipts(1, 10, 100)
    book = ReceiptBook(tmp_path)
    (tmp_path / RECEIPTS_FILE).mkdir()  # Nothing can be written in its place.
    book.add(10, 100)
    book.close()
    assert book.total() == Receipts(1, 10, 100)


def test_a_damaged_sum_begins_again(tmp_path: Path) -> None:
    book = ReceiptBook(tmp_path)
    book.add(10, 100)
    book.close()
    path = tmp_path / RECEIPTS_FILE
    path.write_bytes(path.read_bytes().replace(b"10", b"90"))
    assert book.total() == Receipts()


def test_an_answer_says_what_it_costs_and_status_sums_up(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    text = "# Guide\n\nTo revert a release, tag the last commit.\n\n" + "Other words.\n\n" * 900
    (root / "guide.md").write_text(text, encoding="utf-8")
    tools = {tool.name: tool for tool in TOOLS}
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        result = tools["search"].run(Session(library), {"query": "revert a release"}, Quiet())
        assert 0 < result.data["tokens"] < result.data["document_tokens"]
        assert result.data["document_tokens"] == len(text) // 4
        assert f"whole: {result.data['document_tokens']:,}" in result.text
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        [state] = library.statuses()
        assert state.receipts == Receipts(1, result.data["tokens"], len(text) // 4)
        said = tools["status"].run(Session(library), {}, Quiet()).text
        assert f"1 answer with {result.data['tokens']} tokens" in said
        assert library.verify() == []
        library.delete()
        assert os.listdir(tmp_path / "index") == []

"""What answers cost and what the cited files would have cost, summed over processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calls import QuietCall
from lookfar.collections.receipts import RECEIPTS_FILE, ReceiptBook
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.model import Receipts, SessionReceipt
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.mcp.server import _present, _refuse
from lookfar.serve.show import render
from lookfar.serve.tools.table import TOOLS
from lookfar.serve.tools.tool import Session
from lookfar.store.ground.records import pack_record

SETTINGS = {"embed.provider": "hash", "index.workers": 1}


def test_receipts_of_several_processes_add_up(tmp_path: Path) -> None:
    one, other = ReceiptBook(tmp_path), ReceiptBook(tmp_path)
    one.add(Receipts(1, 10, 100))
    other.add(Receipts(1, 5, 50))
    assert one.total() == Receipts(2, 15, 150)
    one.add(Receipts(1, 1, 1))  # Not written yet.
    assert other.total() == Receipts(2, 15, 150)
    one.close()
    other.close()
    assert ReceiptBook(tmp_path).total() == Receipts(3, 16, 151)


def test_they_are_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = ReceiptBook(tmp_path)
    book.add(Receipts(1, 10, 100))
    assert ReceiptBook(tmp_path).total() == Receipts(1, 10, 100)
    monkeypatch.setattr(book, "_due", 0.0)
    book.add(Receipts(1, 10, 100))
    assert ReceiptBook(tmp_path).total() == Receipts(2, 20, 200)


def test_what_cannot_be_written_fails_nobody(tmp_path: Path) -> None:
    gone = ReceiptBook(tmp_path / "gone")
    gone.add(Receipts(1, 10, 100))
    gone.close()
    assert gone.total() == Receipts(1, 10, 100)
    book = ReceiptBook(tmp_path)
    (tmp_path / RECEIPTS_FILE).mkdir()  # Nothing can be written in its place.
    book.add(Receipts(1, 10, 100))
    book.close()
    assert book.total() == Receipts(1, 10, 100)


def test_a_damaged_sum_begins_again(tmp_path: Path) -> None:
    book = ReceiptBook(tmp_path)
    book.add(Receipts(1, 10, 100))
    book.close()
    path = tmp_path / RECEIPTS_FILE
    path.write_bytes(path.read_bytes().replace(b"10", b"90"))
    assert book.total() == Receipts()


def calls(client: str, count: int, tokens: int, session: str = "1") -> Receipts:
    started = "2026-01-01T00:00:00+00:00"
    return Receipts(sessions=(SessionReceipt(session, client, started, count, tokens),))


def test_calls_of_a_client_session_add_up(tmp_path: Path) -> None:
    book = ReceiptBook(tmp_path)
    book.add(calls("one", 1, 10))
    book.add(calls("other", 1, 5, "2"))
    book.close()
    later = ReceiptBook(tmp_path)
    later.add(calls("one", 2, 30))
    assert later.total().sessions == (
        calls("other", 1, 5, "2").sessions + calls("one", 3, 40).sessions
    )


def test_only_the_latest_sessions_are_kept(tmp_path: Path) -> None:
    book = ReceiptBook(tmp_path)
    for number in range(40):
        book.add(calls("one", 1, 10, str(number)))
    book.close()
    kept = ReceiptBook(tmp_path).total().sessions
    assert [receipt.session for receipt in kept] == [str(number) for number in range(30, 40)]


def test_receipts_of_an_older_version_are_read(tmp_path: Path) -> None:
    old = {"answers": 1, "tokens": 10, "document_tokens": 100}
    (tmp_path / RECEIPTS_FILE).write_bytes(pack_record(old))
    assert ReceiptBook(tmp_path).total() == Receipts(1, 10, 100)


def test_every_tool_counts_for_its_client_session(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    (root / "guide.md").write_text("# Guide\n\nTag the last commit.\n", encoding="utf-8")
    tools = {tool.name: tool for tool in TOOLS}
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        one, other = Session(library), Session(library)
        results = [
            tools["search"].run(one, {"query": "last commit"}, QuietCall()),
            tools["read"].run(one, {"target": "guide.md"}, QuietCall()),
        ]
        tools["status"].run(other, {}, QuietCall())
        with pytest.raises(LookfarError) as refused:
            tools["read"].run(one, {"target": "nothing.md"}, QuietCall())
        [state] = library.statuses()
        assert state.receipts is not None
        second, first = state.receipts.sessions  # The latest is the last.
        assert (first.client, first.calls) == ("tester", 3), "a refused call is one, too"
        seen = [_text_of(_present(result, "text")) for result in results]
        seen.append(_text_of(_refuse(tools["read"], refused.value)))
        assert first.tokens == sum(map(tokens, seen)), "what a model reads, once"
        assert (second.client, second.calls) == ("tester", 1)
        said = tools["status"].run(other, {}, QuietCall()).text
        assert f"session tester since {first.started_at}: 3 calls, {first.tokens:,} tokens" in said
        assert f"3 calls, {first.tokens:,} tokens" in render.status(state)


def _text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def test_an_answer_says_what_it_costs_and_status_sums_up(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    text = "# Guide\n\nTo revert a release, tag the last commit.\n\n" + "Other words.\n\n" * 900
    (root / "guide.md").write_text(text, encoding="utf-8")
    tools = {tool.name: tool for tool in TOOLS}
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        result = tools["search"].run(Session(library), {"query": "revert a release"}, QuietCall())
        assert 0 < result.data["tokens"] < result.data["document_tokens"]
        assert result.data["document_tokens"] == len(text) // 4
        assert f"whole: {result.data['document_tokens']:,}" in result.text
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        [state] = library.statuses()
        assert state.receipts is not None
        assert replace(state.receipts, sessions=()) == Receipts(
            1, result.data["tokens"], len(text) // 4
        )
        said = tools["status"].run(Session(library), {}, QuietCall()).text
        assert f"1 answer with {result.data['tokens']} tokens" in said
        assert library.verify() == []
        library.delete()
        assert os.listdir(tmp_path / "index") == []

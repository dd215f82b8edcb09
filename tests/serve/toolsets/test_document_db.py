"""The toolset document-db, driven by a real client in both eras."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from lookfar import config
from lookfar.collections import ulids
from lookfar.errors import InvalidConfig
from lookfar.library import Library
from lookfar.library.members import Members
from lookfar.serve.daemon.services import Offer

TOOLSET = "document-db"
Ask = Callable[..., Any]
NAMES = {"create_database", "insert_document", "find_similar_documents", "delete_document"}
LONG = "".join(f"港には{at}隻の船があります。" for at in range(200))


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"embed.provider": "hash", "documents.dir": str(tmp_path / "db")}


def test_the_tools_say_what_they_do(listed: dict[str, types.Tool]) -> None:
    assert listed.keys() == NAMES
    told = {name: tool.annotations for name, tool in listed.items()}
    assert {name for name, each in told.items() if each and each.read_only_hint} == {
        "find_similar_documents"
    }
    assert {name for name, each in told.items() if each and each.destructive_hint} == {
        "delete_document"
    }
    assert listed["find_similar_documents"].input_schema["properties"]["top_k"]["default"] == 10
    assert listed["insert_document"].input_schema["required"] == ["text"]


def test_insert_find_delete(
    ask: Ask, refused: Ask, unmet: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The whole way of a document, in the default database."""
    made = ask("insert_document", text=LONG, metadata={"lang": "ja"})
    other = ask("insert_document", text="犬は走る。")
    assert ulids.is_ulid(made["doc_id"])
    assert made["chunk_count"] == 5
    assert other["chunk_count"] == 1
    assert (tmp_path / "db" / "vectors" / "CURRENT").is_file()
    assert (tmp_path / "db" / "vectors.db").resolve().is_relative_to(tmp_path / "db" / "vectors")
    hits = ask("find_similar_documents", text="港の船")
    assert {hit["doc_id"] for hit in hits} == {made["doc_id"], other["doc_id"]}
    ours = [hit for hit in hits if hit["doc_id"] == made["doc_id"]]
    assert len(ours) == 5
    assert all(hit["text"] in LONG for hit in ours)
    assert all(ulids.is_ulid(hit["chunk_id"]) for hit in hits)
    assert len({hit["chunk_id"] for hit in hits}) == 6
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores)
    gone = ask("delete_document", doc_id=made["doc_id"])
    assert gone == {"deleted_chunks": 5}
    assert [hit["doc_id"] for hit in ask("find_similar_documents", text="港の船")] == [
        other["doc_id"]
    ]
    assert refused("delete_document", doc_id=made["doc_id"])["code"] == "NOT_FOUND"
    assert unmet("document_db", "insert_document", made) == []
    assert unmet("document_db", "find_similar_documents", hits) == []
    assert unmet("document_db", "delete_document", gone) == []


def test_a_text_of_unknown_words_is_far_from_all(ask: Ask) -> None:
    """The double knows words and numbers, and this text has neither."""
    ask("insert_document", text="boats ⸙⸙⸙ in the harbour")
    assert [hit["score"] for hit in ask("find_similar_documents", text="⸙⸙⸙")] == [1.0]


def test_databases_are_made_and_kept_apart(
    ask: Ask, refused: Ask, unmet: Callable[..., list[str]], tmp_path: Path
) -> None:
    made = ask("create_database", db_name="notes-1_a")
    assert made == {"success": True, "db_path": str(tmp_path / "db" / "notes-1_a.db")}
    assert Path(made["db_path"]).is_file()
    assert ask("create_database", db_name="notes-1_a") == made
    assert unmet("document_db", "create_database", made) == []
    doc_id = ask("insert_document", text="boats", db_name="notes-1_a")["doc_id"]
    assert ask("find_similar_documents", text="boats") == []
    (hit,) = ask("find_similar_documents", text="boats", db_name="notes-1_a")
    assert hit["doc_id"] == doc_id
    assert refused("delete_document", doc_id=doc_id)["code"] == "NOT_FOUND"
    for tool in ("insert_document", "find_similar_documents"):
        assert refused(tool, text="x", db_name="nowhere")["code"] == "NOT_FOUND"
    assert refused("delete_document", doc_id=doc_id, db_name="nowhere")["code"] == "NOT_FOUND"
    assert not (tmp_path / "db" / "nowhere").exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_database", {}),
        ("create_database", {"db_name": ""}),
        ("create_database", {"db_name": "../up"}),
        ("create_database", {"db_name": "名前"}),
        ("insert_document", {"text": " "}),
        ("insert_document", {"text": "a" * 100_001}),
        ("insert_document", {"text": 3}),
        ("insert_document", {"text": "a", "metadata": [1]}),
        ("insert_document", {"text": "a", "db_name": "a/b"}),
        ("find_similar_documents", {"text": ""}),
        ("find_similar_documents", {"text": "a", "top_k": 0}),
        ("find_similar_documents", {"text": "a", "top_k": "3"}),
        ("find_similar_documents", {"text": "a", "filter": {"a": {"b": 1}}}),
        ("delete_document", {"doc_id": ""}),
        ("delete_document", {"doc_id": "x", "db_name": "a b"}),
        ("delete_document", {"id": "x"}),
    ],
)
def test_wrong_input_is_refused(
    refused: Ask, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    shape = refused(tool, **arguments)
    assert shape["code"] == "INVALID_REQUEST"
    assert shape["message"]
    assert shape["hint"]
    assert not (tmp_path / "db").exists()


def test_metadata_filters(ask: Ask) -> None:
    for year in (2023, 2024):
        ask("insert_document", text="the boats of a year", metadata={"year": year, "kind": "log"})
    hits = ask("find_similar_documents", text="boats", filter={"year": 2024, "kind": "log"})
    assert len(hits) == 1
    assert ask("find_similar_documents", text="boats", filter={"year": 1999}) == []


def test_the_number_of_results_is_a_setting(
    ask: Ask, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(12):
        ask("insert_document", text=f"boat {at}")
    assert len(ask("find_similar_documents", text="boat")) == 10
    assert len(ask("find_similar_documents", text="boat", top_k=11)) == 11
    changed = config.load(None, {"search.top_k": 3}).search
    monkeypatch.setattr(Members, "settings", _Changed(library.settings, changed))
    assert len(ask("find_similar_documents", text="boat")) == 3
    assert len(ask("find_similar_documents", text="boat", top_k=10)) == 10


class _Changed:
    """The settings of a library with other ones for searching."""

    def __init__(self, settings: config.Settings, search: config.SearchSettings) -> None:
        self._settings = replace(settings, search=search)

    def __get__(self, *_: object) -> config.Settings:
        return self._settings


def test_a_hybrid_order_is_a_setting(
    ask: Ask, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By vector alone, a text without known words is as far from one text as from another."""
    ask("insert_document", text="boats in the harbour")
    wanted = ask("insert_document", text="the sign ⸙⸙⸙ above the door")
    documents = replace(library.settings.documents, order="hybrid")
    changed = replace(library.settings, documents=documents)
    monkeypatch.setattr(Members, "settings", property(lambda _: changed))
    (hit,) = ask("find_similar_documents", text="⸙⸙⸙ sign", top_k=1)
    assert hit["doc_id"] == wanted["doc_id"]


class TestWithTheBundledModel:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> dict[str, Any]:
        return {"documents.dir": str(tmp_path / "db")}

    def test_japanese_questions_find_japanese_documents(self, ask: Ask) -> None:
        texts = {
            "犬は人間に最も身近な動物で、番犬や猟犬として飼われてきた。": "番犬として飼われる動物",
            "富士山は静岡県と山梨県に跨る日本の最高峰である。": "日本で一番高い山の最高峰",
            "Ｋｕｂｅｒｎｅｔｅｓの設定ファイルを書き換える手順。": "Kubernetesの設定を変えるには",
            "ﾃﾞｰﾀﾍﾞｰｽの接続を保つには、タイムアウトを延ばす。": "データベース接続のタイムアウト",
        }
        for text in texts:
            ask("insert_document", text=text)
        for text, question in texts.items():
            hits = ask("find_similar_documents", text=question, top_k=1)
            assert [hit["text"] for hit in hits] == [text]


def test_logs_report_how_long_a_find_took(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    ask("insert_document", text="boats")
    with caplog.at_level(logging.INFO, logger="lookfar"):
        ask("find_similar_documents", text="boats of mine")
    said = [record.getMessage() for record in caplog.records]
    assert any(each.startswith("find in vectors: 1 chunks in ") for each in said)
    assert not any("of mine" in each for each in said)


# --- who may write --------------------------------------------------------------------------------


def offered(**given: Any) -> set[str]:
    settings = config.load(None, {f"serve.{key}": value for key, value in given.items()})
    return {tool.name for tool in Offer.from_settings(settings).tools}


def test_asking_for_the_toolset_by_name_allows_it_to_write() -> None:
    assert offered(toolset=["document-db"]) == NAMES
    assert offered(toolset=["default", "document-db"]) > NAMES
    assert offered(toolset=["all", "document-db"]) > NAMES
    assert offered(toolset=["all"]) & NAMES == {"find_similar_documents"}
    assert offered(toolset=["all"], write=True) > NAMES
    assert not offered(toolset=["default"]) & NAMES


def test_a_project_cannot_enable_it_for_the_user(tmp_path: Path) -> None:
    """A file that came with a clone must not open the user's databases for writing."""
    file = tmp_path / config.PROJECT_FILE
    file.write_text('[serve]\ntoolset = ["document-db"]\n', encoding="utf-8")
    with pytest.raises(InvalidConfig, match="document-db"):
        config.load(tmp_path, environ={"HOME": str(tmp_path)})
    file.write_text('[documents]\ndir = "elsewhere"\n', encoding="utf-8")
    with pytest.raises(InvalidConfig, match=r"documents\.dir"):
        config.load(tmp_path, environ={"HOME": str(tmp_path)})

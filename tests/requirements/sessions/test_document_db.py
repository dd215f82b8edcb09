"""Sessions of Document DB's clients, as its document shows them.

The embedding service is a double whose vectors are known here, so that each distance can be
computed again.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from embedding_service import Service
from embedding_service import refused as refused_by_service
from requirements.sessions.client import Client, HttpClient, ToolError, serving

DIMENSIONS = 64
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
ROW = {"chunk_id", "doc_id", "text", "score"}
SENTENCE = "港には船が何隻も停泊しています。"


def vector_of(text: str) -> NDArray[np.float64]:
    """A vector that depends on all of the text, and is near to those of no others."""
    generator = np.random.default_rng(int.from_bytes(sha256(text.encode()).digest()[:8], "big"))
    return generator.standard_normal(DIMENSIONS)


def distance(one: str, other: str) -> float:
    left, right = vector_of(one), vector_of(other)
    return float(1 - left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


def embed(_: Service, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    rows = [
        {"index": at, "embedding": vector_of(text).tolist()}
        for at, text in enumerate(body["input"])
    ]
    return 200, {}, {"data": rows, "model": body["model"]}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    double = Service()
    double.always = embed
    yield double
    double.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the databases."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def db(
    service: Service,
    data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Client]:
    with serving(
        "http",
        "--toolset",
        "document-db",
        home=tmp_path_factory.mktemp("home"),
        LOOKFAR_EMBED_PROVIDER="remote",
        LOOKFAR_EMBED_MODEL="text-embedding-3-small",
        LOOKFAR_EMBED_BASE_URL=service.url,
        LOOKFAR_EMBED_RETRIES="0",
        LOOKFAR_DOCUMENTS_DIR=str(data),
    ) as client:
        yield client


@pytest.fixture
def name(db: Client) -> str:
    """A database of the test's own."""
    fresh = f"db_{random.randrange(10**12)}"
    assert db.call("create_database", db_name=fresh)["success"] is True
    return fresh


def code_of(error: ToolError) -> Any:
    """The code of a JSON-RPC error, which JSON-RPC wants to be a number beside the name."""
    assert error.protocol
    assert isinstance(error.shape["code"], int)
    assert error.shape["data"]["code"] in error.shape["message"]
    return error.shape["data"]["code"]


def refused(db: Client, tool: str, **arguments: Any) -> Any:
    with pytest.raises(ToolError) as caught:
        db.call(tool, **arguments)
    return code_of(caught.value)


# --- the tools ------------------------------------------------------------------------------------


def test_four_tools_with_their_parameters(db: Client) -> None:
    tools = db.tools()
    required = {name: set(tool["inputSchema"]["required"]) for name, tool in tools.items()}
    assert required == {
        "create_database": {"db_name"},
        "insert_document": {"text"},
        "find_similar_documents": {"text"},
        "delete_document": {"doc_id"},
    }
    types = {
        (name, parameter): schema["type"]
        for name, tool in tools.items()
        for parameter, schema in tool["inputSchema"]["properties"].items()
    }
    assert types["insert_document", "metadata"] == "object"
    assert types["find_similar_documents", "top_k"] == "integer"
    assert {types[name, "db_name"] for name in tools} == {"string"}
    found = tools["find_similar_documents"]["inputSchema"]["properties"]
    assert found["top_k"]["default"] == 10


def test_the_manifest_is_published_over_http(db: HttpClient) -> None:
    status, _, body = db.http("GET", "/tools")
    assert status == 200
    assert {tool["name"] for tool in json.loads(body)["tools"]} == db.tools().keys()


def test_a_database_is_a_file_with_its_name(db: Client, data: Path) -> None:
    made = db.call("create_database", db_name="Notes_2-a")
    assert made.keys() == {"success", "db_path"}
    assert made["success"] is True
    path = Path(made["db_path"])
    assert path.name == "Notes_2-a.db"
    assert path.parent == data
    assert path.is_file()
    db.call("insert_document", text="港の船", db_name="Notes_2-a")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    assert db.call("create_database", db_name="Notes_2-a") == made
    assert len(db.call("find_similar_documents", text="船", db_name="Notes_2-a")) == 1


def test_the_default_database_is_there_without_being_created(db: Client) -> None:
    made = db.call("insert_document", text="既定の文書です。", metadata={"lang": "ja"})
    assert made.keys() == {"doc_id", "chunk_count"}
    assert ULID.fullmatch(made["doc_id"])
    assert made["chunk_count"] == 1
    rows = db.call("find_similar_documents", text="既定の文書です。")
    assert rows[0]["doc_id"] == made["doc_id"]
    assert db.call("delete_document", doc_id=made["doc_id"]) == {"deleted_chunks": 1}


def test_insert_find_delete(db: Client, name: str) -> None:
    text = SENTENCE * 100
    made = db.call("insert_document", text=text, metadata={"page": 3}, db_name=name)
    rows = db.call("find_similar_documents", text="船", top_k=50, db_name=name)
    assert len(rows) == made["chunk_count"] > 1
    assert all(row.keys() == ROW for row in rows)
    assert all(ULID.fullmatch(row["chunk_id"]) for row in rows)
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    assert {row["doc_id"] for row in rows} == {made["doc_id"]}
    assert all(row["text"] in text for row in rows)
    assert db.call("delete_document", doc_id=made["doc_id"], db_name=name) == {
        "deleted_chunks": made["chunk_count"]
    }
    assert db.call("find_similar_documents", text="船", db_name=name) == []
    assert refused(db, "delete_document", doc_id=made["doc_id"], db_name=name) == "NOT_FOUND"


def test_chunks_have_700_characters_and_share_100(db: Client, name: str) -> None:
    text = "".join(f"{at}番目の文です。" for at in range(400))
    made = db.call("insert_document", text=text, db_name=name)
    rows = db.call("find_similar_documents", text="文", top_k=100, db_name=name)
    spans = sorted((text.index(row["text"]), len(row["text"])) for row in rows)
    assert len(spans) == made["chunk_count"]
    assert all(length <= 700 for _, length in spans)
    assert spans[0][0] == 0
    assert sum(spans[-1]) == len(text)
    shared = [start + length - following for (start, length), (following, _) in pairwise(spans)]
    assert all(0 < size <= 100 for size in shared)
    assert all(row["text"].endswith("。") for row in rows)


def test_a_text_has_100_000_characters_at_most(db: Client, name: str) -> None:
    longest = (SENTENCE * 7_000)[:100_000]
    assert db.call("insert_document", text=longest, db_name=name)["chunk_count"] > 142
    assert refused(db, "insert_document", text=f"{longest}。", db_name=name) == "INVALID_REQUEST"


def test_chunks_are_embedded_in_batches_of_100(db: Client, name: str, service: Service) -> None:
    before = len(service.asked)
    text = "".join(f"{name}の{at}行目の文です。" for at in range(9_000))[:99_999]
    made = db.call("insert_document", text=text, db_name=name)
    sizes = [len(body["input"]) for body in service.asked[before:]]
    assert sum(sizes) == made["chunk_count"]
    assert max(sizes) <= 100
    assert len(sizes) == -(-made["chunk_count"] // 100)


# --- finding --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(db: Client) -> tuple[str, list[str]]:
    """A database with more than a thousand chunks, and the texts of all of them."""
    db.call("create_database", db_name="library")
    chunks = 0
    for at in range(8):
        text = "".join(f"第{at}巻{line}行目の文です。" for line in range(9_000))[:99_000]
        chunks += db.call("insert_document", text=text, db_name="library")["chunk_count"]
    rows = db.call("find_similar_documents", text="船", top_k=5_000, db_name="library")
    assert len(rows) == chunks > 1_000
    return "library", [row["text"] for row in rows]


def test_the_nearest_are_found_all_of_them_and_in_order(
    db: Client, library: tuple[str, list[str]]
) -> None:
    """129 of 200 were missing when words were among what chose the candidates."""
    name, texts = library
    missing = 0
    for at in range(40):
        query = f"港{at % 7}の船はどこですか {at}"
        nearest = sorted(texts, key=lambda text: distance(query, text))[:5]
        rows = db.call("find_similar_documents", text=query, top_k=5, db_name=name)
        missing += len(set(nearest) - {row["text"] for row in rows})
        scores = [row["score"] for row in rows]
        assert scores == sorted(scores)
        for row in rows:
            assert row["score"] == pytest.approx(distance(query, row["text"]), abs=1e-3)
    assert missing == 0


def test_ten_are_found_unless_another_number_is_asked_for(db: Client, name: str) -> None:
    for at in range(12):
        db.call("insert_document", text=f"文{at}", db_name=name)
    assert len(db.call("find_similar_documents", text="文", db_name=name)) == 10
    for top_k in (1, 11, 12):
        rows = db.call("find_similar_documents", text="文", top_k=top_k, db_name=name)
        assert len(rows) == top_k
    assert len(db.call("find_similar_documents", text="文", top_k=5_000, db_name=name)) == 12


def test_a_thousand_are_found_where_there_are_as_many(
    db: Client, library: tuple[str, list[str]]
) -> None:
    """77 came when a result had to fit into a token budget."""
    arguments = {"text": "船", "top_k": 1000, "db_name": library[0]}
    result = db.result("find_similar_documents", arguments)
    assert len(result["content"]) == 1
    rows = json.loads(result["content"][0]["text"])
    assert len(rows) == 1_000
    assert [row["score"] for row in rows] == sorted(row["score"] for row in rows)


def test_a_query_has_no_syntax(db: Client, name: str) -> None:
    """Quotes and dashes belong to the text that is embedded."""
    texts = ['船 -港 "錨"', "船", "港 錨"]
    for text in texts:
        db.call("insert_document", text=text, db_name=name)
    rows = db.call("find_similar_documents", text='船 -港 "錨"', db_name=name)
    assert len(rows) == 3
    assert rows[0]["text"] == texts[0]
    assert rows[0]["score"] == pytest.approx(0, abs=2e-3)


def test_a_query_may_be_as_long_as_a_document(db: Client, name: str) -> None:
    db.call("insert_document", text="短い文", db_name=name)
    rows = db.call("find_similar_documents", text=SENTENCE * 3_000, db_name=name)
    assert [row["text"] for row in rows] == ["短い文"]


def test_databases_are_separate(db: Client, name: str) -> None:
    made = db.call("insert_document", text="別の文", db_name=name)
    assert all(
        row["doc_id"] != made["doc_id"]
        for row in db.call("find_similar_documents", text="別の文", top_k=1000)
    )
    assert refused(db, "delete_document", doc_id=made["doc_id"]) == "NOT_FOUND"


def test_parallel_inserts_are_all_stored(db: HttpClient, name: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        bodies = [{"text": f"並列{at}", "db_name": name} for at in range(24)]
        statuses = list(
            threads.map(lambda body: db.http("POST", "/tools/insert_document", body)[0], bodies)
        )
    assert set(statuses) == {200}
    rows = db.call("find_similar_documents", text="並列", top_k=100, db_name=name)
    assert {row["text"] for row in rows} == {f"並列{at}" for at in range(24)}


# --- errors ---------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("create_database", {"db_name": "../up"}, "INVALID_REQUEST"),
    ("create_database", {"db_name": "名前"}, "INVALID_REQUEST"),
    ("create_database", {"db_name": "a.db"}, "INVALID_REQUEST"),
    ("create_database", {}, "INVALID_REQUEST"),
    ("insert_document", {}, "INVALID_REQUEST"),
    ("insert_document", {"text": ""}, "INVALID_REQUEST"),
    ("insert_document", {"text": "a", "metadata": []}, "INVALID_REQUEST"),
    ("insert_document", {"text": "a", "db_name": "nowhere"}, "NOT_FOUND"),
    ("find_similar_documents", {"text": " "}, "INVALID_REQUEST"),
    ("find_similar_documents", {"text": "a", "top_k": 0}, "INVALID_REQUEST"),
    ("find_similar_documents", {"text": "a", "top_k": "3"}, "INVALID_REQUEST"),
    ("find_similar_documents", {"text": "a", "db_name": "nowhere"}, "NOT_FOUND"),
    ("delete_document", {"doc_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "NOT_FOUND"),
    ("delete_document", {"doc_id": "x", "db_name": "nowhere"}, "NOT_FOUND"),
]


@pytest.mark.parametrize(("tool", "arguments", "code"), WRONG)
def test_one_error_has_one_code_over_every_transport(
    db: HttpClient, tool: str, arguments: dict[str, Any], code: str
) -> None:
    assert refused(db, tool, **arguments) == code
    status, _, body = db.http("POST", f"/tools/{tool}", arguments)
    assert json.loads(body)["error"]["code"] == code
    assert status == {"NOT_FOUND": 404, "INVALID_REQUEST": 400}[code]


def test_a_service_that_fails_is_an_error(db: Client, name: str, service: Service) -> None:
    db.call("insert_document", text="保存した文", db_name=name)
    service.always = refused_by_service(500)
    try:
        query = f"新しい質問 {time.time_ns()}"  # Vectors of earlier queries are remembered.
        code = refused(db, "find_similar_documents", text=query, db_name=name)
        assert code == "MODEL_UNAVAILABLE"
        assert refused(db, "insert_document", text=query, db_name=name) == "MODEL_UNAVAILABLE"
    finally:
        service.always = embed
    rows = db.call("find_similar_documents", text=query, db_name=name)
    assert [row["text"] for row in rows] == ["保存した文"]

"""The remote provider against a real HTTP server that answers as the API does, with faults."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_service import Answer, Service, cut, good, refused
from lookfar.config import EmbedSettings, load
from lookfar.embed.hashed import HashedEmbedder
from lookfar.embed.providers import in_workers, open_embedder
from lookfar.embed.remote import RemoteEmbedder
from lookfar.errors import InvalidConfig, LookfarError, ModelUnavailable
from lookfar.library import Library
from waiting import DEADLINE

KEY = "sk-very-secret-1234567890"


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.close()


def settings(service: Service, **more: Any) -> EmbedSettings:
    return EmbedSettings("remote", "small", base_url=service.url, **more)


def opened(service: Service, **more: Any) -> tuple[RemoteEmbedder, list[float]]:
    slept: list[float] = []
    return RemoteEmbedder(settings(service, **more), "small", slept.append), slept


def test_vectors_come_in_the_order_of_the_texts_and_have_unit_length(service: Service) -> None:
    """The server answers in reverse; seen to fail without the sort by index."""
    embedder, _ = opened(service)
    texts = ["red apple", "", "blue sky", "green tree"]
    vectors = embedder.embed(texts)
    assert np.allclose(vectors, HashedEmbedder(8).embed(texts), atol=1e-6)
    assert service.asked[0]["input"] == ["red apple", "blue sky", "green tree"]
    assert vectors.dtype == np.float32
    assert embedder.dimensions == 8
    assert embedder.embed([]).shape[0] == 0


def test_at_most_a_hundred_texts_go_in_one_request(service: Service) -> None:
    embedder, _ = opened(service)
    assert embedder.embed([f"text {n}" for n in range(250)]).shape == (250, 8)
    assert [len(request["input"]) for request in service.asked] == [100, 100, 50]
    fewer, _ = opened(service, request_batch=7)
    service.asked.clear()
    fewer.embed([f"text {n}" for n in range(15)])
    assert [len(request["input"]) for request in service.asked] == [7, 7, 1]
    with pytest.raises(InvalidConfig, match="request_batch"):
        load(None, {"embed.request_batch": 101}, {})


def test_openai_small_with_1536_dimensions_and_its_key_from_the_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    chosen = load(
        None,
        {
            "embed.provider": "remote",
            "embed.model": "text-embedding-3-small",
            "embed.base_url": service.url,
            "embed.dimensions": 1536,
            "embed.key_env": "MY_KEY",
        },
        {},
    ).embed
    embedder = open_embedder(chosen)
    assert embedder is not None
    assert embedder.dimensions == 1536
    assert embedder.embed(["hello"]).shape == (1, 1536)
    assert service.asked[0]["model"] == "text-embedding-3-small"
    assert service.asked[0]["dimensions"] == 1536
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"
    assert embedder.name == "remote/text-embedding-3-small"
    assert not in_workers(chosen)


def test_no_key_is_sent_to_a_service_without_key_env(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPENAI_API_KEY is set on many machines, and other services must not see it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    opened(service)[0].embed(["hello"])
    assert "authorization" not in service.headers[0]
    with pytest.raises(ModelUnavailable, match="unencrypted"):
        RemoteEmbedder(EmbedSettings("remote", base_url="http://gpu:1/v1", key_env="K"), "m")
    named = RemoteEmbedder(EmbedSettings("remote", key_env="UNSET_VARIABLE"), "m")
    with pytest.raises(ModelUnavailable, match="UNSET_VARIABLE with the key for"):
        named.embed(["hello"])


@pytest.mark.parametrize("fault", [refused(429), refused(503), refused(500), cut])
def test_transient_errors_are_retried(service: Service, fault: Answer) -> None:
    embedder, slept = opened(service)
    service.faults = [fault, fault, fault]
    assert embedder.embed(["hello"]).any()
    assert len(service.asked) == 4
    assert len(slept) == 3
    assert all(low <= slept[n] <= high for n, (low, high) in enumerate(
        ((0.125, 0.25), (0.25, 0.5), (0.5, 1.0))))  # fmt: skip


def test_the_service_says_how_long_to_wait(service: Service) -> None:
    embedder, slept = opened(service)
    dated = "Wed, 01 Jan 2098 00:00:00 GMT"
    service.faults = [refused(429, **{"Retry-After": "7"}), refused(429, **{"Retry-After": dated})]
    assert embedder.embed(["hello"]).any()
    assert slept == [7.0, 60.0]


def test_it_gives_up_and_says_what_to_do(service: Service) -> None:
    embedder, slept = opened(service, retries=2)
    service.always = refused(503, "overloaded")
    with pytest.raises(ModelUnavailable, match="503: overloaded"):
        embedder.embed(["hello"])
    assert len(service.asked) == 3
    assert len(slept) == 2


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        (refused(401, "bad key"), "401: bad key", "Check the key in MY_KEY"),
        (refused(403), "403", "another model or key"),
        (refused(404, "no model"), "404: no model", "embed.base_url"),
        (lambda *_: (200, {}, b"<html>"), "answer is invalid", "running"),
        (lambda *_: (200, {}, {"data": []}), "0 vectors for 1 texts", "running"),
        (
            lambda *_: (200, {}, b'{"data":[{"index":0,"embedding":[NaN,1,1,1,1,1,1,1]}]}'),
            "no vectors, or NaN",
            "running",
        ),
        (
            lambda *_: (200, {}, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
            "2 dimensions instead of 8",
            "embed.dimensions",
        ),
        (lambda *_: (302, {"Location": "http://127.0.0.1:1/"}, b""), "302", "running"),
    ],
)
def test_permanent_errors_are_not_retried(
    service: Service, monkeypatch: pytest.MonkeyPatch, fault: Answer, message: str, hint: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    embedder, slept = opened(service, key_env="MY_KEY", dimensions=8)
    service.always = fault
    with pytest.raises(ModelUnavailable) as raised:
        embedder.embed(["hello"])
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert not slept
    assert len(service.asked) == 1


def test_a_silent_service_times_out(service: Service) -> None:
    over = threading.Event()

    def slow(*_: Any) -> tuple[int, dict[str, str], Any]:
        over.wait(DEADLINE)
        return 500, {}, {}

    embedder, _ = opened(service, timeout_seconds=0.2, retries=0)
    service.always = slow
    try:
        with pytest.raises(ModelUnavailable, match=r"no answer within 0\.2 seconds"):
            embedder.embed(["hello"])
    finally:
        over.set()


def test_a_text_that_is_too_long_is_cut_until_the_service_takes_it(service: Service) -> None:
    """And costs the others of its batch nothing."""

    def strict(service: Service, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if any(len(text) > 1000 for text in body["input"]):
            return 400, {}, {"error": {"message": "maximum context length"}}
        return good(service, body)

    service.always = strict
    embedder, _ = opened(service)
    vectors = embedder.embed(["short", "é" * 3000])
    assert vectors.any(axis=1).all()
    assert np.allclose(vectors[0], HashedEmbedder(8).embed(["short"])[0], atol=1e-6)
    limited, _ = opened(service, max_tokens=100)
    service.asked.clear()
    limited.embed(["x" * 5000])
    assert service.asked[0]["input"] == ["x" * 300]
    service.always = refused(400, "wrong in another way")
    with pytest.raises(ModelUnavailable, match="400: wrong in another way"):
        embedder.embed(["short"])


def test_the_key_is_in_no_error_log_name_or_fingerprint(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where the service repeats it. Seen to fail without the scrubbing."""
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    embedder, _ = opened(service, key_env="MY_KEY", retries=1)
    service.always = refused(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ModelUnavailable) as raised:
        embedder.embed(["hello"])
    service.always = lambda *_: (200, {}, {"data": {KEY: 1}})
    with pytest.raises(ModelUnavailable) as second:
        embedder.embed(["hello"])
    for error in (raised.value, second.value):
        assert KEY not in json.dumps(error.as_dict())
        assert KEY.encode() not in pickle.dumps(error)
    assert KEY not in embedder.fingerprint + embedder.name + caplog.text
    with pytest.raises(InvalidConfig) as refusal:
        load(None, {"embed.base_url": f"https://user:{KEY}@host/v1"}, {})
    assert KEY not in json.dumps(refusal.value.as_dict())


def test_the_fingerprint_needs_no_request_and_tells_models_apart(service: Service) -> None:
    one, _ = opened(service)
    prints = {
        one.fingerprint,
        opened(service, dimensions=4)[0].fingerprint,
        opened(service, passage_prefix="passage: ")[0].fingerprint,
        RemoteEmbedder(settings(service), "large").fingerprint,
        RemoteEmbedder(EmbedSettings("remote", base_url="http://127.0.0.1:1"), "small").fingerprint,
    }
    assert len(prints) == 5
    assert one.fingerprint == opened(service, retries=0, timeout_seconds=9.0)[0].fingerprint
    assert not service.asked


def test_questions_carry_their_own_prefix_and_are_asked_once(service: Service) -> None:
    embedder, _ = opened(service, query_prefix="query: ", passage_prefix="passage: ")
    first = embedder.embed_query("apples")
    assert np.array_equal(embedder.embed_query("apples"), first)
    embedder.embed(["apples"])
    assert [request["input"] for request in service.asked] == [
        ["query: apples"],
        ["passage: apples"],
    ]


def test_after_a_failure_questions_do_not_wait_for_the_service(service: Service) -> None:
    embedder, _ = opened(service)
    service.always = refused(503)
    for _ in range(3):
        with pytest.raises(ModelUnavailable):
            embedder.embed_query("apples")
    assert len(service.asked) == 2


# --- through the library ----------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\nrun the zebra\n")
    (folder / "notes.md").write_text("# Notes\n\ngiraffe facts\n")
    return folder


def library(root: Path, tmp_path: Path, service: Service, **more: Any) -> Library:
    chosen = {
        "embed.provider": "remote",
        "embed.model": "small",
        "embed.base_url": service.url,
        "embed.retries": 0,
        **{key.replace("_", ".", 1): value for key, value in more.items()},
    }
    return Library.open(root, index_dir=tmp_path / "index", settings=chosen)


def test_without_the_service_questions_use_keywords(
    root: Path, tmp_path: Path, service: Service
) -> None:
    with library(root, tmp_path, service) as opened_one:
        assert opened_one.search("zebra").hits[0].uri == "guide.md"
        service.always = refused(503, "away")
        (root / "new.md").write_text("walrus\n")
        answer = opened_one.search("zebra facts")
        assert {hit.uri for hit in answer.hits} == {"guide.md", "notes.md"}
        reasons = {request.reason: request.detail for request in answer.incomplete}
        assert "503: away" in reasons["no_model"]
        assert "Words only" in reasons["no_model"]
        assert "1 file changed" in reasons["stale"]
        assert opened_one.status().stale == ("new.md",)
        with pytest.raises(ModelUnavailable):
            opened_one.search("another zebra", mode="vector")
        with pytest.raises(ModelUnavailable):
            opened_one.index()
        assert opened_one.search("zebra", mode="keyword").hits
        service.always = None
        assert opened_one.index().added == 1
        assert opened_one.search("walrus", mode="keyword").hits[0].uri == "new.md"


def test_a_search_asks_with_the_prefix_of_questions(
    root: Path, tmp_path: Path, service: Service
) -> None:
    """Seen to fail when the plan embedded questions as passages."""
    prefixes = {"embed_query_prefix": "query: ", "embed_passage_prefix": "passage: "}
    with library(root, tmp_path, service, **prefixes) as opened_one:
        opened_one.index()
        passages = [text for request in service.asked for text in request["input"]]
        assert all(text.startswith("passage: ") for text in passages if text != "dimensions")
        opened_one.search("zebra", mode="vector")
    assert service.asked[-1]["input"] == ["query: zebra"]


def test_an_interrupted_build_continues(
    root: Path, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail without the checkpoint in ``Build._save_on_failure``."""
    monkeypatch.setattr("lookfar.index.build._BATCH_FILES", 1)
    for number in range(10):
        (root / f"{number}.md").write_text(f"# Page {number}\n\nword{number}\n")
    with library(root, tmp_path, service, embed_dimensions=8) as opened_one:
        service.faults = [good] * 6
        service.always = refused(503)
        with pytest.raises(ModelUnavailable):
            opened_one.index()
        assert not opened_one.indexed
        service.always, before = None, len(service.asked)
        assert opened_one.index().added + 6 >= 12
        assert len(service.asked) - before <= 6
        assert len(opened_one.search("word3").hits) >= 1


def test_nothing_indexed_and_no_service_is_an_error_that_says_so(
    root: Path, tmp_path: Path, service: Service
) -> None:
    service.always = refused(503)
    with library(root, tmp_path, service) as opened_one, pytest.raises(LookfarError) as raised:
        opened_one.search("zebra")
    assert raised.value.code == "MODEL_UNAVAILABLE"
    assert "127.0.0.1" in raised.value.hint


def test_the_key_is_in_no_file_of_the_index(
    root: Path, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with library(root, tmp_path, service, embed_key_env="MY_KEY") as opened_one:
        opened_one.index()
        content = (
            repr(opened_one.snapshots()) + repr(opened_one.status()) + repr(opened_one.settings)
        )
    assert KEY not in content
    files = [path for path in (tmp_path / "index").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_changed_vector_length_is_noticed(root: Path, tmp_path: Path, service: Service) -> None:
    with library(root, tmp_path, service) as opened_one:
        opened_one.index()
    service.dimensions = 16
    with library(root, tmp_path, service) as opened_one:
        with pytest.raises(ModelUnavailable, match="16 dimensions") as raised:
            opened_one.search("zebra")
        assert "--rebuild" in raised.value.hint
        opened_one.index(rebuild=True)
        assert opened_one.search("zebra").hits

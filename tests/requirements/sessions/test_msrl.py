"""Sessions of MSRL's clients: search and index, as its document shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from requirements.sessions.client import Client, ToolError, serving
from requirements.sessions.msrl_vault import (
    LARGE_URI,
    put,
    read_sections,
    slice_utf16,
    to_characters,
    write_vault,
)
from waiting import wait_for

UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@dataclass
class Session:
    """A client of a vault that was served before it had an index."""

    client: Client
    folder: Path
    notes: dict[str, str]
    first_query: Any
    """The answer to a query right after the start, or its error."""
    states: list[dict[str, Any]]
    """What the status said until the vault was ready."""

    def query(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.client.call("msrl.query", query=query, **arguments)[
            "results"
        ]
        return results

    def uris(self, query: str, **arguments: Any) -> set[str]:
        return {result["doc_uri"] for result in self.query(query, top_k=50, **arguments)}

    def wait_until_ready(self) -> None:
        wait_for(lambda: bool(self.client.call("msrl.status")["state"] == "ready"))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("vault")
    notes, home = write_vault(folder), tmp_path_factory.mktemp("home")
    with serving("stdio", folder, "--toolset", "msrl", home=home) as client:
        try:
            first: Any = client.call("msrl.query", query="zebra")
        except ToolError as error:
            first = error.shape
        session = Session(client, folder, notes, first, [])

        def is_ready() -> bool:
            session.states.append(client.call("msrl.status"))
            return bool(session.states[-1]["state"] == "ready")

        wait_for(is_ready)
        yield session


# --- start-up and status ------------------------------------------------------------------------


def test_the_vault_is_indexed_and_watched_from_the_start(vault: Session) -> None:
    *building, ready = vault.states
    assert all(status["state"] == "building" for status in building)
    assert all(bool(s["snapshotId"]) == bool(s["snapshotTimestamp"]) for s in vault.states)
    assert all(
        status["watcher"] == {"enabled": True, "debounceMs": 2000} for status in vault.states
    )
    assert set(ready) == {"state", "snapshotId", "snapshotTimestamp", "stats", "watcher"}
    assert re.fullmatch(UTC, ready["snapshotTimestamp"])
    assert ready["snapshotId"].startswith(ready["snapshotTimestamp"].replace(":", ""))
    stats = ready["stats"]
    assert stats["docs"] == len(vault.notes)
    assert stats["leaves"] > stats["docs"]
    assert stats["nodes"] > stats["docs"]
    assert stats["shards"] == 1


def test_a_query_before_the_first_snapshot_is_not_indexed(vault: Session) -> None:
    """The error does not send the client to msrl.reindex, which answers INDEX_BUSY meanwhile."""
    if "code" not in vault.first_query:
        assert vault.first_query["results"]  # The build was faster than the client.
        return
    assert vault.first_query["code"] == "NOT_INDEXED"
    assert "details" not in vault.first_query
    assert "msrl.reindex" not in vault.first_query["message"]


def test_only_markdown_that_is_not_hidden_is_indexed(vault: Session) -> None:
    """Whatever its size, whether git ignores it or not, and in a folder of any name."""
    for uri in vault.notes:
        assert vault.query("marker elephant", filters={"doc_uris": [uri]}), uri
    assert vault.uris("marker") <= vault.notes.keys()
    assert vault.client.call("msrl.status")["stats"]["docs"] == len(vault.notes)


# --- msrl.query ---------------------------------------------------------------------------------


def test_a_result_has_the_documented_fields(vault: Session) -> None:
    answer = vault.client.call("msrl.query", query="zebra stripes")
    assert set(answer) == {"results", "meta"}
    assert set(answer["meta"]) == {"took_ms"}
    assert answer["meta"]["took_ms"] > 0
    first = answer["results"][0]
    assert {name: type(value) for name, value in first.items()} == {
        "doc_uri": str,
        "heading_path": str,
        "start_char": int,
        "end_char": int,
        "excerpt": str,
        "excerpt_truncated": bool,
        "score": float,
        "vector_score": float,
        "bm25_score": float,
    }
    assert first["doc_uri"] == "notes/animals.md"
    assert first["heading_path"] == "Animals → Zebras"
    assert first["excerpt"].startswith("A zebra 🦓 has stripes.\n")
    assert not first["excerpt_truncated"]


QUERIES = ("zebra", "okapi marker", "crossed the river", "narwhal", "elephant", "same")


@pytest.mark.parametrize("query", QUERIES)
def test_no_result_leaves_its_section(vault: Session, query: str) -> None:
    """An agent passes the heading path on to msrl.doc.replace_section."""
    results = vault.query(query, top_k=50, max_excerpt_chars=20_000)
    assert results
    for result in results:
        text = vault.notes[result["doc_uri"]]
        start = to_characters(text, result["start_char"])
        end = to_characters(text, result["end_char"])
        own = [(first, last) for path, first, last in read_sections(text)
               if path == result["heading_path"]]  # fmt: skip
        assert any(first <= start < end <= last for first, last in own), result


@pytest.mark.parametrize("query", QUERIES)
def test_offsets_are_those_of_javascript(vault: Session, query: str) -> None:
    """``text.slice(start_char, end_char)`` is the excerpt, also after characters above U+FFFF."""
    for result in vault.query(query, top_k=50, max_excerpt_chars=20_000):
        text = vault.notes[result["doc_uri"]]
        span = slice_utf16(text, result["start_char"], result["end_char"])
        assert span.startswith(result["excerpt"])
        assert result["excerpt_truncated"] == (span != result["excerpt"])


def test_a_cut_excerpt_keeps_its_span(vault: Session) -> None:
    wide = vault.query("elephant waterhole", max_excerpt_chars=20_000)
    narrow = vault.query("elephant waterhole", max_excerpt_chars=200)
    assert narrow[0]["doc_uri"] == LARGE_URI
    assert narrow[0]["excerpt_truncated"]
    assert len(narrow[0]["excerpt"]) == 200
    span = ("doc_uri", "start_char", "end_char")
    assert [[hit[key] for key in span] for hit in narrow] == [
        [hit[key] for key in span] for hit in wide
    ]
    assert len(vault.query("elephant waterhole")[0]["excerpt"]) == 4000


def test_a_leaf_has_the_documented_size(vault: Session) -> None:
    """Between 600 and 1,200 tokens of four characters; a fence stays whole."""
    (leaf,) = vault.query("elephant", top_k=1, filters={"doc_uris": [LARGE_URI]})
    assert 4 * 600 <= leaf["end_char"] - leaf["start_char"] <= 4 * 1200
    text = vault.notes[LARGE_URI]
    assert text[: leaf["end_char"]].endswith("\n\n")
    # It repeats the end of the chunk before it, from the beginning of a word.
    assert text[leaf["start_char"] - 1].isspace()
    (code,) = vault.query("flag value", top_k=1, max_excerpt_chars=20_000,
                          filters={"doc_uris": ["fenced.md"]})  # fmt: skip
    assert code["excerpt"].count("run --flag value\n") == 400
    assert code["excerpt"].count("```") == 2


def test_scores_are_weighted_and_ordered(vault: Session) -> None:
    results = vault.query("okapi river", top_k=50)
    for result in results:
        assert 0 <= result["vector_score"] <= 1
        assert 0 <= result["bm25_score"] <= 1
        weighted = 0.75 * result["vector_score"] + 0.25 * result["bm25_score"]
        assert result["score"] == pytest.approx(weighted, abs=1e-5)
    keys = [(-result["score"], result["doc_uri"], result["start_char"]) for result in results]
    assert keys == sorted(keys)


def test_the_best_words_score_1_and_others_rank_by_meaning(vault: Session) -> None:
    results = vault.query("carriage returns", top_k=50)
    assert results[0]["doc_uri"] == "crlf.md"
    assert results[0]["bm25_score"] == 1
    without_words = [result for result in results if not result["bm25_score"]]
    assert all(result["score"] == pytest.approx(0.75 * result["vector_score"], abs=1e-5)
               for result in without_words)  # fmt: skip


def test_eight_results_unless_more_are_asked_for(vault: Session) -> None:
    assert len(vault.query("zebra", filters={"doc_uri_prefix": "gen/"})) <= 8
    many = vault.query("zebra", top_k=50, filters={"doc_uri_prefix": "gen/"})
    assert 8 < len(many) <= 50
    assert len(vault.query("zebra", top_k=1)) == 1


def test_filters_narrow_before_the_best_are_chosen(vault: Session) -> None:
    assert vault.uris("marker", filters={"doc_uri_prefix": "notes/"}) == {
        uri for uri in vault.notes if uri.startswith("notes/")
    }
    wanted = ["README.md", "tagged.md"]
    assert vault.uris("zebra", filters={"doc_uris": wanted}) <= set(wanted)
    by_heading = vault.query("okapi narwhal", filters={"heading_path_contains": "A > B Comp"})
    assert {result["heading_path"] for result in by_heading} == {
        "Animals → A > B Comparison",
        "Animals → A > B Comparison → Deep",
    }
    nested = {"heading_path_contains": "A > B Comparison → Deep"}
    assert {result["heading_path"] for result in vault.query("narwhal", filters=nested)} == {
        "Animals → A > B Comparison → Deep"
    }
    (written,) = vault.query("snores", filters={"heading_path_contains": "The `tapir`"})
    assert written["heading_path"] == "Animals → The `tapir` **bold**"
    both = {"doc_uri_prefix": "gen/", "heading_path_contains": "Zebras"}
    assert vault.query("zebra", filters=both) == []
    assert vault.query("zebra", filters={}) == vault.query("zebra")


def test_debug_options(vault: Session) -> None:
    debug = {"include_scores": False, "include_shards_searched": True}
    answer = vault.client.call("msrl.query", query="zebra", debug=debug)
    assert answer["meta"]["shards_searched"] == [0]
    assert not {"score", "vector_score", "bm25_score"} & set(answer["results"][0])
    assert vault.query("zebra", debug={}) == vault.query("zebra")


def test_the_same_query_has_the_same_results(vault: Session) -> None:
    assert vault.query("okapi zebra", top_k=50) == vault.query("okapi zebra", top_k=50)


def test_sections_with_one_title_stay_apart(vault: Session) -> None:
    results = vault.query("marker", filters={"doc_uris": ["notes/twins.md"]})
    assert {result["excerpt"].strip() for result in results} == {"First marker.", "Second marker."}
    assert {result["heading_path"] for result in results} == {"Twins → Same"}


def test_a_word_that_is_only_a_tag_is_found_as_it_is(vault: Session) -> None:
    """Not as the similar word that other notes have."""
    answer = vault.client.call("msrl.query", query="okapo", top_k=1)
    assert answer["results"][0]["doc_uri"] == "tagged.md"
    assert "note" not in answer["meta"]


def test_a_corrected_word_is_reported(vault: Session) -> None:
    answer = vault.client.call("msrl.query", query="narwhol")
    assert "narwhal" in answer["meta"]["note"]


WRONG: list[tuple[str, dict[str, Any], str, Any]] = [
    ("msrl.query", {}, "query", None),
    ("msrl.query", {"query": ""}, "query", ""),
    ("msrl.query", {"query": 3}, "query", 3),
    ("msrl.query", {"query": "x", "top_k": 0}, "top_k", 0),
    ("msrl.query", {"query": "x", "top_k": 51}, "top_k", 51),
    ("msrl.query", {"query": "x", "top_k": [1, 2]}, "top_k", [1, 2]),
    ("msrl.query", {"query": "x", "max_excerpt_chars": 199}, "max_excerpt_chars", 199),
    ("msrl.query", {"query": "x", "max_excerpt_chars": 20_001}, "max_excerpt_chars", 20_001),
    ("msrl.query", {"query": "x", "filters": ["a.md"]}, "filters", ["a.md"]),
    ("msrl.query", {"query": "x", "filters": {"doc_uris": []}}, "filters.doc_uris", []),
    ("msrl.query", {"query": "x", "filters": {"uris": ["a"]}}, "filters.uris", ["a"]),
    ("msrl.query", {"query": "x", "debug": {"include_scores": 1}}, "debug.include_scores", 1),
    ("msrl.query", {"query": "x", "limit": 3}, "limit", 3),
    ("msrl.status", {"verbose": True}, "verbose", True),
    ("msrl.reindex", {"scope": "some"}, "scope", "some"),
    ("msrl.reindex", {"scope": "prefix"}, "doc_uri_prefix", ""),
    ("msrl.reindex", {"wait": "yes"}, "wait", "yes"),
    ("msrl.watch", {}, "enabled", None),
    ("msrl.watch", {"enabled": True, "debounce_ms": 249}, "debounce_ms", 249),
    ("msrl.watch", {"enabled": True, "debounce_ms": 30_001}, "debounce_ms", 30_001),
]


def test_wrong_arguments_name_field_value_and_reason(vault: Session) -> None:
    for tool, arguments, field, value in WRONG:
        error = vault.client.refused(tool, **arguments)
        assert error["code"] == "INVALID_ARGUMENT"
        assert error["message"]
        details = error["details"]
        assert (details["field"], details["value"]) == (field, value)
        assert details["reason"]
    scope = vault.client.refused("msrl.reindex", scope="some")["details"]
    assert scope["validOptions"] == ["changed", "full", "prefix"]
    too_many = vault.client.refused("msrl.query", query="x", filters={"doc_uris": ["a"] * 201})
    assert too_many["details"]["field"] == "filters.doc_uris"
    longest = {"top_k": 50, "max_excerpt_chars": 20_000, "filters": {"doc_uris": ["a.md"] * 200}}
    assert vault.query("x", **longest) == []
    assert vault.query("zebra", max_excerpt_chars=200)


# --- msrl.reindex and msrl.watch ----------------------------------------------------------------


def test_watching_off_leaves_changes_to_reindex(vault: Session) -> None:
    """Each scope brings in what it names, also 'changed' with a prefix."""
    client = vault.client
    assert client.call("msrl.watch", enabled=False) == {"enabled": False, "debounceMs": 2000}
    assert client.call("msrl.status")["watcher"] == {"enabled": False, "debounceMs": 2000}
    try:
        put(vault.folder, "one/new.md", "# New\n\nAn aardvark digs.\n")
        put(vault.folder, "two/new.md", "# New\n\nAn aardvark sleeps.\n")
        assert "one/new.md" not in vault.uris("aardvark")
        done = client.call("msrl.reindex", doc_uri_prefix="one/", wait=True)
        assert set(done) == {"completed", "snapshotId", "stats"}
        assert done["completed"] is True
        assert set(done["stats"]) == {"docsAdded", "docsModified", "docsDeleted", "buildTimeMs"}
        assert done["stats"]["docsAdded"] == 1
        assert done["snapshotId"] == client.call("msrl.status")["snapshotId"]
        assert {"one/new.md", "two/new.md"} & vault.uris("aardvark") == {"one/new.md"}
        done = client.call("msrl.reindex", scope="prefix", doc_uri_prefix="two/", wait=True)
        assert done["stats"]["docsAdded"] == 1
        assert {"one/new.md", "two/new.md"} <= vault.uris("aardvark")
        put(vault.folder, "one/new.md", "# New\n\nAn aardvark swims.\n")
        (vault.folder / "two/new.md").unlink()
        stats = client.call("msrl.reindex", scope="changed", wait=True)["stats"]
        assert (stats["docsModified"], stats["docsDeleted"]) == (1, 1)
        assert "swims" in vault.query("aardvark")[0]["excerpt"]
        assert "two/new.md" not in vault.uris("aardvark")
    finally:
        client.call("msrl.watch", enabled=True)


def test_one_build_at_a_time(vault: Session) -> None:
    """Meanwhile queries are answered, and a second build is refused or waits."""
    client = vault.client
    # The watcher would build by itself what an earlier test has changed.
    client.call("msrl.watch", enabled=False)

    def is_refused_during_a_build() -> bool:
        """Return False if a build ended before the next request of a busy client arrived."""
        vault.wait_until_ready()
        assert client.call("msrl.reindex", scope="full") == {"completed": False}
        second = client.result("msrl.reindex", {"scope": "full"})
        shape = json.loads(second["content"][0]["text"])
        if not second.get("isError"):
            assert shape == {"completed": False}
            return False
        assert shape["code"] == "INDEX_BUSY"
        assert re.fullmatch(UTC, shape["details"]["currentBuildStartedAt"])
        status = client.call("msrl.status")
        assert status["snapshotId"]
        return bool(status["state"] == "building")

    try:
        wait_for(is_refused_during_a_build)
        assert vault.query("zebra stripes")[0]["doc_uri"] == "notes/animals.md"
        done = client.call("msrl.reindex", wait=True)
        assert done["completed"]
        assert done["stats"]["docsAdded"] == 0
    finally:
        client.call("msrl.watch", enabled=True)


def test_a_changed_note_is_indexed_by_itself(vault: Session) -> None:
    client = vault.client
    assert client.call("msrl.watch", enabled=True, debounce_ms=250) == {
        "enabled": True,
        "debounceMs": 250,
    }
    assert client.call("msrl.status")["watcher"]["debounceMs"] == 250
    vault.wait_until_ready()
    before = client.call("msrl.status")
    put(vault.folder, "watched.md", "# Watched\n\nA pangolin curls up.\n")
    wait_for(lambda: bool(client.call("msrl.status")["snapshotId"] != before["snapshotId"]))
    vault.wait_until_ready()
    assert vault.query("pangolin")[0]["doc_uri"] == "watched.md"
    assert client.call("msrl.status")["stats"]["docs"] == before["stats"]["docs"] + 1
    assert client.call("msrl.watch", enabled=True)["debounceMs"] == 2000

"""The toolset msrl, driven by a real client."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from lookfar.index import build
from lookfar.index.worker import Preparer
from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets.msrl import TOOLS
from lookfar.sources.folder.walk import walk as walk_folder
from lookfar.store.ground.files import WriterLock
from waiting import DEADLINE, wait_for

TOOLSET = "msrl"
SETTINGS = {"preset": "msrl", "chunk.merge_small": False}
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

FILLER = " ".join(f"filler{number}" for number in range(60))
NOTES = f"""# Animals

The zoo of words.

## Zebras

A zebra has stripes. {FILLER}

## A > B Comparison

An okapi compares with a zebra. {FILLER}

### Deep

Far below lives a narwhal. {FILLER}
"""
VAULT = {
    "notes/animals.md": NOTES,
    "notes/plain.md": "Nothing but the plain words about a quokka, under no heading.\n",
    "other/zebra.md": "# Other\n\nThe zebra again.\n",
}


@pytest.fixture
def vault(put: Put, ask: Ask) -> None:
    """Some notes, indexed."""
    put(VAULT)
    assert ask("msrl.reindex", wait=True)["completed"]


class Gate:
    """Holds every build where it looks at the disk, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.passes = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    held, real = Gate(), walk_folder

    def walk(*arguments: Any, **more: Any) -> Any:
        held.passes += 1
        held.reached.set()
        assert held.opened.wait(DEADLINE)
        return real(*arguments, **more)

    monkeypatch.setattr(build, "walk", walk)
    yield held
    held.opened.set()


def uris(shape: dict[str, Any]) -> list[str]:
    return [each["doc_uri"] for each in shape["results"]]


def details(shape: dict[str, Any], code: str) -> dict[str, Any]:
    assert shape["code"] == code
    assert set(shape) <= {"code", "message", "details"}
    assert shape["message"]
    found: dict[str, Any] = shape.get("details", {})
    return found


# --- all tools ----------------------------------------------------------------------------------


def test_tools_are_listed_with_dots_and_hints(listed: dict[str, types.Tool]) -> None:
    """A client learns the names with dots, and which tools only read."""
    reading = ["msrl.query", "msrl.status", "msrl.doc.validate"]
    assert list(listed) == [*reading[:2], "msrl.reindex", "msrl.watch", *reading[2:]]
    for name, tool in listed.items():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (name in reading)
        assert tool.annotations.idempotent_hint is True
        assert len(tool.description or "") < 300


def test_underscores_stand_in_for_dots_by_option(session: Session) -> None:
    """Clients that refuse dots can call the same tools."""

    async def go() -> tuple[list[str], types.CallToolResult]:
        async with Client(make_server(session, TOOLS, dots=False), mode="2026-07-28") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("msrl_status", {})
            assert isinstance(result, types.CallToolResult)
            return names, result

    names, result = anyio.run(go)
    assert names[:4] == ["msrl_query", "msrl_status", "msrl_reindex", "msrl_watch"]
    assert names[4:] == ["msrl_doc_validate"]
    assert not result.is_error


@pytest.mark.parametrize("tool", ["msrl.query", "msrl.status", "msrl.reindex", "msrl.watch"])
def test_unknown_arguments_are_refused(refused: Ask, tool: str) -> None:
    """A misspelt argument must not be ignored."""
    required: dict[str, dict[str, Any]] = {
        "msrl.query": {"query": "x"},
        "msrl.watch": {"enabled": False},
    }
    told = details(refused(tool, **required.get(tool, {}), topk=1), "INVALID_ARGUMENT")
    assert told == {"field": "topk", "value": 1, "reason": "unknown argument"}


@pytest.mark.parametrize("inside", ["filters", "debug"])
def test_unknown_arguments_inside_are_refused(refused: Ask, inside: str) -> None:
    """At any depth."""
    told = details(refused("msrl.query", query="x", **{inside: {"what": 1}}), "INVALID_ARGUMENT")
    assert told["field"] == f"{inside}.what"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("msrl.query", {}, "query"),
        ("msrl.query", {"query": ""}, "query"),
        ("msrl.query", {"query": " \n"}, "query"),
        ("msrl.query", {"query": 3}, "query"),
        ("msrl.query", {"query": "x", "top_k": 0}, "top_k"),
        ("msrl.query", {"query": "x", "top_k": 51}, "top_k"),
        ("msrl.query", {"query": "x", "top_k": "8"}, "top_k"),
        ("msrl.query", {"query": "x", "top_k": True}, "top_k"),
        ("msrl.query", {"query": "x", "max_excerpt_chars": 199}, "max_excerpt_chars"),
        ("msrl.query", {"query": "x", "max_excerpt_chars": 20_001}, "max_excerpt_chars"),
        ("msrl.query", {"query": "x", "filters": []}, "filters"),
        ("msrl.query", {"query": "x", "filters": {"doc_uris": []}}, "filters.doc_uris"),
        ("msrl.query", {"query": "x", "filters": {"doc_uris": ["a"] * 201}}, "filters.doc_uris"),
        ("msrl.query", {"query": "x", "filters": {"doc_uris": [1]}}, "filters.doc_uris.0"),
        ("msrl.query", {"query": "x", "debug": {"include_scores": 1}}, "debug.include_scores"),
        ("msrl.reindex", {"scope": "some"}, "scope"),
        ("msrl.reindex", {"wait": "yes"}, "wait"),
        ("msrl.reindex", {"scope": "prefix"}, "doc_uri_prefix"),
        ("msrl.watch", {}, "enabled"),
        ("msrl.watch", {"enabled": "true"}, "enabled"),
        ("msrl.watch", {"enabled": True, "debounce_ms": 249}, "debounce_ms"),
        ("msrl.watch", {"enabled": True, "debounce_ms": 30_001}, "debounce_ms"),
    ],
)
def test_wrong_arguments_name_the_field(
    refused: Ask, tool: str, arguments: dict[str, Any], field: str
) -> None:
    """Every limit holds, and says which argument broke it, with its value and the reason."""
    told = details(refused(tool, **arguments), "INVALID_ARGUMENT")
    assert told["field"] == field
    assert told["reason"]
    assert "value" in told


@pytest.mark.usefixtures("vault")
def test_what_the_library_refuses_names_the_field_too(refused: Ask) -> None:
    """A question of a size that no schema forbids."""
    told = details(refused("msrl.query", query="x" * 50_001), "INVALID_ARGUMENT")
    assert told["field"] == "query"
    assert "50,001" in told["reason"]
    assert len(told["value"]) <= 200


def test_a_wrong_choice_lists_the_valid_ones(refused: Ask) -> None:
    """An agent that guesses wrong learns the right values."""
    told = details(refused("msrl.reindex", scope="some"), "INVALID_ARGUMENT")
    assert told["validOptions"] == ["changed", "full", "prefix"]
    assert told["value"] == "some"


@pytest.mark.usefixtures("vault")
def test_the_limits_themselves_are_accepted(ask: Ask) -> None:
    """Off by one would refuse what the spec allows."""
    accepted: list[dict[str, Any]] = [
        {"top_k": 1}, {"top_k": 50}, {"max_excerpt_chars": 200}, {"max_excerpt_chars": 20_000},
        {"filters": {"doc_uris": ["notes/animals.md"] * 200}}, {"filters": {}}, {"debug": {}},
    ]  # fmt: skip
    for arguments in accepted:
        assert ask("msrl.query", query="zebra", **arguments)["results"]
    for pause in (250, 30_000):
        assert ask("msrl.watch", enabled=False, debounce_ms=pause)["debounceMs"] == pause


def test_several_folders_are_refused_plainly(
    tmp_path: Path, settings: dict[str, Any], call_in: Any
) -> None:
    """Paths of this toolset cannot tell folders apart, so it must not guess one."""
    roots = (tmp_path / "a", tmp_path / "b")
    for root in roots:
        root.mkdir()
    with Library.open(*roots, index_dir=tmp_path / "index", settings=settings) as library:
        shape, failed = call_in(library, "msrl.status")
    assert failed
    assert "INVALID_ARGUMENT" in str(shape)
    assert "a, b" in str(shape)


# --- msrl.query ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("vault")
def test_a_query_gives_every_promised_field(ask: Ask, unmet: Unmet) -> None:
    """A client of MSRL finds all that it knows, and nothing misspelt."""
    plain = ask("msrl.query", query="zebra")
    told = ask("msrl.query", query="zebra", debug={"include_shards_searched": True})
    assert unmet("msrl", "msrl.query", plain, told) == []
    assert told["meta"]["shards_searched"] == [0]
    assert "shards_searched" not in plain["meta"]
    assert plain["results"]
    assert {key for each in plain["results"] for key in each} == {
        "doc_uri", "heading_path", "start_char", "end_char", "excerpt", "excerpt_truncated",
        "score", "vector_score", "bm25_score",
    }  # fmt: skip


@pytest.mark.usefixtures("vault")
def test_an_excerpt_is_the_text_between_its_offsets(ask: Ask, docs: Path) -> None:
    """Whoever edits by these offsets hits what was shown."""
    found = ask("msrl.query", query="zebra narwhal quokka", top_k=50)["results"]
    assert {each["doc_uri"] for each in found} == set(VAULT)
    for each in found:
        text = (docs / each["doc_uri"]).read_text(encoding="utf-8")
        assert each["excerpt"] == text[each["start_char"] : each["end_char"]]
        assert each["excerpt_truncated"] is False


@pytest.mark.usefixtures("vault")
def test_a_cut_excerpt_keeps_its_span(ask: Ask, docs: Path) -> None:
    """Cutting is for the reader; the citation stays whole."""
    whole = ask("msrl.query", query="narwhal", top_k=1)["results"][0]
    cut = ask("msrl.query", query="narwhal", top_k=1, max_excerpt_chars=200)["results"][0]
    text = (docs / whole["doc_uri"]).read_text(encoding="utf-8")
    assert whole["end_char"] - whole["start_char"] > 200
    assert (cut["start_char"], cut["end_char"]) == (whole["start_char"], whole["end_char"])
    assert cut["excerpt"] == text[whole["start_char"] : whole["start_char"] + 200]
    assert cut["excerpt_truncated"] is True


@pytest.mark.usefixtures("vault")
def test_headings_are_joined_by_arrows(ask: Ask) -> None:
    """A '>' in a title is no separator here, neither shown nor asked for."""
    found = ask("msrl.query", query="narwhal", top_k=1)["results"][0]
    assert found["heading_path"] == "Animals → A > B Comparison → Deep"
    bare = ask("msrl.query", query="quokka", top_k=1)["results"][0]
    assert bare["heading_path"] == ""
    within = ask("msrl.query", query="zebra", filters={"heading_path_contains": "A > B"})
    assert within["results"]
    assert all("A > B" in each["heading_path"] for each in within["results"])


@pytest.mark.usefixtures("vault")
def test_a_score_is_its_shares(ask: Ask, library: Library) -> None:
    """Clients add the scores up: 0.75 of meaning and 0.25 of words, all from 0 to 1."""
    found = ask("msrl.query", query="zebra stripes", top_k=50)["results"]
    assert len(found) > 1
    for each in found:
        mixed = 0.75 * each["vector_score"] + 0.25 * each["bm25_score"]
        assert each["score"] == pytest.approx(mixed, abs=5e-6)
        assert all(0 <= each[key] <= 1 for key in ("score", "vector_score", "bm25_score"))
    assert max(each["bm25_score"] for each in found) == 1.0
    other = next(each for each in found if each["doc_uri"] == "other/zebra.md")
    near = library.search("zebra stripes", mode="vector", top_k=50, explain=True).hits
    told = next(each for each in near if each.uri == "other/zebra.md").explanation
    cosine = next(each.note for each in told if each.stage == "vector")
    assert cosine == f"cosine {other['vector_score']:.3f}"
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)


def test_ties_go_by_document_and_by_start(ask: Ask, put: Put) -> None:
    """Equal scores must not change places from call to call."""
    section = "## Same\n\nA wombat digs.\n\n"
    between = f"## Between\n\n{FILLER}\n\n"
    text = f"# T\n\n{section}{between}{section}"
    put({"b.md": text, "a.md": text})
    ask("msrl.reindex", wait=True)
    found = ask("msrl.query", query="wombat digs", top_k=4)["results"]
    assert len({each["score"] for each in found}) == 1
    places = [(each["doc_uri"], each["start_char"]) for each in found]
    assert len(places) == 4
    assert places == sorted(places)


def test_the_exact_phrase_ranks_above_its_words_scattered(ask: Ask, put: Put) -> None:
    """Of equal words and so of equal BM25; seen to fail without the pairs of words."""
    put(
        {
            "z.md": "kubernetes pod networking and more\n",
            "a.md": "networking pod and more kubernetes\n",
        }
    )
    ask("msrl.reindex", wait=True)
    found = ask("msrl.query", query="kubernetes pod networking")["results"]
    assert [each["doc_uri"] for each in found] == ["z.md", "a.md"]
    assert found[0]["bm25_score"] > found[1]["bm25_score"] > 0


def test_without_a_word_in_common_the_words_count_nothing(ask: Ask, put: Put) -> None:
    """A passage that only meaning found is there, with a keyword score of 0."""
    put({"a.md": "The zebra stands there.\n", "b.md": "The barn stands there.\n"})
    ask("msrl.reindex", wait=True)
    found = {each["doc_uri"]: each for each in ask("msrl.query", query="the zebra")["results"]}
    assert found["b.md"]["bm25_score"] == 0
    assert found["b.md"]["vector_score"] > 0
    assert found["b.md"]["score"] == pytest.approx(0.75 * found["b.md"]["vector_score"], abs=5e-6)


def test_what_only_words_found_has_its_true_vector_score(
    docs: Path, put: Put, tmp_path: Path, settings: dict[str, Any], ask: Ask, call_in: Any
) -> None:
    """A passage outside the nearest ones is compared all the same, not given 0."""
    put({f"n{number}.md": "The barn there stands.\n" for number in range(3)})
    put({"words.md": "Zebra grazes.\n"})
    ask("msrl.reindex", wait=True)
    wanted: dict[str, Any] = {"query": "the zebra there", "top_k": 1}
    (wide,) = ask("msrl.query", **wanted)["results"]
    # One candidate of each lane: the nearest is another document.
    narrow = {**settings, "search.candidates": 1, "search.top_k": 1}
    with Library.open(docs, index_dir=tmp_path / "index", settings=narrow) as library:
        nearest = library.search("the zebra there", mode="vector", top_k=1).hits[0]
        (shown,) = call_in(library, "msrl.query", **wanted)[0]["results"]
    assert nearest.uri != "words.md"
    assert shown["doc_uri"] == wide["doc_uri"] == "words.md"
    assert shown["vector_score"] == wide["vector_score"] > 0


def test_only_parts_of_one_section_become_one_span(ask: Ask, put: Put, docs: Path) -> None:
    """Parts of a long section are shown once; sections stay apart, also with equal titles."""
    words = "A wombat digs deep into the soil of the plain. " * 40
    long = "# T\n\n## One\n\n" + f"{words}\n\n" * 4
    twins = "# T\n\n## One\n\nA wombat digs.\n\n## One\n\nA wombat digs deep.\n"
    put({"long.md": long, "twins.md": twins})
    ask("msrl.reindex", wait=True)
    assert ask("msrl.status")["stats"]["leaves"] > 3
    (joined,) = ask("msrl.query", query="wombat", filters={"doc_uris": ["long.md"]})["results"]
    assert long[joined["start_char"] : joined["end_char"]].count("wombat") == 160
    assert joined["heading_path"] == "T → One"
    apart = ask("msrl.query", query="wombat", filters={"doc_uris": ["twins.md"]})["results"]
    assert {result["excerpt"].strip() for result in apart} == {
        "A wombat digs.",
        "A wombat digs deep.",
    }


@pytest.mark.usefixtures("vault")
def test_filters_narrow_and_hold_together(ask: Ask) -> None:
    """Nothing from outside a filter, and something from inside."""

    def asked(**filters: Any) -> dict[str, Any]:
        return ask("msrl.query", query="zebra", filters=filters)

    assert set(uris(asked(doc_uri_prefix="notes/"))) <= {"notes/animals.md", "notes/plain.md"}
    assert uris(asked(doc_uri_prefix="notes/ani")) != []
    assert set(uris(asked(doc_uris=["other/zebra.md"]))) == {"other/zebra.md"}
    assert uris(asked(doc_uri_prefix="notes/", doc_uris=["other/zebra.md"])) == []
    under = asked(heading_path_contains="animals → zeb")["results"]
    assert [each["heading_path"] for each in under] == ["Animals → Zebras"]
    assert asked(heading_path_contains="no such heading")["results"] == []


@pytest.mark.usefixtures("vault")
def test_scores_can_be_omitted(ask: Ask) -> None:
    """All three of them, and nothing else."""
    (first, *_) = ask("msrl.query", query="zebra", debug={"include_scores": False})["results"]
    assert not {"score", "vector_score", "bm25_score"} & set(first)
    assert first["excerpt"]


@pytest.mark.usefixtures("vault")
def test_the_same_question_has_the_same_answer(ask: Ask) -> None:
    """No clock, no chance, no order of reading in it."""
    first, second = (ask("msrl.query", query="zebra okapi", top_k=50) for _ in range(2))
    assert first["results"] == second["results"]


def test_an_empty_vault_is_not_an_error(ask: Ask, unmet: Unmet) -> None:
    """Indexed and empty: nothing is found, all counts are 0, and that is fine."""
    done = ask("msrl.reindex", wait=True)
    assert done["completed"] is True
    found = ask("msrl.query", query="zebra", debug={"include_shards_searched": True})
    assert found["results"] == []
    assert found["meta"]["shards_searched"] == []
    state = ask("msrl.status")
    assert state["state"] == "ready"
    assert state["stats"] == {"docs": 0, "nodes": 0, "leaves": 0, "shards": 0}
    assert unmet("msrl", "msrl.reindex", done) == []


def test_a_query_before_any_index_starts_one_and_is_refused(
    ask: Ask, refused: Ask, put: Put, gate: Gate
) -> None:
    """A first question does not wait for a build of unknown length; the next ones are answered."""
    put(VAULT)
    shape = refused("msrl.query", query="zebra")
    assert shape["code"] == "NOT_INDEXED"
    assert "details" not in shape
    assert "msrl.status" in shape["message"]
    assert "msrl.reindex" not in shape["message"]
    gate.opened.set()
    wait_for(lambda: ask("msrl.status")["state"] == "ready")
    assert ask("msrl.query", query="zebra")["results"]


def test_a_large_answer_is_cut_to_the_budget(ask: Ask, put: Put, call: Any) -> None:
    """Fifty long excerpts must not fill a model's window."""
    long = " ".join(f"zebra ünïcode{number}" for number in range(200))
    put({f"d{number:02}.md": f"# D\n\n{long}\n" for number in range(50)})
    ask("msrl.reindex", wait=True)
    wanted = {"query": "zebra", "top_k": 50, "max_excerpt_chars": 20_000}
    shown = call("msrl.query", wanted).content[0].text
    assert 15_000 < tokens(shown) <= 20_000
    found = ask("msrl.query", **wanted)["results"]
    assert len(found) == 50
    assert all(each["excerpt_truncated"] and each["excerpt"] for each in found)


# --- msrl.status --------------------------------------------------------------------------------


def test_status_without_an_index_is_never_ready(ask: Ask, put: Put, gate: Gate) -> None:
    """A client that waits for "ready" must not ask a vault that has no index."""
    put(VAULT)
    state = ask("msrl.status")
    gate.opened.set()
    assert state == {
        "state": "building",
        "snapshotId": None,
        "snapshotTimestamp": None,
        "stats": {"docs": 0, "nodes": 0, "leaves": 0, "shards": 0},
        "watcher": {"enabled": True, "debounceMs": 2000},
    }


@pytest.mark.usefixtures("vault")
def test_status_tells_what_is_indexed(ask: Ask) -> None:
    """Counts and the snapshot are those of the index that answers."""
    state = ask("msrl.status")
    assert state["state"] == "ready"
    assert "error" not in state
    assert state["stats"]["docs"] == 3
    assert state["stats"]["nodes"] >= 6
    assert state["stats"]["leaves"] >= 6
    assert state["stats"]["shards"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", state["snapshotTimestamp"])
    stamp = state["snapshotTimestamp"].replace(":", "")
    assert state["snapshotId"] == f"{stamp}-g1"


def test_a_failed_build_shows_in_the_status(ask: Ask, put: Put, docs: Path, unmet: Unmet) -> None:
    """Nobody waits for a background build, so the status has to say how it ended."""
    put(VAULT)
    ask("msrl.reindex", wait=True)
    whole = ask("msrl.status")
    shutil.rmtree(docs)
    ask("msrl.reindex")
    wait_for(lambda: ask("msrl.status")["state"] == "error")
    state = ask("msrl.status")
    assert "gone" in state["error"]
    assert state["snapshotId"] == whole["snapshotId"]
    assert unmet("msrl", "msrl.status", state) == []
    docs.mkdir()
    put(VAULT)
    ask("msrl.reindex", wait=True)
    assert ask("msrl.status")["state"] == "ready"


# --- msrl.reindex -------------------------------------------------------------------------------


@pytest.mark.usefixtures("vault")
def test_the_scopes_do_what_they_say(ask: Ask, put: Put, docs: Path, unmet: Unmet) -> None:
    """changed takes in changes, prefix only its own, full reads all again."""
    assert ask("msrl.reindex", wait=True)["stats"]["docsAdded"] == 0
    put({"notes/plain.md": "Rewritten.\n", "notes/new.md": "New.\n", "other/new.md": "New too.\n"})
    (docs / "notes" / "animals.md").unlink()
    (docs / "other" / "zebra.md").unlink()
    below = ask("msrl.reindex", scope="prefix", doc_uri_prefix="notes/", wait=True)
    assert unmet("msrl", "msrl.reindex", below) == []
    counts = {key: below["stats"][key] for key in ("docsAdded", "docsModified", "docsDeleted")}
    assert counts == {"docsAdded": 1, "docsModified": 1, "docsDeleted": 1}
    assert ask("msrl.status")["snapshotId"] == below["snapshotId"]
    rest = ask("msrl.reindex", wait=True)["stats"]
    assert (rest["docsAdded"], rest["docsModified"], rest["docsDeleted"]) == (1, 0, 1)
    full = ask("msrl.reindex", scope="full", wait=True)
    assert full["stats"]["docsAdded"] == 3
    assert full["snapshotId"] != below["snapshotId"]


def test_without_wait_the_answer_comes_at_once(
    ask: Ask, refused: Ask, put: Put, gate: Gate
) -> None:
    """The build goes on behind it: seen in the status, and busy for whoever wants another."""
    put(VAULT)
    assert ask("msrl.reindex") == {"completed": False}
    assert gate.reached.wait(DEADLINE)
    assert ask("msrl.status")["state"] == "building"
    assert refused("msrl.query", query="zebra")["code"] == "NOT_INDEXED"
    told = details(refused("msrl.reindex"), "INDEX_BUSY")
    assert set(told) == {"currentBuildStartedAt"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["currentBuildStartedAt"])
    gate.opened.set()
    wait_for(lambda: ask("msrl.status")["state"] == "ready")
    assert ask("msrl.status")["stats"]["docs"] == 3
    assert ask("msrl.query", query="zebra")["results"]


@pytest.mark.usefixtures("vault")
def test_the_old_snapshot_answers_during_a_build(ask: Ask, put: Put, gate: Gate) -> None:
    """Searching goes on while everything is read again."""
    put({"late.md": "A quagga came late.\n"})
    ask("msrl.reindex", scope="full")
    assert gate.reached.wait(DEADLINE)
    assert ask("msrl.status")["state"] == "building"
    assert ask("msrl.status")["stats"]["docs"] == 3
    gate.opened.set()
    wait_for(lambda: ask("msrl.status")["stats"]["docs"] == 4)


def test_with_wait_a_build_comes_after_the_one_under_way(ask: Ask, put: Put, gate: Gate) -> None:
    """It must not join a build that may have looked at the disk too early."""
    put({"first.md": "One.\n"})
    ask("msrl.reindex")
    assert gate.reached.wait(DEADLINE)
    done: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: done.append(ask("msrl.reindex", wait=True)))
    waiting.start()
    time.sleep(0.2)
    assert not done
    gate.opened.set()
    waiting.join(DEADLINE)
    assert done[0]["completed"] is True
    assert gate.passes == 2


@pytest.mark.usefixtures("vault")
def test_another_process_that_writes_means_busy(refused: Ask, ask: Ask, library: Library) -> None:
    """Known at once, and not only in the log of a thread that failed."""
    lock = WriterLock(library.index_dir / "writer.lock")
    lock.acquire()
    with lock:
        told = details(refused("msrl.reindex"), "INDEX_BUSY")
        assert set(told) == {"currentBuildStartedAt"}
        assert ask("msrl.status")["state"] == "ready"
    assert ask("msrl.reindex") == {"completed": False}


def test_closing_ends_a_build_in_the_background(
    put: Put, docs: Path, tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that leaves does not wait for a long build, nor leave its thread behind."""
    put({f"{number}.md": f"Text {number}.\n" for number in range(200)})
    monkeypatch.setattr(build, "_BATCH_FILES", 1)
    began, real = threading.Event(), Preparer.run

    def slowly(self: Any, *arguments: Any) -> Any:
        began.set()
        time.sleep(0.05)
        return real(self, *arguments)

    monkeypatch.setattr(Preparer, "run", slowly)
    library = Library.open(docs, index_dir=tmp_path / "index", settings=settings)
    library.folder().start_index()
    assert began.wait(DEADLINE)
    library.close()
    assert not [each for each in threading.enumerate() if each.name == "lookfar-index"]
    assert not library.indexed


# --- msrl.watch ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("vault")
def test_watching_is_switched_and_shown(ask: Ask, put: Put, library: Library, unmet: Unmet) -> None:
    """The status shows it at once, and what changes is indexed without being asked."""
    assert ask("msrl.status")["watcher"]["enabled"] is False
    on = ask("msrl.watch", enabled=True, debounce_ms=250)
    assert on == {"enabled": True, "debounceMs": 250}
    assert unmet("msrl", "msrl.watch", on) == []
    assert ask("msrl.status")["watcher"] == on
    put({"late.md": "A quagga came late.\n"})
    assert library.drain(DEADLINE)
    assert ask("msrl.status")["stats"]["docs"] == 4
    assert ask("msrl.watch", enabled=True) == {"enabled": True, "debounceMs": 2000}
    off = ask("msrl.watch", enabled=False)
    assert off == {"enabled": False, "debounceMs": 2000}
    assert ask("msrl.status")["watcher"] == off
    assert library.watching() is None


@pytest.mark.usefixtures("vault")
def test_watching_is_not_kept_over_a_restart(
    ask: Ask, docs: Path, tmp_path: Path, settings: dict[str, Any], call_in: Any
) -> None:
    """Another start goes by the settings, not by what a session once wanted."""
    ask("msrl.watch", enabled=False, debounce_ms=777)
    with Library.open(docs, index_dir=tmp_path / "index", settings=settings) as library:
        assert call_in(library, "msrl.status")[0]["watcher"]["debounceMs"] == 2000


# --- refusals -----------------------------------------------------------------------------------


def test_the_server_survives_a_missing_model(tmp_path: Path, docs: Path, put: Put) -> None:
    """Tools are listed and the status answers; only what needs the model is refused."""
    put(VAULT)
    missing = tmp_path / "no-model"
    missing.mkdir()
    broken = {"embed.provider": "static", "embed.model": str(missing)}

    async def go(library: Library) -> tuple[int, Any, Any]:
        async with Client(make_server(Session(library), TOOLS), mode="2026-07-28") as client:
            count = len((await client.list_tools()).tools)
            state = await client.call_tool("msrl.status", {})
            build = await client.call_tool("msrl.reindex", {"wait": True})
            return count, state, build

    with Library.open(docs, index_dir=tmp_path / "index", settings=broken) as library:
        count, state, build = anyio.run(go, library)
    assert count == 5
    assert not state.is_error
    assert build.is_error
    told = details(json.loads(build.content[0].text), "MODEL_DOWNLOAD_FAILED")
    assert set(told) == {"url", "reason"}
    assert str(missing) in told["url"]


def test_an_index_folder_that_cannot_be_made(refused: Ask, put: Put, tmp_path: Path) -> None:
    """What the disk refuses is told with its path, what was tried, and the system's word."""
    put(VAULT)
    (tmp_path / "index").write_text("in the way", encoding="utf-8")
    told = details(refused("msrl.reindex", wait=True), "IO_ERROR")
    assert set(told) == {"path", "operation", "errno"}
    assert str(tmp_path / "index") in told["path"]
    assert told["operation"] == "write"
    assert told["errno"] in ("ENOTDIR", "EEXIST")


def test_a_full_disk(refused: Ask, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the lowest level comes out by its name."""
    put(VAULT)

    def full(*paths: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(paths[-1]))

    monkeypatch.setattr(os, "replace", full)
    told = details(refused("msrl.reindex", wait=True), "IO_ERROR")
    assert told["errno"] == "ENOSPC"
    assert told["operation"] == "write"
    assert told["path"]


def test_a_vault_that_is_gone(refused: Ask, docs: Path) -> None:
    """Not an empty vault, and never an index emptied because of it."""
    docs.rmdir()
    told = details(refused("msrl.reindex", wait=True), "IO_ERROR")
    assert told == {"path": str(docs), "operation": "read", "errno": "ENOENT"}


@pytest.mark.usefixtures("vault")
def test_an_irreparable_index_is_reported(
    docs: Path, tmp_path: Path, settings: dict[str, Any], library: Library, call_in: Any
) -> None:
    """Which snapshot, why, and what is missing."""
    folder = library.index_dir
    (folder / "epoch-1" / "catalogue.db").unlink()
    (folder / "writer.lock").unlink()
    (folder / "writer.lock").mkdir()  # No lock, no writing, no mending.
    with Library.open(docs, index_dir=tmp_path / "index", settings=settings) as opened:
        shape, failed = call_in(opened, "msrl.query", query="zebra")
    assert failed
    told = details(shape, "INDEX_CORRUPT")
    assert told["snapshotId"] == "epoch-1"
    assert told["missingFiles"] == ["catalogue.db"]
    assert told["reason"]


@pytest.mark.usefixtures("vault")
def test_the_unforeseen_becomes_internal(refused: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside is an error result, not a protocol error and not a trace."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Library, "search", broken)
    shape = refused("msrl.query", query="zebra")
    assert details(shape, "INTERNAL") == {"originalError": "RuntimeError: boom"}
    assert "Traceback" not in str(shape)


@pytest.mark.usefixtures("vault")
def test_a_quoted_query_ranks_and_does_not_filter(ask: Ask) -> None:
    plain = ask("msrl.query", query="zebra stripes")["results"]
    quoted = ask("msrl.query", query='"zebra stripes"')["results"]
    assert [row["doc_uri"] for row in quoted] == [row["doc_uri"] for row in plain]
    assert len(ask("msrl.query", query="okapi -zebra")["results"]) == len(
        ask("msrl.query", query="okapi zebra")["results"]
    )

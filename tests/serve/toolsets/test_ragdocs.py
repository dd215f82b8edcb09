"""The toolset ragdocs, driven by a real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from lookfar.embed.hashed import HashedEmbedder
from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.tools.tool import REACHABLE, Session
from lookfar.serve.toolsets.ragdocs import _render
from lookfar.store.sqlite.snapshot import EpochSnapshot

TOOLSET = "ragdocs"
SETTINGS = {"chunk.merge_small": False}
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

TEXT = {
    "query_documents": "query",
    "query_documents_compressed": "query",
    "search_with_hypothesis": "hypothesis",
}
FILES = {
    "notes/api.md": "# Setup\n\nFirst things.\n\n## Auth\n\nTokens of zebras are signed here.\n",
    "plain.md": "Plain words about narwhals and the sea.\n",
    **{f"more/p{n}.md": f"# Page {n}\n\nA zebra, number {n}, of kind k{n}.\n" for n in range(30)},
}


def files(shape: dict[str, Any]) -> list[str]:
    return [each["file_path"] for each in shape["results"]]


def scores(shape: dict[str, Any]) -> list[float]:
    return [each["score"] for each in shape["results"]]


# --- all tools ----------------------------------------------------------------------------------


def test_the_client_is_told_of_tools_that_only_read(listed: dict[str, types.Tool]) -> None:
    remembered = ("read_memory", "search_memories", "search_linked_memories", "get_memory_stats")
    reading = []
    for name, tool in listed.items():
        assert tool.description is not None
        assert 20 < len(tool.description) < 300
        assert tool.annotations is not None
        if tool.annotations.read_only_hint:
            reading.append(name)
        assert tool.input_schema["additionalProperties"] is False
    assert reading == [*TEXT, "search_git_history", *remembered]


@pytest.mark.parametrize("tool", TEXT)
def test_every_promised_field_is_there(ask: Ask, unmet: Unmet, tool: str) -> None:
    found = ask(tool, **{TEXT[tool]: "tokens of zebras are signed"})
    assert unmet("ragdocs", tool, found) == []
    stats = {"compression_stats"} if tool == "query_documents_compressed" else set()
    assert set(found) == {"results"} | stats
    first = found["results"][0]
    assert first == {
        "chunk_id": first["chunk_id"],
        "doc_id": "api",
        "score": first["score"],
        "header_path": "Setup > Auth",
        "file_path": "notes/api.md",
        "content": "## Auth\n\nTokens of zebras are signed here.\n",
    }
    assert len(bytes.fromhex(first["chunk_id"])) == 16


@pytest.mark.parametrize("tool", TEXT)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "TEXT"),
        ({"TEXT": ""}, "TEXT"),
        ({"TEXT": " \n "}, "TEXT"),
        ({"TEXT": 3}, "TEXT"),
        ({"TEXT": None}, "TEXT"),
        ({"TEXT": "x", "top_n": 0}, "top_n"),
        ({"TEXT": "x", "top_n": 101}, "top_n"),
        ({"TEXT": "x", "top_n": "5"}, "top_n"),
        ({"TEXT": "x", "top_n": 1.5}, "top_n"),
        ({"TEXT": "x", "top_n": None}, "top_n"),
    ],
)
def test_wrong_arguments_are_refused(
    refused: Ask, tool: str, arguments: dict[str, Any], named: str
) -> None:
    """Protects against guessing: nothing is clamped, converted or taken for not given."""
    given = {name.replace("TEXT", TEXT[tool]): value for name, value in arguments.items()}
    shape = refused(tool, **given)
    assert set(shape) == {"code", "message", "hint", "developer_message", "details"}
    assert shape["code"] == "INVALID_ARGUMENT"
    assert shape["details"]["field"] == named.replace("TEXT", TEXT[tool])
    assert shape["developer_message"].startswith("INVALID_ARGUMENT: ")


@pytest.mark.parametrize("tool", TEXT)
def test_an_unknown_argument_is_refused_with_the_one_meant(refused: Ask, tool: str) -> None:
    shape = refused(tool, **{TEXT[tool]: "x", "topn": 3})
    assert shape["code"] == "INVALID_ARGUMENT"
    assert "'top_n'" in shape["hint"]


@pytest.mark.parametrize("tool", TEXT)
def test_five_hits_unless_asked_for_others(ask: Ask, put: Put, tool: str) -> None:
    put({f"all/q{n}.md": f"# Q{n}\n\nzebra w{n} x{n} y{n} z{n}\n" for n in range(29)})
    loose = {"min_score": 0.0} if tool == "query_documents_compressed" else {}
    assert len(ask(tool, **{TEXT[tool]: "zebra"}, **loose)["results"]) == 5
    assert len(ask(tool, **{TEXT[tool]: "zebra"}, top_n=1, **loose)["results"]) == 1
    many = ask(tool, **{TEXT[tool]: "zebra"}, top_n=100, **loose)
    assert 20 < len(many["results"]) <= 100


@pytest.mark.parametrize("tool", TEXT)
def test_scores_fall(ask: Ask, tool: str) -> None:
    found = scores(ask(tool, **{TEXT[tool]: "zebra signed tokens"}, top_n=20))
    assert found == sorted(found, reverse=True)
    assert all(0 <= score <= 1 for score in found)
    assert len(set(found)) > 1


@pytest.mark.parametrize("tool", TEXT)
def test_text_without_a_heading_has_no_header_path(ask: Ask, tool: str) -> None:
    first = ask(tool, **{TEXT[tool]: "plain words about narwhals"})["results"][0]
    assert (first["file_path"], first["header_path"]) == ("plain.md", "")


@pytest.mark.parametrize("tool", TEXT)
def test_an_edit_is_found_by_the_next_call(ask: Ask, put: Put, docs: Path, tool: str) -> None:
    """Protects freshness: changed, new and removed files show without anyone indexing."""
    ask(tool, **{TEXT[tool]: "narwhals"})
    put({"plain.md": "Now about aardvarks only.\n", "new.md": "# New\n\ncapybaras graze\n"})
    (docs / "notes/api.md").unlink()
    edited = ask(tool, **{TEXT[tool]: "about aardvarks only"})["results"][0]
    assert (edited["file_path"], edited["content"]) == ("plain.md", "Now about aardvarks only.\n")
    assert ask(tool, **{TEXT[tool]: "capybaras graze"})["results"][0]["doc_id"] == "new"
    assert "notes/api.md" not in files(ask(tool, **{TEXT[tool]: "tokens signed"}, top_n=100))


@pytest.mark.parametrize("tool", TEXT)
def test_an_empty_folder_gives_nothing(ask: Ask, docs: Path, tool: str) -> None:
    for path in list(docs.rglob("*.md")):
        path.unlink()
    found = ask(tool, **{TEXT[tool]: "zebra"})
    assert found["results"] == []
    assert "No files were indexed" in found["note"]


def test_parts_of_a_long_section_have_its_headings(ask: Ask, put: Put) -> None:
    text = "\n\n".join(f"The quagga grazes {n}. " + "word " * 60 for n in range(20))
    put({"long.md": f"# Long\n\n## Section\n\n{text}\n"})
    found = ask("query_documents", query="quagga", top_n=3)["results"]
    assert {each["header_path"] for each in found} == {"Long > Section"}
    assert len({each["chunk_id"] for each in found}) == len(found) > 1
    assert all(each["content"] in (f"# Long\n\n## Section\n\n{text}\n") for each in found)


# --- names --------------------------------------------------------------------------------------


def test_files_of_one_name_have_different_ids(ask: Ask, put: Put) -> None:
    put({
        "a/same.md": "# One\n\nquokka first\n",
        "b/same.md": "# Two\n\nquokka second\n",
        "same.md": "# Three\n\nquokka third\n",
        "b/same.txt": "quokka fourth\n",
        "alone.md": "# Four\n\nquokka fifth\n",
    })  # fmt: skip
    found = ask("query_documents", query="quokka", top_n=5)
    assert {each["file_path"]: each["doc_id"] for each in found["results"]} == {
        "a/same.md": "a/same",
        "b/same.md": "b/same.md",
        "b/same.txt": "b/same.txt",
        "same.md": "same",
        "alone.md": "alone",
    }


def test_a_name_follows_what_else_there_is(ask: Ask, put: Put, docs: Path) -> None:
    """Protects what is remembered of names against a folder that changes."""
    assert ask("query_documents", query="signed")["results"][0]["doc_id"] == "api"
    put({"other/api.md": "# Other\n\nwords\n"})
    assert ask("query_documents", query="signed")["results"][0]["doc_id"] == "notes/api"
    (docs / "other/api.md").unlink()
    assert ask("query_documents", query="signed")["results"][0]["doc_id"] == "api"


class TestSeveralFolders:
    @pytest.fixture
    def roots(self, docs: Path, put: Put, tmp_path: Path) -> tuple[Path, ...]:
        second = tmp_path / "second"
        put({"plain.md": "Plain words about narwhals.\n", "own.md": "# Own\n\nyak\n"}, second)
        return (docs, second)

    def test_paths_begin_with_their_collection(self, ask: Ask) -> None:
        found = ask("query_documents", query="narwhals", top_n=2)["results"]
        assert {(each["file_path"], each["doc_id"]) for each in found} == {
            ("docs/plain.md", "docs/plain"),
            ("second/plain.md", "second/plain"),
        }
        own = ask("search_with_hypothesis", hypothesis="yak")["results"][0]
        assert (own["file_path"], own["doc_id"]) == ("second/own.md", "own")


# --- compressed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"min_score": -0.01}, "min_score"),
        ({"min_score": 1.01}, "min_score"),
        ({"min_score": "0.3"}, "min_score"),
        ({"min_score": None}, "min_score"),
        ({"similarity_threshold": 0.49}, "similarity_threshold"),
        ({"similarity_threshold": 1.01}, "similarity_threshold"),
        ({"similarity_threshold": True}, "similarity_threshold"),
        ({"similarity_threshold": []}, "similarity_threshold"),
    ],
)
def test_thresholds_out_of_range_are_refused(
    refused: Ask, arguments: dict[str, Any], named: str
) -> None:
    shape = refused("query_documents_compressed", query="zebra", **arguments)
    assert shape["code"] == "INVALID_ARGUMENT"
    assert shape["details"]["field"] == named


def test_hits_below_the_least_score_go_and_one_at_it_stays(ask: Ask) -> None:
    def asked(**more: float) -> dict[str, Any]:
        return ask(
            "query_documents_compressed",
            query="zebra signed tokens",
            top_n=100,
            similarity_threshold=1.0,
            **more,
        )

    everything = asked(min_score=0.0)
    least = scores(everything)[-1]
    assert least < 0.3
    assert everything["compression_stats"]["original_count"] == len(scores(everything))
    limit = scores(everything)[2]
    strong = asked(min_score=limit)
    assert scores(strong) == [score for score in scores(everything) if score >= limit]
    assert scores(strong)[-1] == limit
    assert strong["compression_stats"]["after_threshold"] == len(scores(strong))
    by_default = asked()
    assert scores(by_default) == [score for score in scores(everything) if score >= 0.3]
    assert scores(asked(min_score=1.0)) == []


def test_what_is_not_there_scores_visibly_lower(ask: Ask) -> None:
    found = scores(ask("query_documents", query="zebra signed tokens"))
    absent = scores(ask("query_documents", query="chocolate cake recipe"))
    assert found[0] > 2 * max(absent, default=0.0)


def test_the_better_of_two_similar_hits_stays(ask: Ask, put: Put) -> None:
    words = " ".join(f"okapis graze at place{n} and at brook{n}" for n in range(12))
    put({
        "twin/a.md": f"# A\n\n{words} loudly\n",
        "twin/b.md": f"# B\n\n{words} quietly\n",
        "twin/c.md": "# C\n\nokapis differ entirely from giraffes in stripes\n",
    })  # fmt: skip
    plain = ask("query_documents", query="okapis", top_n=3)
    assert set(files(plain)) == {"twin/a.md", "twin/b.md", "twin/c.md"}
    better = next(file for file in files(plain) if file != "twin/c.md")
    found = ask("query_documents_compressed", query="okapis", min_score=0.0, top_n=3)
    twins = [file for file in files(found) if file in ("twin/a.md", "twin/b.md")]
    assert twins == [better]
    assert "twin/c.md" in files(found)
    stats = found["compression_stats"]
    assert stats["after_dedup"] == len(found["results"])
    assert stats["clusters_merged"] >= 1
    loose = ask("query_documents_compressed", query="zebra", similarity_threshold=0.5)
    default = ask("query_documents_compressed", query="zebra", top_n=100)
    assert 1 <= len(loose["results"]) < len(default["results"])
    apart = ask(
        "query_documents_compressed",
        query="okapis",
        min_score=0.0,
        top_n=100,
        similarity_threshold=1.0,
    )
    assert {"twin/a.md", "twin/b.md"} <= set(files(apart))
    assert apart["compression_stats"]["clusters_merged"] == 0


def test_equal_texts_are_merged_at_the_highest_threshold(ask: Ask, put: Put) -> None:
    put({f"copy{n}/x{n}.md": "# Copy\n\nthe very same quoll\n" for n in range(3)})
    found = ask(
        "query_documents_compressed", query="quoll", min_score=0.9, similarity_threshold=1.0
    )
    assert len(found["results"]) == 1
    assert found["compression_stats"] == {
        "original_count": found["compression_stats"]["original_count"],
        "after_threshold": 3,
        "after_dedup": 1,
        "clusters_merged": 1,
    }


def test_more_is_looked_at_than_is_given(ask: Ask) -> None:
    stats = ask("query_documents_compressed", query="zebra", top_n=1)["compression_stats"]
    assert stats["original_count"] == 20
    stats = ask("query_documents_compressed", query="zebra", top_n=10)["compression_stats"]
    assert stats["original_count"] == 30


class TestWithoutModel:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "none", "index.workers": 1}

    def test_only_equal_texts_are_merged_without_a_model(self, ask: Ask, put: Put) -> None:
        put({f"copy{n}/x{n}.md": "# Copy\n\nthe very same quoll\n" for n in range(2)})
        put({"near.md": "# Copy\n\nthe very same quoll indeed\n"})
        found = ask("query_documents_compressed", query="quoll", min_score=0.0)
        assert len(found["results"]) == 2
        assert "only equal texts" in found["note"]
        assert ask("query_documents", query="quoll")["results"][0]["score"] > 0.9

    def test_a_hypothesis_is_refused(self, refused: Ask) -> None:
        shape = refused("search_with_hypothesis", hypothesis="zebras are signed")
        assert shape["code"] == "MODEL_UNAVAILABLE"
        assert "query_documents" in shape["hint"]


class TestWithItsModel:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"preset": "ragdocs", "index.workers": 1}

    @pytest.mark.parametrize("word", ["kwtwo", "desctwo", "kwone"])
    def test_a_word_of_the_front_matter_finds_its_page(
        self, ask: Ask, put: Put, docs: Path, word: str
    ) -> None:
        """Such a word counts, even where the meaning of the page is far from it."""
        shutil.rmtree(docs)
        rest = (
            " It has some further words so that it is long enough to be a chunk of its own, which"
            " takes two hundred characters or so, and therefore this sentence goes on and on for a"
            " while without saying much at all, really.\n"
        )
        put({f"f{n}.md": f"# Filler {n}\n\nFiller number {n}.{rest}" for n in range(6)})
        fields = {"s": "keywords: kwone", "l": "keywords: [kwtwo]\ndescription: desctwo"}
        put(
            {f"{n}.md": f"---\n{each}\n---\n# H{n}\n\nBody {n}{rest}" for n, each in fields.items()}
        )
        found = ask("query_documents", query=word)
        assert files(found)[0] == ("s.md" if word == "kwone" else "l.md")
        first, second, *_ = scores(found)
        assert second < 0.8 * first


# --- hypothesis ---------------------------------------------------------------------------------


def test_a_hypothesis_is_searched_by_meaning_alone(
    ask: Ask, library: Library, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is embedded as it came; neither words, names nor whole documents count.

    Seen to fail with the library's own settings, which lift by name and by document.
    """
    put({"zebra/zebra.md": "# Zebra\n\nnothing of it\n"})
    far = "".join(f"## Far {n}\n\nunrelated words, entirely others\n\n" for n in range(3))
    put({"mixed.md": f"# Mixed\n\n{far}## Near\n\nThe zebra number 7 is of kind k7.\n"})
    library.index()
    embedder = library.folder().embedder
    assert isinstance(embedder, HashedEmbedder)
    chunks = list(embedder.embedded)
    hypothesis = "  The ZEBRA, number 7, is of kind k7?  "

    def words(*_: Any) -> Any:
        raise AssertionError("words were looked up")

    for way in ("keyword_search", "page_search", "page_scores"):
        monkeypatch.setattr(EpochSnapshot, way, words)
    found = ask("search_with_hypothesis", hypothesis=hypothesis, top_n=10)
    assert embedder.embedded[len(chunks) :] == [hypothesis]
    near = sorted(embedder.embed(chunks) @ embedder.embed([hypothesis])[0], reverse=True)
    shares = [(each - near[-1]) / (near[0] - near[-1]) for each in near]
    assert scores(found)[0] == pytest.approx(near[0], abs=0.005)
    assert scores(found) == pytest.approx([near[0] * share for share in shares[:10]], abs=0.005)
    assert found["results"][0]["header_path"] == "Mixed > Near"


class TestHypothesisOff:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "search.hypothesis": False}

    def test_the_switch_turns_it_off(self, ask: Ask, refused: Ask, put: Put) -> None:
        """It is on by default: see above."""
        put({"z.md": "# Z\n\nzebra\n"})
        shape = refused("search_with_hypothesis", hypothesis="a zebra")
        assert shape["code"] == "INVALID_ARGUMENT"
        assert "search.hypothesis" in shape["hint"]
        assert ask("query_documents", query="zebra")["results"]


# --- what it may cost ---------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TEXT)
def test_no_result_is_over_the_budget(ask: Ask, put: Put, tool: str) -> None:
    """Protects a model's context: what is too long is cut, and the note says so."""
    put({
        f"big/g{n}.md": f'# G{n}\n\n```\n{f"gnu g{n} " * 5}\n' + f'"w{n}"\n' * 5000 + "```\n"
        for n in range(4)
    })  # fmt: skip
    loose = {"min_score": 0.0} if tool == "query_documents_compressed" else {}
    found = ask(tool, **{TEXT[tool]: "gnu g0 g1 g2 g3 w0 w1 w2 w3"}, **loose)
    cost = tokens(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
    assert 15_000 < cost <= 20_000
    assert found["results"][-1]["truncated"] is True
    assert "top_n" in found["note"]
    if "compression_stats" in found:
        assert found["compression_stats"]["after_dedup"] == len(found["results"])


def test_names_are_those_of_what_the_caller_reaches(docs: Path, tmp_path: Path, put: Put) -> None:
    """One session, asked by somebody who reaches all and by somebody who reaches one folder.

    Seen to fail (KeyError) when names were remembered by the generations of an answer alone: an
    answer for all has none of a folder whose index is being rebuilt.
    """
    other = tmp_path / "other"
    put({"plain.md": "# Plain\n\nA zebra elsewhere.\n"}, other)
    settings = {"embed.provider": "hash", "index.workers": 1}
    with Library.open(docs, other, index_dir=tmp_path / "index", settings=settings) as library:
        session = Session(library)
        every = library.search("narwhals", top_k=5)
        without = replace(
            every,
            hits=tuple(hit for hit in every.hits if hit.collection == "docs"),
            generations={"docs": every.generations["docs"]},
        )
        named = {
            each["file_path"]: each["doc_id"]
            for each in _render(session, without, 5, {}, without.hits).data["results"]
        }
        assert named["docs/plain.md"] == "docs/plain"
        reached = REACHABLE.set(("docs",))
        try:
            answer = session.library.search("narwhals", top_k=5)
            assert answer.generations == without.generations
            found = _render(session, answer, 5, {}, answer.hits).data["results"]
        finally:
            REACHABLE.reset(reached)
        assert {each["file_path"]: each["doc_id"] for each in found}["plain.md"] == "plain"
        again = _render(session, without, 5, {}, without.hits).data["results"]
        assert {each["file_path"]: each["doc_id"] for each in again} == named

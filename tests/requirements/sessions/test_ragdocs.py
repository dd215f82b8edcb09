"""Sessions of the clients of ragdocs, as its document shows them: search, history, HTTP.

Memories have a file of their own, ``test_ragdocs_memories.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from requirements.sessions.client import Client, HttpClient, serving
from waiting import wait_for

DAY: Final = 86_400
FIRST_COMMIT: Final = 1_600_000_000
SERVED: Final = ("--toolset", "ragdocs")
QUERIES: Final = {
    "query_documents": "query",
    "query_documents_compressed": "query",
    "search_with_hypothesis": "hypothesis",
}
LONG: Final = " ".join(f"Sentence {n} about lighthouses and their keepers." for n in range(200))
PAGES: Final = {
    "docs/authentication.md": (
        "---\ntitle: Signing In\ntags: [security]\naliases: [credentials]\n"
        "keywords: [singlesignon]\ndescription: Covers passphrases.\n---\n"
        f"# Signing In\n\nVisitors prove who they are. #token-rotation\n\n{'Calmly. ' * 30}\n\n"
        f"## Sessions\n\nA session ends after one hour of silence.\n\n{'Quietly. ' * 30}\n"
    ),
    "docs/getting-started.md": "# First Steps\n\nInstall the badger and read [[authentication]].\n",
    "docs/reference.markdown": "# Reference\n\nThe badger has seven options.\n",
    "docs/long.md": f"# Long\n\n## Coast\n\n{LONG}\n\n## Short\n\nTiny.\n",
    "one/same.md": "# One\n\nquokka first\n",
    "two/same.md": "# Two\n\nquokka second\n",
    "garage/first.md": "# First\n\nThe automobile is in the garage.\n",
    "garage/second.md": "# Second\n\nAn automobile without a garage.\n",
    "ignored/draft.md": "# Draft\n\nAn ocelot in a draft.\n",
    "huge.md": "# Huge\n\nThe pangolin.\n\n" + "filler words of a large page. " * 40_000,
    # What is not a document:
    "src/badger.py": '"""The badger of the code."""\n\n\ndef badger():\n    return "badger"\n',
    "notes.txt": "The badger in plain text.\n",
    "settings.json": '{"badger": true}\n',
    ".hidden/secret-plan.md": "# Hidden\n\nThe badger in a hidden folder.\n",
    ".memories/badger.md": (
        "---\ntype: fact\nstatus: active\ntags: []\n"
        'created_at: "2025-01-10T10:00:00Z"\n---\n\nThe badger in a memory.\n'
    ),
    "node_modules/badger/README.md": "# Badger\n\nThe badger of a dependency.\n",
    ".gitignore": "ignored/\nnode_modules/\n",
    **{f"many/p{n}.md": f"# Part {n}\n\nA walrus of kind k{n}, seen w{n}.\n" for n in range(120)},
}


def put(folder: Path, pages: dict[str, str], age_days: float = 0.0) -> None:
    """Write files that were last changed some days ago."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        when = time.time() - age_days * DAY
        os.utime(path, (when, when))


def commit(folder: Path, message: str, day: int, author: str = "Ada <ada@example.org>") -> str:
    """Commit everything, some days after the first commit, and return the hash."""

    def git(*arguments: str) -> str:
        when = f"{FIRST_COMMIT + day * DAY} +0000"
        identity = {"NAME": "Charles", "EMAIL": "charles@example.org", "DATE": when}
        variables = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
                     for key, value in identity.items()}  # fmt: skip
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **variables}
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    if not (folder / ".git").exists():
        git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", f"--author={author}", "-m", message)
    return git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with pages, code, a history and memories."""
    folder = tmp_path_factory.mktemp("ragdocs") / "project"
    put(folder, PAGES, age_days=90)
    commit(folder, "Import the badger\n\nIt had no home.", 1)
    put(folder, {"src/login.py": "TOKENS = 1\n"}, age_days=90)
    commit(folder, "Validate tokens\n\nForged ones were accepted.", 2, "Bob <bob@example.com>")
    rows = "".join(f"row {n}\n" for n in range(644))
    put(folder, {"data/register.csv": rows}, age_days=90)
    commit(folder, "Add the register", 3)
    return folder


@pytest.fixture(scope="module")
def client(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    with serving("http", project, *SERVED, home=home, LOOKFAR_EMBED_PROVIDER="static") as started:
        yield started


def paths(shape: Any) -> list[str]:
    return [row["file_path"] for row in shape["results"]]


def scores(shape: Any) -> list[float]:
    return [row["score"] for row in shape["results"]]


# --- the tools ------------------------------------------------------------------------------------


def test_the_tools_and_their_arguments_are_listed(client: Client) -> None:
    """Name, type, default and range of each argument."""
    tools = client.tools()
    top_n = {"type": "integer", "default": 5, "minimum": 1, "maximum": 100}
    score = {"type": "number", "minimum": 0.0, "maximum": 1.0}
    expected: dict[str, dict[str, Any]] = {
        "query_documents": {"query": {"type": "string"}, "top_n": top_n},
        "query_documents_compressed": {
            "query": {"type": "string"},
            "top_n": top_n,
            "min_score": {**score, "default": 0.3},
            "similarity_threshold": {
                "type": "number", "default": 0.85, "minimum": 0.5, "maximum": 1.0
            },
        },
        "search_with_hypothesis": {"hypothesis": {"type": "string"}, "top_n": top_n},
        "search_git_history": {
            "query": {"type": "string"},
            "top_n": top_n,
            "min_score": {**score, "default": 0.0},
            "file_pattern": {"type": "string"},
            "author": {"type": "string"},
            "after": {"type": "integer"},
            "before": {"type": "integer"},
        },
    }  # fmt: skip
    for name, arguments in expected.items():
        schema = tools[name]["inputSchema"]
        assert schema["required"] == [next(iter(arguments))]
        assert schema["properties"].keys() == arguments.keys()
        for argument, promised in arguments.items():
            assert promised.items() <= schema["properties"][argument].items()


# --- query_documents ------------------------------------------------------------------------------


def test_a_query_gives_five_ranked_chunks(client: Client) -> None:
    shape = client.call("query_documents", query="walrus of kind k7")
    assert len(shape["results"]) == 5
    first = shape["results"][0]
    assert first == {
        "chunk_id": first["chunk_id"],
        "doc_id": "p7",
        "score": first["score"],
        "header_path": "Part 7",
        "file_path": "many/p7.md",
        "content": "# Part 7\n\nA walrus of kind k7, seen w7.\n",
    }
    assert len({row["chunk_id"] for row in shape["results"]}) == 5
    assert scores(shape) == sorted(scores(shape), reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores(shape))


@pytest.mark.parametrize("tool", QUERIES)
def test_a_hundred_are_given_where_there_are_a_hundred(client: Client, tool: str) -> None:
    loose = (
        {"min_score": 0.0, "similarity_threshold": 1.0}
        if tool == "query_documents_compressed"
        else {}
    )
    for number in (1, 37, 100):
        shape = client.call(tool, **{QUERIES[tool]: "walrus"}, top_n=number, **loose)
        assert (len(shape["results"]), "note" in shape) == (number, False)
        assert not any("truncated" in row for row in shape["results"])


def test_a_hundred_chunks_may_come_from_one_document(client: Client, project: Path) -> None:
    sections = "".join(
        f"## Entry {n}\n\n{f'The narwhal of entry {n} dives. ' * 60}\n\n" for n in range(110)
    )
    put(project, {"atlas.md": f"# Atlas\n\n{sections}"}, age_days=90)
    shape = client.call("query_documents", query="narwhal dives", top_n=100)
    assert (len(shape["results"]), set(paths(shape))) == (100, {"atlas.md"})
    assert "note" not in shape
    (project / "atlas.md").unlink()


@pytest.mark.parametrize("tool", QUERIES)
def test_only_documents_are_searched(client: Client, tool: str) -> None:
    """Neither code nor other text, nor hidden folders, memories, dependencies or commits."""
    shape = client.call(tool, **{QUERIES[tool]: "badger"}, top_n=100)
    assert {"docs/getting-started.md", "docs/reference.markdown"} <= set(paths(shape))
    others = ("src/", "notes.txt", "settings.json", ".", "node_modules/")
    assert set(paths(shape)) <= {page for page in PAGES if not page.startswith(others)}


def test_ignored_and_large_pages_are_documents(client: Client) -> None:
    """The document knows include and exclude patterns, and no limit on the size."""
    for word, page in (("ocelot", "ignored/draft.md"), ("pangolin", "huge.md")):
        assert paths(client.call("query_documents", query=word))[0] == page


def test_a_document_is_named_by_its_stem(client: Client) -> None:
    first = client.call("query_documents", query="session ends silence")["results"][0]
    assert (first["doc_id"], first["file_path"]) == ("authentication", "docs/authentication.md")
    assert first["header_path"] == "Signing In > Sessions"
    rows = client.call("query_documents", query="quokka", top_n=2)["results"]
    assert {row["doc_id"] for row in rows} == {"one/same", "two/same"}


def test_chunks_have_the_documented_sizes(client: Client) -> None:
    """At most 2,000 characters of one section, with an overlap of about 50."""
    rows = client.call("query_documents", query="lighthouses and their keepers", top_n=100)
    chunks = [row for row in rows["results"] if row["file_path"] == "docs/long.md"]
    assert {row["header_path"] for row in chunks} == {"Long > Coast"}
    assert 1_000 < max(len(row["content"]) for row in chunks) <= 2_000
    whole = PAGES["docs/long.md"]
    spans = sorted(
        (whole.index(row["content"]), whole.index(row["content"]) + len(row["content"]))
        for row in chunks
    )
    overlaps = [end - start for (_, end), (start, _) in pairwise(spans)]
    assert len(overlaps) > 2
    assert all(0 <= overlap <= 60 for overlap in overlaps)
    assert max(overlaps) > 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("signing", "title"),
        ("credentials", "aliases"),
        ("security", "tags"),
        ("token-rotation", "tags in the text"),
        ("singlesignon", "keywords"),
        ("passphrases", "description"),
    ],
)
def test_fields_of_a_page_are_searched(client: Client, query: str, field: str) -> None:
    assert paths(client.call("query_documents", query=query))[0] == "docs/authentication.md", field


def test_changes_are_found_by_the_next_query(client: Client, project: Path) -> None:
    put(project, {"new.md": "# New\n\nA capybara arrives.\n"})
    assert paths(client.call("query_documents", query="capybara"))[0] == "new.md"
    put(project, {"new.md": "# New\n\nAn aardvark arrives.\n"})
    shape = client.call("query_documents", query="aardvark")
    assert shape["results"][0]["content"] == "# New\n\nAn aardvark arrives.\n"
    (project / "new.md").unlink()
    assert "new.md" not in paths(client.call("query_documents", query="aardvark", top_n=100))


# --- ranking --------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Start a server on pages of its own, by default one that ranks by keywords alone."""
    with ExitStack() as stack:

        def start(pages: dict[str, str], ages: dict[str, float], model: str = "none") -> Client:
            folder = tmp_path / "pages"
            for name, text in pages.items():
                put(folder, {name: text}, ages.get(name, 90.0))
            return stack.enter_context(
                serving(
                    "http",
                    folder,
                    *SERVED,
                    home=tmp_path / "home",
                    LOOKFAR_EMBED_PROVIDER=model,
                )
            )

        yield start


def test_scores_are_reciprocal_ranks(start: Callable[..., Client]) -> None:
    """Rank r of the only list contributes 1 / (60 + r), in proportion to the best.

    Ages are those of the document: 1.2 within 7 days, 1.1 within 30, else 1. A page that only a
    link leads to has half the score of the page that links to it.
    """
    pages = {f"p{n}.md": f"{'okapi ' * (9 - n)}{'filler ' * (n + 1)}\n" for n in range(8)}
    client = start({**pages, "hub.md": "gibbon [[leaf]]\n", "leaf.md": "nothing at all\n"},
                   {"p4.md": 1.0, "p6.md": 20.0})  # fmt: skip
    shape = client.call("query_documents", query="okapi", top_n=10)
    by_rank = {f"p{n}.md": 1 / (60 + n + 1) for n in range(8)}
    by_rank["p4.md"] *= 1.2
    by_rank["p6.md"] *= 1.1
    best = max(by_rank.values())
    top = scores(shape)[0]
    assert dict(zip(paths(shape), scores(shape), strict=True)) == {
        page: pytest.approx(top * score / best, abs=1e-4) for page, score in by_rank.items()
    }
    joined = client.call("query_documents", query="gibbon")
    assert paths(joined) == ["hub.md", "leaf.md"]
    assert scores(joined)[1] == pytest.approx(scores(joined)[0] / 2, abs=1e-4)


def test_a_muddy_list_counts_less(start: Callable[..., Client]) -> None:
    """Both pages match the word alike, so the list by meaning decides, against the names."""
    client = start(
        {
            "a.md": "ledger carburettor piston gasket\n",
            "b.md": "ledger accounting invoice bookkeeping\n",
        },
        {},
        "static",
    )
    shape = client.call("query_documents", query="ledger")
    assert paths(shape) == ["b.md", "a.md"]
    # With equal weights the two would share the score of the best.
    assert scores(shape)[1] < 0.995 * scores(shape)[0]


def test_linked_pages_of_the_best_gain(start: Callable[..., Client]) -> None:
    """The community of the best page counts 1.1 times."""
    pages = {f"p{n}.md": f"{'okapi ' * (9 - n)}{'filler ' * (n + 1)}\n" for n in range(6)}
    pages["p0.md"] += "[[p5]]\n"
    client = start(pages, {})
    order = paths(client.call("query_documents", query="okapi", top_n=6))
    assert order.index("p5.md") < order.index("p4.md")


def test_a_question_is_expanded_by_near_terms(client: Client) -> None:
    """The vocabulary of the corpus leads to pages that use other words."""
    shape = client.call("query_documents", query="car", top_n=2)
    assert set(paths(shape)) == {"garage/first.md", "garage/second.md"}


# --- query_documents_compressed -------------------------------------------------------------------


def test_weak_and_similar_chunks_are_dropped(client: Client, project: Path) -> None:
    words = " ".join(f"tapirs wade at ford{n}" for n in range(12))
    put(project, {f"twins/t{n}.md": f"# T{n}\n\n{words} {n}\n" for n in range(3)}, age_days=90)
    put(project, {"twins/other.md": "# Other\n\nTapirs differ from horses.\n"}, age_days=90)
    everything = client.call("query_documents", query="tapirs wade", top_n=4)
    assert len([path for path in paths(everything) if path.startswith("twins/t")]) == 3
    shape = client.call("query_documents_compressed", query="tapirs wade")
    assert len([path for path in paths(shape) if path.startswith("twins/t")]) == 1
    stats = shape["compression_stats"]
    assert stats.keys() == {
        "original_count", "after_threshold", "after_dedup", "clusters_merged"
    }  # fmt: skip
    assert stats["original_count"] >= stats["after_threshold"] >= stats["after_dedup"]
    assert stats["after_dedup"] == len(shape["results"])
    assert stats["clusters_merged"] >= 1
    assert all(score >= 0.3 for score in scores(shape))
    least = scores(shape)[0]
    strict = client.call("query_documents_compressed", query="tapirs wade", min_score=least)
    assert set(scores(strict)) == {least}
    apart = client.call(
        "query_documents_compressed", query="tapirs wade", similarity_threshold=1.0, min_score=0
    )
    assert len([path for path in paths(apart) if path.startswith("twins/t")]) == 3


# --- search_with_hypothesis -----------------------------------------------------------------------


def test_a_hypothesis_finds_what_it_describes(client: Client) -> None:
    shape = client.call(
        "search_with_hypothesis",
        hypothesis="Visitors sign in first. After an hour of silence, their session ends.",
    )
    assert len(shape["results"]) == 5
    assert shape["results"][0]["file_path"] == "docs/authentication.md"
    assert scores(shape) == sorted(scores(shape), reverse=True)


# --- search_git_history ---------------------------------------------------------------------------


def test_a_commit_has_all_its_fields(client: Client, project: Path) -> None:
    first = client.call("search_git_history", query="validate tokens")["results"][0]
    assert first == {
        "hash": first["hash"],
        "title": "Validate tokens",
        "message": "Forged ones were accepted.",
        "author": "Bob <bob@example.com>",
        "committer": "Charles <charles@example.org>",
        "timestamp": FIRST_COMMIT + 2 * DAY,
        "files_changed": ["src/login.py"],
        "delta_truncated": first["delta_truncated"],
        "score": first["score"],
        "repo_path": str(project),
    }
    assert len(first["hash"]) == 40
    assert "+TOKENS = 1" in first["delta_truncated"]


def test_a_long_diff_has_two_hundred_lines(client: Client) -> None:
    first = client.call("search_git_history", query="add the register", top_n=1)["results"][0]
    lines = first["delta_truncated"].split("\n")
    assert (len(lines), lines[-1]) == (201, "... (450 lines omitted)")


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({"author": "bob"}, {"Validate tokens"}),
        ({"author": "bob@example.com"}, {"Validate tokens"}),
        ({"author": "nobody"}, set()),
        ({"file_pattern": "data/*.csv"}, {"Add the register"}),
        ({"file_pattern": "*.csv"}, {"Add the register"}),
        ({"file_pattern": "src/**"}, {"Import the badger", "Validate tokens"}),
        ({"file_pattern": "none/*"}, set()),
        ({"after": FIRST_COMMIT + 3 * DAY}, {"Add the register"}),
        ({"before": FIRST_COMMIT + 2 * DAY}, {"Import the badger"}),
        ({"after": FIRST_COMMIT + 2 * DAY, "before": FIRST_COMMIT + 3 * DAY}, {"Validate tokens"}),
    ],
)
def test_commits_are_filtered(client: Client, filters: dict[str, Any], titles: set[str]) -> None:
    shape = client.call("search_git_history", query="badger tokens register", **filters)
    assert {row["title"] for row in shape["results"]} - {"Sing"} == titles


def test_weak_commits_are_dropped(client: Client) -> None:
    shape = client.call("search_git_history", query="validate tokens")
    limit = scores(shape)[1]
    strict = client.call("search_git_history", query="validate tokens", min_score=limit + 1e-4)
    assert [row["title"] for row in strict["results"]] == ["Validate tokens"]


def test_a_new_commit_is_found(client: Client, project: Path) -> None:
    """Within the five seconds that a branch is given to rest, and some more."""
    made = commit(project, "Sing\n\nOf kingfishers.", 400)
    query = {"query": "sing of kingfishers", "top_n": 1}
    wait_for(lambda: client.call("search_git_history", **query)["results"][0]["hash"] == made)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", [*QUERIES, "search_git_history"])
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"top_n": 0}, "top_n"),
        ({"top_n": 101}, "top_n"),
        ({"top_n": "5"}, "top_n"),
        ({"text": ""}, "text"),
        ({"text": None}, "text"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_wrong_arguments_are_refused(
    client: Client, tool: str, changed: dict[str, Any], field: str
) -> None:
    text = QUERIES.get(tool, "query")
    arguments = {"text": "walrus", **changed}
    arguments[text] = arguments.pop("text")
    error = client.refused(tool, **arguments)
    assert error["code"] == "INVALID_ARGUMENT"
    assert error["details"]["field"] == (text if field == "text" else field)
    assert error["message"]
    assert error["hint"]


@pytest.mark.parametrize(
    ("tool", "argument", "wrong"),
    [
        ("query_documents_compressed", "min_score", (-0.01, 1.01)),
        ("query_documents_compressed", "similarity_threshold", (0.49, 1.01)),
        ("search_git_history", "min_score", (-0.01, 1.01)),
    ],
)
def test_thresholds_out_of_range_are_refused(
    client: Client, tool: str, argument: str, wrong: tuple[float, ...]
) -> None:
    for value in wrong:
        error = client.refused(tool, query="walrus", **{argument: value})
        assert (error["code"], error["details"]["field"]) == ("INVALID_ARGUMENT", argument)


# --- HTTP -----------------------------------------------------------------------------------------


@pytest.fixture
def http(client: Client) -> HttpClient:
    assert isinstance(client, HttpClient)
    return client


def test_health_is_ok(http: HttpClient) -> None:
    status, _, body = http.http("GET", "/health")
    assert (status, json.loads(body)) == (200, {"status": "ok"})


def test_status_counts_documents(http: HttpClient, project: Path) -> None:
    http.call("query_documents", query="walrus")  # What other tests wrote is indexed now.
    status, _, body = http.http("GET", "/status")
    shape = json.loads(body)
    pages = [
        path
        for path in project.rglob("*")
        if path.suffix in (".md", ".markdown")
        and not any(part.startswith((".", "node_modules")) for part in path.parts)
    ]
    assert status == 200
    assert shape["document_count"] == len(pages)
    assert shape["queue_size"] == 0
    assert shape["failed_files"] == []


def test_pages_are_indexed_at_the_start(start: Callable[..., Client]) -> None:
    """The count rises without a query, as soon as the index is built."""
    client = start({"a.md": "# A\n\nokapi\n", "b.md": "# B\n\nokapi\n"}, {})
    assert isinstance(client, HttpClient)
    wait_for(lambda: json.loads(client.http("GET", "/status")[2])["document_count"] == 2)


def test_a_query_over_http_is_answered_like_the_tool(http: HttpClient) -> None:
    request = {"query": "walrus of kind k7", "top_n": 3}
    status, _, body = http.http("POST", "/query_documents", request)
    assert (status, json.loads(body)) == (200, http.call("query_documents", **request))
    _, _, body = http.http("POST", "/query_documents", {"query": "walrus"})
    assert len(json.loads(body)["results"]) == 5


def test_a_stream_ends_with_the_same_answer(http: HttpClient) -> None:
    request = {"query": "walrus of kind k7", "top_n": 3}
    status, headers, body = http.http("POST", "/query_documents_stream", request)
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    events = [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in (block.split("\n", 1) for block in body.strip().split("\n\n"))
    ]
    assert events[-1] == ("result", http.call("query_documents", **request))
    assert {row["chunk_id"] for name, row in events if name == "hit"} >= {
        row["chunk_id"] for row in events[-1][1]["results"]
    }


def test_wrong_requests_over_http_are_refused(http: HttpClient) -> None:
    for path in ("/query_documents", "/query_documents_stream"):
        for body in ({}, {"query": ""}, {"query": "x", "top_n": 101}):
            status, _, text = http.http("POST", path, body)
            assert status == 400
            assert json.loads(text)["error"]["code"] == "INVALID_ARGUMENT"

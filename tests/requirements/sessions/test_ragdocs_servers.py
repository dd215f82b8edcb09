"""How servers and commands of ragdocs start, end and recover, as its document describes."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from requirements.sessions.client import HttpClient, launch, serving
from waiting import DEADLINE, wait_for

SERVED: Final = ("--toolset", "ragdocs")
PAGES: Final = {f"docs/p{n}.md": f"# Page {n}\n\nThe badger number {n}.\n" for n in range(4)}
FIGURES: Final = {
    "search.rrf_k": 60,
    "search.fusion": "rrf",
    "search.dynamic_weights": True,
    "search.variance_threshold": 0.1,
    "search.title_weight": 3.0,
    "search.headings_weight": 2.5,
    "search.keywords_weight": 2.5,
    "search.description_weight": 2.0,
    "search.tags_weight": 2.0,
    "search.aliases_weight": 1.5,
    "search.concept_terms": 3,
    "search.community_factor": 1.1,
    "search.hypothesis": True,
    "search.rerank_model": "cross-encoder/ms-marco-MiniLM-L-6-v2",
    "watch.debounce_ms": 500,
    "git.diff_lines": 200,
    "git.cool_down_seconds": 5.0,
    "memory.recent_days": 7,
    "memory.recent_factor": 1.2,
}
OPTIONS: Final = (
    *("adaptive", "min_confidence", "dedup_ngram", "dedup_semantic", "mmr", "rerank", "parents"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, PAGES)
    (folder / ".git").mkdir()
    return folder


def write(folder: Path, pages: dict[str, str]) -> None:
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_command(*arguments: object, home: Path, cwd: Path, **variables: str) -> str:
    """Return what a command printed; it must succeed."""
    process = launch(arguments, home, cwd, **variables)
    output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    return output


def find(client: Any, query: str = "badger", **more: Any) -> list[str]:
    shape = client.call("query_documents", query=query, top_n=100, **more)
    return sorted(row["file_path"] for row in shape["results"])


def test_run_serves_http(project: Path, home: Path) -> None:
    process = launch(("run", project, "--port", "0"), home)
    assert process.stderr
    assert process.stdin
    assert process.stdout
    with closing(process.stdin), closing(process.stdout), closing(process.stderr):
        try:
            line = next(line for line in process.stderr if line.startswith("Serving "))
            client = HttpClient(process, line.split()[1].rstrip(";"))
            status, _, body = client.http("POST", "/query_documents", {"query": "badger"})
            assert (status, len(json.loads(body)["results"])) == (200, 4)
            assert json.loads(client.http("GET", "/health")[2]) == {"status": "ok"}
        finally:
            process.kill()
            process.wait(DEADLINE)


def test_rebuild_index_reads_every_page_again(project: Path, home: Path) -> None:
    first = json.loads(run_command("rebuild-index", "--json", home=home, cwd=project))
    again = json.loads(run_command("rebuild-index", "--json", home=home, cwd=project))
    assert (first["added"], again["unchanged"]) == (4, 0)
    with serving("stdio", project, *SERVED, home=home) as client:
        assert find(client) == sorted(PAGES)


def test_two_sessions_share_an_index(project: Path, home: Path) -> None:
    with (
        serving("stdio", project, *SERVED, home=home) as first,
        serving("http", project, *SERVED, home=home) as second,
    ):
        assert find(first) == find(second) == sorted(PAGES)
        write(project, {"docs/new.md": "# New\n\nThe badger is new.\n"})
        assert find(first) == find(second) == sorted([*PAGES, "docs/new.md"])
    indexes = [path.name for path in home.rglob("*.ragdocs") if path.is_dir()]
    assert len([name for name in indexes if "-git-" not in name]) == 1


def test_other_sizes_rebuild_the_index(project: Path, home: Path) -> None:
    text = "".join(f"The badger digs tunnel {n} in the long meadow. " for n in range(80))
    write(project, {"docs/long.md": f"# Long\n\n{text}\n"})
    counts: list[int] = []
    for size in ("500", "100"):
        with serving(
            "stdio", project, *SERVED, home=home,
            LOOKFAR_CHUNK_MAX_TOKENS=size, LOOKFAR_CHUNK_HARD_MAX_TOKENS=size,
        ) as client:  # fmt: skip
            # The index with the old sizes answers until the new one is built.
            least = 4 * counts[0] if counts else 1

            def count(client: Any = client) -> int:
                return find(client, "tunnel meadow").count("docs/long.md")

            def has_enough(least: int = least) -> bool:
                return count() >= least

            wait_for(has_enough)
            counts.append(count())


def test_changes_without_a_server_are_noticed(project: Path, home: Path) -> None:
    with serving("stdio", project, *SERVED, home=home) as client:
        assert find(client) == sorted(PAGES)
    (project / "docs/p0.md").unlink()
    write(project, {"docs/later.md": "# Later\n\nA badger later.\n"})
    with serving("stdio", project, *SERVED, home=home) as client:
        assert find(client) == ["docs/later.md", "docs/p1.md", "docs/p2.md", "docs/p3.md"]
    with serving(
        "stdio", project, *SERVED, home=home, LOOKFAR_SOURCES_EXCLUDE="docs/p1.md"
    ) as client:
        wait_for(lambda: find(client) == ["docs/later.md", "docs/p2.md", "docs/p3.md"])


def test_a_page_that_is_not_text_stops_no_other(project: Path, home: Path) -> None:
    (project / "docs/broken.md").write_bytes(b"# Broken\n\nbadger \xff\xfe\x00 badger\n")
    with serving("http", project, *SERVED, home=home) as client:
        assert find(client) == sorted(PAGES)
        assert isinstance(client, HttpClient)
        assert json.loads(client.http("GET", "/status")[2])["document_count"] == len(PAGES)


def test_a_damaged_index_is_rebuilt(project: Path, home: Path) -> None:
    with serving("stdio", project, *SERVED, home=home) as client:
        assert find(client) == sorted(PAGES)
    (catalogue,) = home.rglob("*.ragdocs/epoch-*/catalogue.db")
    for extra in catalogue.parent.glob("catalogue.db-*"):
        extra.unlink()
    with catalogue.open("r+b") as file:
        file.truncate(os.path.getsize(catalogue) // 2)
    with serving("stdio", project, *SERVED, home=home) as client:
        assert find(client) == sorted(PAGES)


def test_the_settings_have_the_figures_of_the_document(project: Path, home: Path) -> None:
    output = run_command(
        "config", "show", "--json", home=home, cwd=project, LOOKFAR_SERVE_TOOLSET="ragdocs"
    )
    shown = {row["key"]: row["value"] for row in json.loads(output)["settings"]}
    assert {key: shown[key] for key in FIGURES} == FIGURES
    assert {f"search.{name}" for name in OPTIONS} <= shown.keys()

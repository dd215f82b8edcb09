"""What a question names exactly comes first in every toolset, with a score that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from lookfar.library import Library
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools
from serve.toolsets.conftest import the_object

SEARCHES = {
    "anvil": "search_docs",
    "msrl": "msrl.query",
    "ragdocs": "query_documents",
    "search-mcp": "search_docs",
}
VERSIONS = "".join(
    f"## 1.{n}.0 (day {n})\n\n### Changed\n\nThe changes of ferrets in part{n}, at length.\n\n"
    for n in range(30)
)
LINKS = "".join(f"- [guide to ferrets {n}](ferret-taming-guide-{n}.md)\n" for n in range(9))
ADVICE = (
    "A guide to ferret taming: patience. Sit on the floor every day for some minutes, hold out"
    " food, and let the animal come by itself. Never grab it from above, as a bird of prey would,"
    " and stop as soon as it has had enough of you, which it shows clearly."
)
PAGES = {
    "CHANGELOG.md": f"# Changelog\n\nAll changes are listed here.\n\n{VERSIONS}",
    "taming.md": f"# Taming\n\n{ADVICE}\n\n## See also\n\n{LINKS}",
    "marten-notes.md": "# Something else\n\nNothing of that name.\n",
    "other.md": "# Marten notes of others\n\nThe marten notes of others are marten notes.\n",
    "described.md": "---\ndescription: the wolverine\n---\n\n# Plain\n\nA text without it.\n",
    "page.md": "# The Stoat\n\nIt is small.\n\n## Winter coat\n\nWhite.\n",
    "shell.md": "# Deploying\n\n```sh\n# fetch the flurbo package\n# then restart flurbo\n```\n",
    "plain.md": "# Moving\n\n```sh\nfetch the zanto package\nthen restart zanto\n```\n",
    "stoats.md": "# Weasels\n\nThe stoat, the stoat, the stoat in its winter coat: the stoat.\n",
}


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = tmp_path / "names"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    toolset = request.param

    def search(query: str) -> list[dict[str, Any]]:
        async def ask() -> Any:
            with Library.open(folder, index_dir=tmp_path / "index", settings={
                "serve.toolset": [toolset], "index.workers": 1,
            }) as library:  # fmt: skip
                server = make_server(Session(library), load_tools([toolset]))
                library.index()
                async with Client(server, mode="2026-07-28") as client:
                    return await client.call_tool(SEARCHES[toolset], {"query": query})

        rows: list[dict[str, Any]] = the_object(anyio.run(ask))["results"]
        return rows

    return search


def path_of(row: dict[str, Any]) -> str:
    return str(
        row.get("doc_uri")
        or row.get("path")
        or row.get("file_path")
        or row["metadata"]["file_path"]
    )


@pytest.mark.parametrize(
    ("query", "path", "shown"),
    [
        ("the stoat", "page.md", "small"),
        ("marten-notes", "marten-notes.md", "Nothing"),
        ("winter coat", "page.md", "White"),
        ("changes in 1.7.0", "CHANGELOG.md", "part7"),
    ],
)
def test_a_title_a_file_name_a_heading_and_a_version_come_first(
    search: Any, query: str, path: str, shown: str
) -> None:
    rows = search(query)
    assert path_of(rows[0]) == path
    assert shown in json.dumps(rows[0])
    assert rows[0]["score"] > rows[1]["score"]


def test_a_list_of_links_does_not_win(search: Any) -> None:
    assert "patience" in json.dumps(search("ferret taming guide")[0])


def test_comments_of_code_are_not_taken_for_headings(search: Any) -> None:
    """Seen to fail: a fence of comments had half the score, as a list of links has."""
    best = [search(f"restart of the {name} package")[0] for name in ("flurbo", "zanto")]
    assert [path_of(row) for row in best] == ["shell.md", "plain.md"]
    assert best[0]["score"] == pytest.approx(best[1]["score"], rel=0.2)


def test_the_description_of_the_front_matter_is_searched(search: Any) -> None:
    assert path_of(search("wolverine")[0]) == "described.md"


def test_scores_tell_an_answer_from_none(search: Any) -> None:
    there = [row["score"] for row in search("patience for taming ferrets")]
    absent = [row["score"] for row in search("chocolate cake recipe")]
    assert there == sorted(there, reverse=True)
    assert len(set(there)) > 1
    assert all(0 <= score < 1 for score in there)
    assert there[0] > 1.3 * max(absent, default=0.0)

"""Are exact names found first with the toolset of every system that Lookfar can replace?

    python bench/exact_names.py --pages MDN --notes VAULT --headings DOCS --changelog REPO
        [--toolsets anvil,msrl,...] [--work FOLDER] [--misses]

An MCP client asks the search tool of each toolset, with its preset, for 150 titles of pages, 60
names of files, 40 headings, and for "changes in X.Y.Z" of up to 77 versions of a changelog. Only
names that occur once in their corpus are asked, and only files with a text below their front
matter: no system has anything to show of the others. Printed is how often the goal came first and
among the first five. Document DB is not asked: its texts have no names.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# ruff: noqa: E402
# The folder of this script has a mcp.py of its own.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]

import anyio
from mcp import Client

from lookfar import Library
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools

SEARCHES = {
    "anvil": ("search_docs", "top_k"),
    "msrl": ("msrl.query", "top_k"),
    "ragdocs": ("query_documents", "top_n"),
    "search-mcp": ("search_docs", "top_k"),
}
PAGES, NOTES, VERSIONS, HEADINGS = 150, 60, 77, 40
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
FRONT = re.compile(r"\A---\n.*?^---$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"\A---\n.*?^title: *(.+?) *$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{2,6} +(.+?)[ #]*$", re.MULTILINE)
VERSION = re.compile(r"^#+ +\[?v?(\d+\.\d+\.\d+[.\w]*)", re.MULTILINE)


class Goal(NamedTuple):
    question: str
    path: str
    heading: str = ""
    """What a heading of the passage has to contain."""


def read_all(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8", "replace")
        for path in sorted(folder.rglob("*.md"))
    }


def choose(goals: list[Goal], count: int) -> list[Goal]:
    """Return a fixed sample of the goals whose question is asked for one place only."""
    uses = Counter(goal.question.casefold() for goal in goals)
    unique = [goal for goal in goals if uses[goal.question.casefold()] == 1]
    return random.Random(44).sample(unique, min(count, len(unique)))


def list_titles(folder: Path) -> list[Goal]:
    titles = ((path, TITLE.match(text)) for path, text in read_all(folder).items())
    return choose([Goal(found[1].strip("\"'"), path) for path, found in titles if found], PAGES)


def list_names(folder: Path) -> list[Goal]:
    written = [path for path, text in read_all(folder).items() if FRONT.sub("", text).strip()]
    return choose([Goal(Path(path).stem, path) for path in written], NOTES)


def list_headings(folder: Path) -> list[Goal]:
    goals = [
        Goal(found, path, found)
        for path, text in read_all(folder).items()
        for found in HEADING.findall(FENCE.sub("", text))
        if re.fullmatch(r"[\w ,:'-]{8,}", found)
    ]
    return choose(goals, HEADINGS)


def list_versions(folder: Path) -> list[Goal]:
    found = {path: VERSION.findall(text) for path, text in read_all(folder).items()}
    path = max(found, key=lambda name: len(found[name]))
    return choose([Goal(f"changes in {one}", path, one) for one in found[path]], VERSIONS)


KINDS: dict[str, Callable[[Path], list[Goal]]] = {
    "pages": list_titles,
    "notes": list_names,
    "changelog": list_versions,
    "headings": list_headings,
}


def reaches(hit: dict[str, Any], goal: Goal) -> bool:
    metadata = hit.get("metadata", {})
    path = next(
        value
        for value in (hit.get("doc_uri"), hit.get("path"), hit.get("file_path"),
                      metadata.get("file_path"))
        if value
    )  # fmt: skip
    text = str(hit.get("content") or hit.get("text") or hit.get("excerpt"))
    headings = [
        *(str(row.get(key, "")) for row in (hit, metadata)
          for key in ("heading_path", "header_path", "headerPath", "sectionTitle")),
        *(line for line in text.splitlines() if line.startswith("#")),
    ]  # fmt: skip
    return bool(path == goal.path) and any(goal.heading in heading for heading in headings)


async def ask_all(library: Library, toolset: str, goals: list[Goal]) -> Iterator[int]:
    """Return the rank of each goal among ten results; 0 where it is not there."""
    tool, limit = SEARCHES[toolset]
    ranks = []
    server = make_server(Session(library), load_tools([toolset]))
    async with Client(server, mode="2026-07-28") as client:
        for goal in goals:
            result = await client.call_tool(tool, {"query": goal.question, limit: 10})
            shape = json.loads(result.content[0].text)
            at = (n for n, hit in enumerate(shape["results"], 1) if reaches(hit, goal))
            ranks.append(next(at, 0))
    return iter(ranks)


def measure(toolset: str, kind: str, folder: Path, work: Path, *, misses: bool) -> None:
    goals = KINDS[kind](folder)
    settings = {"serve.toolset": [toolset]}
    with Library.open(folder, index_dir=work / f"{toolset}-{kind}", settings=settings) as library:
        library.index()
        ranks = list(anyio.run(ask_all, library, toolset, goals))
    first = sum(rank == 1 for rank in ranks)
    five = sum(0 < rank <= 5 for rank in ranks)
    total = len(goals)
    print(f"{toolset:11} {kind:10} first {first:3} of {total} ({first / total:.0%}),"
          f" in five {five} ({five / total:.0%})", flush=True)  # fmt: skip
    for goal, rank in zip(goals, ranks, strict=True):
        if misses and rank != 1:
            print(f"    {rank or '-'}: {goal.question!r} -> {goal.path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path)
    parser.add_argument("--toolsets", default=",".join(SEARCHES))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--misses", action="store_true", help="print what did not come first")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for toolset in given.toolsets.split(",") if getattr(given, kind) else ():
                measure(toolset, kind, getattr(given, kind), given.work or Path(folder),
                        misses=given.misses)  # fmt: skip


if __name__ == "__main__":
    main()

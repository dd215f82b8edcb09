"""Does the first answer of the tool ``search`` name the definition that a fix changed?

    python bench/definitions_found.py TASKS REPOSITORIES [--work FOLDER] [--sample 40] [--misses]

TASKS is a folder with ``tasks.jsonl``: one object per line with ``repo`` ("owner/name"), ``text``
(the description of a fix) and ``gold``, the definitions that it changed, by file. REPOSITORIES has
a folder for each repository, called by its name without the owner, at the commit before the fixes.
Each is indexed once; ``--work`` keeps the indexes between runs.

The text is asked as an agent asks it: the MCP tool, with default settings. A definition is named
if its name is in the answer below the path of its file. It is shown if one of its lines is among
those that the first three places show; Universal Ctags (``ctags``) says which lines are its own.
Tokens are characters / 4 of everything a model reads. Nothing is written to the folders.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lookfar import Library
from lookfar.common.caller import Progress
from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.tool import Session


class Caller:
    """A call by a program that neither listens to progress nor confirms anything."""

    client = "bench"

    def check(self) -> None:
        return None

    def report(self, progress: Progress) -> None:
        return None

    def confirm(self, question: str) -> bool:
        raise NotImplementedError(question)


_FIRST = 3
"""Places of an answer that an agent looks at in any case."""
_PLACE = re.compile(r"  (\d+)(?:-\d+)?(?= |$)")
_SHOWN = re.compile(r"\s+(\d+)[|:]|.* \| (\d+): ")


class Outcome(NamedTuple):
    """What the answer to one task has."""

    file: bool
    named: bool
    shown: bool
    in_text: bool
    """Whether the task itself has the name of a changed definition."""
    tokens: float
    cpu: float
    """Seconds."""


class Place(NamedTuple):
    """A place in an answer, and the lines of it that are shown."""

    path: str
    lines: list[int]


def read_blocks(answer: str) -> tuple[dict[str, str], list[Place]]:
    """Return what an answer says about each file, and its places in their order."""
    blocks: dict[str, str] = {}
    places: list[Place] = []
    path = ""
    for line in answer.split("\n"):
        if not line.startswith(" "):
            path = line.partition("  ")[0]
        blocks[path] = f"{blocks.get(path, '')}\n{line}"
        if _PLACE.match(line):
            places.append(Place(path, []))
        shown = _SHOWN.match(line)
        if shown and line.startswith(" ") and places:
            places[-1].lines.append(int(shown[1] or shown[2]))
    return blocks, [place for place in places if place.lines]


def find_spans(file: Path, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first and last lines of the definitions with these names."""
    command = ["ctags", "--output-format=json", "--fields=+ne", "-f", "-", str(file)]
    ran = subprocess.run(command, capture_output=True, check=True)
    tags = map(json.loads, ran.stdout.decode("utf-8", "replace").splitlines())
    return [(tag["line"], tag.get("end", tag["line"])) for tag in tags if tag["name"] in names]


def contains(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def ask(session: Session, folder: Path, task: dict[str, Any]) -> tuple[Outcome, str]:
    """Ask one task, and judge the answer."""
    began = time.process_time()
    result = SEARCH.run(session, {"query": task["text"]}, Caller())
    cpu = time.process_time() - began
    answer = "\n".join(filter(None, (result.body, result.text)))
    blocks, places = read_blocks(result.body)
    gold: dict[str, list[str]] = task["gold"]
    named = any(contains(blocks.get(path, ""), name) for path in gold for name in gold[path])
    shown = any(
        place.path == path and any(first <= line <= last for line in place.lines)
        for path in gold
        for first, last in find_spans(folder / path, gold[path])
        for place in places[:_FIRST]
    )
    in_text = any(contains(task["text"], name) for names in gold.values() for name in names)
    file = any(path in blocks for path in gold)
    return Outcome(file, named, shown, in_text, len(answer) / 4, cpu), answer


def describe(name: str, outcomes: Sequence[Outcome]) -> str:
    """Format a row of the table."""
    without = [outcome for outcome in outcomes if not outcome.in_text]

    def share(values: Sequence[float]) -> str:
        return f"{sum(values) / (len(values) or 1):8.3f}"

    return (
        f"{name:16}{len(outcomes):6}"
        + share([outcome.file for outcome in outcomes])
        + share([outcome.named for outcome in outcomes])
        + share([outcome.named for outcome in without])
        + share([outcome.shown for outcome in outcomes])
        + share([outcome.shown for outcome in without])
        + f"{sum(outcome.tokens for outcome in outcomes) / (len(outcomes) or 1):8.0f}"
        + f"{sum(outcome.cpu for outcome in outcomes) / (len(outcomes) or 1) * 1000:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", type=Path)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--sample", type=int, default=0, help="tasks of each repository")
    parser.add_argument("--misses", action="store_true", help="show tasks that are not named")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    lines = (given.tasks / "tasks.jsonl").read_text("utf-8").splitlines()
    by_folder: dict[str, list[dict[str, Any]]] = {}
    for task in map(json.loads, lines):
        by_folder.setdefault(task["repo"].rpartition("/")[2], []).append(task)
    print(f"{'':16}{'tasks':>6}{'file':>8}{'named':>8}{'-name':>8}{'shown':>8}{'-name':>8}"
          f"{'tokens':>8}{'CPU ms':>8}")  # fmt: skip
    everything: list[Outcome] = []
    for name, tasks in by_folder.items():
        folder = given.repositories / name
        outcomes = []
        with Library.open(folder, index_dir=work / name) as library:
            library.index()
            session = Session(library)
            for task in tasks[:: max(1, len(tasks) // given.sample) if given.sample else 1]:
                outcome, answer = ask(session, folder, task)
                outcomes.append(outcome)
                if given.misses and not outcome.named:
                    print(f"\n{task['text'][:400]}\n{task['gold']}\n{answer}\n")
        everything += outcomes
        print(describe(name, outcomes), flush=True)
    print(describe("all", everything))


if __name__ == "__main__":
    main()

"""Compare the call graph with what a language's own tool says about every call.

    python bench/calls.py FOLDER --jedi PYTHON [--work FOLDER] [--wrong 20]
    python bench/calls.py FOLDER --typescript PACKAGE [--work FOLDER] [--wrong 20]

FOLDER is a checked-out repository. PYTHON is an interpreter that has ``jedi`` installed, PACKAGE
the folder of the npm package ``typescript``. Both tools are asked for the definition of every call.

Precision: of the calls that Lookfar marks certain and for which the tool names a definition, in or
outside of the repository, how many lead to the same one. Recall: of the calls for which the tool
names a function, class or method of the repository, how many lead there; once with certain edges
only, once also by name. Calls of local variables and parameters are left out: they are not direct.
The overloads of a function are one definition.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from lookfar import Library
from lookfar.retrieve.calls.code_files import CodeFiles
from lookfar.retrieve.calls.resolve import Resolver

GOALS = {"precision of certain edges": 0.95, "recall of direct calls": 0.8}
SETTINGS = {"embed.provider": "hash", "git.history": False}
Target = tuple[str, int]
Site = tuple[str, int, str]


class Ours(NamedTuple):
    """What Lookfar says about the calls of one name on one line."""

    certain: frozenset[Target]
    named: frozenset[Target]


def read_ours(folder: Path, work: Path) -> tuple[dict[Site, Ours], dict[Target, Target]]:
    """Return the edges of every call, and the place of every definition or its first overload."""
    certain: dict[Site, set[Target]] = defaultdict(set)
    named: dict[Site, set[Target]] = defaultdict(set)
    places: dict[Target, Target] = {}
    with Library.open(folder, index_dir=work, settings=SETTINGS) as library:
        library.index()
        collection = library._members.folders[library.collection]
        with collection.store.snapshot() as snapshot:
            files = CodeFiles(snapshot)
            resolver = Resolver(files)
            for document in files.documents.values():
                file = files.file(document)
                first: dict[tuple[int, str], Target] = {}
                for symbol in file.facts.symbols:
                    place = (file.uri, symbol.line)
                    places[place] = first.setdefault((symbol.parent, symbol.title), place)
                for call in file.facts.calls:
                    site = (file.uri, call.line, call.name)
                    reached = resolver.resolve(file, call)
                    lines = set()
                    for place in reached.places:
                        other = files.file(place.document)
                        lines.add((other.uri, other.symbols[place.section].line))
                    (certain if reached.certain else named)[site] |= lines
    sites = {*certain, *named}
    return (
        {site: Ours(frozenset(certain[site]), frozenset(named[site])) for site in sites},
        places,
    )


def ask_tool(command: list[str]) -> list[dict[str, Any]]:
    """Run a tool that prints one JSON object per call."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(
    ours: dict[Site, Ours], places: dict[Target, Target], answers: list[dict[str, Any]], wrong: int
) -> dict[str, float]:
    """Print and return precision and recall."""
    grouped: dict[Site, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        grouped[answer["uri"], answer["line"], answer["name"]].append(answer)
    right = judged = direct = reached = reached_certain = unknown = 0
    shown: list[str] = []
    for site, same in grouped.items():
        named = {(uri, line) for answer in same for uri, line, _ in answer["targets"]}
        # A target that is not a definition of the outline is a local variable or a parameter.
        wanted = {places[target] for target in named if target in places}
        theirs = wanted | (named - places.keys())
        outside = any(answer["outside"] for answer in same)
        edges = ours.get(site, Ours(frozenset(), frozenset()))
        certain = {places[target] for target in edges.certain}
        every = certain | {places[target] for target in edges.named}
        for target in certain:
            if not theirs and not outside:
                unknown += 1
                continue
            judged += 1
            right += target in theirs
            if target not in theirs and len(shown) < wrong:
                shown.append(f"wrong   {site} -> {target}; the tool: {sorted(theirs) or 'outside'}")
        if wanted and not outside:
            direct += 1
            reached += bool(wanted & every)
            reached_certain += bool(wanted & certain)
            if not wanted & every and len(shown) < 2 * wrong:
                shown.append(f"missed  {site}; the tool: {sorted(wanted)}; ours: {edges}")
    print("\n".join(sorted(shown)))
    figures = {
        "precision of certain edges": right / max(judged, 1),
        "recall of direct calls": reached / max(direct, 1),
        "recall with certain edges only": reached_certain / max(direct, 1),
    }
    print(f"{len(grouped):,} calls; {direct:,} of them direct calls inside the repository")
    print(f"{judged:,} certain edges judged, {unknown:,} more the tool says nothing about")
    for name, value in figures.items():
        goal = f"  (goal {GOALS[name]})" if name in GOALS else ""
        print(f"{name:34} {value:.3f}{goal}")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jedi", metavar="PYTHON")
    parser.add_argument("--typescript", metavar="PACKAGE")
    parser.add_argument("--work", type=Path, help="keep the index and the tool's answers here")
    parser.add_argument("--wrong", type=int, default=0, help="show so many wrong and missed edges")
    given = parser.parse_args()
    here = Path(__file__).parent
    folder = given.folder.resolve()
    if given.jedi:
        command = [given.jedi, str(here / "calls_jedi.py"), str(folder)]
    elif given.typescript:
        command = ["node", str(here / "calls_typescript.mjs"), given.typescript, str(folder)]
    else:
        parser.error("give --jedi or --typescript")
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        kept = work / f"{folder.name}-answers.json"
        if not kept.exists():
            kept.write_text(json.dumps(ask_tool(command)), encoding="utf-8")
        ours, places = read_ours(folder, work / "index")
        figures = compare(ours, places, json.loads(kept.read_text(encoding="utf-8")), given.wrong)
    return 0 if all(figures[name] >= goal for name, goal in GOALS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Does the tool ``search`` show the lines that the answer to a question about a repository cites?

    python bench/cited_lines.py QUESTIONS REPOSITORIES [--work FOLDER] [--budget 1500] [--sample 25]

QUESTIONS is a folder with ``NAME.jsonl`` for each repository: one object per line with ``question``
and ``answer``, as the folder ``Benchmark`` of SWE-QA has them. REPOSITORIES has a folder NAME for
each, at the commit that its answers are about. Each is indexed once; ``--work`` keeps the indexes.

Of an answer count the lines that it cites: ``path.py:12``, "line 12" and "lines 12-20", each with
the path right behind it ("lines 12-20 in path.py"), or else the last path before it. A path may be
the end of one; if several files end with it, the answer must name one of them in full, or one must
be higher than the others and not a test. What is cited twice counts once. Lines that do not exist
and answers without any are left out.

A citation is shown if the answer of the tool has one of its lines, and placed if one of its lines
is in a place that the answer shows lines of. All figures are means over the questions: the share of
the files cited among the first five of the answer and among all, of citations shown and placed.
Tokens are characters / 4 of everything a model reads.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from definitions_found import Caller, read_blocks

from lookfar import Library
from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.tool import Session

_PATH = re.compile(r"(?<![\w/.-])(?:\./|/)?((?:[\w.-]+/)*[\w.-]*\w\.[a-z]\w{0,4})\b")
_DASH = r"\s*[-–—]\s*"
_NUMBERS = rf"\d{{1,5}}(?:{_DASH}\d{{1,5}})?(?:\s*(?:,|and|&)\s*\d{{1,5}}(?:{_DASH}\d{{1,5}})?)*"
_LINES = re.compile(rf"\b[Ll]ines?\s*:?\s*({_NUMBERS})")
_COLON = re.compile(rf":({_NUMBERS})")
_ONE = re.compile(rf"(\d+)(?:{_DASH}(\d+))?")
_BEHIND = re.compile(r"\)?\s*(?:in|of|from)\s+(?:the\s+file\s+)?[`*(]*")
_SPAN = re.compile(r"  (\d+)(?:-(\d+))?(?= |$)")


class Citation(NamedTuple):
    path: str
    first: int
    last: int


class Outcome(NamedTuple):
    first_files: float
    files: float
    shown: float
    placed: float
    tokens: float


def find_file(name: str, files: dict[str, int], named: Sequence[str]) -> str:
    """Return the file that a path, or the end of one, means; empty if that is not clear."""
    if name in files:
        return name
    ending = [path for path in files if path.endswith(f"/{name}")]
    in_full = [path for path in named if path in ending]
    if in_full:
        return in_full[-1]
    if len(ending) > 1:
        ending = [path for path in ending if "test" not in path]
        highest = min((path.count("/") for path in ending), default=0)
        ending = [path for path in ending if path.count("/") == highest]
    return ending[0] if len(ending) == 1 else ""


def find_citations(answer: str, files: dict[str, int]) -> set[Citation]:
    """Return the lines that an answer cites; ``files`` has the number of lines of each."""
    endings = {path.rpartition(".")[2] for path in files}
    matches = [m for m in _PATH.finditer(answer) if m[1].rpartition(".")[2] in endings]
    named = [match[1] for match in matches if match[1] in files]
    paths = []
    for match in matches:
        path = find_file(match[1], files, named)
        named += [path] if path else []
        paths.append((match.start(), match.end(), path))
    cited = [(path, colon[1]) for _, end, path in paths if (colon := _COLON.match(answer, end))]
    for match in _LINES.finditer(answer):
        path = next((path for _, end, path in reversed(paths) if end <= match.start()), "")
        behind = next((one for one in paths if one[0] >= match.end()), None)
        if behind and _BEHIND.fullmatch(answer, match.end(), behind[0]):
            path = behind[2]
        cited.append((path, match[1]))
    return {
        Citation(path, int(one[1]), int(one[2] or one[1]))
        for path, numbers in cited
        for one in _ONE.finditer(numbers)
        if 0 < int(one[1]) <= int(one[2] or one[1]) <= files.get(path, 0)
    }


def ask(session: Session, question: str, citations: set[Citation], budget: int) -> Outcome:
    """Ask one question, and judge the answer."""
    result = SEARCH.run(session, {"query": question, "budget": budget}, Caller())
    blocks, places = read_blocks(result.body)
    shown = {(place.path, line) for place in places for line in place.lines}
    spans = [
        (path, int(span[1]), int(span[2] or span[1]))
        for path, block in blocks.items()
        for line in block.split("\n")
        if (span := _SPAN.match(line))
    ]
    order = [path for path in blocks if path]
    cited = {citation.path for citation in citations}
    return Outcome(
        len(cited.intersection(order[:5])) / len(cited),
        len(cited.intersection(order)) / len(cited),
        sum(any((p, at) in shown for at in range(first, last + 1)) for p, first, last in citations)
        / len(citations),
        sum(any(p == path and low <= last and first <= high for path, low, high in spans)
            for p, first, last in citations) / len(citations),
        len("\n".join(filter(None, (result.body, result.text)))) / 4,
    )  # fmt: skip


def count_lines(folder: Path) -> Iterator[tuple[str, int]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and ".git" not in file.parts:
            yield file.relative_to(folder).as_posix(), file.read_bytes().count(b"\n") + 1


def describe(name: str, outcomes: Sequence[Outcome]) -> str:
    """Format a row of the table."""
    means = [sum(column) / len(outcomes) for column in zip(*outcomes, strict=True)]
    return (
        f"{name:16}{len(outcomes):6}"
        + "".join(f"{mean:9.3f}" for mean in means[:-1])
        + (f"{means[-1]:8.0f}")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("questions", type=Path)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--budget", type=int, default=1_500)
    parser.add_argument("--sample", type=int, default=0, help="questions of each repository")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    print(f"{'':16}{'asked':>6}{'file@5':>9}{'file':>9}{'shown':>9}{'placed':>9}{'tokens':>8}")
    everything: list[Outcome] = []
    for source in sorted(given.questions.glob("*.jsonl")):
        folder = given.repositories / source.stem
        if not folder.is_dir():
            continue
        files = dict(count_lines(folder))
        rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
        asked = [(row["question"], find_citations(row["answer"], files)) for row in rows]
        asked = [(question, citations) for question, citations in asked if citations]
        if 0 < given.sample < len(asked):
            step = len(asked) / given.sample
            asked = [asked[int(at * step)] for at in range(given.sample)]
        with Library.open(folder, index_dir=work / source.stem) as library:
            library.index()
            session = Session(library)
            outcomes = [ask(session, *one, given.budget) for one in asked]
        everything += outcomes
        if outcomes:
            print(describe(source.stem, outcomes), flush=True)
    print(describe("all", everything))


if __name__ == "__main__":
    main()

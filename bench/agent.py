"""What does an answer cost an agent? Tokens until the answering lines were seen, and ripgrep's.

    python bench/agent.py --repositories DIR [--search detail=passages] [--only httpx,message]
    python bench/agent.py --sources          where the repositories come from

DIR has one checkout with history per repository of ``agent_questions.toml``, at the commit named
there; nothing is fetched. Each is indexed with its commits, then ``lookfar mcp`` is started and
asked by the official SDK's client as an agent would: ``search`` with the question and otherwise
default arguments (``--search KEY=VALUE`` adds to them); where the document is listed but its
answering lines are not shown, ``read`` of the place that covers them, then of the document, then
of thirty lines, as one who has seen its outline opens a part of it; else the next wording of the
question. Until the lines were seen, every result counts.

A token is four characters of what a model gets to see of a result: its text blocks, and of every
resource link the name and the address. Structured content does not count: Lookfar sends no text
in it that is not in a text block, and clients show a model one or the other. The tools and
instructions, which a session pays for once, are reported apart.

``rank`` is the place of the document, and of the place in it that covers the answering lines,
among those that the answer lists; ``full`` says that the first answer showed the answering lines.
The baseline beside it is the output of the ripgrep, sed and git log commands of the panel, run in
the same checkout until they have shown the same lines. An expectation that the checkout does not
have is reported as such, and its question counts as not found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

PANEL = Path(__file__).parent / "agent_questions.toml"
RIPGREP = PANEL.with_name("agent_ripgrep.conf")
"""Sorts by path, so that what ``head`` leaves is the same in every run."""
COMMIT = re.compile(r"[0-9a-f]{7,40}")
# "[3] httpx@git: 4fb95...:1-14 | ..." names a passage, "docs/ssl.md  SSL" and "commit 4fb95..."
# name documents in a map.
LISTED = re.compile(
    r"^(?:\[?\d+[\].]\s)?(?:commit |[\w.@-]+: )?(?P<document>[^\s:|]+)"
    r"(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?(?=[\s|,]|$)"
)
BELOW = re.compile(r"^\s+(?P<first>\d+)(?:-(?P<last>\d+))?(?=[\s:]|$)")
"""A place of the document that a map names above it."""


@dataclass(frozen=True)
class Answer:
    document: str
    """A path in the repository, or the full hash of a commit."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    repository: str
    category: str
    queries: tuple[str, ...]
    answers: tuple[Answer, ...]
    ripgrep: tuple[str, ...]

    @property
    def page(self) -> bool:
        """Whether it asks for a page, which its name answers."""
        return self.category == "page"


@dataclass(frozen=True)
class Place:
    """A part of a document as an answer lists it, with what it shows of it."""

    document: str
    first: int
    last: int
    text: str

    @property
    def target(self) -> str:
        return f"{self.document}:{self.first}-{self.last}" if self.first else self.document


@dataclass
class Outcome:
    question: str
    repository: str
    category: str
    found: bool = False
    tokens: int = 0
    """Until the answering lines were seen, or until there was nothing left to try."""
    calls: int = 0
    answer_tokens: int = 0
    """Of the first answer alone, as are the ranks (0: not listed) and ``full``."""
    document_rank: int = 0
    place_rank: int = 0
    full: bool = False
    ripgrep_found: bool = False
    ripgrep_tokens: int = 0
    ripgrep_calls: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Checkout:
    """A repository on disk, and the names by which answers may cite its documents."""

    folder: Path
    documents: frozenset[str] = field(repr=False)
    commits: tuple[str, ...] = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> Checkout:
        paths = git(folder, "ls-files", "-z").split("\0")
        commits = git(folder, "rev-list", "--all").split()
        return cls(folder, frozenset(filter(None, paths)), tuple(sorted(commits)))

    def resolve(self, name: str) -> str:
        """Return the path or the full hash that a name in an answer stands for, or nothing."""
        if name in self.documents:
            return name
        at = bisect_left(self.commits, name) if COMMIT.fullmatch(name) else len(self.commits)
        following = self.commits[at : at + 1]
        return following[0] if following and following[0].startswith(name) else ""

    def line_of(self, answer: Answer) -> int:
        """Return the line where the answer begins; 0 where the checkout lacks some of it."""
        if answer.document in self.commits:
            text = git(self.folder, "show", "-s", "--format=%B%nAuthor: %an", answer.document)
        elif answer.document in self.documents:
            text = (self.folder / answer.document).read_text(encoding="utf-8", errors="replace")
        else:
            return 0
        if not has_lines(text, answer.lines):
            return 0
        wanted = squeeze(answer.lines[0])
        numbered = enumerate(text.splitlines(), 1)
        return next((number for number, line in numbered if wanted in squeeze(line)), 0)


def git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
    )
    return run.stdout


def squeeze(text: str) -> str:
    return " ".join(text.split())


def has_lines(text: str, lines: Sequence[str]) -> bool:
    """Whether every one of the lines is in the text, whatever the white space."""
    squeezed = squeeze(text)
    return all(squeeze(line) in squeezed for line in lines)


def count_tokens(text: str) -> int:
    return -(-len(text) // 4)


def load_panel(path: Path) -> tuple[dict[str, dict[str, str]], list[Question]]:
    panel = tomllib.loads(path.read_text(encoding="utf-8"))
    questions = [
        Question(
            row["repository"],
            row["category"],
            tuple(row["queries"]),
            tuple(Answer(answer["document"], tuple(answer["lines"])) for answer in row["answers"]),
            tuple(row["ripgrep"]),
        )
        for row in panel["questions"]
    ]
    return panel["repositories"], questions


# --- what an answer lists -----------------------------------------------------------------------


def list_places(text: str, checkout: Checkout) -> Iterator[Place]:
    """Yield what an answer lists, in its order, each with the text up to the next one."""
    rows = [(line, match_document(line, checkout)) for line in text.split("\n")]
    # Passages are named with their lines; any other name is then part of what they show.
    passages = any(match and match["first"] for _, match in rows)
    document, first, last = "", 0, 0
    shown: list[str] = []
    for line, named in rows:
        if passages:
            match = named if named and named["first"] else None
        else:
            match = named or (BELOW.match(line) if document else None)
        if match is None:
            shown.append(line)
            continue
        if document:
            yield Place(document, first, last, "\n".join(shown))
        document = checkout.resolve(named["document"]) if named else document
        first = int(match["first"] or 0)
        last = int(match["last"] or first)
        shown = [line]
    if document:
        yield Place(document, first, last, "\n".join(shown))


def match_document(line: str, checkout: Checkout) -> re.Match[str] | None:
    """Match a line that begins with the name of a document."""
    match = LISTED.match(line)
    return match if match and checkout.resolve(match["document"]) else None


def shows(places: Sequence[Place], answer: Answer, page: bool) -> bool:
    """Return whether an answer is shown: its lines, or where a page is asked for, its name."""
    of_document = [place.text for place in places if place.document == answer.document]
    return bool(of_document) if page else has_lines("\n".join(of_document), answer.lines)


def rank_of(places: Sequence[Place], answer: Answer, line: int) -> tuple[int, int]:
    """Return the rank of the document and of the place that covers the line; 0 if not listed."""
    documents = list(dict.fromkeys(place.document for place in places))
    if answer.document not in documents:
        return 0, 0
    with_lines = [place for place in places if place.first] or list(places)
    covering = (
        rank
        for rank, place in enumerate(with_lines, 1)
        if place.document == answer.document and place.first <= line <= place.last
    )
    return documents.index(answer.document) + 1, next(covering, 0)


# --- an agent with Lookfar ------------------------------------------------------------------------


class Agent:
    """One MCP session that counts what a model would see."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.tokens = self.calls = 0

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(visible(block) for block in result.content)
        if result.is_error and tool != "read":
            sys.exit(f"{tool} {arguments}: {text}")
        self.tokens += count_tokens(text)
        self.calls += 1
        return text

    async def overhead(self) -> int:
        """Tokens that the session pays once: the list of tools and the instructions."""
        listed = await self._client.list_tools()
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
        shape = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
        return count_tokens(shape) + count_tokens(self._client.instructions or "")


def visible(block: Any) -> str:
    """Return what a client shows a model of a content block."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"{block.name} {block.uri}"
    return str(block.model_dump_json(by_alias=True, exclude_none=True))


async def ask(
    agent: Agent, question: Question, checkout: Checkout, search: dict[str, Any]
) -> Outcome:
    """Let an agent look for the answer, and return what that cost."""
    outcome = Outcome(question.queries[0], question.repository, question.category)
    lines = {answer: checkout.line_of(answer) for answer in question.answers}
    if missing := [answer.document for answer, line in lines.items() if not line]:
        outcome.problem = f"the checkout lacks the expected lines in {', '.join(missing)}"
        return outcome
    agent.tokens = agent.calls = 0
    for query in question.queries:
        text = await agent.call("search", query=query, **search)
        places = list(list_places(text, checkout))
        best = min(
            question.answers,
            key=lambda answer: (
                not shows(places, answer, question.page),
                rank_of(places, answer, lines[answer])[0] or len(places) + 1,
            ),
        )
        ranks = rank_of(places, best, lines[best])
        outcome.found = shows(places, best, question.page)
        if agent.calls == 1:
            outcome.answer_tokens, outcome.full = agent.tokens, outcome.found
            outcome.document_rank, outcome.place_rank = ranks
        if not outcome.found and ranks[0]:
            outcome.found = await open_places(agent, best, lines[best], places)
        if outcome.found:
            break
    outcome.tokens, outcome.calls = agent.tokens, agent.calls
    return outcome


async def open_places(agent: Agent, answer: Answer, line: int, places: Sequence[Place]) -> bool:
    """Read the place that covers the answer, else the document, else the lines around it."""
    covering = [
        place.target
        for place in places
        if place.document == answer.document and place.first <= line <= place.last
    ]
    around = f"{answer.document}:{max(1, line - 10)}-{line + 20}"
    for target in dict.fromkeys([*covering[:1], answer.document, around]):
        if has_lines(await agent.call("read", target=target), answer.lines):
            return True
    return False


# --- an agent with ripgrep ------------------------------------------------------------------------


def ask_ripgrep(question: Question, checkout: Checkout, outcome: Outcome) -> None:
    """Run the panel's commands until they have shown the answering lines."""
    if outcome.problem:
        return
    seen = ""
    for command in question.ripgrep:
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=checkout.folder,
            env={**os.environ, "RIPGREP_CONFIG_PATH": str(RIPGREP)},
            capture_output=True,
            check=False,
        )
        output = (run.stdout + run.stderr).decode("utf-8", "replace")
        seen += output
        outcome.ripgrep_tokens += count_tokens(output)
        outcome.ripgrep_calls += 1
        named = question.page and any(answer.document in seen for answer in question.answers)
        if named or any(has_lines(seen, answer.lines) for answer in question.answers):
            outcome.ripgrep_found = True
            return


# --- the run --------------------------------------------------------------------------------------


def prepare(folder: Path, work: Path) -> None:
    """Index a checkout with its commits, so that no answer depends on when it was asked."""
    from lookfar import Library

    with Library.open(folder, index_dir=work) as library:
        library.index()
        for commits in library.histories().values():
            commits.index()


async def run(
    checkout: Checkout, questions: Sequence[Question], work: Path, search: dict[str, Any]
) -> tuple[int, list[Outcome]]:
    from mcp import Client, StdioServerParameters

    prepare(checkout.folder, work)
    server = StdioServerParameters(
        command=sys.executable,
        args=[
            "-m",
            "lookfar",
            "mcp",
            str(checkout.folder),
            "--no-daemon",
            "--index-dir",
            str(work),
        ],
        env=dict(os.environ),
    )
    outcomes = []
    async with Client(server) as client:
        agent = Agent(client)
        overhead = await agent.overhead()
        for question in questions:
            outcome = await ask(agent, question, checkout, search)
            ask_ripgrep(question, checkout, outcome)
            outcomes.append(outcome)
    return overhead, outcomes


def show(outcomes: Sequence[Outcome], overhead: int) -> None:
    print(f"{'category':11}{'tokens':>7}{'calls':>6}{'rank':>8}{'full':>6}{'rg':>8}  question")
    for outcome in outcomes:
        rank = f"{outcome.document_rank or '-'}/{outcome.place_rank or '-'}"
        ripgrep = f"{outcome.ripgrep_tokens:,}{'' if outcome.ripgrep_found else '?'}"
        full = "yes" if outcome.full else "no" if outcome.found else "-"
        print(f"{outcome.category:11}{outcome.tokens:7,}{outcome.calls:6}{rank:>8}{full:>6}"
              f"{ripgrep:>8}  {outcome.repository}: {outcome.question[:70]}")  # fmt: skip
        if outcome.problem or not outcome.found:
            print(f"{'':11}not found{': ' if outcome.problem else ''}{outcome.problem}")
        if not (outcome.problem or outcome.ripgrep_found):
            print(f"{'':11}not found by its ripgrep commands")
    print()
    print(f"{'category':11}{'asked':>6}{'found':>6}{'full':>6}{'first':>7}{'MRR':>6}{'answer':>8}"
          f"{'tokens':>8}{'calls':>6}{'rg':>7}{'calls':>6}{'ratio':>7}")  # fmt: skip
    categories = dict.fromkeys(outcome.category for outcome in outcomes)
    for category in categories:
        sum_up(category, [outcome for outcome in outcomes if outcome.category == category])
    sum_up("all", outcomes)
    print(f"\nOnce per session: {overhead:,} tokens for tools/list and the instructions.")


def sum_up(name: str, outcomes: Sequence[Outcome]) -> None:
    """Print the means of a category. ``first``: the document is first in the answer.

    Questions with a wrong expectation count as not found and cost nothing that could be averaged.
    """
    count = len(outcomes)
    ranks = [outcome.document_rank for outcome in outcomes]
    asked = [outcome for outcome in outcomes if not outcome.problem] or outcomes
    tokens = mean(outcome.tokens for outcome in asked)
    ripgrep = mean(outcome.ripgrep_tokens for outcome in asked)
    print(f"{name:11}{count:6}{sum(outcome.found for outcome in outcomes):6}"
          f"{sum(outcome.full for outcome in outcomes) / count:6.0%}"
          f"{sum(rank == 1 for rank in ranks) / count:7.0%}"
          f"{mean(1 / rank if rank else 0.0 for rank in ranks):6.2f}"
          f"{mean(outcome.answer_tokens for outcome in asked):8,.0f}{tokens:8,.0f}"
          f"{mean(outcome.calls for outcome in asked):6.1f}{ripgrep:7,.0f}"
          f"{mean(outcome.ripgrep_calls for outcome in asked):6.1f}"
          f"{tokens / ripgrep if ripgrep else 0:7.2f}")  # fmt: skip


def parse_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE, where a value that is JSON means what JSON says."""
    arguments = {}
    for key, _, value in (pair.partition("=") for pair in pairs):
        try:
            arguments[key] = json.loads(value)
        except ValueError:
            arguments[key] = value
    return arguments


def find_checkout(folder: Path, name: str, source: dict[str, str]) -> Checkout:
    if not (folder / name / ".git").exists():
        sys.exit(f"{folder / name} is not a checkout; --sources says how to get it.")
    head = git(folder / name, "rev-parse", "HEAD").strip()
    if head != source["commit"]:
        print(f"{name} is at {head[:12]}, the panel is about {source['commit'][:12]}: answers"
              " may have moved.", file=sys.stderr)  # fmt: skip
    return Checkout.open(folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repositories", type=Path, metavar="DIR", help="holds the checkouts")
    parser.add_argument("--panel", type=Path, default=PANEL, help="other questions")
    parser.add_argument("--only", default="", help="repositories or categories, with commas")
    parser.add_argument("--search", action="append", default=[], metavar="KEY=VALUE",
                        help="a further argument of search, such as detail=passages")  # fmt: skip
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--sources", action="store_true", help="say how to get the checkouts")
    given = parser.parse_args()
    # Beside this file lie mcp.py and http.py, which are not the packages of these names.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != PANEL.parent.resolve()]
    repositories, questions = load_panel(given.panel)
    if given.sources or not given.repositories:
        for name, source in repositories.items():
            print(f"git clone https://github.com/{source['source']} {name} &&"
                  f" git -C {name} checkout --detach {source['commit']}")  # fmt: skip
        sys.exit(0 if given.sources else "Say where they are with --repositories DIR.")
    if not shutil.which("rg"):
        sys.exit("The baseline needs ripgrep (rg).")
    only = set(filter(None, given.only.split(",")))
    questions = [
        question
        for question in questions
        if not only or only & {question.repository, question.category}
    ]
    work = given.work or Path(tempfile.mkdtemp(prefix="lf"))
    overhead, outcomes = 0, []
    try:
        for name in dict.fromkeys(question.repository for question in questions):
            checkout = find_checkout(given.repositories.resolve(), name, repositories[name])
            asked = [question for question in questions if question.repository == name]
            overhead, answered = asyncio.run(
                run(checkout, asked, work / name, parse_arguments(given.search))
            )
            outcomes += answered
    finally:
        if not given.work:
            shutil.rmtree(work, ignore_errors=True)
    if given.json:
        shapes = [asdict(outcome) for outcome in outcomes]
        print(json.dumps({"overhead": overhead, "questions": shapes}, ensure_ascii=False))
    else:
        show(outcomes, overhead)


if __name__ == "__main__":
    main()

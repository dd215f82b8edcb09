"""The reliability lanes: every harness of `docs/reliability.md`, and the table made from a run.

Takes: the name of a lane. Gives: a line per harness (trials, faults, failures, seconds), and with
`--report` the tables of the page. Refuses: to call a lane good in which a harness failed, told a
failure, was skipped in part, is missing, or tried less than the plan asks of a night. With
`--only` and `--report`, the rows of those modules are renewed, and the page says so.

    python scripts/reliability.py pull-request
    python scripts/reliability.py nightly --report docs/reliability.md
    python scripts/reliability.py pin

The first is to take less than 8 minutes, the second less than 60: a lane that took longer says so,
and is not at fault for it, as machines differ. Power loss needs strace. `pin` renews the hashes of
what models are told of the tools, after a change that is meant.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
FUZZ_SECONDS = 60
"""For each target, in the nightly lane."""
ALONE = ("serve/http/test_http_load.py",)
"""Modules whose figures other work beside them would spoil."""
MINUTES = {"pull-request": 8, "nightly": 60}
"""What a lane is to take at most."""

_CAUGHT = re.compile(
    r"((?:Seen to fail|Proved by mutations?|[A-Z][^.]*\bdisabled in turn)[^.]*(?:\.(?!\s)[^.]*)*)\."
)
"""The sentence of a docstring that says what a harness was seen to catch."""


@dataclass(frozen=True)
class Harness:
    """What is promised, and the tests that would notice if it did not hold."""

    promise: str
    tests: tuple[str, ...]
    """Modules below `tests`, or one test of a module."""


_HTTP = "serve/http/test_http_"

HARNESSES = (
    Harness("A crash at any write leaves the old state or the new one",
            ("faults/test_fault_points.py", "faults/test_vanishing_sources.py",
             "faults/test_second_model.py", "store/test_crashes.py", "index/test_resume.py",
             "edit/test_edit_crashes.py")),
    Harness("A folder that vanishes under a reader is gone, and no error",
            ("faults/test_vanishing_folders.py",)),
    Harness("A full disk is read, and named when it cannot be written", ("store/test_disk.py",)),
    Harness("Too little memory is named, and breaks nothing", ("faults/test_memory_limits.py",)),
    Harness("Power loss loses nothing that was reported done", ("faults/test_power_loss.py",)),
    Harness("Damage is found, told and rebuilt, and never served",
            ("faults/test_corruption.py", "store/test_damage.py")),
    Harness("A damaged database is never empty and never erased",
            ("faults/test_database_damage.py", "faults/test_swapped_files.py",
             "test_damaged_databases.py")),
    Harness("An index equals a rebuild, whatever happened",
            ("index/test_stateful.py", "index/test_equality.py")),
    Harness("Processes share a folder, and one writes", ("index/test_processes.py",)),
    Harness("One daemon serves, however many start",
            ("serve/daemon/test_daemon.py::test_daemons_race_and_one_serves",)),
    Harness("A reader sees one generation, never a mix", ("store/test_readers.py",)),
    Harness("The same question gets the same bytes", ("test_determinism.py",)),
    Harness("32 clients are answered during a reindex", ("serve/http/test_http_load.py",)),
    Harness("A rebuild ends among 64 sessions that search",
            ("serve/mcp/test_many_sessions.py", "test_turns.py")),
    Harness("Nothing outlives its parent", ("serve/daemon/test_orphans.py",)),
    Harness("A search is fresh whatever the watcher lost",
            ("index/test_storms.py", "index/test_keeper.py", "sources/test_watch.py")),
    Harness("A model is never mixed with another", ("index/test_model_change.py",)),
    Harness("A model that fails is an error, and no perfect match",
            ("serve/toolsets/test_failing_service.py",)),
    Harness("Hostile text is read in bounded time and rejoins", ("fuzz/test_corpus.py",)),
    Harness("A bomb costs little and hides nothing",
            ("test_bombs.py", "text/parse/test_frontmatter.py::test_yaml_that_is_refused",
             "sources/test_globs.py", "sources/test_ignore.py::test_no_line_is_slow")),
    Harness("Nothing outside the roots is read or written",
            ("serve/mcp/test_hostile_paths.py", "serve/http/test_http_hostile.py",
             "sources/test_confine.py", "sources/test_walk.py")),
    Harness("No other site and no other host gets in", ("serve/http/test_http_guard.py",)),
    Harness("Beyond this machine nothing is served without a token",
            (f"{_HTTP}guard.py::test_a_public_address_needs_a_token",)),
    Harness("Nothing is written without leave",
            ("serve/mcp/test_mcp_edits.py::test_it_is_offered_only_with_write",
             f"{_HTTP}rest.py::test_tools_that_write_are_offered_only_with_write")),
    Harness("Secrets stay unread, and no setting of a project lets them in",
            ("serve/mcp/test_planted_secrets.py", "serve/http/test_http_secrets.py",
             "sources/test_secret_rules.py", "test_secrets.py", "sources/test_policy.py")),
    Harness("A repository runs nothing and configures little",
            ("sources/test_git_arguments.py", "sources/test_git_history.py",
             "test_hostile_config.py")),
    Harness("What documents say stays data",
            ("serve/mcp/test_injected_text.py", "test_hidden_characters.py")),
    Harness("A repository leads nowhere, ends, and costs little",
            ("sources/test_hostile_repositories.py", "sources/test_repositories.py")),
    Harness("No edit is lost", ("edit/test_edit_races.py",)),
    Harness("An edit keeps line ends and marks",
            ("edit/test_edit_documents.py::test_line_ends_the_mark_and_the_last_newline_stay",)),
    Harness("HTTP answers every schema with one shape", ("serve/http/test_http_openapi.py",)),
    Harness("Earlier indexes open or are built anew", ("store/test_old_indexes.py",)),
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """The least that a night has to try, of all figures whose names begin alike."""

    figures: str
    """How their names begin. A figure belongs to the longest beginning that it has."""
    least: int
    of: str = "trials"
    """Or `faults`, or `counted`: what a line counts besides."""


PLAN = (
    Planned("faults at write points", 500),
    Planned("power loss:", 2_000),
    Planned("power loss: syncs left out", 11, "faults"),
    Planned("corruption: processes that live", 3_000),
    Planned("damaged databases: 60", 1_000),
    Planned("damaged databases: 5,000", 1_000),
    Planned("swapped files", 500),
    Planned("sources ", 15),
    Planned("memory limits", 12),
    Planned("folders that come and go", 4_000),
    Planned("state machine", 100),
    Planned("state machine", 50, "faults"),
    Planned("8 processes start on one folder", 200, "counted"),
    Planned("kill -9 at a random moment", 100),
    Planned("daemons that race", 20),
    Planned("readers during activations", 100_000),
    Planned("readers during activations", 500, "faults"),
    Planned("32 clients during a reindex", 1_000),
    Planned("sessions during a rebuild", 64),
    Planned("sessions during a rebuild", 2_500, "counted"),
    Planned("parent dies", 100),
    Planned("storm of files", 100_000, "counted"),
    Planned("renames, atomic saves, swaps", 800),
    Planned("no events at all", 300),
    Planned("clock skew", 100),
    Planned("fuzz corpus:", 200),
    Planned("generated input:", 40_000),
    Planned("fuzzing:", 20),
    Planned("bombs", 13),
    Planned("hostile paths (MCP)", 200, "faults"),
    Planned("hostile paths (HTTP)", 200, "faults"),
    Planned("hostile addresses (HTTP)", 1_000),
    Planned("planted secrets", 200, "faults"),
    Planned("planted secrets over HTTP", 160, "faults"),
    Planned("secrets: look-alikes", 200),
    Planned("git arguments", 50, "faults"),
    Planned("hostile repositories", 60),
    Planned("hostile configuration", 1_000),
    Planned("injected text", 7, "faults"),
    Planned("edit races", 1_000),
    Planned("schema examples", 500),
    Planned("upgrade of", 4),
)
"""What the plan asks of the nightly lane, and where it has no figure, what a night is known to try.

Trials that another line has counted are not counted again; of hostile paths, the faults are those
that each argument was given.
"""

SKIPS = {
    "sources/test_confine.py": (
        "only root makes device nodes",
        "no device nodes in this container",
    ),
    "store/test_disk.py": ("cannot mount a small disk here",),
    "sources/test_repositories.py": ("only root gives files to others",),
}
"""What is skipped with leave: why, for each module. The lanes are run on Linux."""


@dataclass
class Run:
    """One module of tests in one lane."""

    test: str
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Why, for every test that was skipped without leave."""

    @property
    def good(self) -> bool:
        told = {line["name"] for line in self.lines}
        return (
            self.passed > 0
            and not self.failed
            and not self.skipped
            and not any(line["failures"] for line in self.lines)
            and all(not line.get("of") or line["of"] in told for line in self.lines)
        )

    @property
    def trials(self) -> int:
        """Each trial once, however many lines look at it; tests, where no line was told."""
        return sum(map(_own, self.lines)) if self.lines else self.passed


def _own(line: dict[str, Any]) -> int:
    return 0 if line.get("of") else int(line["trials"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lane", choices=("pull-request", "nightly", "pin"))
    parser.add_argument("--report", type=Path, help="the page whose tables are renewed")
    parser.add_argument("--only", default="", metavar="A,B",
                        help="only modules with one of these in their name")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="modules that run at once (default: one for each core)")  # fmt: skip
    given = parser.parse_args()
    if given.lane == "pin":
        return _pin()
    if given.report is not None and given.lane != "nightly":
        parser.error("the page is made from a nightly lane")
    if shutil.which("strace") is None:
        print("strace is not there (apt-get install strace): power loss is skipped, and no lane in "
              "which a harness is skipped is good.")  # fmt: skip
    begun = time.monotonic()
    wanted = given.only.split(",")
    tests = [
        test
        for harness in HARNESSES
        for test in harness.tests
        if any(part in test for part in wanted)
    ]
    runs = _run_all(tests, given.lane, given.jobs)
    fuzzed = _fuzz() if given.lane == "nightly" and given.only in "fuzz" else []
    spent = time.monotonic() - begun
    bad = at_fault(runs, fuzzed, night=given.lane == "nightly", whole=not given.only)
    print(f"\n{given.lane}: {len(runs)} modules in {_minutes(given.lane, spent)}; "
          f"{'all good' if not bad else 'AT FAULT: ' + ', '.join(bad)}")  # fmt: skip
    if given.report is not None:
        text = given.report.read_text(encoding="utf-8")
        whole = not given.only
        page = _page(text, given.lane, runs, fuzzed, spent, bad) if whole else renewed(text, runs)
        given.report.write_text(page, encoding="utf-8")
    return 1 if bad else 0


def _minutes(lane: str, spent: float) -> str:
    late = f" (MORE THAN {MINUTES[lane]})" if spent > 60 * MINUTES[lane] else ""
    return f"{spent / 60:.1f} minutes{late}"


def at_fault(
    runs: list[Run], fuzzed: list[dict[str, Any]], *, night: bool, whole: bool
) -> list[str]:
    """What keeps a lane from being good: modules, fuzzers, and figures short of the plan."""
    bad = [run.test for run in runs if not run.good]
    bad += [line["name"] for line in fuzzed if line["failures"]]
    if not runs and not fuzzed:
        bad.append("no module was run")
    if night:
        bad += short([line for run in runs for line in run.lines] + fuzzed, whole=whole)
    return bad


def short(told: list[dict[str, Any]], *, whole: bool) -> list[str]:
    """Every row of the plan of which too little was tried; all rows are due in a whole lane."""
    found = []
    for row in PLAN:
        lines = [line for line in told if _planned(line["name"]) == row.figures]
        number = sum(_number(line, row.of) for line in lines)
        if number < row.least and (lines or whole):
            found.append(f"{row.figures.strip(' :')} ({number:,} {row.of} of {row.least:,})")
    return found


def _number(line: dict[str, Any], of: str) -> int:
    return _own(line) if of == "trials" else int(line.get(of, 0))


def _planned(name: str) -> str:
    """The row of the plan that a figure belongs to, by the beginning of its name."""
    return max((row.figures for row in PLAN if name.startswith(row.figures)), key=len, default="")


def _asked(name: str) -> str:
    """What the plan asks of a figure, or of all that begin alike."""
    rows = [row for row in PLAN if row.figures == _planned(name)]
    said = ", ".join(f"{row.least:,}{'' if row.of == 'trials' else ' ' + row.of}" for row in rows)
    return said and said + ("" if rows[0].figures == name else " in all")


def _run_all(tests: Sequence[str], lane: str, jobs: int) -> list[Run]:
    """Run modules beside each other, and then one at a time those that measure times."""
    beside = [test for test in tests if test not in ALONE]
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        done = dict(zip(beside, pool.map(lambda test: _run(test, lane), beside), strict=True))
    done |= {test: _run(test, lane) for test in tests if test in ALONE}
    return [done[test] for test in tests]


def _run(test: str, lane: str) -> Run:
    found = Run(test)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        begun = time.monotonic()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-rs",
                "-p",
                "no:cacheprovider",
                # Full counts of trials take longer than a test may in the suite.
                *(["--timeout", "0"] if lane == "nightly" else []),
                f"tests/{test}",
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "RELIABILITY_TRIALS": "full" if lane == "nightly" else "quick",
                "RELIABILITY_REPORT": str(told),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found.seconds = time.monotonic() - begun
        if told.exists():
            found.lines = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
    found.skipped = skips_of(test, done.stdout)
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", _last(done.stdout))}
    found.passed = counts.get("passed", 0)
    found.failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    if done.returncode and not found.failed:
        found.failed = 1
    allowed = len(skips_of(test, done.stdout, leave=True))
    if counts.get("skipped", 0) != len(found.skipped) + allowed:
        found.skipped.append("tests of which nothing was told")
    for line in found.lines or [{"name": test, "trials": found.passed, "faults": 0,
                                 "failures": found.failed, "note": "tests"}]:  # fmt: skip
        print(f"{line['name'][:44]:44} trials {line['trials']:>8,}  faults {line['faults']:>6,}  "
              f"failures {line['failures']:>3}  {line['note']}")  # fmt: skip
    print(f"  {test}: {found.passed} passed, {found.failed} failed, "
          f"{len(found.skipped) + allowed} skipped, {found.seconds:.1f} s", flush=True)  # fmt: skip
    for why in found.skipped:
        print(f"  SKIPPED without leave: {why}")
    if not found.good:
        print(done.stdout[-3000:] + done.stderr[-1000:])
    return found


def skips_of(test: str, output: str, *, leave: bool = False) -> list[str]:
    """Why tests of a module were skipped without leave (or with it), once for each of them."""
    allowed = SKIPS.get(test.partition("::")[0], ())
    found = re.findall(r"^SKIPPED \[(\d+)\] [^:]+:(?:\d+:)? (.*)$", output, re.MULTILINE)
    return [
        why
        for number, why in found
        for _ in range(int(number))
        if any(each in why for each in allowed) == leave
    ]


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def _fuzz() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        done = subprocess.run(
            [sys.executable, "-m", "fuzz", "--seconds", str(FUZZ_SECONDS), "--report", str(told)],
            cwd=ROOT,
            check=False,
        )
        text = told.read_text("utf-8") if told.exists() else ""
    return fuzz_lines([json.loads(line) for line in text.splitlines()], done.returncode)


def fuzz_lines(told: list[dict[str, Any]], code: int) -> list[dict[str, Any]]:
    """A line for every target, of which those that told nothing have failed."""
    sys.path[:0] = [str(ROOT)]
    from fuzz.common import NAMES

    known = {line["name"] for line in told}
    empty = {"test": "python -m fuzz", "trials": 0, "faults": 0, "failures": 1}
    told = told + [
        {**empty, "name": name, "note": "told nothing"}
        for name in (f"fuzzing: {each}" for each in NAMES)
        if name not in known
    ]
    if code and not any(line["failures"] for line in told):
        told.append({**empty, "name": "fuzzing: all", "note": f"ended with {code}"})
    return told


def mutation_of(test: str) -> str:
    """What a harness was seen to catch, from the docstring of its module or of its tests."""
    name, _, function = test.partition("::")
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    texts = [ast.get_docstring(tree) or ""] if not function else []
    texts += [
        ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and function in ("", node.name)
    ]
    for text in texts:
        joined = " ".join(text.split())
        found = _CAUGHT.search(joined)
        if found:
            return found[1].replace("``", "`").replace("|", "\\|")
    return ""


def _page(
    text: str,
    lane: str,
    runs: Iterable[Run],
    fuzzed: Iterable[dict[str, Any]],
    spent: float,
    bad: Iterable[str] = (),
) -> str:
    """The page with its tables made anew from a run."""
    by_test = {run.test: run for run in runs}
    lines = [f"From a run of the {lane} lane: {_minutes(lane, spent)} on {os.cpu_count()} cores.",
             *(f"AT FAULT: {each}" for each in bad),
             "", "| promise | harness | seen to catch | trials | failures |",
             "|---|---|---|---:|---:|"]  # fmt: skip
    for harness in HARNESSES:
        for test in harness.tests:
            run = by_test.get(test)
            if run is None:
                continue
            lines.append(_promise_row(harness, run))
    lines += ["", "Asked is the least that a night has to try, in trials unless it says otherwise.",
              "", "| figure | trials | faults | failures | asked | |",
              "|---|---:|---:|---:|---:|---|"]  # fmt: skip
    told = [line for run in by_test.values() for line in run.lines] + list(fuzzed)
    lines += map(_figure_row, _together(told))
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}"


def _promise_row(harness: Harness, run: Run) -> str:
    failures = sum(line["failures"] for line in run.lines) + run.failed
    name = run.test.replace("::", "` `")
    return (f"| {harness.promise} | `tests/{name}` | {mutation_of(run.test)} "
            f"| {run.trials:,} | {failures} |")  # fmt: skip


def _figure_row(line: dict[str, Any]) -> str:
    same = f'the trials of "{line["of"]}"' if line.get("of") else ""
    note = "; ".join(filter(None, (line["note"], same)))
    return (f"| {line['name']} | {line['trials']:,} | {line['faults']:,} | {line['failures']} "
            f"| {_asked(line['name'])} | {note} |")  # fmt: skip


def renewed(text: str, runs: Iterable[Run]) -> str:
    """Return the page with the rows of these modules as they are now, and a note about that.

    A module that is good now is no longer named as at fault. New rows come last in their table.
    """
    runs = list(runs)
    owner = {test: harness for harness in HARNESSES for test in harness.tests}
    before, _, rest = text.partition(BEGIN)
    tables, _, after = rest.partition(END)
    promises, _, figures = tables.partition("| figure |")
    promises = _with_rows(promises, [_promise_row(owner[run.test], run) for run in runs], 1)
    told = _together(line for run in runs for line in run.lines)
    figures = _with_rows(f"| figure |{figures}", [_figure_row(line) for line in told], 0)
    for run in runs:
        if run.good:
            promises = promises.replace(f"AT FAULT: {run.test}\n", "")
    promises = re.sub(r" Rows of \d+ modules are from later runs\.", "", promises)
    since = f" Rows of {len(runs)} modules are from later runs."
    promises = promises.replace(" cores.", f" cores.{since}", 1)
    return f"{before}{BEGIN}{promises}{figures}{END}{after}"


def _with_rows(table: str, rows: Sequence[str], column: int) -> str:
    """A table in which rows replace those that are equal in one column, or are added."""
    lines = table.split("\n")
    for row in rows:
        key = row.split(" | ")[column].lstrip("| ")
        at = [
            number
            for number, line in enumerate(lines)
            if line.startswith("| ") and line.split(" | ")[column].lstrip("| ") == key
        ]
        if at:
            lines[at[0]] = row
        else:
            last = max(number for number, line in enumerate(lines) if line.startswith("|"))
            lines.insert(last + 1, row)
    return "\n".join(lines)


def figures_with_failures(page: str) -> list[str]:
    """The rows of a page's tables that have anything but 0 in the column of failures."""
    found: list[str] = []
    column = -1
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "failures" in cells:
            column = cells.index("failures")
        elif not cells:
            column = -1
        elif column >= 0 and not cells[0].startswith("-") and cells[column] != "0":
            found.append(line)
    return found


def _together(told: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of one name as one: parameters of a test each tell their own."""
    found: dict[str, dict[str, Any]] = {}
    for line in told:
        known = found.setdefault(line["name"], {**line, "trials": 0, "faults": 0, "failures": 0})
        for count in ("trials", "faults", "failures"):
            known[count] += line[count]
    return list(found.values())


def _pin() -> int:
    path = ROOT / "tests" / "serve" / "mcp" / "test_injected_text.py"
    sys.path[:0] = [str(ROOT / "tests")]
    spec = importlib.util.spec_from_file_location("injected_text", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PINS.write_text(module.pins(), encoding="utf-8")
    print(f"{module.PINS.relative_to(ROOT)} renewed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

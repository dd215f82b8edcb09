"""The reliability lanes: every harness of `docs/reliability.md`, and the table made from a run.

Takes: the name of a lane. Gives: a line per harness (trials, faults, failures, seconds), and with
`--report` the tables of the page. Refuses: to call a lane good in which a harness failed, was
skipped whole, or is missing from the table below.

    python scripts/reliability.py pull-request
    python scripts/reliability.py nightly --report docs/reliability.md
    python scripts/reliability.py pin

The first is to take less than 8 minutes, the second less than 60; power loss needs strace. `pin`
renews the hashes of what models are told of the tools, after a change that is meant.
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
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
FUZZ_SECONDS = 60
"""For each target, in the nightly lane."""


_CAUGHT = re.compile(
    r"((?:Seen to fail|Proved by mutations?|[A-Z][^.]*\bleft out in turn)[^.]*(?:\.(?!\s)[^.]*)*)\."
)
"""The sentence of a docstring that says what a harness was seen to catch."""


@dataclass(frozen=True)
class Harness:
    """What is promised, and the tests that would notice if it did not hold."""

    promise: str
    tests: tuple[str, ...]
    """Modules below `tests`, or one test of a module."""


HARNESSES = (
    Harness("A crash at any write leaves the old state or the new one",
            ("faults/test_fault_points.py", "faults/test_vanishing_sources.py",
             "store/test_crashes.py", "index/test_resume.py", "edit/test_edit_crashes.py")),
    Harness("Power loss loses nothing that was reported done", ("faults/test_power_loss.py",)),
    Harness("Damage is found, told and rebuilt, and never served",
            ("faults/test_corruption.py", "store/test_damage.py")),
    Harness("An index equals a rebuild, whatever happened",
            ("index/test_stateful.py", "index/test_equality.py")),
    Harness("Processes share a folder, and one writes", ("index/test_processes.py",)),
    Harness("One daemon serves, however many start",
            ("serve/test_daemon.py::test_daemons_race_and_one_serves",)),
    Harness("A reader sees one generation, never a mix", ("store/test_readers.py",)),
    Harness("The same question gets the same bytes", ("test_determinism.py",)),
    Harness("32 clients are answered during a reindex", ("serve/http/test_http_load.py",)),
    Harness("Nothing outlives its parent", ("serve/test_orphans.py",)),
    Harness("A search is fresh whatever the watcher lost",
            ("index/test_storms.py", "index/test_keeper.py", "sources/test_watch.py")),
    Harness("A model is never mixed with another", ("index/test_model_change.py",)),
    Harness("Hostile text is read in bounded time and rejoins", ("fuzz/test_corpus.py",)),
    Harness("Nothing outside the roots is read or written",
            ("serve/mcp/test_hostile_paths.py", "serve/http/test_http_hostile.py",
             "sources/test_confine.py")),
    Harness("No other site and no other host gets in", ("serve/http/test_http_guard.py",)),
    Harness("Secrets stay unread", ("serve/mcp/test_planted_secrets.py",)),
    Harness("A repository runs nothing and configures little",
            ("sources/test_git_arguments.py", "sources/test_git_history.py",
             "test_hostile_config.py")),
    Harness("What documents say stays data", ("serve/mcp/test_injected_text.py",)),
    Harness("No edit is lost", ("edit/test_edit_races.py",)),
    Harness("HTTP answers every schema with one shape", ("serve/http/test_http_openapi.py",)),
    Harness("Earlier indexes open or are built anew", ("store/test_old_indexes.py",)),
)  # fmt: skip


@dataclass
class Run:
    """One module of tests in one lane."""

    test: str
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.passed > 0 and not self.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lane", choices=("pull-request", "nightly", "pin"))
    parser.add_argument("--report", type=Path, help="the page whose tables are renewed")
    parser.add_argument("--only", default="", help="only modules with this in their name")
    given = parser.parse_args()
    if given.lane == "pin":
        return _pin()
    if shutil.which("strace") is None:
        print("strace is not there (apt-get install strace): power loss is skipped, and no lane in "
              "which a harness is skipped is good.")  # fmt: skip
    begun = time.monotonic()
    runs = [
        _run(test, given.lane)
        for harness in HARNESSES
        for test in harness.tests
        if given.only in test and (ROOT / "tests" / test.partition("::")[0]).exists()
    ]
    fuzzed = _fuzz() if given.lane == "nightly" and given.only in "fuzz" else []
    spent = time.monotonic() - begun
    bad = [run.test for run in runs if not run.good]
    bad += [line["name"] for line in fuzzed if line["failures"]]
    print(f"\n{given.lane}: {len(runs)} modules in {spent / 60:.1f} minutes; "
          f"{'all good' if not bad else 'AT FAULT: ' + ', '.join(bad)}")  # fmt: skip
    if given.report is not None:
        text = given.report.read_text(encoding="utf-8")
        given.report.write_text(_page(text, given.lane, runs, fuzzed, spent), encoding="utf-8")
    return 1 if bad else 0


def _run(test: str, lane: str) -> Run:
    found = Run(test)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{test}"],
            cwd=ROOT,
            env={
                **os.environ,
                "LOOKFAR_TRIALS": "full" if lane == "nightly" else "quick",
                "LOOKFAR_REPORT": str(told),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found.seconds = time.monotonic() - begun
        if told.exists():
            found.lines = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", _last(done.stdout))}
    found.passed = counts.get("passed", 0)
    found.failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    if done.returncode and not found.failed:
        found.failed = 1
    for line in found.lines or [{"name": test, "trials": found.passed, "faults": 0,
                                 "failures": found.failed, "note": "tests"}]:  # fmt: skip
        print(f"{line['name'][:44]:44} trials {line['trials']:>8,}  faults {line['faults']:>6,}  "
              f"failures {line['failures']:>3}  {line['note']}")  # fmt: skip
    print(f"  {test}: {found.passed} passed, {found.failed} failed, {found.seconds:.1f} s",
          flush=True)  # fmt: skip
    if not found.good:
        print(done.stdout[-3000:] + done.stderr[-1000:])
    return found


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def _fuzz() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        subprocess.run(
            [sys.executable, "-m", "fuzz", "--seconds", str(FUZZ_SECONDS), "--report", str(told)],
            cwd=ROOT,
            check=False,
        )
        return [json.loads(line) for line in told.read_text("utf-8").splitlines()]


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
    text: str, lane: str, runs: Iterable[Run], fuzzed: Iterable[dict[str, Any]], spent: float
) -> str:
    """The page with its tables made anew from a run."""
    by_test = {run.test: run for run in runs}
    lines = [f"From a run of the {lane} lane: {spent / 60:.0f} minutes on {os.cpu_count()} cores.",
             "", "| promise | harness | seen to catch | trials | failures |",
             "|---|---|---|---:|---:|"]  # fmt: skip
    for harness in HARNESSES:
        for test in harness.tests:
            run = by_test.get(test)
            if run is None:
                continue
            trials = sum(line["trials"] for line in run.lines) or run.passed
            failures = sum(line["failures"] for line in run.lines) + run.failed
            lines.append(
                f"| {harness.promise} | `tests/{test.replace('::', '` `')}` | {mutation_of(test)} "
                f"| {trials:,} | {failures} |"
            )
    lines += ["", "| figure | trials | faults | failures | |", "|---|---:|---:|---:|---|"]
    told = [line for run in by_test.values() for line in run.lines] + list(fuzzed)
    for line in _together(told):
        lines.append(
            f"| {line['name']} | {line['trials']:,} | {line['faults']:,} | {line['failures']} "
            f"| {line['note']} |"
        )
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}"


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

"""Repositories that lead elsewhere, never end, or grow: nothing leaks, hangs or costs much.

Seen to fail before git was given objects alone: of 110 cases 18 leaked the victim's commits, 18
gave no answer for 15 seconds, 7 took up to 3 GB, and 90 in all did not end as they should.
Seen to fail when links among objects were let through (2 of 2 leaked), when alternates could lead
anywhere (8 of 17), with `core.multiPackIndex` (1), when a `.git` file was followed without a look
back (3 of 7), when a worktree's own folder was not compared with the shared one (1 of 2), when
owners were not compared (5 of 5), and when git had no limit of memory (3 of 6).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import amount, report
from sources.hostile_repositories import CANARY, CASES, OWN, Case, Place, Victims

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")

MOST_MEGABYTES = 200
_ASK = Path(__file__).with_name("ask_hostile.py")


def can_build(case: Case) -> bool:
    return not case.as_root or os.geteuid() == 0


def answered(tasks: list[dict[str, str]], home: Path) -> Iterator[dict[str, Any]]:
    """What the asking process says of each folder, in their order."""
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, str(_ASK)],
        input="".join(f"{json.dumps(task)}\n" for task in tasks),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield from map(json.loads, done.stdout.splitlines())


def faults_of(case: Case, result: dict[str, Any], baseline: int) -> list[str]:
    """All that is wrong with the answers about one repository."""
    if result["hung"]:
        return ["hung"]
    text = "\n".join(result["answers"])
    refused = "REPOSITORY_REFUSED" in text
    served = f"title='{OWN}'" in text
    grown = (result["kilobytes"] - baseline) / 1024
    wrong = {
        f"leaked: {text[max(0, text.find(CANARY) - 300) :][:600]}": _leaks(text),
        f"took {grown:.0f} MB more": grown > MOST_MEGABYTES,
        f"crashed: {text[text.find('CRASH') :][:2000]}": "CRASH" in text,
        f"not refused with a reason: {text[:500]}": case.ends == "refused" and not refused,
        f"its own commits are missing: {text[:1500]}": case.ends == "served" and not served,
        f"refused: {text[:500]}": case.ends in ("served", "none") and refused,
        f"no error: {text[:500]}": case.ends == "failed" and "IO_ERROR" not in text,
    }
    return [fault for fault, holds in wrong.items() if holds]


def _leaks(text: str) -> bool:
    """The questions themselves hold the word, and are repeated in answers."""
    questions = ("query='zanzibarcanary7719 harmless", "query='when was zanzibarcanary7719")
    for question in questions:
        text = text.replace(question, "")
    return CANARY in text


def test_nothing_leaks_hangs_or_grows(tmp_path: Path) -> None:
    """Each case is asked everything, in a process of its own that is watched."""
    victims = Victims.make(tmp_path / "private")
    cases = [case for case in CASES if can_build(case)][:: amount(5, 1)]
    assert len(CASES) >= 60
    tasks = []
    for number, case in enumerate((Case("baseline", Place.make, "served"), *cases)):
        folder = tmp_path / "cases" / str(number)
        place = Place(folder / "root", folder / "beside", victims)
        place.beside.mkdir(parents=True)
        case.build(place)
        task = {"name": case.name, "root": str(place.root), "index": str(folder / "index")}
        tasks.append({**task, "commit": victims.commit})
    (tmp_path / "home").mkdir()
    baseline, *results = answered(tasks, tmp_path / "home")
    assert faults_of(Case("baseline", Place.make, "served"), baseline, 0) == []
    faults = {
        case.name: wrong
        for case, result in zip(cases, results, strict=True)
        if (wrong := faults_of(case, result, baseline["kilobytes"]))
    }
    most = max(result["kilobytes"] for result in results) - baseline["kilobytes"]
    report(
        "hostile repositories",
        trials=len(cases),
        faults=len(cases),
        failures=len(faults),
        note=f"at most {most / 1024:.0f} MB more than a harmless one",
    )
    assert not list((tmp_path / "cases").rglob("pwned"))
    assert faults == {}, "\n".join(f"{name}: {wrong}" for name, wrong in faults.items())

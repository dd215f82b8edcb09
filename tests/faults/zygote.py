"""Runs the trials of `test_fault_points.py`: imports once, and forks for each of them.

Run as a program: folder, scenario, how many trials (0 means all), seed. It goes through the
scenario once, keeps a copy of the index before each step, and counts the fault points of each.
A trial then takes such a copy, fails at one point in a forked child, and looks at what is left
in another. Prints one line of JSON for each trial that was bad, and one about all of them.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lookfar.collections.databases
import lookfar.retrieve.search  # noqa: F401
from faults.scenarios import SCENARIOS, Step, digest, lay_out, opened, state
from lookfar.errors import IOFailed, LookfarError
from points import DEATHS, ERRORS, Points

_PATIENCE = 60


def in_child(run: Callable[[], Any]) -> tuple[int, Any]:
    """The exit status of a forked child, and what it gave; it hangs at most so long."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(_PATIENCE, exit=True)
        os.close(reader)
        try:
            found = run()
        except BaseException:
            found = {"raised": traceback.format_exc()}
        with open(writer, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writer)
    with open(reader) as telling:
        told = telling.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(told) if told else None


@dataclass
class Prepared:
    """A step, the index before it, what is shown before and after, and the points within."""

    step: Step
    copy: Path
    sound: dict[str, Any]
    """What was shown before anything was damaged, and may be again once that is mended."""
    before: dict[str, Any]
    after: dict[str, Any]
    points: list[tuple[str, str]]


def prepare(base: Path, scenario: str) -> Iterator[Prepared]:
    """Go through a scenario without any fault."""
    (base / "root").mkdir(parents=True)
    (base / "index").mkdir()
    for number, step in enumerate(SCENARIOS[scenario]):
        lay_out(base / "root", step.sources)
        _, sound = in_child(partial(shown, base, step))
        if step.before is not None:
            step.before(base / "index")
        copy = base / f"copy{number}"
        shutil.copytree(base / "index", copy)
        _, before = in_child(partial(shown, base, step))
        _, points = in_child(partial(counted, base, step))
        _, after = in_child(partial(shown, base, step))
        _, scratch = in_child(partial(rebuilt, base, step))
        for found in (sound, before, points, after, scratch):
            if isinstance(found, dict) and "raised" in found:
                raise RuntimeError(f"{step.name}: {found['raised']}")
        if after["folder"]["index"] == "there" and after["folder"]["held"] is None:
            assert after["folder"]["content"] == scratch["folder"]["content"], step.name
        yield Prepared(step, copy, sound, before, after, [tuple(each) for each in points])


def shown(base: Path, step: Step) -> dict[str, Any]:
    with opened(base, step) as library:
        return digest(state(library))


def counted(base: Path, step: Step) -> list[tuple[str, str]]:
    with opened(base, step) as library, Points().watching() as points:
        step.act(library)
    return points.seen


def rebuilt(base: Path, step: Step) -> dict[str, Any]:
    shutil.rmtree(base / "scratch", ignore_errors=True)
    with opened(base, step, "scratch") as library:
        library.index()
        return digest(state(library))


# -- one trial -------------------------------------------------------------------


def failing(base: Path, step: Step, at: int, how: str) -> dict[str, Any]:
    """The step with a fault; where the process outlives it, what is served, and once more."""
    with opened(base, step) as library:
        told: dict[str, Any] = {"error": ""}
        with Points(at, how).watching() as points:
            try:
                step.act(library)
            except IOFailed as error:
                told["error"] = error.code if error.hint else "without a hint"
            except LookfarError as error:
                told["error"] = f"of another kind: {error.code} {error.developer}"
        told["reached"] = len(points.seen) >= at
        told["meanwhile"] = digest(state(library))
        step.act(library)
        told["again"] = digest(state(library))
        return told


def looking(base: Path, step: Step) -> dict[str, Any]:
    """As the next process would: what is there, a question, and the step once more."""
    with opened(base, step) as library:
        told: dict[str, Any] = {"first": digest(state(library))}
        answer = library.search("amber")
        told["hits"] = len(answer.hits)
        library.read(answer.hits[0].uri)
        step.act(library)
        told["again"] = digest(state(library))
        return told


def is_allowed(found: dict[str, Any], made: Prepared) -> bool:
    """The state before or the one after, and nothing between; or no index, where that may be."""
    return all(
        found[part]["all"] in [each[part]["all"] for each in (made.sound, made.before, made.after)]
        or (made.step.gap and found[part]["index"] == "none")
        for part in ("folder", "database")
    )


def is_after(found: dict[str, Any], made: Prepared) -> bool:
    """The very state after it, older generations and pins among it."""
    return is_done(found, made) and all(
        found[part]["all"] == made.after[part]["all"] for part in ("folder", "database")
    )


def is_done(found: dict[str, Any], made: Prepared) -> bool:
    """What was asked for is so; of a second try there may be another generation besides."""
    keys = ("index", "content", "held", "pins", "traces", "noted")
    return all(
        found[part][key] == made.after[part][key] for part in ("folder", "database") for key in keys
    )


def restore(base: Path, copy: Path) -> None:
    shutil.rmtree(base / "index", ignore_errors=True)
    shutil.copytree(copy, base / "index")


def trial(base: Path, made: Prepared, at: int, how: str) -> list[str]:
    """What was wrong with one trial."""
    restore(base, made.copy)
    status, told = in_child(lambda: failing(base, made.step, at, how))
    wrong = []
    if how in DEATHS:
        if status != -signal.SIGKILL:
            wrong.append(f"outlived its death: {status} {told}")
    elif status or told is None or "raised" in told:
        wrong.append(f"not typed: {status} {told}")
    else:
        if not told["reached"]:
            wrong.append("the fault was never met")
        if " " in told["error"]:
            wrong.append(f"error {told['error']}")
        if not is_allowed(told["meanwhile"], made):
            wrong.append(f"meanwhile: {told['meanwhile']}")
        if not told["error"] and not is_after(told["meanwhile"], made):
            wrong.append("no error, and not done")
        if not is_done(told["again"], made):
            wrong.append(f"tried again: {told['again']}")
    status, told = in_child(lambda: looking(base, made.step))
    if status or told is None or "raised" in told:
        wrong.append(f"the next process: {status} {told}")
        return wrong
    if not is_allowed(told["first"], made):
        wrong.append(f"afterwards: {told['first']}")
    if not is_done(told["again"], made):
        wrong.append(f"tried again afterwards: {told['again']}")
    if not told["hits"]:
        wrong.append("nothing was found")
    return wrong


def tell(about: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(about)}\n")
    sys.stdout.flush()


def main(base: Path, scenario: str, most: int, seed: int) -> None:
    tried: dict[str, int] = {}
    bad = 0
    steps = list(prepare(base, scenario))
    plan = [
        (number, at, how)
        for number, made in enumerate(steps)
        for at, (what, _) in enumerate(made.points, 1)
        for how in (*DEATHS, *ERRORS)
        if what == "write" or not how.startswith("short")
    ]
    if most:
        plan = sorted(random.Random(seed).sample(plan, min(most, len(plan))))
    laid: Step | None = None
    for number, at, how in plan:
        made = steps[number]
        if laid is not made.step:
            laid = made.step
            lay_out(base / "root", laid.sources)
        wrong = trial(base, made, at, how)
        tried[how] = tried.get(how, 0) + 1
        if wrong:
            bad += 1
            about = {"step": made.step.name, "at": at, "point": made.points[at - 1], "how": how}
            tell({**about, "wrong": wrong})
    points = sum(len(made.points) for made in steps)
    tell({"trials": sum(tried.values()), "points": points, "bad": bad, "ways": tried})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

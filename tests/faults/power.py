"""Run the trials of `test_power_loss.py`: record once, and fork for each trial.

Arguments: folder, scenario, number of trials, seed, and trials per mutant (0: none). A scenario is
recorded under strace; a trial replays the calls up to some moment, simulates a power failure there
(see `disk.py`), and has a new process read what remains. A mutant is the same with the syncs of one
line of the product disabled. Prints a line of JSON for each failed trial or mutant, and a summary.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from faults.disk import CALLS, Call, Disk, Lost, calls_in, lay_down
from faults.scenarios import lay_out
from faults.zygote import Prepared, in_child, is_after, is_allowed, is_done, looking, prepare, tell

DATA = ("none", "zeros", "cut", "all")
"""What becomes of the files, where all are treated alike."""


class Moment(NamedTuple):
    """Where the power may fail: after so many calls, within a step or after it."""

    calls: int
    step: int
    done: bool


def recorded(base: Path, scenario: str) -> list[Call]:
    """All that a process does to the disk while it goes through a scenario."""
    shutil.rmtree(base / "index")
    program = Path(__file__).with_name("recorded.py")
    trace = base / "calls.txt"
    command = ["strace", "-f", "-xx", "-s", str(1 << 26), "-o", str(trace)]
    command += ["-e", f"trace={','.join(f'?{name}' for name in CALLS)}"]
    subprocess.run([*command, sys.executable, str(program), str(base), scenario], check=True)
    with trace.open() as lines:
        found = list(calls_in(lines))
    trace.unlink()
    return found


def moments(disk: Disk, calls: list[Call]) -> Iterator[Moment]:
    step, done = -1, False
    for number, call in enumerate(calls, 1):
        word = disk.run(call)
        what, _, which = word.partition(":")
        if what in ("begin", "done"):
            step, done = int(which), what == "done"
        elif word == "between":
            step = -1
        elif word == "end":
            return
        if step >= 0 and (not word or what == "done") and call.name not in ("close", "lseek"):
            yield Moment(number, step, done)


def is_bad(base: Path, made: Prepared, moment: Moment, left: dict[str, bytes | None]) -> list[str]:
    """Let it be so that this is left, and see what the next process makes of it."""
    shutil.rmtree(base / "index", ignore_errors=True)
    (base / "index").mkdir()
    lay_down(base / "index", left)
    lay_out(base / "root", made.step.sources)
    status, told = in_child(lambda: looking(base, made.step))
    if status or told is None or "raised" in told:
        return [f"the next process: {status} {told}"]
    wrong = []
    if moment.done and not is_after(told["first"], made):
        wrong.append(f"lost: {told['first']}")
    elif not is_allowed(told["first"], made):
        wrong.append(f"afterwards: {told['first']}")
    if not is_done(told["again"], made):
        wrong.append(f"tried again afterwards: {told['again']}")
    return wrong


def trials(base: Path, steps: list[Prepared], calls: list[Call], most: int, seed: int) -> None:
    chance = random.Random(seed)
    top = base / "index"
    every = list(moments(Disk(top), calls))
    ends = [each for each in every if each.done]
    chosen = sorted(chance.choice(ends if chance.random() < 0.2 else every) for _ in range(most))
    bad = spoiled = 0
    disk, reached = Disk(top), 0
    for moment in chosen:
        for call in calls[reached : moment.calls]:
            disk.run(call)
        reached = moment.calls
        left = disk.left(Lost(chance))
        spoiled += left != disk.left(Lost(chance, "all", "all"))
        wrong = is_bad(base, steps[moment.step], moment, left)
        if wrong:
            bad += 1
            about = {"step": steps[moment.step].step.name, "calls": moment.calls}
            tell({**about, "done": moment.done, "wrong": wrong})
    about = {"trials": most, "spoiled": spoiled, "bad": bad, "moments": len(every)}
    tell(about)


def mutants(base: Path, steps: list[Prepared], calls: list[Call], most: int) -> None:
    """Disable the syncs of each line in turn; report which power failures are noticed."""
    sound = Disk(base / "index")
    for _ in moments(sound, calls):
        pass
    caught = 0
    for site in sorted(sound.sites):
        tried, why = 0, ""
        for moment, left in harmed(base / "index", calls, site, random.Random(site)):
            tried += 1
            wrong = is_bad(base, steps[moment.step], moment, left)
            if wrong:
                why = f"{steps[moment.step].step.name}: {wrong[0][:200]}"
                break
            if tried >= most:
                break
        caught += bool(why)
        tell({"site": site, "caught": bool(why), "tried": tried, "why": why})
    tell({"mutants": len(sound.sites), "caught": caught})


def harmed(
    top: Path, calls: list[Call], site: str, chance: random.Random
) -> Iterator[tuple[Moment, dict[str, bytes | None]]]:
    """Yield states that are possible only because the syncs of one line are disabled: first at the
    moments when a step is done, then within steps."""
    for only_done in (True, False):
        sound, mutant = Disk(top), Disk(top, frozenset((site,)))
        seen: set[int] = set()
        step, done = -1, False
        for number, call in enumerate(calls, 1):
            word = mutant.run(call)
            sound.run(call)
            what, _, which = word.partition(":")
            if what in ("begin", "done"):
                step, done = int(which), what == "done"
            elif word == "between":
                step = -1
            changing = not word and call.name not in ("close", "lseek", "open", "openat")
            if step < 0 or not mutant.spared or not (what == "done" if only_done else changing):
                continue
            spared = frozenset(map(id, mutant.spared))  # They alone are lost, first of all.
            ways = [Lost(chance, "all", "all", spared)]
            ways += [Lost(chance, d, n) for n in ("all", "none") for d in DATA]
            for lost in ways:
                left = mutant.left(lost)
                if left == sound.left(lost):
                    continue
                key = hash((step, done, *((k, v) for k, v in left.items())))
                if key not in seen:
                    seen.add(key)
                    yield Moment(number, step, done), left


def main(base: Path, scenario: str, most: int, seed: int, for_each: int) -> None:
    steps = list(prepare(base, scenario))
    calls = recorded(base, scenario)
    trials(base, steps, calls, most, seed)
    if for_each:
        mutants(base, steps, calls, for_each)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]))

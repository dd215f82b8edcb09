"""How much a reliability harness tries, and where it tells what it tried.

Takes: `RELIABILITY_TRIALS` (`quick`, the default, or `full`) and `RELIABILITY_REPORT` (a file) from
the environment. Gives: the number of trials for this run, and one line of JSON per harness in the
file. Refuses: any other word, so that a mistyped lane does not pass for the long one.

`scripts/reliability.py` sets both and makes the table of `docs/reliability.md` from the file.
"""

from __future__ import annotations

import json
import os

# Read once, while tests are collected: the fixtures that give a test a home of its own take every
# LOOKFAR_ variable away.
_TRIALS = os.environ.get("RELIABILITY_TRIALS") or "quick"
_REPORT = os.environ.get("RELIABILITY_REPORT")


def amount(quick: int, full: int) -> int:
    """How many trials: few in the ordinary suite, many in the nightly lane."""
    if _TRIALS not in {"quick", "full"}:
        raise ValueError(f"RELIABILITY_TRIALS is {_TRIALS!r}; it is quick or full")
    return full if _TRIALS == "full" else quick


def report(
    name: str,
    *,
    trials: int,
    faults: int = 0,
    failures: int = 0,
    note: str = "",
    of: str = "",
    counted: int = 0,
) -> None:
    """Add one line about a harness to the file of the lane, if a lane is running.

    ``of`` names another line of the module that has counted the same trials: what looks at them
    from another side does not make them more. ``counted`` is what the plan asks for where that is
    not trials: the files of a storm, the processes of a race.
    """
    if not _REPORT:
        return
    line = {
        "name": name,
        # Set by pytest: "tests/a/test_b.py::test_c (call)".
        "test": os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0],
        "trials": trials,
        "faults": faults,
        "failures": failures,
        "note": note,
        "of": of,
        "counted": counted,
    }
    # One write to a file opened for appending: lines of several processes do not mix.
    with open(_REPORT, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")

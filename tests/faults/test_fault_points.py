"""kill -9, a full disk, a failing one, a forbidden one and short writes, at every fault point.

Three scenarios (first index, incremental, roll-back and clean-up), cut into steps. At each point
of each step a process dies or its disk fails; then the next process opens the index, asks and
reads, and does the step again. What it finds is what was there before or what is there after,
compared as a whole (texts, sections, chunks, spans, vectors, answers by words and by meaning, and
every kept generation), and what it ends with equals an index made from scratch. Where the process
outlives the fault, the error is typed and has a hint, the old generation serves meanwhile, and
the same process succeeds when it tries again.

Seen to fail when the keyword index was committed after the catalogue; when `files.write_atomic`
wrote in place; when `files.translate_errors` let an `OSError` through; when what was mended was
noted only afterwards; and when an erase replaced the journal while the catalogue still recorded
the old one.
"""

from __future__ import annotations

import json
import os

import pytest

from faults.scenarios import SCENARIOS
from faults.trial_folder import run
from harness import amount, report

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="trials are forked")
_SEED = 11
_QUICK = {"first": 14, "incremental": 14, "clean-up": 16}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_after_any_failure_the_index_is_the_old_or_the_new_one(scenario: str) -> None:
    *bad, about = run("zygote.py", scenario, amount(_QUICK[scenario], 0), _SEED)
    report(
        f"faults at write points: {scenario}",
        trials=about["trials"],
        faults=about["trials"],
        failures=about["bad"],
        note=f"{about['points']} points; "
        + ", ".join(f"{how} {number}" for how, number in sorted(about["ways"].items())),
    )
    assert about["points"] > 50
    assert not bad, json.dumps(bad, indent=1)

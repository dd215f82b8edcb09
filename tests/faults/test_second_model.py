"""kill -9 and failing writes at every fault point while passages are embedded with a second model.

A child process embeds the passages of an index in batches of two; it dies at a chosen point, for
some points after half of the bytes of a write, or its disk fails there. Then another process opens
the index: nothing is damaged, every vector that an earlier batch acknowledged is there and is the
one that an undisturbed run makes, it answers, and the next pass completes the rest.

Seen to fail when the log named rows before they were written.
"""

from __future__ import annotations

import json
import os

import pytest

from faults.trial_folder import run
from harness import amount, report

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="trials are forked")


def test_after_any_failure_only_right_vectors_are_used_and_none_is_lost() -> None:
    *bad, about = run("second_trials.py", amount(20, 1_000))
    report(
        "faults while a second model embeds",
        trials=about["trials"],
        faults=about["trials"],
        failures=about["bad"],
        note=f"{about['points']} points",
    )
    assert about["points"] > 20
    assert not bad, json.dumps(bad, indent=1)

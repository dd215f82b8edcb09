"""docs/measuring.md is correct: its examples run, and it documents every key."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lookfar.evaluate.judged import read_judged
from lookfar.evaluate.metrics import METRICS
from lookfar.evaluate.results import Results, Scored, results_as_json
from lookfar.serve.show.scoreboard import json_shape
from waiting import DEADLINE

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_a_file_can_be_read(tmp_path: Path) -> None:
    (lines,) = blocks("json")
    path = tmp_path / "questions.jsonl"
    path.write_text(lines, encoding="utf-8")
    assert [line.category for line in read_judged(path)] == ["", "people"]


def test_the_python_example_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    (program,) = blocks("python")
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "LOOKFAR_EMBED_PROVIDER": "hash"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    means, p = result.stdout.splitlines()
    assert "ndcg" in means
    assert 0 < float(p) <= 1


def test_every_key_is_documented() -> None:
    query = Scored("i", "q", "", "m", dict.fromkeys(METRICS, 1.0), 1, 1.0, ())
    made = results_as_json(Results("", 10, "hybrid", "hash", {}, (query,)))
    keys = {*made, *made["queries"][0], *made["metrics"]["ndcg"], *made["latency_ms"]}
    keys |= set(json_shape([], {}, "", []))
    assert not [key for key in sorted(keys) if f"`{key}`" not in PAGE]

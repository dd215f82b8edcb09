"""The page on reliability lists every harness, and every harness says what it was seen to catch."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"


def script() -> Any:
    name = "reliability_script"
    if name not in sys.modules:
        path = ROOT / "scripts" / "reliability.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def listed() -> list[str]:
    return [test for harness in script().HARNESSES for test in harness.tests]


@pytest.mark.parametrize("test", listed())
def test_a_harness_is_there_and_says_what_it_caught(test: str) -> None:
    name, _, function = test.partition("::")
    text = (ROOT / "tests" / name).read_text(encoding="utf-8")
    assert f"def {function}" in text
    assert script().mutation_of(test), "its docstring names no mutation"


def test_whatever_reports_a_figure_runs_in_the_lanes() -> None:
    modules = {test.partition("::")[0] for test in listed()}
    reporting = {
        path.relative_to(ROOT / "tests").as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^from harness import .*\breport\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert reporting - modules == set()


def test_the_page_lists_every_harness() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [test for test in listed() if f"tests/{test.replace('::', '` `')}" not in page]
    assert missing == [], "run: python scripts/reliability.py nightly --report docs/reliability.md"
    assert not re.search(r"\| [1-9]\d* \|$", page, re.MULTILINE), "a figure has failures"


def test_a_page_is_made_from_a_run() -> None:
    module = script()
    test = listed()[0]
    told = [{"name": "x", "trials": 3, "faults": 2, "failures": 0, "note": "n"}] * 2
    run = module.Run(test, 1.0, 5, 0, told)
    page = module._page(f"a\n{module.BEGIN}\nold\n{module.END}\nb", "nightly", [run], [], 60)
    assert "\nold\n" not in page
    assert page.startswith("a\n")
    assert page.endswith("\nb")
    assert "| x | 6 | 4 | 0 | n |" in page
    assert f"`tests/{test}`" in page


def test_a_module_that_only_skips_is_not_good() -> None:
    module = script()
    assert not module.Run("a").good
    assert not module.Run("a", passed=1, failed=1).good
    assert module.Run("a", passed=1).good

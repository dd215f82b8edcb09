"""The page on reliability lists every harness, and every harness says what it was seen to catch."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fuzz import common
from script_modules import load_script

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"


def script() -> Any:
    return load_script("scripts/reliability.py")


def listed() -> list[str]:
    return [test for harness in script().HARNESSES for test in harness.tests]


def test_a_harness_is_there_and_says_what_it_caught(subtests: pytest.Subtests) -> None:
    for test in listed():
        with subtests.test(test=str(test)):
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
    assert "From a run of the nightly lane" in page
    assert "AT FAULT" not in page
    assert script().figures_with_failures(page) == []


def test_a_failure_is_seen_in_both_tables() -> None:
    """Seen to fail when only rows that end in a number were looked at."""
    module = script()
    told = [line("x", failures=2), line("y")]
    page = made([module.Run(listed()[0], 1.0, 5, 1, told)])
    assert [row.split(" | ")[0] for row in module.figures_with_failures(page)] == [
        f"| {module.HARNESSES[0].promise}",
        "| x",
    ]
    page = made([module.Run(listed()[0], 1.0, 5, 0, [line("y")])])
    assert module.figures_with_failures(page) == []


def line(name: str, trials: int = 3, **more: object) -> dict[str, Any]:
    return {"name": name, "trials": trials, "faults": 2, "failures": 0, "note": "n", **more}


def made(runs: list[Any], spent: float = 60, bad: tuple[str, ...] = ()) -> str:
    module = script()
    text = f"a\n{module.BEGIN}\nold\n{module.END}\nb"
    return str(module._page(text, "nightly", runs, [], spent, bad))


def test_a_page_is_made_from_a_run() -> None:
    module = script()
    test = listed()[0]
    run = module.Run(test, 1.0, 5, 0, [line("x"), line("x"), line("parent dies (alone)")])
    page = made([run])
    assert "\nold\n" not in page
    assert page.startswith("a\n")
    assert page.endswith("\nb")
    assert "| x | 6 | 4 | 0 |  | n |" in page
    assert "| parent dies (alone) | 3 | 2 | 0 | 100 in all | n |" in page
    assert f"`tests/{test}`" in page
    assert "MORE THAN" not in page
    assert "(MORE THAN 60)" in made([run], spent=3_700)
    assert "AT FAULT: z" in made([run], bad=("z",))


def test_each_trial_is_counted_once() -> None:
    """Seen to fail when the lines of a module were summed."""
    module = script()
    run = module.Run(listed()[0], 1.0, 5, 0, [line("x"), line("y", of="x"), line("z")])
    assert run.good
    assert run.trials == 6
    assert '| y | 3 | 2 | 0 |  | n; the trials of "x" |' in made([run])
    lost = module.Run(listed()[0], 1.0, 5, 0, [line("y", of="x")])
    assert not lost.good, "nothing counted the trials"


def test_a_module_that_skips_or_tells_a_failure_is_not_good() -> None:
    module = script()
    assert not module.Run("a").good
    assert not module.Run("a", passed=1, failed=1).good
    assert not module.Run("a", passed=1, skipped=["no strace"]).good
    assert not module.Run("a", passed=1, lines=[line("x", failures=1)]).good
    assert module.Run("a", passed=1, lines=[line("x")]).good


def test_a_skip_needs_leave() -> None:
    """Seen to fail when skips were not read."""
    module = script()
    said = (
        "SKIPPED [2] tests/faults/test_power_loss.py:42: needs strace: or leave\n"
        "SKIPPED [1] tests/sources/test_confine.py:9: no device nodes in this container\n"
        "1 passed, 3 skipped in 0.1s\n"
    )
    assert module.skips_of("faults/test_power_loss.py", said)[:2] == ["needs strace: or leave"] * 2
    assert len(module.skips_of("sources/test_confine.py", said)) == 2
    assert len(module.skips_of("sources/test_confine.py", said, leave=True)) == 1
    assert set(module.SKIPS) <= set(listed())


def test_a_module_is_run_and_what_it_skips_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real run of a module of which one test is skipped, and of one that is not there."""
    module = script()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(
        "import pytest\ndef test_a(): pass\n"
        "@pytest.mark.skipif(True, reason='not on: this')\ndef test_b(): pass\n"
    )
    monkeypatch.setattr(module, "ROOT", tmp_path)
    run = module._run("test_some.py", "pull-request")
    assert (run.passed, run.failed, run.skipped) == (1, 0, ["not on: this"])
    assert not module._run("test_gone.py", "pull-request").good


def test_a_night_tries_what_the_plan_asks() -> None:
    """Seen to fail when no figure was compared with the plan."""
    module = script()
    enough = [
        {**line(row.figures, 0, failures=0, counted=0), "faults": 0, row.of: row.least}
        for row in module.PLAN
    ]
    assert module.short(enough, whole=True) == []
    assert len(module.short([], whole=True)) == len(module.PLAN)
    assert module.short([], whole=False) == []
    assert module.short([line("edit races (one index)", 999)], whole=False) == [
        "edit races (999 trials of 1,000)"
    ]
    halves = [line("edit races (one index)", 500), line("edit races (two indexes)", 500)]
    assert module.short(halves, whole=False) == []
    again = [line("edit races (one index)", 500), line("edit races (2)", 500, of="edit races")]
    assert module.short(again, whole=False) != []
    few = [line("power loss: clean-up", 1_999), line("power loss: syncs left out", 900)]
    assert module.short(few, whole=False)[0] == "power loss (1,999 trials of 2,000)"
    run = module.Run("a", passed=1, lines=[line("edit races", 5)])
    assert module.at_fault([run], [], night=False, whole=True) == []
    assert module.at_fault([run], [], night=True, whole=False) != []
    assert module.at_fault([], [], night=False, whole=False) == ["no module was run"]


def test_no_target_of_the_fuzzer_vanishes() -> None:
    """Seen to fail when only the lines that came were looked at."""
    module = script()
    names = [f"fuzzing: {name}" for name in common.NAMES]
    told = [line(name) for name in names]
    assert module.fuzz_lines(told, 0) == told
    assert [each["name"] for each in module.fuzz_lines(told[1:], 0) if each["failures"]] == names[
        :1
    ]
    assert [each["failures"] for each in module.fuzz_lines(told, 1)][-1] == 1
    assert sum(each["failures"] for each in module.fuzz_lines([], 1)) == len(names)


def test_the_page_is_made_from_a_night(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["reliability.py", "pull-request", "--report", str(PAGE)])
    with pytest.raises(SystemExit) as ended:
        script().main()
    assert ended.value.code == 2
    assert "nightly lane" in capsys.readouterr().err


def test_rows_of_single_modules_are_renewed() -> None:
    """Seen to fail when a row that is there already was added once more."""
    module = script()
    first, other = listed()[:2]
    page = made([module.Run(first, 1.0, 5, 0, [line("x")])])
    later = module.renewed(
        page,
        [
            module.Run(first, 1.0, 6, 0, [line("x", 9)]),
            module.Run(other, 1.0, 7, 0, [line("z", 8)]),
        ],
    )
    assert later.count(f"`tests/{first}`") == 1
    assert f"`tests/{other}`" in later
    assert "| x | 9 |" in later
    assert "| z | 8 |" in later
    assert "Rows of 2 modules are from later runs." in later
    assert module.figures_with_failures(later) == []


def test_a_module_that_is_good_again_is_not_at_fault() -> None:
    module = script()
    first, other = listed()[:2]
    page = made([module.Run(first, 1.0, 5, 1, [line("x")]), module.Run(other, 1.0, 5, 1)])
    page = page.replace("\n\n| promise", f"\nAT FAULT: {first}\nAT FAULT: {other}\n\n| promise", 1)
    later = module.renewed(
        page, [module.Run(first, 1.0, 6, 0, [line("x")]), module.Run(other, 1.0, 5, 1)]
    )
    assert f"AT FAULT: {first}" not in later
    assert f"AT FAULT: {other}" in later

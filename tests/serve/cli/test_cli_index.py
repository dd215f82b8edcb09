"""``lookfar index``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.model import Failure, IndexReport
from lookfar.serve.show import render

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


REPORT_KEYS = [
    "collection", "root", "index_dir", "generation", "added", "changed", "removed", "unchanged",
    "chunks_embedded", "failures", "skipped", "skipped_examples", "seconds", "text_bytes",
    "masked", "masked_examples", "warned", "warned_examples",
]  # fmt: skip


def test_the_report_says_what_was_done(handbook: Path, run: Run) -> None:
    result = run("index", handbook)
    assert result.exit_code == 0
    assert "4 added, 0 changed, 0 removed, 0 unchanged" in result.stdout
    assert re.search(r"\d+ chunks? embedded in [\d.]+ s\n", result.stdout)
    assert "generation 1 in " in result.stdout

    (handbook / "onboarding.md").unlink()
    (handbook / "new.md").write_text("# New\n\nthings\n")
    result = run("index", handbook)
    assert "1 added, 0 changed, 1 removed, 3 unchanged" in result.stdout
    assert "generation 2" in result.stdout


def test_without_a_path_the_current_folder_is_indexed(
    handbook: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hints of other commands say `lookfar index`, so that has to work as it stands.
    monkeypatch.chdir(handbook)
    result = run("index")
    assert result.exit_code == 0
    assert f"4 documents in {handbook}: 4 added" in result.stdout


def test_indexes_below_the_folder_are_not_indexed_themselves(
    handbook: Path, ask: Ask, run: Run
) -> None:
    within = handbook / "data" / "indexes"
    assert ask("index", handbook, "--index-dir", within)["added"] == 4
    again = ask("index", handbook, "--index-dir", within)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, 4)
    ruling = run("why", within / "x" / "collection.json", handbook, "--index-dir", within).stdout
    assert "always skipped" in ruling


def test_the_report_shows_throughput_for_large_folders(tmp_path: Path, run: Run) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\n" + "a line of words\n" * 10_000)
    assert re.search(r"embedded in [\d.]+ s, [\d.]+ MB/s\n", run("index", tmp_path / "docs").stdout)


def test_failures_are_named_with_code_and_reason() -> None:
    failures = tuple(Failure(f"{n}.md\x1b", "IO_ERROR", "the disk said no") for n in range(9))
    done = IndexReport(
        "c", "r", 1, 0, 0, 0, 3, 0, failures, {"too_large": 2}, {"too_large": ("x.md",)}, 1.0, 0
    )
    output = render.report(done, "d")
    assert "9 files could not be read:" in output
    assert "  0.md\\x1b: IO_ERROR: the disk said no" in output
    assert "... and 4 more" in output
    assert "2 skipped, larger than sources.max_file_bytes" in output


def test_the_json_report_is_stable(handbook: Path, ask: Ask) -> None:
    shape = ask("index", handbook)
    assert list(shape) == REPORT_KEYS
    assert (shape["added"], shape["failures"], shape["generation"]) == (4, [], 1)
    assert Path(shape["index_dir"]).is_dir()
    assert shape["root"] == str(handbook.resolve())


def test_rebuild_reads_everything_again(handbook: Path, ask: Ask) -> None:
    ask("index", handbook)
    assert ask("index", handbook)["unchanged"] == 4
    assert ask("index", handbook, "--rebuild")["added"] == 4


def test_index_dir_decides_where_the_index_is_stored(
    handbook: Path, tmp_path: Path, ask: Ask
) -> None:
    shape = ask("index", handbook, "--index-dir", tmp_path / "here")
    assert Path(shape["index_dir"]).parent == tmp_path / "here"
    assert not [path for path in handbook.rglob("*") if path.suffix not in (".md", "")]


def test_quiet_prints_nothing(handbook: Path, run: Run) -> None:
    result = run("index", handbook, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_an_empty_folder_is_not_called_a_success(tmp_path: Path, run: Run) -> None:
    (tmp_path / "empty").mkdir()
    result = run("index", tmp_path / "empty")
    assert result.exit_code == 0
    assert "No files were indexed" in result.stdout


def test_a_missing_folder(tmp_path: Path, run: Run) -> None:
    result = run("index", tmp_path / "absent")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("error ROOT_NOT_FOUND: ")
    assert "\nhint: " in result.stderr


def test_a_file_instead_of_a_folder(handbook: Path, run: Run) -> None:
    result = run("index", handbook / "onboarding.md")
    assert result.exit_code == 2
    assert "error INVALID_ARGUMENT" in result.stderr
    assert "is not a folder" in result.stderr


def test_skipped_files_are_reported(handbook: Path, run: Run) -> None:
    (handbook / "target").mkdir()
    (handbook / "Cargo.toml").write_text("[package]\n")
    (handbook / "target" / "index.md").write_text("# Target\n")
    (handbook / ".env").write_text("PASSWORD=x\n")
    result = run("index", handbook)
    assert "2 skipped, built-in rules" in result.stdout
    assert "target/" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a named pipe")
def test_odd_files_do_not_stop_the_rest(handbook: Path, ask: Ask) -> None:
    (handbook / "latin.md").write_bytes(b"# Caf\xe9\n\nbroken utf-8 \xff\n")
    (handbook / "zeros.md").write_bytes(b"# A\0\0\0B\n")
    os.mkfifo(handbook / "pipe.md")
    shape = ask("index", handbook)
    assert shape["added"] == 5, "the four, and the one with broken bytes"
    assert shape["failures"] == []
    assert shape["skipped"]["binary"] == 1
    assert sum(shape["skipped"].values()) == 2


def test_an_index_folder_that_cannot_be_made(handbook: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    result = run("index", handbook, "--index-dir", tmp_path / "file" / "below")
    assert result.exit_code == 8
    assert re.match(r"error [A-Z_]+: ", result.stderr)
    assert "Traceback" not in result.output


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_an_unwritable_index_folder(handbook: Path, run: Run) -> None:
    result = run("index", handbook, "--index-dir", "/proc/lookfar")
    assert result.exit_code == 8
    assert "hint: " in result.stderr


@pytest.mark.parametrize(
    ("setting", "code", "hint"),
    [
        ("chunk.max_tokn=3", "INVALID_CONFIG", "Did you mean chunk.max_tokens?"),
        ("chunk.max_tokens=many", "INVALID_CONFIG", "whole number"),
        ("sources.respect_ignore_files=perhaps", "INVALID_CONFIG", "true or false"),
        ("chunk.max_tokens", "INVALID_ARGUMENT", "--set chunk.max_tokens=800"),
        ("=1", "INVALID_ARGUMENT", "--set chunk.max_tokens=800"),
    ],
)
def test_a_bad_setting_names_the_right_one(
    setting: str, code: str, hint: str, handbook: Path, run: Run
) -> None:
    result = run("index", handbook, "--set", setting)
    assert result.exit_code == 2
    assert f"error {code}: " in result.stderr
    assert hint in result.stderr


def test_settings_have_the_type_that_they_need(handbook: Path, ask: Ask) -> None:
    given = [
        "sources.include=*.md, nothing/**",
        "sources.max_file_bytes=500KB",
        "sources.respect_ignore_files=false",
        "search.title_weight=0.1",
        "chunk.max_tokens=300",
    ]
    arguments = [part for setting in given for part in ("--set", setting)]
    assert ask("index", handbook, *arguments)["added"] == 4


def test_a_setting_of_an_earlier_version_is_not_an_error(handbook: Path, run: Run) -> None:
    assert run("index", handbook, "--set", "search.page_share=0.5").exit_code == 0


def test_progress_is_not_on_stdout(handbook: Path, process: Process) -> None:
    result = process("index", handbook, "--json", "--set", "embed.provider=hash")
    assert result.stdout.startswith("{\n")
    assert result.stdout.endswith("}\n")
    assert result.stderr == "", "a short pass needs no progress"

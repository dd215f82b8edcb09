"""``lookfar read``, ``lookfar outline`` and ``lookfar status``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from click.testing import Result

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]


READING_KEYS = [
    "collection", "uri", "title", "heading_path", "start", "end", "start_line", "end_line",
    "sha256", "text", "state", "extracted", "places", "warnings", "also",
]  # fmt: skip
STATUS_KEYS = [
    "collection", "root", "index_dir", "indexed", "generation", "generations", "created_at",
    "held", "documents", "sections", "chunks", "links", "model", "dimensions", "current",
    "disk_bytes", "damage", "failures", "stale", "stale_count", "watcher",
    "vectors", "quality",
    "receipts", "skipped", "skipped_examples", "packages", "named_sources",
    "totalFiles", "totalChunks",
]  # fmt: skip


@pytest.fixture(autouse=True)
def indexed(handbook: Path, run: Run) -> None:
    assert run("index", handbook, "--quiet").exit_code == 0


def test_a_document_is_printed_as_it_is(handbook: Path, run: Run) -> None:
    assert run("read", "onboarding.md", handbook).stdout == (handbook / "onboarding.md").read_text()


def test_a_name_in_another_unicode_form_is_the_same_document(handbook: Path, run: Run) -> None:
    typed, on_disk = (normalize(form, "ガイド.md") for form in ("NFC", "NFD"))
    assert typed != on_disk
    (handbook / on_disk).write_text("# ガイド\n\n## 手順\n\n本文。\n", encoding="utf-8")
    assert run("index", handbook, "--quiet").exit_code == 0
    assert run("read", typed, handbook).stdout.startswith("# ガイド\n")
    assert run("read", f"{typed}#手順", handbook).stdout == "## 手順\n\n本文。\n"
    assert "手順" in run("outline", typed, handbook).stdout
    assert run("related", typed, handbook).exit_code == 0


def test_a_section(handbook: Path, run: Run) -> None:
    read = run("read", "operations/releases.md#Roll back a bad release", handbook).stdout
    assert read.startswith("## Roll back a bad release\n")
    assert run("read", "operations/releases.md#roll-back-a-bad-release", handbook).stdout == read


def test_lines(handbook: Path, run: Run) -> None:
    lines = (handbook / "onboarding.md").read_text().splitlines(keepends=True)
    assert run("read", "onboarding.md:3-5", handbook).stdout == "".join(lines[2:5])
    assert run("read", "onboarding.md:13", handbook).stdout == lines[12]
    assert run("read", "onboarding.md:12-999", handbook).stdout == "".join(lines[11:])


def test_the_json_shape_of_a_reading(handbook: Path, ask: Ask) -> None:
    shape = ask("read", "security/keys.md#Signing key > Rotation", handbook)
    assert list(shape) == READING_KEYS
    assert shape["heading_path"] == ["Keys", "Signing key", "Rotation"]
    whole = (handbook / "security" / "keys.md").read_text()
    assert whole[shape["start"] : shape["end"]] == shape["text"]
    assert shape["sha256"] == hashlib.sha256(shape["text"].encode()).hexdigest()
    assert shape["state"] == "same"


def test_a_document_that_changed_is_read_as_it_is_now(handbook: Path, run: Run) -> None:
    (handbook / "onboarding.md").write_text("# Changed\n")
    result = run("read", "onboarding.md", handbook)
    assert result.stdout == "# Changed\n"
    assert "changed since it was indexed" in result.stderr


@pytest.mark.parametrize(
    ("target", "code", "hint"),
    [
        ("security/key.md", "NOT_FOUND", "security/keys.md"),
        ("security/keys.md#Signing kee", "NOT_FOUND", "Signing key"),
        ("security/keys.md#Rotation", "AMBIGUOUS", "API keys > Rotation"),
        ("security/keys.md:900-901", "NOT_FOUND", "lines"),
        ("security/keys.md:5-3", "INVALID_ARGUMENT", "smaller number first"),
    ],
)
def test_missing_targets(target: str, code: str, hint: str, handbook: Path, run: Run) -> None:
    result = run("read", target, handbook)
    assert result.exit_code == (2 if code == "INVALID_ARGUMENT" else 3)
    assert f"error {code}: " in result.stderr
    assert hint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "target", ["../outside.md", "/etc/passwd", "..", "", "#", ":1-2", "a\0b", "caf\udce9.md"]
)
def test_targets_outside_the_folder(target: str, handbook: Path, run: Run) -> None:
    (handbook.parent / "outside.md").write_text("secret")
    result = run("read", target, handbook)
    assert result.exit_code in (2, 3)
    assert "secret" not in result.output


def test_an_outline(handbook: Path, run: Run, ask: Ask) -> None:
    lines = run("outline", "security/keys.md", handbook).stdout.splitlines()
    assert lines[0] == "security/keys.md  22 lines, markdown"
    assert lines[2:] == [
        " 4  Keys",
        " 6    Signing key",
        "10      Rotation",
        "15    API keys",
        "20      Rotation",
    ]
    shape = ask("outline", "security/keys.md", handbook)
    assert list(shape) == [
        *("collection", "uri", "title", "language", "lines", "tags", "sections", "places"),
    ]
    assert list(shape["sections"][0]) == [
        "level", "title", "heading_path", "start", "end", "start_line", "end_line", "kind",
        "signature", "place",
    ]  # fmt: skip
    assert shape["tags"] == ["security"]


def test_an_outline_of_nothing(handbook: Path, run: Run) -> None:
    assert run("outline", "absent.md", handbook).exit_code == 3


def test_status(handbook: Path, run: Run, ask: Ask) -> None:
    output = run("status", handbook).stdout
    assert "documents  4" in output
    assert "up to date" in output
    shape = ask("status", handbook)
    assert list(shape) == STATUS_KEYS
    assert (shape["documents"], shape["current"], shape["stale_count"]) == (4, True, 0)

    (handbook / "late.md").write_text("# Late\n")
    assert ask("status", handbook)["stale"] == ["late.md"]
    assert "1 file added, changed or removed since" in run("status", handbook).stdout
    other = run("status", handbook, "--set", "chunk.max_tokens=200").stdout
    assert "settings have changed" in other


@pytest.mark.parametrize("command", [("read", "a.md"), ("outline", "a.md")])
def test_a_folder_never_indexed(command: tuple[str, ...], tmp_path: Path, run: Run) -> None:
    (tmp_path / "two words").mkdir()
    result = run(*command, tmp_path / "two words")
    assert result.exit_code == 4
    assert f'hint: Run: lookfar index "{tmp_path / "two words"}"' in result.stderr


def test_the_status_of_a_folder_never_indexed(tmp_path: Path, run: Run, ask: Ask) -> None:
    (tmp_path / "new").mkdir()
    assert "not indexed yet" in run("status", tmp_path / "new").stdout
    assert list(ask("status", tmp_path / "new")) == STATUS_KEYS

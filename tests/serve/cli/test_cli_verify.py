"""``lookfar verify``: sound, damaged, repaired, and what scripts get of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.serve.cli.exits import CHECK_FAILED

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]


@pytest.fixture
def damaged(handbook: Path, run: Run, tmp_path: Path) -> Path:
    """The index folder of the handbook, with one bit of one vector flipped."""
    home = tmp_path / "indexes"
    assert run("index", handbook, "--quiet", "--index-dir", home).exit_code == 0
    (path,) = home.glob("handbook-*/epoch-1/vectors.f16")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    return home


def test_a_sound_index(handbook: Path, run: Run, ask: Ask) -> None:
    run("index", handbook, "--quiet")
    result = run("verify", handbook)
    assert (result.exit_code, result.stdout) == (0, "sound    handbook\n")
    shape = ask("verify", handbook)
    assert list(shape) == ["sound", "collections"]
    assert shape["sound"] is True
    (only,) = shape["collections"]
    assert list(only) == ["collection", "index_dir", "found", "repaired", "left", "salvaged"]
    assert (only["collection"], only["found"], only["repaired"], only["left"]) == (
        *("handbook", []),
        *(False, []),
    )


def test_damage_is_reported_and_not_changed(
    handbook: Path, run: Run, ask: Ask, damaged: Path
) -> None:
    """Fails if the exit code is always 0."""
    for _ in range(2):
        result = run("verify", handbook, "--index-dir", damaged)
        assert result.exit_code == CHECK_FAILED
        first, second = result.stdout.splitlines()
        assert first == "DAMAGED  handbook: 1 problem"
        assert second == "  vectors: row 0 differs from what was written"
        assert "lookfar verify" in result.stderr
        assert "--repair" in result.stderr
    shape = ask("verify", handbook, "--index-dir", damaged)
    assert shape["sound"] is False
    (problem,) = shape["collections"][0]["left"]
    assert problem == {"artefact": "vectors", "detail": "row 0 differs from what was written"}


def test_repair_fixes_the_index(handbook: Path, run: Run, ask: Ask, damaged: Path) -> None:
    shape = ask("verify", handbook, "--repair", "--index-dir", damaged)
    (only,) = shape["collections"]
    assert shape["sound"] is True
    assert only["repaired"] is True
    assert only["left"] == []
    assert len(only["found"]) == 1
    result = run("verify", handbook, "--index-dir", damaged)
    assert (result.exit_code, result.stdout) == (0, "sound    handbook\n")


def test_a_repair_reports_what_it_fixed(handbook: Path, run: Run, damaged: Path) -> None:
    result = run("verify", handbook, "--repair", "--index-dir", damaged)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "repaired handbook: 1 problem repaired"


def test_nothing_to_verify(handbook: Path, run: Run) -> None:
    result = run("verify", handbook)
    assert result.exit_code != 0
    assert "has not been indexed yet" in result.stderr
    assert json.loads(run("verify", handbook, "--json").stdout)["error"]["code"] == "NOT_INDEXED"


def test_a_pipe_gets_no_colour_and_no_progress(
    handbook: Path, process: Callable[..., Any], damaged: Path
) -> None:
    done = process("verify", handbook, "--index-dir", damaged, "--set", "embed.provider=hash")
    assert done.returncode == CHECK_FAILED
    assert "\x1b" not in done.stdout + done.stderr
    assert "Checking" not in done.stderr

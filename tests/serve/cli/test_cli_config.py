"""``lookfar config``: where settings come from, and files that keep every comment.

Proved by mutation: an edit that writes the file anew from its values loses the comments; one that
is not checked leaves a file that no command can use; both fail here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lookfar.serve.cli.main import cli

MINE = """# My settings, by hand.
preset = "msrl"   # like before

[search]
# Enough for me.
top_k = 5  # not more

[chunk]
max_tokens = 700
"""


@pytest.fixture
def user_file(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_home / "settings"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setenv("APPDATA", str(folder))
    return Path(json.loads(run("path", "--json").stdout)["files"][0]["file"])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["config", *map(str, arguments)])


def told(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    return json.loads(result.stdout)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_every_value_says_where_it_comes_from(
    user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, MINE)
    folder = tmp_path / "docs"
    own = write(folder / "lookfar.toml", "[search]\nmode = 'keyword'\n")
    monkeypatch.setenv("LOOKFAR_WATCH_DEBOUNCE_MS", "900")
    shown = told("show", "--path", folder, "--set", "search.rrf_k=30")["settings"]
    found = {each["key"]: (each["value"], each["origin"], each["place"]) for each in shown}
    assert found["search.top_k"] == (5, "user", str(user_file))
    assert found["search.mode"] == ("keyword", "project", str(own))
    assert found["watch.debounce_ms"] == (900, "environment", "LOOKFAR_WATCH_DEBOUNCE_MS")
    assert found["search.rrf_k"] == (30, "explicit", "--set")
    assert found["search.vector_weight"] == (0.75, "preset", 'preset = "msrl"')
    assert found["search.typos"] == (True, "default", "")
    assert found["chunk.max_tokens"][1] == "user"
    assert next(e for e in shown if e["key"] == "search.top_k")["default"] == 10


def test_what_is_shown_can_be_kept_to_a_section_and_to_what_was_set(user_file: Path) -> None:
    write(user_file, MINE)
    keys = [each["key"] for each in told("show", "chunk", "--changed")["settings"]]
    assert "chunk.max_tokens" in keys
    assert all(key.startswith("chunk.") for key in keys)
    assert "chunk.merge_small" not in keys
    lines = run("show", "search.top_k").stdout.splitlines()
    assert lines == [f"search.top_k  5  user  {user_file}"]


def test_where_nothing_is_set_that_is_said(user_file: Path) -> None:
    assert not user_file.exists()
    assert run("show", "chunk", "--changed").stdout == "All settings have their defaults.\n"
    assert told("show", "chunk", "--changed") == {"settings": []}


def test_a_value_is_printed_as_a_script_wants_it(user_file: Path) -> None:
    write(user_file, '[sources]\nexclude = ["a/**", "b/**"]\n')
    assert run("get", "search.top_k").stdout == "10\n"
    assert run("get", "search.mode").stdout == "hybrid\n"
    assert run("get", "watch.enabled").stdout == "true\n"
    assert run("get", "sources.exclude").stdout == "a/**\nb/**\n"
    assert told("get", "search.mode") == {
        "key": "search.mode", "value": "hybrid", "origin": "default", "place": "",
    }  # fmt: skip


def test_setting_a_value_changes_nothing_else(user_file: Path) -> None:
    write(user_file, MINE)
    result = run("set", "search.top_k", "8")
    assert result.stdout == f"search.top_k = 8 in {user_file}\n"
    assert user_file.read_text() == MINE.replace("top_k = 5  #", "top_k = 8  #")
    run("set", "search.mode", "vector")
    assert 'top_k = 8  # not more\nmode = "vector"\n' in user_file.read_text()
    run("unset", "search.mode")
    run("set", "search.top_k", "5")
    assert user_file.read_text() == MINE


@pytest.mark.parametrize("before", ["", "# nothing yet\n", "[search]\ntop_k = 5\n"])
def test_a_setting_without_a_section_stands_above_them(user_file: Path, before: str) -> None:
    write(user_file, before)
    assert run("set", "preset", "ragdocs").exit_code == 0
    assert told("get", "preset")["value"] == "ragdocs"
    assert before in user_file.read_text()
    run("unset", "preset")
    assert told("get", "preset")["origin"] == "default"


def test_a_file_that_is_not_there_is_made(user_file: Path) -> None:
    assert run("path").stdout.startswith("user")
    assert "does not exist" in run("path").stdout
    run("set", "sources.exclude", "drafts/**, *.tmp.md")
    assert user_file.read_text() == '[sources]\nexclude = ["drafts/**", "*.tmp.md"]\n'
    assert told("path")["files"][0]["exists"] is True


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("search.top_k", "many", "whole number"),
        ("search.top_k", "0", "from 1 to 1000"),
        ("search.mode", "magic", "one of: hybrid, vector, keyword"),
        ("chunk.overlap_tokens", "9000", "below chunk.max_tokens"),
        ("embed.provider", "onnx", "embed.model names a model"),
    ],
)
def test_what_would_be_refused_is_not_written(
    user_file: Path, key: str, value: str, why: str
) -> None:
    write(user_file, MINE)
    result = run("set", key, value)
    assert result.exit_code == 2
    assert why in result.stderr
    assert user_file.read_text() == MINE


def test_a_broken_file_can_be_mended_one_fault_at_a_time(user_file: Path) -> None:
    write(user_file, "[search]\ntop_k = 0\nmode = 'magic'\n")
    shape = told("check")
    assert shape["ok"] is False
    assert [each["details"]["key"] for each in shape["problems"]] == ["search.top_k", "search.mode"]
    assert run("check").exit_code == 9
    assert run("set", "search.top_k", "3").exit_code == 0
    assert run("unset", "search.mode").exit_code == 0
    assert run("check").exit_code == 0
    assert told("check") == {"ok": True, "files": [str(user_file)], "problems": []}


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = "presett = 'msrl'\n[embed]\nmodel = '/etc'\n[sources]\nexclude = ['../x']\n"
    file = write(tmp_path / "team.toml", text)
    own = told("check", file)["problems"]
    assert [each["details"]["key"] for each in own] == ["presett"]
    project = told("check", file, "--project")["problems"]
    assert [each["details"]["key"] for each in project] == [
        *("presett", "embed.model", "sources.exclude"),
    ]
    assert "Did you mean preset?" in run("check", file).stdout
    assert run("check", tmp_path / "none.toml").exit_code == 3


def test_a_variable_is_checked_too(monkeypatch: pytest.MonkeyPatch, user_file: Path) -> None:
    assert not user_file.exists()
    monkeypatch.setenv("LOOKFAR_SEARCH_TOP_K", "lots")
    result = run("check")
    assert result.exit_code == 9
    assert "LOOKFAR_SEARCH_TOP_K" in result.stdout


def test_a_folders_own_file_is_set_within_its_bounds(tmp_path: Path, user_file: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    assert run("set", "search.top_k", "4", "--project", "--path", folder).exit_code == 0
    assert (folder / "lookfar.toml").read_text() == "[search]\ntop_k = 4\n"
    refused = run("set", "embed.model", tmp_path / "x", "--project", "--path", folder)
    assert refused.exit_code == 2
    assert "may not be set by a project's own file" in refused.stderr
    assert not user_file.exists()
    assert run("set", "search.top_k", "4", "--project", "--path", tmp_path / "no").exit_code == 3


def test_a_mark_and_the_line_ends_of_a_file_stay(user_file: Path) -> None:
    user_file.parent.mkdir(parents=True, exist_ok=True)
    user_file.write_bytes(b"\xef\xbb\xbf[search]\r\ntop_k = 5\r\n")
    run("set", "search.mode", "keyword")
    assert user_file.read_bytes() == b'\xef\xbb\xbf[search]\r\ntop_k = 5\r\nmode = "keyword"\r\n'


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own there")
def test_a_file_kept_elsewhere_is_edited_there(user_file: Path, tmp_path: Path) -> None:
    real = write(tmp_path / "dotfiles" / "lookfar.toml", MINE)
    user_file.parent.mkdir(parents=True, exist_ok=True)
    user_file.symlink_to(real)
    run("set", "search.top_k", "6")
    assert user_file.is_symlink()
    assert "top_k = 6" in real.read_text()


def test_a_way_of_writing_that_cannot_be_edited_is_left_alone(user_file: Path) -> None:
    text = "search = { top_k = 5 }\n"
    write(user_file, text)
    result = run("unset", "search.top_k")
    assert result.exit_code == 2
    assert "Change it with an editor" in result.stderr
    assert user_file.read_text() == text

"""``lookfar config``: where settings come from, and files that keep every comment.

Proved by mutation: an edit that regenerates the file from its values loses the comments; one that
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


def ask_json(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    return json.loads(result.stdout)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def test_every_value_shows_its_origin(
    user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, MINE)
    folder = tmp_path / "docs"
    own = write(folder / "lookfar.toml", "[search]\nmode = 'keyword'\n")
    monkeypatch.setenv("LOOKFAR_WATCH_DEBOUNCE_MS", "900")
    output = ask_json("show", "--path", folder, "--set", "search.rrf_k=30")["settings"]
    found = {
        setting["key"]: (setting["value"], setting["origin"], setting["place"])
        for setting in output
    }
    assert found["search.top_k"] == (5, "user", str(user_file))
    assert found["search.mode"] == ("keyword", "project", str(own))
    assert found["watch.debounce_ms"] == (900, "environment", "LOOKFAR_WATCH_DEBOUNCE_MS")
    assert found["search.rrf_k"] == (30, "explicit", "--set")
    assert found["search.vector_weight"] == (0.75, "preset", 'preset = "msrl"')
    assert found["search.typos"] == (True, "default", "")
    assert found["chunk.max_tokens"][1] == "user"
    assert next(e for e in output if e["key"] == "search.top_k")["default"] == 10


def test_show_can_be_limited_to_sections_and_changed_settings(user_file: Path) -> None:
    write(user_file, MINE)
    keys = [setting["key"] for setting in ask_json("show", "chunk", "--changed")["settings"]]
    assert "chunk.max_tokens" in keys
    assert all(key.startswith("chunk.") for key in keys)
    assert "chunk.merge_upwards" not in keys
    lines = run("show", "search.top_k").stdout.splitlines()
    assert lines == [f"search.top_k  5  user  {user_file}"]


def test_show_reports_that_all_settings_have_defaults(user_file: Path) -> None:
    assert not user_file.exists()
    assert run("show", "chunk", "--changed").stdout == "All settings have their defaults.\n"
    assert ask_json("show", "chunk", "--changed") == {"settings": []}


def test_get_prints_a_bare_value(user_file: Path) -> None:
    write(user_file, '[sources]\nexclude = ["a/**", "b/**"]\n')
    assert run("get", "search.top_k").stdout == "10\n"
    assert run("get", "search.mode").stdout == "hybrid\n"
    assert run("get", "watch.enabled").stdout == "true\n"
    assert run("get", "sources.exclude").stdout == "a/**\nb/**\n"
    assert ask_json("get", "search.mode") == {
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
def test_a_setting_without_a_section_is_written_at_the_top(user_file: Path, before: str) -> None:
    write(user_file, before)
    assert run("set", "preset", "ragdocs").exit_code == 0
    assert ask_json("get", "preset")["value"] == "ragdocs"
    assert before in user_file.read_text()
    run("unset", "preset")
    assert ask_json("get", "preset")["origin"] == "default"


def test_a_missing_file_is_created(user_file: Path) -> None:
    assert run("path").stdout.startswith("user")
    assert "does not exist" in run("path").stdout
    run("set", "sources.exclude", "drafts/**, *.tmp.md")
    assert user_file.read_text() == '[sources]\nexclude = ["drafts/**", "*.tmp.md"]\n'
    assert ask_json("path")["files"][0]["exists"] is True


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
def test_an_invalid_value_is_not_written(user_file: Path, key: str, value: str, why: str) -> None:
    write(user_file, MINE)
    result = run("set", key, value)
    assert result.exit_code == 2
    assert why in result.stderr
    assert user_file.read_text() == MINE


def test_a_broken_file_can_be_fixed_one_error_at_a_time(user_file: Path) -> None:
    write(user_file, "[search]\ntop_k = 0\nmode = 'magic'\n")
    shape = ask_json("check")
    assert shape["ok"] is False
    assert [problem["details"]["key"] for problem in shape["problems"]] == [
        "search.top_k",
        "search.mode",
    ]
    assert run("check").exit_code == 9
    assert run("set", "search.top_k", "3").exit_code == 0
    assert run("unset", "search.mode").exit_code == 0
    assert run("check").exit_code == 0
    assert ask_json("check") == {"ok": True, "files": [str(user_file)], "problems": []}


def test_check_reports_all_errors_at_once(tmp_path: Path) -> None:
    text = "presett = 'msrl'\n[embed]\nmodel = '/etc'\n[sources]\nexclude = ['../x']\n"
    file = write(tmp_path / "team.toml", text)
    own = ask_json("check", file)["problems"]
    assert [problem["details"]["key"] for problem in own] == ["presett"]
    project = ask_json("check", file, "--project")["problems"]
    assert [problem["details"]["key"] for problem in project] == [
        *("presett", "embed.model", "sources.exclude"),
    ]
    assert "Did you mean preset?" in run("check", file).stdout
    assert run("check", tmp_path / "none.toml").exit_code == 3


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LOOKFAR_SEARCH_TOP_K", "lots", "LOOKFAR_SEARCH_TOP_K"),
        ("LOOKFAR_OUTSIDE_TRUSTED_KEYS", "team ssh-rsa AAAA", "has an entry that is not a key"),
    ],
)
def test_check_includes_environment_variables(
    monkeypatch: pytest.MonkeyPatch, user_file: Path, variable: str, value: str, message: str
) -> None:
    assert not user_file.exists()
    monkeypatch.setenv(variable, value)
    result = run("check")
    assert result.exit_code == 9
    assert message in result.stdout


def test_a_project_file_accepts_only_project_settings(tmp_path: Path, user_file: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    assert run("set", "search.top_k", "4", "--project", "--path", folder).exit_code == 0
    assert (folder / "lookfar.toml").read_text() == "[search]\ntop_k = 4\n"
    refused = run("set", "embed.model", tmp_path / "x", "--project", "--path", folder)
    assert refused.exit_code == 2
    assert "may not be set by a project's own file" in refused.stderr
    assert not user_file.exists()
    assert run("set", "search.top_k", "4", "--project", "--path", tmp_path / "no").exit_code == 3


def test_byte_order_mark_and_line_ends_are_preserved(user_file: Path) -> None:
    user_file.parent.mkdir(parents=True, exist_ok=True)
    user_file.write_bytes(b"\xef\xbb\xbf[search]\r\ntop_k = 5\r\n")
    run("set", "search.mode", "keyword")
    assert user_file.read_bytes() == b'\xef\xbb\xbf[search]\r\ntop_k = 5\r\nmode = "keyword"\r\n'


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own there")
def test_a_symlinked_file_is_edited_at_its_target(user_file: Path, tmp_path: Path) -> None:
    real = write(tmp_path / "dotfiles" / "lookfar.toml", MINE)
    user_file.parent.mkdir(parents=True, exist_ok=True)
    user_file.symlink_to(real)
    run("set", "search.top_k", "6")
    assert user_file.is_symlink()
    assert "top_k = 6" in real.read_text()


def test_a_file_that_cannot_be_edited_safely_is_refused(user_file: Path) -> None:
    text = "search = { top_k = 5 }\n"
    write(user_file, text)
    result = run("unset", "search.top_k")
    assert result.exit_code == 2
    assert "Change it with an editor" in result.stderr
    assert user_file.read_text() == text


def test_a_setting_without_effect_cannot_be_set_but_removed(user_file: Path) -> None:
    """Seen to fail with the advice to correct the name."""
    write(user_file, "[search]\npage_share = 0.5\ntop_k = 5\n")
    for arguments in (("set", "search.page_share", "0.4"), ("get", "search.page_share")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "search.page_share no longer has an effect." in result.stderr
        assert "lookfar config unset" in result.stderr
    assert run("unset", "search.page_share").exit_code == 0
    assert user_file.read_text() == "[search]\ntop_k = 5\n"

"""``lookfar setup`` as people meet it: what it finds, shows, asks, and tells agents."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.serve.setup import markdown
from lookfar.serve.setup.machine import Machine, find_launcher
from serve.setup.configs import LINUX, SAMPLES
from serve.terminal import on_terminal

Setup = Callable[..., Result]
Report = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the paths are those of Linux")


@pytest.fixture
def cursor(own_home: Path) -> Path:
    path = own_home / LINUX["cursor"]
    path.parent.mkdir(parents=True)
    path.write_text(SAMPLES["cursor"], encoding="utf-8")
    return path


@pytest.fixture
def codex(own_home: Path) -> Path:
    path = own_home / LINUX["codex"]
    path.parent.mkdir(parents=True)
    path.write_text(SAMPLES["codex"], encoding="utf-8")
    return path


def test_setup_finds_clients_and_configures_the_confirmed_ones(
    cursor: Path, codex: Path, setup: Setup
) -> None:
    result = setup(answers="y\nn\n")
    assert result.exit_code == 0, result.output
    assert "Change the settings of Cursor? [Y/n]" in result.stderr
    assert "Change the settings of Codex? [Y/n]" in result.stderr
    assert "Cursor: added to ~/.cursor/mcp.json." in result.stdout
    assert "Codex: not changed: ~/.codex/config.toml." in result.stdout
    assert '+        "lookfar": {' in result.stdout
    assert "+[mcp_servers.lookfar]" in result.stdout
    assert "lookfar" in cursor.read_text(encoding="utf-8")
    assert codex.read_text(encoding="utf-8") == SAMPLES["codex"]


def test_only_the_client_that_was_named(cursor: Path, codex: Path, report: Report) -> None:
    shape = report("--client", "codex", "--client", "codex")
    assert [(step["client"], step["state"]) for step in shape["changes"]] == [("codex", "added")]
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]
    undone = report("--undo", "--client", "cursor")
    assert undone["changes"] == []
    assert report("--undo", "--client", "codex")["changes"][0]["state"] == "restored"
    assert codex.read_text(encoding="utf-8") == SAMPLES["codex"]


def test_a_dry_run_changes_nothing(cursor: Path, own_home: Path, setup: Setup) -> None:
    result = setup("--dry-run", "--snippet", index=True)
    assert result.exit_code == 0
    assert "Cursor: would be changed: ~/.cursor/mcp.json." in result.stdout
    assert "+++ " in result.stdout
    assert "+## Searching this project" in result.stdout
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]
    assert [path.name for path in own_home.iterdir()] == [".cursor"]
    assert not Path("AGENTS.md").exists()


def test_undo_shows_a_diff_and_asks(cursor: Path, setup: Setup) -> None:
    setup("--yes")
    after = cursor.read_text(encoding="utf-8")
    output = setup("--undo", "--dry-run")
    assert '-        "lookfar": {' in output.stdout
    assert "Cursor: would be changed" in output.stdout
    declined = setup("--undo", answers="n\n")
    assert "Undo this in Cursor? [Y/n]" in declined.stderr
    assert cursor.read_text(encoding="utf-8") == after
    assert "Cursor: restored " in setup("--undo", answers="\n").stdout
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]
    assert "There is nothing to undo." in setup("--undo", "--yes").stdout


def test_without_a_terminal_confirmation_is_required(cursor: Path, setup: Setup) -> None:
    for arguments in ([], ["--json"]):
        result = setup(*arguments)
        assert result.exit_code == 2
        assert ("Change the settings" in result.stderr) == (not arguments)
        assert "CONFIRMATION_REQUIRED" in result.output
        assert "--yes" in result.output
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]


def test_no_client_at_all(setup: Setup) -> None:
    result = setup("--yes")
    assert result.exit_code == 3
    assert "No supported client was found" in result.stderr
    assert "claude-code" in result.stderr


def test_an_unknown_client(setup: Setup) -> None:
    result = setup("--client", "curser", "--yes")
    assert result.exit_code == 2
    assert "Did you mean cursor?" in result.stderr
    assert "Known clients: claude-code" in setup("--client", "emacs-of-old", "--yes").stderr


def test_a_symlinked_project_is_the_same_project(
    project: Path, tmp_path: Path, report: Report
) -> None:
    (tmp_path / "link").symlink_to(project)
    report(tmp_path / "link", "--client", "cursor", "--scope", "project")
    assert (project / ".cursor" / "mcp.json").exists()
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert not (project / ".cursor").exists()


def test_a_folder_name_that_is_not_unicode(own_home: Path, tmp_path: Path, report: Report) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    shape = report(folder, "--client", "junie", "--client", "gemini")
    assert shape["exit_code"] == 2
    assert [step["state"] for step in shape["changes"]] == ["failed", "added"]
    assert not (own_home / LINUX["junie"]).exists()


def test_an_unreadable_guide_is_reported(project: Path, report: Report) -> None:
    (project / "CLAUDE.md").mkdir()
    shape = report("--client", "claude-code", "--client", "codex", "--snippet")
    assert [step["state"] for step in shape["changes"]] == ["added", "added", "failed", "added"]
    assert markdown.has((project / "AGENTS.md").read_text(encoding="utf-8"))


def test_a_folder_that_is_not_there(setup: Setup) -> None:
    assert setup("nowhere", "--yes").exit_code == 3


def test_a_client_without_a_file_in_projects(setup: Setup, cursor: Path) -> None:
    result = setup("--client", "windsurf", "--scope", "project", "--yes")
    assert result.exit_code == 2
    assert "Windsurf has no settings file in a project" in result.stderr
    assert "windsurf" not in setup("--scope", "project", "--yes").output.lower()
    assert Path(".cursor/mcp.json").exists()
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]


def test_the_home_folder_is_not_a_project(
    own_home: Path, codex: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_home)
    result = setup("--client", "claude-desktop", "--client", "codex", "--yes", index=True)
    assert result.exit_code == 3
    assert "lookfar setup PATH" in result.stderr
    assert "There is no project here to index" in result.stdout
    assert "[mcp_servers.lookfar]" in codex.read_text(encoding="utf-8")
    assert not (own_home / LINUX["claude-desktop"]).exists()


@pytest.mark.parametrize(
    "arguments",
    [("--undo", "--snippet"), ("--undo", "--skill"), ("--skill", "--no-snippet")],
    ids=" ".join,
)
def test_options_that_contradict_each_other(arguments: tuple[str, ...], setup: Setup) -> None:
    assert setup(*arguments, "--yes").exit_code == 2


def test_the_json_object(cursor: Path, project: Path, report: Report) -> None:
    shape = report()
    (step,) = shape["changes"]
    assert shape["project"] == str(project)
    assert shape["command"] == [str(Path(sys.executable).parent / "lookfar"), "mcp"]
    assert shape["dry_run"] is False
    assert (shape["index"], shape["trials"]) == (None, [])
    assert {key: step[key] for key in ("client", "title", "scope", "path", "state", "error")} == {
        "client": "cursor",
        "title": "Cursor",
        "scope": "user",
        "path": str(cursor),
        "state": "added",
        "error": None,
    }
    assert any("lookfar" in line for line in step["diff"])


# --- snippets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "# Rules\n\nBe kind.\n", "# Rules", "# Rules\r\n\r\n"])
def test_the_snippet_is_added_once_and_removed(
    text: str | None, codex: Path, project: Path, report: Report
) -> None:
    path = project / "AGENTS.md"
    if text is not None:
        path.write_bytes(text.encode())
    assert [step["state"] for step in report("--snippet")["changes"]] == ["added", "added"]
    after = path.read_bytes()
    assert after.startswith((text or "").encode())
    assert after.count(b"## Searching this project") == 1
    assert not text or "\r\n" not in text or after.count(b"\n") == after.count(b"\r\n")
    assert [step["state"] for step in report("--snippet")["changes"]] == ["unchanged", "unchanged"]
    assert path.read_bytes() == after
    assert report("--undo")["exit_code"] == 0
    assert (path.read_bytes() if path.exists() else None) == (text.encode() if text else text)
    assert codex.read_text(encoding="utf-8") == SAMPLES["codex"]


def test_an_older_snippet_is_updated_in_place(codex: Path, project: Path, report: Report) -> None:
    path = project / "AGENTS.md"
    path.write_text(f"# A\n\n{markdown.BEGIN}\nold\n{markdown.END}\n\n# B\n", encoding="utf-8")
    assert report("--snippet")["changes"][1]["state"] == "updated"
    after = path.read_text(encoding="utf-8")
    assert after.startswith("# A\n\n<!-- lookfar: begin -->\n## Searching")
    assert after.endswith("<!-- lookfar: end -->\n\n# B\n")
    path.write_text(after + "more\n", encoding="utf-8")
    assert [step["state"] for step in report("--undo")["changes"]] == ["restored", "removed"]
    assert path.read_text(encoding="utf-8") == "# A\n\n\n# B\nmore\n"


def test_half_a_snippet_is_not_changed(codex: Path, project: Path, setup: Setup) -> None:
    path = project / "AGENTS.md"
    path.write_text(f"{markdown.BEGIN}\nold\n", encoding="utf-8")
    result = setup("--yes", "--snippet")
    assert result.exit_code == 2
    assert "only one of the marks" in result.stderr
    assert path.read_text(encoding="utf-8") == f"{markdown.BEGIN}\nold\n"


def test_the_snippet_needs_its_own_confirmation(codex: Path, project: Path, setup: Setup) -> None:
    setup("--yes")
    assert not (project / "AGENTS.md").exists()
    asked = setup(answers="\n")
    assert "Tell agents in AGENTS.md to search with Lookfar instead of grep? [y/N]" in asked.stderr
    assert not (project / "AGENTS.md").exists()
    assert "Tell agents" not in setup("--no-snippet").stderr
    setup(answers="y\n")
    assert markdown.has((project / "AGENTS.md").read_text(encoding="utf-8"))


def test_each_client_gets_the_snippet_in_its_own_file(project: Path, report: Report) -> None:
    named = ("--client", "claude-code", "--client", "gemini", "--client", "codex")
    report(*named, "--client", "claude-desktop", "--snippet")
    for name in ("CLAUDE.md", "GEMINI.md", "AGENTS.md"):
        assert markdown.has((project / name).read_text(encoding="utf-8"))
    report("--undo")
    assert sorted(os.listdir(project)) == ["guide.md", "package.json"]


def test_a_file_that_includes_agents_md_gets_no_second_snippet(
    project: Path, report: Report
) -> None:
    (project / "CLAUDE.md").write_text("@AGENTS.md\n", encoding="utf-8")
    (project / "GEMINI.md").symlink_to("AGENTS.md")
    shape = report("--client", "claude-code", "--client", "gemini", "--snippet")
    assert [step["client"] for step in shape["changes"]] == ["claude-code", "gemini", "snippet"]
    assert (project / "CLAUDE.md").read_text(encoding="utf-8") == "@AGENTS.md\n"
    text = (project / "AGENTS.md").read_text(encoding="utf-8")
    assert text.count(markdown.BEGIN) == 1


def test_a_skill_instead(project: Path, report: Report) -> None:
    named = ("--client", "claude-code", "--client", "codex")
    report(*named, "--skill")
    for folder in (".claude", ".agents"):
        text = (project / folder / "skills" / "lookfar" / "SKILL.md").read_text(encoding="utf-8")
        assert text.startswith("---\nname: lookfar\ndescription: ")
        assert text.count(markdown.BEGIN) == 1
    assert not (project / "CLAUDE.md").exists()
    assert {step["state"] for step in report(*named, "--skill")["changes"]} == {"unchanged"}
    report("--undo")
    assert sorted(os.listdir(project)) == ["guide.md", "package.json"]


def test_a_foreign_skill_is_not_changed(project: Path, report: Report) -> None:
    path = project / ".agents" / "skills" / "lookfar" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: lookfar\n---\nmine\n", encoding="utf-8")
    shape = report("--client", "codex", "--skill")
    assert shape["exit_code"] == 2
    assert path.read_text(encoding="utf-8").endswith("mine\n")


# --- how Lookfar is started -------------------------------------------------------------------


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_command_beside_our_python_comes_first(tmp_path: Path) -> None:
    ours = program(tmp_path / "venv" / "bin" / "lookfar")
    other = program(tmp_path / "bin" / "lookfar")
    machine = Machine("linux", {"PATH": str(other.parent)})
    assert find_launcher(machine, str(ours.parent / "python")) == (str(ours),)
    ours.unlink()
    assert find_launcher(machine, str(ours.parent / "python")) == (str(other),)
    other.chmod(0o644)
    assert find_launcher(machine, str(ours.parent / "python")) == (
        str(ours.parent / "python"), "-m", "lookfar",
    )  # fmt: skip


def test_what_uvx_runs_is_started_by_uvx(tmp_path: Path) -> None:
    cached = program(tmp_path / "cache" / "uv" / "archive-v0" / "Xy" / "bin" / "lookfar")
    uvx = program(tmp_path / "bin" / "uvx")
    machine = Machine("linux", {"PATH": f"{cached.parent}:{uvx.parent}"})
    assert find_launcher(machine, str(cached.parent / "python")) == (str(uvx), "lookfar")
    uvx.unlink()
    python = str(cached.parent / "python")
    assert find_launcher(machine, python) == (python, "-m", "lookfar")


def test_on_windows_a_program_has_its_extension(tmp_path: Path) -> None:
    ours = program(tmp_path / "Scripts" / "lookfar.exe")
    machine = Machine("win32", {"PATH": ""})
    assert find_launcher(machine, str(ours.parent / "python.exe")) == (str(ours),)


# --- on a terminal ----------------------------------------------------------------------------


def run_setup(answers: str, *arguments: str, **variables: str) -> tuple[int, str]:
    env = {"COLUMNS": "120", **variables}
    return on_terminal("setup", "--no-index", *arguments, typed=answers, env=env)


def test_a_terminal_shows_colours_and_asks(cursor: Path) -> None:
    code, output = run_setup("y\nn\n")
    assert code == 0, output
    assert "\x1b[32m+" in output
    assert "Change the settings of Cursor?" in output
    assert "lookfar" in cursor.read_text(encoding="utf-8")
    code, output = run_setup("n\n", "--undo", NO_COLOR="1")
    assert code == 0, output
    assert "\x1b[31m" not in output
    assert "lookfar" in cursor.read_text(encoding="utf-8")


def test_a_pipe_gets_no_colours(cursor: Path, setup: Setup) -> None:
    assert "\x1b" not in setup("--dry-run").output
    assert json.loads(setup("--dry-run", "--json").stdout)["dry_run"] is True
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]


def test_all_clients_are_set_up_after_one_question(cursor: Path, codex: Path, setup: Setup) -> None:
    declined = setup("--all", answers="n\n")
    assert declined.stderr.count("[Y/n]") == 1
    assert "Change the settings of Cursor, Codex? [Y/n]" in declined.stderr
    assert "Cursor: not changed" in declined.stdout
    assert cursor.read_text(encoding="utf-8") == SAMPLES["cursor"]
    assert codex.read_text(encoding="utf-8") == SAMPLES["codex"]
    result = setup("--all", answers="y\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.count('+        "lookfar": {') == 1
    assert "lookfar" in cursor.read_text(encoding="utf-8")
    assert "lookfar" in codex.read_text(encoding="utf-8")
    again = setup("--all")
    assert again.exit_code == 0, "nothing would change, so nothing is asked"
    assert "--client" in setup("--all", "--client", "codex").stderr


def test_without_a_client_the_generic_entry_is_printed(
    setup: Setup, report: Report, project: Path
) -> None:
    result = setup("--yes")
    text = result.stdout[result.stdout.index("{") :]
    entry = json.loads(text)["mcpServers"]["lookfar"]
    assert entry["args"][-2:] == ["mcp", str(project)]
    assert "Add the entry" in result.stderr
    details = report()["error"]["details"]
    assert details["entry"] == json.loads(text)


def test_setup_indexes_packages_only_if_the_user_says_so(
    codex: Path, project: Path, setup: Setup
) -> None:
    from lookfar.library import Library
    from outside.installed import install_python

    assert codex.exists()
    install_python(project, "ziplib", "1.0", {"ziplib.py": "def zip_up(): ...\n"})

    def count() -> int | None:
        with Library.open(project) as library:
            return library.statuses()[0].packages

    asked = setup("--client", "codex", "--no-snippet", answers="y\nn\n", index=True)
    assert "Index the 1 package that harbour uses" in asked.output
    assert count() is None
    setup("--client", "codex", "--no-snippet", "--yes", index=True)
    assert count() is None
    done = setup("--client", "codex", "--no-snippet", "--yes", "--packages", index=True)
    assert "1 package indexed" in done.output
    assert count() == 1

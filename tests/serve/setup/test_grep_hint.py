"""The hook after greps: it mentions Lookfar when a grep found nothing, and is silent otherwise.

The shapes of the events are those that Claude Code sends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lookfar.serve.setup.grep_hint import read_hint

PATH = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
ROOT = Path(__file__).parent.parent.parent.parent
NO_FILES = {"mode": "files_with_matches", "filenames": [], "numFiles": 0}
NO_LINES = {"mode": "content", "numFiles": 0, "filenames": [], "content": "", "numLines": 0}
NO_COUNT = {"mode": "count", "filenames": [], "content": "No matches found", "numMatches": 0}
SILENCE = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}


def event(tool: str, given: dict[str, Any], response: Any) -> str:
    shape = {
        "session_id": "1",
        "hook_event_name": "PostToolUse",
        "tool_name": tool,
        "tool_input": given,
        "tool_response": response,
    }
    return json.dumps(shape)


@pytest.mark.parametrize("response", [NO_FILES, NO_LINES, NO_COUNT, "No files found", ""])
def test_a_grep_that_found_nothing_gets_a_hint(response: Any) -> None:
    hint = read_hint(event("Grep", {"pattern": r"rotate_key\w+|renewSigningKey"}, response))
    assert 'search with the query "rotate key renew signing key"' in hint
    assert len(hint) < 300


@pytest.mark.parametrize(
    "response",
    [
        {**NO_FILES, "filenames": ["a.py"], "numFiles": 1},
        {**NO_LINES, "content": "a.py:1:x", "numLines": 1},
        {**NO_COUNT, "content": "a.py:3", "numMatches": 3},
        "Found 1 file\na.py",
    ],
)
def test_a_grep_that_found_something_gets_none(response: Any) -> None:
    assert read_hint(event("Grep", {"pattern": "key"}, response)) == ""


@pytest.mark.parametrize(
    ("command", "query"),
    [
        ("rg -n 'rotate key' src", "rotate key"),
        ("cd src && rg -g '*.py' -A 3 rotateKey | head -20", "rotate key"),
        ("grep -rn --include '*.md' \"signing key\" . 2>/dev/null", "signing key"),
        ("git grep -e expiry -- docs", "expiry"),
        ("LC_ALL=C grep -r Schlüssel .", "schlüssel"),
        ("ls; rg nothing || true", "nothing"),
    ],
)
def test_a_shell_that_greps_in_vain_gets_a_hint(command: str, query: str) -> None:
    nothing = {**SILENCE, "returnCodeInterpretation": "No matches found"}
    assert f'the query "{query}"' in read_hint(event("Bash", {"command": command}, nothing))


@pytest.mark.parametrize(
    ("command", "response"),
    [
        ("rg key src", {**SILENCE, "stdout": "src/a.py:1:key\n"}),
        ("rg '(' src", {**SILENCE, "stderr": "regex parse error"}),
        ("rg key src", {**SILENCE, "interrupted": True}),
        ("rg key src", {**SILENCE, "backgroundTaskId": "b1"}),
        ("rg -q key src && touch found", SILENCE),
        ("grep -r key src > found.txt", SILENCE),
        ("ps aux | grep server", SILENCE),
        ("make", SILENCE),
        ("echo ripgrep grep", SILENCE),
        ("rg '\\w+' src", SILENCE),
    ],
)
def test_other_commands_get_none(command: str, response: Any) -> None:
    assert read_hint(event("Bash", {"command": command}, response)) == ""


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"tool_name": "Grep"}', "[" * 100_000])
def test_what_is_not_an_event_is_ignored(text: str) -> None:
    assert read_hint(text) == ""
    assert read_hint(event("Grep", {}, NO_FILES)) == ""
    assert read_hint(event("Bash", {"command": "rg 'open"}, SILENCE)) == ""
    assert read_hint(event("Bash", {"command": None}, 7)) == ""


def answer(command: list[str], text: str, **env: str) -> str:
    done = subprocess.run(
        command,
        input=text,
        env={**os.environ, "PATH": PATH, **env},
        cwd=ROOT / "examples",
        capture_output=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(params=["lookfar", "plugin"])
def hook(request: pytest.FixtureRequest) -> list[str]:
    """The command of the hook, as setup and as the plugin configure it."""
    if request.param == "lookfar":
        return [sys.executable, "-m", "lookfar", "grep-hint"]
    hooks = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
    [group] = hooks["PostToolUse"]
    [command] = group["hooks"]
    assert group["matcher"] == "Grep|Bash"
    return ["sh", "-c", command["command"].replace("${CLAUDE_PLUGIN_ROOT}", str(ROOT / "plugin"))]


@pytest.mark.skipif(sys.platform == "win32", reason="it is a command of a shell")
def test_the_hook_answers_as_claude_code_expects_and_can_be_off(hook: list[str]) -> None:
    text = event("Grep", {"pattern": "rotate"}, NO_FILES)
    shape = json.loads(answer(hook, text))["hookSpecificOutput"]
    assert shape["hookEventName"] == "PostToolUse"
    assert '"rotate"' in shape["additionalContext"]
    assert answer(hook, text, LOOKFAR_SERVE_GREP_HINT="false") == ""
    assert answer(hook, "nonsense") == ""


def test_the_copy_in_the_plugin_is_the_same() -> None:
    ours = ROOT / "src" / "lookfar" / "serve" / "setup" / "grep_hint.py"
    copy = ROOT / "plugin" / "hooks" / "grep_hint.py"
    assert copy.read_bytes() == ours.read_bytes(), "run: scripts/docs.py"
    explorer = (ours.parent / "explorer.md").read_text("utf-8")
    shipped = (ROOT / "plugin" / "agents" / "explorer.md").read_text("utf-8")
    assert shipped == explorer.replace("name: lookfar-explorer", "name: explorer")


def test_the_hook_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys, lookfar.serve.entry, lookfar.serve.setup.grep_hint\n"
        "print(sorted(set(sys.modules) & {'click', 'pydantic', 'numpy', 'mcp', 'yaml', 'asyncio'}))"
    )
    assert answer([sys.executable, "-c", code], "") == "[]\n"


Report = Callable[..., dict[str, Any]]
SETTINGS = """\
{
  // Mine.
  "hooks": {
    "PostToolUse": [
      {"matcher": "Write", "hooks": [{"type": "command", "command": "fmt"}]}
    ]
  },
  "model": "opus"
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the paths are those of Linux")
class TestSetup:
    def test_helpers_are_added_and_undone(self, own_home: Path, report: Report) -> None:
        settings = own_home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(SETTINGS, "utf-8")
        shape = report("--client", "claude-code", "--helpers")
        steps = {step["title"]: step for step in shape["changes"]}
        assert steps["Explorer subagent"]["path"].endswith("/.claude/agents/lookfar-explorer.md")
        assert steps["Hint after greps"]["state"] == "added"
        text = settings.read_text("utf-8")
        assert "// Mine." in text
        assert '{"matcher": "Write", "hooks": [{"type": "command", "command": "fmt"}]},' in text
        assert "grep-hint" in text
        agent = own_home / ".claude" / "agents" / "lookfar-explorer.md"
        assert agent.read_text("utf-8").startswith("---\nname: lookfar-explorer\n")
        again = report("--client", "claude-code", "--helpers")
        assert {step["state"] for step in again["changes"]} == {"unchanged"}
        report("--undo", "--client", "claude-code")
        assert settings.read_text("utf-8") == SETTINGS
        assert not agent.parent.exists()

    def test_only_our_hook_is_removed_from_a_file_that_changed(
        self, own_home: Path, report: Report
    ) -> None:
        settings = own_home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(SETTINGS, "utf-8")
        report("--client", "claude-code", "--helpers")
        settings.write_text(settings.read_text("utf-8").replace("opus", "sonnet"), "utf-8")
        report("--undo")
        assert settings.read_text("utf-8") == SETTINGS.replace("opus", "sonnet")

    def test_in_a_project_the_hook_is_not_committed(self, project: Path, report: Report) -> None:
        report("--client", "claude-code", "--scope", "project", "--helpers")
        local = json.loads((project / ".claude" / "settings.local.json").read_text("utf-8"))
        [hook] = local["hooks"]["PostToolUse"]
        assert hook["matcher"] == "Grep|Bash"
        assert (project / ".claude" / "agents" / "lookfar-explorer.md").exists()

    def test_each_helper_is_asked_for(self, own_home: Path, setup: Callable[..., Any]) -> None:
        result = setup("--client", "claude-code", answers="y\nn\ny\nn\n")
        assert "Add a subagent for searches? [y/N]" in result.stderr
        assert (
            "Mention Lookfar to the agent after a grep that finds nothing? [y/N]" in result.stderr
        )
        assert (own_home / ".claude" / "agents" / "lookfar-explorer.md").exists()
        assert not (own_home / ".claude" / "settings.json").exists()

    def test_other_clients_and_yes_alone_get_none(self, own_home: Path, report: Report) -> None:
        report("--client", "cursor", "--helpers")
        report("--client", "claude-code")
        assert not (own_home / ".claude").exists()

    def test_settings_without_room_for_a_hook_are_not_changed(
        self, own_home: Path, report: Report
    ) -> None:
        settings = own_home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text('{"hooks": {"PostToolUse": {}}}', "utf-8")
        shape = report("--client", "claude-code", "--helpers")
        assert "hooks.PostToolUse is not a list" in str(shape["changes"][-1]["error"])
        assert settings.read_text("utf-8") == '{"hooks": {"PostToolUse": {}}}'

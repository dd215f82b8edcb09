"""What real clients say of Lookfar, its plugin and its bundle, in an empty home.

``scripts/clients.py`` runs these tests. Seen to fail: Claude Code says "Failed to connect" when uv
cannot find the package of the plugin.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from clients.fake_model import fake_model
from clients.programs import User, line_about
from publish import hosts
from script_modules import load_script

ROOT = Path(__file__).parent.parent.parent


def trust(user: User) -> None:
    """Trust the project, as a user of Gemini CLI does when it asks."""
    folder = user.home / ".gemini"
    folder.mkdir(exist_ok=True)
    trusted = {str(user.project): "TRUST_FOLDER"}
    (folder / "trustedFolders.json").write_text(json.dumps(trusted), encoding="utf-8")


# --- setup --------------------------------------------------------------------------------------


def test_claude_code_connects_after_setup(user: User) -> None:
    user.lookfar("setup", "--client", "claude-code", "--yes")
    assert "Connected" in line_about(user.run("claude", "mcp", "list"), "lookfar:")
    user.lookfar("setup", "--undo", "--yes")
    assert "lookfar" not in user.run("claude", "mcp", "list")


def test_claude_code_gets_the_explorer_and_hints_after_greps_in_vain(user: User) -> None:
    user.lookfar("setup", "--client", "claude-code", "--yes", "--helpers")
    calls: list[tuple[str, dict[str, object]]] = [
        ("Grep", {"pattern": "renewHarbourKeys"}),
        ("Bash", {"command": "grep -rn moonshine .", "description": "Search"}),
        ("Grep", {"pattern": "harbour"}),
    ]
    with fake_model(*calls) as model:
        environment: dict[str, Any] = {
            "ANTHROPIC_BASE_URL": model.address,
            "ANTHROPIC_API_KEY": "none",
        }
        tools = ("--allowedTools", "Grep,Bash")
        assert "done" in user.run("claude", "-p", "Where are keys?", *tools, **environment)
    sent = json.dumps(model.last)
    assert "- lookfar-explorer: Finds the places" in sent
    assert {"mcp__lookfar__search", "mcp__lookfar__read"} <= {
        tool["name"] for tool in model.last["tools"]
    }
    assert "PostToolUse:Grep hook additional context: The grep found nothing." in sent
    assert 'renew harbour keys\\"' in sent
    assert 'moonshine\\"' in sent
    assert sent.count("The grep found nothing.") == 2


def test_codex_lists_it_as_enabled_after_setup(user: User) -> None:
    user.lookfar("setup", "--client", "codex", "--yes")
    line = line_about(user.run("codex", "mcp", "list"), "lookfar ")
    assert "enabled" in line
    user.lookfar("setup", "--undo", "--yes")
    assert "lookfar " not in user.run("codex", "mcp", "list")


def test_gemini_connects_in_a_trusted_folder_after_setup(user: User) -> None:
    user.lookfar("setup", "--client", "gemini", "--yes")
    assert "Disabled" in line_about(user.run("gemini", "mcp", "list"), "lookfar:")
    trust(user)
    assert "Connected" in line_about(user.run("gemini", "mcp", "list"), "lookfar:")


# --- the commands of the documentation ----------------------------------------------------------


def test_the_documented_commands_add_it(user: User) -> None:
    """As docs/agents.md prints them."""
    text = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    trust(user)
    for client in ("claude", "codex", "gemini"):
        [command] = [line for line in text.splitlines() if line.startswith(f"{client} mcp add ")]
        user.run(*command.split())
        assert "lookfar" in user.run(client, "mcp", "list")
    assert "Connected" in line_about(user.run("claude", "mcp", "list"), "lookfar:")
    assert "Connected" in line_about(user.run("gemini", "mcp", "list"), "lookfar:")


# --- the plugin ---------------------------------------------------------------------------------


def test_the_plugin_is_valid(user: User) -> None:
    user.run("claude", "plugin", "validate", "--strict", ROOT)
    user.run("claude", "plugin", "validate", "--strict", "--profile", "directory", ROOT / "plugin")


def test_the_plugin_is_installed_and_connects(user: User) -> None:
    market = user.home / "market"
    for name in (".claude-plugin", "plugin"):
        shutil.copytree(ROOT / name, market / name)
    # The first start installs what Lookfar depends on.
    user.run("uvx", "lookfar", "--version")
    user.run("claude", "plugin", "marketplace", "add", market)
    user.run("claude", "plugin", "install", "lookfar@lookfar")
    details = user.run("claude", "plugin", "details", "lookfar")
    assert "Skills (1)  lookfar" in details
    assert "Agents (1)  explorer" in details
    assert "Hooks (1)  PostToolUse" in details
    assert "MCP servers (1)  lookfar" in details
    line = line_about(user.run("claude", "mcp", "list"), "plugin:lookfar:lookfar")
    assert "Connected" in line, line
    user.run("claude", "plugin", "uninstall", "lookfar@lookfar")
    assert "lookfar" not in user.run("claude", "mcp", "list")


# --- the bundle and the registry ----------------------------------------------------------------


def test_the_bundle_is_valid_and_starts(user: User) -> None:
    """With the environment that uv makes of its pyproject.toml."""
    bundle = load_script("scripts/bundle.py").write_bundle(next(user.wheels.iterdir()), user.home)
    user.run("mcpb", "validate", ROOT / "bundle" / "manifest.json")
    unpacked = user.home / "unpacked"
    user.run("mcpb", "unpack", bundle, unpacked)
    manifest = hosts.unpack(bundle, unpacked)
    # Packed by the tool of the format, it has the same files.
    user.run("mcpb", "pack", unpacked, user.home / "packed.mcpb")
    assert hosts.unpack(user.home / "packed.mcpb", user.home / "again") == manifest
    command = hosts.make_command(manifest, unpacked, {"folders": [str(user.project)]})
    answer = hosts.search(command, user.env, user.home, "harbour keys")
    assert "Rotate the harbour keys monthly." in answer


@pytest.mark.usefixtures("cache")
def test_server_json_matches_the_public_schema() -> None:
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    try:
        with urllib.request.urlopen(server["$schema"], timeout=30) as answer:
            schema = json.load(answer)
    except (urllib.error.URLError, TimeoutError) as reason:
        pytest.skip(f"the schema cannot be had: {reason}")
    Draft7Validator(schema).validate(server)

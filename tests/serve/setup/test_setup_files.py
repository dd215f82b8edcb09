"""Every client's own file: set up, set up again, and back to the very bytes it had."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.errors import Conflict
from lookfar.serve.setup import edits, jsonc
from lookfar.serve.setup.backups import Backups
from lookfar.serve.setup.clients import BY_NAME, CLIENTS
from lookfar.serve.setup.edits import ClientFile, Edit
from lookfar.serve.setup.machine import Machine
from serve.setup.configs import APPLE, KEYS, LINUX, PROJECT, SAMPLES, WINDOWS
from serve.setup.insertions import only_inserted

Setup = Callable[..., Result]
Report = Callable[..., dict[str, Any]]
LAUNCH = str(Path(sys.executable).parent / "lookfar")
BOM = b"\xef\xbb\xbf"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the paths are those of Linux")


def values(client: str, raw: bytes) -> dict[str, Any]:
    """Parse a file as its client does."""
    text = raw.removeprefix(BOM).decode()
    if client == "codex":
        return tomllib.loads(text)
    node = jsonc.parse(text)
    assert node is not None
    found: dict[str, Any] = node.value
    return found


def servers(client: str, raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = values(client, raw)[KEYS.get(client, "mcpServers")]
    return found


def expected(client: str, project: Path) -> dict[str, Any]:
    """Return the expected entry of a client."""
    words = ["mcp"]
    if client in ("cursor", "vscode", "vscode-insiders"):
        words.append("${workspaceFolder}")
    elif client not in ("claude-code", "codex", "gemini", "zed", "opencode"):
        words.append(str(project))
    plain = {"command": LAUNCH, "args": words}
    special: dict[str, dict[str, Any]] = {
        "claude-code": {"type": "stdio", **plain},
        "vscode": {"type": "stdio", **plain},
        "vscode-insiders": {"type": "stdio", **plain},
        "codex": {"startup_timeout_sec": 30, **plain},
        "zed": {"source": "custom", **plain},
        "opencode": {"type": "local", "enabled": True, "command": [LAUNCH, *words]},
    }
    return special.get(client, plain)


def write_file(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """List every file and folder below a home, except our own data."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not str(path.relative_to(folder)).startswith((".local", ".config/lookfar"))
    }


def test_every_client_has_its_samples() -> None:
    assert set(SAMPLES) == set(LINUX) == set(BY_NAME) == {client.name for client in CLIENTS}
    assert set(PROJECT) == {client.name for client in CLIENTS if client.project}


MANNERS: dict[str, Callable[[str], bytes]] = {
    "as it is": lambda text: text.encode(),
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: BOM + text.encode(),
    "no end": lambda text: text.rstrip("\n").encode(),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("client", SAMPLES)
def test_apply_apply_again_and_undo(
    client: str, manner: str, own_home: Path, project: Path, setup: Setup, report: Report
) -> None:
    original = MANNERS[manner](SAMPLES[client])
    path = write_file(own_home / LINUX[client], original)
    path.chmod(0o640)
    before = snapshot(own_home)

    first = setup("--client", client, "--yes")
    assert first.exit_code == 0, first.output
    after = path.read_bytes()
    assert servers(client, after)["lookfar"] == expected(client, project)
    others = values(client, after)
    del others[KEYS.get(client, "mcpServers")]["lookfar"]
    assert others == values(client, original)
    assert after.startswith(BOM) == original.startswith(BOM)
    assert (b"\r\n" in after) == (b"\r\n" in original)
    assert not original.count(b"\r\n") or after.count(b"\n") == after.count(b"\r\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert only_inserted(original.decode(), after.decode())

    again = report("--client", client)
    assert [step["state"] for step in again["changes"]] == ["unchanged"]
    assert path.read_bytes() == after

    undone = report("--undo")
    assert [step["state"] for step in undone["changes"]] == ["restored"]
    assert snapshot(own_home) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert report("--undo")["changes"] == []


@pytest.mark.parametrize("raw", [None, b"", b"\n", b"{}"], ids=["missing", "empty", "blank", "{}"])
@pytest.mark.parametrize("client", SAMPLES)
def test_a_file_without_servers(
    client: str, raw: bytes | None, own_home: Path, project: Path, report: Report
) -> None:
    raw = b"# none\n" if raw == b"{}" and client == "codex" else raw
    path = own_home / LINUX[client]
    if raw is not None:
        write_file(path, raw)
    before = snapshot(own_home)
    assert report("--client", client)["changes"][0]["state"] == "added"
    after = path.read_bytes()
    assert values(client, after) == {
        KEYS.get(client, "mcpServers"): {"lookfar": expected(client, project)}
    }
    assert client == "codex" or json.loads(after)
    assert report("--client", client)["changes"][0]["state"] == "unchanged"
    assert path.read_bytes() == after
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert snapshot(own_home) == before, "folders that were made are gone, too"


@pytest.mark.parametrize("client", PROJECT)
def test_in_the_project(
    client: str, own_home: Path, project: Path, report: Report, tmp_path: Path
) -> None:
    path = write_file(project / PROJECT[client], SAMPLES[client].encode())
    shape = report("--client", client, "--scope", "project")
    assert [step["path"] for step in shape["changes"]] == [str(path)]
    assert servers(client, path.read_bytes())["lookfar"] == expected(client, project)
    assert not (own_home / LINUX[client]).exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert report("--undo", elsewhere)["changes"] == [], "another project's file stays"
    assert report("--undo", "--scope", "user")["changes"] == []
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert path.read_bytes() == SAMPLES[client].encode()


@pytest.mark.parametrize("client", SAMPLES)
def test_a_broken_file_is_not_changed_and_others_are_set_up(
    client: str, own_home: Path, setup: Setup, report: Report
) -> None:
    other = "gemini" if client != "gemini" else "junie"
    good = write_file(own_home / LINUX[other], SAMPLES[other].encode())
    broken = SAMPLES[client].encode().replace(b"args", b'args"oops', 1) + b"\n}{ [broken"
    path = write_file(own_home / LINUX[client], broken)
    result = setup("--client", client, "--client", other, "--yes")
    assert result.exit_code == 2
    assert "error INVALID_CONFIG" in result.stderr
    assert str(path) in result.stderr
    assert "line" in result.stderr
    assert "hint: Fix the file" in result.stderr
    assert path.read_bytes() == broken
    assert b"lookfar" in good.read_bytes()
    failed = report("--client", client)
    assert failed["exit_code"] == 2
    assert failed["changes"][0]["error"]["code"] == "INVALID_CONFIG"


@pytest.mark.parametrize("client", SAMPLES)
def test_a_read_only_file_is_not_changed(client: str, own_home: Path, report: Report) -> None:
    path = write_file(own_home / LINUX[client], SAMPLES[client].encode())
    path.chmod(0o444)
    shape = report("--client", client)
    assert shape["exit_code"] == 8
    assert shape["changes"][0]["error"]["code"] == "PERMISSION_DENIED"
    assert path.read_bytes() == SAMPLES[client].encode()
    assert report("--undo")["changes"] == []


@pytest.mark.parametrize("client", SAMPLES)
def test_a_link_stays_a_link_and_its_target_is_edited(
    client: str, own_home: Path, tmp_path: Path, report: Report
) -> None:
    original = write_file(tmp_path / "dotfiles" / client, SAMPLES[client].encode())
    link = own_home / LINUX[client]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(original)
    assert report("--client", client)["changes"][0]["state"] == "added"
    assert link.is_symlink()
    assert "lookfar" in servers(client, original.read_bytes())
    assert sorted(os.listdir(original.parent)) == [client]
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert link.is_symlink()
    assert original.read_bytes() == SAMPLES[client].encode()


def test_a_dangling_link_gets_its_file(own_home: Path, tmp_path: Path, report: Report) -> None:
    link = own_home / LINUX["cursor"]
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "later" / "mcp.json")
    assert report("--client", "cursor")["changes"][0]["state"] == "added"
    assert "lookfar" in servers("cursor", (tmp_path / "later" / "mcp.json").read_bytes())
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert link.is_symlink()
    assert not (tmp_path / "later").exists()


@pytest.mark.parametrize("client", SAMPLES)
def test_undo_of_a_changed_file_removes_only_our_entry(
    client: str, own_home: Path, report: Report
) -> None:
    path = write_file(own_home / LINUX[client], SAMPLES[client].encode())
    report("--client", client)
    text = path.read_text(encoding="utf-8")
    mark = "# later\n" if client == "codex" else "// later\n"
    path.write_text(mark + text, encoding="utf-8")
    undone = report("--undo")["changes"][0]
    assert undone["state"] == "removed"
    assert "changed since" in undone["note"]
    original = Path(undone["note"].partition("The original is in ")[2])
    assert original.read_bytes() == SAMPLES[client].encode()
    left = path.read_text(encoding="utf-8")
    assert left.startswith(mark)
    assert left == mark + SAMPLES[client]
    assert report("--undo")["changes"] == []


def test_an_existing_entry_keeps_its_options_and_comments(
    own_home: Path, project: Path, report: Report
) -> None:
    text = """{
  "mcpServers": {
    "lookfar": {
      "command": "lookfar", // on my path
      "args": ["mcp", "--toolset", "msrl"],
      "env": { "LOOKFAR_INDEX_WORKERS": "2" }, // slow machine
      "disabled": true
    }
  }
}
"""
    path = write_file(own_home / LINUX["windsurf"], text.encode())
    assert report("--client", "windsurf")["changes"][0]["state"] == "updated"
    after = path.read_text(encoding="utf-8")
    args = json.dumps(["mcp", "--toolset", "msrl", str(project)])
    wanted = text.replace('"command": "lookfar"', f'"command": {json.dumps(LAUNCH)}')
    assert after == wanted.replace('["mcp", "--toolset", "msrl"]', args)
    assert report("--client", "windsurf")["changes"][0]["state"] == "unchanged"
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert path.read_text(encoding="utf-8") == text


def test_a_second_project_is_added_to_the_first(
    own_home: Path, project: Path, tmp_path: Path, report: Report
) -> None:
    second = tmp_path / "work" / "lighthouse"
    second.mkdir()
    path = write_file(own_home / LINUX["claude-desktop"], SAMPLES["claude-desktop"].encode())
    report("--client", "claude-desktop")
    assert report(second, "--client", "claude-desktop")["changes"][0]["state"] == "updated"
    entry = servers("claude-desktop", path.read_bytes())["lookfar"]
    assert entry["args"] == ["mcp", str(project), str(second)]
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert path.read_bytes() == SAMPLES["claude-desktop"].encode(), "the bytes before the first"


def test_undo_says_that_it_deletes_a_file_that_setup_created(own_home: Path, setup: Setup) -> None:
    setup("--client", "claude-desktop", "--yes")
    assert "which Lookfar had created" in setup("--undo", "--yes").output
    assert not (own_home / LINUX["claude-desktop"]).exists()


def test_undo_removes_a_file_that_setup_created_and_updated(
    own_home: Path, tmp_path: Path, report: Report
) -> None:
    before = snapshot(own_home)
    report("--client", "claude-desktop")
    assert report(tmp_path, "--client", "claude-desktop")["changes"][0]["state"] == "updated"
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert snapshot(own_home) == before


def test_setting_up_again_after_a_change(own_home: Path, report: Report) -> None:
    path = write_file(own_home / LINUX["gemini"], SAMPLES["gemini"].encode())
    report("--client", "gemini")
    changed = path.read_text(encoding="utf-8").replace("GitHub", "Dracula").replace(LAUNCH, "old")
    path.write_text(changed, encoding="utf-8")
    assert report("--client", "gemini")["changes"][0]["state"] == "updated"
    assert report("--undo")["changes"][0]["state"] == "restored"
    assert path.read_text(encoding="utf-8") == SAMPLES["gemini"].replace("GitHub", "Dracula")


def test_a_remote_server_is_not_changed(own_home: Path, report: Report) -> None:
    text = '{"mcpServers": {"lookfar": {"url": "http://127.0.0.1:8377/mcp"}}}'
    path = write_file(own_home / LINUX["cursor"], text.encode())
    assert report("--client", "cursor")["changes"][0]["state"] == "kept"
    assert path.read_text(encoding="utf-8") == text


def test_a_disabled_entry_stays_disabled(own_home: Path, report: Report) -> None:
    text = '{"mcp": {"lookfar": {"type": "local", "command": ["x", "mcp"], "enabled": false}}}'
    path = write_file(own_home / LINUX["opencode"], text.encode())
    assert report("--client", "opencode")["changes"][0]["state"] == "updated"
    assert path.read_text(encoding="utf-8") == text.replace('"x"', json.dumps(LAUNCH))


def test_servers_of_the_newer_opencode(own_home: Path, project: Path, report: Report) -> None:
    text = '{"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}}}'
    path = write_file(own_home / ".config/opencode/opencode.jsonc", text.encode())
    report("--client", "opencode")
    found = values("opencode", path.read_bytes())["mcp"]["servers"]
    assert found["lookfar"] == expected("opencode", project)
    assert report("--client", "opencode")["changes"][0]["state"] == "unchanged"
    path.write_bytes(b"\n" + path.read_bytes())
    assert report("--undo")["changes"][0]["state"] == "removed"
    assert path.read_text(encoding="utf-8") == "\n" + text


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"mcpServers": []}', "mcpServers is not an object"),
        (b"[]", "the file is not an object"),
        ('{"mcpServers": {}}'.encode("utf-16"), "it is not UTF-8"),
    ],
)
def test_a_file_without_room_for_servers_is_refused(
    raw: bytes, why: str, own_home: Path, setup: Setup
) -> None:
    path = write_file(own_home / LINUX["cursor"], raw)
    result = setup("--client", "cursor", "--yes")
    assert result.exit_code == 2
    assert why in result.stderr
    assert path.read_bytes() == raw


def test_what_is_not_a_regular_file_is_not_read(own_home: Path, setup: Setup) -> None:
    path = own_home / LINUX["cursor"]
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert "is not a settings file" in setup("--client", "cursor", "--yes").stderr
    path.unlink()
    path.symlink_to(path)
    result = setup("--client", "cursor", "--yes")
    assert result.exit_code == 8
    assert path.is_symlink()


def test_a_hard_linked_file_is_refused(own_home: Path, setup: Setup) -> None:
    path = write_file(own_home / LINUX["cursor"], b"{}")
    os.link(path, own_home / "other")
    assert "several names" in setup("--client", "cursor", "--yes").stderr
    assert path.samefile(own_home / "other")
    assert path.read_bytes() == b"{}"


def test_a_file_changed_before_confirmation_is_not_overwritten(tmp_path: Path) -> None:
    path = write_file(tmp_path / "x" / "mcp.json", b"{}")
    backups = Backups(tmp_path / "kept")
    target = ClientFile("cursor", "Cursor", "user", path, "json", ("mcpServers", "lookfar"))
    with pytest.raises(Conflict):
        backups.apply(Edit(target, b"{ }", b'{"mcpServers": {}}'))
    with pytest.raises(Conflict):
        backups.apply(Edit(target, None, b'{"mcpServers": {}}'))
    assert path.read_bytes() == b"{}"
    assert os.listdir(path.parent) == ["mcp.json"]
    assert backups.list_records() == []

    backups.apply(Edit(target, b"{}", b'{"mcpServers": {"lookfar": 1}}'))
    with pytest.raises(Conflict):
        backups.apply(Edit(target, b"{}", b'{"mcpServers": {"lookfar": 2}}'))
    (record,) = backups.list_records()
    undo = backups.plan_undo(record)
    path.write_bytes(b'{"mcpServers": {"lookfar": 3}}')
    with pytest.raises(Conflict):
        backups.apply_undo(undo)
    assert path.read_bytes() == b'{"mcpServers": {"lookfar": 3}}'
    assert backups.list_records() == [record], "it can still be taken back"


def test_a_file_created_at_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path / "x" / "mcp.json", b"theirs")
    target = ClientFile("cursor", "Cursor", "user", path, "json", ("mcpServers", "lookfar"))
    monkeypatch.setattr(edits, "read", lambda _: None)  # As seen just before it appeared.
    with pytest.raises(Conflict):
        Backups(tmp_path / "kept").apply(Edit(target, None, b"ours"))
    assert path.read_bytes() == b"theirs"
    assert os.listdir(path.parent) == ["mcp.json"]


def test_a_created_file_that_was_changed_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "x" / "mcp.json"
    backups = Backups(tmp_path / "kept")
    target = ClientFile("cursor", "Cursor", "user", path, "json", ("mcpServers", "lookfar"))
    backups.apply(Edit(target, None, b"{}"))
    (record,) = backups.list_records()
    undo = backups.plan_undo(record)
    path.write_bytes(b'{"mine": 1}')
    with pytest.raises(Conflict):
        backups.apply_undo(undo)
    assert path.read_bytes() == b'{"mine": 1}'


def test_a_damaged_backup_is_not_restored(own_home: Path, report: Report) -> None:
    path = write_file(own_home / LINUX["cursor"], b"{}")
    report("--client", "cursor")
    after = path.read_bytes()
    (backup,) = (own_home / ".local/share/lookfar/setup").rglob("original")
    assert backup.read_bytes() == b"{}"
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    backup.write_bytes(b"[]")
    undone = report("--undo")
    assert undone["exit_code"] == 6
    assert undone["changes"][0]["error"]["code"] == "INDEX_CORRUPT"
    assert path.read_bytes() == after


def test_the_record_of_a_deleted_file_is_dropped(own_home: Path, report: Report) -> None:
    path = write_file(own_home / LINUX["cursor"], b"{}")
    report("--client", "cursor")
    path.unlink()
    assert report("--undo")["changes"][0]["state"] == "forgotten"
    assert not path.exists()
    assert report("--undo")["changes"] == []


# --- where files lie --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "places"), [("linux", LINUX), ("darwin", APPLE), ("win32", WINDOWS)]
)
def test_the_settings_folders_of_each_system(
    system: str, places: dict[str, str], tmp_path: Path
) -> None:
    machine = Machine(system, {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)})
    for name, place in places.items():
        assert BY_NAME[name].config_path(machine, "user", None) == tmp_path / place


def test_environment_variables_that_move_settings(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "conf"),
        "CODEX_HOME": str(tmp_path / "codex"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
    }
    machine = Machine("linux", env)
    moved = {"zed": "conf/zed/settings.json", "codex": "codex/config.toml"}
    for name, place in {**moved, "claude-code": "claude/.claude.json"}.items():
        assert BY_NAME[name].config_path(machine, "user", None) == tmp_path / place
    windows = Machine("win32", {"USERPROFILE": str(tmp_path), "APPDATA": str(tmp_path / "r")})
    path = BY_NAME["zed"].config_path(windows, "user", None)
    assert path == tmp_path / "r" / "zed" / "settings.json"


@pytest.mark.parametrize("client", SAMPLES)
def test_a_client_is_found_by_its_signs(client: str, own_home: Path, report: Report) -> None:
    record = BY_NAME[client]
    machine = Machine.here()
    assert not record.is_installed(machine)
    write_file(own_home / LINUX[client], SAMPLES[client].encode())
    assert record.is_installed(machine)
    found = [step["client"] for step in report("--dry-run")["changes"]]
    assert client in found
    inside = {"cline": {"vscode"}, "roo": {"vscode"}}
    assert set(found) == {client} | inside.get(client, set())


@pytest.mark.parametrize("client", [client.name for client in CLIENTS if client.programs])
def test_a_client_is_found_by_its_program(client: str, own_home: Path) -> None:
    record = BY_NAME[client]
    for name in record.programs:
        program = write_file(own_home.parent / "programs" / name, b"#!/bin/sh\n")
        assert not record.is_installed(Machine.here()), "not a program yet"
        program.chmod(0o755)
        assert record.is_installed(Machine.here())
        program.unlink()


# --- what is shown ----------------------------------------------------------------------------


def test_secrets_around_our_lines_are_masked(own_home: Path, setup: Setup) -> None:
    write_file(own_home / LINUX["claude-code"], SAMPLES["claude-code"].encode())
    output = setup("--client", "claude-code", "--dry-run").stdout
    assert '+    "lookfar": {' in output
    assert "PLAYWRIGHT_TOKEN" in output
    assert "do-not-repeat" not in output


SECRETS = {
    "a comma comes behind it": ("claude-code", """{
  "theme": "dark",
  "apiKey": "sk-SECRET"
}
"""),
    "all in one line": ("claude-code", """{"mcpServers": {"g": {"env": {\
"GITHUB_TOKEN": "SECRET-1", "PAT": "SECRET-2\\"SECRET-3"}, "apiKey": "SECRET-4"}}}"""),
    "in arguments": ("claude-code", """{"mcpServers": {"g": {"command": "npx", "args": [
  "--api-key", "SECRET-1", "--token=SECRET-2",
  "--header", "Authorization: Bearer SECRET-3"]}}}
"""),
    "with comments": ("cursor", """{
  "mcpServers": {
    "g": {
      "keys": [
        "SECRET-1",
        "SECRET-2"
      ]
      /* don't */, "headers": { "X-Pass": "SECRET-3" } } // "apiKey": "SECRET-4"
  }
}
"""),
    "TOML": ("codex", """\
[mcp_servers.g]
command = "g"
bearer_token = '''
SECRET-1
SECRET-2'''
"""),
    "one line of TOML": ("codex", """\
[mcp_servers.g]
http_headers = { "X-Pass" = "SECRET-1" }
env = { A = "SECRET-2", B = 'SECRET-3' }
"""),
    "a table of TOML": ("codex", "[mcp_servers.g.env]\nPAT = 'SECRET-1'\nKEY = \"SECRET\\\"2\""),
}  # fmt: skip


@pytest.mark.parametrize("case", SECRETS)
def test_secrets_in_changed_lines_are_masked(
    case: str, own_home: Path, setup: Setup, report: Report
) -> None:
    """Nor in the object, nor when the entry goes. Seen to fail when only the lines around ours
    were masked, and when the lines were masked one by one.
    """
    client, text = SECRETS[case]
    path = write_file(own_home / LINUX[client], text.encode())
    output = setup("--client", client, "--dry-run").stdout
    assert "+" in output
    assert "SECRET" not in output
    [change] = report("--client", client)["changes"]
    assert "SECRET" not in "".join(change["diff"])
    assert any(line.startswith("+") and "lookfar" in line for line in change["diff"])
    assert path.read_text().count("SECRET") == text.count("SECRET"), "the file keeps them"
    [change] = report("--client", client, "--undo")["changes"]
    assert "SECRET" not in "".join(change["diff"])


def test_our_own_lines_are_not_masked(own_home: Path, report: Report) -> None:
    """Fails if every string value is masked."""
    [change] = report("--client", "claude-code", "--dry-run")["changes"]
    assert f'+      "command": "{LAUNCH}",' in change["diff"]
    assert not any('"..."' in line for line in change["diff"])


def test_only_the_difference_of_a_very_long_line_is_shown(own_home: Path, report: Report) -> None:
    long = '{"a":"' + "x" * 5000 + '","mcpServers":{"b":{}}}'
    write_file(own_home / LINUX["claude-code"], long.encode())
    diff = report("--client", "claude-code", "--dry-run")["changes"][0]["diff"]
    assert len("".join(diff)) < 1000
    assert any(line.startswith("+") and '"lookfar": {' in line for line in diff)


def test_find_entry_returns_our_entry() -> None:
    target = ClientFile("x", "X", "user", Path("x"), "json", ("s", "k"))
    assert edits.find_entry(target, '{"s": {"k": {"a": 1}}}') == {"a": 1}
    assert not edits.has_entry(target, '{"s": 3}')

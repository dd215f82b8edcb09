"""``lookfar doctor``: break things, check that they are reported, and fixed where possible."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.config import data_dir
from lookfar.serve.cli.doctor import disk_checks, index_checks, program_checks
from lookfar.serve.cli.doctor.findings import Finding, Subject
from lookfar.serve.cli.doctor.run_checks import run_checks
from lookfar.serve.cli.exits import CHECK_FAILED
from lookfar.serve.daemon.endpoint import runtime_folder
from lookfar.store.ground.files import WriterLock

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]

EVERYTHING = {
    *("python", "parts", "settings", "permissions", "disk", "sqlite", "model", "index"),
    *("watcher", "git", "daemon", "clients"),
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and sockets of POSIX")


@pytest.fixture
def home(handbook: Path, run: Run, tmp_path: Path) -> Path:
    """The index folder, with an index of the handbook."""
    place = tmp_path / "indexes"
    assert run("index", handbook, "--quiet", "--index-dir", place).exit_code == 0
    return place


@pytest.fixture
def examine(handbook: Path, home: Path) -> Callable[..., dict[str, list[Finding]]]:
    """Run all checks and return the findings by check."""

    def examine(*, deep: bool = False, fix: bool = False) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        subject = Subject(str(handbook), str(home), {"embed.provider": "hash"})
        for finding in run_checks(subject, deep=deep, fix=fix):
            found.setdefault(finding.check, []).append(finding)
        return found

    return examine


Examine = Callable[..., dict[str, list[Finding]]]


def states(found: list[Finding]) -> list[str]:
    return [finding.state for finding in found]


def test_a_healthy_machine(handbook: Path, home: Path, run: Run, ask: Ask) -> None:
    shape = ask("doctor", handbook, "--index-dir", home, "--deep")
    assert list(shape) == ["ok", "counts", "findings"]
    assert list(shape["counts"]) == ["ok", "fixed", "warning", "error"]
    for finding in shape["findings"]:
        assert list(finding) == ["check", "state", "message", "fix", "fixable"]
    assert shape["ok"] is True, shape
    assert {finding["check"] for finding in shape["findings"]} >= EVERYTHING
    result = run("doctor", handbook, "--index-dir", home)
    assert result.exit_code == 0
    assert "ok       python" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_damaged_index_is_reported_and_fixed(handbook: Path, home: Path, run: Run) -> None:
    """Fails if the check is not repeated after the fix."""
    (path,) = home.glob("handbook-*/epoch-1/vectors.f16")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    at = ("doctor", handbook, "--index-dir", home)
    assert run(*at).exit_code == 0  # It opens; only --deep notices.
    found = run(*at, "--deep")
    assert found.exit_code == CHECK_FAILED
    assert "--repair" in found.stdout
    assert "can be fixed with --fix" in found.stdout
    mended = run(*at, "--deep", "--fix")
    assert mended.exit_code == 0, mended.stdout
    assert "fixed    index" in mended.stdout
    assert run(*at, "--deep").exit_code == 0


def test_an_index_that_does_not_open_is_an_error(home: Path, examine: Examine) -> None:
    (pointer,) = home.glob("handbook-*/CURRENT")
    pointer.write_text("epoch-x")
    (finding,) = examine()["index"]
    assert (finding.state, finding.fixable) == ("error", True)
    assert states(examine(fix=True)["index"])[0] == "fixed"
    assert pointer.read_text() == "epoch-1"


def test_a_folder_that_is_not_indexed(handbook: Path, run: Run) -> None:
    result = run("doctor", handbook)
    assert result.exit_code == 0
    assert "is not indexed yet" in result.stdout
    assert "Run: lookfar index" in result.stdout


@posix
def test_indexes_readable_by_others(home: Path, examine: Examine) -> None:
    home.chmod(0o755)
    assert states(examine()["permissions"]) == ["ok"]  # Each index itself is private.
    (index,) = home.iterdir()
    index.chmod(0o755)
    (finding,) = examine()["permissions"]
    assert (finding.state, finding.fixable) == ("warning", True)
    assert index.name in finding.message
    assert states(examine(fix=True)["permissions"]) == ["fixed", "ok"]
    assert index.stat().st_mode & 0o077 == 0
    assert home.stat().st_mode & 0o777 == 0o755, "others may use this folder"


@posix
def test_the_data_folder_of_an_earlier_version_is_closed(examine: Examine) -> None:
    """Fails if only the chosen index folder is checked."""
    own = data_dir()
    database = own / "documents" / "notes"
    database.mkdir(parents=True)
    (database / "CURRENT").write_text("epoch-1")
    for folder in (own, database.parent, database):
        folder.chmod(0o755)
    (finding,) = examine()["permissions"]
    assert (finding.state, finding.fixable) == ("warning", True)
    assert "notes" in finding.message
    assert states(examine(fix=True)["permissions"]) == ["fixed", "ok"]
    assert [folder.stat().st_mode & 0o777 for folder in (own, database)] == [0o700, 0o700]


@posix
def test_all_stored_data_is_in_private_folders(handbook: Path, run: Run, tmp_path: Path) -> None:
    """Fails if the data folder is created with the umask's mode."""
    before = os.umask(0o022)
    try:
        assert run("index", handbook, "--quiet").exit_code == 0
        assert run("documents", "insert", "A text.").exit_code == 0
        assert run("memory", "add", "A thing.", "--path", handbook).exit_code == 0
    finally:
        os.umask(before)
    own = data_dir()
    folders = [own, *(path for path in own.rglob("*") if path.is_dir())]
    assert len(folders) > 3
    assert [path for path in folders if path.stat().st_mode & 0o077] == []


@posix
def test_other_folders_beside_indexes_are_not_changed(
    home: Path, examine: Examine, tmp_path: Path
) -> None:
    """Fails if every folder there counts as an index and is made private."""
    home.chmod(0o755)
    (index,) = home.iterdir()
    beside, elsewhere = home / "photographs", tmp_path / "elsewhere"
    for folder in (beside, elsewhere):
        folder.mkdir()
        folder.chmod(0o755)
    (elsewhere / "CURRENT").write_text("mine")
    (home / "linked").symlink_to(elsewhere)
    assert states(examine(fix=True)["permissions"]) == ["ok"]
    index.chmod(0o755)
    examine(fix=True)
    assert index.stat().st_mode & 0o777 == 0o700
    for folder in (home, beside, elsewhere):
        assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_an_index_folder_that_is_not_writable(home: Path, examine: Examine) -> None:
    home.chmod(0o500)
    try:
        (finding,) = examine()["permissions"]
        assert finding.state == "error"
    finally:
        home.chmod(0o700)


def test_a_full_disk(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, state in ((50_000_000, "error"), (500_000_000, "warning"), (50_000_000_000, "ok")):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(shutil, "disk_usage", lambda _, result=usage: result)
        assert states(examine()["disk"]) == [state]


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="only Linux lists mounts so")
def test_a_network_file_system(
    home: Path, handbook: Path, examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(disk_checks, "_MOUNTS", mounts)
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {home} nfs4 rw 0 0\n")
    (finding,) = examine()["file system"]
    assert finding.state == "error"
    assert "index.dir" in finding.fix
    mounts.write_text(f"/dev/a / ext4 rw 0 0\n//server/x {handbook} cifs rw 0 0\n")
    assert states(examine()["file system"]) == ["warning"]
    mounts.write_text("/dev/a / ext4 rw 0 0\n")
    assert states(examine()["file system"]) == ["ok"]


@pytest.mark.skipif(not Path("/proc/sys/fs/inotify").exists(), reason="only Linux has the limit")
def test_a_limit_on_watches(
    examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "limit"
    monkeypatch.setattr(index_checks, "_WATCHES", limit)
    limit.write_text("2\n")
    (finding,) = examine()["watcher"]
    assert finding.state == "warning"
    assert "sysctl fs.inotify.max_user_watches=524288" in finding.fix
    assert not finding.fixable  # It needs root.
    limit.write_text("100000\n")
    assert states(examine()["watcher"]) == ["ok"]


def test_settings_that_are_wrong(handbook: Path, examine: Examine) -> None:
    (handbook / "lookfar.toml").write_text("[chunk]\nmax_tokens = 'many'\n")
    found = examine()
    assert states(found["settings"]) == ["error"]
    assert "max_tokens" in found["settings"][0].message
    assert states(found["daemon"]) == ["ok"]  # One failure does not stop the other checks,
    assert "index" not in found  # and is reported once.


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("doctor", tmp_path / "nowhere")
    assert result.exit_code == CHECK_FAILED
    assert "does not exist" in result.stdout
    assert result.stdout.count("error  ") == 1


def test_a_model_that_is_not_there(handbook: Path, home: Path, run: Run) -> None:
    result = run(
        "doctor", handbook, "--index-dir", home, "--set", "embed.model=/nowhere", model="static"
    )
    assert result.exit_code == CHECK_FAILED
    assert "error    model" in result.stdout


def test_without_onnxruntime(
    handbook: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = run(
        "doctor", handbook, "--index-dir", home, "--set", "quality.enabled=on",
        "--set", "quality.model=",
    )  # fmt: skip
    assert "warning  model" in result.stdout
    assert "first model answers alone" in result.stdout


def test_without_git(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookfar.sources.git.history.find_program", lambda *_: None)
    (finding,) = examine()["git"]
    assert finding.state == "warning"


@posix
def test_files_left_by_a_dead_daemon(examine: Examine) -> None:
    folder = runtime_folder()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(folder / "daemon.sock"))
    (folder / "daemon.json").write_text('{"pid": 1}')
    (finding,) = examine()["daemon"]
    assert (finding.state, finding.fixable) == ("warning", True)
    assert states(examine(fix=True)["daemon"]) == ["fixed", "ok"]
    assert list(folder.glob("daemon.*")) == [] or list(folder.glob("daemon.s*")) == []


@posix
def test_files_of_a_starting_daemon_stay(examine: Examine) -> None:
    """Fails if an unreachable daemon counts as dead although it has the lock."""
    folder = runtime_folder()
    lock = WriterLock(folder / "daemon.lock")
    lock.acquire()
    try:
        (folder / "daemon.json").write_text('{"pid": 1}')
        assert "fixed" not in states(examine(fix=True)["daemon"])
        assert (folder / "daemon.json").exists()
    finally:
        lock.release()
        (folder / "daemon.json").unlink()


def test_a_client_whose_command_is_gone(own_home: Path, examine: Examine) -> None:
    """Fails if the program is not looked up."""
    file = own_home / ".claude.json"
    for command, state in (("/nowhere/lookfar", "error"), (sys.executable, "ok")):
        entry = {"command": command, "args": ["mcp"]}
        file.write_text(json.dumps({"mcpServers": {"lookfar": entry}}))
        found = examine()["clients"]
        assert states(found)[0] == state
    file.write_text('{"mcpServers": {"lookfar": {"url": "https://example.org"}}}')
    assert states(examine()["clients"]) == ["ok"]
    file.write_text("{ broken")
    assert states(examine()["clients"])[0] == "warning"


def test_a_package_that_does_not_load(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_checks, "_NATIVE", ("numpy", "no_such_part"))
    (finding,) = examine()["parts"]
    assert finding.state == "error"
    assert finding.fix == "Run: pip install --force-reinstall no-such-part"


def test_a_check_that_fails_is_a_finding(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(disk_checks, "_file_system", broken)
    monkeypatch.setattr(disk_checks, "_MOUNTS", Path(__file__))
    (finding,) = examine()["file system"]
    assert finding.state == "warning"
    assert "surprise" in finding.message

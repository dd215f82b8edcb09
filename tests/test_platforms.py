"""Code for Windows and macOS, run on whatever system the tests are on by pretending another one.

What a type checker can find out about other systems is in test_style.py. docs/platforms.md lists
what was tried where.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import signal
import socket
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forked import run_lookfar
from lookfar.common import frames, programs
from lookfar.serve.cli.options import quote
from lookfar.serve.daemon import endpoint, process
from lookfar.serve.http import log_lines
from lookfar.store.ground import files
from platform_limits import LIMITS, excuse, reason_to_skip
from script_modules import load_script
from waiting import DEADLINE

fcntl = pytest.importorskip("fcntl", reason="pretends to be on Windows, which is real here")
SHARING_VIOLATION = 32


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be on Windows, with its locks made from those of this system."""

    def locking(descriptor: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))


def refuse(winerror: int | None) -> PermissionError:
    error = PermissionError(errno.EACCES, "Permission denied")
    if winerror is not None:
        error.winerror = winerror  # type: ignore[attr-defined]
    return error


# --- files ------------------------------------------------------------------------------------


def test_a_file_that_another_program_has_open_is_replaced_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails without the retries: a virus scanner or a reader would fail the writer."""
    refusals = [refuse(SHARING_VIOLATION), refuse(5)]
    replace = os.replace

    def replace_later(source: Path, target: Path) -> None:
        if refusals:
            raise refusals.pop()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_later)
    files.write_atomic(tmp_path / "CURRENT", b"epoch-2")
    assert (tmp_path / "CURRENT").read_bytes() == b"epoch-2"
    assert not refusals


@pytest.mark.parametrize("winerror", [None, 19])
def test_other_refusals_are_raised_at_once(winerror: int | None) -> None:
    calls = []

    def change() -> None:
        calls.append(winerror)
        raise refuse(winerror)

    with pytest.raises(PermissionError):
        files.retry_while_open(change, 60.0)
    assert len(calls) == 1


def test_a_file_that_stays_open_is_an_error() -> None:
    def change() -> None:
        raise refuse(SHARING_VIOLATION)

    with pytest.raises(PermissionError):
        files.retry_while_open(change, 0.03)


# --- locks ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("windows")
def test_a_lock_on_windows_is_held_by_one_descriptor(tmp_path: Path) -> None:
    descriptors = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    try:
        assert programs.try_lock(descriptors[0])
        assert not programs.try_lock(descriptors[1])
        os.close(descriptors.pop(0))
        assert programs.try_lock(descriptors[0])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


# --- programs and processes -------------------------------------------------------------------


def test_windows_takes_no_program_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository may contain a git.exe, and shutil.which would return it on Windows."""
    planted, installed = tmp_path / "repository", tmp_path / "Git" / "cmd"
    for folder in (planted, installed):
        folder.mkdir(parents=True)
        (folder / "git.exe").touch(mode=0o755)
    monkeypatch.chdir(planted)
    for search_path in ("", ".", "bin;.;"):
        assert programs.find_program("git", search_path, "win32") is None
    search_path = f'.;"{installed}";{planted}'
    assert programs.find_program("git", search_path, "win32") == str(installed / "git.exe")


def test_elsewhere_the_search_path_decides(tmp_path: Path) -> None:
    (tmp_path / "git").touch(mode=0o755)
    assert programs.find_program("git", str(tmp_path)) == str(tmp_path / "git")
    assert programs.find_program("git", str(tmp_path / "other")) is None


def test_a_child_in_a_virtual_environment_on_windows_is_the_real_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process of python.exe in Scripts only waits for another, whose memory counts."""
    monkeypatch.setattr(sys, "_base_executable", "C:\\Python\\python.exe", raising=False)
    monkeypatch.setattr(sys, "executable", "C:\\venv\\Scripts\\python.exe")
    assert programs.python_program("win32") == (
        "C:\\Python\\python.exe",
        {"__PYVENV_LAUNCHER__": "C:\\venv\\Scripts\\python.exe"},
    )
    for system in ("linux", "darwin"):
        assert programs.python_program(system) == ("C:\\venv\\Scripts\\python.exe", {})
    monkeypatch.setattr(sys, "executable", "C:\\Python\\python.exe")
    assert programs.python_program("win32") == ("C:\\Python\\python.exe", {})


@pytest.mark.parametrize("at_flush", [False, True])
def test_a_pipe_that_nobody_reads_is_broken_on_windows_too(at_flush: bool) -> None:
    """Windows reports EINVAL, by which a crashed worker would end the whole pass."""

    class Pipe(io.BytesIO):
        def write(self, data: object) -> int:
            if not at_flush:
                raise OSError(errno.EINVAL, "Invalid argument")
            return len(data)  # type: ignore[arg-type]

        def flush(self) -> None:
            if at_flush:
                raise OSError(errno.EINVAL, "Invalid argument")

    pipe = Pipe()
    with pytest.raises(BrokenPipeError):
        frames.send_frame(pipe, "message")


# --- the daemon -------------------------------------------------------------------------------


@pytest.mark.usefixtures("windows")
def test_the_daemon_on_windows_is_reached_by_a_port_and_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = socket.SO_REUSEADDR
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", option, raising=False)
    request = endpoint.ClientRequest("control")
    assert endpoint._open_socket(tmp_path, request, 5.0) is None
    listener = process.Listener(tmp_path)
    try:
        listener.announce()
        client = endpoint._open_socket(tmp_path, request, 5.0)
        assert client is not None
        with client:
            assert client.getpeername() == listener.socket.getsockname()
            assert client.getpeername()[0] == "127.0.0.1"
            assert request.token == listener.token != ""
    finally:
        listener.release()
    assert endpoint._open_socket(tmp_path, request, 5.0) is None
    assert not (tmp_path / "daemon.json").exists()


@pytest.mark.usefixtures("windows")
def test_the_log_is_rotated_while_stdout_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows renames no open file: without the copy the log would grow for ever."""

    def refuse_rename(source: str, target: str) -> None:
        if Path(source).name == "daemon.log":
            raise refuse(SHARING_VIOLATION)

    monkeypatch.setattr(os, "rename", refuse_rename)
    log = process.PrivateLog(tmp_path / "daemon.log", maxBytes=20, backupCount=1, encoding="utf-8")
    with (tmp_path / "daemon.log").open("ab", buffering=0) as stdout:
        for number in range(3):
            log.emit(logging.makeLogRecord({"msg": f"message number {number}"}))
        stdout.write(b"printed\n")
    log.close()
    assert (tmp_path / "daemon.log").read_text() == "message number 2\nprinted\n"
    assert (tmp_path / "daemon.log.1").read_text() == "message number 1\n"


def test_the_daemon_reports_its_memory() -> None:
    reported = process._memory_bytes()
    assert reported is not None
    assert reported > 1_000_000


# --- tests that a system cannot run ------------------------------------------------------------


def test_a_test_is_excused_for_what_its_system_lacks() -> None:
    with pytest.raises(AttributeError) as missing:
        signal.SIGNONE  # type: ignore[attr-defined]  # noqa: B018
    assert excuse(missing.value, "win32") == "this system has no signal.SIGNONE"
    assert excuse(missing.value, "linux") == ""
    with pytest.raises(FileNotFoundError) as absent:
        Path("/proc/none").read_bytes()
    assert excuse(absent.value, "darwin") == "this system has no /proc/none"
    with pytest.raises(FileNotFoundError) as other:
        Path("/none").read_bytes()
    assert excuse(other.value, "darwin") == ""


def test_lookfar_itself_is_never_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if only the kind of the error counts."""
    monkeypatch.delattr(os, "fsync")
    with pytest.raises(AttributeError) as missing:
        files._sync(1, "name")
    assert excuse(missing.value, "win32") == ""


def test_every_limit_names_tests_and_a_reason() -> None:
    tests = Path(__file__).parent
    names = [path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")]
    for limits in LIMITS.values():
        for start, reason in limits.items():
            assert reason
            path, _, function = start.partition("::")
            assert any(name.startswith(path) for name in names), start
            assert f"def {function}" in (tests / path).read_text() if function else True, start
    assert reason_to_skip("faults/test_power_loss.py", "darwin")
    assert not reason_to_skip("faults/test_power_loss.py", "linux")


# --- Python ------------------------------------------------------------------------------------


def test_a_log_without_a_lock_is_written_by_newer_pythons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.13 takes the lock of a handler without asking whether there is one."""

    def handle(handler: logging.Handler, record: logging.LogRecord) -> bool:
        with handler.lock:  # type: ignore[union-attr]
            handler.emit(record)
        return True

    monkeypatch.setattr(logging.Handler, "handle", handle)
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as reader:
        log_lines._StderrHandler(write_end).handle(logging.makeLogRecord({"msg": "started"}))
        os.close(write_end)
        assert reader.read() == b"started\n"


# --- wheels ------------------------------------------------------------------------------------


def test_the_table_of_wheels_names_what_is_missing() -> None:
    wheels = load_script("scripts/wheels.py")
    targets = [
        wheels.Target(system, python, extra)
        for system in wheels.SYSTEMS
        for python in wheels.PYTHONS
        for extra in wheels.EXTRAS
    ]
    reasons = dict.fromkeys(targets, "")
    reasons[targets[0]] = (
        "error: No solution found cause: Because google-re2==1.1.20251105 has no usable wheels and"
        " only google-re2<=1.1.20251105 is available, we can conclude that"
    )
    first, *others = wheels.make_table(reasons)[2:]
    assert first == "| Linux, x86-64 | no wheel: `google-re2` | all | all | all |"
    assert all(line.count("| all ") == len(wheels.PYTHONS) for line in others)
    assert wheels.read_requirements("postgres") == ["psycopg[binary]>=3.3"]


def test_the_page_has_a_row_for_every_system() -> None:
    wheels = load_script("scripts/wheels.py")
    part = wheels.PAGE.read_text().split(wheels.BEGIN)[1].split(wheels.END)[0]
    heading, _, *rows = part.strip().split("\n")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(wheels.SYSTEMS)
    assert all(python in heading for python in wheels.PYTHONS)
    about = tomllib.loads((wheels.ROOT / "pyproject.toml").read_text())["project"]
    named = [
        line.removeprefix("Programming Language :: Python :: ") for line in about["classifiers"]
    ]
    assert [version for version in named if version.startswith("3.")] == list(wheels.PYTHONS)


# --- words for people -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "text", "quoted"),
    [
        ("linux", "docs/guide.md", "docs/guide.md"),
        ("linux", "my notes", '"my notes"'),
        ("linux", 'the "best" notes', '"the \\"best\\" notes"'),
        ("linux", "cost $5", "'cost $5'"),
        ("linux", "it's `ls`", "'it'\\''s `ls`'"),
        ("win32", "docs/guide.md", "docs/guide.md"),
        ("win32", "C:\\Users\\Ada\\my notes", '"C:\\Users\\Ada\\my notes"'),
        ("win32", "D:\\", '"D:\\\\"'),
        ("win32", "C:\\$Recycle's", "'C:\\$Recycle''s'"),
    ],
)
def test_suggested_commands_are_quoted_for_the_shell(
    system: str, text: str, quoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert quote(text) == quoted


def test_file_names_are_read_as_utf8_in_every_locale(tmp_path: Path) -> None:
    """Fails if the locale decodes names: the file vanishes, and the index gets a generation."""
    folder = tmp_path / "Häfen"
    folder.mkdir()
    (folder / "Größe.md").write_text("# Größe\n\nThe quay is 40 m long.\n", encoding="utf-8")
    base = {name: os.environ[name] for name in ("PATH", "LOOKFAR_HOME") if name in os.environ}
    base |= {"HOME": str(tmp_path), "LOOKFAR_EMBED_PROVIDER": "hash"}
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(command: str, *arguments: str, locale: dict[str, str]) -> dict[str, Any]:
        done = run_lookfar(
            command, *arguments, str(folder), "--json", timeout=DEADLINE, env=base | locale
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    first = run("index", locale={"LC_ALL": "C.UTF-8"})
    assert first["added"] == 1
    assert run("status", locale=narrow)["generation"] == first["generation"]
    answer = run("search", "quay", locale=narrow)
    assert [hit["uri"] for hit in answer["hits"]] == ["Größe.md"]
    assert answer["hits"][0]["state"] == "same"
    again = run("index", locale=narrow)
    assert (again["generation"], again["unchanged"]) == (first["generation"], 1)

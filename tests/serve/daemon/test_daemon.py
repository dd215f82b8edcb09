"""The daemon: access, uniqueness, shutdown and recovery."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import amount, report
from lookfar.errors import IOFailed, PermissionDenied
from lookfar.serve.daemon import endpoint
from lookfar.serve.daemon.endpoint import daemon_command, daemon_log_path, daemon_status
from serve.processes import Client, alive, end_all, marked_processes
from waiting import DEADLINE, wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")

COMMAND = daemon_command("echo_services:services")


@pytest.fixture(autouse=True)
def place(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short runtime folder of the test's own; whatever still runs in it at the end is killed."""
    folder = tempfile.mkdtemp(prefix="lf")
    mark = f"ECHO_MARK={folder}"
    monkeypatch.setenv("ECHO_MARK", folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    yield Path(folder) / "lookfar"
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    end_all(marked_processes(mark))
    shutil.rmtree(folder, ignore_errors=True)


def start() -> int:
    """Start a daemon as a client does, and give its process."""
    connection = endpoint.connect(endpoint.make_request("call"), COMMAND, DEADLINE)
    connection.socket.close()
    return int(connection.reply["pid"])


def read_status() -> dict[str, Any]:
    status = daemon_status()
    assert status is not None
    return status


def raw(place: Path) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.settimeout(DEADLINE)
    opened.connect(str(place / "daemon.sock"))
    return opened


def answer(opened: socket.socket) -> dict[str, Any]:
    with opened, opened.makefile("rb") as lines:
        shape: dict[str, Any] = json.loads(lines.readline() or b"{}")
        return shape


def called(text: str) -> str:
    """One session of the kind that the command line uses."""
    connection = endpoint.find(endpoint.make_request("call"))
    assert connection is not None
    with connection.socket as opened, opened.makefile("rb") as lines:
        opened.sendall(text.encode() + b"\n")
        return str(lines.readline().decode().strip())


# --- starting and finding ---------------------------------------------------------------------


def test_asking_for_a_daemon_starts_none(place: Path) -> None:
    """``daemon status`` must not bring to life what it asks for."""
    assert daemon_status() is None
    assert endpoint.find(endpoint.make_request("call")) is None
    assert endpoint.daemon_stop() is False
    assert not (place / "daemon.sock").exists()


def test_first_client_starts_it_and_the_next_finds_it() -> None:
    pid = start()
    assert start() == pid
    wait_for(lambda: not read_status()["sessions"], "the daemon forgets both clients")
    status = read_status()
    assert status["pid"] == pid != os.getpid()
    assert status["served"] == 2
    if sys.platform == "linux":
        assert status["memory_bytes"] > 1_000_000
    assert called("hello there") == "hello there"


def test_it_is_detached_from_its_starter(tmp_path: Path) -> None:
    """A daemon inside its client's session dies with the client's terminal; one that keeps
    descriptors keeps pipes open on which others wait for an end."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    pid = start()
    os.close(write)
    ended, _, _ = select.select([read], [], [], 5.0)  # never, if the daemon holds the other end
    os.close(read)
    assert ended
    assert os.getsid(pid) != os.getsid(0)
    if sys.platform == "linux":
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        assert int(parent) != os.getpid()


def race() -> None:
    """Four start at once; three give way to the one that answers."""
    racers = [subprocess.Popen([*COMMAND, "--foreground"]) for _ in range(4)]
    try:
        wait_for(lambda: sum(racer.poll() is not None for racer in racers) == 3, "3 give way")
        codes = {racer.poll() for racer in racers}
        assert codes == {None, endpoint.ANOTHER_SERVES}
        status = wait_for(daemon_status, "one serves")
        assert status["pid"] == next(racer.pid for racer in racers if racer.poll() is None)
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()


def test_daemons_race_and_one_serves() -> None:
    """Seen to fail with a listener that did not take its lock."""
    races = amount(1, 20)
    for _ in range(races):
        race()
    report("daemons that race", trials=races, note="4 start each time, and one serves")


def test_stale_socket_of_a_dead_daemon_is_replaced(place: Path) -> None:
    pid = start()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), "it is dead")
    assert (place / "daemon.sock").exists()
    assert daemon_status() is None
    assert start() != pid


def test_services_that_fail_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by waiting for the deadline; and the log has the reason."""
    monkeypatch.setenv("ECHO_BROKEN", "1")
    began = time.monotonic()
    with pytest.raises(IOFailed, match="could not be started"):
        endpoint.connect(endpoint.make_request("call"), COMMAND, timeout=2 * DEADLINE)
    assert time.monotonic() - began < DEADLINE
    assert "broken on purpose" in daemon_log_path().read_text()


# --- permissions ------------------------------------------------------------------------------


def test_only_the_owner_can_reach_any_of_it(place: Path) -> None:
    start()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    for name in ("daemon.sock", "daemon.json", "daemon.lock", "start.lock"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(daemon_log_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon_log_path().parent.stat().st_mode) == 0o700


def test_a_folder_open_to_others_is_closed(place: Path) -> None:
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    start()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_symbolic_link_is_refused(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.symlink_to(elsewhere)
    with pytest.raises(PermissionDenied) as caught:
        start()
    assert caught.value.hint
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_another_user_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could read every question and forge every answer."""
    place.mkdir(mode=0o700)
    real = os.lstat

    def foreign(path: Any, **more: Any) -> os.stat_result:
        found = list(real(path, **more))
        if Path(path) == place:
            found[4] += 1  # the owner
        return os.stat_result(found)

    monkeypatch.setattr(os, "lstat", foreign)
    with pytest.raises(PermissionDenied):
        endpoint.runtime_folder()


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can give files away")
def test_a_socket_of_another_user_is_refused(place: Path) -> None:
    start()
    os.chown(place / "daemon.sock", 12345, 12345)
    with pytest.raises(PermissionDenied):
        endpoint.find(endpoint.make_request("call"))


def test_a_file_instead_of_a_socket_is_refused_by_clients(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "daemon.sock").symlink_to("/dev/null")
    with pytest.raises(PermissionDenied):
        start()


def test_the_runtime_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo hands on XDG_RUNTIME_DIR: a root-owned folder in it would lock its user out."""
    environment = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/"}
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    wanted = endpoint._preferred_folder(environment)
    assert wanted == tmp_path / ".local" / "state" / "lookfar" / "run"
    monkeypatch.undo()
    assert endpoint._preferred_folder({**environment, "XDG_RUNTIME_DIR": "relative"}) == wanted


def test_clients_with_few_variables_find_the_same_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many MCP clients pass HOME and PATH only; XDG_RUNTIME_DIR is where it is all the same."""
    import pwd

    own = tmp_path / str(os.getuid())
    own.mkdir()
    monkeypatch.setattr(endpoint, "_LOGIN_FOLDERS", str(tmp_path))
    home = pwd.getpwuid(os.getuid()).pw_dir
    little = endpoint._preferred_folder({"HOME": home})
    assert little == endpoint._preferred_folder({"HOME": home, "XDG_RUNTIME_DIR": str(own)})
    # A moved HOME, as in these tests, never meets the user's own daemon.
    moved = endpoint._preferred_folder({"HOME": str(tmp_path)})
    assert moved == tmp_path / ".local" / "state" / "lookfar" / "run"


def test_a_path_too_long_for_a_socket_gets_a_short_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = place.parent / ("x" * 120)
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("TMPDIR", str(place.parent))
    folder = endpoint.runtime_folder()
    assert folder.parent == place.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    pid = start()
    assert read_status()["pid"] == pid
    assert endpoint.daemon_stop()
    folder_of_another = endpoint._short_folder({"TMPDIR": str(place.parent)}, Path("/y"))
    assert folder_of_another != folder


def test_a_short_folder_that_is_a_trap_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone can make names in the temporary folder before we do."""
    long = place.parent / ("x" * 120)
    long.mkdir(mode=0o700)
    environment = {"XDG_RUNTIME_DIR": str(long), "TMPDIR": str(place.parent)}
    trap = endpoint._short_folder(environment, long / "lookfar")
    trap.symlink_to(tmp_path)
    with pytest.raises(PermissionDenied):
        endpoint.runtime_folder(environment)


# --- bad clients ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff garbage\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"[]\n",
        b'"text"\n',
        b"[" * 100_000 + b"\n",
        b'{"kind": 3}\n',
        b'{"kind": "mcp", "paths": "x"}\n',
        b'{"kind": "mcp", "env": {"A": 1}}\n',
        b'{"kind": "mcp", "options": []}\n',
        b'{"kind": "control"}\n{"more": 1}\n',
        b'{"kind": "control", "options": {"action": "explode"}}\n',
    ],
    ids=lambda line: repr(line[:30]),
)
def test_garbage_is_refused_and_affects_no_one(place: Path, line: bytes) -> None:
    pid = start()
    opened = raw(place)
    opened.sendall(line)
    error = answer(opened)["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert error["message"]
    assert error["hint"]
    assert start() == pid


def test_a_lone_surrogate_is_a_wrong_token(place: Path) -> None:
    """Found by a fuzzer: the connection was closed without a reply, with a traceback in the log."""
    start()
    opened = raw(place)
    opened.sendall(b'{"kind": "mcp", "token": "\\ud800"}\n')
    assert answer(opened)["error"]["code"] == "PERMISSION_DENIED"


def test_a_request_of_ten_megabytes_is_refused(place: Path) -> None:
    pid = start()
    opened = raw(place)
    try:
        for _ in range(200):
            opened.sendall(b"x" * 50_000)
        ended = opened.recv(1) in (b"{", b"")
    except (BrokenPipeError, ConnectionResetError):
        ended = True
    assert ended
    opened.close()
    assert start() == pid
    assert "too long" in daemon_log_path().read_text()


def test_a_silent_client_is_dropped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough for the others, whose requests must arrive in time on a busy machine, too.
    monkeypatch.setenv("ECHO_HANDSHAKE_SECONDS", "3")
    pid = start()
    silent = raw(place)
    assert called("others are served meanwhile") == "others are served meanwhile"
    assert "did not arrive" in answer(silent)["error"]["message"]
    assert start() == pid


def test_an_unknown_kind_is_refused_with_those_there_are(place: Path) -> None:
    start()
    with pytest.raises(IOFailed) as caught:
        endpoint.find(endpoint.make_request("nonsense"))
    assert "nonsense" in caught.value.message
    assert "call, deaf, mcp" in caught.value.hint


def test_a_handler_that_outlives_its_client_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a hundred killed clients leave a hundred sessions behind."""
    monkeypatch.setenv("ECHO_LINGER_SECONDS", "0.2")
    start()
    connection = endpoint.find(endpoint.make_request("deaf"))
    assert connection is not None
    wait_for(
        lambda: [each["kind"] for each in read_status()["sessions"]] == ["deaf"],
        "only the deaf session is left",
    )
    connection.socket.close()
    wait_for(lambda: not read_status()["sessions"], "the session ends")


# --- another build ----------------------------------------------------------------------------


AS_BUILD = (
    "import sys, os; from lookfar.serve.daemon import process as daemon; own = sys.argv.pop(); "
    "daemon.endpoint.build = lambda: own; os._exit(daemon.main())"
)


@pytest.fixture
def connect_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], endpoint.Connection]:
    """Connect as a client of another build; a daemon that it starts is of that build, too."""

    def connect(build: str) -> endpoint.Connection:
        monkeypatch.setattr(endpoint, "build", lambda: build)
        command = [sys.executable, "-c", AS_BUILD, "--services", "echo_services:services", build]
        return endpoint.connect(endpoint.make_request("call"), command, DEADLINE)

    return connect


Connect = Callable[[str], endpoint.Connection]


def test_another_build_gets_its_own_daemon_while_old_sessions_finish(connect_as: Connect) -> None:
    """After an upgrade no new session runs old code, and no session is cut off."""
    old = connect_as("old")
    new = connect_as("new")
    new.socket.close()
    assert new.reply["pid"] != old.reply["pid"]
    assert alive(old.reply["pid"])
    with old.socket as opened, opened.makefile("rb") as lines:
        opened.sendall(b"still here\n")
        assert lines.readline() == b"still here\n"
    wait_for(lambda: not alive(old.reply["pid"]), "the old one leaves after its last session")
    assert read_status()["pid"] == new.reply["pid"]
    assert read_status()["build"] == "new"


def test_an_old_daemon_without_sessions_leaves_at_once(
    connect_as: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = connect_as("old")
    old.socket.close()
    monkeypatch.setattr(endpoint, "build", lambda: "new")
    assert endpoint.find(endpoint.make_request("call")) is None
    new = connect_as("new")
    new.socket.close()
    wait_for(lambda: not alive(old.reply["pid"]), "the old one leaves")
    # Who was refused by the old one must not send away the new one.
    endpoint._control(endpoint.runtime_folder(), {"action": "retire", "build": "old"}, DEADLINE)
    assert read_status()["pid"] == new.reply["pid"]


def test_an_upgrade_while_connecting_does_not_lock_a_client_out(
    connect_as: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that kept the build it was born with would send every fresh daemon away."""
    connect_as("new").socket.close()
    request = endpoint.make_request("call")
    request.build = "old"
    endpoint.connect(request, ["false"], DEADLINE).socket.close()


def test_the_build_changes_with_the_sources(tmp_path: Path) -> None:
    """An edited or reinstalled package must not be served by a daemon that loaded the old one."""
    source = Path(endpoint.__file__).parents[2]
    package = Path(shutil.copytree(source, tmp_path / "lookfar"))
    program = "from lookfar.serve.daemon.endpoint import build; print(build())"

    def build() -> str:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    first = build()
    assert first == build()
    with (package / "serve" / "cli" / "main.py").open("a") as file:
        file.write("# edited\n")
    assert build() != first


# --- leaving ----------------------------------------------------------------------------------


def test_it_leaves_when_idle_and_cleans_up(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    monkeypatch.setenv("ECHO_CLOSED", str(closed))
    monkeypatch.setenv("ECHO_IDLE_SECONDS", "0.5")
    pid = start()
    wait_for(lambda: not alive(pid), "it leaves")
    assert closed.read_text() == "closed"
    assert sorted(path.name for path in place.iterdir()) == ["daemon.lock", "start.lock"]
    assert "stopping: idle" in daemon_log_path().read_text()


def test_a_session_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_IDLE_SECONDS", "0.5")
    connection = endpoint.connect(endpoint.make_request("call"), COMMAND, DEADLINE)
    time.sleep(1.7)
    assert alive(connection.reply["pid"])
    connection.socket.close()
    wait_for(lambda: not alive(connection.reply["pid"]), "it leaves afterwards")


@pytest.mark.parametrize("how", ["stop", "SIGTERM", "SIGINT"])
def test_it_ends_when_asked(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """With a session under way: it is ended, libraries are closed, the socket is gone."""
    closed = tmp_path / "closed"
    monkeypatch.setenv("ECHO_CLOSED", str(closed))
    connection = endpoint.connect(endpoint.make_request("call"), COMMAND, DEADLINE)
    pid = connection.reply["pid"]
    if how == "stop":
        assert endpoint.daemon_stop() is True
        assert closed.exists()  # it returns when all is done, not when it was asked for
    else:
        os.kill(pid, getattr(signal, how))
    wait_for(lambda: not alive(pid), "it ends")
    connection.socket.settimeout(DEADLINE)
    assert connection.socket.recv(1) == b""
    connection.socket.close()
    assert closed.exists()
    assert not (place / "daemon.sock").exists()
    assert daemon_status() is None


def test_a_daemon_that_hangs_is_killed() -> None:
    client = Client()
    try:
        pid = client.pid(1)
        client.request(2, "block", seconds=600)
        time.sleep(0.3)
        assert endpoint.daemon_stop(timeout=1.0) is True
        wait_for(lambda: not alive(pid), "it is gone")
    finally:
        client.close()


def test_a_hangup_of_the_terminal_does_not_end_it() -> None:
    pid = start()
    os.kill(pid, signal.SIGHUP)
    assert called("still here") == "still here"
    assert start() == pid


def test_one_whose_folder_vanished_leaves_its_successor_alone(place: Path) -> None:
    """Temporary folders get cleaned; the old daemon must not remove the new one's socket."""
    old = start()
    shutil.rmtree(place)
    new = start()
    assert new != old
    os.kill(old, signal.SIGTERM)
    wait_for(lambda: not alive(old), "the old one leaves")
    assert start() == new


# --- settings and log -------------------------------------------------------------------------


def test_a_clients_settings_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the client that started the daemon does not affect other sessions."""
    monkeypatch.setenv("LOOKFAR_SEARCH_TOP_K", "3")
    first = Client()
    monkeypatch.setenv("LOOKFAR_SEARCH_TOP_K", "5")
    try:
        told = first.ask(1, "env")["result"]
        assert told["env"]["LOOKFAR_SEARCH_TOP_K"] == "3"
        assert "LOOKFAR_SEARCH_TOP_K" not in told["daemon_env"]
        second = Client()
        try:
            assert second.ask(1, "env")["result"]["env"]["LOOKFAR_SEARCH_TOP_K"] == "5"
        finally:
            second.close()
    finally:
        first.close()


def test_the_log_names_sessions_and_is_bounded() -> None:
    start()
    text = daemon_log_path().read_text()
    assert "serving lookfar" in text
    log = daemon_log_path()
    wait_for(lambda: "session 1 (call) started" in log.read_text(), "it is written")
    from lookfar.serve.daemon import process

    assert 0 < process._LOG_BYTES * (process._LOG_FILES + 1) <= 10_000_000

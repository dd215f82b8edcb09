"""``lookfar mcp`` as an agent meets it: real relays, a real daemon, and both of them killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.serve.daemon import endpoint, relay
from serve.processes import RELAY, Client, alive, end_all, marked_processes
from waiting import DEADLINE, wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")

Start = Callable[..., Client]


@pytest.fixture(autouse=True)
def place(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short runtime folder of the test's own; whatever still runs in it at the end is killed."""
    folder = tempfile.mkdtemp(prefix="lf")
    monkeypatch.setenv("ECHO_MARK", folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    yield Path(folder) / "lookfar"
    end_all(marked_processes(f"ECHO_MARK={folder}"))
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start() -> Iterator[Start]:
    clients = []

    def start(*arguments: str, **more: Any) -> Client:
        clients.append(Client(*arguments, **more))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays that wait less for the last answers, so that the test does, too."""
    monkeypatch.setenv("ECHO_GRACE", "0.5")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays that would wait longer for the last answers than the test does."""
    monkeypatch.setenv("ECHO_GRACE", "600")


def die(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), "the daemon is dead")


def is_lost(answer: dict[str, Any] | None, number: Any) -> bool:
    assert answer is not None
    assert answer["id"] == number
    assert answer["jsonrpc"] == "2.0"
    error = answer["error"]
    assert -32099 <= error["code"] <= -32000
    assert "again" in error["data"]["hint"]
    return bool(error["data"]["code"] == "DAEMON_LOST")


def sessions() -> list[dict[str, Any]]:
    status = endpoint.daemon_status()
    return [] if status is None else status["sessions"]


# --- an ordinary session ----------------------------------------------------------------------


def test_a_session_from_start_to_end(start: Start, tmp_path: Path) -> None:
    client = start("docs", "notes", cwd=tmp_path)
    assert client.ask(1, "echo", text="naïve ✓")["result"]["params"] == {"text": "naïve ✓"}
    client.ask("two", "initialize", clientInfo={"name": "tester"})
    [session] = sessions()
    assert session["client"] == "tester"
    assert session["cwd"] == str(tmp_path)
    assert session["paths"] == ["docs", "notes"]
    client.end_input()
    assert client.wait() == 0
    assert client.receive() is None
    assert client.remarks == []
    wait_for(lambda: not sessions(), "the daemon forgets the session")


def test_eight_relays_at_once_share_one_daemon(start: Start) -> None:
    clients = [start() for _ in range(8)]
    for client in clients:
        client.request(1, "where")
    pids = {client.receive()["result"]["pid"] for client in clients}  # type: ignore[index]
    assert len(pids) == 1
    assert len(sessions()) == 8
    log = endpoint.daemon_log_path().read_text()
    assert log.count("serving lookfar") == 1


def test_a_line_of_five_megabytes_passes_both_ways(start: Start) -> None:
    client = start()
    text = "x" * 5_000_000
    assert client.ask(1, "echo", text=text)["result"]["params"]["text"] == text
    assert client.ask(2, "echo", text="short")["result"]["params"]["text"] == "short"


def test_a_line_beyond_all_bounds_is_refused_and_the_session_goes_on(start: Start) -> None:
    """Else one broken client fills the memory of the machine."""
    client = start()
    client.pid(1)
    assert client.process.stdin
    for _ in range(endpoint.MAX_LINE_BYTES // 1_000_000 + 2):
        client.process.stdin.write(b"x" * 1_000_000)
    client.process.stdin.write(b"\n")
    answer = client.receive()
    assert answer is not None
    assert answer["error"]["code"] == -32600
    assert client.pid(2)


def test_malformed_json_is_passed_to_the_daemon(start: Start) -> None:
    """The echo handler dies of it, as no real one may; the relay carries on."""
    client = start()
    client.pid(1)
    assert client.process.stdin
    client.process.stdin.write(b"no json\n\n   \n")
    client.process.stdin.flush()
    wait_for(lambda: client.remarks, "the relay says that the daemon hung up")
    assert client.pid(2)


def test_stdout_holds_nothing_but_the_protocol_when_input_is_a_pipe(patient: None) -> None:
    """``printf ... | lookfar mcp``: input ends before the first answer, which still comes."""
    lines = [{"jsonrpc": "2.0", "id": n, "method": "sleep", "params": {"seconds": 0.2}}
             for n in range(20)]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RELAY],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == set(range(20))
    assert done.stderr == ""


def test_the_last_line_needs_no_line_end(patient: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RELAY],
        input='{"jsonrpc": "2.0", "id": 1, "method": "echo"}',
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 1


def test_it_is_light() -> None:
    """A hundred sessions are a hundred relays: what they import, each of them pays for."""
    program = "import lookfar.serve.daemon.relay, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    heavy = {"asyncio", "anyio", "click", "mcp", "numpy", "pydantic", "rich", "subprocess",
             "hashlib", "tempfile", "logging", "lookfar.library", "lookfar.store"}  # fmt: skip
    assert not heavy & set(loaded)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_is_small(start: Start) -> None:
    client = start()
    client.pid(1)
    client.pid(2)
    fields = Path(f"/proc/{client.process.pid}/statm").read_text().split()
    assert int(fields[1]) * os.sysconf("SC_PAGE_SIZE") < 20_000_000


# --- the client ends --------------------------------------------------------------------------


def test_input_ends_while_idle(start: Start, patient: None) -> None:
    """No grace is given when nothing is under way."""
    client = start()
    client.pid(1)
    client.end_input()
    assert client.wait() == 0


def test_input_ends_while_a_short_request_runs(start: Start, patient: None) -> None:
    client = start()
    client.pid(1)
    client.request(2, "sleep", seconds=0.5)
    client.end_input()
    answer = client.receive()
    assert answer is not None
    assert answer["id"] == 2
    assert "result" in answer
    assert client.wait() == 0


def test_input_ends_while_a_long_request_runs(start: Start, hurried: None) -> None:
    client = start()
    client.pid(1)
    client.request(2, "sleep", seconds=600)
    client.end_input()
    assert client.wait() == 0
    assert client.receive() is None
    wait_for(lambda: not sessions(), "the daemon drops the session")


@pytest.mark.parametrize("method", ["sleep", "subscriptions/listen"])
def test_the_end_does_not_wait_for_cancelled_or_endless_requests(
    start: Start, patient: None, method: str
) -> None:
    client = start()
    client.pid(1)
    client.request(2, method, seconds=600)
    if method == "sleep":
        client.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
    client.end_input()
    assert client.wait() == 0


def test_input_ends_while_the_daemon_is_stuck_and_takes_nothing(
    start: Start, hurried: None
) -> None:
    """Then the thread that reads input is stuck, too, and cannot see its end."""
    client = start()
    pid = client.pid(1)
    os.kill(pid, signal.SIGSTOP)
    assert client.process.stdin
    os.set_blocking(client.process.stdin.fileno(), False)
    line = json.dumps({"id": 2, "method": "echo", "params": "x" * 60_000}).encode() + b"\n"
    full = 0
    while full < 20:
        try:
            os.write(client.process.stdin.fileno(), line)
        except BlockingIOError:
            full += 1
            time.sleep(0.05)
    client.process.stdin.close()
    assert client.wait() == 0
    os.kill(pid, signal.SIGCONT)


def test_input_ends_while_answers_are_not_read(hurried: None) -> None:
    """The thread that writes answers is stuck in a full pipe."""
    process = subprocess.Popen(
        [sys.executable, "-c", RELAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    request = {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"text": "x" * 3_000_000}}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    process.stdout.read(1)
    process.stdin.close()
    assert process.wait(DEADLINE) == 0
    process.stdout.close()


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b'{"id": 1, "method": "where"}\\n{"id": 2, "method": "sleep", "params": '
                  b'{"seconds": 600}}\\n')
child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_parent_dies_while_a_request_runs(patient: None) -> None:
    """With both pipes closed, no one can read the answer, so the relay exits at once."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, RELAY], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not alive(child), "the orphan ends")


def test_stdout_is_closed_by_the_client() -> None:
    """A client that keeps input open and closed output will never hear from us again."""
    process = subprocess.Popen(
        [sys.executable, "-c", RELAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'{"id": 1, "method": "where"}\n')
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(DEADLINE) == 0
    process.stdin.close()


def test_one_socket_for_both_directions(patient: None) -> None:
    """Some clients pass a socket; a half-closed one must not end the relay early."""
    ours, theirs = socket.socketpair()
    ours.settimeout(DEADLINE)
    end = theirs.fileno()
    process = subprocess.Popen([sys.executable, "-c", RELAY], stdin=end, stdout=end)
    theirs.close()
    ours.sendall(b'{"id": 1, "method": "sleep", "params": {"seconds": 0.5}}\n')
    ours.shutdown(socket.SHUT_WR)
    with ours, ours.makefile("rb") as lines:
        assert json.loads(lines.readline())["id"] == 1
        assert lines.readline() == b""
    assert process.wait(DEADLINE) == 0


def test_pipes_that_do_not_block() -> None:
    """A parent that shares its pipes may have made them so; that is not their end."""
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    os.set_blocking(their_in, False)
    os.set_blocking(their_out, False)
    process = subprocess.Popen([sys.executable, "-c", RELAY], stdin=their_in, stdout=their_out)
    os.close(their_in)
    os.close(their_out)
    with os.fdopen(our_out, "wb") as say, os.fdopen(our_in, "rb") as lines:
        for number in range(2):
            request = {"id": number, "method": "echo", "params": {"text": "x" * 300_000}}
            say.write(json.dumps(request).encode() + b"\n")
            say.flush()
            time.sleep(0.3)
            assert json.loads(lines.readline())["id"] == number
    assert process.wait(DEADLINE) == 0


def test_no_input_at_all() -> None:
    """Without the check a socket of ours would become number 0, and the relay its own client."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 0<&- ', sys.executable, RELAY],
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_killed_relay_affects_no_one(start: Start) -> None:
    first, second = start(), start()
    pid = first.pid(1)
    assert second.pid(1) == pid
    first.request(2, "sleep", seconds=600)
    first.process.kill()
    first.wait()
    assert second.pid(2) == pid
    wait_for(lambda: len(sessions()) == 1, "the session of the dead client ends")


# --- the daemon ends --------------------------------------------------------------------------


def test_daemon_killed_while_idle(start: Start) -> None:
    client = start()
    old = client.pid(1)
    die(old)
    answer = client.ask(2, "where")
    assert answer["result"]["pid"] != old


def test_daemon_killed_while_it_works(start: Start) -> None:
    """Every request under way is answered, once; the session goes on."""
    client = start()
    old = client.pid(1)
    client.request(2, "sleep", seconds=600)
    client.request("3", "sleep", seconds=600)
    client.request(3, "die")
    lost = [client.receive() for _ in range(3)]
    assert [answer["id"] for answer in lost if answer] == [2, "3", 3]
    assert all(is_lost(answer, answer["id"]) for answer in lost if answer)
    assert client.pid(4) != old
    client.end_input()
    assert client.wait() == 0
    assert client.receive() is None


def test_a_daemon_that_closes_while_it_works_is_lost(start: Start) -> None:
    """What the library says of its own connection tells a client nothing.

    Seen to fail when its error was passed on.
    """
    client = start()
    old = client.pid(1)
    client.request(2, "close")
    assert is_lost(client.receive(), 2)
    assert client.pid(3) != old


def test_a_new_daemon_gets_the_state_of_the_old_one(start: Start) -> None:
    """Revision 2025-11-25: a daemon refuses requests before ``initialize``."""
    client = start()
    client.ask(1, "initialize", clientInfo={"name": "tester"})
    client.send({"method": "notifications/initialized"})
    client.ask(2, "resources/subscribe", uri="a")
    client.ask(3, "resources/subscribe", uri="b")
    client.ask(4, "resources/unsubscribe", uri="a")
    client.ask(5, "logging/setLevel", level="debug")
    die(client.pid(6))
    seen = client.ask(7, "where")["result"]["seen"]
    assert seen == [
        "initialize",
        "notifications/initialized",
        "resources/subscribe",
        "logging/setLevel",
        "where",
    ]
    assert sessions()[0]["client"] == "tester"
    client.end_input()
    assert client.wait() == 0
    assert client.receive() is None  # no answer came twice


def test_an_initialize_that_was_lost_is_not_replayed(start: Start) -> None:
    """The client got an error, and repeats the request itself."""
    client = start()
    pid = client.pid(1)
    client.request(2, "initialize", seconds=600, clientInfo={"name": "lost"})
    wait_for(
        lambda: any(session["client"] == "lost" for session in sessions()), "the request arrives"
    )
    die(pid)
    assert is_lost(client.receive(), 2)
    assert client.ask(3, "where")["result"]["seen"] == ["where"]


def test_a_daemon_that_dies_of_the_replay_is_given_up(start: Start, tmp_path: Path) -> None:
    """The request is answered with the reason, not tried for ever and not left unanswered."""
    poison = tmp_path / "poison"
    client = start()
    client.ask(1, "initialize", fatal_when_there_is=str(poison))
    poison.touch()
    die(client.pid(2))
    assert client.ask(3, "where")["error"]["data"]["code"] == "DAEMON_UNAVAILABLE"
    poison.unlink()
    assert client.ask(4, "where")["result"]["seen"] == ["initialize", "where"]


def test_without_initialize_nothing_is_replayed(start: Start) -> None:
    """Revision 2026-07-28 keeps no session."""
    client = start()
    die(client.pid(1))
    assert client.ask(2, "where")["result"]["seen"] == ["where"]


def test_an_answer_to_a_dead_daemon_does_not_reach_the_next(start: Start) -> None:
    """Its number may be that of another question: a yes to one would be a yes to the other."""
    client = start()
    client.request(1, "ask")
    question = client.receive()
    assert question is not None
    assert question["method"] == "elicitation/create"
    pid = client.receive()["result"]["pid"]  # type: ignore[index]
    die(pid)
    cancelled = client.receive()
    assert cancelled is not None
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == question["id"]
    client.pid("there is another daemon")
    client.send({"id": question["id"], "result": {"action": "accept"}})
    assert client.ask(2, "where")["result"]["answers"] == []
    # An answer to the daemon that asked does arrive.
    client.request(3, "ask")
    assert client.receive()["method"] == "elicitation/create"  # type: ignore[index]
    assert client.receive()["id"] == 3  # type: ignore[index]
    client.send({"id": 0, "result": {"action": "decline"}})
    assert client.ask(4, "where")["result"]["answers"] == [{"action": "decline"}]


def test_a_stopped_daemon_comes_back_with_the_next_request(start: Start) -> None:
    """After ``lookfar daemon stop`` no daemon starts until the next request."""
    client = start()
    old = client.pid(1)
    assert endpoint.daemon_stop()
    wait_for(lambda: client.remarks, "the relay has noticed")
    assert endpoint.daemon_status() is None
    assert client.pid(2) != old


def test_a_notification_wakes_no_daemon(start: Start) -> None:
    client = start()
    client.ask(1, "initialize")
    assert endpoint.daemon_stop()
    wait_for(lambda: client.remarks, "the relay has noticed")
    client.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
    client.send({"method": "notifications/initialized"})
    time.sleep(0.3)
    assert endpoint.daemon_status() is None
    seen = client.ask(2, "where")["result"]["seen"]
    assert seen == ["initialize", "notifications/initialized", "where"]


def test_many_deaths_lose_no_answer(start: Start) -> None:
    """Each request gets one answer, whenever the daemon dies."""
    client = start()
    number = 0
    for _ in range(5):
        batch = range(number, number + 5)
        for each in batch:
            client.request(each, "die" if each == number + 2 else "where")
        answers = [client.receive() for _ in batch]
        assert sorted(answer["id"] for answer in answers if answer) == list(batch)
        number += 5
    assert client.pid("last")
    client.end_input()
    assert client.wait() == 0
    assert client.receive() is None


def test_a_daemon_that_dies_while_a_line_is_sent(capfd: pytest.CaptureFixture[str]) -> None:
    """The one moment at which both threads could answer, or neither: it is answered once."""

    class Dying(socket.socket):
        noticed = True

        def sendall(self, *_: Any) -> None:
            if self.noticed:
                session._handle_lost_daemon(self)  # the other thread was quicker
            else:
                threading.Timer(0.2, session._handle_lost_daemon, [self]).start()
            raise BrokenPipeError

    line, requests = b'{"id": 1, "method": "where"}\n', {"1": 1}
    for noticed in (True, False):
        session = relay.Relay(endpoint.make_request("mcp"), [])
        link = Dying(socket.AF_UNIX)
        link.noticed = noticed
        session._adopt(endpoint.Connection(link, {}, b""))
        # Either it has been answered, or it is still to be sent to another daemon.
        assert session._send(link, line, requests) is noticed
        assert session._pending == {}
        assert capfd.readouterr().out.count("DAEMON_LOST") == int(noticed)


# --- no daemon --------------------------------------------------------------------------------


def test_without_a_daemon_it_serves_itself(
    start: Start, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHO_BROKEN", "1")
    client = start()
    assert client.receive() == {"in_process": True}
    assert client.wait() == 7
    wait_for(lambda: client.remarks, "it says why")
    assert b"without the daemon" in b"".join(client.remarks)


def test_a_folder_that_cannot_be_trusted_means_no_daemon(
    start: Start, place: Path, tmp_path: Path
) -> None:
    place.symlink_to(tmp_path)
    assert start().receive() == {"in_process": True}


def test_no_new_daemon_can_be_started(start: Start, place: Path, tmp_path: Path) -> None:
    """The request is refused with the reason, and the next one tries again."""
    client = start()
    die(client.pid(1))
    place.rename(place.parent / "away")
    place.symlink_to(tmp_path)
    error = client.ask(2, "where")["error"]
    assert error["data"]["code"] == "DAEMON_UNAVAILABLE"
    assert error["data"]["hint"]
    place.unlink()
    assert client.pid(3)

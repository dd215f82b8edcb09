"""The life of a real daemon on any system: over a Unix socket, or over a port with a token."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.serve.daemon import endpoint

COMMAND = endpoint.daemon_command("echo_services:services")


@pytest.fixture
def runtime(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a daemon of the test's own, which is stopped at the end."""
    folder = tempfile.mkdtemp(prefix="lf")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    yield endpoint.runtime_path()
    endpoint.daemon_stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_daemon_is_started_found_asked_and_stopped(runtime: Path) -> None:
    assert endpoint.daemon_status() is None
    connection = endpoint.connect(endpoint.make_request("call"), COMMAND, timeout=120)
    with connection.socket as opened, opened.makefile("rb") as lines:
        opened.sendall("grüße\n".encode())
        assert lines.readline().decode() == "grüße\n"
    status = endpoint.daemon_status()
    assert status is not None
    assert status["pid"] == connection.reply["pid"]
    assert status["memory_bytes"] > 1_000_000
    again = endpoint.connect(endpoint.make_request("call"), COMMAND, timeout=120)
    again.socket.close()
    assert again.reply["pid"] == status["pid"]
    assert endpoint.daemon_stop()
    assert endpoint.daemon_status() is None
    assert not (runtime / "daemon.json").exists()


def test_a_client_with_a_wrong_token_is_refused(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users can connect to a port; the token is in a file that only the owner can read."""
    endpoint.connect(endpoint.make_request("call"), COMMAND, timeout=120).socket.close()
    request = endpoint.ClientRequest("control", options={"action": "status"})
    opened = endpoint._open_socket(runtime, request, 10.0)
    assert opened is not None
    request.token = "0" * 64
    with opened, opened.makefile("rb") as lines:
        opened.sendall(request.encode())
        assert json.loads(lines.readline())["error"]["code"] == "PERMISSION_DENIED"

"""Start ``python -m lookfar`` in a process of its own without importing everything again.

Takes: the arguments of the command, and those of ``subprocess.Popen``. Gives: a ``Popen``. A server
spends a second of processor time on imports, so one process per pytest worker imports them and
forks for each start. Its grandchild becomes a child of this process, which waits for it as usual.

Refuses nothing: where this is not possible, an ordinary process is started. Do not use it where a
test is about imports, or looks for the process by its command line or environment in ``/proc``.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER: orphans among our descendants become our children."""
_MOST_BYTES: Final = 128 * 1024
_SUPPORTED: Final = {"stdin", "stdout", "stderr", "env", "cwd", "encoding", "text"}
_PROBE: Final = b"{}"
_PROBED: Final = 7
"""The exit status of a process that was forked only to see whether it is our child."""
_KEPT: Final = ("PATH", "PYTHON", "LANG", "LC_", "LD_", "TMPDIR", "VIRTUAL_ENV")
_lock = threading.Lock()


def start_lookfar(*arguments: object, **options: Any) -> subprocess.Popen[Any]:
    """Start ``lookfar`` with these arguments; ``options`` are those of ``Popen``."""
    command = [sys.executable, "-m", "lookfar", *map(str, arguments)]
    if _can_fork(options):
        return _Forked(command, **options)
    return subprocess.Popen(command, **options)


def run_lookfar(
    *arguments: object, timeout: float, input: Any = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end and return what it wrote, like ``subprocess.run``."""
    pipe = subprocess.PIPE
    if input is not None:
        options["stdin"] = pipe
    with start_lookfar(*arguments, stdout=pipe, stderr=pipe, **options) as process:
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _can_fork(options: Mapping[str, Any]) -> bool:
    """Return whether a forked process would be the same as one that was started."""
    env = options.get("env") or os.environ

    def choose_python(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith("PYTHON")}

    utf8 = {"PYTHONIOENCODING": "utf-8"}
    same = {**choose_python(os.environ), **utf8} == choose_python(env)
    return sys.platform == "linux" and same and options.keys() <= _SUPPORTED


class _Forked(subprocess.Popen[Any]):
    """A process that the one with the imports forks."""

    def _execute_child(self, *given: Any) -> None:
        original = subprocess.Popen._execute_child  # type: ignore[attr-defined]
        named = inspect.signature(original).bind(self, *given).arguments
        ends = [
            end if end != -1 else standard
            for standard, end in enumerate((named["p2cread"], named["c2pwrite"], named["errwrite"]))
        ]
        env, cwd = named["env"], named["cwd"]
        request = {
            "arguments": named["args"][3:],
            "env": dict(os.environ if env is None else env),
            "cwd": os.fspath(cwd) if cwd else os.getcwd(),
        }
        pid = _fork(json.dumps(request).encode(), ends)
        if not pid:
            original(self, *given)
            return
        self.pid = pid
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(named[name] for name in pipes))  # type: ignore[attr-defined]


def _fork(request: bytes, ends: Sequence[int]) -> int:
    """Return the process that was forked; 0 if that failed."""
    if len(request) > _MOST_BYTES:
        return 0
    with _lock:
        control = _start_forking()
        if control is None:
            return 0
        pid = _ask(control, request, ends)
        if not pid:
            control.close()
            _start_forking.cache_clear()
        return pid


def _ask(control: socket.socket, request: bytes, ends: Sequence[int]) -> int:
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        socket.send_fds(control, [request], list(ends))
        return int(control.recv(64) or 0)
    except OSError:
        return 0
    finally:
        prctl(_SUBREAPER, 0, 0, 0, 0)


@cache
def _start_forking() -> socket.socket | None:
    """Start the process that imports, and return the connection to it. It ends with this one.

    Return None where it does not work, such as where a process cannot adopt another one.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    # Without the places of the test that comes first: others look for processes that have those.
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__)), str(theirs.fileno())],
        env={**kept, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    pid = _ask(ours, _PROBE, (0, 1, 2))
    try:
        adopted = pid and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == _PROBED
    except ChildProcessError:
        adopted = False
    if not adopted:
        ours.close()
        return None
    return ours


# --- the process that forks -------------------------------------------------------------------


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return a request in the process that was forked for it."""
    while True:
        data, ends, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        if not data:
            return None
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle:
            os.close(write_end)
            for end in ends:
                os.close(end)
            with os.fdopen(read_end) as told:
                pid = told.read()
            # By then the middle process has ended, so the other one has its new parent.
            os.waitpid(middle, 0)
            control.send(pid.encode() or b"0")
            continue
        if child := os.fork():
            os.write(write_end, str(child).encode())
            os._exit(0)
        os.close(read_end)
        os.close(write_end)
        control.close()
        _take_over(ends)
        request: dict[str, Any] = json.loads(data)
        return request


def _take_over(ends: Sequence[int]) -> None:
    """Make these the standard streams, as those of a new interpreter."""
    for standard, end in enumerate(ends):
        os.dup2(end, standard)
        os.close(end)
    utf8 = "utf-8"
    sys.stdin = os.fdopen(0, "r", encoding=utf8, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=utf8, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=utf8, errors="backslashreplace", closefd=False)


def _run_requests() -> None:
    import runpy
    import tempfile
    import time

    import lookfar.serve.cli.main
    import lookfar.serve.cli.serve
    import lookfar.serve.daemon.client_session
    import lookfar.serve.daemon.services
    import lookfar.serve.http.listen  # noqa: F401

    request = _serve(socket.socket(fileno=int(sys.argv[2])))
    if request is None:
        return
    if not request:
        os._exit(_PROBED)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    time.tzset()
    sys.argv = ["lookfar", *request["arguments"]]
    sys.path[0] = os.getcwd()
    runpy.run_module("lookfar", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run_requests()

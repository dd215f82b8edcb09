"""Where the one daemon of a user listens, and how to reach it or start it.

Takes: the environment (through ``config``) and the command that starts a daemon.
Gives: an owner-only folder with the socket, two locks and the log's path; a
connection that has exchanged greetings with a daemon of this very build; and what
``lookfar daemon status|stop|logs`` need. Refuses (``PermissionDenied``): a folder
or socket that belongs to somebody else, or is a symbolic link.

Every agent session imports this module, so it knows nothing but the standard
library and ``config``; what only starting needs is imported when starting.

The folder holds ``daemon.sock`` (Windows: a loopback port, named in ``daemon.json``
beside a random token), ``daemon.json`` (process and build), ``daemon.lock`` (held by
the daemon that listens) and ``start.lock`` (held by whoever starts one).

One line of JSON from the client, the request, and one line back, ``{"ok": true}`` or
``{"error": {"code", "message", "hint"}}``; nothing else is sent before that answer.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import lookfar
from lookfar.config import child_environment, data_dir
from lookfar.errors import IndexBusy, IOFailed, LookfarError, PermissionDenied, from_os_error

MAX_REQUEST_BYTES: Final = 256 * 1024
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""The longest message that daemon and relay carry."""
START_SECONDS: Final = 15.0
"""How long a client waits for a daemon, starting it included."""
ANOTHER_SERVES: Final = 75
"""What a daemon exits with when another one holds the lock."""
OTHER_BUILD: Final = "OTHER_BUILD"
LEAVING: Final = "DAEMON_LEAVING"

_ANSWER_SECONDS: Final = 5.0
# macOS allows 104 bytes with the final zero, Linux 108.
_MAX_SOCKET_PATH: Final = 100
_LOGIN_FOLDERS: Final = "/run/user"
_PLACES: Final = ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")
_LOGS: Final = "Read what it wrote: lookfar daemon logs"


@dataclass(slots=True)
class ClientRequest:
    """What a client says first: who it is and on whose behalf it asks."""

    kind: str
    cwd: str = ""
    paths: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    """The client's variables that settings are read from; not those of the daemon."""
    version: str = lookfar.__version__
    build: str = ""
    token: str = ""
    client: str = ""
    """For ``daemon status``: a handler writes here who it turned out to be."""

    def line(self) -> bytes:
        shape = {
            "lookfar": self.version,
            "build": self.build,
            "kind": self.kind,
            "cwd": self.cwd,
            "paths": self.paths,
            "options": self.options,
            "env": self.env,
            "token": self.token,
        }
        return json.dumps(shape).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> ClientRequest:
        """Read a request that anyone may have sent; ``ValueError`` says what is wrong with it."""
        try:
            shape = json.loads(line)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except ValueError:
            raise ValueError("it is not JSON") from None
        if not isinstance(shape, dict):
            raise ValueError("it is not an object")
        texts = {
            name: shape.get(key, "")
            for name, key in (
                ("kind", "kind"),
                ("cwd", "cwd"),
                ("version", "lookfar"),
                ("build", "build"),
                ("token", "token"),
            )
        }
        paths, options, env = shape.get("paths", []), shape.get("options", {}), shape.get("env", {})
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("a text is something else")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise ValueError("paths is not a list of texts")
        if not isinstance(options, dict):
            raise ValueError("options is not an object")
        if not isinstance(env, dict) or not all(isinstance(each, str) for each in env.values()):
            raise ValueError("env is not an object of texts")
        return cls(paths=tuple(paths), options=options, env=env, **texts)


def make_request(
    kind: str, paths: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> ClientRequest:
    """The request of this process: its working folder and its variables."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # removed under our feet; whoever needs it says so better than we
        cwd = ""
    wanted = ("LOOKFAR_", "XDG_")
    env = child_environment({})
    kept = {k: v for k, v in env.items() if k.startswith(wanted) or k in _PLACES}
    # What is relative in options and variables is so to this folder, not to the daemon's.
    return ClientRequest(kind, cwd, tuple(paths), dict(options or {}), kept | {"PWD": cwd})


def build() -> str:
    """Tells two installations apart, and a daemon from before an upgrade or an edit.

    All of it is read from the disk now: a relay that lives through an upgrade must agree
    with the daemon that starts after it.
    """
    package = os.path.dirname(os.path.abspath(lookfar.__file__))
    newest = size = 0
    folders = [package]
    while folders:
        # An upgrade may be taking files away right now; then the next look differs.
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    newest, size = max(newest, status.st_mtime_ns), size + status.st_size
    python = "{}.{}.{}".format(*sys.version_info)
    return "|".join((python, sys.prefix, package, f"{newest:x}", f"{size:x}"))


def daemon_command(services: str) -> list[str]:
    """Starts a daemon whose handlers come from ``services``, written ``module:function``."""
    # -P: whatever lies in the working folder is not to be imported.
    return [sys.executable, "-P", "-m", "lookfar.serve.daemon.process", "--services", services]


# --- the place --------------------------------------------------------------------------------


def runtime_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where the socket lies, made for its owner alone."""
    env = child_environment({}) if environ is None else environ
    folder = _wanted_folder(env)
    if len(os.fsencode(folder / "daemon.sock")) > _MAX_SOCKET_PATH:
        folder = _short_folder(env, folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _insist_on_own_folder(folder)
    except OSError as error:
        raise from_os_error(error, f"preparing the daemon's folder {folder}") from error
    return folder


def daemon_log_path(environ: Mapping[str, str] | None = None) -> Path:
    """The file that the daemon writes to, whether or not it exists."""
    env = child_environment({}) if environ is None else environ
    return _state_folder(env) / "daemon.log"


def _wanted_folder(env: Mapping[str, str]) -> Path:
    if sys.platform != "win32":
        named = env.get("XDG_RUNTIME_DIR") or _login_folder(env)
        # sudo and su hand on the folder of somebody else, where ours would lock them out.
        if os.path.isabs(named) and _owner(named) == os.getuid():
            return Path(named) / "lookfar"
    return _state_folder(env) / "run"


def _login_folder(env: Mapping[str, str]) -> str:
    """What XDG_RUNTIME_DIR is, unless somebody moved it.

    Many MCP clients hand on little but HOME and PATH; without this their relays and the
    command line would have a daemon each. Who moved HOME wants a place apart from it.
    """
    if sys.platform != "win32":
        import pwd

        with suppress(KeyError):  # a container's user may have no entry
            if env.get("HOME") == pwd.getpwuid(os.getuid()).pw_dir:
                return f"{_LOGIN_FOLDERS}/{os.getuid()}"
    return ""


def _state_folder(env: Mapping[str, str]) -> Path:
    platform: str = sys.platform
    if platform in ("win32", "darwin"):
        return data_dir(env) / "daemon"
    named = env.get("XDG_STATE_HOME", "")
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    return (Path(named) if os.path.isabs(named) else home / ".local" / "state") / "lookfar"


def _short_folder(env: Mapping[str, str], wanted: Path) -> Path:
    """A socket's path is short, so for a long one a folder of ours in the temporary one."""
    if sys.platform == "win32":
        return wanted  # no socket lies there
    name = f"lookfar-{os.getuid()}-{zlib.crc32(os.fsencode(wanted)):08x}"
    given = env.get("TMPDIR", "")
    fits = len(os.fsencode(given)) + len(name) + len("//daemon.sock") <= _MAX_SOCKET_PATH
    return Path(given if os.path.isabs(given) and fits else "/tmp") / name


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _insist_on_own_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # it lies in the user's profile, which Windows keeps from others
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionDenied(
            f"{folder} is not a folder of your own, so nothing in it can be trusted.",
            hint="Remove it, or set XDG_RUNTIME_DIR to a folder that only you can write to.",
            developer=f"owner {status.st_uid}, mode {status.st_mode:o}, we are {os.getuid()}",
            details={"path": str(folder)},
        )
    if status.st_mode & 0o077:
        os.chmod(folder, 0o700)


# --- reaching a daemon ------------------------------------------------------------------------


class Connection(NamedTuple):
    """A daemon that has accepted our request."""

    socket: socket.socket
    reply: dict[str, Any]
    early: bytes
    """What it sent right after its reply."""


class _Unreachable(Exception):
    """Somebody listened and said nothing useful: leaving, or just starting."""


def find(request: ClientRequest) -> Connection | None:
    """Connect to a daemon of this build that runs already, or give ``None``."""
    request.build = build()
    try:
        opened = _greeted(runtime_folder(), request, _ANSWER_SECONDS)
    except _Unreachable:
        return None
    if opened is None or "error" not in opened.reply:
        return opened
    opened.socket.close()
    if opened.reply["error"]["code"] in (OTHER_BUILD, LEAVING):
        return None
    raise _told(opened.reply["error"])


def connect(
    request: ClientRequest, command: Sequence[str], timeout: float = START_SECONDS
) -> Connection:
    """Connect to the daemon of this build, and start it when there is none.

    A daemon of another build is asked to leave once its sessions have ended, and one of
    ours takes its place at once.
    """
    folder = runtime_folder()
    deadline = time.monotonic() + timeout
    pause = 0.01
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        request.build = build()
        try:
            opened = _greeted(folder, request, left)
            if opened is None:
                _start(folder, command, deadline)
            elif "error" not in opened.reply:
                return opened
            else:
                opened.socket.close()
                _make_way(folder, opened.reply)
        except _Unreachable:
            opened = None
        if time.monotonic() >= deadline:
            raise IOFailed(
                f"The daemon did not answer within {timeout:.0f} s.",
                hint=f"End it with: lookfar daemon stop. {_LOGS}",
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def _greeted(folder: Path, request: ClientRequest, timeout: float) -> Connection | None:
    """Say request; ``None`` when nobody listens."""
    opened = _open(folder, request, timeout)
    if opened is None:
        return None
    try:
        opened.sendall(request.line())
        received = b""
        while b"\n" not in received:
            chunk = opened.recv(65536)
            if not chunk or len(received) > MAX_LINE_BYTES:
                raise _Unreachable
            received += chunk
        line, _, early = received.partition(b"\n")
        reply = json.loads(line)
        if not isinstance(reply, dict):
            raise _Unreachable
        opened.settimeout(None)
        return Connection(opened, reply, early)
    except BaseException as error:
        opened.close()
        if isinstance(error, OSError | ValueError):
            raise _Unreachable from error
        raise


def _open(folder: Path, request: ClientRequest, timeout: float) -> socket.socket | None:
    if sys.platform == "win32":
        known = _read_state(folder)
        if "port" not in known:
            return None
        request.token = str(known["token"])
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address: Any = ("127.0.0.1", int(known["port"]))
    else:
        path = folder / "daemon.sock"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _Unreachable from error
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionDenied(
                f"{path} is not a socket of your own, so nothing is sent to it.",
                hint="Remove it and try again.",
                developer=f"owner {status.st_uid}, mode {status.st_mode:o}",
                details={"path": str(path)},
            )
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address = str(path)
    opened.settimeout(timeout)
    try:
        opened.connect(address)
    except (ConnectionRefusedError, FileNotFoundError):
        opened.close()
        return None
    except OSError as error:  # too many wait to be accepted, or it just leaves
        opened.close()
        raise _Unreachable from error
    return opened


def _make_way(folder: Path, reply: dict[str, Any]) -> None:
    """Deal with a refusal: ask a daemon of another build to go, wait for one that goes."""
    error = reply["error"]
    if error["code"] == LEAVING:
        return
    if error["code"] != OTHER_BUILD:
        raise _told(error)
    # It names the build it was refused by: the next one there may be the one we want.
    _control(folder, {"action": "retire", "build": reply["build"]}, _ANSWER_SECONDS)


def _start(folder: Path, command: Sequence[str], deadline: float) -> None:
    """Start a daemon, unless somebody else is just doing so."""
    from lookfar.store.ground.files import WriterLock

    lock = WriterLock(folder / "start.lock")
    try:
        lock.acquire(max(deadline - time.monotonic(), 0.0))
    except IndexBusy:
        return
    with lock:
        opened = _open(folder, ClientRequest("control"), _ANSWER_SECONDS)
        if opened is not None:
            opened.close()
            return
        _spawn(folder, command, deadline)


def _spawn(folder: Path, command: Sequence[str], deadline: float) -> None:
    # Imported here: only one client in many starts a daemon.
    import subprocess

    # Without a limit each thread of a daemon keeps freed memory to itself, 10 MB in all.
    env = child_environment({"MALLOC_ARENA_MAX": "2"})
    # One client's settings are not everybody's; each says its own in its request.
    env = {name: value for name, value in env.items() if not name.startswith("LOOKFAR_")}
    ways: list[dict[str, Any]] = [{"start_new_session": True}]
    if sys.platform == "win32":
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        # The second way is for a client inside a job that nobody may leave.
        ways = [
            {"creationflags": flags | subprocess.CREATE_BREAKAWAY_FROM_JOB},
            {"creationflags": flags},
        ]
    failed: OSError | None = None
    for way in ways:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                cwd=os.path.abspath(os.sep),
                env=env,
                **way,
            )
            break
        except OSError as error:
            failed = error
    else:
        assert failed is not None
        raise from_os_error(failed, "starting the daemon") from failed
    code = _await_listening(folder, process, deadline)
    if code not in (0, None, ANOTHER_SERVES):
        raise IOFailed(
            f"The daemon could not be started (it ended with {code}).",
            hint=_LOGS,
            developer=f"{list(command)} exited with {code}",
        )


def _await_listening(folder: Path, process: Any, deadline: float) -> int | None:
    """Until it listens, or has ended. On POSIX its first process ends when the second listens."""
    while time.monotonic() < deadline:
        code: int | None = process.poll()
        if code is not None:
            return code
        if sys.platform == "win32" and (opened := _open(folder, ClientRequest("control"), 1.0)):
            opened.close()
            break
        time.sleep(0.005)
    process.returncode = 0  # it goes on without us, so Popen need not warn that it runs
    return None


# --- for the command line ---------------------------------------------------------------------


def daemon_status() -> dict[str, Any] | None:
    """What the running daemon says of itself; ``None`` when there is none."""
    try:
        reply = _control(runtime_folder(), {"action": "status"}, _ANSWER_SECONDS)
    except _Unreachable as error:
        raise IOFailed(
            "The daemon runs but does not answer.", hint="End it with: lookfar daemon stop"
        ) from error
    return None if reply is None else dict(reply["status"])


def daemon_stop(timeout: float = 10.0) -> bool:
    """End the daemon and its sessions; whether there was one. One that hangs is killed.

    The daemon leaves this connection open, so its end is the end of the process.
    """
    folder = runtime_folder()
    request = ClientRequest("control", options={"action": "stop"})
    try:
        opened = _open(folder, request, timeout)
    except _Unreachable as error:
        raise IOFailed(
            "The daemon takes no connections.", hint="End its process yourself and try again."
        ) from error
    if opened is None:
        return False
    pid = int(_read_state(folder).get("pid", 0))
    kill = getattr(signal, "SIGKILL", signal.SIGTERM)
    with opened:
        with suppress(OSError):
            opened.sendall(request.line())
        for step, wait in ((None, timeout), (signal.SIGTERM, 2.0), (kill, 5.0)):
            if step is not None and pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, step)
            if _has_ended(opened, wait):
                return True
    raise IOFailed(
        f"The daemon (process {pid}) does not end.", hint="End the process yourself and try again."
    )


def _has_ended(opened: socket.socket, wait: float) -> bool:
    opened.settimeout(wait)
    try:
        while opened.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _control(folder: Path, options: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    opened = _greeted(folder, ClientRequest("control", options=options), timeout)
    if opened is None:
        return None
    opened.socket.close()
    if "error" in opened.reply:
        raise _told(opened.reply["error"])
    return opened.reply


def _read_state(folder: Path) -> dict[str, Any]:
    """``daemon.json``, or nothing while it is absent or half there."""
    try:
        shape = json.loads((folder / "daemon.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return shape if isinstance(shape, dict) else {}


def _told(error: Mapping[str, Any]) -> LookfarError:
    told = IOFailed(
        str(error.get("message", "The daemon refused.")), hint=str(error.get("hint") or _LOGS)
    )
    told.developer = f"the daemon said {error.get('code')}: {told.message}"
    return told

"""Find, reach and start the one daemon of a user.

The daemon's folder is readable by its owner only and holds ``daemon.sock`` (on Windows a loopback
port and a random token in ``daemon.json``), ``daemon.json`` (process id and version),
``daemon.lock`` (held by the daemon) and ``start.lock`` (held by the client that starts one). The
client sends one line of JSON, a :class:`ClientRequest`, and the daemon replies with one line.

Every agent session imports this module, so it imports only the standard library and ``config``.
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
from lookfar.config import OPENAI_KEY, child_environment, data_dir
from lookfar.errors import IndexBusy, IOFailed, LookfarError, PermissionDenied, from_os_error

MAX_REQUEST_BYTES: Final = 256 * 1024
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""The longest message that the daemon and the relay accept."""
START_SECONDS: Final = 15.0
"""How long a client waits for a daemon, including the time to start it."""
ANOTHER_SERVES: Final = 75
"""Exit code of a daemon that found another one holding the lock."""
OTHER_BUILD: Final = "OTHER_BUILD"
LEAVING: Final = "DAEMON_LEAVING"

_ANSWER_SECONDS: Final = 5.0
# macOS allows 104 bytes including the final zero, Linux 108.
_MAX_SOCKET_PATH: Final = 100
_LOGIN_FOLDERS: Final = "/run/user"
_HOME_VARIABLES: Final = ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")
_SETTINGS_PREFIXES: Final = ("LOOKFAR_", "XDG_", "MSRL_")
_SETTINGS_VARIABLES: Final = (*_HOME_VARIABLES, OPENAI_KEY)
"""Besides those with the prefixes, the variables that settings are read from. If OpenAI's key is
set, the toolset document-db uses OpenAI's model; the key is never logged or written to a file."""
_LOGS: Final = "See its log: lookfar daemon logs"


@dataclass(slots=True)
class ClientRequest:
    """The first line that a client sends: the kind of session, the folders and the settings."""

    kind: str
    cwd: str = ""
    paths: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of the client that settings are read from, not the daemon's own."""
    version: str = lookfar.__version__
    build: str = ""
    token: str = ""
    client: str = ""
    """Name of the client program, set by the handler and shown by ``lookfar daemon status``."""

    def encode(self) -> bytes:
        """Return the request as one line of JSON."""
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
        """Parse an untrusted line; ``ValueError`` says what is wrong with it."""
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
            raise ValueError("kind, cwd, lookfar, build and token must be strings")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise ValueError("paths is not a list of strings")
        if not isinstance(options, dict):
            raise ValueError("options is not an object")
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            raise ValueError("env is not an object of strings")
        return cls(paths=tuple(paths), options=options, env=env, **texts)


def make_request(
    kind: str, paths: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> ClientRequest:
    """Make a request with the working directory and environment of this process."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # It was deleted; the code that needs it reports that.
        cwd = ""
    env = {
        name: value
        for name, value in child_environment({}).items()
        if name.startswith(_SETTINGS_PREFIXES) or name in _SETTINGS_VARIABLES
    }
    # Relative paths in options and variables are relative to this folder, not to the daemon's.
    return ClientRequest(kind, cwd, tuple(paths), dict(options or {}), env | {"PWD": cwd})


def build() -> str:
    """Return an identifier of the installed code, which changes with an upgrade or an edit.

    It is read from the disk on every call, because code may be upgraded while a relay runs.
    """
    package = os.path.dirname(os.path.abspath(lookfar.__file__))
    newest = size = 0
    folders = [package]
    while folders:
        # An upgrade may be removing files right now; then the next call returns another build.
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
    """Return the command that starts a daemon; ``services`` is written ``module:function``."""
    # -P: do not import modules from the working directory.
    return [sys.executable, "-P", "-m", "lookfar.serve.daemon.process", "--services", services]


# --- files and folders ------------------------------------------------------------------------


def runtime_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the socket, created for its owner only."""
    folder = runtime_path(environ)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _require_own_folder(folder)
    except OSError as error:
        raise from_os_error(error, f"preparing the daemon's folder {folder}") from error
    return folder


def runtime_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the folder of the socket, whether or not it exists."""
    env = child_environment({}) if environ is None else environ
    folder = _preferred_folder(env)
    if len(os.fsencode(folder / "daemon.sock")) > _MAX_SOCKET_PATH:
        folder = _short_folder(env, folder)
    return folder


def daemon_log_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the daemon's log, whether or not it exists."""
    env = child_environment({}) if environ is None else environ
    return _state_folder(env) / "daemon.log"


def _preferred_folder(env: Mapping[str, str]) -> Path:
    if sys.platform != "win32":
        named = env.get("XDG_RUNTIME_DIR") or _login_folder(env)
        # sudo and su pass on another user's folder; creating ours there would lock them out.
        if os.path.isabs(named) and _owner(named) == os.getuid():
            return Path(named) / "lookfar"
    return _state_folder(env) / "run"


def _login_folder(env: Mapping[str, str]) -> str:
    """Return the usual value of XDG_RUNTIME_DIR, or "" if HOME was changed.

    Many MCP clients pass on little but HOME and PATH, and must find the daemon of the command line.
    """
    if sys.platform != "win32":
        import pwd

        with suppress(KeyError):  # In a container the user may have no entry.
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
    """Return a folder in the temporary directory: the path of a socket must be short."""
    if sys.platform == "win32":
        return wanted  # Windows uses a port instead of a socket.
    name = f"lookfar-{os.getuid()}-{zlib.crc32(os.fsencode(wanted)):08x}"
    given = env.get("TMPDIR", "")
    fits = len(os.fsencode(given)) + len(name) + len("//daemon.sock") <= _MAX_SOCKET_PATH
    return Path(given if os.path.isabs(given) and fits else "/tmp") / name


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _require_own_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # It is in the user's profile, which Windows protects.
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionDenied(
            f"{folder} is not a folder that you own, so the daemon cannot use it safely.",
            hint="Remove it, or set XDG_RUNTIME_DIR to a folder that only you can write to.",
            developer=f"owner {status.st_uid}, mode {status.st_mode:o}, we are {os.getuid()}",
            details={"path": str(folder)},
        )
    if status.st_mode & 0o077:
        os.chmod(folder, 0o700)


# --- connecting to a daemon -------------------------------------------------------------------


class Connection(NamedTuple):
    """A connection to a daemon that has replied to the request."""

    socket: socket.socket
    reply: dict[str, Any]
    early: bytes
    """Bytes received after the reply."""


class _Unreachable(Exception):
    """A daemon listens but did not reply: it is starting or shutting down."""


def find(request: ClientRequest) -> Connection | None:
    """Connect to a running daemon of this build; return ``None`` if there is none."""
    if not os.path.lexists(runtime_path()):
        return None  # Creating it may be impossible, and commands work without a daemon.
    request.build = build()
    try:
        connection = _handshake(runtime_folder(), request, _ANSWER_SECONDS)
    except _Unreachable:
        return None
    if connection is None or "error" not in connection.reply:
        return connection
    connection.socket.close()
    if connection.reply["error"]["code"] in (OTHER_BUILD, LEAVING):
        return None
    raise _make_error(connection.reply["error"])


def connect(
    request: ClientRequest, command: Sequence[str], timeout: float = START_SECONDS
) -> Connection:
    """Connect to the daemon of this build, and start one if there is none.

    A daemon of another build is replaced at once, and exits when its sessions have ended.
    """
    folder = runtime_folder()
    deadline = time.monotonic() + timeout
    pause = 0.01
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        request.build = build()
        try:
            connection = _handshake(folder, request, left)
            if connection is None:
                _start(folder, command, deadline)
            elif "error" not in connection.reply:
                return connection
            else:
                connection.socket.close()
                _handle_refusal(folder, connection.reply)
        except _Unreachable:
            pass
        if time.monotonic() >= deadline:
            raise IOFailed(
                f"The daemon did not answer within {timeout:.0f} s.",
                hint=f"Stop it with: lookfar daemon stop. {_LOGS}",
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def _handshake(folder: Path, request: ClientRequest, timeout: float) -> Connection | None:
    """Connect, send the request and read the reply; return ``None`` if no daemon listens."""
    sock = _open_socket(folder, request, timeout)
    if sock is None:
        return None
    try:
        sock.sendall(request.encode())
        received = b""
        while b"\n" not in received:
            chunk = sock.recv(65536)
            if not chunk or len(received) > MAX_LINE_BYTES:
                raise _Unreachable
            received += chunk
        line, _, early = received.partition(b"\n")
        reply = json.loads(line)
        if not isinstance(reply, dict):
            raise _Unreachable
        sock.settimeout(None)
        return Connection(sock, reply, early)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError | ValueError):
            raise _Unreachable from error
        raise


def _open_socket(folder: Path, request: ClientRequest, timeout: float) -> socket.socket | None:
    if sys.platform == "win32":
        known = _read_state(folder)
        if "port" not in known:
            return None
        request.token = str(known["token"])
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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
                f"{path} is not a socket that you own, so nothing is sent to it.",
                hint="Remove it and try again.",
                developer=f"owner {status.st_uid}, mode {status.st_mode:o}",
                details={"path": str(path)},
            )
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address = str(path)
    sock.settimeout(timeout)
    try:
        sock.connect(address)
    except (ConnectionRefusedError, FileNotFoundError):
        sock.close()
        return None
    except OSError as error:  # Its backlog is full, or it is exiting.
        sock.close()
        raise _Unreachable from error
    return sock


def _handle_refusal(folder: Path, reply: dict[str, Any]) -> None:
    """Ask a daemon of another build to retire; do nothing if the daemon is exiting anyway."""
    error = reply["error"]
    if error["code"] == LEAVING:
        return
    if error["code"] != OTHER_BUILD:
        raise _make_error(error)
    # Name the build that refused us: by now the daemon may be one of this build.
    _control(folder, {"action": "retire", "build": reply["build"]}, _ANSWER_SECONDS)


def _start(folder: Path, command: Sequence[str], deadline: float) -> None:
    """Start a daemon, unless another client is starting one."""
    from lookfar.store.ground.files import WriterLock

    lock = WriterLock(folder / "start.lock")
    try:
        lock.acquire(max(deadline - time.monotonic(), 0.0))
    except IndexBusy:
        return
    with lock:
        sock = _open_socket(folder, ClientRequest("control"), _ANSWER_SECONDS)
        if sock is not None:
            sock.close()
            return
        _spawn(folder, command, deadline)


def _spawn(folder: Path, command: Sequence[str], deadline: float) -> None:
    # Imported here because few clients start a daemon.
    import subprocess

    # Without a limit each thread keeps an arena of freed memory, about 10 MB in all.
    env = child_environment({"MALLOC_ARENA_MAX": "2"})
    # The daemon serves many clients; each sends its own settings with its request.
    env = {name: value for name, value in env.items() if not name.startswith("LOOKFAR_")}
    attempts: list[dict[str, Any]] = [{"start_new_session": True}]
    if sys.platform == "win32":
        # A hidden console of its own: git and workers, which inherit it, open no window.
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
        # The second way is for a client in a job object that does not allow breakaway.
        attempts = [
            {"creationflags": flags | subprocess.CREATE_BREAKAWAY_FROM_JOB},
            {"creationflags": flags},
        ]
    failed: OSError | None = None
    for options in attempts:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                cwd=os.path.abspath(os.sep),
                env=env,
                **options,
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
            f"The daemon could not be started (exit code {code}).",
            hint=_LOGS,
            developer=f"{list(command)} exited with {code}",
        )


def _await_listening(folder: Path, process: Any, deadline: float) -> int | None:
    """Wait until the daemon listens, or until its process exits, and return the exit code if any.

    On POSIX the started process exits as soon as the daemon, its child, listens.
    """
    while time.monotonic() < deadline:
        code: int | None = process.poll()
        if code is not None:
            return code
        if sys.platform == "win32" and (
            sock := _open_socket(folder, ClientRequest("control"), 1.0)
        ):
            sock.close()
            break
        time.sleep(0.005)
    process.returncode = 0  # Keeps Popen from warning about a process that is still running.
    return None


# --- for the command line ---------------------------------------------------------------------


def daemon_status() -> dict[str, Any] | None:
    """Return the status of the running daemon; ``None`` if there is none."""
    try:
        reply = _control(runtime_folder(), {"action": "status"}, _ANSWER_SECONDS)
    except _Unreachable as error:
        raise IOFailed(
            "The daemon is running but does not answer.", hint="Stop it with: lookfar daemon stop"
        ) from error
    return None if reply is None else dict(reply["status"])


def daemon_stop(timeout: float = 10.0) -> bool:
    """Stop the daemon, killing it if it hangs; return whether a daemon was running.

    The daemon keeps this connection open until its process ends.
    """
    folder = runtime_folder()
    request = ClientRequest("control", options={"action": "stop"})
    try:
        sock = _open_socket(folder, request, timeout)
    except _Unreachable as error:
        raise IOFailed(
            "The daemon does not accept connections.", hint="Kill its process and try again."
        ) from error
    if sock is None:
        return False
    pid = int(_read_state(folder).get("pid", 0))
    kill = getattr(signal, "SIGKILL", signal.SIGTERM)
    with sock:
        with suppress(OSError):
            sock.sendall(request.encode())
        for step, wait in ((None, timeout), (signal.SIGTERM, 2.0), (kill, 5.0)):
            if step is not None and pid:
                with suppress(OSError):  # Windows raises a plain OSError for a process that ended.
                    os.kill(pid, step)
            if _has_ended(sock, wait):
                return True
    raise IOFailed(
        f"The daemon (process {pid}) does not stop.", hint="Kill the process and try again."
    )


def _has_ended(sock: socket.socket, wait: float) -> bool:
    sock.settimeout(wait)
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _control(folder: Path, options: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    connection = _handshake(folder, ClientRequest("control", options=options), timeout)
    if connection is None:
        return None
    connection.socket.close()
    if "error" in connection.reply:
        raise _make_error(connection.reply["error"])
    return connection.reply


def _read_state(folder: Path) -> dict[str, Any]:
    """Read ``daemon.json``; return an empty dict while it is missing or incomplete."""
    try:
        shape = json.loads((folder / "daemon.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return shape if isinstance(shape, dict) else {}


def _make_error(reply: Mapping[str, Any]) -> LookfarError:
    error = IOFailed(
        str(reply.get("message", "The daemon refused.")), hint=str(reply.get("hint") or _LOGS)
    )
    error.developer = f"the daemon replied {reply.get('code')}: {error.message}"
    return error

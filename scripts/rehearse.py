"""Rehearse a release: publish it to a package index on loopback, and use it as a stranger would.

    python scripts/rehearse.py [--dist FOLDER]

Takes: built files, or nothing, and then builds them. Gives: a line per step, and exit status 0 if
all of them went well. The steps: the descriptions render; the files are uploaded to a pypiserver as
they would be to PyPI; ``pip install lookfar`` in a new environment with an empty home answers a
question; so does ``uvx --from`` the wheel; ``lookfar delete --all`` and ``pip uninstall`` remove
everything. Refuses: a wheel that came from anywhere but the local index. Nothing is published.

Needs ``requirements-release.lock``, and the usual package index for what Lookfar depends on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from release import (
    ROOT,
    Unready,
    build,
    inspect,
    read_metadata,
    read_version,
)

QUESTION = "revert a faulty deployment"
ANSWER = "operations/releases.md"
_KEPT = ("PATH", "SYSTEMROOT", "TMP", "TEMP", "TMPDIR", "LANG")
_KEPT_STARTS = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "no_proxy", "NO_PROXY")


def make_environment(home: Path) -> dict[str, str]:
    """Return the variables of a user whose home is empty, on this machine's network."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_STARTS)
    }
    home.mkdir(parents=True)
    past = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1,localhost"]))
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), "NO_PROXY": past}


def run(command: Sequence[object], cwd: Path, environment: dict[str, str]) -> str:
    """Run a command and return what it prints; a failure ends the rehearsal."""
    words = [str(word) for word in command]
    begun = time.monotonic()
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unready(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    print(f"  {time.monotonic() - begun:5.1f} s  {' '.join(_shorten(words))}", flush=True)
    return done.stdout


def _shorten(words: list[str]) -> list[str]:
    return [Path(word).name if word.startswith(os.sep) else word for word in words]


@contextlib.contextmanager
def serving_index(packages: Path) -> Iterator[str]:
    """Serve an empty package index on loopback; other packages are those of the usual index."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "pypiserver", "run", "-i", "127.0.0.1", "-p", str(port)]
    options = ["-a", ".", "-P", ".", str(packages)]
    if usual := os.environ.get("PIP_INDEX_URL"):
        options += ["--fallback-url", usual]
    server = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/health", server)
        yield address
    finally:
        server.terminate()
        server.communicate()


def _wait_for(address: str, server: subprocess.Popen[str]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise Unready(f"pypiserver ended:\n{server.stderr.read() if server.stderr else ''}")
        with contextlib.suppress(OSError), opener.open(address, timeout=5):
            return
        time.sleep(0.1)
    raise Unready("pypiserver does not answer.")


def publish(dist: Path, index: str, environment: dict[str, str]) -> list[str]:
    """Upload the files as they go to PyPI, and return the names of the distributions."""
    wheels, sdists = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    twine = [sys.executable, "-m", "twine"]
    run([*twine, "check", "--strict", *wheels, *sdists], dist, environment)
    access = ["--non-interactive", "--username", "anyone", "--password", "anything"]
    upload = [*twine, "upload", "--repository-url", f"{index}/", *access]
    run([*upload, *wheels, *sdists], dist, environment)
    return [str(read_metadata(wheel)["Name"]) for wheel in wheels]


def install(names: Sequence[str], index: str, work: Path, environment: dict[str, str]) -> Path:
    """Install by name into a new environment, from the index only; return its programs."""
    venv.create(work / "environment", with_pip=True)
    programs = work / "environment" / ("Scripts" if os.name == "nt" else "bin")
    report = work / "report.json"
    source = ["--index-url", f"{index}/simple/", "--report", report]
    pip = [programs / "python", "-m", "pip"]
    run([*pip, "install", "-q", *source, *names], work, environment)
    text = report.read_text(encoding="utf-8")
    for name in names:
        if f"{index}/packages/{name.replace('-', '_')}-" not in text:
            raise Unready(f"{name} did not come from the local index.")
    return programs


def ask(command: Sequence[object], work: Path, environment: dict[str, str]) -> None:
    """Ask a question about the sample folder, and read a part of the answer."""
    asked = run([*command, "search", QUESTION, "handbook", "-k", "1"], work, environment)
    if ANSWER not in asked:
        raise Unready(f"The answer does not name {ANSWER}:\n{asked}")
    version = run([*command, "--version"], work, environment).strip()
    if version != f"lookfar {read_version()}":
        raise Unready(f"The version is {version!r}, not {read_version()}.")


def remove(programs: Path, work: Path, environment: dict[str, str]) -> None:
    """Uninstall as docs/uninstall.md says, and check that nothing is left in the home."""
    home = Path(environment["HOME"])
    run([programs / "lookfar", "delete", "--all", "--yes"], work, environment)
    run([programs / "python", "-m", "pip", "uninstall", "-q", "-y", "lookfar"], work, environment)
    left = [path for path in home.rglob("*") if path.is_file() and "lookfar" in path.as_posix()]
    if left:
        raise Unready(f"Files are left: {', '.join(map(str, left))}")
    if (programs / "lookfar").exists():
        raise Unready("The program is left.")


def rehearse(dist: Path, work: Path) -> None:
    if problems := inspect(dist, read_version()):
        raise Unready("\n".join(problems))
    (wheel,) = dist.glob("lookfar-*.whl")
    stranger = make_environment(work / "home")
    shutil.copytree(ROOT / "examples" / "handbook", work / "handbook")
    (work / "packages").mkdir()
    with serving_index(work / "packages") as index:
        names = publish(dist, index, stranger)
        programs = install(names, index, work, stranger)
    ask([programs / "lookfar"], work, stranger)
    remove(programs, work, stranger)
    # A second stranger, who installs nothing: uv fetches, runs, and keeps it in its own cache.
    second = make_environment(work / "second-home")
    ask([sys.executable, "-m", "uv", "tool", "run", "--from", wheel, "lookfar"], work, second)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dist", type=Path, help="built files (without: they are built)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        try:
            dist = given.dist.resolve() if given.dist else work / "dist"
            if not given.dist:
                build(dist)
            rehearse(dist, work)
        except Unready as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print("The release is rehearsed: installed by name, asked, removed; run with uvx, asked.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

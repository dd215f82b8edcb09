"""Fetch one commit of a repository elsewhere, and read its files.

Git runs in a temporary repository of its own: without the user's configuration, hooks, credentials
or prompts, and without following redirects. The address of the host is checked first and pinned.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.sources.addresses import find_addresses
from lookfar.sources.git.history import git_command, git_environment

if TYPE_CHECKING:
    from subprocess import Popen

_FETCH_SECONDS: Final = 600.0
_LIST_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 0.2
_MOST_OUTPUT: Final = 100_000_000
"""Bytes that git may print: few trees that contain each other list files without end."""
_PIECE: Final = 1 << 20
_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_REF: Final = re.compile(r"[^\s~^:?*\[\\\x00-\x1f-][^\s~^:?*\[\\\x00-\x1f]{0,250}")
_ORIGIN: Final = re.compile(
    r"(?:git\+)?(?P<url>(?:https?://[^/@\s]+|file://)/[^@\s]+)(?:@(?P<ref>\S+))?"
)
_PORTS: Final = {"https": 443, "http": 80}

OnWait = Callable[[], None]
"""Called several times a second while git runs; may raise to stop it."""


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository elsewhere, and the branch, tag or commit that is wanted; empty: the default."""

    url: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    uri: str
    size: int
    blob: str


def parse_remote(origin: str) -> RemoteRepository:
    """Read ``git+https://host/org/repo@tag``; raise ``InvalidArgument`` for anything else."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        raise InvalidArgument(
            f"{origin!r} is not a repository that can be fetched.",
            hint="Use git+https://HOST/PATH@TAG, without a user or password in it.",
        )
    url, ref = match["url"], match["ref"] or ""
    if ref and not _REF.fullmatch(ref):
        raise InvalidArgument(
            f"{ref!r} is not a branch, tag or commit.", hint="Write it after an @, like @v2.1."
        )
    return RemoteRepository(url, ref)


def find_commit(
    remote: RemoteRepository, *, allow_private: bool = False, on_wait: OnWait = lambda: None
) -> str:
    """Return the commit that a branch or tag means now; a full hash means itself."""
    if _HASH.fullmatch(remote.ref):
        return remote.ref
    options = _network_options(remote.url, allow_private)
    wanted = [f"refs/tags/{remote.ref}^{{}}", f"refs/heads/{remote.ref}", f"refs/tags/{remote.ref}"]
    names = wanted if remote.ref else ["HEAD"]
    commits: dict[str, str] = {}
    arguments = [*options, "ls-remote", "--", remote.url, *names]
    with _run(arguments, remote.url, None, on_wait) as output:
        for line in output:
            commit, _, name = line.decode("utf-8", "replace").rstrip().partition("\t")
            if name in names:
                commits[name] = commit
    for name in names:
        if _HASH.fullmatch(commits.get(name, "")):
            return commits[name]
    raise NotFound(
        f"{remote.url} has no branch or tag {remote.ref or 'HEAD'!r}.",
        hint="Name a branch, a tag or a full commit hash after the @.",
    )


class FetchedCommit:
    """One commit in a temporary repository."""

    def __init__(self, place: Path, commit: str, on_wait: OnWait) -> None:
        self._place = place
        self._commit = commit
        self._on_wait = on_wait

    def list_files(self) -> Iterator[RemoteFile]:
        """Yield the regular files of the commit; links and submodules are not among them."""
        arguments = ["ls-tree", "-r", "-z", "--long", "--full-tree", self._commit]
        with _run(
            arguments, "the repository", self._place, self._on_wait, _LIST_SECONDS
        ) as listing:
            for entry in _split(listing):
                head, _, path = entry.partition(b"\t")
                fields = head.split()
                if len(fields) == 4 and fields[0] in (b"100644", b"100755"):
                    uri = path.decode("utf-8", "surrogateescape")
                    yield RemoteFile(uri, int(fields[3]), fields[2].decode("ascii"))

    def read_files(self, files: Sequence[RemoteFile]) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the bytes of each file, in this order."""
        import subprocess

        pipe = subprocess.PIPE
        process = _start(["cat-file", "--batch"], self._place, pipe, pipe, subprocess.DEVNULL)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for file in files:
                process.stdin.write(f"{file.blob}\n".encode("ascii"))
                process.stdin.flush()
                head = process.stdout.readline().split()
                if len(head) != 3 or head[1] != b"blob":
                    raise IOFailed(
                        f"{file.uri!r} cannot be read from the repository.",
                        hint="Run the command again.",
                        developer=repr(head),
                    )
                data = process.stdout.read(int(head[2]))
                process.stdout.read(1)
                yield file.uri, data
        finally:
            process.stdin.close()
            process.stdout.close()
            _kill(process)


@contextmanager
def fetch_commit(
    remote: RemoteRepository,
    commit: str,
    *,
    allow_private: bool = False,
    on_wait: OnWait = lambda: None,
) -> Iterator[FetchedCommit]:
    """Fetch one commit without its history into a repository that lives until the block ends."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="lookfar-fetch-") as folder:
        place = Path(folder)
        with _run(["init", "--quiet", "--bare", "--template=", folder], remote.url, None, on_wait):
            options = _network_options(remote.url, allow_private)
        options += ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
        with _run([*options, "--", remote.url, commit], remote.url, place, on_wait):
            yield FetchedCommit(place, commit, on_wait)


def _network_options(url: str, allow_private: bool) -> list[str]:
    """Return options that let git use one protocol and one address, and nothing else."""
    parts = urlsplit(url)
    options = [
        *("-c", "protocol.allow=never", "-c", f"protocol.{parts.scheme}.allow=always"),
        *("-c", "http.followRedirects=false", "-c", "credential.helper="),
        *("-c", "core.askPass=", "-c", "transfer.fsckObjects=true"),
    ]
    if parts.scheme in _PORTS and parts.hostname:
        port = parts.port or _PORTS[parts.scheme]
        addresses = find_addresses(parts.hostname, port, allow_private=allow_private)
        pinned = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
        options += ["-c", f"http.curloptResolve={parts.hostname}:{port}:{pinned}"]
    return options


@contextmanager
def _run(
    arguments: Sequence[str],
    name: str,
    place: Path | None,
    on_wait: OnWait,
    seconds: float = _FETCH_SECONDS,
) -> Iterator[IO[bytes]]:
    """Run git to its end, and yield its output."""
    import subprocess
    from tempfile import TemporaryFile

    with TemporaryFile() as output, TemporaryFile() as errors:
        process = _start(arguments, place, subprocess.DEVNULL, output, errors)
        try:
            _wait(process, name, (output, errors), on_wait, seconds)
        finally:
            _kill(process)
        if process.returncode:
            errors.seek(0)
            message = errors.read(_PIECE).decode("utf-8", "replace")
            lines = message.strip().splitlines() or ["no message"]
            raise IOFailed(
                f"{name} cannot be fetched: {lines[-1][:300]}",
                hint="Check the address, and whether it can be read without signing in.",
                developer="\n".join(lines[:20]),
            )
        output.seek(0)
        yield output


def _wait(
    process: Popen[bytes],
    name: str,
    files: Sequence[IO[bytes]],
    on_wait: OnWait,
    seconds: float,
) -> None:
    """Wait for git; raise an error if it takes too long or prints too much."""
    import subprocess

    end = time.monotonic() + seconds
    while process.poll() is None:
        on_wait()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STEP_SECONDS)
        if any(os.fstat(file.fileno()).st_size > _MOST_OUTPUT for file in files):
            raise InvalidArgument(
                f"{name} has too many files: their list is larger than {_MOST_OUTPUT:,} bytes.",
                hint="It cannot be added. Clone it, and add a folder of the clone.",
            )
        if time.monotonic() > end:
            raise IOFailed(
                f"{name} did not answer within {seconds:.0f} seconds.", hint="Try again later."
            )


def _kill(process: Popen[bytes]) -> None:
    """End git, and the programs that it started, unless it has ended."""
    if process.poll() is None and hasattr(os, "killpg"):
        with suppress(OSError):  # It has just ended.
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _split(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what the zero bytes in a stream separate."""
    rest = b""
    while piece := stream.read(_PIECE):
        *entries, rest = (rest + piece).split(b"\0")
        yield from entries


def _start(
    arguments: Sequence[str],
    place: Path | None,
    stdin: int,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> Popen[bytes]:
    import subprocess

    # Instead of this variable, options name the one protocol that is allowed.
    environment = {**git_environment(), "GIT_ALLOW_PROTOCOL": "https:http:file"}
    if place is not None:
        environment["GIT_DIR"] = str(place)
    return subprocess.Popen(
        git_command(arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        # Its own group, which contains the programs that git starts.
        process_group=0,
    )

"""Fetch one commit of a repository elsewhere, and read its files.

Git runs in a temporary repository of its own: without the user's configuration, hooks, credentials
or prompts, and without following redirects. The address of the host is checked first and pinned.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.sources.addresses import find_addresses
from lookfar.sources.git.history import git_command, git_environment

if TYPE_CHECKING:
    from subprocess import Popen

_FETCH_SECONDS: Final = 600.0
_LIST_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 0.2
_MOST_OUTPUT: Final = 64_000_000
"""Bytes that git may print: few trees that contain each other list files without end."""
_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_REF: Final = re.compile(r"[^\s~^:?*\[\\\x00-\x1f-][^\s~^:?*\[\\\x00-\x1f]{0,250}")
_ORIGIN: Final = re.compile(
    r"(?:git\+)?(?P<url>(?:https?://[^/@\s]+|file://)/[^@\s]+)(?:@(?P<ref>\S+))?"
)
_PORTS: Final = {"https": 443, "http": 80}


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
    remote: RemoteRepository,
    *,
    allow_private: bool = False,
    on_wait: Callable[[], None] = lambda: None,
) -> str:
    """Return the commit that a branch or tag means now; a full hash means itself.

    ``on_wait`` is called several times a second while git runs, and may raise to stop it.
    """
    if _HASH.fullmatch(remote.ref):
        return remote.ref
    options = _network_options(remote.url, allow_private)
    wanted = [f"refs/tags/{remote.ref}^{{}}", f"refs/heads/{remote.ref}", f"refs/tags/{remote.ref}"]
    names = wanted if remote.ref else ["HEAD"]
    output = _run([*options, "ls-remote", "--", remote.url, *names], remote.url, on_wait)
    commits: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
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

    def __init__(self, place: Path, commit: str, on_wait: Callable[[], None]) -> None:
        self._place = place
        self._commit = commit
        self._on_wait = on_wait

    def list_files(self) -> Iterator[RemoteFile]:
        """Yield the regular files of the commit; links and submodules are not among them."""
        arguments = ["ls-tree", "-r", "-z", "--long", "--full-tree", self._commit]
        listing = _run(
            arguments, "the repository", self._on_wait, self._place, seconds=_LIST_SECONDS
        )
        for entry in listing.split(b"\0"):
            head, _, path = entry.partition(b"\t")
            fields = head.split()
            if len(fields) == 4 and fields[0] in (b"100644", b"100755"):
                uri = path.decode("utf-8", "surrogateescape")
                yield RemoteFile(uri, int(fields[3]), fields[2].decode("ascii"))

    def read_files(self, files: Sequence[RemoteFile]) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the bytes of each file, in this order."""
        import subprocess

        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = _start(["cat-file", "--batch"], self._place, **streams)
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
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[FetchedCommit]:
    """Fetch one commit without its history into a repository that lives until the block ends."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="lookfar-fetch-") as folder:
        place = Path(folder)
        _run(["init", "--quiet", "--bare", "--template=", folder], remote.url, on_wait)
        options = _network_options(remote.url, allow_private)
        fetch = [*options, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
        _run([*fetch, "--", remote.url, commit], remote.url, on_wait, place)
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


def _run(
    arguments: Sequence[str],
    name: str,
    on_wait: Callable[[], None],
    place: Path | None = None,
    *,
    seconds: float = _FETCH_SECONDS,
) -> bytes:
    """Run git to its end and return its output, which a file limits."""
    import subprocess
    from tempfile import TemporaryFile

    end = time.monotonic() + seconds
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = _start(arguments, place, stdout=output, stderr=errors)
        try:
            while process.poll() is None:
                on_wait()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STEP_SECONDS)
                if max(os.fstat(file.fileno()).st_size for file in (output, errors)) > _MOST_OUTPUT:
                    raise InvalidArgument(
                        f"{name} lists more than {_MOST_OUTPUT:,} bytes of files or branches.",
                        hint="It cannot be added. Clone it, and add a folder of the clone.",
                    )
                if time.monotonic() > end:
                    raise IOFailed(
                        f"{name} did not answer within {seconds:.0f} seconds.",
                        hint="Try again later.",
                    )
        finally:
            _kill(process)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            message = errors.read(1 << 16).decode("utf-8", "replace")
            lines = message.strip().splitlines() or ["no message"]
            raise IOFailed(
                f"{name} cannot be fetched: {lines[-1][:300]}",
                hint="Check the address, and whether it can be read without signing in.",
                developer="\n".join(lines[:20]),
            )
        return output.read()


def _kill(process: Popen[bytes]) -> None:
    """End git, unless it has ended, and the programs that it started."""
    if sys.platform != "win32" and process.poll() is None:
        with suppress(OSError):  # It has just ended.
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _start(arguments: Sequence[str], place: Path | None, **streams: Any) -> Popen[bytes]:
    import subprocess

    # Instead of this variable, options name the one protocol that is allowed.
    environment = {**git_environment(), "GIT_ALLOW_PROTOCOL": "https:http:file"}
    if place is not None:
        environment["GIT_DIR"] = str(place)
    return subprocess.Popen(
        git_command(arguments),
        env=environment,
        process_group=0,
        **{"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams},
    )

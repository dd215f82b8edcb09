"""The packages of a project as sources: their public API, documentation and changelog.

One source per version of a package, shared by all projects that have the same files of it. A copy
is stored, so that it can be searched and cited after an upgrade, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final

from lookfar.collections.outside.shelf import write_incoming
from lookfar.collections.passes import timestamp
from lookfar.errors import IndexBusy, LookfarError
from lookfar.model import OutsideSource
from lookfar.sources.archive import read_archive, read_limited
from lookfar.sources.packages.finding import compute_stamp, find_all, list_files
from lookfar.sources.packages.package import Package, read_data
from lookfar.store.ground import files
from lookfar.text.encodings import decode
from lookfar.text.parse.public_api import reduce_to_api

if TYPE_CHECKING:
    from lookfar.collections.outside.collection import Outside
    from lookfar.collections.outside.opened import OutsideSources

_LARGEST_FILE: Final = 2_000_000
_LARGEST_PACKAGE: Final = 50_000_000
_SOURCE_ENDINGS: Final = (".py", ".js", ".mjs", ".cjs", ".rs", ".go", ".java")
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9_.@/-]*")
_CHECK_SECONDS: Final = 2.0


class ProjectPackages:
    """The packages of one project: found, stored and indexed when they are asked for.

    May be shared by threads. What is missing is prepared in a thread, direct dependencies first.
    """

    def __init__(self, outside: OutsideSources, project: Path) -> None:
        self._outside = outside
        self._project = project
        self._changed = Condition()
        self._thread: Thread | None = None
        self._packages: list[Package] = []
        self._names: dict[str, str] = {}
        """The name of the source of each package that is ready, by its full name."""
        self._stamp: object = None
        self._check_at = 0.0
        self._first: list[str] = []
        self._closing = False
        self.failures: dict[str, str] = {}

    def find(self) -> Sequence[Package]:
        """Return the installed packages, looking again if some may have been installed."""
        now = time.monotonic()
        with self._changed:
            if now < self._check_at:
                return self._packages
            self._check_at = now + _CHECK_SECONDS
            stamp = compute_stamp(self._project)
            if stamp != self._stamp:
                self._packages, self._stamp = find_all(self._project), stamp
                installed = {package.full_name for package in self._packages}
                self._names = {n: s for n, s in self._names.items() if n in installed}
            return self._packages

    def prepare(
        self,
        wait_seconds: float,
        first: Sequence[Package] = (),
        on_package: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Prepare what is missing in the background.

        Waits for all packages, or for those in ``first``, at most ``wait_seconds``.
        """
        packages = self.find()
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            self._first = [package.full_name for package in first]
            awaited = list(first) or packages
            while not self._closing:
                missing = [package for package in packages if not self._is_settled(package)]
                ready = len(packages) - len(missing)
                if on_package is not None and missing:
                    on_package(missing[0].full_name, ready, len(packages))
                left = deadline - time.monotonic()
                if all(map(self._is_settled, awaited)) or left <= 0:
                    return
                if self._thread is None or not self._thread.is_alive():
                    self._thread = Thread(
                        target=self._prepare_all, name="lookfar-packages", daemon=True
                    )
                    self._thread.start()
                self._changed.wait(min(left, 0.5))

    def choose(self, question: str) -> list[Package]:
        """Return the packages that a question names, or else those that the project names."""
        words = {word.strip("./-@") for word in _WORD.findall(question.lower())}
        heads = {word.partition(".")[0] for word in words}
        packages = self.find()
        named = [
            package
            for package in packages
            if not words.union(heads).isdisjoint(
                name.lower() for name in (package.name, *package.imports)
            )
        ]
        return named or [package for package in packages if package.direct] or list(packages)

    def open(self, packages: Sequence[Package]) -> dict[str, Outside]:
        """Return the collections of those packages that are ready."""
        with self._changed:
            names = [self._names.get(package.full_name) for package in packages]
        return {name: self._outside.open(name) for name in names if name}

    def list_ready(self) -> dict[str, str]:
        """Return the names of the sources of packages that are indexed, by their full names."""
        for package in self.find():
            if package.full_name not in self._names:
                name, known = _find_stored(self._outside, package, _identify(package))
                if known is not None and self._outside.open(name).indexed:
                    self._names[package.full_name] = name
        return dict(self._names)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _is_settled(self, package: Package) -> bool:
        return package.full_name in self._names or package.full_name in self.failures

    def _prepare_all(self) -> None:
        while (package := self._next()) is not None:
            name, failure = "", ""
            try:
                name = bring_package(self._outside, package)
            except IndexBusy:
                time.sleep(0.2)  # Another process prepares it.
                continue
            except LookfarError as error:
                failure = error.message
            with self._changed:
                if name:
                    self._names[package.full_name] = name
                else:
                    self.failures[package.full_name] = failure
                self._changed.notify_all()

    def _next(self) -> Package | None:
        with self._changed:
            if self._closing:
                return None
            missing = [package for package in self._packages if not self._is_settled(package)]
            preferred = (package for package in missing if package.full_name in self._first)
            return next(preferred, missing[0] if missing else None)


def bring_package(outside: OutsideSources, package: Package) -> str:
    """Store and index a package unless that is done; return the name of its source."""
    shelf = outside.shelf
    content = _identify(package)
    name, known = _find_stored(outside, package, content)
    if known is None:
        source = OutsideSource(
            name,
            "package",
            package.place,
            package.version,
            fetched=timestamp(),
            options={"content": content, "package": package.name},
        )
        with shelf.writing(name) as incoming:
            files.remove(incoming)
            for uri, data in _read_files(package):
                write_incoming(incoming, uri, data)
            shelf.take_over(source)
    collection = outside.open(name)
    if not collection.indexed:
        collection.index()
    return name


def _find_stored(
    outside: OutsideSources, package: Package, content: str
) -> tuple[str, OutsideSource | None]:
    """Return the name of a package's source, and the source if these files are stored."""
    known = outside.shelf.find(package.full_name)
    if known is None or known.options.get("content") == content:
        return package.full_name, known
    # Another project has the same version with other files, such as patched ones.
    name = f"{package.name}-{package.version}+{content[:8]}@{package.registry}"
    return name, outside.shelf.find(name)


def _identify(package: Package) -> str:
    """Return a hash that is the same wherever the same files were installed."""
    total = sha256(f"{package.registry}\0{package.name}\0{package.version}\0".encode())
    if package.record:
        total.update(read_data(Path(package.record)))
    elif package.registry == "maven":
        total.update(read_data(Path(package.place)))
    else:
        for uri, path in list_files(package):
            with suppress(OSError):
                total.update(f"{uri}\0{path.stat().st_size}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _read_files(package: Package) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a package as they are stored: code without bodies."""
    left = _LARGEST_PACKAGE
    for uri, data in _read_originals(package):
        left -= len(data)
        if left < 0:
            return
        if uri == "README.md" and package.registry == "pypi":
            data = _make_readme(package, data)
        elif uri.endswith(_SOURCE_ENDINGS):
            text = decode(data).text
            data = reduce_to_api(uri, text).encode("utf-8", "surrogateescape")
        if data.strip():
            yield uri, data


def _read_originals(package: Package) -> Iterator[tuple[str, bytes]]:
    if package.registry == "maven":
        for name, size, stream in read_archive(package.place):
            if name.endswith(".java") and size <= _LARGEST_FILE and stream is not None:
                data = read_limited(stream, _LARGEST_FILE)
                if data is not None:
                    yield name, data
        return
    for uri, path in list_files(package):
        try:
            small = path.stat().st_size <= _LARGEST_FILE
        except OSError:
            continue
        if small:
            yield uri, read_data(path)


def _make_readme(package: Package, metadata: bytes) -> bytes:
    """Return the description of a Python package, which its metadata contains."""
    head, _, body = metadata.replace(b"\r\n", b"\n").partition(b"\n\n")
    summary = re.search(rb"^Summary: (.*)$", head, re.MULTILINE)
    title = f"# {package.name} {package.version}\n\n".encode()
    return title + (summary[1] + b"\n\n" if summary else b"") + body

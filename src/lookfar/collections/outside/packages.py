"""The packages of a project as sources: their public API, documentation and changelog.

One source per version of a package, shared by all projects that have the same files of it. A copy
is stored, so that it can be searched and cited after an upgrade, too.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Final

from lookfar.collections.outside.shelf import write_incoming
from lookfar.collections.passes import timestamp
from lookfar.errors import IndexBusy, LookfarError
from lookfar.index.words import share_words
from lookfar.model import OutsideSource
from lookfar.sources.archive import read_archive, read_limited
from lookfar.sources.confine import path_problem
from lookfar.sources.packages.finding import compute_stamp, find_all, list_files
from lookfar.sources.packages.package import Package, read_data
from lookfar.store.ground import files
from lookfar.text.normalise import decode
from lookfar.text.parse.public_api import reduce_to_api

if TYPE_CHECKING:
    from lookfar.collections.outside.collection import Outside
    from lookfar.collections.outside.opened import OutsideSources

_log = logging.getLogger(__name__)

_LARGEST_FILE: Final = 2_000_000
_LARGEST_PACKAGE: Final = 50_000_000
_SOURCE_ENDINGS: Final = (".py", ".js", ".mjs", ".cjs", ".rs", ".go", ".java")
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9_.@/-]*")
_CHECK_SECONDS: Final = 2.0
_SETTLE_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 10.0
"""How often a project whose packages are not indexed is asked whether that changed."""


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
        self._prepared_words: set[str] = set()
        """What the packages are called that this process prepared, which the record of the project
        says only a moment later."""
        self._stamp: object = None
        self._check_at = 0.0
        self._first: list[str] = []
        self._closing = False
        self._follower: Thread | None = None
        self._enabled_here = False
        self.failures: dict[str, str] = {}

    @property
    def enabled(self) -> bool:
        """Whether the user asked for the packages of this project."""
        chosen = self._outside.packages_setting
        return chosen == "on" or (
            chosen == "auto"
            and (self._enabled_here or self._outside.projects.get(str(self._project)).enabled)
        )

    def enable(self) -> bool:
        """Index the packages of this project from now on; return False if settings forbid it."""
        if self._outside.packages_setting == "auto" and not self.enabled:
            with suppress(LookfarError):  # Without a record, this process alone remembers it.
                self._outside.projects.enable(str(self._project))
            self._enabled_here = True
            with self._changed:
                self._changed.notify_all()
        return self.enabled

    def disable(self) -> None:
        """Stop indexing packages; what is stored is removed after it was unused for some time."""
        self._enabled_here = False
        self._outside.projects.enable(str(self._project), enabled=False)

    def follow(self) -> None:
        """Index what is installed, and drop what is removed, in the background while enabled."""
        with self._changed:
            if self._follower is None and not self._closing:
                self._follower = Thread(
                    target=self._follow, name="lookfar-packages-follow", daemon=True
                )
                self._follower.start()

    def unfollow(self) -> None:
        """Stop following after the package that is being indexed."""
        with self._changed:
            follower, self._follower = self._follower, None
            self._changed.notify_all()
        if follower is not None:
            follower.join()

    def _follow(self) -> None:
        done: object = None
        while self._follower is current_thread() and not self._closing:
            enabled = self.enabled
            if enabled:
                self.find()
                if self._stamp != done:
                    done = self._stamp
                    with self._changed:
                        self._start()
            with self._changed:
                if self._follower is current_thread() and not self._closing:
                    self._changed.wait(_CHECK_SECONDS if enabled else _IDLE_SECONDS)

    def find(self) -> Sequence[Package]:
        """Return the installed packages, looking again if some may have been installed."""
        now = time.monotonic()
        with self._changed:
            if now < self._check_at:
                return self._packages
            self._check_at = now + _CHECK_SECONDS
            stamp = compute_stamp(self._project)
            if stamp != self._stamp:
                newest = max((changed for _, changed in stamp), default=0) / 1e9
                # What was changed just now may not be installed completely: look again.
                is_settled = abs(time.time() - newest) > _SETTLE_SECONDS
                self._packages, self._stamp = find_all(self._project), stamp if is_settled else None
                installed = {package.full_name for package in self._packages}
                self._names = {n: s for n, s in self._names.items() if n in installed}
                self.failures = {}
            return self._packages

    def prepare(
        self,
        wait_seconds: float,
        first: Sequence[Package] = (),
        on_package: Callable[[str, int, int], None] | None = None,
    ) -> dict[str, str]:
        """Prepare what is missing in the background; return why packages could not be prepared.

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
                if missing:
                    self._start()
                left = deadline - time.monotonic()
                if all(map(self._is_settled, awaited)) or left <= 0:
                    break
                self._changed.wait(min(left, 0.5))
            # Taken here, since another look for packages tries those that failed again.
            return dict(self.failures)

    def _start(self) -> None:
        """Prepare what is missing in a thread, unless one does; the caller holds the lock."""
        if not self._closing and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._prepare_all, name="lookfar-packages", daemon=True)
            self._thread.start()

    def choose(self, question: str) -> list[Package]:
        """Return the packages that a question names, or else those that the project names."""
        packages = self.find()
        named = self.find_named(question)
        if any(package.direct or not package.name.isalpha() for package in named):
            return named
        # The name of a package that the project did not choose, like send, may be just a word.
        direct = [package for package in packages if package.direct]
        return [*named, *direct] or list(packages)

    def find_named(self, question: str) -> list[Package]:
        """Return the packages that a question names, by their own names or as code does."""
        words = _find_heads(question)
        return [package for package in self.find() if not words.isdisjoint(_list_names(package))]

    def may_name(self, question: str) -> bool:
        """Return whether a question may name a package, without looking for packages.

        Answered from what is recorded: finding all packages takes as long as a search.
        """
        words = _find_heads(question)
        if words.isdisjoint(self._prepared_words):
            record = self._outside.projects.get(str(self._project))
            return self.enabled and not words.isdisjoint(record.words)
        return self.enabled

    def drop_name(self, question: str) -> str:
        """Return a question without the name of the only package that it names.

        Every passage of that package is about it, so that the name would only distract. What is
        in quotes, and a name that is part of a longer one, like ``requests.get``, stays.
        """
        named = self.find_named(question)
        if len(named) != 1 or '"' in question:
            return question
        names = _list_names(named[0])
        rest = " ".join(word for word in question.split() if names.isdisjoint(_split_words(word)))
        return rest or question

    def open(self, packages: Sequence[Package]) -> dict[str, Outside]:
        """Return the collections of those packages that are ready."""
        with self._changed:
            names = [self._names.get(package.full_name) for package in packages]
        return {name: self._outside.open(name) for name in names if name}

    def list_ready(self, among: Sequence[Package] | None = None) -> dict[str, str]:
        """Return the names of the sources of packages that are indexed, by their full names.

        Without ``among``, all packages are looked at.
        """
        for package in self.find() if among is None else among:
            if package.full_name not in self._names:
                name, known = _find_stored(self._outside, package, _identify(package))
                if known is not None and self._outside.open(name).indexed:
                    self._names[package.full_name] = name
        return dict(self._names)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self.unfollow()
        if self._thread is not None:
            self._thread.join()

    def _is_settled(self, package: Package) -> bool:
        return package.full_name in self._names or package.full_name in self.failures

    def _prepare_all(self) -> None:
        with share_words():
            self._prepare_missing()
        if self.enabled and all(map(self._is_settled, self._packages)):
            with suppress(LookfarError):  # The next change records it.
                words = {name for package in self._packages for name in _list_names(package)}
                self._outside.projects.record_uses(str(self._project), dict(self._names), words)
                self._outside.drop_unused_packages()
        with self._changed:
            self._changed.notify_all()

    def _prepare_missing(self) -> None:
        while (package := self._next()) is not None:
            name, failure = "", ""
            try:
                name = bring_package(self._outside, package)
            except IndexBusy:
                time.sleep(0.2)  # Another process prepares it.
                continue
            except LookfarError as error:
                failure = error.message
            except Exception as error:
                # Without this, everyone who waits for the package would wait for a day.
                _log.exception("%s could not be indexed", package.full_name)
                failure = f"internal error: {type(error).__name__}"
            with self._changed:
                if name:
                    self._names[package.full_name] = name
                    self._prepared_words |= _list_names(package)
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


def _split_words(question: str) -> set[str]:
    """Return the words of a question."""
    words = _WORD.findall(question.lower())
    return {word.strip("./-@").replace("_", "-") for word in words}


def _find_heads(question: str) -> set[str]:
    """Return the words of a question, and what is before the first dot in them."""
    words = _split_words(question)
    return words | {word.partition(".")[0] for word in words}


def _list_names(package: Package) -> set[str]:
    """Return what people call a package: without its scope, and without a number at the end."""
    names = {name.lower().strip("@").replace("_", "-") for name in (package.name, *package.imports)}
    names |= {name.rpartition("/")[2] for name in names}
    return names | {short for name in names if len(short := name.rstrip("0123456789")) > 3}


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
            if name.endswith(".java") and size <= _LARGEST_FILE:
                data, reason = read_limited(stream, _LARGEST_FILE)
                if not reason:
                    yield name, data
        return
    inside = os.path.realpath(package.place) + os.sep
    for uri, path in list_files(package):
        try:
            small = path.stat().st_size <= _LARGEST_FILE
        except OSError:
            continue
        # A project could contain an environment whose files are links to private ones.
        if small and not path_problem(uri) and os.path.realpath(path).startswith(inside):
            yield uri, read_data(path)


def _make_readme(package: Package, metadata: bytes) -> bytes:
    """Return the description of a Python package, which its metadata contains."""
    head, _, body = metadata.replace(b"\r\n", b"\n").partition(b"\n\n")
    summary = re.search(rb"^Summary: (.*)$", head, re.MULTILINE)
    title = f"# {package.name} {package.version}\n\n".encode()
    return title + (summary[1] + b"\n\n" if summary else b"") + body

"""What ``lookfar doctor`` looks at: everything that has to be right for an answer.

Takes: a folder and the settings of a command line. Gives: findings, each with what to do about it,
and where that is safe a way to do it. Refuses: to change anything by looking, and to end because
of one check; what a check cannot find out is a finding too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lookfar import __version__
from lookfar.common.folders import list_folder
from lookfar.config import data_dir
from lookfar.errors import IndexBusy, IndexCorrupt, LookfarError, NotIndexed, how_many
from lookfar.serve.cli.options import quoted
from lookfar.sources.folder.mounts import FAR, mounted

if TYPE_CHECKING:
    from lookfar.library import Library

State = Literal["ok", "warning", "error", "fixed"]

_OLDEST_PYTHON: Final = (3, 11)
_NATIVE: Final = (
    "numpy",
    "numkong",
    "tantivy",
    "tree_sitter",
    "pyromark",
    "watchdog",
)
_LITTLE: Final = 200_000_000
_ENOUGH: Final = 1_000_000_000
_MOST_WATCHED: Final = 0.8
"""The share of the system's limit that one folder may take: other programs watch, too."""
_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")
_INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")
_MOUNTS: Final = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: State
    message: str
    fix: str = ""
    """What a person can do about it; empty where nothing has to be done."""
    mend: Callable[[], object] | None = field(default=None, compare=False)
    """Does it, where that is safe."""

    @property
    def fixable(self) -> bool:
        """Whether ``--fix`` does it."""
        return self.mend is not None


_Check = tuple[str, Callable[[], Iterator[Finding]]]


class Checks:
    """The checks of one folder, in the order in which things depend on each other."""

    def __init__(self, path: str, index_dir: str | None, settings: dict[str, Any]) -> None:
        self._path = path
        self._index_dir = index_dir
        self._settings = settings

    def run(self, *, deep: bool, fix: bool) -> Iterator[Finding]:
        """Every finding; with ``fix`` what can safely be mended is, and looked at again."""
        first: tuple[_Check, ...] = (
            ("python", self.python), ("parts", self.parts), ("settings", self.config),
        )  # fmt: skip
        of_folder: tuple[_Check, ...] = (
            ("permissions", self.permissions),
            ("disk", self.disk),
            ("file system", self.file_system),
            ("sqlite", self.sqlite),
            ("model", self.model),
            ("index", lambda: self.index(deep)),
            ("watcher", self.watcher),
            ("git", self.git),
            ("clients", self.clients),
        )
        try:
            yield from self._found(first, fix)
            if self._opens():  # Why it does not was told with the settings.
                yield from self._found(of_folder, fix)
            yield from self._found((("daemon", self.daemon),), fix)
        finally:
            if "library" in self.__dict__:
                self.library.close()

    def _found(self, checks: Iterable[_Check], fix: bool) -> Iterator[Finding]:
        for name, check in checks:
            found = list(_guarded(name, check))
            broken = [each for each in found if each.mend is not None]
            if fix and broken:
                yield from self._mended(name, check, found, broken)
            else:
                yield from found

    def _opens(self) -> bool:
        try:
            return bool(self.library.collections)
        except LookfarError:
            return False

    def _mended(
        self,
        name: str,
        check: Callable[[], Iterator[Finding]],
        found: list[Finding],
        broken: list[Finding],
    ) -> Iterator[Finding]:
        failed: dict[str, LookfarError | OSError] = {}
        for each in broken:
            assert each.mend is not None
            try:
                each.mend()
            except (LookfarError, OSError) as error:
                failed[each.message] = error
        again = list(_guarded(name, check))
        left = {each.message for each in again}
        for each in found:
            if each.mend is not None and each.message not in left:
                yield Finding(name, "fixed", each.message)
        for each in again:
            why = failed.get(each.message)
            told = f"{each.message} Mending it failed: {why}" if why else each.message
            yield Finding(name, each.state, told, each.fix, each.mend)

    @cached_property
    def library(self) -> Library:
        from lookfar.library import Library

        return Library.open(self._path, index_dir=self._index_dir, settings=self._settings)

    @property
    def _named(self) -> str:
        return quoted(self._path)

    # -- the program -----------------------------------------------------------

    def python(self) -> Iterator[Finding]:
        version = ".".join(map(str, sys.version_info[:3]))
        told = f"Python {version}, Lookfar {__version__} in {Path(sys.prefix)}."
        if sys.version_info[:2] < _OLDEST_PYTHON:
            oldest = ".".join(map(str, _OLDEST_PYTHON))
            yield Finding("python", "error", told, f"Install Python {oldest} or newer.")
        else:
            yield Finding("python", "ok", told)

    def parts(self) -> Iterator[Finding]:
        """What Lookfar is installed with, and whether what is made for this machine loads."""
        lacking = [name for name in _required() if _version_of(name) is None]
        if lacking:
            yield Finding(
                "parts",
                "error",
                f"Not installed: {', '.join(lacking)}.",
                "Run: pip install lookfar",
            )
        broken = {}
        for name in _NATIVE:
            try:
                import_module(name)
            except Exception as error:  # Whatever a wheel for another machine raises.
                broken[name] = f"{type(error).__name__}: {error}"
        grammars, unread = self._grammars()
        for name, why in {**broken, **unread}.items():
            pip = f"Run: pip install --force-reinstall {name.replace('_', '-')}"
            yield Finding("parts", "error", f"{name} does not load: {why}", pip)
        if not lacking and not broken and not unread:
            told = f"{len(_NATIVE)} native parts and {grammars} grammars load."
            yield Finding("parts", "ok", told)

    @staticmethod
    def _grammars() -> tuple[int, dict[str, str]]:
        from lookfar.text.parse.grammars import parser_of
        from lookfar.text.parse.languages import LANGUAGES

        names = sorted({each.grammar for each in LANGUAGES if each.grammar})
        broken: dict[str, str] = {}
        for name in names:
            try:
                parser_of(name)
            except Exception as error:  # As above.
                broken[name.partition(".")[0]] = f"{type(error).__name__}: {error}"
        return len(names), broken

    # -- what it is told -------------------------------------------------------

    def config(self) -> Iterator[Finding]:
        from lookfar.config import find_problems, settings_files

        files = settings_files(Path(self._path).absolute())
        found = []
        there = []
        for number, file in enumerate(files):
            try:
                text = file.read_text("utf-8")
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                found.append(Finding("settings", "error", f"{file} cannot be read: {error}",
                                     "Check its permissions and that it is text."))  # fmt: skip
                continue
            there.append(str(file))
            wrong = find_problems(text, file, project=number > 0)
            found += [Finding("settings", "error", each.message, each.hint) for each in wrong]
        yield from found
        if not found:
            _ = self.library.settings  # Also variables and the command line.
            told = ", ".join(there) or "no file; everything is as it comes"
            yield Finding("settings", "ok", f"Settings: {told}.")

    # -- where it writes -------------------------------------------------------

    @property
    def _index_home(self) -> Path:
        return Path(self.library.settings.index.dir)

    def permissions(self) -> Iterator[Finding]:
        home = self._index_home
        if not home.exists():
            from lookfar.store.ground.files import make_folder

            yield Finding(
                "permissions", "warning", f"The folder for indexes is not there yet: {home}.",
                "It is made with the first index.", lambda: make_folder(home),
            )  # fmt: skip
            return
        if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
            yield Finding(
                "permissions", "error", f"The folder for indexes may not be written: {home}.",
                f"Run: chmod u+rwx {quoted(str(home))}; or choose another with --index-dir.",
                (lambda: home.chmod(home.stat().st_mode | 0o700)) if _is_ours(home) else None,
            )  # fmt: skip
            return
        databases = Path(self.library.settings.documents.dir)
        shared = [*open_to_others(home), *open_to_others(databases)]
        own = data_dir()  # Of Lookfar alone: what earlier versions made is closed as a whole.
        if own.is_dir() and _is_open(own):
            shared.append(own)
        if shared:
            names = ", ".join(path.name for path in shared[:3])
            yield Finding(
                "permissions", "warning",
                f"Others may read these folders, which repeat the text of files: {names}.",
                f"Run: chmod 700 {' '.join(quoted(str(path)) for path in shared)}",
                # Not a folder that somebody chose for them, where others may have to do.
                lambda: _keep_to_ourselves(shared),
            )  # fmt: skip
        else:
            yield Finding("permissions", "ok", f"{home} is writable, and its indexes yours alone.")

    def disk(self) -> Iterator[Finding]:
        home = _nearest(self._index_home)
        free = shutil.disk_usage(home).free
        told = f"{free / 1e9:,.1f} GB are free where indexes lie."
        advice = "Free some space, or choose another disk with --index-dir."
        if free < _LITTLE:
            yield Finding("disk", "error", told, advice)
        elif free < _ENOUGH:
            yield Finding("disk", "warning", told, advice)
        else:
            yield Finding("disk", "ok", told)

    def file_system(self) -> Iterator[Finding]:
        """Whether index and folder lie on this machine; only Linux says it in so many words."""
        if not _MOUNTS.exists():
            return
        home, root = _mounted(self._index_home), _mounted(Path(self._path))
        if home in FAR:
            yield Finding(
                "file system", "error",
                f"Indexes lie on a network file system ({home}), where SQLite cannot lock them.",
                "Choose a folder on this machine: lookfar config set index.dir DIR",
            )  # fmt: skip
        if root in FAR:
            yield Finding(
                "file system", "warning",
                f"The folder lies on a network file system ({root}): changes that others make are"
                " not reported.",
                "They are found every watch.reconcile_seconds, and by: lookfar index"
                f" {self._named}",
            )  # fmt: skip
        if home not in FAR and root not in FAR:
            yield Finding("file system", "ok", f"Index ({home}) and folder ({root}) are local.")

    def sqlite(self) -> Iterator[Finding]:
        from lookfar.store.ground.database import OLDEST_SQLITE, SQLITE_VERSION, without_log

        version, oldest = (".".join(map(str, each)) for each in (SQLITE_VERSION, OLDEST_SQLITE))
        if SQLITE_VERSION < OLDEST_SQLITE:
            yield Finding(
                "sqlite", "error", f"SQLite {version} is too old.",
                f"Use a Python that comes with SQLite {oldest} or newer.",
            )  # fmt: skip
            return
        with tempfile.TemporaryDirectory(
            dir=_nearest(self._index_home), prefix=".lookfar-doctor-", ignore_cleanup_errors=True
        ) as folder:
            why = without_log(Path(folder))
        if why:
            yield Finding(
                "sqlite", "error", f"SQLite {version} cannot keep a log where indexes lie: {why}.",
                "Choose a folder on a local disk: lookfar config set index.dir DIR",
            )  # fmt: skip
        else:
            yield Finding("sqlite", "ok", f"SQLite {version}; write-ahead logs work on this disk.")

    # -- what it answers with --------------------------------------------------

    def model(self) -> Iterator[Finding]:
        folder = self.library.folder()
        embedder = folder.embedder
        if embedder is None and folder.without_model:
            yield Finding(
                "model", "warning", f"{folder.without_model} Search works by words only.",
                "Install lookfar again, or name a model: lookfar config set embed.model DIR",
            )  # fmt: skip
        elif embedder is None:
            yield Finding("model", "ok", "No model, as the settings say: search works by words.")
        else:
            vector = embedder.embed_query("where is the door")
            told = f"{embedder.name} answers with {vector.shape[-1]} numbers"
            yield Finding("model", "ok", f"{told} (fingerprint {embedder.fingerprint[:40]}).")

    def index(self, deep: bool) -> Iterator[Finding]:
        """Whether there is one, whether it opens; with ``deep`` every row and file of it."""
        folder = self.library.folder()
        repair = f"Run: lookfar verify {self._named} --repair"

        def mend() -> object:
            return self.library.verified(repair=True)

        yield from self._databases(repair)
        try:
            told = self.library.status(check=False)
        except NotIndexed:
            told = None
        except LookfarError as error:
            yield Finding("index", "error", f"{error.message} ({error.developer})", repair, mend)
            return
        if told is None or not told.indexed:
            yield Finding(
                "index", "warning", f"{folder.root.path} is not indexed yet.",
                f"Run: lookfar index {self._named}; a search does it, too.",
            )  # fmt: skip
            return
        if deep:
            for each in self.library.verified():
                for damage in each.found:
                    what = f"{each.collection}: {damage.artefact}: {damage.detail}"
                    yield Finding("index", "error", what, repair, mend)
                if each.found:
                    return
        if not told.current:
            yield Finding(
                "index", "warning", "The index was made with other settings or an older Lookfar.",
                f"Run: lookfar index {self._named}; a search does it, too.",
            )  # fmt: skip
        if told.held is not None:
            yield Finding(
                "index", "warning", f"The index is held at generation {told.held}.",
                f"To let go of it, run: lookfar index {self._named}",
            )  # fmt: skip
        if told.failures:
            yield Finding(
                "index", "warning", f"{how_many(len(told.failures), 'file')} could not be read.",
                f"See which: lookfar status {self._named}",
            )  # fmt: skip
        if told.damage:
            yield Finding("index", "ok", f"It was damaged once, and was rebuilt: {told.damage}.")
        seen = "every row and file fits its hash" if deep else "it opens (--deep checks every row)"
        counts = f"{how_many(told.counts.documents, 'document')}, generation {told.generation}"
        yield Finding("index", "ok", f"{counts}; {seen}.")

    def _databases(self, repair: str) -> Iterator[Finding]:
        """The databases of inserted documents that cannot answer as they are. To mend one may
        leave documents behind, so that is never done besides."""
        for database in self.library.databases().values():
            try:
                database.check()
            except IndexCorrupt as error:
                told = f"{error.message.partition('.')[0]} ({error.developer})."
                yield Finding("index", "error", told, repair)
            except LookfarError as error:
                yield Finding("index", "error", f"{database.name}: {error.message}", error.hint)
            for place in database.kept_aside:
                yield Finding(
                    "index", "warning", f"A repair has kept damaged files of {database.name}.",
                    f"Once nothing is missing, they can be removed: {place}",
                )  # fmt: skip

    def watcher(self) -> Iterator[Finding]:
        if not _WATCHES.exists():
            yield Finding("watcher", "ok", "This system needs no limits for watching folders.")
            return
        limit, instances = int(_WATCHES.read_text()), int(_INSTANCES.read_text())
        number = self.library.folder().folder_count()
        told = (
            f"{how_many(number, 'folder')} to watch; the system allows {limit:,} for all programs."
        )
        if number > limit * _MOST_WATCHED:
            more = max(524_288, 2 * number)
            yield Finding(
                "watcher", "warning", told,
                f"Allow more: sudo sysctl fs.inotify.max_user_watches={more}; until then changes"
                " are looked for every watch.reconcile_seconds.",
            )  # fmt: skip
        elif instances < 16:
            yield Finding(
                "watcher", "warning", f"The system allows {instances} watchers of one user.",
                "Allow more: sudo sysctl fs.inotify.max_user_instances=128",
            )  # fmt: skip
        else:
            yield Finding("watcher", "ok", told)

    def git(self) -> Iterator[Finding]:
        if not self.library.settings.git.history:
            yield Finding("git", "ok", "The history of repositories is not wanted.")
            return
        found = shutil.which("git")
        if found is None:
            yield Finding(
                "git", "warning", "git is not on the search path: commits cannot be searched.",
                "Install git, or turn that off: lookfar config set git.history false",
            )  # fmt: skip
            return
        known = self.library.histories(look=False)
        for commits in known.values():
            refusal = commits.refusal()
            if refusal is not None:
                yield Finding("git", "warning", refusal.message, refusal.hint)
        where = f"{len(known)} repository here" if known else "no repository here"
        yield Finding("git", "ok", f"{found}; {where}.")

    # -- who else takes part ---------------------------------------------------

    def daemon(self) -> Iterator[Finding]:
        from lookfar.serve.daemon.endpoint import build, daemon_status, daemon_stop, runtime_folder

        folder = runtime_folder()
        try:
            status = daemon_status()
        except LookfarError as error:
            yield Finding("daemon", "error", error.message, error.hint, daemon_stop)
            return
        if status is None:
            left = [folder / name for name in ("daemon.sock", "daemon.json")]
            left = [path for path in left if os.path.lexists(path)]
            if left:
                yield Finding(
                    "daemon", "warning", f"A daemon died and left {', '.join(map(str, left))}.",
                    "The next one removes them.", lambda: _clear_away(left),
                )  # fmt: skip
            else:
                yield Finding("daemon", "ok", "No daemon runs; one is started when it is needed.")
            return
        told = f"A daemon runs (process {status.get('pid')}, Lookfar {status.get('version')})."
        if status.get("build") not in (None, build()):
            yield Finding(
                "daemon", "warning", f"{told} It is of another build than this command.",
                "Run: lookfar daemon stop; the next session starts the new one.", daemon_stop,
            )  # fmt: skip
        else:
            yield Finding("daemon", "ok", told)

    def clients(self) -> Iterator[Finding]:
        """Whether what ``lookfar setup`` wrote still starts something."""
        from lookfar.serve.setup.clients import CLIENTS
        from lookfar.serve.setup.machine import Machine

        machine, root = Machine.here(), Path(self.library.folder().root.path)
        working = []
        for client in CLIENTS:
            for scope in ("user", "project"):
                place = client.place(machine, scope, root)
                if place is None or not place.is_file():
                    continue
                shown = f"{client.title} ({machine.shown(place)})"
                again = f"Run: lookfar setup {self._named} --client {client.name}"
                try:
                    words = _entry_of(client, scope, place)
                except LookfarError as error:
                    yield Finding("clients", "warning", f"{shown}: {error.message}", error.hint)
                    continue
                if words is None:
                    continue
                program = words[0] if words else ""
                if program and machine.program(program):
                    working.append(client.title)
                else:
                    told = f"{shown} starts {program or 'nothing'}, which is not there."
                    yield Finding("clients", "error", told, again)
        if working:
            yield Finding("clients", "ok", f"Set up: {', '.join(dict.fromkeys(working))}.")
        else:
            advice = f"To set up Claude Code, Cursor and others, run: lookfar setup {self._named}"
            yield Finding("clients", "ok", f"No client was set up. {advice}")


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check, and if it fails, that as well."""
    try:
        yield from check()
    except LookfarError as error:
        yield Finding(name, "error", error.message, error.hint)
    except Exception as error:  # A doctor who faints helps nobody.
        told = f"This could not be checked: {type(error).__name__}: {error}"
        yield Finding(name, "warning", told, "Report it, with what lookfar doctor --json prints.")


def _required() -> list[str]:
    """The distributions that this one needs on this machine."""
    try:
        declared = metadata.requires("lookfar") or []
    except metadata.PackageNotFoundError:  # It runs from its sources.
        return []
    # What only some machines need, and extras, come with a condition.
    plain = (line for line in declared if ";" not in line)
    return [re.split(r"[<>=!~\[ ]", line)[0] for line in plain]


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _clear_away(left: list[Path]) -> None:
    """Remove what a daemon left, unless another has begun: then they may be that one's."""
    from lookfar.store.ground.files import WriterLock

    lock = WriterLock(left[0].with_name("daemon.lock"))
    try:
        lock.acquire()
    except IndexBusy:
        return
    with lock:
        for path in left:
            path.unlink(missing_ok=True)


def _keep_to_ourselves(folders: list[Path]) -> None:
    for path in folders:
        path.chmod(0o700)


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest above it that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.is_dir())


def open_to_others(home: Path) -> list[Path]:
    """The indexes that other users of this machine can look into."""
    if sys.platform == "win32" or not home.is_dir() or not home.stat().st_mode & 0o077:
        return []
    # The folder may be somebody's own, with much else in it.
    folders = (path for path in list_folder(home) if path.is_dir() and not path.is_symlink())
    return [path for path in folders if (path / "CURRENT").is_file() and _is_open(path)]


def _is_open(path: Path) -> bool:
    """Whether a folder of ours can be opened by others; one that is gone cannot."""
    try:
        return sys.platform != "win32" and _is_ours(path) and bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:
        return False


def _is_ours(path: Path) -> bool:
    return sys.platform == "win32" or path.stat().st_uid == os.getuid()


def _mounted(path: Path) -> str:
    return mounted(_nearest(path), _MOUNTS)


def _entry_of(client: Any, scope: str, place: Path) -> list[str] | None:
    """The words that our entry in a client's file starts; None where there is none of ours."""
    from dataclasses import replace

    from lookfar.serve.setup import edits

    target = edits.Target(client.name, client.title, scope, place, client.format)
    text = edits.text_of(target, edits.read(target.real))
    target = replace(target, keys=client.path_in(edits.data_of(target, text)))
    entry = edits.entry_in(target, text)
    if not isinstance(entry, dict) or client.is_remote(entry):
        return None
    return list(client.words(entry))

"""Check what searches depend on: the model, the index, the file watcher and git."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.errors import IndexCorrupt, LookfarError, NotIndexed, how_many
from lookfar.model import Status
from lookfar.serve.cli.doctor.findings import Finding, Subject

_MAX_WATCH_SHARE: Final = 0.8
"""The share of the system's limit that one folder may use; other programs need watches, too."""
_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")
_INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")


def check_model(subject: Subject) -> Iterator[Finding]:
    folder = subject.library.folder()
    embedder = folder.embedder
    if embedder is None and folder.without_model:
        yield Finding(
            "model", "warning", f"{folder.without_model} Search works by words only.",
            "Install lookfar again, or name a model: lookfar config set embed.model DIR",
        )  # fmt: skip
    elif embedder is None:
        yield Finding("model", "ok", "The settings name no model: search works by words only.")
    else:
        vector = embedder.embed_query("where is the door")
        message = f"{embedder.name} returns vectors of {vector.shape[-1]} numbers"
        yield Finding("model", "ok", f"{message} (fingerprint {embedder.fingerprint[:40]}).")
    if folder.second_model is None and folder.without_second_model:
        yield Finding(
            "model", "warning", folder.without_second_model,
            "Run: pip install --force-reinstall lookfar onnxruntime, or turn it off: lookfar config"
            " set quality.enabled off",
        )  # fmt: skip


def check_store(subject: Subject) -> Iterator[Finding]:
    """Check that the server of the indexes answers, if there is one."""
    from lookfar.store.opening import stored_names

    if subject.library.settings.store.url:
        stored_names(subject.index_home, subject.library.settings, "")
        yield Finding("store", "ok", "The PostgreSQL server in store.url answers.")


def check_index(subject: Subject, deep: bool = False) -> Iterator[Finding]:
    """Check that an index exists and opens; with ``deep``, check every row and file."""
    library = subject.library
    repair = f"Run: lookfar verify {subject.shell_path} --repair"

    def mend() -> object:
        return library.verified(repair=True)

    yield from _check_databases(subject, repair)
    try:
        status = library.status(check=False)
    except NotIndexed:
        status = None
    except LookfarError as error:
        yield Finding("index", "error", f"{error.message} ({error.developer})", repair, mend)
        return
    if status is None or not status.indexed:
        yield Finding(
            "index", "warning", f"{library.folder().root.path} is not indexed yet.",
            f"Run: lookfar index {subject.shell_path}; a search also does it.",
        )  # fmt: skip
        return
    if deep:
        for result in library.verified():
            for damage in result.found:
                message = f"{result.collection}: {damage.artefact}: {damage.detail}"
                yield Finding("index", "error", message, repair, mend)
            if result.found:
                return
    yield from _check_status(subject, status)
    checked = "every row and file matches its hash" if deep else "it opens (--deep checks all rows)"
    counts = f"{how_many(status.counts.documents, 'document')}, generation {status.generation}"
    yield Finding("index", "ok", f"{counts}; {checked}.")


def _check_status(subject: Subject, status: Status) -> Iterator[Finding]:
    if not status.current:
        yield Finding(
            "index", "warning", "The index was built with other settings or an older Lookfar.",
            f"Run: lookfar index {subject.shell_path}; a search also does it.",
        )  # fmt: skip
    if status.held is not None:
        yield Finding(
            "index", "warning", f"The index is held at generation {status.held}.",
            f"To release it, run: lookfar index {subject.shell_path}",
        )  # fmt: skip
    if status.failures:
        yield Finding(
            "index", "warning", f"{how_many(len(status.failures), 'file')} could not be read.",
            f"List them: lookfar status {subject.shell_path}",
        )  # fmt: skip
    if status.damage:
        yield Finding("index", "ok", f"The index was damaged and rebuilt: {status.damage}.")


def _check_databases(subject: Subject, repair: str) -> Iterator[Finding]:
    """Report databases that cannot be searched; ``--fix`` leaves them alone."""
    for database in subject.library.databases().values():
        try:
            database.check()
        except IndexCorrupt as error:
            message = f"{error.message.partition('.')[0]} ({error.developer})."
            yield Finding("index", "error", message, repair)
        except LookfarError as error:
            yield Finding("index", "error", f"{database.name}: {error.message}", error.hint)
        for place in database.kept_aside:
            yield Finding(
                "index", "warning", f"A repair set aside damaged files of {database.name}.",
                f"If no documents are missing, you can remove them: {place}",
            )  # fmt: skip


def check_watcher(subject: Subject) -> Iterator[Finding]:
    if not _WATCHES.exists():
        yield Finding("watcher", "ok", "This system has no limit on watched folders.")
        return
    limit, instances = int(_WATCHES.read_text()), int(_INSTANCES.read_text())
    from lookfar.collections.rulings import count_folders

    count = count_folders(subject.library.folder())
    message = f"{how_many(count, 'folder')} to watch; the system allows {limit:,} for all programs."
    if count > limit * _MAX_WATCH_SHARE:
        more = max(524_288, 2 * count)
        yield Finding(
            "watcher", "warning", message,
            f"Allow more: sudo sysctl fs.inotify.max_user_watches={more}; until then changes"
            " are found every watch.reconcile_seconds.",
        )  # fmt: skip
    elif instances < 16:
        yield Finding(
            "watcher", "warning", f"The system allows only {instances} watchers per user.",
            "Allow more: sudo sysctl fs.inotify.max_user_instances=128",
        )  # fmt: skip
    else:
        yield Finding("watcher", "ok", message)


def check_git(subject: Subject) -> Iterator[Finding]:
    if not subject.library.settings.git.history:
        yield Finding("git", "ok", "Searching commits is turned off (git.history).")
        return
    from lookfar.sources.git.history import find_git

    program = find_git()
    if program is None:
        yield Finding(
            "git", "warning", "git is not on the search path: commits cannot be searched.",
            "Install git, or turn this off: lookfar config set git.history false",
        )  # fmt: skip
        return
    repositories = subject.library.histories(look=False)
    for commits in repositories.values():
        refusal = commits.refusal()
        if refusal is not None:
            yield Finding("git", "warning", refusal.message, refusal.hint)
    count = f"{len(repositories)} repository here" if repositories else "no repository here"
    yield Finding("git", "ok", f"{program}; {count}.")

"""``lookfar watch``: keep indexes up to date in the foreground, with one line per pass."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write
from lookfar.serve.cli.options import examples, folder_argument, library_options, open_library
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_json, safe_name

if TYPE_CHECKING:
    from lookfar.freshness.keeper import Pass
    from lookfar.library import Library

_POLL_SECONDS = 1.0
_MOST_NAMED = 3


@examples("lookfar watch docs", "lookfar watch --strategy git --json")
@click.command()
@folder_argument(several=True)
@click.option(
    "--strategy",
    type=click.Choice(("realtime", "lazy", "git")),
    help="Index at once (realtime), at the next search (lazy), or when git's HEAD moves (git).",
)
@click.option(
    "--debounce-ms", type=int, metavar="N", help="Wait for N ms without changes before indexing."
)
@library_options
def watch(
    path: tuple[str, ...],
    strategy: str | None,
    debounce_ms: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Watch folders and keep their indexes up to date, until Ctrl-C.

    PATH is a folder (default: the current one).
    """
    with open_library(path, options) as library:
        _watch_library(library, strategy, debounce_ms, as_json=as_json)


def _watch_library(
    library: Library, strategy: str | None, debounce_ms: int | None, *, as_json: bool
) -> None:
    passes: SimpleQueue[Pass] = SimpleQueue()
    # Service managers send SIGTERM; treat it like Ctrl-C. Only the main thread may set it.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        library.watch(strategy, debounce_ms, passes.put)
        folders = {name: library.folder(name) for name in library.collections}
        paths = ", ".join(folder.root.path for folder in folders.values())
        _note(f"watching {paths}; press Ctrl-C to stop", as_json)
        reasons = dict.fromkeys(folders, "")
        while True:
            with suppress(Empty):
                _report_pass(passes.get(timeout=_POLL_SECONDS), as_json)
            for name, folder in folders.items():
                state = folder.watching()
                if state is not None and state.reason != reasons[name]:
                    reasons[name] = state.reason
                    missed = f"changes may be missed: {state.reason}"
                    note = missed if state.reason else "watching again"
                    _note(note if len(folders) == 1 else f"{name}: {note}", as_json)
    except KeyboardInterrupt:
        library.unwatch()
        while True:
            try:
                _report_pass(passes.get_nowait(), as_json)
            except Empty:
                break
        _note("stopped", as_json)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _note(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(safe_name(text), err=True)


def _report_pass(finished: Pass, as_json: bool) -> None:
    if as_json:
        write(safe_json(json_shapes.watched(finished), ascii_only=True, indent=None))
        sys.stdout.flush()
    else:
        click.echo(safe_name(_describe_pass(finished)), err=True)


def _describe_pass(finished: Pass) -> str:
    if finished.error:
        return f"failed, will try again: {finished.error}"
    only = finished.work.only
    scope = "everything" if only is None else _list_uris(sorted(only))
    report: Any = finished.result
    counts = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    return f"generation {report.generation}: {counts} in {finished.seconds:.2f} s ({scope})"


def _list_uris(uris: list[str]) -> str:
    more = len(uris) - _MOST_NAMED
    return ", ".join(uris[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")

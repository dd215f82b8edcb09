"""Show the progress of an indexing pass on stderr: a bar on a terminal, elsewhere a few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lookfar.common.caller import OnProgress, Progress, called_by
from lookfar.serve.show.printable import safe_name

_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 5.0
_EVERY = 1_000
"""Without a bar, how many items to read before printing a line."""
_MB = 1_000_000


@contextmanager
def show_progress(name: str, *, quiet: bool = False, at_once: bool = True) -> Iterator[None]:
    """Show the progress of the passes within, over the folder called ``name``.

    With ``at_once`` the bar is shown before the first report, while files are listed.
    """
    if quiet:
        yield
    elif sys.stderr.isatty():
        with _bar(safe_name(name), at_once) as report, called_by(on_progress=report):
            yield
    else:
        with called_by(on_progress=_lines(safe_name(name))):
            yield


@contextmanager
def show_count(
    noun: str, total_bytes: int | None, *, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show how many items of a kind were read, and the remaining time if the size is known.

    The yielded function takes the number of items and bytes read so far.
    """
    printed = 0

    def line(done: int, _read: int) -> None:
        nonlocal printed
        if done // _EVERY > printed:
            printed = done // _EVERY
            print(f"{done:,} {noun}", file=sys.stderr, flush=True)

    if quiet:
        yield lambda _done, _read: None
        return
    if not sys.stderr.isatty():
        yield line
        return
    bar = _make_bar()
    task = bar.add_task(f"Reading {noun}", total=total_bytes, files="", speed="")
    started, drawn = time.monotonic(), 0.0

    def draw(done: int, read: int) -> None:
        nonlocal drawn
        clock = time.monotonic()
        if clock - drawn >= _REDRAW_SECONDS:
            drawn = clock
            speed = f"{done / max(clock - started, 1e-6):,.0f}/s"
            bar.update(task, completed=read, files=f"{done:,}", speed=speed)
            bar.refresh()

    bar.start()
    try:
        yield draw
    finally:
        bar.stop()


@contextmanager
def show_fetch(
    doing: str = "Fetching", done_word: str = "fetched"
) -> Iterator[Callable[[str, int, int], None]]:
    """Show what is being fetched: a bar for people, a line every few seconds for logs.

    ``doing`` and ``done_word`` name another kind of work, such as indexing.
    """
    drawn = 0.0

    def line(name: str, done: int, total: int) -> None:
        nonlocal drawn
        clock = time.monotonic()
        if clock - drawn >= _LINE_SECONDS:
            drawn = clock
            of = f" of {total:,}" if total else ""
            state = f"{done:,}{of} {done_word}" if done else doing
            print(f"{state}: {safe_name(name)}", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield line
        return
    bar = _make_bar()
    task = bar.add_task(doing, total=None, files="", speed="")

    def draw(name: str, done: int, total: int) -> None:
        nonlocal drawn
        clock = time.monotonic()
        if clock - drawn >= _REDRAW_SECONDS:
            drawn = clock
            bar.start()
            bar.update(
                task, completed=done, total=total or None, files=f"{done:,}", speed=safe_name(name)
            )
            bar.refresh()

    try:
        yield draw
    finally:
        bar.stop()


def _make_bar() -> Any:
    """Make a progress bar without a thread, because a pass may start worker processes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[files]}", markup=False),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False, markup=False, emoji=False),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextmanager
def _bar(name: str, at_once: bool) -> Iterator[OnProgress]:
    bar = _make_bar()
    task = bar.add_task(f"Indexing {name}", total=None, files="looking for files", speed="")
    started, drawn = time.monotonic(), 0.0

    def report(now: Progress) -> None:
        nonlocal started, drawn
        if not now.total_files:
            return  # There is nothing to read, or this pass waits for another one.
        clock = time.monotonic()
        if now.files == 0:
            started = clock
        elif clock - drawn < _REDRAW_SECONDS and now.files < now.total_files:
            return
        drawn = clock
        bar.start()
        bar.update(
            task,
            total=max(now.total_bytes, 1),
            completed=now.bytes,
            files=f"{now.files:,} of {now.total_files:,} files",
            speed=f"{now.bytes / _MB / max(clock - started, 1e-6):.1f} MB/s",
        )
        bar.refresh()

    if at_once:
        bar.start()
        bar.refresh()
    try:
        yield report
    finally:
        bar.stop()


def _lines(name: str) -> OnProgress:
    last = time.monotonic()

    def report(now: Progress) -> None:
        nonlocal last
        clock = time.monotonic()
        if clock - last < _LINE_SECONDS or not now.total_files:
            return
        last = clock
        print(
            f"Indexing {name}: {now.files:,} of {now.total_files:,} files,"
            f" {now.bytes / _MB:.0f} of {now.total_bytes / _MB:.0f} MB",
            file=sys.stderr,
            flush=True,
        )

    return report

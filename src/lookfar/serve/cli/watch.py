"""``lookfar watch``: follow a folder in the foreground and say what was done.

Takes: an open library and how to follow. Gives: one line per pass on stderr, or
with ``--json`` one object per line on stdout, until it is interrupted. Refuses:
to end because of one failed pass; it says so and goes on.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from lookfar.serve.cli.exits import write
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_json, safe_name

if TYPE_CHECKING:
    from lookfar.index.keeper import Pass
    from lookfar.library import Library

_LOOK_SECONDS = 1.0
_MOST_NAMED = 3


def follow(
    library: Library, strategy: str | None, debounce_ms: int | None, *, as_json: bool
) -> None:
    """Watch until Ctrl-C, or until the system asks the process to end."""
    passes: SimpleQueue[Pass] = SimpleQueue()
    # Whoever stops a service sends SIGTERM: the same door as Ctrl-C.
    with suppress(ValueError):
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        library.watch(strategy, debounce_ms, passes.put)
        folders = {name: library.folder(name) for name in library.collections}
        paths = ", ".join(folder.root.path for folder in folders.values())
        _say(f"following {paths}; Ctrl-C ends it", as_json)
        reasons = dict.fromkeys(folders, "")
        while True:
            with suppress(Empty):
                _tell(passes.get(timeout=_LOOK_SECONDS), as_json)
            for name, folder in folders.items():
                state = folder.watching()
                if state is not None and state.reason != reasons[name]:
                    reasons[name] = state.reason
                    missed = f"changes may be missed: {state.reason}"
                    shown = missed if state.reason else "watching again"
                    _say(shown if len(folders) == 1 else f"{name}: {shown}", as_json)
    except KeyboardInterrupt:
        library.unwatch()
        while True:
            try:
                _tell(passes.get_nowait(), as_json)
            except Empty:
                break
        _say("stopped", as_json)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(safe_name(text), err=True)


def _tell(each: Pass, as_json: bool) -> None:
    if as_json:
        write(safe_json(json_shapes.watched(each), ascii_only=True, indent=None))
        sys.stdout.flush()
    else:
        click.echo(safe_name(_line(each)), err=True)


def _line(each: Pass) -> str:
    if each.error:
        return f"failed, will try again: {each.error}"
    names = "everything" if each.work.only is None else _named(sorted(each.work.only))
    done: Any = each.result
    counts = f"{done.added:,} added, {done.changed:,} changed, {done.removed:,} removed"
    return f"generation {done.generation}: {counts} in {each.seconds:.2f} s ({names})"


def _named(uris: list[str]) -> str:
    more = len(uris) - _MOST_NAMED
    return ", ".join(uris[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")

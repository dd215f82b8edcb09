"""``lookfar logs``: what the daemon and servers wrote, and where it lies.

Takes: the files that :mod:`lookfar.serve.daemon.process` and :mod:`lookfar.serve.http.log_lines`
write, with those that were rotated away. Gives: their last entries, and with ``--follow`` what
comes; for people or with ``--json`` for scripts. Refuses: to hand on anything that could drive a
terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import click

from lookfar.errors import InvalidArgument, from_os_error
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import examples, output_options
from lookfar.serve.show.printable import safe_json, safe_name, safe_text

LEVELS: Final = ("debug", "info", "warning", "error")
_LAST: Final = 200
_LOOK_SECONDS: Final = 0.25
_MOST_BYTES: Final = 64 << 20
_DAEMON_LINE: Final = re.compile(r"(\S+ \S+) (DEBUG|INFO|WARNING|ERROR|CRITICAL) (\S+): (.*)")
_COLOURS: Final = {"debug": "dim", "warning": "yellow", "error": "bold red", "critical": "bold red"}


@dataclass(frozen=True, slots=True)
class Log:
    """A file that something logs to; there is none where it logs to its stderr."""

    name: str
    path: str

    @property
    def exists(self) -> bool:
        return bool(self.path) and Path(self.path).is_file()


@dataclass(frozen=True, slots=True)
class Entry:
    """What was logged at one moment; a stack trace belongs to the message above it."""

    time: str
    level: str
    component: str
    message: str


@examples(
    "lookfar logs",
    "lookfar logs daemon --follow",
    "lookfar logs server -n 50 --level warning --json",
    "lookfar logs --where",
)
@click.command()
@click.argument("name", type=click.Choice(("daemon", "server")), required=False)
@click.option(
    "--lines", "-n", type=int, default=_LAST, metavar="N", help=f"Most entries of each ({_LAST})."
)
@click.option("--level", type=click.Choice(LEVELS), default="debug", help="Only from this one on.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--where", is_flag=True, help="Only tell where the logs lie.")
@output_options
def logs(
    name: str | None, lines: int, level: str, follow: bool, where: bool, as_json: bool
) -> None:
    """Show what the daemon and servers logged, and where it lies.

    Without a name, both. A server logs to its stderr unless serve.log_file names a file.
    """
    if lines < 1:
        raise InvalidArgument(f"{lines} entries cannot be shown.", hint="Ask for 1 or more.")
    wanted = [each for each in _logs() if name in (None, each.name)]
    if where:
        _tell_where(wanted, as_json)
    elif follow:
        _follow(wanted, lines, level, as_json)
    else:
        _show(wanted, lines, level, as_json)


def _of_the_daemon() -> click.Command:
    """``lookfar daemon logs``: the same for whoever is there already."""
    own = copy(logs)
    own.params = [each for each in logs.params if each.name != "name"]
    own.callback = partial(logs.callback, "daemon") if logs.callback else None
    own.help = "Show what it logged, and where that lies."
    return examples("lookfar daemon logs --follow")(own)


daemon_logs = _of_the_daemon()


def _logs() -> list[Log]:
    from lookfar.config import load
    from lookfar.serve.daemon.endpoint import daemon_log_path

    return [Log("daemon", str(daemon_log_path())), Log("server", load(None).serve.log_file)]


def _tell_where(wanted: Sequence[Log], as_json: bool) -> None:
    if as_json:
        write_json({"logs": [_about(each) for each in wanted]})
        return
    from lookfar.serve.show import render

    rows = [(each.name, each.path or "stderr", _state(each)) for each in wanted]
    write(render.table(("log", "where", "state"), rows))


def _about(log: Log) -> dict[str, Any]:
    size = Path(log.path).stat().st_size if log.exists else 0
    return {"name": log.name, "path": log.path, "exists": log.exists, "bytes": size}


def _state(log: Log) -> str:
    if not log.path:
        return "logs to its stderr; set serve.log_file to keep it"
    return f"{Path(log.path).stat().st_size:,} bytes" if log.exists else "nothing logged yet"


def _show(wanted: Sequence[Log], lines: int, level: str, as_json: bool) -> None:
    found = {log.name: _last(log, lines, level) for log in wanted}
    if as_json:
        shapes = [
            {**_about(log), "entries": [asdict(each) for each in found[log.name]]} for log in wanted
        ]
        write_json({"logs": shapes})
        return
    for log in wanted:
        # Not on stdout: whoever pipes a log wants the log.
        click.echo(safe_name(f"{log.name}: {log.path or 'stderr'} ({_state(log)})"), err=True)
        if found[log.name]:
            write(_rendered(found[log.name]))


# --- what is there ------------------------------------------------------------------------------


def _last(log: Log, most: int, level: str) -> list[Entry]:
    """The last entries, also from files that were rotated away where one is not enough."""
    found: list[Entry] = []
    for path in (log.path, *(f"{log.path}.{number}" for number in range(1, 10))):
        if not log.path or not Path(path).is_file() or len(found) >= most:
            break
        try:
            with Path(path).open("rb") as file:
                file.seek(max(Path(path).stat().st_size - _MOST_BYTES, 0))
                text = file.read().decode("utf-8", "replace")
        except OSError as error:
            raise from_os_error(error, f"reading {path}") from error
        found = [*(each for each in entries(text) if _from(each, level)), *found]
    return found[-most:]


def entries(text: str) -> Iterator[Entry]:
    """The entries of a log, in either of the two ways in which ours are written."""
    last: Entry | None = None
    for line in text.splitlines():
        found = _entry(line)
        if found is None and last is not None:
            last = Entry(last.time, last.level, last.component, f"{last.message}\n{line}")
            continue
        if last is not None:
            yield last
        last = found or Entry("", "", "", line)
    if last is not None:
        yield last


def _entry(line: str) -> Entry | None:
    if line.startswith("{"):
        try:
            shape = json.loads(line)
        except ValueError:
            return None
        known = ("time", "level", "component", "message")
        if not isinstance(shape, dict) or not set(known) <= set(shape):
            return None
        told = [f"{key}={shape[key]}" for key in shape if key not in (*known, "exception")]
        message = " ".join((str(shape["message"]), *told))
        if "exception" in shape:
            message += f"\n{shape['exception']}"
        moment, level, component = (str(shape[key]) for key in known[:-1])
        return Entry(moment, level, component, message)
    if found := _DAEMON_LINE.fullmatch(line):
        moment, level, component, message = found.groups()
        return Entry(moment, level.lower(), component.removeprefix("lookfar."), message)
    return None


def _from(entry: Entry, level: str) -> bool:
    """Whether it is as grave as was asked; what has no level is always shown."""
    known = (*LEVELS, "critical")
    return entry.level not in known or known.index(entry.level) >= known.index(level)


def _rendered(found: Sequence[Entry]) -> str:
    from rich.text import Text

    from lookfar.serve.show import render

    lines = []
    for each in found:
        first, *more = safe_text(each.message).split("\n")
        style = _COLOURS.get(each.level, "")
        lines.append(
            render.styled(
                (f"{each.time} " if each.time else "", "dim"),
                (f"{each.level:<7} " if each.level else "", style or "green"),
                (f"{each.component}: " if each.component else "", "cyan"),
                (first, style),
            )
        )
        lines += [Text(line, style or "dim") for line in more]
    return render.printed(lines)


# --- what comes ---------------------------------------------------------------------------------


class _Tail:
    """What is added to a file, also when another one takes its place."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._file: IO[bytes] = BytesIO()
        self._rest = b""
        if log.exists:
            self._begin()
            self._file.seek(0, os.SEEK_END)

    def new(self) -> str:
        """The whole lines that came since."""
        text = self._read()
        if self._replaced():
            self._begin()
            text += self._read()
        return text

    def _begin(self) -> None:
        self._file.close()
        # Held open: what is written before it is rotated away must not be lost.
        self._file = Path(self.log.path).open("rb")  # noqa: SIM115

    def _read(self) -> str:
        whole, newline, self._rest = (self._rest + self._file.read()).rpartition(b"\n")
        return (whole + newline).decode("utf-8", "replace")

    def _replaced(self) -> bool:
        if not self.log.exists:
            return False
        if isinstance(self._file, BytesIO):
            return True
        here, there = os.fstat(self._file.fileno()), Path(self.log.path).stat()
        return not os.path.samestat(here, there) or there.st_size < self._file.tell()


def _follow(wanted: Sequence[Log], lines: int, level: str, as_json: bool) -> None:
    kept = [log for log in wanted if log.path]
    if not kept:
        raise InvalidArgument(
            "A server logs to its stderr, which cannot be followed from here.",
            hint="Give it a file: lookfar config set serve.log_file FILE",
        )
    tails = [_Tail(log) for log in kept]
    for log in kept:
        _tell(log, _last(log, lines, level), as_json)
    try:
        while True:
            for tail in tails:
                came = (each for each in entries(tail.new()) if _from(each, level))
                _tell(tail.log, list(came), as_json)
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return


def _tell(log: Log, found: Sequence[Entry], as_json: bool) -> None:
    if not found:
        return
    if as_json:
        for each in found:
            line = {"log": log.name, **asdict(each)}
            write(safe_json(line, ascii_only=True, indent=None))
    else:
        write(_rendered(found))
    sys.stdout.flush()

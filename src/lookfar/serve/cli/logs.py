"""``lookfar logs``: show and follow the logs of the daemon and of HTTP servers."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import click

from lookfar.errors import InvalidArgument, from_os_error
from lookfar.serve.cli.exits import write, write_json, write_table
from lookfar.serve.cli.options import examples, output_options
from lookfar.serve.show.printable import safe_json, safe_name, safe_text

LEVELS: Final = ("debug", "info", "warning", "error")
_DEFAULT_LINES: Final = 200
_POLL_SECONDS: Final = 0.25
_MAX_BYTES: Final = 64 << 20
_DAEMON_LINE: Final = re.compile(r"(\S+ \S+) (DEBUG|INFO|WARNING|ERROR|CRITICAL) (\S+): (.*)")
_STYLES: Final = {"debug": "dim", "warning": "yellow", "error": "bold red", "critical": "bold red"}


@dataclass(frozen=True, slots=True)
class Log:
    """A log file; the path is empty if the process logs to its stderr."""

    name: str
    path: str

    @property
    def exists(self) -> bool:
        return bool(self.path) and Path(self.path).is_file()


@dataclass(frozen=True, slots=True)
class Entry:
    """One log entry; a stack trace belongs to the message above it."""

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
    "--lines",
    "-n",
    type=int,
    default=_DEFAULT_LINES,
    metavar="N",
    help=f"At most N entries of each log ({_DEFAULT_LINES}).",
)
@click.option(
    "--level", type=click.Choice(LEVELS), default="debug", help="Only this level and above."
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new entries, until Ctrl-C.")
@click.option("--where", is_flag=True, help="Only show where the logs are.")
@output_options
def logs(
    name: str | None, lines: int, level: str, follow: bool, where: bool, as_json: bool
) -> None:
    """Show the logs of the daemon and of HTTP servers.

    Without a name, show both. A server logs to its stderr unless serve.log_file names a file.
    """
    if lines < 1:
        raise InvalidArgument(f"-n is {lines}.", hint="Choose 1 or more.")
    chosen = [log for log in _find_logs() if name in (None, log.name)]
    if where:
        _show_places(chosen, as_json)
    elif follow:
        _follow(chosen, lines, level, as_json)
    else:
        _show(chosen, lines, level, as_json)


def _make_daemon_logs() -> click.Command:
    """Return ``lookfar daemon logs``: the same command for the daemon only."""
    command = copy(logs)
    command.params = [parameter for parameter in logs.params if parameter.name != "name"]
    command.callback = partial(logs.callback, "daemon") if logs.callback else None
    command.help, command.hidden = "Show its log.", True
    return examples("lookfar daemon logs --follow")(command)


daemon_logs = _make_daemon_logs()


def _find_logs() -> list[Log]:
    from lookfar.config import load
    from lookfar.serve.daemon.endpoint import daemon_log_path

    return [Log("daemon", str(daemon_log_path())), Log("server", load(None).serve.log_file)]


def _show_places(chosen: Sequence[Log], as_json: bool) -> None:
    if as_json:
        write_json({"logs": [_shape(log) for log in chosen]})
        return
    rows = [(log.name, log.path or "stderr", _describe_state(log)) for log in chosen]
    write_table(("log", "where", "state"), rows, "")


def _shape(log: Log) -> dict[str, Any]:
    size = Path(log.path).stat().st_size if log.exists else 0
    return {"name": log.name, "path": log.path, "exists": log.exists, "bytes": size}


def _describe_state(log: Log) -> str:
    if not log.path:
        return "logs to its stderr; set serve.log_file to log to a file"
    return f"{Path(log.path).stat().st_size:,} bytes" if log.exists else "nothing logged yet"


def _show(chosen: Sequence[Log], lines: int, level: str, as_json: bool) -> None:
    entries = {log.name: _read_last(log, lines, level) for log in chosen}
    if as_json:
        shapes = [
            {**_shape(log), "entries": [asdict(entry) for entry in entries[log.name]]}
            for log in chosen
        ]
        write_json({"logs": shapes})
        return
    for log in chosen:
        # On stderr, so that a pipe gets nothing but the log.
        line = f"{log.name}: {log.path or 'stderr'} ({_describe_state(log)})"
        click.echo(safe_name(line), err=True)
        if entries[log.name]:
            write(_render(entries[log.name]))


def _read_last(log: Log, most: int, level: str) -> list[Entry]:
    """Return the last entries, going back to rotated files if one file has too few."""
    entries: list[Entry] = []
    for path in (log.path, *(f"{log.path}.{number}" for number in range(1, 10))):
        if not log.path or not Path(path).is_file() or len(entries) >= most:
            break
        try:
            with Path(path).open("rb") as file:
                file.seek(max(Path(path).stat().st_size - _MAX_BYTES, 0))
                text = file.read().decode("utf-8", "replace")
        except OSError as error:
            raise from_os_error(error, f"reading {path}") from error
        entries = [*_parse(text, level), *entries]
    return entries[-most:]


def _parse(text: str, level: str) -> Iterator[Entry]:
    """Yield the entries of a log that have at least this level."""
    return (entry for entry in parse_entries(text) if _has_level(entry, level))


def parse_entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a log, in the format of the daemon or of a server."""
    last: Entry | None = None
    for line in text.splitlines():
        entry = _parse_line(line)
        if entry is None and last is not None:
            last = replace(last, message=f"{last.message}\n{line}")
            continue
        if last is not None:
            yield last
        last = entry or Entry("", "", "", line)
    if last is not None:
        yield last


def _parse_line(line: str) -> Entry | None:
    if line.startswith("{"):
        try:
            shape = json.loads(line)
        except ValueError:
            return None
        known = ("time", "level", "component", "message")
        if not isinstance(shape, dict) or not set(known) <= set(shape):
            return None
        fields = [f"{key}={shape[key]}" for key in shape if key not in (*known, "exception")]
        message = " ".join((str(shape["message"]), *fields))
        if "exception" in shape:
            message += f"\n{shape['exception']}"
        moment, level, component = (str(shape[key]) for key in known[:-1])
        return Entry(moment, level, component, message)
    if match := _DAEMON_LINE.fullmatch(line):
        moment, level, component, message = match.groups()
        return Entry(moment, level.lower(), component.removeprefix("lookfar."), message)
    return None


def _has_level(entry: Entry, level: str) -> bool:
    """Return whether an entry has at least this level; one without a level always passes."""
    known = (*LEVELS, "critical")
    return entry.level not in known or known.index(entry.level) >= known.index(level)


def _render(entries: Sequence[Entry]) -> str:
    from rich.text import Text

    from lookfar.serve.show import render

    lines = []
    for entry in entries:
        first, *more = safe_text(entry.message).split("\n")
        style = _STYLES.get(entry.level, "")
        lines.append(
            render.styled(
                (f"{entry.time} " if entry.time else "", "dim"),
                (f"{entry.level:<7} " if entry.level else "", style or "green"),
                (f"{entry.component}: " if entry.component else "", "cyan"),
                (first, style),
            )
        )
        lines += [Text(line, style or "dim") for line in more]
    return render.printed(lines)


class _Tail:
    """Reads what is appended to a log, even after a rotation."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._file: IO[bytes] = BytesIO()
        self._rest = b""
        if log.exists:
            self._open()
            self._file.seek(0, os.SEEK_END)

    def read_new(self) -> str:
        """Return the complete lines that were added since the last call."""
        text = self._read_lines()
        if self._is_replaced():
            self._open()
            text += self._read_lines()
        return text

    def _open(self) -> None:
        self._file.close()
        # Stays open, so that the last lines before a rotation are not lost.
        self._file = Path(self.log.path).open("rb")  # noqa: SIM115

    def _read_lines(self) -> str:
        whole, newline, self._rest = (self._rest + self._file.read()).rpartition(b"\n")
        return (whole + newline).decode("utf-8", "replace")

    def _is_replaced(self) -> bool:
        if not self.log.exists:
            return False
        if isinstance(self._file, BytesIO):
            return True
        here, there = os.fstat(self._file.fileno()), Path(self.log.path).stat()
        return not os.path.samestat(here, there) or there.st_size < self._file.tell()


def _follow(chosen: Sequence[Log], lines: int, level: str, as_json: bool) -> None:
    files = [log for log in chosen if log.path]
    if not files:
        raise InvalidArgument(
            "A server logs to its stderr, which cannot be followed from here.",
            hint="Let it log to a file: lookfar config set serve.log_file FILE",
        )
    tails = [_Tail(log) for log in files]
    for log in files:
        _write_entries(log, _read_last(log, lines, level), as_json)
    try:
        while True:
            for tail in tails:
                _write_entries(tail.log, list(_parse(tail.read_new(), level)), as_json)
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _write_entries(log: Log, entries: Sequence[Entry], as_json: bool) -> None:
    if not entries:
        return
    if as_json:
        for entry in entries:
            line = {"log": log.name, **asdict(entry)}
            write(safe_json(line, ascii_only=True, indent=None))
    else:
        write(_render(entries))
    sys.stdout.flush()

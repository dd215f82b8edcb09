"""Check the daemon and the clients that ``lookfar setup`` configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lookfar.errors import IndexBusy, LookfarError
from lookfar.serve.cli.doctor.findings import Finding, Subject


def check_daemon(_subject: Subject) -> Iterator[Finding]:
    from lookfar.serve.daemon.endpoint import build, daemon_status, daemon_stop, runtime_folder

    folder = runtime_folder()
    try:
        status = daemon_status()
    except LookfarError as error:
        yield Finding("daemon", "error", error.message, error.hint, daemon_stop)
        return
    if status is None:
        files = [folder / name for name in ("daemon.sock", "daemon.json")]
        leftover = [path for path in files if os.path.lexists(path)]
        if leftover:
            yield Finding(
                "daemon", "warning", f"A daemon crashed and left {', '.join(map(str, leftover))}.",
                "The next daemon removes them.", lambda: _remove_leftover(leftover),
            )  # fmt: skip
        else:
            yield Finding("daemon", "ok", "The daemon is not running; it starts when needed.")
        return
    message = f"The daemon runs (process {status.get('pid')}, Lookfar {status.get('version')})."
    if status.get("build") not in (None, build()):
        yield Finding(
            "daemon", "warning", f"{message} It is a different build from this command.",
            "Run: lookfar daemon stop; the next session starts the new build.", daemon_stop,
        )  # fmt: skip
    else:
        yield Finding("daemon", "ok", message)


def _remove_leftover(files: list[Path]) -> None:
    """Remove the files of a dead daemon, unless a new daemon is starting and uses them."""
    from lookfar.store.ground.files import WriterLock

    lock = WriterLock(files[0].with_name("daemon.lock"))
    try:
        lock.acquire()
    except IndexBusy:
        return
    with lock:
        for path in files:
            path.unlink(missing_ok=True)


def check_clients(subject: Subject) -> Iterator[Finding]:
    """Check that the commands that ``lookfar setup`` wrote still exist."""
    from lookfar.serve.setup.clients import CLIENTS
    from lookfar.serve.setup.machine import Machine

    machine, root = Machine.here(), Path(subject.library.folder().root.path)
    working = []
    for client in CLIENTS:
        for scope in ("user", "project"):
            place = client.config_path(machine, scope, root)
            if place is None or not place.is_file():
                continue
            title = f"{client.title} ({machine.shorten(place)})"
            try:
                command = _read_command(client, scope, place)
            except LookfarError as error:
                yield Finding("clients", "warning", f"{title}: {error.message}", error.hint)
                continue
            if command is None:
                continue
            program = command[0] if command else ""
            if program and machine.find_program(program):
                working.append(client.title)
            else:
                message = f"{title} starts {program or 'nothing'}, which does not exist."
                advice = f"Run: lookfar setup {subject.shell_path} --client {client.name}"
                yield Finding("clients", "error", message, advice)
    if working:
        yield Finding("clients", "ok", f"Set up: {', '.join(dict.fromkeys(working))}.")
    else:
        advice = f"To set up an agent, run: lookfar setup {subject.shell_path}"
        yield Finding("clients", "ok", f"No client is set up. {advice}")


def _read_command(client: Any, scope: str, place: Path) -> list[str] | None:
    """Return the command of Lookfar's entry in a client's settings; None without such an entry."""
    from lookfar.serve.setup import edits

    target = edits.ClientFile(client.name, client.title, scope, place, client.format)
    text = edits.decode(target, edits.read(target.real))
    target = replace(target, keys=client.entry_keys(edits.parse(target, text)))
    entry = edits.find_entry(target, text)
    if not isinstance(entry, dict) or client.is_remote(entry):
        return None
    return list(client.read_command(entry))

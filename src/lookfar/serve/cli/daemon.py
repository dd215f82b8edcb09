"""``lookfar daemon``: show, stop and read the log of the process that serves all sessions."""

from __future__ import annotations

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import GuardedGroup, write, write_either, write_json
from lookfar.serve.cli.logs import daemon_logs
from lookfar.serve.cli.options import examples, output_options
from lookfar.serve.daemon import endpoint

_NOT_RUNNING = "The daemon is not running."


@examples("lookfar daemon status", "lookfar daemon stop")
@click.group(cls=GuardedGroup)
def daemon() -> None:
    """Manage the process that serves all sessions.

    The first session starts it, and it ends when it has not been used for a while.
    """


@examples("lookfar daemon status --json")
@daemon.command()
@output_options
def status(as_json: bool) -> None:
    """Show whether the daemon runs, its sessions and its memory use."""
    state = endpoint.daemon_status()
    if as_json:
        write_json({"running": state is not None, **(state or {})})
        return
    if state is None:
        write(_NOT_RUNNING)
        return
    memory = (state["memory_bytes"] or 0) / 1e6
    sessions = state["sessions"]
    write(
        f"Process {state['pid']}, lookfar {state['version']}, {memory:.0f} MB,"
        f" {how_many(len(sessions), 'session')}."
    )
    for session in sessions:
        folders = ", ".join(session["paths"]) or session["cwd"]
        client = session["client"] or session["kind"]
        write(f"  {client}: {folders} ({session['seconds']:.0f} s)")


@examples("lookfar daemon stop")
@daemon.command()
@output_options
def stop(as_json: bool) -> None:
    """Stop the daemon. Sessions that are still open start a new one."""
    stopped = endpoint.daemon_stop()
    text = "Stopped the daemon." if stopped else _NOT_RUNNING
    write_either(as_json, {"stopped": stopped}, text)


daemon.add_command(daemon_logs)

"""``lookfar mcp``, ``serve``, ``tokens`` and ``daemon``: the commands that answer agents.

Takes: a command line. Gives: a session on stdin and stdout, a server over HTTP, tokens for
it, or word of the daemon. Refuses: to import anything heavy for a session that the daemon serves.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import GuardedGroup, write, write_json
from lookfar.serve.cli.logs import daemon_logs
from lookfar.serve.cli.options import (
    examples,
    overriding,
    placing,
    reporting,
    settings_from,
    verbose,
)
from lookfar.serve.daemon import endpoint
from lookfar.serve.daemon.client_session import build_session_options, run_mcp


def offering(command: Any) -> Any:
    """The options by which a server is told what to offer."""
    for option in reversed(
        (
            click.option(
                "--toolset", multiple=True, metavar="NAME",
                help="Tools to offer: default, anvil, document-db, msrl, ragdocs, search-mcp, all.",
            ),
            click.option("--write", is_flag=True, help="Offer tools that write, too."),
            click.option("--results", type=click.Choice(("auto", "text", "structured")),
                         help="Texts for models, data for programs, or each its own (auto)."),
            click.option("--underscores", is_flag=True,
                         help="Write the dots in names of tools as underscores."),
            click.option("--enhanced", is_flag=True, help="Longer descriptions of tools."),
            placing,
            overriding,
            verbose,
        )
    ):  # fmt: skip
        command = option(command)
    return command


@examples("lookfar mcp", "lookfar mcp ~/work/engine --toolset default --write")
@click.command()
@click.argument("path", nargs=-1)
@click.option("--no-daemon", is_flag=True, help="Serve from this process alone.")
@offering
def mcp(path: tuple[str, ...], **options: Any) -> None:
    """Serve an agent over MCP on stdin and stdout.

    PATH is a folder to serve (default: the project around this folder). Sessions share
    one daemon, which the first of them starts.
    """
    options["settings"] = settings_from(options["settings"])
    sys.exit(run_mcp(path, options))


@examples(
    "lookfar serve --http docs",
    "lookfar serve --host 0.0.0.0 --port 8080 --log-file /var/log/lookfar.log",
)
@click.command()
@click.argument("path", nargs=-1)
@click.option("--http", is_flag=True, help="Over HTTP, which is the only way and need not be said.")
@click.option("--host", metavar="NAME", help="Address to listen at (serve.host).")
@click.option("--port", type=int, metavar="N", help="Port to listen at (serve.port).")
@click.option("--metrics", is_flag=True, help="Show figures for Prometheus at /metrics.")
@click.option("--log-file", metavar="FILE", help="Log there, not to stderr (serve.log_file).")
@click.option("--log-level", type=click.Choice(("debug", "info", "warning", "error")),
              help="What to log (serve.log_level).")  # fmt: skip
@offering
def serve(
    path: tuple[str, ...],
    http: bool,  # noqa: ARG001
    host: str | None,
    port: int | None,
    metrics: bool,
    log_file: str | None,
    log_level: str | None,
    **options: Any,
) -> None:
    """Serve agents, programs and people over HTTP.

    PATH is a folder to serve (default: the project around this folder).
    """
    from lookfar.serve.http.listen import listen

    options["settings"] = settings_from(options["settings"])
    request = endpoint.make_request("mcp", path, build_session_options(options))
    given = {
        "serve.host": host,
        "serve.port": port,
        "serve.metrics": metrics or None,
        "serve.log_file": log_file,
        "serve.log_level": log_level,
    }
    request.options["settings"] |= {k: value for k, value in given.items() if value is not None}

    def tell(address: str) -> None:
        page = address.removesuffix("mcp")
        click.echo(f"Serving {address}; the page is at {page} (Ctrl-C ends it).", err=True)

    listen(request, tell)


@examples("lookfar tokens add ci", "lookfar tokens list")
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def tokens(ctx: click.Context) -> None:
    """Look after the tokens that let others ask a server over HTTP.

    As soon as there is one, every request needs one. Servers that run notice each change.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar tokens add ci", "lookfar tokens add editor --write --json")
@tokens.command()
@click.argument("name")
@click.option("--write", "may_write", is_flag=True, help="It may call tools that write, too.")
@click.option(
    "--collection", "collections", metavar="NAME", multiple=True,
    help="It reaches this collection of a server, as status names it. Repeatable; default: all.",
)  # fmt: skip
@reporting
def add(name: str, may_write: bool, collections: tuple[str, ...], as_json: bool) -> None:
    """Make a token and show it, this once.

    NAME is for you and for the log: who has it.
    """
    from lookfar.serve.http.tokens import add

    scope: Literal["read", "write"] = "write" if may_write else "read"
    token = add(_tokens_file(), name, scope, collections)
    if as_json:
        shape = {"name": name, "scope": scope, "token": token, "collections": list(collections)}
        write_json(shape)
    else:
        write(token)
        click.echo(f"It may {scope}. Keep it: it is not shown again.", err=True)


@examples("lookfar tokens list --json")
@tokens.command("list")
@reporting
def list_tokens(as_json: bool) -> None:
    """Tell which tokens there are, without showing them."""
    from lookfar.serve.http.tokens import read

    kept = read(_tokens_file())
    if as_json:
        shapes = [
            {"name": t.name, "scope": t.scope, "created": t.created,
             "collections": list(t.collections)}
            for t in kept
        ]  # fmt: skip
        write_json({"tokens": shapes})
    else:
        from lookfar.serve.show import render

        rows = [(t.name, t.scope, t.created, ", ".join(t.collections) or "all") for t in kept]
        head = ("name", "may", "made", "reaches")
        write(render.table(head, rows) if kept else "No tokens yet.")


@examples("lookfar tokens remove ci")
@tokens.command()
@click.argument("name")
@reporting
def remove(name: str, as_json: bool) -> None:
    """Let a token hold no longer. NAME is the one it was made with."""
    from lookfar.serve.http.tokens import remove

    remove(_tokens_file(), name)
    if as_json:
        write_json({"name": name, "removed": True})
    else:
        write(f"{name} holds no longer.")


def _tokens_file() -> Path:
    from lookfar.config import load, tokens_file

    return tokens_file(load(None).serve)


@examples("lookfar daemon status", "lookfar daemon stop")
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def daemon(ctx: click.Context) -> None:
    """Look after the process that serves all sessions.

    It starts with the first session and leaves when nobody needed it for a while.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar daemon status --json")
@daemon.command()
@reporting
def status(as_json: bool) -> None:
    """Tell whether it runs, for whom, and how much memory it takes."""
    found = endpoint.daemon_status()
    if as_json:
        write_json({"running": found is not None, **(found or {})})
        return
    if found is None:
        write("No daemon runs.")
        return
    memory = (found["memory_bytes"] or 0) / 1e6
    sessions = found["sessions"]
    write(
        f"Process {found['pid']}, lookfar {found['version']}, {memory:.0f} MB,"
        f" {how_many(len(sessions), 'session')}."
    )
    for each in sessions:
        where = ", ".join(each["paths"]) or each["cwd"]
        write(f"  {each['client'] or each['kind']}: {where} ({each['seconds']:.0f} s)")


@examples("lookfar daemon stop")
@daemon.command()
@reporting
def stop(as_json: bool) -> None:
    """End it; sessions that go on start another."""
    ended = endpoint.daemon_stop()
    if as_json:
        write_json({"stopped": ended})
    else:
        write("The daemon has ended." if ended else "No daemon runs.")


daemon.add_command(daemon_logs)

"""``lookfar mcp``, ``serve``, ``tokens`` and ``daemon``: the commands that answer agents.

Takes: a command line. Gives: a session on stdin and stdout, a server over HTTP, tokens for
it, or word of the daemon. Refuses: to import anything heavy for a session that the daemon serves.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, Literal

import click

from lookfar.errors import InvalidArgument
from lookfar.serve import endpoint
from lookfar.serve.exits import GuardedGroup, write, write_json
from lookfar.serve.session import run_mcp, session_options

_LAST_LINES: Final = 200


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
            click.option("--index-dir", metavar="DIR",
                         help="Folder that holds the indexes of all folders."),
            click.option("--set", "settings", metavar="KEY=VALUE", multiple=True,
                         help="Override a setting, such as chunk.max_tokens=800. Repeatable."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("path", nargs=-1)
@click.option("--no-daemon", is_flag=True, help="Serve from this process alone.")
@offering
def mcp(path: tuple[str, ...], **options: Any) -> None:
    """Serve an agent over MCP on stdin and stdout.

    PATH is a folder to serve (default: the project around this folder). Sessions share
    one daemon, which the first of them starts.
    """
    sys.exit(run_mcp(path, options))


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
    """Serve over HTTP: MCP at /mcp, each tool at /tools/NAME, all of it in /openapi.json.

    PATH is a folder to serve (default: the project around this folder).
    """
    from lookfar.serve.listen import listen

    hello = endpoint.make_hello("mcp", path, session_options(options))
    given = {
        "serve.host": host,
        "serve.port": port,
        "serve.metrics": metrics or None,
        "serve.log_file": log_file,
        "serve.log_level": log_level,
    }
    hello.options["settings"] |= {k: value for k, value in given.items() if value is not None}
    listen(hello, lambda address: click.echo(f"Serving {address}; Ctrl-C ends it.", err=True))


@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def tokens(ctx: click.Context) -> None:
    """Look after the tokens that let others ask a server over HTTP.

    As soon as there is one, every request needs one. Servers that run notice each change.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@tokens.command()
@click.argument("name")
@click.option("--write", "may_write", is_flag=True, help="It may call tools that write, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def add(name: str, may_write: bool, as_json: bool, verbose: bool) -> None:  # noqa: ARG001
    """Make a token and show it, this once.

    NAME is for you and for the log: who has it.
    """
    from lookfar.serve.tokens import add

    scope: Literal["read", "write"] = "write" if may_write else "read"
    token = add(_tokens_file(), name, scope)
    if as_json:
        write_json({"name": name, "scope": scope, "token": token})
    else:
        write(token)
        click.echo(f"It may {scope}. Keep it: it is not shown again.", err=True)


@tokens.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def list_tokens(as_json: bool, verbose: bool) -> None:  # noqa: ARG001
    """Tell which tokens there are, without showing them."""
    from lookfar.serve.tokens import read

    kept = read(_tokens_file())
    if as_json:
        shapes = [{"name": t.name, "scope": t.scope, "created": t.created} for t in kept]
        write_json({"tokens": shapes})
    else:
        write("\n".join(f"{t.name}  {t.scope}  {t.created}" for t in kept) or "No tokens yet.")


@tokens.command()
@click.argument("name")
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def remove(name: str, verbose: bool) -> None:  # noqa: ARG001
    """Let a token hold no longer. NAME is the one it was made with."""
    from lookfar.serve.tokens import remove

    remove(_tokens_file(), name)
    write(f"{name} holds no longer.")


def _tokens_file() -> Path:
    from lookfar.config import load, tokens_file

    return tokens_file(load(None).serve)


@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def daemon(ctx: click.Context) -> None:
    """Look after the process that serves all sessions.

    It starts with the first session and leaves when nobody needed it for a while.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@daemon.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def status(as_json: bool, verbose: bool) -> None:  # noqa: ARG001
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
        f" {len(sessions)} session{'s' * (len(sessions) != 1)}."
    )
    for each in sessions:
        where = ", ".join(each["paths"]) or each["cwd"]
        write(f"  {each['client'] or each['kind']}: {where} ({each['seconds']:.0f} s)")


@daemon.command()
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def stop(verbose: bool) -> None:  # noqa: ARG001
    """End it; sessions that go on start another."""
    write("The daemon has ended." if endpoint.daemon_stop() else "No daemon runs.")


@daemon.command()
@click.option("--lines", type=int, default=_LAST_LINES, metavar="N", help="How many of the last.")
@click.option("--verbose", is_flag=True, help="On an error, show what a developer needs.")
def logs(lines: int, verbose: bool) -> None:  # noqa: ARG001
    """Show what it wrote to its log."""
    if lines < 1:
        raise InvalidArgument(f"{lines} lines cannot be shown.", hint="Ask for 1 or more.")
    path = endpoint.daemon_log_path()
    if not path.exists():
        write(f"No log yet: {path}")
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        last = file.readlines()[-lines:]
    write("".join(last).rstrip("\n"))

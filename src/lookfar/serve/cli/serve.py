"""``lookfar mcp`` and ``lookfar serve``: serve agents and programs."""

from __future__ import annotations

import sys
from typing import Any

import click

from lookfar.serve.cli.options import (
    examples,
    folder_argument,
    index_dir_option,
    session_option,
    set_option,
    verbose_option,
)
from lookfar.serve.daemon import endpoint
from lookfar.serve.daemon.client_session import run_mcp
from lookfar.serve.daemon.session_options import (
    DB,
    DOCS,
    NO_DAEMON,
    OFFER_OPTIONS,
    add_docs,
    build_session_options,
)


def _server_options(command: Any) -> Any:
    rows = [session_option(option) for option in (*OFFER_OPTIONS, DOCS, DB)]
    for option in reversed((*rows, index_dir_option, set_option, verbose_option)):
        command = option(command)
    return command


@examples("lookfar mcp", "lookfar mcp ~/work/engine --toolset default --write")
@click.command()
@folder_argument(several=True)
@session_option(NO_DAEMON)
@_server_options
def mcp(path: tuple[str, ...], **options: Any) -> None:
    """Serve an agent over MCP on stdin and stdout.

    PATH is a folder to serve (default: the project that contains the current folder). All
    sessions share one daemon, which the first session starts.
    """
    sys.exit(run_mcp(path, options))


@examples(
    "lookfar serve --http docs",
    "lookfar serve --host 0.0.0.0 --port 8080 --log-file /var/log/lookfar.log",
)
@click.command()
@folder_argument(several=True)
@click.option("--http", is_flag=True, help="Serve over HTTP. This is the default.")
@click.option("--host", metavar="NAME", help="Address to listen on (serve.host).")
@click.option("--port", type=int, metavar="N", help="Port to listen on (serve.port).")
@click.option(
    "--workers", type=int, metavar="N", help="Processes that answer questions (serve.workers)."
)
@click.option("--metrics", is_flag=True, help="Serve Prometheus metrics at /metrics.")
@click.option("--access-log", is_flag=True, help="Log a line per request (serve.access_log).")
@click.option("--log-file", metavar="FILE", help="Log to a file, not to stderr (serve.log_file).")
@click.option("--log-level", type=click.Choice(("debug", "info", "warning", "error")),
              help="Least severe level to log (serve.log_level).")  # fmt: skip
@_server_options
def serve(
    path: tuple[str, ...],
    http: bool,  # noqa: ARG001
    host: str | None,
    port: int | None,
    workers: int | None,
    metrics: bool,
    access_log: bool,
    log_file: str | None,
    log_level: str | None,
    **options: Any,
) -> None:
    """Serve agents, programs and people over HTTP.

    PATH is a folder to serve (default: the project that contains the current folder).
    """
    from lookfar.serve.http.listen import listen

    paths = add_docs(path, options)
    request = endpoint.make_request("mcp", paths, build_session_options(options))
    given = {
        "serve.host": host,
        "serve.port": port,
        "serve.workers": workers,
        "serve.metrics": metrics or None,
        "serve.access_log": access_log or None,
        "serve.log_file": log_file,
        "serve.log_level": log_level,
    }
    request.options["settings"] |= {key: value for key, value in given.items() if value is not None}
    listen(request, _announce)


def _serve_ragdocs(toolset: tuple[str, ...], **options: Any) -> None:
    """Serve over HTTP as ragdocs does; an alias for its users."""
    assert serve.callback is not None
    serve.callback(toolset=toolset or ("ragdocs",), **options)


run = click.Command("run", callback=_serve_ragdocs, params=serve.params, hidden=True)


def _announce(address: str) -> None:
    # 0.0.0.0 means every address of this machine; a browser cannot open it.
    address = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    page = address.removesuffix("mcp")
    click.echo(f"Serving {address}; the web page is at {page} (Ctrl-C to stop).", err=True)

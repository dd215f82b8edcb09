"""The ``lookfar`` command: assembles the commands of the other modules into one group."""

from __future__ import annotations

import click

from lookfar import __version__
from lookfar.serve.cli.access_tokens import tokens
from lookfar.serve.cli.completion import add_completions, completion
from lookfar.serve.cli.config import config
from lookfar.serve.cli.copy import copy
from lookfar.serve.cli.daemon import daemon
from lookfar.serve.cli.deps import deps
from lookfar.serve.cli.doc import doc, undo
from lookfar.serve.cli.doctor.command import doctor
from lookfar.serve.cli.documents import documents
from lookfar.serve.cli.drift import drift
from lookfar.serve.cli.eval import eval_
from lookfar.serve.cli.exits import GuardedGroup
from lookfar.serve.cli.history import history
from lookfar.serve.cli.index import delete, index, rebuild_index, reindex, status
from lookfar.serve.cli.logs import logs
from lookfar.serve.cli.memory import memory, remember
from lookfar.serve.cli.pack import pack
from lookfar.serve.cli.read import graph, outline, read, related, why
from lookfar.serve.cli.search_command import search
from lookfar.serve.cli.serve import mcp, run, serve
from lookfar.serve.cli.setup import setup
from lookfar.serve.cli.snapshots import snapshots
from lookfar.serve.cli.sources import add, sources, update
from lookfar.serve.cli.tags import properties, tags
from lookfar.serve.cli.verify import verify
from lookfar.serve.cli.watch import watch

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_COMMANDS = (
    *(index, search, read, outline, related, graph, why, watch, reindex, status, history),
    *(tags, properties, snapshots),
    *(doc, undo, remember, memory, documents),
    *(add, update, sources, pack, deps),
    *(drift, eval_, setup, doctor, verify, config, logs, copy, delete),
    *(mcp, serve, tokens, daemon),
    completion,
    *(run, rebuild_index),  # Hidden aliases for users of ragdocs.
)


@click.group("lookfar", cls=GuardedGroup, context_settings=_HELP)
@click.version_option(__version__, "--version", message="lookfar %(version)s")
def cli() -> None:
    """Search documents and code by meaning and by words, with citations that are checked
    against the files. Everything stays on this machine.
    """


for _command in _COMMANDS:
    cli.add_command(_command)
add_completions(cli)

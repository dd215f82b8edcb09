"""The ``lookfar`` command: a table of commands, each imported when it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

import click

from lookfar import __version__
from lookfar.serve.cli.completion import add_completions
from lookfar.serve.cli.exits import GuardedGroup

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

_SECTIONS: Final = {
    "Everyday commands": "index search read related status setup mcp",
    "Explore": "outline graph history tags properties why drift",
    "Write": "doc undo memory documents",
    "Sources from elsewhere": "add update sources pack deps",
    "Serve": "serve tokens daemon watch logs",
    "Maintain": "config doctor verify snapshots copy delete eval completion",
}
"""The commands that the help shows."""
_ALIASES: Final = "reindex remember run rebuild-index"
"""Other names of commands, for users of earlier versions and of other systems."""
_MODULES: Final = {
    "access_tokens": "tokens",
    "completion": "completion",
    "config": "config",
    "copy": "copy",
    "daemon": "daemon",
    "deps": "deps",
    "doc": "doc undo",
    "doctor.command": "doctor",
    "documents": "documents",
    "drift": "drift",
    "eval": "eval",
    "history": "history",
    "index": "index reindex status delete rebuild-index",
    "logs": "logs",
    "memory": "memory remember",
    "pack": "pack",
    "read": "read outline related graph why",
    "search_command": "search",
    "serve": "mcp serve run",
    "setup": "setup",
    "snapshots": "snapshots",
    "sources": "add sources update",
    "tags": "tags properties",
    "verify": "verify",
    "watch": "watch",
}
"""The names of the commands in each module."""


class _Commands(Mapping[str, click.Command]):
    """The commands by name. Reading one imports its module."""

    def __init__(self) -> None:
        modules = {name: module for module, names in _MODULES.items() for name in names.split()}
        shown = " ".join((*_SECTIONS.values(), _ALIASES)).split()
        self._modules = {name: modules[name] for name in shown}

    def __getitem__(self, name: str) -> click.Command:
        module = import_module(f"lookfar.serve.cli.{self._modules[name]}")
        commands = (value for value in vars(module).values() if isinstance(value, click.Command))
        command = next(command for command in commands if command.name == name)
        add_completions(command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _Program(GuardedGroup):
    """The group of all commands; its help shows them in sections."""

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        width = max(len(name) for names in _SECTIONS.values() for name in names.split())
        room = formatter.width - width - 6
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), self.commands[name].get_short_help_str(room))
                        for name in names.split()
                    ]
                )


@click.group("lookfar", cls=_Program, commands=_Commands(), context_settings=_HELP)
@click.version_option(__version__, "--version", message="lookfar %(version)s")
def cli() -> None:
    """Search documents and code by meaning and by words, with citations that are checked
    against the files. Everything stays on this machine.
    """

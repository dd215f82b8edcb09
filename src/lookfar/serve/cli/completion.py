"""``lookfar completion``: what a shell needs to complete our commands.

Takes: the name of a shell. Gives: a script for it, and to the shell the names of commands,
options and their values, folders, files and settings. Refuses: to open a library: whoever
presses a key does not wait.
"""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from lookfar.serve.cli.exits import write
from lookfar.serve.cli.options import examples, verbose_option

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "lookfar"
_VARIABLE: Final = "_LOOKFAR_COMPLETE"
_FOLDERS: Final = frozenset(("path", "root", "index_dir", "work"))
_FILES: Final = frozenset(("file", "files", "baseline", "save", "save_queries", "log_file"))
_KEYS: Final = frozenset(("key", "settings", "against"))


@examples(
    'eval "$(lookfar completion bash)"',
    "lookfar completion zsh > ~/.zfunc/_lookfar",
    "lookfar completion fish > ~/.config/fish/completions/lookfar.fish",
)
@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@verbose_option
def completion(shell: str) -> None:
    """Print what a shell needs to complete our commands."""
    kind = get_completion_class(shell)
    assert kind is not None, "one of SHELLS"
    # Not its own source(): that asks for the version of bash, which takes a process.
    made = kind(click.get_current_context().find_root().command, {}, _PROGRAM, _VARIABLE)
    write(ShellComplete.source(made))


class _Word(click.types.StringParamType):
    """A text like any other, and what a shell offers for it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,
        incomplete: str,
    ) -> list[CompletionItem]:
        if self._kind in ("dir", "file"):
            return [CompletionItem(incomplete, type=self._kind)]
        return [
            CompletionItem(found, help=told)
            for found, told in _settings(ends="=" if param.name != "key" else "")
            if found.startswith(incomplete)
        ]


def _settings(ends: str) -> list[tuple[str, str]]:
    from lookfar.config import describe

    return [(doc.key + ends, doc.description) for doc in describe()]


def add_completions(command: click.Command) -> None:
    """Give the arguments and options of a command, and of those below it, what their names say:
    a path is a folder in every command."""
    for each in command.params:
        if not isinstance(each.type, click.types.StringParamType) or isinstance(each.type, _Word):
            continue
        for names, kind in ((_FOLDERS, "dir"), (_FILES, "file"), (_KEYS, "key")):
            if each.name in names:
                each.type = _Word(kind)
    inner: Any = command.commands.values() if isinstance(command, click.Group) else ()
    for each in inner:
        add_completions(each)

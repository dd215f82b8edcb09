"""``lookfar completion``: shell completion for commands, options, paths and settings."""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from lookfar.serve.cli.exits import write
from lookfar.serve.cli.options import examples, verbose_option

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "lookfar"
_VARIABLE: Final = "_LOOKFAR_COMPLETE"
_FOLDERS: Final = frozenset(("path", "folder", "root", "index_dir", "work"))
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
    """Print the completion script for a shell."""
    shell_class = get_completion_class(shell)
    assert shell_class is not None, "one of SHELLS"
    command = click.get_current_context().find_root().command
    script = shell_class(command, {}, _PROGRAM, _VARIABLE)
    # The source() of the bash class would run bash to ask for its version.
    write(ShellComplete.source(script))


class _CompletedText(click.types.StringParamType):
    """A text parameter that completes as a folder (dir), a file or the key of a setting."""

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
        from lookfar.config import describe

        suffix = "=" if param.name != "key" else ""
        return [
            CompletionItem(doc.key + suffix, help=doc.description)
            for doc in describe()
            if (doc.key + suffix).startswith(incomplete)
        ]


def add_completions(command: click.Command) -> None:
    """Complete text parameters by their names: folders, files, and keys of settings."""
    for parameter in command.params:
        if type(parameter.type) is not click.types.StringParamType:
            continue
        for names, kind in ((_FOLDERS, "dir"), (_FILES, "file"), (_KEYS, "key")):
            if parameter.name in names:
                parameter.type = _CompletedText(kind)
    subcommands: Any = command.commands.values() if isinstance(command, click.Group) else ()
    for subcommand in subcommands:
        add_completions(subcommand)

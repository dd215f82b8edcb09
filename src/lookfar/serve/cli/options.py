"""Options that commands share, and the library that a command opens with them.

The library itself is imported only when a command opens it, so that ``--help`` stays fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from lookfar.errors import ConfirmationNeeded, InvalidArgument, NotIndexed
from lookfar.serve.daemon.session_options import INDEX_DIR, SessionOption, parse_settings

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.serve.cli.remote_library import RemoteLibrary

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Command = TypeVar("Command", bound=click.Command)


def session_option(option: SessionOption) -> Callable[[Decorated], Decorated]:
    return click.option(
        option.flag,
        option.name,
        # With is_flag=False, click would accept the option without its value as the last word.
        is_flag=None if option.takes_value else True,
        multiple=option.repeatable,
        type=click.Choice(option.choices) if option.choices else None,
        metavar=option.metavar or None,
        help=option.help,
    )


index_dir_option = session_option(INDEX_DIR)


def library_options(command: Decorated) -> Decorated:
    """Add the options of every command that opens a library."""
    return index_dir_option(set_option(output_options(command)))


def set_option(command: Decorated) -> Decorated:
    return click.option(
        "--set", "settings", metavar="KEY=VALUE", multiple=True,
        help="Override a setting, for example chunk.max_tokens=800. Repeatable.",
    )(command)  # fmt: skip


def verbose_option(command: Decorated) -> Decorated:
    """Add ``--verbose``, which :class:`~lookfar.serve.cli.exits.GuardedGroup` reads itself."""
    return click.option(
        "--verbose", is_flag=True, expose_value=False,
        help="Show the stack trace and details of an error.",
    )(command)  # fmt: skip


def output_options(command: Decorated) -> Decorated:
    """Add the options of every command that prints a result."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    return as_json(verbose_option(command))


def folder_argument(
    name: str = "path", *, several: bool = False, default: str | None = "."
) -> Callable[[Decorated], Decorated]:
    """Add a folder, or ``several``, as the last argument and as ``--path``, which mean the same.

    Arguments are taken in order, so this decorator comes below those of the other arguments.
    """

    def merge(ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        given = ctx.meta.pop(_FOLDER_KEY, None)
        if given and value:
            raise InvalidArgument(
                "The folder is given twice, as an argument and with --path.",
                hint="Give it once.",
            )
        if given:
            return given if several else given[-1]
        return value if several or value is not None else default

    def add_parameters(command: Decorated) -> Decorated:
        argument = click.argument(name, nargs=-1 if several else 1, required=False, callback=merge)
        return argument(_folder_option(command))

    return add_parameters


_FOLDER_KEY = "lookfar.folder"
"""The key under which the value of ``--path`` is kept until the argument is processed."""


def _folder_option(command: Decorated) -> Decorated:
    def store(ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
        ctx.meta[_FOLDER_KEY] = value

    return click.option(
        "--path", "folder", metavar="PATH", multiple=True, is_eager=True, expose_value=False,
        callback=store, help="The folder, which may also be the last argument.",
    )(command)  # fmt: skip


def path_option(command: Decorated) -> Decorated:
    """Add ``--path`` to a command whose last argument may be repeated; see split_folder()."""
    return click.option(
        "--path", metavar="PATH", help="The folder, which may also be the last argument."
    )(command)


def split_folder(
    arguments: tuple[str, ...],
    path: str | None,
    *,
    at_least: int = 1,
    is_name: Callable[[str], bool] = lambda _: False,
) -> tuple[tuple[str, ...], str]:
    """Split the folder off the end of the arguments, unless ``--path`` names it.

    The last argument is the folder if such a folder exists, ``is_name`` does not accept it as a
    name, and ``at_least`` arguments remain before it.
    """
    if path is not None:
        return arguments, path
    last = arguments[-1] if len(arguments) > at_least else ""
    if last and not is_name(last) and Path(last).is_dir():
        return arguments[:-1], last
    return arguments, "."


def commit_options(command: Decorated) -> Decorated:
    """Add the filters that apply to commits only."""
    for option in (
        click.option(
            "--branch", default="", metavar="NAME", help="Only commits on this branch or tag."
        ),
        click.option(
            "--touches", default="", metavar="GLOB", help="Only commits that change matching paths."
        ),
        click.option(
            "--author", default="", metavar="TEXT",
            help="Only commits by authors whose name or email contains this.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


class _DateOption(click.Option):
    """A date option with a value in nanoseconds. Errors use the option name that the user wrote.

    click does not say which name of an option was used, so each name is parsed separately.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ARG002
        for name in self.opts:
            parser.add_option(obj=self, opts=[name], dest=name, nargs=1)

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[int | None, ParameterSource]:
        from lookfar.serve.tools.dates import moment

        written = [name for name in self.opts if name in opts]
        if len(written) > 1:
            raise InvalidArgument(
                f"{' and '.join(written)} are the same option.", hint="Give one of them."
            )
        if not written or ctx.resilient_parsing:
            return None, ParameterSource.DEFAULT
        return moment(opts[written[0]], written[0]), ParameterSource.COMMANDLINE


def date_options(subject: str) -> Callable[[Decorated], Decorated]:
    """Add ``--after``, also called ``--since``, and ``--before``, in nanoseconds or None."""

    def add_options(command: Decorated) -> Decorated:
        before = click.option(
            "--before",
            cls=_DateOption,
            type=click.UNPROCESSED,
            metavar="DATE",
            help=f"Only {subject} before this day.",
        )
        after = click.option(
            "--after",
            "--since",
            "after",
            cls=_DateOption,
            type=click.UNPROCESSED,
            metavar="DATE",
            help=f"Only {subject} on this day or later. DATE is a day (2026-01-31), a week"
            " (2026-W05) or words (yesterday, monday, last week, 3 days ago).",
        )
        return after(before(command))

    return add_options


def quiet_option(command: Decorated) -> Decorated:
    return click.option("--quiet", is_flag=True, help="Show no progress and no report.")(command)


def yes_option(command: Decorated) -> Decorated:
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool, as_json: bool) -> bool:
    """Ask for confirmation. Without a terminal, ``--yes`` is required."""
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise ConfirmationNeeded(
            f"{question} Confirmation is needed, and there is no terminal to ask on.",
            hint="Add --yes to confirm.",
        )
    return click.confirm(question, err=True)


def examples(*lines: str) -> Callable[[Command], Command]:
    """Add example command lines to the end of a help page. A test parses each of them."""

    def add_examples(command: Command) -> Command:
        # \b keeps click from rewrapping the lines.
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return command

    return add_examples


def get_examples(command: click.Command) -> list[str]:
    """Return the example command lines of a help page."""
    lines = (command.epilog or "").split("\n")
    return [line.strip() for line in lines if line.startswith("  ")]


@contextmanager
def open_library(path: str | tuple[str, ...], options: dict[str, Any]) -> Iterator[Library]:
    """Open the library of one or several folders in this process."""
    from lookfar.library import Library

    paths, settings = _check_options(path, options)
    library = Library.open(*paths, index_dir=options["index_dir"], settings=settings)
    with _suggest_indexing(paths), library:
        yield library


@contextmanager
def connect_library(
    path: str | tuple[str, ...], options: dict[str, Any], *, asks: bool = False
) -> Iterator[Library | RemoteLibrary]:
    """Use the library of a running daemon, or open one here if no daemon runs.

    With ``asks``, the library answers one question, so the second model is not loaded.
    """
    from lookfar.config import load
    from lookfar.serve.cli.remote_library import RemoteLibrary

    paths, settings = _check_options(path, options)
    remote = None
    if load(None, settings).serve.daemon:
        remote = RemoteLibrary.find(paths, options["index_dir"], settings)
    if remote is None:
        with open_library(path, without_second_model(options) if asks else options) as library:
            yield library
        return
    try:
        with _suggest_indexing(paths):
            yield remote
    finally:
        remote.close()


def without_second_model(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the second model off in the options: loading it takes longer than the answer."""
    return {**options, "settings": ("quality.enabled=off", *options["settings"])}


def _check_options(
    path: str | tuple[str, ...], options: dict[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    paths = (path,) if isinstance(path, str) else path or (".",)
    folders = [*(("PATH", folder) for folder in paths), ("--index-dir", options["index_dir"])]
    for name, folder in folders:
        if folder == "":  # Probably an unset shell variable; must not mean the current folder.
            raise InvalidArgument(
                f"{name} is empty.", hint="Name a folder; . is the current folder."
            )
    return paths, parse_settings(options["settings"])


def refuse_broad_folders(paths: tuple[str, ...]) -> None:
    """Refuse to index a whole disk or the home folder because of a question."""
    for folder in (Path(path).resolve() for path in paths or (".",)):
        if folder in (Path.home().resolve(), Path(folder.anchor)):
            raise InvalidArgument(
                f"{folder} is a whole disk or your home folder, so a search does not index it.",
                hint=f"Name a folder in it. To index all of it: lookfar index {quote(str(folder))}",
            )


@contextmanager
def _suggest_indexing(paths: tuple[str, ...]) -> Iterator[None]:
    """Add the command that indexes these folders to a :class:`NotIndexed` error."""
    try:
        yield
    except NotIndexed as error:
        names = ", ".join(map(repr, paths))
        raise NotIndexed(
            f"The folder {names} has not been indexed yet.",
            hint=f"Run: lookfar index {' '.join(map(quote, paths))}",
            developer=error.developer,
        ) from error


def clean_text(text: str) -> str:
    """Replace invalid Unicode in an argument; no indexed text contains any."""
    return text.encode("utf-8", "replace").decode("utf-8")


def quote(text: str) -> str:
    """Quote an argument for a suggested command line of a POSIX shell or of PowerShell."""
    platform: str = sys.platform
    windows = platform == "win32"
    plain = text.replace("/", "").replace(".", "").replace("-", "").replace("_", "")
    if plain.isalnum() or text == ".":
        return text
    if any(character in text for character in ("$`" if windows else "$`\\!")):
        # Characters that have a meaning inside double quotes.
        return "'" + text.replace("'", "''" if windows else "'\\''") + "'"
    if windows and text.endswith("\\"):
        text += "\\"  # Otherwise it would escape the quote after it.
    return '"' + text.replace('"', '\\"') + '"'

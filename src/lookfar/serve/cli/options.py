"""What every command accepts, and the library that a command works on.

Takes: the options of one command line. Gives: the decorators that add them and the examples
of a help page, a person's consent, and the library of the folder named, with these settings.
Refuses: an empty path, a setting without a value, to go ahead where nobody agreed; and to
import the library before a command needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lookfar.errors import ConfirmationNeeded, InvalidArgument, NotIndexed

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.serve.cli.remote_library import RemoteLibrary

Command = TypeVar("Command", bound=Callable[..., Any])
Made = TypeVar("Made", bound=click.Command)


def common(command: Command) -> Command:
    """What every command takes that works on a library."""
    return placing(overriding(reporting(command)))


def placing(command: Command) -> Command:
    """Where the indexes lie."""
    return click.option(
        "--index-dir", metavar="DIR", help="Folder that holds the indexes of all folders."
    )(command)


def overriding(command: Command) -> Command:
    """Settings for this once."""
    return click.option(
        "--set", "settings", metavar="KEY=VALUE", multiple=True,
        help="Override a setting, such as chunk.max_tokens=800. Repeatable.",
    )(command)  # fmt: skip


def verbose(command: Command) -> Command:
    """Whoever ends the command looks for it, so no command has to take it."""
    return click.option(
        "--verbose", is_flag=True, expose_value=False,
        help="On an error, show what a developer needs.",
    )(command)  # fmt: skip


def reporting(command: Command) -> Command:
    """What every command takes that says something, whether or not it opens a library."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    return as_json(verbose(command))


def agreeing(command: Command) -> Command:
    """What a command takes that asks before it does something final."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(command)


def agreed(question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether a person agrees; where nobody can be asked, ``--yes`` has to be said."""
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise ConfirmationNeeded(
            f"{question} Nobody can be asked here.", hint="Add --yes to do it."
        )
    return click.confirm(question, err=True)


def about(command: Command) -> Command:
    """The folder that a command is about, as an option: texts and names come first."""
    return click.option(
        "--path", default=".", metavar="PATH", help="The folder it is about (default: this one)."
    )(command)


def examples(*lines: str) -> Callable[[Made], Made]:
    """Command lines to end a help page with; a test holds each to what the commands take."""

    def shown(command: Made) -> Made:
        # The mark keeps click from filling paragraphs.
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return command

    return shown


def examples_of(command: click.Command) -> list[str]:
    """The command lines that its help page ends with."""
    lines = (command.epilog or "").split("\n")
    return [line.strip() for line in lines if line.startswith("  ")]


@contextmanager
def opened(path: str | tuple[str, ...], options: dict[str, Any]) -> Iterator[Library]:
    """The library of one folder or of several, with this command's settings."""
    from lookfar.library import Library

    paths, chosen = _checked(path, options)
    own = Library.open(*paths, index_dir=options["index_dir"], settings=chosen)
    with _told_where(paths), own as library:
        yield library


@contextmanager
def asked(
    path: str | tuple[str, ...], options: dict[str, Any]
) -> Iterator[Library | RemoteLibrary]:
    """The same for a question: where a daemon runs, its library is at hand already."""
    from lookfar.config import load
    from lookfar.serve.cli.remote_library import RemoteLibrary

    paths, chosen = _checked(path, options)
    remote = None
    if load(None, chosen).serve.daemon:
        remote = RemoteLibrary.find(paths, options["index_dir"], chosen)
    if remote is None:
        with opened(path, options) as library:
            yield library
        return
    try:
        with _told_where(paths):
            yield remote
    finally:
        remote.close()


def _checked(
    path: str | tuple[str, ...], options: dict[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    paths = (path,) if isinstance(path, str) else path or (".",)
    for what, given in (*(("PATH", each) for each in paths), ("--index-dir", options["index_dir"])):
        if given == "":  # As from a variable that is not set: never taken for this folder.
            raise InvalidArgument(f"{what} is empty.", hint="Name a folder; . is this one.")
    return paths, settings_from(options["settings"])


@contextmanager
def _told_where(paths: tuple[str, ...]) -> Iterator[None]:
    """Say of what was never indexed which command does it."""
    try:
        yield
    except NotIndexed as error:
        shown = ", ".join(map(repr, paths))
        raise NotIndexed(
            f"The folder {shown} has not been indexed yet.",
            hint=f"Run: lookfar index {' '.join(map(quoted, paths))}",
            developer=error.developer,
        ) from error


def settings_from(given: tuple[str, ...]) -> dict[str, Any]:
    """``KEY=VALUE`` texts as typed values; what does not fit is left for the settings to refuse."""
    from lookfar.config import describe

    types = {doc.key: doc.type for doc in describe()}
    chosen: dict[str, Any] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(
                f"--set {each!r} is not a setting and its value.",
                hint="Write it like this: --set chunk.max_tokens=800",
            )
        chosen[key.strip()] = _typed(text.strip(), types.get(key.strip(), "text"))
    return chosen


def _typed(text: str, kind: str) -> Any:
    if kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text
    return text


def utf8(text: str) -> str:
    """An argument as text: bytes that are no text name nothing that could be indexed."""
    return text.encode("utf-8", "replace").decode("utf-8")


def quoted(text: str) -> str:
    plain = text.replace("/", "").replace(".", "").replace("-", "").replace("_", "")
    return text if plain.isalnum() or text == "." else '"' + text.replace('"', '\\"') + '"'

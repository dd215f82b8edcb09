"""What every command accepts, and the library that a command works on.

Takes: the options of one command line. Gives: the decorator that adds them, and the
library of the folder named, with these settings. Refuses: an empty path, a setting
without a value; and to import the library before a command needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lookfar.errors import InvalidArgument, NotIndexed

if TYPE_CHECKING:
    from lookfar.library import Library
    from lookfar.serve.remote import RemoteLibrary

Command = TypeVar("Command", bound=Callable[..., Any])


def common(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--index-dir", metavar="DIR", help="Folder that holds the indexes of all folders."
            ),
            click.option(
                "--set",
                "settings",
                metavar="KEY=VALUE",
                multiple=True,
                help="Override a setting, such as chunk.max_tokens=800. Repeatable.",
            ),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
            click.option(
                "--verbose", is_flag=True, help="On an error, show what a developer needs."
            ),
        )
    ):
        command = option(command)
    return command


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
    from lookfar.serve.remote import RemoteLibrary

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

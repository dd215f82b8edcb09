"""``lookfar doc`` and ``lookfar undo``: Markdown changed by section, from a terminal.

Takes: a command line, and texts from an option, a file or stdin. Gives: what changed, or with
``--dry-run`` would change, as a diff; for people or with ``--json`` for scripts. Refuses: to
guess which part is meant, to change what is not what ``--expect`` says, and texts that are no
UTF-8.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.serve.cli.exits import CHECK_FAILED, GuardedGroup, write, write_json
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    library_options,
    open_library,
    path_option,
    quote,
)
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name

if TYPE_CHECKING:
    from lookfar.model import EditResult

_POSITIONS: Final = ("last", "first", "before", "after")
_MOST_BYTES: Final = 64 << 20


def _trying(command: Any) -> Any:
    return click.option(
        "--dry-run", is_flag=True, help="Show what would change, and write nothing."
    )(command)


def _changing(command: Any) -> Any:
    """What every command takes that changes a part of a document."""
    for option in (
        library_options,
        path_option,
        click.option(
            "--rewrite-links", is_flag=True, help="Change links to headings that are led astray."
        ),
        click.option(
            "--expect", default="", metavar="HASH",
            help="The sha256 that read --json gave; anything else is a conflict.",
        ),
        _trying,
    ):  # fmt: skip
        command = option(command)
    return command


def _texts(command: Any) -> Any:
    for option in (
        click.option("--file", "file", metavar="FILE", help="The same from a file; - is stdin."),
        click.option("--text", "text", metavar="TEXT", help="The text, as Markdown."),
    ):
        command = option(command)
    return command


@examples(
    "lookfar doc validate guide.md --path docs",
    'lookfar doc replace guide.md#Install --text "Use pip." --dry-run',
)
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def doc(ctx: click.Context) -> None:
    """Check Markdown documents, and change them by section.

    TARGET is what read takes: a URI and a heading (guide.md#Install, or
    "guide.md#Install > Linux"), or a URI and lines (guide.md:10-20).
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar doc validate guide.md keys.md --path docs --json")
@doc.command()
@click.argument("uris", nargs=-1, required=True, metavar="URI...")
@click.option(
    "--single-h1/--several-h1", default=None,
    help="Whether there may be one heading of level 1 only (default: edit.single_h1).",
)  # fmt: skip
@path_option
@library_options
def validate(
    uris: tuple[str, ...], single_h1: bool | None, path: str, as_json: bool, **options: Any
) -> int:
    """Check the headings of documents; exit code 9 where one breaks a rule."""
    with open_library(path, options) as library:
        found = [library.validate(clean_text(each), single_h1=single_h1) for each in uris]
    if as_json:
        write_json({"documents": [json_shapes.validation(each) for each in found]})
    else:
        from lookfar.serve.show import render

        write(render.validations(found))
    return 0 if all(each.ok for each in found) else CHECK_FAILED


@examples("lookfar doc fix guide.md --path docs --dry-run")
@doc.command()
@click.argument("uri")
@_changing
def fix(uri: str, **options: Any) -> None:
    """Mend what breaks the rules for headings."""
    _edit("fix", uri, options)


@examples('lookfar doc create decisions/7.md --title "Use SQLite" --template decision')
@doc.command()
@click.argument("uri")
@click.option("--title", required=True, help="Its title.")
@click.option(
    "--template", default="", metavar="NAME",
    help="What it begins with: note, decision, guide, runbook, meeting, or one of your own.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Where there is such a document, replace it.")
@_texts
@_changing
def create(uri: str, title: str, template: str, overwrite: bool, **options: Any) -> None:
    """Make a document, with a text below its title if one is given."""
    _edit(
        "create",
        uri,
        options,
        heading=clean_text(title),
        template=clean_text(template),
        overwrite=overwrite,
    )


@examples('lookfar doc insert guide.md#Install Windows --text "Use winget."')
@doc.command()
@click.argument("target")
@click.argument("heading")
@click.option("--level", type=click.IntRange(1, 6), help="Of the heading (one below its parent).")
@click.option(
    "--position", type=click.Choice(_POSITIONS), default="last",
    help="Last or first below TARGET, or before or after it.",
)  # fmt: skip
@_texts
@_changing
def insert(target: str, heading: str, level: int | None, position: str, **options: Any) -> None:
    """Put a new section called HEADING below TARGET, or beside it."""
    _edit(
        "insert", target, options, heading=clean_text(heading), level=level or 0, position=position
    )


@examples(
    "lookfar doc replace guide.md#Install --file install.md",
    'lookfar doc replace guide.md#Install --text "Use pip." --dry-run',
)
@doc.command()
@click.argument("target")
@click.option("--whole", is_flag=True, help="With heading and subsections, as read shows it.")
@_texts
@_changing
def replace(target: str, whole: bool, **options: Any) -> None:
    """Give a section another text; its heading and subsections stay."""
    _needs_text(options)
    _edit("replace", target, options, whole=whole)


@examples('lookfar doc append guide.md#Install --text "Then restart."')
@doc.command()
@click.argument("target")
@_texts
@_changing
def append(target: str, **options: Any) -> None:
    """Add to a section's text, before its subsections; to a document, at its end."""
    _needs_text(options)
    _edit("append", target, options)


@examples("lookfar doc move guide.md#Install Guide --position first")
@doc.command()
@click.argument("target")
@click.argument("to")
@click.option(
    "--position", type=click.Choice(_POSITIONS), default="last",
    help="Last or first below TO, or before or after it.",
)  # fmt: skip
@_changing
def move(target: str, to: str, position: str, **options: Any) -> None:
    """Put a section with its subsections elsewhere in its document.

    TO is the whole heading path of the new parent ("Guide > Install"); "" is the top level.
    """
    _edit("move", target, options, to=clean_text(to), position=position)


@examples('lookfar doc rename guide.md#Install "Set up" --rewrite-links')
@doc.command()
@click.argument("target")
@click.argument("heading")
@_changing
def rename(target: str, heading: str, **options: Any) -> None:
    """Give a section another title."""
    _edit("rename", target, options, heading=clean_text(heading))


@examples("lookfar doc delete guide.md#Install --dry-run")
@doc.command()
@click.argument("target")
@_changing
def delete(target: str, **options: Any) -> None:
    """Remove a section with its subsections, or lines."""
    _edit("delete", target, options)


@examples("lookfar undo guide.md --path docs", "lookfar undo --list")
@click.command()
@click.argument("target", default="")
@click.option("--list", "listing", is_flag=True, help="Show what can be taken back.")
@_trying
@path_option
@library_options
def undo(
    target: str, listing: bool, dry_run: bool, path: str, as_json: bool, **options: Any
) -> None:
    """Take back the last edit of a document.

    TARGET is the URI of the document; all that the edit changed is taken back. Undoing again
    makes the edit anew.
    """
    if bool(target) == listing:
        raise InvalidArgument("Name a document, or give --list.", hint="See: lookfar undo --help")
    with open_library(path, options) as library:
        if target:
            done = library.undo(clean_text(target), dry_run=dry_run)
        else:
            steps = library.undoable()
    if target:
        _tell(done, as_json)
    elif as_json:
        write_json(json_shapes.undoable(steps))
    else:
        from lookfar.serve.show import render

        write(render.undoable(steps))


# --- what they share ----------------------------------------------------------------------------


def _edit(op: Any, target: str, options: dict[str, Any], **given: Any) -> None:
    from lookfar.model import Edit

    text = _text(options.pop("text", None), options.pop("file", None))
    edit = Edit(op, clean_text(target), text=text, expected=options.pop("expect"), **given)
    path = options.pop("path")
    with open_library(path, options) as library:
        done = library.edit(
            edit, dry_run=options["dry_run"], rewrite_links=options["rewrite_links"]
        )
    _tell(done, options["as_json"])
    if done.transaction and not options["as_json"]:
        uri = next(each.uri for each in done.documents if each.action != "unchanged")
        where = "" if path == "." else f" --path {quote(path)}"
        click.echo(safe_name(f"To take it back: lookfar undo {quote(uri)}{where}"), err=True)


def _tell(done: EditResult, as_json: bool) -> None:
    if as_json:
        write_json(json_shapes.edited(done))
        return
    from lookfar.serve.show import render

    write(render.edited(done))


def _needs_text(options: dict[str, Any]) -> None:
    # Stdin is read when it is asked for: an empty one must not empty a section.
    if options["text"] is None and options["file"] is None:
        raise InvalidArgument(
            "There is no text.", hint="Give --text TEXT, --file FILE, or --file - for stdin."
        )


def _text(text: str | None, file: str | None) -> str:
    if file is None:
        return clean_text(text or "")
    if text is not None:
        raise InvalidArgument("--text and --file are both given.", hint="Give one of them.")
    try:
        raw = sys.stdin.buffer.read() if file == "-" else _read(file)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file!r}.", hint="Name a file to read.") from error
    except OSError as error:
        raise from_os_error(error, f"reading {file}") from error
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{'stdin' if file == '-' else file!r} is no UTF-8.", hint="Save it as UTF-8."
        ) from error


def _read(file: str) -> bytes:
    with Path(file).open("rb") as source:
        raw = source.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise InvalidArgument(f"{file!r} is too large.", hint="Give at most 64 MiB.")
    return raw

"""``lookfar doc`` and ``lookfar undo``: check Markdown and change it section by section."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from lookfar.errors import InvalidArgument, NotFound, from_os_error
from lookfar.serve.cli.exits import CHECK_FAILED, GuardedGroup, write_result
from lookfar.serve.cli.options import (
    clean_text,
    confirm,
    examples,
    folder_argument,
    library_options,
    open_library,
    path_option,
    quote,
    split_folder,
    yes_option,
)
from lookfar.serve.show.printable import safe_name

_POSITIONS: Final = ("last", "first", "before", "after")
_MAX_BYTES: Final = 64 << 20


def _dry_run_option(command: Any) -> Any:
    return click.option(
        "--dry-run", is_flag=True, help="Show what would change, and write nothing."
    )(command)


def _edit_options(command: Any) -> Any:
    """Add the options of every command that edits a document."""
    for option in (
        library_options,
        folder_argument(),
        click.option("--rewrite-links", is_flag=True, help="Update links that would break."),
        click.option(
            "--expect", default="", metavar="HASH",
            help="The sha256 from read --json; fail if the text has changed since.",
        ),
        _dry_run_option,
    ):  # fmt: skip
        command = option(command)
    return command


def _text_options(command: Any) -> Any:
    for option in (
        click.option("--file", "file", metavar="FILE", help="A file with the text; - is stdin."),
        click.option("--text", "text", metavar="TEXT", help="The text, as Markdown."),
    ):
        command = option(command)
    return command


@examples(
    "lookfar doc validate guide.md --path docs",
    'lookfar doc replace guide.md#Install --text "Use pip." --dry-run',
)
@click.group(cls=GuardedGroup)
def doc() -> None:
    """Check Markdown documents, and change them by section.

    TARGET is the same as for read: a URI and a heading (guide.md#Install, or
    "guide.md#Install > Linux"), or a URI and lines (guide.md:10-20). PATH, the last argument, is
    the folder (default: the current one).
    """


@examples("lookfar doc validate guide.md keys.md --path docs --json")
@doc.command()
@click.argument("uris", nargs=-1, required=True, metavar="URI...")
@click.option(
    "--single-h1/--several-h1", default=None,
    help="Whether to allow only one heading of level 1 (default: edit.single_h1).",
)  # fmt: skip
@path_option
@library_options
def validate(
    uris: tuple[str, ...], single_h1: bool | None, path: str | None, as_json: bool, **options: Any
) -> int:
    """Check the headings of documents; exit code 9 if a rule is broken.

    The last argument may be the folder (default: the current one).
    """
    documents, folder = split_folder(uris, path)
    with open_library(folder, options) as library:
        validations = [library.validate(clean_text(uri), single_h1=single_h1) for uri in documents]
    write_result(as_json, "validations", validations)
    return 0 if all(validation.ok for validation in validations) else CHECK_FAILED


@examples("lookfar doc fix guide.md --path docs --dry-run")
@doc.command()
@click.argument("uri")
@_edit_options
def fix(uri: str, **options: Any) -> None:
    """Fix headings that break the rules."""
    _edit("fix", uri, options)


@examples('lookfar doc create decisions/7.md --title "Use SQLite" --template decision')
@doc.command()
@click.argument("uri")
@click.option("--title", required=True, help="The title.")
@click.option(
    "--template", default="", metavar="NAME",
    help="Start from a template: note, decision, guide, runbook, meeting, or one of your own.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the document if it exists.")
@_text_options
@_edit_options
def create(uri: str, title: str, template: str, overwrite: bool, **options: Any) -> None:
    """Create a document with a title and, if given, a text below it."""
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
@click.option(
    "--level",
    type=click.IntRange(1, 6),
    help="Heading level (default: one below its parent).",
)
@click.option(
    "--position", type=click.Choice(_POSITIONS), default="last",
    help="Last or first in TARGET, or before or after it.",
)  # fmt: skip
@_text_options
@_edit_options
def insert(target: str, heading: str, level: int | None, position: str, **options: Any) -> None:
    """Insert a new section HEADING into TARGET, or beside it."""
    _edit(
        "insert",
        target,
        options,
        heading=clean_text(heading),
        level=level or 0,
        position=position,
    )


@examples(
    "lookfar doc replace guide.md#Install --file install.md",
    'lookfar doc replace guide.md#Install --text "Use pip." --dry-run',
)
@doc.command()
@click.argument("target")
@click.option(
    "--whole", is_flag=True, help="Replace the heading and subsections, too, as shown by read."
)
@_text_options
@_edit_options
def replace(target: str, whole: bool, **options: Any) -> None:
    """Replace the text of a section, keeping its heading and subsections."""
    _require_text(options)
    _edit("replace", target, options, whole=whole)


@examples('lookfar doc append guide.md#Install --text "Then restart."')
@doc.command()
@click.argument("target")
@_text_options
@_edit_options
def append(target: str, **options: Any) -> None:
    """Append to a section, before its subsections, or to a document."""
    _require_text(options)
    _edit("append", target, options)


@examples(
    "lookfar doc move guide.md#Install Guide --position first",
    'lookfar doc move "Alpha Plan" archive/2026 --dry-run',
)
@doc.command()
@click.argument("target")
@click.argument("to")
@click.option(
    "--position", type=click.Choice(_POSITIONS), default="last",
    help="Last or first in TO, or before or after it.",
)  # fmt: skip
@yes_option
@_edit_options
def move(target: str, to: str, position: str, **options: Any) -> None:
    """Move a section within its document, or a document to a folder.

    TO is the full heading path of the new parent ("Guide > Install"); "" is the top level. If
    TARGET is a whole document, TO is a folder, and links follow. What would change is shown
    first.
    """
    _edit_after_preview("move", target, options, to=clean_text(to), position=position)


@examples(
    'lookfar doc rename guide.md#Install "Set up" --rewrite-links',
    'lookfar doc rename "Alpha Plan" "Beta Plan" --keep-alias --path notes',
)
@doc.command()
@click.argument("target")
@click.argument("name")
@click.option("--keep-alias", is_flag=True, help="Add the old name of a document to its aliases.")
@yes_option
@_edit_options
def rename(target: str, name: str, keep_alias: bool, **options: Any) -> None:
    """Rename a section, or a document with the links to it.

    NAME is the new title of the section. If TARGET is a whole document, NAME is its new file
    name, or its new path from the folder; links and embeds in all notes and canvases follow.
    What would change is shown first.
    """
    _edit_after_preview("rename", target, options, heading=clean_text(name), keep_alias=keep_alias)


@examples("lookfar doc delete guide.md#Install --dry-run")
@doc.command()
@click.argument("target")
@_edit_options
def delete(target: str, **options: Any) -> None:
    """Remove a section with its subsections, or lines."""
    _edit("delete", target, options)


@examples("lookfar undo guide.md --path docs", "lookfar undo --list")
@click.command()
@click.argument("target", default="")
@click.option("--list", "listing", is_flag=True, help="List the edits that can be undone.")
@_dry_run_option
@folder_argument(default=None)
@library_options
def undo(
    target: str, listing: bool, dry_run: bool, path: str | None, as_json: bool, **options: Any
) -> None:
    """Undo the last edit of a document.

    TARGET is the URI of the document. Everything that the edit changed is undone. To redo the
    edit, undo again. PATH is the folder (default: the current one).
    """
    if listing and path is None and target:
        target, path = "", target
    if bool(target) == listing:
        raise InvalidArgument("Name a document, or give --list.", hint="See: lookfar undo --help")
    with open_library("." if path is None else path, options) as library:
        if target:
            write_result(as_json, "edited", library.undo(clean_text(target), dry_run=dry_run))
        else:
            write_result(as_json, "undoable", library.undoable())


def _edit_after_preview(op: Any, target: str, options: dict[str, Any], **given: Any) -> None:
    """Show what would change, and ask on a terminal; a whole document needs a confirmation."""
    from lookfar.model import Edit

    yes, as_json = options.pop("yes"), options["as_json"]
    asks = not yes and not options["dry_run"]
    if asks:
        edit = Edit(op, clean_text(target), expected=options["expect"], **given)
        with open_library(options["path"], options) as library:
            preview = library.edit(edit, dry_run=True, rewrite_links=options["rewrite_links"])
        renames = any(document.moved_from for document in preview.documents)
        if renames or (sys.stdin.isatty() and not as_json):
            if not as_json:
                write_result(False, "edited", preview)
            if not confirm("Make these changes?", yes=False, as_json=as_json):
                return
    _edit(op, target, options, **given)


def _edit(op: Any, target: str, options: dict[str, Any], **given: Any) -> None:
    from lookfar.model import Edit

    text = _read_text(options.pop("text", None), options.pop("file", None))
    edit = Edit(op, clean_text(target), text=text, expected=options.pop("expect"), **given)
    path = options.pop("path")
    with open_library(path, options) as library:
        result = library.edit(
            edit, dry_run=options["dry_run"], rewrite_links=options["rewrite_links"]
        )
    write_result(options["as_json"], "edited", result)
    if result.transaction and not options["as_json"]:
        uri = next(doc.uri for doc in result.documents if doc.action != "unchanged")
        folder = "" if path == "." else f" --path {quote(path)}"
        click.echo(safe_name(f"To undo this: lookfar undo {quote(uri)}{folder}"), err=True)


def _require_text(options: dict[str, Any]) -> None:
    # Read stdin only if the user asks for it: empty input must not delete the text of a section.
    if options["text"] is None and options["file"] is None:
        raise InvalidArgument(
            "There is no text.", hint="Give --text TEXT, --file FILE, or --file - for stdin."
        )


def _read_text(text: str | None, file: str | None) -> str:
    if file is None:
        return clean_text(text or "")
    if text is not None:
        raise InvalidArgument("--text and --file are both given.", hint="Give one of them.")
    try:
        raw = sys.stdin.buffer.read() if file == "-" else _read_file(file)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file!r}.", hint="Check the path.") from error
    except OSError as error:
        raise from_os_error(error, f"reading {file}") from error
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{'stdin' if file == '-' else repr(file)} is not UTF-8.", hint="Save it as UTF-8."
        ) from error


def _read_file(file: str) -> bytes:
    with Path(file).open("rb") as source:
        raw = source.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise InvalidArgument(f"{file!r} is too large.", hint="The limit is 64 MiB.")
    return raw

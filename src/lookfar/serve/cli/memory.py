"""``lookfar memory`` and ``lookfar remember``: write, read and change the memories of a folder."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.common.periods import local_now, parse_period
from lookfar.errors import InvalidArgument
from lookfar.serve.cli.exits import GuardedGroup, write, write_either, write_json, write_table
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    folder_argument,
    library_options,
    open_library,
    path_option,
    split_folder,
)
from lookfar.serve.show.json_shapes import plain
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.edit.memory_file import Memory

AUTHOR: Final = "command line"
TYPES: Final = ("plan", "journal", "fact", "observation", "reflection")
STATUSES: Final = ("active", "archived")


def _report(action: str, memory: Memory, as_json: bool) -> None:
    write_either(as_json, plain(memory), safe_name(f"{action} {memory.name}"))
    _write_warnings(memory, as_json)


def _write_warnings(memory: Memory, as_json: bool) -> None:
    for warning in () if as_json else memory.warnings:
        click.echo(safe_name(f"{memory.name}: {warning}"), err=True)


@examples(
    'lookfar remember "Keys rotate in March." --about security/keys.md --tag keys',
    'lookfar remember "Ask Ada before touching the parser." --type plan --path ~/work/engine',
)
@click.command(hidden=True)
@click.argument("text")
@click.option("--title", default="", help="The title, which also becomes the file name.")
@click.option(
    "--type", "kind", type=click.Choice(TYPES), default="fact", help="The type of memory."
)
@click.option("--tag", "tags", multiple=True, help="A tag. Repeatable.")
@click.option("--about", multiple=True, metavar="URI", help="A document to link to. Repeatable.")
@click.option(
    "--supersedes",
    multiple=True,
    metavar="NAME",
    help="A memory that this one replaces. It is kept, and hidden from answers. Repeatable.",
)
@click.option(
    "--valid-since",
    default="",
    metavar="DATE",
    help="The date from which it is valid (default: now).",
)
@folder_argument()
@library_options
def remember(
    text: str,
    title: str,
    kind: str,
    tags: tuple[str, ...],
    about: tuple[str, ...],
    supersedes: tuple[str, ...],
    valid_since: str,
    path: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Save TEXT as a memory of a folder.

    It becomes a Markdown file, and search finds it along with documents and code. PATH is the
    folder (default: the current one).
    """
    with open_library(path, options) as library:
        _, memory = library.remember(
            clean_text(text),
            title=clean_text(title),
            type=kind,
            tags=tuple(map(clean_text, tags)),
            about=tuple(map(clean_text, about)),
            author=AUTHOR,
            supersedes=tuple(map(clean_text, supersedes)),
            valid_since=_read_date(valid_since),
        )
        place = library.notebook().folder / memory.name
    lines = [f"Saved in {place}"]
    lines += [f"It may contradict {near.name}: {near.sentence}" for near in memory.near]
    text = "\n".join(map(safe_name, lines))
    write_either(as_json, plain(memory) | {"path": str(place)}, text)
    _write_warnings(memory, as_json)


def _read_date(text: str) -> str:
    """Parse a date, a time, or words such as yesterday; return the form that is stored."""
    if not text.strip():
        return ""
    period = parse_period(text, local_now())
    if period is None:
        raise InvalidArgument(
            f"--valid-since is not a date: {text[:40]!r}.",
            hint="Use a date such as 2026-01-31, or words such as yesterday.",
        )
    start = period.start
    is_day = start.tzinfo is None and start == start.replace(hour=0, minute=0, second=0)
    return start.date().isoformat() if is_day else start.isoformat()


@examples(
    "lookfar memory list --tag keys",
    "lookfar memory read keys-rotate",
    'lookfar memory append keys-rotate "The auditors agreed."',
)
@click.group(cls=GuardedGroup)
def memory() -> None:
    """Write, read, change and delete the memories of a folder.

    Memories are Markdown files, which you can also edit with any editor. remember is short for
    memory add. PATH, the last argument, is the folder (default: the current one).
    """


add = copy(remember)
add.name = "add"
memory.add_command(examples('lookfar memory add "Keys rotate in March." --tag keys')(add))


@examples("lookfar memory list --type plan", "lookfar memory list --trash --json")
@memory.command("list")
@click.option("--type", "kind", type=click.Choice(TYPES), help="Only memories of this type.")
@click.option(
    "--tag", "tags", multiple=True, help="Only with this tag. Repeatable; all must match."
)
@click.option("--superseded", is_flag=True, help="Also list memories that a newer one supersedes.")
@click.option("--trash", is_flag=True, help="List the trash instead.")
@folder_argument()
@library_options
def list_(
    kind: str | None,
    tags: tuple[str, ...],
    superseded: bool,
    trash: bool,
    path: str,
    as_json: bool,
    **options: Any,
) -> None:
    """List memories, or what is in their trash."""
    with open_library(path, options) as library:
        notebook = library.notebook()
        if trash:
            trashed = notebook.trash()
        else:
            memories = notebook.memories(type=kind or "", tags=map(clean_text, tags))
            memories = [m for m in memories if superseded or not m.superseded_by]
    folder = str(notebook.folder)
    if trash and as_json:
        write_json({"folder": folder, "trash": [asdict(entry) for entry in trashed]})
    elif as_json:
        write_json({"folder": folder, "memories": [plain(memory) for memory in memories]})
    elif trash:
        entries = [
            (entry.name, str(entry.version), "deleted" if entry.deleted else "earlier")
            for entry in trashed
        ]
        write_table(("name", "version", "state"), entries, "The trash is empty.")
    else:
        rows = [
            (m.name, m.type or "-", m.created_at[:10], m.title, " ".join(f"#{t}" for t in m.tags))
            for m in memories
        ]
        if rows:
            write_table(("name", "type", "created", "title", "tags"), rows, "")
        write(safe_name(f"{len(memories)} in {folder}"))


@examples("lookfar memory read keys-rotate")
@memory.command()
@click.argument("name")
@folder_argument()
@library_options
def read(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Print a memory. NAME is its file name."""
    with open_library(path, options) as library:
        memory = library.notebook().read(clean_text(name))
    replaced = f"superseded by {memory.superseded_by}" if memory.superseded_by else ""
    since = f"valid since {memory.valid_since}" if memory.valid_since else ""
    details = (memory.type, memory.status, since, memory.author, replaced)
    head = safe_name(f"{memory.name}  {memory.title}  " + "  ".join(filter(None, details)))
    write_either(as_json, plain(memory), f"{head}\n\n{safe_text(memory.text)}")
    _write_warnings(memory, as_json)


@examples(
    'lookfar memory edit keys-rotate "Keys rotate in April."',
    "lookfar memory edit keys-rotate --status archived",
)
@memory.command()
@click.argument("name")
@click.argument("text", required=False)
@click.option("--type", "kind", type=click.Choice(TYPES), help="The new type.")
@click.option("--status", type=click.Choice(STATUSES), help="The new status.")
@click.option("--tag", "tags", multiple=True, help="A tag, replacing its current ones. Repeatable.")
@folder_argument()
@library_options
def edit(
    name: str,
    text: str | None,
    kind: str | None,
    status: str | None,
    tags: tuple[str, ...],
    path: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Change the text, type, status or tags of the memory NAME.

    Its previous version goes to the trash; restore brings it back.
    """
    if text is None and not (kind or status or tags):
        raise InvalidArgument(
            "Nothing would change.", hint="Give a text, --type, --status or --tag."
        )
    with open_library(path, options) as library:
        memory = library.notebook().update(
            clean_text(name),
            None if text is None else clean_text(text),
            type=kind or "",
            status=status or "",
            tags=list(map(clean_text, tags)) if tags else None,
            author=AUTHOR,
        )
    _report("Changed", memory, as_json)


@examples('lookfar memory append keys-rotate "The auditors agreed."')
@memory.command()
@click.argument("name")
@click.argument("text")
@folder_argument()
@library_options
def append(name: str, text: str, path: str, as_json: bool, **options: Any) -> None:
    """Add TEXT as a paragraph to the memory NAME."""
    with open_library(path, options) as library:
        memory = library.notebook().append(clean_text(name), clean_text(text), author=AUTHOR)
    _report("Added to", memory, as_json)


@examples("lookfar memory delete keys-rotate")
@memory.command()
@click.argument("name")
@folder_argument()
@library_options
def delete(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Move the memory NAME to the trash."""
    with open_library(path, options) as library:
        notebook = library.notebook()
        memory = notebook.read(clean_text(name))
        notebook.delete(clean_text(name), author=AUTHOR)
    _report("Deleted", memory, as_json)


@examples("lookfar memory restore keys-rotate", "lookfar memory restore keys-rotate --version 1")
@memory.command()
@click.argument("name")
@click.option(
    "--version",
    type=int,
    metavar="N",
    help="Which version in the trash to restore (default: the latest).",
)
@folder_argument()
@library_options
def restore(name: str, version: int | None, path: str, as_json: bool, **options: Any) -> None:
    """Restore the memory NAME, or undo its last change.

    The current version goes to the trash, so restoring again reverts it.
    """
    with open_library(path, options) as library:
        memory = library.notebook().restore(clean_text(name), version=version, author=AUTHOR)
    _report("Restored", memory, as_json)


@examples('lookfar memory merge keys "All about keys." keys-rotate keys-storage')
@memory.command()
@click.argument("into")
@click.argument("text")
@click.argument("sources", nargs=-1, required=True)
@path_option
@library_options
def merge(
    into: str, text: str, sources: tuple[str, ...], path: str | None, as_json: bool, **options: Any
) -> None:
    """Replace the memories SOURCES by one memory INTO with TEXT.

    The sources go to the trash. The last argument may be the folder, written as a path: ./docs
    """
    names, folder = split_folder(sources, path, is_name=_is_bare_name)
    with open_library(folder, options) as library:
        memory = library.notebook().merge(
            tuple(map(clean_text, names)), clean_text(into), clean_text(text), author=AUTHOR
        )
    _report("Merged into", memory, as_json)


def _is_bare_name(argument: str) -> bool:
    """Return whether an argument is the name of a memory, even if a folder has that name, too."""
    return argument not in (".", "..") and not any(mark in argument for mark in "/\\~")


@examples("lookfar memory stats --json")
@memory.command()
@folder_argument()
@library_options
def stats(path: str, as_json: bool, **options: Any) -> None:
    """Count memories by type, status and tag."""
    with open_library(path, options) as library:
        counts = asdict(library.notebook().stats())
    if as_json:
        write_json(counts)
        return
    for name, value in counts.items():
        if isinstance(value, dict):
            line = ", ".join(f"{key} {count}" for key, count in value.items())
        else:
            line = f"{value:,}"
        write(safe_name(f"{name.replace('_', ' ')}: {line or 'none'}"))

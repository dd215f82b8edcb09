"""``lookfar memory`` and ``lookfar remember``: what agents and people keep, from a terminal.

Takes: a command line. Gives: memories written, listed, read, changed and put away, for people
or with ``--json`` for scripts. Refuses: a change that changes nothing.
"""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.errors import InvalidArgument
from lookfar.serve.cli.exits import GuardedGroup, write, write_json
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    library_options,
    open_library,
    path_option,
)
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.edit.memory_file import Memory

AUTHOR: Final = "command line"
TYPES: Final = ("plan", "journal", "fact", "observation", "reflection")
STATUSES: Final = ("active", "archived")


def _shape(found: Memory) -> dict[str, Any]:
    return asdict(found) | {"tags": list(found.tags), "warnings": list(found.warnings)}


def _told(did: str, found: Memory, as_json: bool) -> None:
    if as_json:
        write_json(_shape(found))
        return
    write(safe_name(f"{did} {found.name}"))
    for each in found.warnings:
        click.echo(safe_name(f"{found.name}: {each}"), err=True)


@examples(
    'lookfar remember "Keys rotate in March." --about security/keys.md --tag keys',
    'lookfar remember "Ask Ada before touching the parser." --type plan --path ~/work/engine',
)
@click.command()
@click.argument("text")
@click.option("--title", default="", help="Its title, which also names the file.")
@click.option("--type", "kind", type=click.Choice(TYPES), default="fact", help="What it is.")
@click.option("--tag", "tags", multiple=True, help="A tag. Repeatable.")
@click.option(
    "--about", multiple=True, metavar="URI", help="A document that it links to. Repeatable."
)
@path_option
@library_options
def remember(
    text: str,
    title: str,
    kind: str,
    tags: tuple[str, ...],
    about: tuple[str, ...],
    path: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Keep TEXT as a memory of a folder.

    It is a Markdown file, found by search beside documents and code.
    """
    with open_library(path, options) as library:
        _, made = library.remember(
            clean_text(text),
            title=clean_text(title),
            type=kind,
            tags=tuple(map(clean_text, tags)),
            about=tuple(map(clean_text, about)),
            author=AUTHOR,
        )
        place = library.notebook().folder / made.name
    if as_json:
        write_json(_shape(made) | {"path": str(place)})
    else:
        write(safe_name(f"Remembered in {place}"))


@examples(
    "lookfar memory list --tag keys",
    "lookfar memory read keys-rotate",
    'lookfar memory append keys-rotate "The auditors agreed."',
)
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def memory(ctx: click.Context) -> None:
    """Keep, read and put away what is remembered of a folder.

    Memories are Markdown files: edit them with whatever you like. remember is short for
    memory add.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


add = copy(remember)
add.name = "add"
memory.add_command(examples('lookfar memory add "Keys rotate in March." --tag keys')(add))


@examples("lookfar memory list --type plan", "lookfar memory list --trash --json")
@memory.command("list")
@click.option("--type", "kind", type=click.Choice(TYPES), help="Only of this type.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag. Repeatable: all of them.")
@click.option("--trash", is_flag=True, help="What is in the trash instead.")
@path_option
@library_options
def list_(
    kind: str | None, tags: tuple[str, ...], trash: bool, path: str, as_json: bool, **options: Any
) -> None:
    """List memories, or what is in their trash."""
    with open_library(path, options) as library:
        notebook = library.notebook()
        if trash:
            gone = notebook.trash()
        else:
            found = notebook.memories(type=kind or "", tags=map(clean_text, tags))
    if trash:
        if as_json:
            write_json({"folder": str(notebook.folder), "trash": [asdict(each) for each in gone]})
            return
        from lookfar.serve.show import render

        past = [(e.name, str(e.version), "deleted" if e.deleted else "earlier") for e in gone]
        write(render.table(("name", "version", "state"), past) if past else "The trash is empty.")
        return
    if as_json:
        write_json({"folder": str(notebook.folder), "memories": [_shape(each) for each in found]})
        return
    from lookfar.serve.show import render

    rows = [
        (m.name, m.type or "-", m.created_at[:10], m.title, " ".join(f"#{tag}" for tag in m.tags))
        for m in found
    ]
    if rows:
        write(render.table(("name", "type", "made", "title", "tags"), rows))
    write(safe_name(f"{len(found)} in {notebook.folder}"))


@examples("lookfar memory read keys-rotate")
@memory.command()
@click.argument("name")
@path_option
@library_options
def read(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Print a memory. NAME is that of its file."""
    with open_library(path, options) as library:
        found = library.notebook().read(clean_text(name))
    if as_json:
        write_json(_shape(found))
        return
    said = (found.type, found.status, found.created_at, found.author)
    write(safe_name(f"{found.name}  {found.title}  " + "  ".join(filter(None, said))))
    write("\n" + safe_text(found.text))


@examples(
    'lookfar memory edit keys-rotate "Keys rotate in April."',
    "lookfar memory edit keys-rotate --status archived",
)
@memory.command()
@click.argument("name")
@click.argument("text", required=False)
@click.option("--type", "kind", type=click.Choice(TYPES), help="What it is from now on.")
@click.option("--status", type=click.Choice(STATUSES), help="Whether it still holds.")
@click.option("--tag", "tags", multiple=True, help="A tag, in place of those it has. Repeatable.")
@path_option
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
    """Give the memory NAME another TEXT, type, status or tags; the rest stays.

    What it was goes to the trash, so restore takes it back.
    """
    if text is None and not (kind or status or tags):
        raise InvalidArgument(
            "Nothing would change.", hint="Give a text, --type, --status or --tag."
        )
    with open_library(path, options) as library:
        found = library.notebook().update(
            clean_text(name),
            None if text is None else clean_text(text),
            type=kind or "",
            status=status or "",
            tags=list(map(clean_text, tags)) if tags else None,
            author=AUTHOR,
        )
    _told("Changed", found, as_json)


@examples('lookfar memory append keys-rotate "The auditors agreed."')
@memory.command()
@click.argument("name")
@click.argument("text")
@path_option
@library_options
def append(name: str, text: str, path: str, as_json: bool, **options: Any) -> None:
    """Add TEXT as a paragraph to the memory NAME."""
    with open_library(path, options) as library:
        found = library.notebook().append(clean_text(name), clean_text(text), author=AUTHOR)
    _told("Added to", found, as_json)


@examples("lookfar memory delete keys-rotate")
@memory.command()
@click.argument("name")
@path_option
@library_options
def delete(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Move the memory NAME into the trash."""
    with open_library(path, options) as library:
        notebook = library.notebook()
        found = notebook.read(clean_text(name))
        notebook.delete(clean_text(name), author=AUTHOR)
    _told("Deleted", found, as_json)


@examples("lookfar memory restore keys-rotate", "lookfar memory restore keys-rotate --version 1")
@memory.command()
@click.argument("name")
@click.option("--version", type=int, metavar="N", help="Its number in the trash (the last one).")
@path_option
@library_options
def restore(name: str, version: int | None, path: str, as_json: bool, **options: Any) -> None:
    """Bring the memory NAME back, or take back its last change.

    What it is now goes to the trash, so restoring again undoes it.
    """
    with open_library(path, options) as library:
        found = library.notebook().restore(clean_text(name), version=version, author=AUTHOR)
    _told("Restored", found, as_json)


@examples('lookfar memory merge keys "All about keys." keys-rotate keys-storage')
@memory.command()
@click.argument("into")
@click.argument("text")
@click.argument("sources", nargs=-1, required=True)
@path_option
@library_options
def merge(
    into: str, text: str, sources: tuple[str, ...], path: str, as_json: bool, **options: Any
) -> None:
    """Make one memory INTO with TEXT of SOURCES, which go to the trash."""
    with open_library(path, options) as library:
        found = library.notebook().merge(
            tuple(map(clean_text, sources)), clean_text(into), clean_text(text), author=AUTHOR
        )
    _told("Merged into", found, as_json)


@examples("lookfar memory stats --json")
@memory.command()
@path_option
@library_options
def stats(path: str, as_json: bool, **options: Any) -> None:
    """Count memories by type, status and tag."""
    with open_library(path, options) as library:
        found = asdict(library.notebook().stats())
    if as_json:
        write_json(found)
        return
    for name, value in found.items():
        counts = ", ".join(f"{each} {n}" for each, n in value.items()) if isinstance(
            value, dict
        ) else f"{value:,}"  # fmt: skip
        write(safe_name(f"{name.replace('_', ' ')}: {counts or 'none'}"))

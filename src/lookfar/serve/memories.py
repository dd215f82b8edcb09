"""``lookfar remember`` and ``lookfar memories``: what agents and people keep, from a terminal.

Takes: a command line. Gives: memories written, listed, shown and put away, for people or with
``--json`` for scripts. Refuses: to edit; memories are files, and everybody has an editor.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.serve.exits import GuardedGroup, write, write_json
from lookfar.serve.options import common, opened, utf8
from lookfar.serve.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.edit.memories import Memory

AUTHOR: Final = "command line"
TYPES: Final = ("plan", "journal", "fact", "observation", "reflection")


def _where(command: Any) -> Any:
    """The folder that a command is about, as an option: texts and names come first."""
    return click.option(
        "--path", default=".", metavar="PATH", help="The folder it is about (default: this one)."
    )(command)


def _shape(found: Memory) -> dict[str, Any]:
    return asdict(found) | {"tags": list(found.tags), "warnings": list(found.warnings)}


def _told(did: str, found: Memory, as_json: bool) -> None:
    if as_json:
        write_json(_shape(found))
        return
    write(safe_name(f"{did} {found.name}"))
    for each in found.warnings:
        click.echo(safe_name(f"{found.name}: {each}"), err=True)


@click.command()
@click.argument("text")
@click.option("--title", default="", help="Its title, which also names the file.")
@click.option("--type", "kind", type=click.Choice(TYPES), default="fact", help="What it is.")
@click.option("--tag", "tags", multiple=True, help="A tag. Repeatable.")
@click.option(
    "--about", multiple=True, metavar="URI", help="A document that it links to. Repeatable."
)
@_where
@common
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
    with opened(path, options) as library:
        _, made = library.remember(
            utf8(text),
            title=utf8(title),
            type=kind,
            tags=tuple(map(utf8, tags)),
            about=tuple(map(utf8, about)),
            author=AUTHOR,
        )
        place = library.notebook().folder / made.name
    if as_json:
        write_json(_shape(made) | {"path": str(place)})
    else:
        write(safe_name(f"Remembered in {place}"))


@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def memories(ctx: click.Context) -> None:
    """List, show and put away what is remembered of a folder.

    Memories are Markdown files: edit them with whatever you like.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@memories.command("list")
@click.option("--type", "kind", type=click.Choice(TYPES), help="Only of this type.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag. Repeatable: all of them.")
@click.option("--trash", is_flag=True, help="What is in the trash instead.")
@_where
@common
def list_(
    kind: str | None, tags: tuple[str, ...], trash: bool, path: str, as_json: bool, **options: Any
) -> None:
    """List memories, or what is in their trash."""
    with opened(path, options) as library:
        notebook = library.notebook()
        if trash:
            gone = notebook.trash()
        else:
            found = notebook.memories(type=kind or "", tags=map(utf8, tags))
    if trash:
        if as_json:
            write_json({"folder": str(notebook.folder), "trash": [asdict(each) for each in gone]})
            return
        for each in gone:
            state = "deleted" if each.deleted else "earlier"
            write(safe_name(f"{each.name}  {each.version}  {state}"))
        return
    if as_json:
        write_json({"folder": str(notebook.folder), "memories": [_shape(each) for each in found]})
        return
    for memory in found:
        parts = (memory.name, memory.type or "-", memory.created_at[:10], memory.title)
        write(safe_name("  ".join((*parts, *(f"#{tag}" for tag in memory.tags)))))
    write(safe_name(f"{len(found)} in {notebook.folder}"))


@memories.command()
@click.argument("name")
@_where
@common
def show(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Print a memory. NAME is that of its file."""
    with opened(path, options) as library:
        found = library.notebook().read(utf8(name))
    if as_json:
        write_json(_shape(found))
        return
    said = (found.type, found.status, found.created_at, found.author)
    write(safe_name(f"{found.name}  {found.title}  " + "  ".join(filter(None, said))))
    write("\n" + safe_text(found.text))


@memories.command()
@click.argument("name")
@click.argument("text")
@_where
@common
def append(name: str, text: str, path: str, as_json: bool, **options: Any) -> None:
    """Add TEXT as a paragraph to the memory NAME."""
    with opened(path, options) as library:
        found = library.notebook().append(utf8(name), utf8(text), author=AUTHOR)
    _told("Added to", found, as_json)


@memories.command()
@click.argument("name")
@_where
@common
def delete(name: str, path: str, as_json: bool, **options: Any) -> None:
    """Move the memory NAME into the trash."""
    with opened(path, options) as library:
        notebook = library.notebook()
        found = notebook.read(utf8(name))
        notebook.delete(utf8(name), author=AUTHOR)
    _told("Deleted", found, as_json)


@memories.command()
@click.argument("name")
@click.option("--version", type=int, metavar="N", help="Its number in the trash (the last one).")
@_where
@common
def restore(name: str, version: int | None, path: str, as_json: bool, **options: Any) -> None:
    """Bring the memory NAME back, or take back its last change.

    What it is now goes to the trash, so restoring again undoes it.
    """
    with opened(path, options) as library:
        found = library.notebook().restore(utf8(name), version=version, author=AUTHOR)
    _told("Restored", found, as_json)


@memories.command()
@click.argument("into")
@click.argument("text")
@click.argument("sources", nargs=-1, required=True)
@_where
@common
def merge(
    into: str, text: str, sources: tuple[str, ...], path: str, as_json: bool, **options: Any
) -> None:
    """Make one memory INTO with TEXT of SOURCES, which go to the trash."""
    with opened(path, options) as library:
        found = library.notebook().merge(
            tuple(map(utf8, sources)), utf8(into), utf8(text), author=AUTHOR
        )
    _told("Merged into", found, as_json)


@memories.command()
@_where
@common
def stats(path: str, as_json: bool, **options: Any) -> None:
    """Count memories by type, status and tag."""
    with opened(path, options) as library:
        found = asdict(library.notebook().stats())
    if as_json:
        write_json(found)
        return
    for name, value in found.items():
        counts = ", ".join(f"{each} {n}" for each, n in value.items()) if isinstance(
            value, dict
        ) else f"{value:,}"  # fmt: skip
        write(safe_name(f"{name.replace('_', ' ')}: {counts or 'none'}"))

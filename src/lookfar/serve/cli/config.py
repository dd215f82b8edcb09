"""``lookfar config``: settings shown with where they come from, changed, checked and moved here.

Takes: a command line, and the settings files of Lookfar and of the systems it stands in for.
Gives: values with their origin, and files edited at exact spans, so that comments and order
stay. Refuses: to write a file that would then be refused, and one that changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from lookfar.errors import InvalidArgument, InvalidConfig, NotFound
from lookfar.serve.cli.exits import CHECK_FAILED, GuardedGroup, write, write_json
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    output_options,
    path_option,
    quote,
    set_option,
)
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.config import Settings, Value
    from lookfar.serve.setup.migration import Migrated


_SYSTEMS: Final = ("anvil", "msrl", "ragdocs", "document-db", "search-mcp")
"""Those of :mod:`lookfar.serve.setup.systems`, said again so that ``--help`` does not import
them."""


def _in_project(command: Any) -> Any:
    return click.option(
        "--project", is_flag=True, help="In the folder's own lookfar.toml, not in your own file."
    )(command)


@examples(
    "lookfar config show search --changed",
    "lookfar config set search.top_k 5",
    "lookfar config migrate .msrl/config.json",
)
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show settings and where they come from, change and check them.

    A setting has a dotted key, such as search.top_k. Your own file holds for every folder, and
    a folder's lookfar.toml for that folder.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples(
    "lookfar config show",
    "lookfar config show search chunk",
    "lookfar config show --changed --json",
)
@config.command()
@click.argument("sections", nargs=-1, metavar="[SECTION]...")
@click.option("--changed", "chosen", is_flag=True, help="Only what is not a default.")
@path_option
@set_option
@output_options
def show(
    sections: tuple[str, ...], chosen: bool, path: str, settings: tuple[str, ...], as_json: bool
) -> None:
    """Show every setting, its value and where that comes from.

    SECTION keeps it to the settings that begin so, such as search or search.rerank.
    """
    from lookfar.config import describe

    resolved, root = _resolved(path, settings)
    docs = {doc.key: doc for doc in describe()}
    for each in sections:
        if not any(_within(key, each) for key in docs):
            _unknown_section(each, docs)
    keys = [
        key
        for key in docs
        if (not sections or any(_within(key, each) for each in sections))
        and not (chosen and resolved.origin[key] == "default")
    ]
    shapes = [{**_shape(key, resolved, root), "default": _plain(docs[key].default)} for key in keys]
    if as_json:
        write_json({"settings": shapes})
        return
    from lookfar.serve.show import render

    rows = [
        (shape["key"], _written(shape["value"]), shape["origin"], shape["place"])
        for shape in shapes
    ]
    write(render.table(("key", "value", "from", "where"), rows) if rows else "Nothing is set.")


@examples("lookfar config get search.top_k", "lookfar config get embed.provider --path docs --json")
@config.command()
@click.argument("key")
@path_option
@set_option
@output_options
def get(key: str, path: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the value of a setting."""
    from lookfar.config import check_key

    name = check_key(clean_text(key))
    resolved, root = _resolved(path, settings)
    shape = _shape(name, resolved, root)
    if as_json:
        write_json(shape)
    else:
        value = shape["value"]
        write(
            safe_text("\n".join(value) if isinstance(value, list) else _written(value, bare=True))
        )


@examples(
    "lookfar config set search.top_k 5",
    'lookfar config set sources.exclude "drafts/**,*.tmp.md" --project',
)
@config.command("set")
@click.argument("key")
@click.argument("value")
@_in_project
@path_option
@output_options
def set_(key: str, value: str, project: bool, path: str, as_json: bool) -> None:
    """Write a setting into a file, beside what is there; comments and order stay.

    A list is separated by commas.
    """
    from lookfar.config import check_key
    from lookfar.serve.setup import toml_text

    name = check_key(clean_text(key))
    typed = parse_settings((f"{name}={clean_text(value)}",))[name]
    section, _, leaf = name.rpartition(".")
    inside = (section,) if section else ()
    place = _edited(project, path, lambda text: toml_text.put(text, inside, {leaf: typed}))
    if as_json:
        write_json({"key": name, "value": typed, "file": str(place)})
    else:
        write(safe_name(f"{name} = {_written(typed)} in {place}"))


@examples("lookfar config unset search.top_k")
@config.command()
@click.argument("key")
@_in_project
@path_option
@output_options
def unset(key: str, project: bool, path: str, as_json: bool) -> None:
    """Take a setting out of a file, so that another place or its default decides."""
    from lookfar.config import check_key
    from lookfar.serve.setup import toml_text

    name = check_key(clean_text(key))
    before = _text(_file(project, path), project) or ""
    place = _edited(project, path, lambda text: toml_text.drop(text, tuple(name.split("."))))
    removed = (_text(place, project) or "") != before
    if as_json:
        write_json({"key": name, "removed": removed, "file": str(place)})
    else:
        write(
            safe_name(
                f"{name} is no longer set in {place}"
                if removed
                else f"{name} was not set in {place}"
            )
        )


@examples("lookfar config path", "lookfar config path --json")
@config.command("path")
@path_option
@output_options
def path_(path: str, as_json: bool) -> None:
    """Tell where settings are read from."""
    places = {"user": _file(False, path), "project": _file(True, path)}
    if as_json:
        shapes = [
            {"layer": layer, "file": str(place), "exists": place.is_file()}
            for layer, place in places.items()
        ]
        write_json({"files": shapes})
        return
    from lookfar.serve.show import render

    rows = [
        (layer, str(place), "" if place.is_file() else "not there")
        for layer, place in places.items()
    ]
    write(render.table(("layer", "file", "state"), rows))


@examples("lookfar config check", "lookfar config check team/lookfar.toml --project")
@config.command()
@click.argument("file", required=False)
@click.option("--project", is_flag=True, help="FILE is a folder's own.")
@path_option
@output_options
def check(file: str | None, project: bool, path: str, as_json: bool) -> int:
    """Check settings files and say all that is wrong; exit code 9 where something is.

    FILE is one to check (default: your own and that of the folder, and the variables).
    """
    from lookfar.config import find_problems

    found: list[InvalidConfig] = []
    checked: list[Path] = []
    named = (
        [(Path(file), project)] if file else [(_file(kind, path), kind) for kind in (False, True)]
    )
    for place, own in named:
        text = _text(place, own)
        if text is None and file:
            raise NotFound(f"There is no file {file!r}.", hint="Name one that is there.")
        if text is not None:
            checked.append(place)
            found += find_problems(text, place, project=own)
    if not file and not found:
        try:
            _resolved(path, ())
        except InvalidConfig as error:
            found.append(error)
    if as_json:
        shapes = [each.as_dict() for each in found]
        write_json({"ok": not found, "files": list(map(str, checked)), "problems": shapes})
    else:
        for each in found:
            write(safe_name(f"{each.message} {each.hint}"))
        if not found:
            write(safe_name(f"ok: {', '.join(map(str, checked)) or 'nothing is set'}"))
    return CHECK_FAILED if found else 0


@examples(
    "lookfar config migrate .msrl/config.json",
    "lookfar config migrate ~/.config/mcp-markdown-ragdocs/config.toml --from ragdocs",
    "lookfar config migrate config.json --write --path docs",
)
@config.command()
@click.argument("file")
@click.option(
    "--from", "system", type=click.Choice(_SYSTEMS),
    help="Whose file it is (default: its keys tell).",
)  # fmt: skip
@click.option("--write", "writing", is_flag=True, help="Make the folder's lookfar.toml of it.")
@path_option
@output_options
def migrate(file: str, system: str | None, writing: bool, path: str, as_json: bool) -> None:
    """Say in our settings what the configuration of another system says.

    FILE is a config of Anvil, MSRL, ragdocs, Document DB or Search MCP, or a file of their
    variables (.env). What only your own file may set is given as commands, and what has no
    counterpart is named with the reason.
    """
    from lookfar.config import read_settings_file
    from lookfar.serve.setup.migration import migrated

    text = read_settings_file(Path(file))
    if text is None:
        raise NotFound(f"There is no file {file!r}.", hint="Name one that is there.")
    done = migrated(text, Path(file), system or "")
    target = _file(True, path)
    if writing:
        if target.exists():
            raise InvalidArgument(
                f"{target} is there already.", hint="Leave out --write and copy what you need."
            )
        _written_to(target, done.toml.encode(), None, project=True)
    if as_json:
        write_json({**done.as_dict(), "written": str(target) if writing else ""})
        return
    if writing:
        write(safe_name(f"Wrote {target}"))
    else:
        write(safe_text(done.toml))
    _tell_rest(done)


def _tell_rest(done: Migrated) -> None:
    """What a person still has to do or know, beside the file."""
    for key, value in done.own.items():
        shown = ",".join(value) if isinstance(value, list) else _written(value, bare=True)
        click.echo(safe_name(f"To set it too: lookfar config set {key} {quote(shown)}"), err=True)
    for each in done.left:
        click.echo(safe_name(f"no counterpart: {each.theirs}: {each.note}"), err=True)


# --- what they share ----------------------------------------------------------------------------


def _resolved(path: str, given: tuple[str, ...]) -> tuple[Settings, Path]:
    from lookfar.config import load

    root = Path(path)
    return load(root, parse_settings(given)), root


def _shape(key: str, resolved: Settings, root: Path) -> dict[str, Any]:
    from lookfar.config import as_dict, describe_origin

    return {
        "key": key,
        "value": _plain(as_dict(resolved)[key]),
        "origin": resolved.origin[key],
        "place": describe_origin(key, resolved, root),
    }


def _plain(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _written(value: Any, *, bare: bool = False) -> str:
    """A value as it is written in a file; ``bare`` leaves out the quotes of a text."""
    if bare and isinstance(value, str):
        return value
    from lookfar.serve.setup.toml_text import as_toml

    return as_toml(value)


def _within(key: str, section: str) -> bool:
    return key.startswith(section) if "." in section else key.split(".")[0] == section


def _unknown_section(name: str, known: Iterable[str]) -> NoReturn:
    from difflib import get_close_matches

    keys = list(known)
    sections = sorted({key.split(".")[0] for key in keys})
    near = get_close_matches(name, [*sections, *keys], n=1, cutoff=0.5)
    raise InvalidArgument(
        f"No setting begins with {name[:100]!r}.",
        hint=f"Did you mean {near[0]}?" if near else f"Sections: {', '.join(sections)}.",
        details={"candidates": near},
    )


def _file(project: bool, path: str) -> Path:
    from lookfar.config import PROJECT_FILE, config_file

    return Path(path).resolve() / PROJECT_FILE if project else config_file()


def _text(place: Path, project: bool) -> str | None:
    from lookfar.config import read_settings_file

    return read_settings_file(place, project=project)


def _edited(project: bool, path: str, change: Callable[[str], str]) -> Path:
    """A settings file with a change that leaves it one that can be used."""
    from lookfar.config import find_problems
    from lookfar.serve.setup.malformed import Malformed

    place = _file(project, path)
    before = _text(place, project)
    try:
        after = change(before or "")
    except Malformed as error:
        raise InvalidConfig(
            f"{place} cannot be edited: {error}.", hint="Change it with an editor.",
            details={"file": str(place)},
        ) from error  # fmt: skip
    wrong = find_problems(after, place, project=project)
    # Whoever mends a file with two faults begins with one of them.
    if wrong and len(wrong) >= (
        len(find_problems(before, place, project=project)) if before else 0
    ):
        raise wrong[0]
    if after != (before or ""):
        _written_to(place, after.encode(), before, project=project)
    return place


def _written_to(place: Path, data: bytes, before: str | None, *, project: bool) -> None:
    from lookfar.serve.setup import backups, edits

    real = place if project else place.resolve()
    if project and not real.parent.is_dir():
        raise NotFound(f"There is no folder {str(real.parent)!r}.", hint="Name one that is there.")
    edits.refuse_unwritable(real)
    old = edits.read(real)
    if (None if old is None else old.decode("utf-8-sig")) != before:
        raise backups.changed(real)
    # The mark that some editors begin a file with stays.
    mark = edits.BOM if old is not None and old.startswith(edits.BOM) else b""
    backups.replace_file(real, mark + data, old)

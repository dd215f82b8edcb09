"""``lookfar config``: show, change and check settings, and convert those of other systems.

Settings files are edited in place, so that comments and order stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from lookfar.errors import InvalidArgument, InvalidConfig, LookfarError, NotFound
from lookfar.serve.cli.exits import (
    CHECK_FAILED,
    GuardedGroup,
    write,
    write_either,
    write_json,
    write_table,
)
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    folder_argument,
    output_options,
    path_option,
    quote,
    set_option,
    split_folder,
)
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show.json_shapes import plain
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.serve.setup.migration import Migration


_SYSTEMS: Final = ("anvil", "msrl", "ragdocs", "document-db", "search-mcp")
"""The same as in :mod:`lookfar.config.foreign.systems`, which ``--help`` must not import."""


def _project_option(command: Any) -> Any:
    return click.option(
        "--project", is_flag=True, help="Use the folder's lookfar.toml, not your own file."
    )(command)


@examples(
    "lookfar config show search --changed",
    "lookfar config set search.top_k 5",
    "lookfar config migrate .msrl/config.json",
)
@click.group(cls=GuardedGroup)
def config() -> None:
    """Show settings and their origin, change them and check them.

    A setting has a dotted key, such as search.top_k. Your own file applies to every folder, and
    a folder's lookfar.toml to that folder. PATH, the last argument, is the folder (default: the
    current one).
    """


@examples(
    "lookfar config show",
    "lookfar config show search chunk",
    "lookfar config show --changed --json",
)
@config.command()
@click.argument("sections", nargs=-1, metavar="[SECTION]...")
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
@path_option
@set_option
@output_options
def show(
    sections: tuple[str, ...],
    changed: bool,
    path: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show settings, their values, and where the values come from.

    SECTION selects the settings that start with it, such as search or search.rerank. With a
    toolset of another system (--set serve.toolset=msrl), settings of its configuration that have
    no effect are listed, too. The last argument may be the folder (default: the current one).
    """
    from lookfar.config import describe

    docs = {doc.key: doc for doc in describe()}
    sections, folder = split_folder(
        sections, path, at_least=0, is_name=lambda word: any(_is_within(key, word) for key in docs)
    )
    resolved, root = _load_settings(folder, settings)
    for section in sections:
        if not any(_is_within(key, section) for key in docs):
            _refuse_section(section, docs)
    keys = [
        key
        for key in docs
        if (not sections or any(_is_within(key, section) for section in sections))
        and not (changed and resolved.origin[key] == "default")
    ]
    shapes = [{**_shape(key, resolved, root), "default": plain(docs[key].default)} for key in keys]
    if as_json:
        write_json({"settings": shapes, **_shape_foreign(resolved)})
        return
    rows = [
        (shape["key"], _format(shape["value"]), shape["origin"], shape["place"]) for shape in shapes
    ]
    write_table(("key", "value", "from", "where"), rows, "All settings have their defaults.")
    for note in resolved.foreign.notes:
        click.echo(safe_name(f"no effect: {note}"), err=True)


@examples("lookfar config get search.top_k", "lookfar config get embed.provider --path docs --json")
@config.command()
@click.argument("key")
@folder_argument()
@set_option
@output_options
def get(key: str, path: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the value of a setting."""
    from lookfar.config import check_key

    name = check_key(clean_text(key))
    shape = _shape(name, *_load_settings(path, settings))
    value = shape["value"]
    text = "\n".join(value) if isinstance(value, list) else _format(value, bare=True)
    write_either(as_json, shape, safe_text(text))


@examples(
    "lookfar config set search.top_k 5",
    'lookfar config set sources.exclude "drafts/**,*.tmp.md" --project',
)
@config.command("set")
@click.argument("key")
@click.argument("value")
@_project_option
@folder_argument()
@output_options
def set_(key: str, value: str, project: bool, path: str, as_json: bool) -> None:
    """Write a setting to a file; the rest of the file stays as it is.

    Separate the items of a list with commas.
    """
    from lookfar.config import check_key
    from lookfar.serve.setup import toml_text

    name = check_key(clean_text(key))
    typed = parse_settings((f"{name}={clean_text(value)}",))[name]
    section, _, leaf = name.rpartition(".")
    table = (section,) if section else ()
    file = _edit_file(project, path, lambda text: toml_text.put(text, table, {leaf: typed}))
    text = safe_name(f"{name} = {_format(typed)} in {file}")
    write_either(as_json, {"key": name, "value": typed, "file": str(file)}, text)


@examples("lookfar config unset search.top_k")
@config.command()
@click.argument("key")
@_project_option
@folder_argument()
@output_options
def unset(key: str, project: bool, path: str, as_json: bool) -> None:
    """Remove a setting from a file, so that another file or its default applies."""
    from lookfar.config import RETIRED, check_key
    from lookfar.serve.setup import toml_text

    name = clean_text(key)
    if name not in RETIRED:
        check_key(name)
    before = _read_file(_settings_file(project, path), project) or ""
    file = _edit_file(project, path, lambda text: toml_text.drop(text, tuple(name.split("."))))
    removed = (_read_file(file, project) or "") != before
    text = safe_name(f"{name} {'is no longer set' if removed else 'was not set'} in {file}")
    write_either(as_json, {"key": name, "removed": removed, "file": str(file)}, text)


@examples("lookfar config path", "lookfar config path --json")
@config.command("path")
@folder_argument()
@output_options
def path_(path: str, as_json: bool) -> None:
    """Show which files settings are read from."""
    files = {"user": _settings_file(False, path), "project": _settings_file(True, path)}
    if as_json:
        shapes = [
            {"layer": layer, "file": str(file), "exists": file.is_file()}
            for layer, file in files.items()
        ]
        write_json({"files": shapes})
        return
    rows = [
        (layer, str(file), "" if file.is_file() else "does not exist")
        for layer, file in files.items()
    ]
    write_table(("layer", "file", "state"), rows, "")


@examples("lookfar config check", "lookfar config check team/lookfar.toml --project")
@config.command()
@click.argument("file", required=False)
@click.option("--project", is_flag=True, help="Check FILE as a folder's lookfar.toml.")
@folder_argument(default=None)
@output_options
def check(file: str | None, project: bool, path: str | None, as_json: bool) -> int:
    """Check settings files and list all errors; exit code 9 if there are any.

    FILE is a file to check (default: your own, the folder's, and environment variables).
    """
    from lookfar.config import find_problems

    if file and path is None and Path(file).is_dir():
        file, path = None, file
    path = "." if path is None else path
    errors: list[LookfarError] = []
    checked: list[Path] = []
    if file:
        candidates = [(Path(file), project)]
    else:
        candidates = [(_settings_file(layer, path), layer) for layer in (False, True)]
    for candidate, is_project in candidates:
        text = _read_file(candidate, is_project)
        if text is None and file:
            raise NotFound(f"There is no file {file!r}.", hint="Check the path.")
        if text is not None:
            checked.append(candidate)
            errors += find_problems(text, candidate, project=is_project)
    if not file and not errors:
        from lookfar.sources.signing import read_trusted_keys

        try:
            read_trusted_keys(_load_settings(path, ())[0].outside.trusted_keys)
        except (InvalidConfig, InvalidArgument) as error:
            errors.append(error)
    if as_json:
        shapes = [error.as_dict() for error in errors]
        write_json({"ok": not errors, "files": list(map(str, checked)), "problems": shapes})
    else:
        for problem in errors:
            write(safe_name(f"{problem.message} {problem.hint}"))
        if not errors:
            write(safe_name(f"ok: {', '.join(map(str, checked)) or 'no settings files'}"))
    return CHECK_FAILED if errors else 0


@examples(
    "lookfar config migrate .msrl/config.json",
    "lookfar config migrate ~/.config/mcp-markdown-ragdocs/config.toml --from ragdocs",
    "lookfar config migrate config.json --write --path docs",
)
@config.command()
@click.argument("file")
@click.option(
    "--from", "system", type=click.Choice(_SYSTEMS),
    help="The system that FILE belongs to (default: detected from its keys).",
)  # fmt: skip
@click.option("--write", "write_file", is_flag=True, help="Write the folder's lookfar.toml.")
@folder_argument()
@output_options
def migrate(file: str, system: str | None, write_file: bool, path: str, as_json: bool) -> None:
    """Convert the configuration of another system to Lookfar's settings.

    FILE is a configuration of Anvil, MSRL, ragdocs, Document DB or Search MCP, or a .env file
    with their variables. Settings that only your own file may contain are printed as commands;
    settings without a counterpart are listed with the reason.
    """
    from lookfar.config import read_settings_file
    from lookfar.serve.setup.migration import migrate_text

    text = read_settings_file(Path(file))
    if text is None:
        raise NotFound(f"There is no file {file!r}.", hint="Check the path.")
    migration = migrate_text(text, Path(file), system or "")
    target = _settings_file(True, path)
    if write_file:
        if target.exists():
            raise InvalidArgument(
                f"{target} exists already.", hint="Omit --write and copy what you need."
            )
        _write_file(target, migration.toml.encode(), None, project=True)
    if as_json:
        write_json({**migration.as_dict(), "written": str(target) if write_file else ""})
        return
    if write_file:
        write(safe_name(f"Wrote {target}"))
    else:
        write(safe_text(migration.toml))
    _report_rest(migration)


def _report_rest(migration: Migration) -> None:
    """Report on stderr what the migrated file does not contain."""
    for key, value in migration.own.items():
        text = ",".join(value) if isinstance(value, list) else _format(value, bare=True)
        click.echo(safe_name(f"Also run: lookfar config set {key} {quote(text)}"), err=True)
    for unmatched in migration.unmatched:
        click.echo(safe_name(f"no counterpart: {unmatched.theirs}: {unmatched.note}"), err=True)


def _load_settings(path: str, overrides: tuple[str, ...]) -> tuple[Settings, Path]:
    from lookfar.config import load

    root = Path(path)
    return load(root, parse_settings(overrides)), root


def _shape(key: str, resolved: Settings, root: Path) -> dict[str, Any]:
    from lookfar.config import as_dict, describe_origin

    return {
        "key": key,
        "value": plain(as_dict(resolved)[key]),
        "origin": resolved.origin[key],
        "place": describe_origin(key, resolved, root),
    }


def _shape_foreign(resolved: Settings) -> dict[str, Any]:
    """Describe the configuration of another system, if its toolset is chosen."""
    foreign = resolved.foreign
    if not foreign.system:
        return {}
    notes = [{"place": n.place, "key": n.key, "reason": n.reason} for n in foreign.notes]
    files = [str(file) for file in foreign.files]
    return {"foreign": {"system": foreign.system, "files": files, "notes": notes}}


def _format(value: Any, *, bare: bool = False) -> str:
    """Format a value as TOML; ``bare`` omits the quotes of a string."""
    if bare and isinstance(value, str):
        return value
    from lookfar.serve.setup.toml_text import as_toml

    return as_toml(value)


def _is_within(key: str, section: str) -> bool:
    return key.startswith(section) if "." in section else key.split(".")[0] == section


def _refuse_section(name: str, known: Iterable[str]) -> NoReturn:
    from difflib import get_close_matches

    keys = list(known)
    sections = sorted({key.split(".")[0] for key in keys})
    near = get_close_matches(name, [*sections, *keys], n=1, cutoff=0.5)
    raise InvalidArgument(
        f"No setting starts with {name[:100]!r}.",
        hint=f"Did you mean {near[0]}?" if near else f"Sections: {', '.join(sections)}.",
        details={"candidates": near},
    )


def _settings_file(project: bool, path: str) -> Path:
    from lookfar.config import PROJECT_FILE, config_file

    return Path(path).resolve() / PROJECT_FILE if project else config_file()


def _read_file(file: Path, project: bool) -> str | None:
    from lookfar.config import read_settings_file

    return read_settings_file(file, project=project)


def _edit_file(project: bool, path: str, change: Callable[[str], str]) -> Path:
    """Change a settings file, unless the change would make it invalid."""
    from lookfar.config import find_problems
    from lookfar.serve.setup.malformed import Malformed

    file = _settings_file(project, path)
    before = _read_file(file, project)
    try:
        after = change(before or "")
    except Malformed as error:
        raise InvalidConfig(
            f"{file} cannot be edited: {error}.", hint="Change it with an editor.",
            details={"file": str(file)},
        ) from error  # fmt: skip
    errors = find_problems(after, file, project=project)
    errors_before = find_problems(before, file, project=project) if before else []
    # A file with several errors can be fixed one error at a time.
    if errors and len(errors) >= len(errors_before):
        raise errors[0]
    if after != (before or ""):
        _write_file(file, after.encode(), before, project=project)
    return file


def _write_file(file: Path, data: bytes, before: str | None, *, project: bool) -> None:
    from lookfar.serve.setup import backups, edits

    real = file if project else file.resolve()
    if project and not real.parent.is_dir():
        raise NotFound(f"There is no folder {str(real.parent)!r}.", hint="Check the path.")
    edits.refuse_unwritable(real)
    old = edits.read(real)
    if (None if old is None else old.decode("utf-8-sig")) != before:
        raise backups.changed(real)
    bom = edits.BOM if old is not None and old.startswith(edits.BOM) else b""
    backups.replace_file(real, bom + data, old)

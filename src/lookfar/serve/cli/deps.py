"""``lookfar deps``: the installed packages of a project, indexed at their exact versions."""

from __future__ import annotations

from typing import Any

import click

from lookfar.serve.cli.exits import write, write_either, write_json, write_table
from lookfar.serve.cli.options import examples, folder_argument, library_options, open_library
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name, safe_text


@examples(
    "lookfar deps",
    "lookfar deps --list",
    "lookfar deps --diff requests 2.31.0 2.32.0",
    "lookfar deps ~/project --json",
)
@click.command()
@folder_argument()
@click.option("--list", "only_list", is_flag=True, help="Show the packages, and index nothing.")
@click.option(
    "--diff",
    nargs=3,
    metavar="NAME OLD NEW",
    help="Show what changed between two versions of a package that are on this machine.",
)
@click.option("--off", is_flag=True, help="Stop indexing the packages of this project.")
@library_options
def deps(
    path: str,
    only_list: bool,
    diff: tuple[str, str, str] | None,
    off: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Index the packages that a project uses.

    They are found in .venv, node_modules, and the caches of cargo, Go and Maven, at the versions
    that are installed. PATH is the project (default: the current folder).
    """
    if diff:
        with open_library(path, options) as library:
            changes = library.outside.compare(*diff)
        if as_json:
            write_json(json_shapes.plain(changes))
            return
        from lookfar.library.package_versions import write_report

        write(safe_text(write_report(changes)))
        return
    if off:
        with open_library(path, options) as library:
            library.outside.disable_packages()
        message = "Packages of this project are no longer indexed."
        write_either(as_json, {"enabled": False}, message)
        return
    with (
        open_library(path, options) as library,
        progress.show_fetch("Indexing", "indexed") as on_package,
    ):
        listed = library.outside.packages(prepare=not only_list, on_package=on_package)
    if as_json:
        write_json({"packages": listed})
        return
    rows = [
        [
            safe_name(row["name"]),
            safe_name(row["version"]),
            row["registry"],
            "direct" if row["direct"] else "",
            row["state"] if not row["problem"] else f"failed: {safe_name(row['problem'])}",
        ]
        for row in listed
    ]
    write_table(
        ("package", "version", "registry", "", "state"),
        rows,
        "No installed packages were found. Lookfar looks for .venv, node_modules, Cargo.lock,"
        " go.mod and pom.xml in the folder.",
    )
    if rows and not only_list:
        write("Search them: lookfar search QUESTION --kind deps")

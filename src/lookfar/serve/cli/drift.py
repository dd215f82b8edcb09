"""``lookfar drift``: find documentation that names code or files that were removed."""

from __future__ import annotations

from typing import Any

import click

from lookfar.serve.cli.exits import CHECK_FAILED, write_result
from lookfar.serve.cli.options import (
    examples,
    folder_argument,
    library_options,
    open_library,
    quiet_option,
)
from lookfar.serve.show import progress


@examples("lookfar drift", "lookfar drift ~/src/shop --json")
@click.command()
@folder_argument()
@quiet_option
@library_options
def drift(path: str, quiet: bool, as_json: bool, **options: Any) -> int:
    """Show documentation that names code or files that are gone.

    These are symbols, files, options, settings and parameters that a document mentions as code,
    and that were removed from the repository after the text was last changed. PATH is an indexed
    folder in a git repository (default: the current one). The exit code is 9 if there are any.
    """
    with open_library((path,), options) as library:
        names = ", ".join(library.collections)
        with progress.show_progress(names, quiet=quiet, at_once=False):
            report = library.drift()
    write_result(as_json, "drift", report)
    return CHECK_FAILED if report.drifts else 0

"""``lookfar pack``: one file with a source and its vectors, for machines without a network."""

from __future__ import annotations

from typing import Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import clean_text, examples, library_options
from lookfar.serve.cli.sources import open_sources
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name


@examples(
    "lookfar pack flask-docs",
    "lookfar pack flask-docs shared/flask-docs.lookpack --sign ~/.ssh/id_ed25519",
)
@click.command()
@click.argument("name")
@click.argument("file", default="")
@click.option("--sign", "key", metavar="KEY", default="", help="Sign with this private key file.")
@library_options
def pack(name: str, file: str, key: str, as_json: bool, **options: Any) -> None:
    """Write a source with its index into one file.

    NAME is the source, as lookfar sources lists it. FILE is the pack to write (default: NAME with
    .lookpack, in the current folder). Another machine adds it with lookfar add FILE, without
    network and without embedding.
    """
    sign = None
    if key:
        from lookfar.sources.signing import open_signer

        sign = open_signer(clean_text(key), _ask_password)
    with open_sources(options) as library:
        report = library.outside.pack(name, clean_text(file), sign=sign)
    if as_json:
        write_json(json_shapes.plain(report))
        return
    from lookfar.serve.show.render import format_size

    counts = f"{how_many(report.files, 'file')}, {how_many(report.vectors, 'vector')}"
    write(f"{safe_name(report.path)}: {counts}, {format_size(report.bytes)}")
    write(f"sha256 {report.sha256}")
    if report.key:
        write(f"signed with {report.key}")
    for note in report.notes:
        write(f"  note: {safe_name(note)}")


def _ask_password() -> str:
    password: str = click.prompt("Password of the key", hide_input=True, err=True)
    return password

"""``lookfar documents``: databases of inserted texts, from a terminal.

Takes: a command line, and texts from arguments, files or stdin. Gives: databases made,
listed, filled, searched, emptied, and carried elsewhere as lines of JSON, for people or with
``--json`` for scripts. Refuses: to delete without being told which documents.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from lookfar.errors import InvalidArgument, NotFound, from_os_error, how_many
from lookfar.serve.cli.exits import GuardedGroup, write, write_json
from lookfar.serve.cli.options import clean_text, examples, library_options, open_library
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.library import Library


def _db(command: Any) -> Any:
    return click.option(
        "--db", default="", metavar="NAME", help="The database (default: vectors)."
    )(command)


@contextmanager
def _library(options: dict[str, Any]) -> Iterator[Library]:
    """Databases belong to the user and to no folder, so the one at hand will do."""
    with open_library(".", options) as library:
        yield library


@examples(
    'lookfar documents insert "A text to keep." --db notes',
    'lookfar documents find "texts" --db notes',
)
@click.group(cls=GuardedGroup, invoke_without_command=True)
@click.pass_context
def documents(ctx: click.Context) -> None:
    """Keep texts in databases of their own, and find them again.

    Texts are inserted here or by programs (the toolset document-db), not read from files.
    """
    if ctx.invoked_subcommand is None:
        write(ctx.get_help())


@examples("lookfar documents create notes")
@documents.command()
@click.argument("name")
@library_options
def create(name: str, as_json: bool, **options: Any) -> None:
    """Make a database called NAME; one that is there stays as it is."""
    from lookfar.collections.databases import checked_name

    with _library(options) as library:
        place = library.database(checked_name(clean_text(name))).create()
    if as_json:
        write_json({"name": name, "path": str(place)})
    else:
        write(safe_name(f"{name} is at {place}"))


@examples("lookfar documents list --json")
@documents.command("list")
@library_options
def list_(as_json: bool, **options: Any) -> None:
    """List the databases, with how much is in each."""
    with _library(options) as library:
        found = [_about(each) for each in library.databases().values()]
        folder = library.settings.documents.dir
    if as_json:
        write_json({"folder": folder, "databases": found})
        return
    for each in found:
        counts = [how_many(each[f"{noun}s"], noun) for noun in ("document", "chunk")]
        write(safe_name(f"{each['name']}  {', '.join(counts)}, {each['disk_bytes']:,} bytes"))
    write(safe_name(f"{len(found)} in {folder}"))


def _about(database: Documents) -> dict[str, Any]:
    found = database.status()
    return {
        "name": database.database,
        "path": found.index_dir,
        "documents": found.counts.documents,
        "chunks": found.counts.chunks,
        "generation": found.generation,
        "disk_bytes": found.disk_bytes,
    }


@examples(
    'lookfar documents insert "A text." --db notes --metadata \'{"year": 2024}\'',
    "lookfar documents insert - --db notes",
)
@documents.command()
@click.argument("text")
@_db
@click.option("--metadata", default="{}", metavar="JSON", help="A JSON object to keep beside it.")
@library_options
def insert(text: str, db: str, metadata: str, as_json: bool, **options: Any) -> None:
    """Insert TEXT; - reads it from stdin."""
    told = _object(metadata, "--metadata")
    # Not clean_text(): what is no text is refused, not stored as something else.
    given = _stdin() if text == "-" else text
    with _library(options) as library:
        made = library.database(clean_text(db)).insert(given, told)
    if as_json:
        write_json(asdict(made))
    else:
        write(f"{made.doc_id}  {how_many(made.chunk_count, 'chunk')}")


@examples('lookfar documents find "rotate a key" --db notes -k 3 --filter \'{"year": 2024}\'')
@documents.command()
@click.argument("text")
@_db
@click.option("--top-k", "-k", type=click.IntRange(1), metavar="N", help="Number of chunks.")
@click.option(
    "--filter", "wanted", default="{}", metavar="JSON",
    help="Only documents whose metadata has these values.",
)  # fmt: skip
@library_options
def find(text: str, db: str, top_k: int | None, wanted: str, as_json: bool, **options: Any) -> None:
    """Show the chunks nearest to TEXT, with their cosine distance."""
    told = _object(wanted, "--filter")
    with _library(options) as library:
        found, notes = library.find_similar(
            clean_text(text), database=clean_text(db), top_k=top_k, having=told
        )
    for note in notes:
        click.echo(safe_name(f"Incomplete ({note.reason}): {note.detail.rstrip('.')}."), err=True)
    if as_json:
        write_json({"results": [json_shapes.similar(chunk) for chunk in found]})
        return
    for each in found:
        distance = "-     " if each.score is None else f"{each.score:.4f}"
        write(f"{distance}  {each.doc_id}  chunk {each.chunk_index}")
        write(safe_text("    " + each.text.strip().replace("\n", "\n    ")))


@examples("lookfar documents delete 0b0e4a1c --db notes")
@documents.command()
@click.argument("doc_ids", nargs=-1, required=True, metavar="DOC_ID...")
@_db
@library_options
def delete(doc_ids: tuple[str, ...], db: str, as_json: bool, **options: Any) -> None:
    """Delete documents for good: nothing of them is left in the files.

    Several at once take hardly longer than one. Damaged files that a repair has kept aside are
    removed, too, because they may hold what is deleted.
    """
    with _library(options) as library:
        database = library.database(clean_text(db))
        aside = database.kept_aside
        chunks = database.delete(*map(clean_text, doc_ids))
    for place in aside:  # It may have held what was deleted.
        click.echo(safe_name(f"Removed the damaged copy that a repair had kept: {place}"), err=True)
    if as_json:
        write_json({"deleted_chunks": chunks})
    else:
        write(f"Deleted {how_many(chunks, 'chunk')}")


@examples("lookfar documents import notes.jsonl --db notes")
@documents.command("import")
@click.argument("file")
@_db
@click.option("--replace", is_flag=True, help="Where a doc_id is taken, the new text holds.")
@click.option("--quiet", is_flag=True, help="Show no progress and no report.")
@library_options
def import_(file: str, db: str, replace: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Insert the documents of FILE, one JSON object on each line; - reads stdin.

    A line has text and may have doc_id and metadata. What is there already is skipped, so an
    import that was interrupted is simply begun again.
    """
    read = 0

    def counting(lines: Iterable[str]) -> Iterator[str]:
        nonlocal read
        for line in lines:
            read += len(line.encode("utf-8", "surrogateescape"))
            yield line

    size = Path(file).stat().st_size if Path(file).is_file() else None
    with (
        _library(options) as library,
        _lines(file) as lines,
        progress.counted("documents", size, quiet=quiet) as tell,
    ):
        done = library.database(clean_text(db)).import_lines(
            counting(lines), replace=replace, on_documents=lambda count: tell(count, read)
        )
    if as_json:
        write_json(asdict(done))
    elif not quiet:
        write(
            f"{done.added:,} added, {done.replaced:,} replaced, {done.skipped:,} there already,"
            f" {how_many(done.chunks, 'chunk')}"
        )


@examples("lookfar documents export notes.jsonl --db notes")
@documents.command("export")
@click.argument("file", default="-")
@_db
@library_options
def export(file: str, db: str, as_json: bool, **options: Any) -> None:
    """Write all documents to FILE (default: stdout), one JSON object on each line."""
    from lookfar.store.ground.files import write_lines

    with _library(options) as library:
        database = library.database(clean_text(db)).present()
        if file == "-":
            for line in database.export_lines():
                write(line)
            return
        if Path(file).exists():
            raise InvalidArgument(f"{file!r} is there already.", hint="Name another file.")
        number = write_lines(Path(file), database.export_lines())
    if as_json:
        write_json({"file": file, "documents": number})
    else:
        write(safe_name(f"{number:,} documents in {file}"))


def _object(text: str, option: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(clean_text(text))
    except ValueError as error:
        raise InvalidArgument(
            f"{option} is no JSON: {error}.",
            hint=f"Write it like this: {option} '{{\"year\": 2024}}'",
        ) from error
    if not isinstance(found, dict):
        raise InvalidArgument(f"{option} is no JSON object.", hint="Begin it with {.")
    return found


def _stdin() -> str:
    return _text(sys.stdin.buffer).read()


def _text(raw: IO[bytes], encoding: str = "utf-8") -> IO[str]:
    """Bytes that are no text become halves of characters, which no database takes."""
    from io import TextIOWrapper

    return TextIOWrapper(raw, encoding=encoding, errors="surrogateescape", newline="\n")


@contextmanager
def _lines(file: str) -> Iterator[IO[str]]:
    if file == "-":
        yield _text(sys.stdin.buffer, "utf-8-sig")
        return
    with _readable(file) as raw, _text(raw, "utf-8-sig") as lines:
        yield lines


def _readable(file: str) -> IO[bytes]:
    try:
        return Path(file).open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file!r}.", hint="Name one that is there.") from error
    except OSError as error:
        raise from_os_error(error, f"reading {file}") from error

"""``lookfar documents``: databases of texts that are inserted rather than read from files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from lookfar.errors import InvalidArgument, NotFound, from_os_error, how_many
from lookfar.serve.cli.exits import GuardedGroup, write, write_either, write_json
from lookfar.serve.cli.options import (
    clean_text,
    examples,
    library_options,
    quiet_option,
)
from lookfar.serve.daemon.session_options import parse_settings
from lookfar.serve.show import json_shapes, progress
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.library import Library


def _db_option(command: Any) -> Any:
    return click.option(
        "--db", default="", metavar="NAME", help="The database (default: vectors)."
    )(command)


def _open(options: dict[str, Any]) -> AbstractContextManager[Library]:
    """Open the databases with the settings of the current folder."""
    from lookfar.library import Library

    return Library.open_databases(".", settings=parse_settings(options["settings"]))


@examples(
    'lookfar documents insert "A text to keep." --db notes',
    'lookfar documents find "texts" --db notes',
)
@click.group(cls=GuardedGroup)
def documents() -> None:
    """Store texts in databases of their own, and search them.

    Texts are inserted with this command or by programs (toolset document-db), not read from
    files.
    """


@examples("lookfar documents create notes")
@documents.command()
@click.argument("name")
@library_options
def create(name: str, as_json: bool, **options: Any) -> None:
    """Create a database called NAME, unless it exists already."""
    from lookfar.collections.inserting import checked_name

    with _open(options) as library:
        place = library.database(checked_name(clean_text(name))).create()
    write_either(as_json, {"name": name, "path": str(place)}, safe_name(f"{name} is at {place}"))


@examples("lookfar documents list --json")
@documents.command("list")
@library_options
def list_(as_json: bool, **options: Any) -> None:
    """List the databases and their sizes."""
    with _open(options) as library:
        shapes = [_shape(database) for database in library.databases().values()]
        folder = library.settings.documents.dir
    if as_json:
        write_json({"folder": folder, "databases": shapes})
        return
    for shape in shapes:
        counts = [how_many(shape[f"{noun}s"], noun) for noun in ("document", "chunk")]
        write(safe_name(f"{shape['name']}  {', '.join(counts)}, {shape['disk_bytes']:,} bytes"))
    write(safe_name(f"{len(shapes)} in {folder}"))


def _shape(database: Documents) -> dict[str, Any]:
    status = database.status()
    return {
        "name": database.database,
        "path": status.index_dir,
        "documents": status.counts.documents,
        "chunks": status.counts.chunks,
        "generation": status.generation,
        "disk_bytes": status.disk_bytes,
    }


@examples(
    'lookfar documents insert "A text." --db notes --metadata \'{"year": 2024}\'',
    "lookfar documents insert - --db notes",
)
@documents.command()
@click.argument("text")
@_db_option
@click.option(
    "--metadata",
    default="{}",
    metavar="JSON",
    help="Metadata to store with the text, as a JSON object.",
)
@library_options
def insert(text: str, db: str, metadata: str, as_json: bool, **options: Any) -> None:
    """Insert TEXT; - reads it from stdin."""
    parsed = _parse_object(metadata, "--metadata")
    # Not clean_text(): text that is not valid Unicode must be refused, not stored altered.
    content = _decode(sys.stdin.buffer).read() if text == "-" else text
    with _open(options) as library:
        inserted = library.database(clean_text(db)).insert(content, parsed)
    text = f"{inserted.doc_id}  {how_many(inserted.chunk_count, 'chunk')}"
    write_either(as_json, asdict(inserted), text)


@examples('lookfar documents find "rotate a key" --db notes -k 3 --filter \'{"year": 2024}\'')
@documents.command()
@click.argument("text")
@_db_option
@click.option("--top-k", "-k", type=click.IntRange(1), metavar="N", help="Number of chunks.")
@click.option(
    "--filter", "wanted", default="{}", metavar="JSON",
    help="Only documents whose metadata has these values.",
)  # fmt: skip
@library_options
def find(text: str, db: str, top_k: int | None, wanted: str, as_json: bool, **options: Any) -> None:
    """Show the chunks nearest to TEXT, with their cosine distance."""
    having = _parse_object(wanted, "--filter")
    with _open(options) as library:
        chunks, notes = library.find_similar(
            clean_text(text), database=clean_text(db), top_k=top_k, having=having
        )
    for note in notes:
        click.echo(safe_name(f"{str(note).rstrip('.')}."), err=True)
    if as_json:
        write_json({"results": [json_shapes.similar(chunk) for chunk in chunks]})
        return
    for chunk in chunks:
        distance = "-     " if chunk.score is None else f"{chunk.score:.4f}"
        write(f"{distance}  {chunk.doc_id}  chunk {chunk.chunk_index}")
        write(safe_text("    " + chunk.text.strip().replace("\n", "\n    ")))


@examples("lookfar documents delete 0b0e4a1c --db notes")
@documents.command()
@click.argument("doc_ids", nargs=-1, required=True, metavar="DOC_ID...")
@_db_option
@library_options
def delete(doc_ids: tuple[str, ...], db: str, as_json: bool, **options: Any) -> None:
    """Delete documents permanently, so that no file contains any of their text.

    Deleting several at once takes little longer than one. Damaged files that a repair set aside
    are removed, too, because they may contain the deleted documents.
    """
    with _open(options) as library:
        database = library.database(clean_text(db))
        damaged_copies = database.kept_aside
        chunks = database.delete(*map(clean_text, doc_ids))
    for place in damaged_copies:
        click.echo(safe_name(f"Removed the damaged copy that a repair had kept: {place}"), err=True)
    write_either(as_json, {"deleted_chunks": chunks}, f"Deleted {how_many(chunks, 'chunk')}")


@examples("lookfar documents import notes.jsonl --db notes")
@documents.command("import")
@click.argument("file")
@_db_option
@click.option("--replace", is_flag=True, help="Replace documents that have the same doc_id.")
@quiet_option
@library_options
def import_(file: str, db: str, replace: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Insert documents from FILE, one JSON object per line; - reads stdin.

    Each line has text, and optionally doc_id and metadata. Documents that exist already are
    skipped, so an interrupted import can simply be run again.
    """
    bytes_read = 0

    def count_bytes(lines: Iterable[str]) -> Iterator[str]:
        nonlocal bytes_read
        for line in lines:
            bytes_read += len(line.encode("utf-8", "surrogateescape"))
            yield line

    size = Path(file).stat().st_size if Path(file).is_file() else None
    with (
        _open(options) as library,
        _open_lines(file) as lines,
        progress.show_count("documents", size, quiet=quiet) as show_progress,
    ):
        if size is not None:  # Stdin can be read only once.
            _check_lines(file, library.settings.documents.max_chars)
        result = library.database(clean_text(db)).import_lines(
            count_bytes(lines),
            replace=replace,
            on_documents=lambda count: show_progress(count, bytes_read),
        )
    if as_json:
        write_json(asdict(result))
    elif not quiet:
        write(
            f"{result.added:,} added, {result.replaced:,} replaced, {result.skipped:,} skipped"
            f" (exist already), {how_many(result.chunks, 'chunk')}"
        )


@examples("lookfar documents export notes.jsonl --db notes")
@documents.command("export")
@click.argument("file", default="-")
@_db_option
@library_options
def export(file: str, db: str, as_json: bool, **options: Any) -> None:
    """Write all documents to FILE (default: stdout), one JSON object per line."""
    from lookfar.store.ground.files import write_lines

    with _open(options) as library:
        database = library.database(clean_text(db)).require()
        if file == "-":
            for line in database.export_lines():
                write(line)
            return
        if Path(file).exists():
            raise InvalidArgument(f"{file!r} exists already.", hint="Choose another file.")
        count = write_lines(Path(file), database.export_lines())
    text = safe_name(f"{count:,} documents in {file}")
    write_either(as_json, {"file": file, "documents": count}, text)


def _parse_object(text: str, option: str) -> dict[str, Any]:
    import json

    example = f"For example: {option} '{{\"year\": 2024}}'"
    try:
        value = json.loads(clean_text(text))
    except ValueError as error:
        raise InvalidArgument(f"{option} is not valid JSON: {error}.", hint=example) from error
    if not isinstance(value, dict):
        raise InvalidArgument(f"{option} must be a JSON object.", hint=example)
    return value


def _decode(raw: IO[bytes], encoding: str = "utf-8") -> IO[str]:
    """Decode a stream. Invalid bytes become lone surrogates, which databases refuse."""
    from io import TextIOWrapper

    return TextIOWrapper(raw, encoding=encoding, errors="surrogateescape", newline="\n")


@contextmanager
def _open_lines(file: str) -> Iterator[IO[str]]:
    if file == "-":
        yield _decode(sys.stdin.buffer, "utf-8-sig")
        return
    with _open_file(file) as raw, _decode(raw, "utf-8-sig") as lines:
        yield lines


def _check_lines(file: str, max_chars: int) -> None:
    """Parse a whole file before anything is stored, because a wrong line would end the import."""
    from lookfar.collections.inserting import parse_lines

    with _open_lines(file) as lines:
        for _ in parse_lines(lines, max_chars):
            pass


def _open_file(file: str) -> IO[bytes]:
    if Path(file).is_dir():
        raise InvalidArgument(
            f"{file!r} is a folder.", hint="Name a file with one JSON object on each line."
        )
    try:
        return Path(file).open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {file!r}.", hint="Check the path.") from error
    except OSError as error:
        raise from_os_error(error, f"reading {file}") from error

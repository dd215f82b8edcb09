"""The rules of the architecture, each with a proof that breaking it is noticed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lookfar"
MODULES = sorted(SOURCE.rglob("*.py"))
CONTRACTS = {
    "direction": "Rooms import downwards only, and siblings not at all",
    "model": "Within model, topics build on documents and files",
    "config": "Within config, loading builds on checks, and those on the table of settings",
    "evaluate": "Within evaluate, measuring builds on questions and results, and those on metrics",
    "text": "Within text, chunking and parsing are siblings above extracting and normalisation",
    "retrieve": "Within retrieve, folders import downwards only",
    "index": "Within index, passes are above preparing, and preparing is above the recipe",
    "serve": "Within serve, imports go from the entry point down to what is shown",
    "sources": "Within sources, folders build on git and secrets, those on confinement and globs",
    "edit": "Within edit, the editor and the memories are on top, and the files on disk below",
    "store": "Within store, the embedded store is between a server and the catalogue",
    "freshness": "Within freshness, the keeper and the comparison are above what they compare",
    "collections": "Within collections, folders are above kinds, and those above what they share",
    "library": "Within library, the facade hands members to searching, reading and editing",
    "pure": "Parsing and chunking touch nothing outside their arguments",
    "extract": "Extractors read no file, run nothing and fetch nothing",
    "sqlite": "SQLite is spoken in the store only",
    "subprocess": "Only git, workers, extraction, endpoint and reader_launch run programs",
    "faces": "Servers and terminals are known in serve only",
}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


# --- directions of imports --------------------------------------------------------------------


def lint_imports(package_parent: Path) -> subprocess.CompletedProcess[str]:
    """Hold the package in ``package_parent`` to the contracts of pyproject.toml."""
    program = "import sys; from importlinter.cli import lint_imports as lint; sys.exit(lint("
    program += f"config_filename={str(ROOT / 'pyproject.toml')!r}, no_cache=True, no_logo=True))"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=package_parent,
        env={**os.environ, "PYTHONPATH": str(package_parent), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_imports_keep_their_direction() -> None:
    result = lint_imports(SOURCE.parent)
    assert result.returncode == 0, result.stdout + result.stderr


def make_package(parent: Path, modules: dict[str, str]) -> None:
    """A small ``lookfar`` with the rooms that the contracts name."""
    rooms = (
        "text",
        "text/parse",
        "text/chunk",
        "text/extract",
        "sources",
        "store",
        "serve",
        "retrieve",
        "index",
        "freshness",
        "embed",
        "edit",
        "collections",
        "library",
        "model",
        "config",
    )
    files = {f"{room}/__init__.py": "" for room in rooms}
    files |= {"__init__.py": "", "errors.py": ""}
    files |= {
        "config/loading.py": "",
        "collections/folder.py": "",
        "collections/read_documents.py": "",
        "freshness/disk.py": "",
        "library/searching.py": "",
        "evaluate/measure.py": "",
        "store/ground/database.py": "import sqlite3\n",
        "sources/git/history.py": "import subprocess\n",
        "serve/entry.py": "import lookfar.serve.cli.main\n",
        "serve/http/listen.py": "",
        "serve/toolsets/__init__.py": "",
        "serve/cli/main.py": "import click, rich.table, lookfar.config\n",
    }
    for name, text in (files | modules).items():
        path = parent / "lookfar" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.parents[: len(Path(name).parents)]:
            (folder / "__init__.py").touch()
        path.write_text(text)


def test_allowed_imports_pass(tmp_path: Path) -> None:
    make_package(tmp_path, {"library/facade.py": "import lookfar.retrieve, lookfar.store\n"})
    result = lint_imports(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


BROKEN = [
    ("direction", "model/answers.py", "import lookfar.config"),
    ("model", "model/documents.py", "import lookfar.model.answers"),
    ("config", "config/settings.py", "import lookfar.config.loading"),
    ("evaluate", "evaluate/metrics.py", "import lookfar.evaluate.measure"),
    ("direction", "retrieve/question/plan.py", "import lookfar.index"),
    ("text", "text/parse/source_code.py", "def f(): from lookfar.text.chunk import x"),
    ("index", "index/prepare.py", "import lookfar.index.build"),
    ("direction", "index/recipe.py", "import lookfar.freshness"),
    ("freshness", "freshness/inventory.py", "import lookfar.freshness.disk"),
    ("freshness", "freshness/shelf.py", ""),
    ("direction", "embed/static.py", "import lookfar.library"),
    ("direction", "manager.py", ""),
    ("retrieve", "retrieve/stages/links.py", "import lookfar.retrieve.answer"),
    ("retrieve", "retrieve/question/admission.py", "import lookfar.retrieve.retrievers"),
    ("retrieve", "retrieve/ranking.py", "import lookfar.retrieve.question.plan"),
    ("retrieve", "retrieve/answer/choose.py", "def f(): import lookfar.retrieve.search"),
    ("retrieve", "retrieve/grep/matcher.py", "import lookfar.retrieve.search"),
    ("retrieve", "retrieve/search.py", "import lookfar.retrieve.comments"),
    ("retrieve", "retrieve/comments.py", "import lookfar.retrieve.why_not"),
    ("retrieve", "retrieve/why_not.py", "import lookfar.retrieve.comments"),
    ("serve", "serve/show/json_shapes.py", "import lookfar.serve.cli.doctor"),
    ("serve", "serve/daemon/client_session.py", "import lookfar.serve.cli.options"),
    ("serve", "serve/daemon/services.py", "import lookfar.serve.http.listen"),
    ("serve", "serve/tools/search.py", "import lookfar.serve.toolsets"),
    ("serve", "serve/setup/edits.py", "import lookfar.serve.entry"),
    ("serve", "serve/desk.py", ""),
    ("sources", "sources/secrets/screen.py", "import lookfar.sources.folder.policy"),
    ("sources", "sources/git/metadata.py", "import lookfar.sources.secrets"),
    ("sources", "sources/confine.py", "def f(): import lookfar.sources.git"),
    ("store", "store/health/check.py", "import lookfar.store.postgres.store"),
    ("store", "store/sqlite/epoch.py", "def f(): import lookfar.store.postgres.server"),
    ("store", "store/health/verify.py", "import lookfar.store.sqlite.erase"),
    ("store", "store/catalogue/rows.py", "import lookfar.store.keywords.signatures"),
    ("store", "store/keywords/signatures.py", "import lookfar.store.sqlite.snapshot"),
    ("store", "store/shelf.py", ""),
    ("edit", "edit/shape.py", "import lookfar.edit.place"),
    ("edit", "edit/place.py", "import lookfar.edit.rules"),
    ("edit", "edit/rules.py", "def f(): import lookfar.edit.memories"),
    ("edit", "edit/memories.py", "import lookfar.edit.editor"),
    ("edit", "edit/editor.py", "import lookfar.edit.memories"),
    ("collections", "collections/file_collection.py", "import lookfar.collections.folder"),
    ("collections", "collections/collection.py", "import lookfar.collections.read_documents"),
    ("collections", "collections/shelf.py", ""),
    ("library", "library/members.py", "import lookfar.library.searching"),
    ("library", "library/shelf.py", ""),
    ("pure", "text/parse/markdown.py", "import pathlib"),
    ("pure", "text/parse/links.py", "import os.path"),
    ("pure", "text/chunk/headings.py", "import time"),
    ("pure", "text/chunk/sentences.py", "from random import choice"),
    ("text", "text/extract/pdf.py", "import lookfar.text.parse"),
    ("extract", "text/extract/office.py", "import pathlib"),
    ("extract", "text/extract/html.py", "from http import client"),
    ("sqlite", "retrieve/retrievers/candidates.py", "import sqlite3"),
    ("subprocess", "sources/folder/walk.py", "import subprocess"),
    ("subprocess", "serve/daemon/process.py", "from subprocess import run"),
    ("faces", "index/build.py", "import rich.progress"),
    ("faces", "library/facade.py", "import click"),
    ("faces", "store/keywords/keyword_index.py", "import mcp"),
    ("faces", "store/postgres/store.py", "import click"),
    ("faces", "retrieve/answer/pack.py", "import starlette.routing"),
]


@pytest.fixture(scope="module")
def broken_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says about a package that breaks every rule at once."""
    parent = tmp_path_factory.mktemp("broken")
    make_package(parent, {name: text + "\n" for _, name, text in BROKEN})
    result = lint_imports(parent)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("contract", CONTRACTS)
def test_each_contract_can_break(contract: str, broken_report: str) -> None:
    assert re.search(re.escape(CONTRACTS[contract]) + r"\s+BROKEN", broken_report)


@pytest.mark.parametrize(("contract", "name", "text"), BROKEN)
def test_each_bad_import_is_named(contract: str, name: str, text: str, broken_report: str) -> None:
    """Under the heading of its contract the report names the module at fault."""
    details = broken_report.split("Broken contracts", 1)[1]
    own = details.split(CONTRACTS[contract], 1)[1]
    for other in CONTRACTS.values():
        own = own.split(other, 1)[0]
    module = name.removesuffix(".py").replace("/", ".")
    assert f"lookfar.{module}" in own if text else module in own


# --- what a module says and does --------------------------------------------------------------


def missing_docstring(tree: ast.Module) -> Iterator[str]:
    docstring = ast.get_docstring(tree) or ""
    if len(docstring) < 20 or not re.search(r"\w[^.!?]*[.!?](\s|$)", docstring):
        yield "line 1: the module needs a docstring of at least one sentence"


def environment_reads(tree: ast.Module) -> Iterator[str]:
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "expandvars"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used = {node.attr} & names
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "os.path", "posixpath"):
            used = {alias.name for alias in node.names} & names
        else:
            continue
        for name in used:
            yield f"line {node.lineno}: os.{name} belongs in config/environment.py"


def file_writes(tree: ast.Module) -> Iterator[str]:
    """Calls that look like writing a file. An approximation, on the strict side."""
    flags = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in flags:
            yield f"line {node.lineno}: os.{node.attr} belongs in store/ground/files.py"
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("write_text", "write_bytes") or (
            called in ("open", "fdopen") and may_write(node)
        ):
            yield f"line {node.lineno}: {called} writes, which belongs in store/ground/files.py"


def may_write(call: ast.Call) -> bool:
    """Whether a call of some ``open`` has a mode that writes, or one we cannot read."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    # open(path, mode), io.open(path, mode), os.fdopen(number, mode), but path.open(mode)
    of_function = isinstance(call.func, ast.Name) or len(call.args) > 1
    modes = named or (call.args[1:2] if of_function else call.args[:1])
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "os":
        modes = modes if call.func.attr == "fdopen" else []  # os.open is judged by its flags
    for mode in modes:
        if not isinstance(mode, ast.Constant):
            return of_function  # Index.open(folder) is no mode, open(path, mode) is one
        if isinstance(mode.value, str) and set(mode.value) & set("wax+"):
            return bool(set(mode.value) <= set("rwaxbtU+"))
    return False


Check = Callable[[ast.Module], Iterator[str]]
ALLOWED: dict[Check, set[str]] = {
    missing_docstring: set(),
    environment_reads: {"config/environment.py"},
    # A fetched model is not an index, nor is what git is given for one question: they are
    # elsewhere, and their rooms are not the store's.
    file_writes: {"store/ground/files.py", "embed/hub.py", "sources/git/history.py"},
}


@pytest.mark.parametrize("check", ALLOWED, ids=lambda check: check.__name__)
def test_modules_keep_the_rule(check: Check) -> None:
    found = [
        f"{name_of(path)} {fault}"
        for path in MODULES
        if name_of(path) not in ALLOWED[check]
        for fault in check(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("check", "snippet"),
    [
        (missing_docstring, "x = 1"),
        (missing_docstring, '"""Too short."""'),
        (missing_docstring, '"""a row of words that never comes to an end"""'),
        (environment_reads, "import os\nx = os.environ['HOME']"),
        (environment_reads, "import os as o\nx = o.getenv('HOME')"),
        (environment_reads, "from os import environ"),
        (environment_reads, "import os.path\nx = os.path.expandvars('$HOME')"),
        (file_writes, "open('a', 'w')"),
        (file_writes, "open('a', mode='ab')"),
        (file_writes, "open('a', 'r+')"),
        (file_writes, "open('a', mode)"),
        (file_writes, "path.open('wb')"),
        (file_writes, "io.open('a', 'x')"),
        (file_writes, "os.fdopen(3, 'wb')"),
        (file_writes, "os.open('a', os.O_RDWR | os.O_CREAT)"),
        (file_writes, "path.write_text('a')"),
        (file_writes, "Path('a').write_bytes(b'')"),
    ],
)
def test_the_rule_can_be_broken(check: Check, snippet: str) -> None:
    assert list(check(ast.parse(snippet)))


@pytest.mark.parametrize(
    ("check", "snippet"),
    [
        (missing_docstring, '"""Takes a text and gives its lines."""'),
        (environment_reads, "import os\nx = os.getpid()"),
        (file_writes, "open('a')"),
        (file_writes, "open('wax')"),
        (file_writes, "open('a', 'rb')"),
        (file_writes, "path.open()"),
        (file_writes, "path.open(mode='r')"),
        (file_writes, "os.open('a', os.O_RDONLY)"),
        (file_writes, "Index.open(folder)"),
    ],
)
def test_the_rule_is_not_broken_by_this(check: Check, snippet: str) -> None:
    assert not list(check(ast.parse(snippet)))


# --- what no file of the project may contain --------------------------------------------------

# Built from parts, so that this file does not contain what it forbids.
MACHINE_PATH = re.compile(
    r"(?<![\w.~/-])/(?:work|tmp|root|opt)/[\w.]"
    r"|\b(?:" + "py" + "pi[.]org|python" + "hosted[.]org" + r")\b"
)
SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", "build", "dist", "node_modules"}


def project_files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    found = (ROOT / name for name in names) if names else ROOT.rglob("*")
    for path in found:
        if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts):
            yield path


def machine_paths(text: str) -> list[str]:
    return [match[0] for match in MACHINE_PATH.finditer(text)]


def test_no_file_names_a_place_of_one_machine() -> None:
    found = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {place}" for place in machine_paths(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["see " + "/" + "tmp/x", '"/' + 'work/main"', "(/" + "root/.cache", "https://py" + "pi.org/"],
)
def test_a_machine_path_is_noticed(text: str) -> None:
    assert machine_paths(text)


@pytest.mark.parametrize(
    "text", ["docs/work/x", "~/work/x", "/etc/passwd", "/workshop/a", "a/tmp/b"]
)
def test_other_paths_are_not(text: str) -> None:
    assert not machine_paths(text)

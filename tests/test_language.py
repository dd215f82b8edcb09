"""Plain language and small parts: the rules of writing and size that a test can check.

Each rule is a pattern that native speakers would not write, with what to write instead.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lookfar"
MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
        *(path for path in SOURCE.rglob("*") if path.suffix in (".js", ".html")),
    ]
)

PHRASES = {
    "is not a …": r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more|matter|such|need|way"
    r"|one|other|later|fewer|less|worse|better|different)\w+",
    "again, new": r"\b(?:anew|afresh)\b",
    "up to date": r"\btrue to (?:the|its|their|a)\b",
    "name the actor": r"\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Aa]nybody|[Ee]verybody)\b",
    "is reported, shows": r"\b(?:is|are|was|were|be|been) told\b|\bit tells\b",
    "is in": r"\b(?:stands?|lies?|stood) (?:in|on|at|beside|above|below|under|outside|inside|there"
    r"|here|where)\b|\bwhere (?:it|they) (?:stands?|lies?)\b",
    "is skipped, is excluded": r"\b(?:left out|leaves? out|stays? out|stayed out)\b",
    "the plain term": r"\bin the dress of\b|\bspeaks? for\b|\bbears? (?:it )?out\b"
    r"|\bat the least\b|\b(?:has|have) to do with\b|\bthereof\b|\bwherefrom\b"
    r"|\bput(?:s|ting)? to rest\b",
}
"""What to write instead, and the pattern that is ruled out."""

ALLOWED = {
    # A word list, and SQL that is part of the format.
    "src/lookfar/sources/secrets/values.py": {"nobody"},
    "src/lookfar/store/postgres/schema.py": {"anew"},
}
GENERATED = {
    # Its table quotes the docstrings of tests.
    "docs/reliability.md",
}

LOCALS = {"each", "told", "said", "meant"}
"""Names of variables that do not say what they hold."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page, or of the strings and comments of a module."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(content.splitlines(), 1)
        return
    parts = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in parts:
            yield from enumerate(token.string.splitlines(), token.start[0])


def ruled_out(path: Path) -> list[str]:
    """List the sentences of a file that break a rule of ``PHRASES``."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return [
        f"{path.name}:{number}: {match[0]!r}; write: {instead}"
        for number, line in texts(path)
        for instead, pattern in PHRASES.items()
        for match in re.finditer(pattern, line)
        if match[0] not in ALLOWED.get(name, ())
    ]


def test_no_phrase_that_is_ruled_out() -> None:
    files = [path for path in MODULES + PAGES if path.relative_to(ROOT).as_posix() not in GENERATED]
    assert not [problem for path in files for problem in ruled_out(path)]


@pytest.mark.parametrize(
    "sentence",
    [
        "The filters are no Filters.",
        "The index is made anew.",
        "An index that is true to the disk.",
        "Whoever waits is asked.",
        "What was skipped is told at the end.",
        "The file that it lies in.",
        "Generated files are left out.",
        "The best hits have what speaks for an answer.",
    ],
)
def test_each_phrase_is_noticed(sentence: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{sentence}\n", encoding="utf-8")
    module = tmp_path / "module.py"
    module.write_text(f'def ask(path):\n    # {sentence}\n    return f"{{path}}"\n', "utf-8")
    assert ruled_out(page)
    assert ruled_out(module)


def names(path: Path) -> list[str]:
    """List the variables and arguments of a module that ``LOCALS`` rules out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCALS:
            found.append(f"{path.name}:{node.lineno}: {node.id}")
        elif isinstance(node, ast.arg) and node.arg in LOCALS:
            found.append(f"{path.name}:{node.lineno}: {node.arg}")
    return found


def test_variables_say_what_they_hold() -> None:
    assert not [name for path in MODULES for name in names(path)]


def test_an_unclear_variable_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("for each in (): pass\ndef f(told): ...\n", encoding="utf-8")
    assert len(names(module)) == 2


# --- rooms ------------------------------------------------------------------------------------

MAX_CLASS_LINES = 480
FACADES = {"Library"}
"""Public classes that only hand calls on; their size is that of the API."""
MAX_FUNCTION_LINES = 120


def oversized(path: Path) -> list[str]:
    """List the classes and functions of a module that are too long."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            if node.name in FACADES:
                continue
            limit = MAX_CLASS_LINES
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            limit = MAX_FUNCTION_LINES
        else:
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > limit:
            found.append(f"{path.name}:{node.lineno}: {node.name} has {lines} lines")
    return found


def test_classes_and_functions_stay_small() -> None:
    assert not [part for path in MODULES for part in oversized(path)]


def test_a_large_function_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n" + "    pass\n" * MAX_FUNCTION_LINES, encoding="utf-8")
    assert oversized(module)


PARALLEL = {"store.py", "snapshot.py", "write_session.py"}
"""One thing with an interface in ``ports`` or ``shared`` and a version in each store."""


def test_no_file_name_is_used_in_three_rooms() -> None:
    rooms = defaultdict(list)
    for path in MODULES:
        rooms[path.name].append(path.parent.relative_to(SOURCE).as_posix())
    crowded = {name: places for name, places in rooms.items() if len(places) > 2}
    assert set(crowded) <= {"__init__.py"} | PARALLEL

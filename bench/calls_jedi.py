"""Print what jedi says about every call in a folder of Python files, as JSON lines.

    PYTHON bench/calls_jedi.py FOLDER

Run by ``bench/calls.py`` with a Python that has jedi installed; needs nothing else.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import jedi

warnings.simplefilter("ignore")


def find_sites(tree: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and name of every call and decorator."""
    for node in ast.walk(tree):
        callees: list[ast.expr] = [node.func] if isinstance(node, ast.Call) else []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            callees += [mark for mark in node.decorator_list if not isinstance(mark, ast.Call)]
        for callee in callees:
            if isinstance(callee, ast.Name):
                yield callee.lineno, callee.col_offset, callee.id
            elif isinstance(callee, ast.Attribute) and callee.end_lineno and callee.end_col_offset:
                # Bytes become characters, because jedi counts those.
                line = lines[callee.end_lineno - 1].encode()[: callee.end_col_offset].decode()
                yield callee.end_lineno, len(line) - len(callee.attr), callee.attr


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    project = jedi.Project(root, added_sys_path=[str(root / "src"), str(root)])
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        script = jedi.Script(text, path=path, project=project)
        uri = path.relative_to(root).as_posix()
        for line, column, name in find_sites(tree, text.split("\n")):
            try:
                definitions = script.goto(line, column, follow_imports=True)
            except Exception as error:  # jedi raises errors of its own on unusual code.
                print(f"{uri}:{line}: {error}", file=sys.stderr)
                continue
            targets = []
            outside = False
            for definition in definitions:
                where = definition.module_path
                if where is None or not where.resolve().is_relative_to(root):
                    outside = True
                elif definition.type in ("function", "class", "statement", "property"):
                    inside = where.resolve().relative_to(root).as_posix()
                    targets.append((inside, definition.line, definition.type))
            shape = {"uri": uri, "line": line, "name": name, "targets": targets}
            print(json.dumps({**shape, "outside": outside}))


if __name__ == "__main__":
    main()

"""Paths that try to get out, a folder to get out of, and calls made from the tables of tools.

Takes: a folder, and rows of a table of tools. Gives: hostile values, and for every text argument
of every tool the calls that try them. A new argument is tried the day it appears: only what is
named in ``PROSE`` is held to be no path and no name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from lookfar.serve.tools.tool import Tool

SECRET = "zanzibar-7731-outside"
"""Stands in every file that nobody may read."""
Place = tuple[str | int, ...]

PROSE = frozenset(
    "query text content content_md summary_content hypothesis title heading author tags filter_tags"
    " heading_path heading_path_contains parent_heading_path from_heading_path"
    " to_parent_heading_path language after before expected".split()
)
"""Arguments that are words and name nothing on a disk."""

GOOD: Mapping[str, Any] = {
    "query": "harbour",
    "text": "A harbour.",
    "content": "A harbour.",
    "content_md": "A harbour.",
    "summary_content": "A harbour.",
    "hypothesis": "The harbour keeps boats.",
    "title": "Harbour",
    "heading": "Harbour",
    "heading_path": "Guide",
    "parent_heading_path": "Guide",
    "from_heading_path": "Guide → Install",
    "to_parent_heading_path": "Guide",
    "file_path": "guide.md",
    "doc_uri": "guide.md",
    "target": "guide.md",
    "filename": "note",
    "source_files": "note",
    "target_file": "note",
    "target_document": "guide.md",
    "path": "guide.md",
    "pattern": "**/*.md",
    "doc_id": "none",
    "db_name": "texts",
}


def plant(folder: Path) -> Path:
    """A root with links out of it, beside what nobody may read; gives the root."""
    root, outside = folder / "docs", folder / "docs-secret"
    for each in (root / "a" / "b", outside / "inner", folder / "other"):
        each.mkdir(parents=True)
    for path in ("secret.md", "docs-secret/secret.md", "docs-secret/inner/secret.md",
                 "docs-secret/note.md", "other/guide.md"):  # fmt: skip
        (folder / path).write_text(f"# Secret\n\n{SECRET} harbour\n", encoding="utf-8")
    text = "# Guide\n\nThe harbour keeps boats.\n\n## Install\n\nUnpack the archive.\n"
    for path in ("guide.md", "a/guide.md", "a/b/guide.md"):
        (root / path).write_text(text, encoding="utf-8")
    (root / "tool.py").write_text("def rotate(key):\n    return key\n", encoding="utf-8")
    (root / ".env").write_text(f"KEY={SECRET}\n", encoding="utf-8")
    for depth, inner in enumerate(("", "a/", "a/b/")):
        up = "../" * (depth + 1)
        os.symlink(f"{up}docs-secret/secret.md", root / f"{inner}relative.md")
        os.symlink(outside / "secret.md", root / f"{inner}absolute.md")
        os.symlink(f"{up}docs-secret", root / f"{inner}linked")
        os.symlink("/", root / f"{inner}top")
        os.symlink("..", root / f"{inner}up")
        os.link(outside / "secret.md", root / f"{inner}hard.md")
    return root


def paths(root: Path) -> list[str]:
    """At least 200 ways to say where the secret lies, or what should be refused."""
    outside = str(root.parent / "docs-secret" / "secret.md")
    climbs = ["../secret.md", "../docs-secret/secret.md", "../docs-secret/inner/secret.md",
              "../other/guide.md"]  # fmt: skip
    found = [
        *climbs,
        *(f"./{each}" for each in climbs),
        *(f"a/../{each}" for each in climbs),
        *(f"a/b/../../{each}" for each in climbs),
        *(each.replace("/", "\\") for each in climbs),
        *(each.replace("../", "..\\") for each in climbs),
        *(each.replace("..", "%2e%2e") for each in climbs),
        *(each.replace("/", "%2f") for each in climbs),
        *(each.replace("../", "%252e%252e%252f") for each in climbs),
        *(each.replace("../", "..%c0%af") for each in climbs),
        *(each.replace("../", "....//") for each in climbs),
        *(each.replace("../", "..././") for each in climbs),
        *(each.replace("..", "\uff0e\uff0e") for each in climbs),
        *(each.replace("..", "\u2024\u2024") for each in climbs),
        *(each.replace("..", "\u2025") for each in climbs),
        *(each.replace("/", "\u2215") for each in climbs),
        *(each.replace("/", "\uff0f") for each in climbs),
        *(each.replace("..", ".\u200b.") for each in climbs),
        *(each.replace("../", ".. /") for each in climbs),
        *(f"{each}#Secret" for each in climbs),
        *(f"{each}:1-3" for each in climbs),
        *(f"{each}\0.md" for each in climbs),
        *(f"lookfar://docs/{each}" for each in climbs),
        *(f"file://{each}" for each in climbs),
        *(f"[[{each}]]" for each in climbs),
        *("../" * depth + "etc/passwd" for depth in range(1, 12)),
        *("a/" * depth + "../" * (depth + 1) + "secret.md" for depth in range(1, 6)),
        outside,
        f"/{outside}",
        f"file://{outside}",
        f"file://localhost{outside}",
        f"file:{outside}",
        f"lookfar://docs/{outside}",
        f"lookfar://../{outside}",
        "lookfar://docs-secret/secret.md",
        "lookfar://docs/%2e%2e/secret.md",
        "lookfar://docs/..%2fsecret.md",
        f"{root}/../secret.md",
        f"{root}-secret/secret.md",
        f"{root}",
        f"{root.parent}",
        *("/etc/passwd", "//etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd"),
        *("/dev/zero", "/dev/stdin", "~/secret.md", "~root/.profile", "$HOME/secret.md", "%HOME%"),
        *("C:\\secret.md", "C:/secret.md", "c:secret.md", "\\\\host\\share\\x", "//host/share/x"),
        *("\\\\?\\C:\\x", "CON", "nul.md", "aux", "guide.md::$DATA", "guide.md.", "guide.md "),
        *("relative.md", "absolute.md", "linked/secret.md", "linked/inner/secret.md", "hard.md"),
        *("a/relative.md", "a/absolute.md", "a/linked/secret.md", "a/hard.md", "a/b/hard.md"),
        *("top/etc/passwd", "up/secret.md", "up/docs-secret/secret.md", "a/up/up/secret.md"),
        *(".env", ".ENV", "./.env", "a/../.env", ".e\u200bnv", ".env ", ".git/config", ".git"),
        *("", " ", ".", "..", "/", "//", "\\", "*", "**", "**/*", "../**", "/**", "{..,a}/*"),
        *("[", "{", "!x", "-rf", "--help", "--output=x", "-", "@", "@{u}", "HEAD:secret.md"),
        *("\0", "guide.md\0", "\n", "guide.md\n../secret.md", "\r", "\t", "\x1b[2J", "\u202ex.md"),
        *("\ud800", "a/\udcff.md", "x" * 300, "x" * 5_000, "a/" * 3_000 + "x", "é" * 2_500),
        *("guide.md/../../secret.md", "guide.md/x", "absent.md", "absent/../../secret.md"),
        *("|cat ../secret.md", ";cat ../secret.md", "$(cat ../secret.md)", "`cat ../secret.md`"),
        *("' OR 1=1 --", '"; DROP TABLE documents; --', "%s%s%n", "{0.__class__}", "${jndi:x}"),
        *("../note", "../../note.md", "docs-secret", "../docs-secret", "..\\note", "note/../../x"),
    ]
    return list(dict.fromkeys(found))


ALWAYS = (
    *("../secret.md", "../docs-secret/secret.md", "../other/guide.md", "/etc/passwd", "../note"),
    *("../made.md", "../../made.md"),
    *("relative.md", "linked/secret.md", "hard.md", "up/secret.md", "top/etc/passwd", ".env"),
    *("a/\udcff.md",),
)
"""What every argument is given, however few are tried."""


def places(tool: Tool) -> Iterator[Place]:
    """Where in its arguments a tool takes a text that may be a path or a name."""
    yield from _places(tool.input_schema, ())


def _places(schema: Mapping[str, Any], at: Place) -> Iterator[Place]:
    for name, part in schema.get("properties", {}).items():
        if name in PROSE:
            continue
        inner = part.get("items", {}) if part.get("type") == "array" else part
        here: Place = (*at, name, 0) if inner is not part else (*at, name)
        if inner.get("type") == "string" and "enum" not in inner:
            yield here
        elif inner.get("type") == "object":
            yield from _places(inner, here)


def arguments(tool: Tool, place: Place, value: str, turn: int) -> dict[str, Any]:
    """Arguments that are good but for ``value`` at ``place``; ``turn`` rotates the choices."""
    made = _made(tool.input_schema, place[0], turn)
    holder: Any = made
    for step, following in pairwise(place):
        holder = holder[step]
        if isinstance(following, int) and not holder:
            holder.append({})
    holder[place[-1]] = value
    return made


def _made(schema: Mapping[str, Any], wanted: str | int, turn: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: _value(name, part, turn)
        for name, part in schema.get("properties", {}).items()
        if name in required or name == wanted
    }


def _value(name: str, part: Mapping[str, Any], turn: int) -> Any:
    kind = part.get("type")
    if kind == "array":
        return [_value(name, part["items"], turn)]
    if kind == "object":
        properties = part.get("properties", {})
        return {each: _value(each, inner, turn) for each, inner in properties.items()
                if inner.get("type") in ("string", "array") and each != "template"}  # fmt: skip
    if "enum" in part:
        return part["enum"][turn % len(part["enum"])]
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return part.get("minimum", 1)
    return GOOD.get(name, "guide.md")


def outside_of(folder: Path, *inside: Path) -> dict[str, bytes]:
    """Every file below ``folder`` and not below ``inside``, with what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if any(path.is_relative_to(each) for each in inside) or path.is_symlink():
            continue
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found

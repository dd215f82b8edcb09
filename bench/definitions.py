"""Does a name resolve to its definition? Compares ``Library.read`` with Universal Ctags.

    python bench/definitions.py FOLDER... [--names 60] [--seed 24] [--misses] [--work FOLDER]

Each FOLDER is a checked-out repository. It is indexed without an embedding model. A random sample
of the names that Universal Ctags finds exactly once, in files that Lookfar reads as code, is read
by name. A name is right if the answer is in the same file, is named like the definition, and is
the innermost definition that contains its line. Where Ctags knows the last line of a definition,
the last lines are compared as well.
Needs ``ctags`` (Debian package ``universal-ctags``). Nothing is written to the folders.

Fields, enumerators, local variables, parameters and imports are not asked for: they are part of
a definition. A name is not asked for if its line is written twice, because Ctags looks at one
branch of a condition and misses that another defines the name too.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lookfar import Library
from lookfar.errors import Ambiguous, LookfarError
from lookfar.serve.daemon.session_options import parse_settings

KINDS = {
    "C": "class struct union enum typedef function macro variable",
    "C++": "class struct union enum typedef function macro variable",
    "C#": "class struct interface enum method property event typedef",
    "Elixir": "module protocol function macro guard delegate implementation",
    "Go": "const func interface struct type talias var methodSpec",
    "Haskell": "type function",
    "Java": "annotation class enum interface method",
    "JavaScript": "class function method getter setter generator constant variable",
    "Kotlin": "class interface object method typealias constant variable",
    "Lua": "function",
    "PHP": "class interface trait function define",
    "Python": "class function member variable",
    "Ruby": "class module method singletonMethod alias accessor constant",
    "Rust": "function method struct enum interface module typedef macro variable",
    "Sh": "function",
    "TypeScript": "class enum interface function method alias constant variable generator"
    " namespace",
}
"""The kinds of Universal Ctags that are definitions, by language."""
NAME = re.compile(r"(?!Anonymous(?:Function|Class)|anonymous|__anon)[A-Za-z_$][\w$]{2,}[?!=]?")
IMPORT = re.compile(r"\brequire\(|\bimport\(")
MODIFIER = re.compile(r"\b(?:private|internal|public|protected|const|override|lateinit|open)\b")


class Tag(NamedTuple):
    """A definition, as Universal Ctags reports it."""

    name: str
    path: str
    line: int
    end: int
    """Its last line, or 0 where Ctags does not say."""
    language: str
    kind: str
    scope: str
    """The kind of the definition around it, or empty."""


class Answer(NamedTuple):
    """How one name was resolved."""

    tag: Tag
    problem: str
    """Empty if the name resolved to its definition."""
    end: int
    """The last line of the definition, or 0 if it was not resolved."""


def read_tags(folder: Path) -> Iterator[Tag]:
    """Yield all tags of a folder."""
    command = ["ctags", "--output-format=json", "--fields=+nKles", "--extras=-q", "-R", "-f", "-"]
    command += ["--sort=no", "--map-TypeScript=+.tsx", "--map-JavaScript=+.mjs", "."]
    ran = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    for line in ran.stdout.decode("utf-8", "replace").splitlines():
        row = json.loads(line)
        if row.get("_type") == "tag" and "language" in row:
            path = row["path"].removeprefix("./")
            end, scope = row.get("end", 0), row.get("scopeKind", "")
            yield Tag(row["name"], path, row["line"], end, row["language"], row["kind"], scope)


def is_local(tag: Tag, line: str) -> bool:
    """Return whether a variable is local to a function, or an import."""
    is_object = tag.language == "JavaScript" and tag.kind == "class" and "class" not in line
    if tag.kind not in ("constant", "variable", "var", "const") and not is_object:
        return False
    if tag.language in ("JavaScript", "TypeScript"):
        return line[:1].isspace() or IMPORT.search(line) is not None
    if tag.language == "Kotlin":  # Ctags has no scopes; only members have modifiers.
        return line[:1].isspace() and MODIFIER.search(line) is None
    return tag.scope in ("function", "method", "func")


def choose_unique(folder: Path, indexed: frozenset[str]) -> list[Tag]:
    """Return the definitions whose names Ctags finds exactly once, by name."""
    tags: dict[str, dict[tuple[str, int], Tag]] = defaultdict(dict)
    for tag in read_tags(folder):
        tags[tag.name].setdefault((tag.path, tag.line), tag)
    lines: dict[str, list[str]] = {}
    for path in indexed:
        file = folder / path
        lines[path] = file.read_text("utf-8", "replace").split("\n") if file.is_file() else []
    written = Counter(line.strip() for all_lines in lines.values() for line in all_lines)
    return [
        tag
        for name, (tag, *others) in sorted(
            (name, [*places.values()]) for name, places in tags.items()
        )
        if not others
        and NAME.fullmatch(name)
        and tag.kind in KINDS.get(tag.language, "").split()
        and tag.path in indexed
        and written[lines[tag.path][tag.line - 1].strip()] == 1
        and not is_local(tag, lines[tag.path][tag.line - 1])
        # Ctags cuts the last character of some names.
        and f"{name}?" not in lines[tag.path][tag.line - 1]
    ]


def ask(library: Library, tag: Tag) -> Answer:
    """Read a name, and compare the answer with the tag."""
    try:
        reading = library.read(tag.name)
    except Ambiguous as error:
        return Answer(tag, f"ambiguous: {', '.join(error.details['candidates'][:4])}", 0)
    except LookfarError as error:
        return Answer(tag, type(error).__name__, 0)
    span = reading.span
    place = f"{reading.uri}:{span.start_line}-{span.end_line}"
    if reading.uri != tag.path or not span.start_line <= tag.line <= span.end_line:
        return Answer(tag, f"other place: {place}", 0)
    name = tag.name.removesuffix("=")  # In Ruby, an attribute defines a getter and a setter.
    if not reading.heading_path or not reading.heading_path[-1].endswith((name, tag.name)):
        return Answer(tag, f"other name: {reading.heading_path}", 0)
    for section in library.outline(tag.path).sections:
        inside = span.start_line <= section.span.start_line and section.span.end < span.end
        # ``attr_reader :first, :second`` defines both names on one line.
        shares_line = section.span.end_line == span.start_line == tag.line
        if (
            inside
            and not shares_line
            and section.span.start_line <= tag.line <= section.span.end_line
        ):
            return Answer(tag, f"too large: {place} around {section.path}", 0)
    return Answer(tag, "", span.end_line)


def show(rows: dict[str, list[Answer]]) -> None:
    """Print a row for each group, and one for all."""
    print(f"{'':16}{'asked':>8}{'right':>8}{'ends':>8}{'agree':>8}")
    rows["all"] = [answer for answers in list(rows.values()) for answer in answers]
    for name, answers in rows.items():
        right = [answer for answer in answers if not answer.problem]
        ends = [answer for answer in right if answer.tag.end]
        agree = sum(answer.end == answer.tag.end for answer in ends)
        print(f"{name:16}{len(answers):8}{len(right):8}{len(ends):8}{agree:8}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--names", type=int, default=60, help="names per repository; 0 for all")
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--misses", action="store_true", help="show every name that is not right")
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    settings = parse_settings(("embed.provider=none",))
    rows: dict[str, list[Answer]] = {}
    for folder in given.folders:
        with Library.open(folder, index_dir=work / folder.name, settings=settings) as library:
            library.index()
            read_as_code = (page.uri for page in library.listed() if page.lane == "code")
            unique = choose_unique(folder, frozenset(read_as_code))
            chosen = random.Random(given.seed)
            sample = unique
            if given.names and len(unique) > given.names:
                sample = chosen.sample(unique, given.names)
            rows[folder.name] = [ask(library, tag) for tag in sample]
        print(f"{folder.name}: {len(unique)} unique names", file=sys.stderr)
        for answer in rows[folder.name] if given.misses else ():
            tag = answer.tag
            place = f"{folder.name}/{tag.path}:{tag.line}-{tag.end}"
            if answer.problem:
                print(f"{tag.language} {tag.kind} {tag.name} {place}  {answer.problem}")
            elif tag.end and answer.end != tag.end:
                print(f"end {answer.end}: {tag.language} {tag.kind} {tag.name} {place}")
    show(rows)


if __name__ == "__main__":
    main()

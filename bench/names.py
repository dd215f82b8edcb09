"""Does a name lead to its definition? Names that one place defines, asked bare and in sentences.

    python bench/names.py FOLDER... [--names 80] [--modes hybrid] [--work FOLDER] [--misses]

Each FOLDER is a checked-out repository. Universal Ctags says which names exactly one line of it
defines; a fixed sample of them is asked through ``Library.search``: the name alone, and two
sentences that contain it. A question is answered where the first hit's lines contain the line
of the definition. The rate is printed per repository, per language and per form of the
question, and what missed by its cause: the parser recorded no such definition, it is not among
the first fifty hits, or it is ranked below another passage. Needs ``ctags`` on the path.

Names of fields, local variables, parameters, imports and enumerators are left out: they do not
name a place that a reader would open. Plain words, such as ``echo``, are asked alone only: in a
sentence nobody can tell them from English.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lookfar import Library
from lookfar.model import Mode
from lookfar.serve.daemon.session_options import parse_settings

FORMS = {
    "bare": "{}",
    "where": "where is {} defined",
    "how": "how does {} work",
}
DEPTH = 50
LANGUAGES = frozenset(
    "C C++ C# Go Java JavaScript Kotlin PHP Python Ruby Rust TypeScript Sh Lua".split()
)
SKIPPED_KINDS = frozenset(
    "member field local parameter import package namespace label property enumerator"
    " externvar prototype header unknown using target heredoc module getter setter"
    " generator tparam accessor".split()
)
PLAIN = re.compile(r"[A-Za-z]?[a-z]+")
NAME = re.compile(r"(?!AnonymousFunction|anonymous|__anon)[A-Za-z_$][\w$]{4,}")


class Tag(NamedTuple):
    """A definition, as ctags sees it."""

    name: str
    path: str
    line: int
    language: str
    kind: str


class Asked(NamedTuple):
    """One question, and how it went."""

    repository: str
    tag: Tag
    form: str
    mode: str
    cause: str
    """Empty where the definition came first."""
    first: str


def tags_of(folder: Path) -> Iterator[Tag]:
    """All definitions of a folder, by line."""
    command = ["ctags", "--output-format=json", "--fields=+nKl", "--extras=-qF", "-R", "-f", "-"]
    ran = subprocess.run([*command, "."], cwd=folder, capture_output=True, text=True, check=True)
    for line in ran.stdout.splitlines():
        row = json.loads(line)
        if row.get("_type") == "tag" and row.get("language") in LANGUAGES:
            path = row["path"].removeprefix("./")
            yield Tag(row["name"], path, row["line"], row["language"], row["kind"])


def sample(folder: Path, indexed: frozenset[str], most: int) -> list[Tag]:
    """Names that one place defines, in an order that only the names decide."""
    places: dict[str, set[tuple[str, int]]] = defaultdict(set)
    tags: dict[str, Tag] = {}
    for tag in tags_of(folder):
        places[tag.name].add((tag.path, tag.line))
        tags[tag.name] = tag
    lines: dict[str, list[str]] = {}
    for path in indexed:
        file = folder / path
        lines[path] = file.read_text("utf-8", "replace").split("\n") if file.is_file() else []
    written = Counter(line.strip() for each in lines.values() for line in each)
    unique = [
        tag
        for name, tag in tags.items()
        if len(places[name]) == 1
        and NAME.fullmatch(name)
        and tag.kind not in SKIPPED_KINDS
        and tag.path in indexed
        # Ctags looks at one branch of a condition, and so misses that another defines it too.
        and written[lines[tag.path][tag.line - 1].strip()] == 1
    ]
    return sorted(unique, key=lambda tag: hashlib.sha256(tag.name.encode()).digest())[:most]


def ask(library: Library, repository: str, tag: Tag, form: str, mode: Mode) -> Asked:
    """Whether the definition is first; where it is not, why."""
    question = FORMS[form].format(tag.name)
    hits = library.search(question, mode=mode, top_k=DEPTH).hits
    holds = [h.uri == tag.path and h.span.start_line <= tag.line <= h.span.end_line for h in hits]
    first = f"{hits[0].uri}:{hits[0].span.start_line}-{hits[0].span.end_line}" if hits else "-"
    if holds and holds[0]:
        cause = ""
    elif not _is_recorded(library, tag):
        cause = "not parsed"
    else:
        cause = "ranked below" if any(holds) else "not a candidate"
    return Asked(repository, tag, form, mode, cause, first)


def _is_recorded(library: Library, tag: Tag) -> bool:
    """Whether the index has a definition of this name that includes its line."""
    sections = library.outline(tag.path).sections
    return any(
        section.title.rpartition(".")[2] == tag.name
        and section.span.start_line <= tag.line <= section.span.end_line
        for section in sections
    )


def show(title: str, groups: dict[str, list[Asked]]) -> None:
    """A row for each group: how many were asked, how many came first, and why not."""
    causes = ("not parsed", "not a candidate", "ranked below")
    print(f"\n{title:24}{'asked':>7}{'first':>8}" + "".join(f"{cause:>17}" for cause in causes))
    for name, asked in groups.items():
        counted = Counter(one.cause for one in asked)
        rate = counted[""] / len(asked)
        print(f"{name:24}{len(asked):7}{rate:8.1%}" + "".join(f"{counted[c]:17}" for c in causes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--names", type=int, default=80, help="names per repository")
    parser.add_argument("--modes", default="hybrid")
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--misses", action="store_true", help="show every question that missed")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    settings = parse_settings(tuple(given.settings))
    asked: list[Asked] = []
    for folder in given.folders:
        with Library.open(folder, index_dir=work / folder.name, settings=settings) as library:
            library.index()
            indexed = frozenset(page.uri for page in library.listed())
            for tag in sample(folder, indexed, given.names):
                asked += [
                    ask(library, folder.name, tag, form, mode)
                    for form in FORMS
                    if form == "bare" or not PLAIN.fullmatch(tag.name)
                    for mode in given.modes.split(",")
                ]
        print(f"{folder.name}: {len(asked)} questions so far", file=sys.stderr)
    for title, key in (
        ("repository", lambda one: one.repository),
        ("language", lambda one: one.tag.language),
        ("kind", lambda one: f"{one.tag.language} {one.tag.kind}"),
        ("question", lambda one: one.form),
        ("mode", lambda one: one.mode),
        ("", lambda _: "all"),
    ):
        groups: dict[str, list[Asked]] = defaultdict(list)
        for one in asked:
            groups[key(one)].append(one)
        show(title, dict(sorted(groups.items())))
    for one in asked if given.misses else ():
        if one.cause:
            tag = one.tag
            print(f"{one.cause:16} {one.mode:8} {one.form:6} {tag.kind:10} {tag.name:30}"
                  f" {one.repository}/{tag.path}:{tag.line}  first: {one.first}")  # fmt: skip


if __name__ == "__main__":
    main()

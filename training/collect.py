"""Pairs of texts that belong together, out of the gathered files.

    python training/collect.py SOURCES.toml FOLDER OUT [--workers N] [--most N]

Takes: the table of sources and the unpacked archives of ``gather.py``. Gives: in OUT, one JSON
line per pair: ``a`` (what somebody would ask), ``b`` (what answers it), ``k`` (the kind of pair)
and ``s`` (the repository). Refuses: nothing; a file that cannot be read as its name says gives
no pairs.

The same parsers that index a folder read the texts here, so that the model learns from texts cut
as it will meet them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from lookfar.model import Document
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for

LONGEST_A, LONGEST_B = 400, 1200
SHORTEST_B = 80
MOST_OF_A_FILE = 40
OF_A_TEXTBOOK = 4
"""Sentences of one of its sections: general prose is scarce among public repositories."""
FILES_OF_A_TASK = 400
COMMITS = ".commits.jsonl"
_SPACE = re.compile(r"\s+")
_MARKUP = re.compile(
    r"<!--.*?-->|\{\{.*?\}\}|\{%.*?%\}|</?[A-Za-z][^<>]*>|!?\[\[?|\]\]?(?:\([^()\s]*\))?|[*_`]{1,3}"
    r"|^\s*:{3}.*$|^\s*\|[-:| ]+\|\s*$",
    re.DOTALL | re.MULTILINE,
)
_JAPANESE = re.compile("[\u3040-\u30ff]")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True)
class Pair:
    a: str
    b: str
    kind: str


def plain(text: str) -> str:
    """Prose without most of its markup."""
    return _SPACE.sub(" ", _MARKUP.sub(" ", text)).strip()


def shortest(text: str) -> int:
    """Japanese says the same in fewer characters."""
    return SHORTEST_B // 2 if _JAPANESE.search(text) else SHORTEST_B


def of_prose(document: Document, several: int = 1) -> Iterator[Pair]:
    """Headings with their sections, introductions with the rest of their pages."""
    text = document.text
    title = plain(document.title)
    page = plain(text[document.body : document.body + 6 * LONGEST_B])
    if described := document.metadata.get("description"):
        yield Pair(plain(str(described)), f"{title} {page}", "description")
    sections = document.sections
    for at, section in enumerate(sections):
        end = sections[at + 1].span.start if at + 1 < len(sections) else section.span.end
        own = text[section.body : min(end, section.body + 4 * LONGEST_B)]
        said = plain(own)
        if len(said) < shortest(said):
            continue
        heading = " ".join(dict.fromkeys(filter(None, (title, *map(plain, section.path)))))
        if heading:
            kind = "question" if heading.rstrip().endswith(("?", "？")) else "heading"
            yield Pair(heading, said, kind)
        paragraphs = [plain(each) for each in re.split(r"\n\s*\n", own)]
        paragraphs = [each for each in paragraphs if len(each) >= shortest(each)]
        if at == 0 and paragraphs:
            # What a page begins with, without the words that name it.
            named = {each.lower() for each in _WORD.findall(title)}
            intro = _without_words(paragraphs[0], named)
            rest = page.replace(paragraphs[0], " ", 1)
            if len(rest) >= shortest(rest):
                yield Pair(intro, f"{title} {rest}", "introduction")
        if len(paragraphs) > 1:
            yield Pair(paragraphs[0], f"{heading} {' '.join(paragraphs[1:])}", "paragraph")
        yield from of_sentences(said, heading, several)


def _without_words(text: str, named: set[str]) -> str:
    kept = _WORD.sub(lambda word: "" if word[0].lower() in named else word[0], text)
    return _SPACE.sub(" ", kept)


def of_sentences(said: str, heading: str, several: int = 1) -> Iterator[Pair]:
    """A sentence cut out of its passage: what a reader might remember of it."""
    least = shortest(said) // 3
    telling = [each for each in _SENTENCE_END.split(said) if least <= len(each) <= 200]
    if len(telling) > 2:
        for picked in random.Random(_number(said)).sample(telling, min(several, len(telling))):
            # What stands around it, so that a long passage is not always its beginning.
            at = said.index(picked)
            start = max(0, at - LONGEST_B // 2)
            around = said[start:at] + " " + said[at + len(picked) : start + LONGEST_B + 200]
            yield Pair(picked, f"{heading} {around}", "sentence")


def of_code(document: Document) -> Iterator[Pair]:
    """Docstrings and names with the code that they describe."""
    text = document.text
    for symbol in document.symbols:
        section = document.sections[symbol.section]
        code = text[section.span.start : min(section.span.end, section.span.start + 4 * LONGEST_B)]
        if len(code) < SHORTEST_B:
            continue
        said = symbol.docstring.strip()
        told = _SPACE.sub(" ", re.split(r"\n\s*\n", said)[0]) if said else ""
        if len(told) >= 15:
            yield Pair(told, _without(code, said), "docstring")
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_|\.", " ", symbol.name).strip()
        if " " in name:
            body = code.replace(symbol.name.rpartition(".")[2], "f")
            yield Pair(name.lower(), _SPACE.sub(" ", body), "name")


def _without(code: str, said: str) -> str:
    """Code without the lines that say what its docstring says."""
    spoken = {each.strip(" \t*/#") for each in said.splitlines()} - {""}
    kept = [
        line
        for line in code.splitlines()
        if not any(each in line for each in spoken if len(each) > 8)
    ]
    return _SPACE.sub(" ", " ".join(kept)).strip()


def of_commits(raw: str) -> Iterator[Pair]:
    """What a commit says with what it does."""
    for line in filter(None, raw.split("\n")):
        row = json.loads(line)
        change = _SPACE.sub(" ", row["change"])
        if len(row["said"]) >= 15 and len(change) >= SHORTEST_B:
            yield Pair(row["said"], change, "commit")


def of_messages(text: str) -> Iterator[Pair]:
    """Translations of a ``.po`` file, and each paragraph with the one behind it."""
    before = ""
    for entry in re.split(r"\n\s*\n", text):
        if "fuzzy" in entry:
            continue
        source, _, target = entry.partition("\nmsgstr ")
        _, _, source = source.partition("msgid ")
        one, other = (plain("".join(re.findall(r'"(.*)"', part))) for part in (source, target))
        if len(one) >= 40 and _JAPANESE.search(other):
            yield Pair(one, other, "translation")
            yield Pair(other, one, "translation")
            if before:
                yield Pair(before, other, "paragraph")
            before = other


def of_textbook(raw: str) -> Iterator[Pair]:
    """Definitions of a CNXML module; the rest of it as Markdown is read by ``of_prose``."""
    for term, meaning in re.findall(
        r"<definition[^>]*>\s*<term[^>]*>(.*?)</term>\s*<meaning[^>]*>(.*?)</meaning>", raw, re.S
    ):
        yield Pair(plain(term), plain(meaning), "glossary")
    for problem, solution in re.findall(
        r"<problem[^>]*>(.*?)</problem>\s*<solution[^>]*>(.*?)</solution>", raw, re.S
    ):
        yield Pair(plain(problem), plain(solution), "question")


def markdown_of_textbook(raw: str) -> str:
    raw = re.sub(
        r"<metadata.*?</metadata>|<glossary.*?</glossary>|<m:math.*?</m:math>"
        r"|<exercise.*?</exercise>",
        " ",
        raw,
        flags=re.S,
    )
    raw = re.sub(r"<title[^>]*>(.*?)</title>", r"\n\n# \1\n\n", raw, count=1, flags=re.S)
    raw = re.sub(r"<title[^>]*>(.*?)</title>", r"\n\n## \1\n\n", raw, flags=re.S)
    raw = re.sub(r"<(para|section|list|item)\b[^>]*>", "\n\n", raw)
    return re.sub(r"<[^>]+>", "", raw)


def of_wordnet(raw: str) -> Iterator[Pair]:
    """Words with their definition and examples."""
    for entry in re.split(r"\n(?=\d{8}-\w:)", raw):
        told: dict[str, list[str]] = {}
        field = ""
        for line in entry.split("\n")[1:]:
            if line.startswith("  - "):
                told.setdefault(field, []).append(line[4:].strip("'\""))
            elif line.startswith("    ") and told.get(field):
                told[field][-1] += " " + line.strip().strip("'\"")
            else:
                field = line.strip().rstrip(":")
        members, meaning = told.get("members", []), " ".join(told.get("definition", []))
        if members and meaning:
            yield Pair(" ".join(members), meaning, "glossary")
            for example in told.get("example", [])[:2]:
                yield Pair(example, f"{' '.join(members)} {meaning}", "glossary")


def of_literature(raw: bytes) -> Iterator[Pair]:
    """Sentences of Japanese prose with what stands around them."""
    text = raw.decode("cp932", "ignore")
    text = re.sub(r"《[^》]*》|［＃[^］]*］|｜|-{20,}.*?-{20,}", "", text, flags=re.S)
    passages = [each.strip() for each in text.split("\n")]
    for at in range(len(passages) - 1):
        joined = "".join(passages[at : at + 2])
        if len(joined) > 150:
            yield from of_sentences(joined[:LONGEST_B], "")


def of_book(raw: str) -> Iterator[Pair]:
    """The same of an English book set in XHTML."""
    passages = [plain(each) for each in re.findall(r"<p\b[^>]*>(.*?)</p>", raw, re.S)]
    for at in range(0, len(passages) - 1, 2):
        yield from of_sentences(" ".join(passages[at : at + 2])[:LONGEST_B], "", 2)


def of_glosses(raw: str) -> Iterator[Pair]:
    """Lines of a bilingual dictionary: Japanese, a tabulator, English."""
    for line in raw.split("\n"):
        one, _, other = line.partition("\t")
        if other:
            yield Pair(one, other, "glossary")


def of_file(uri: str, raw: bytes) -> tuple[list[Pair], str]:
    """The pairs of one file, and what its page begins with."""
    ending = uri.rpartition(".")[2]
    if ending == "po":
        return list(of_messages(raw.decode("utf-8", "replace"))), ""
    if ending == "jsonl":
        return list(of_commits(raw.decode("utf-8", "replace"))), ""
    if ending == "yaml":
        return list(of_wordnet(raw.decode("utf-8", "replace"))), ""
    if ending == "tsv":
        return list(of_glosses(raw.decode("utf-8", "replace"))), ""
    if ending == "xhtml":
        return list(of_book(raw.decode("utf-8", "replace"))), ""
    if "_ruby_" in uri:
        return list(of_literature(raw)), ""
    if ending == "org":
        lines = [line for line in raw.decode("utf-8", "replace").split("\n") if line[:1] != "#"]
        said = "".join(lines)
        ends = _SENTENCE_END.split(said)
        return [Pair(each, said.replace(each, " ", 1), "sentence") for each in ends if each], ""
    found: list[Pair] = []
    if ending == "cnxml":
        text = raw.decode("utf-8", "replace")
        found = list(of_textbook(text))
        uri, raw = f"{uri}.md", markdown_of_textbook(text).encode()
    parse = parser_for(uri) or parser_for(f"{uri}.md")
    assert parse is not None
    document = parse(uri, normalise(raw)[0])
    if document.lane == "code":
        made = list(of_code(document))
    else:
        made = list(of_prose(document, OF_A_TEXTBOOK if ending == "cnxml" else 1))
    random.Random(_number(uri)).shuffle(made)
    most = MOST_OF_A_FILE * (OF_A_TEXTBOOK if ending == "cnxml" else 1)
    return found + made[:most], plain(document.text[document.body : document.body + 3 * LONGEST_B])


def collect(task: tuple[str, str, list[str], dict[str, Any]]) -> tuple[str, list[str]]:
    """The lines of some files of one repository."""
    name, folder, uris, source = task
    pairs: list[Pair] = []
    beside: dict[str, dict[str, str]] = {}
    for uri in uris:
        found, page = of_file(uri, (Path(folder) / uri).read_bytes())
        pairs += found
        for language, prefix in source.get("parallel", {}).items():
            if uri.startswith(prefix) and page:
                beside.setdefault(uri.removeprefix(prefix), {})[language] = page
    for versions in beside.values():
        for one, other in ((a, b) for a in versions for b in versions if a != b):
            first, second = versions[one][:LONGEST_A], versions[other]
            # A page that nobody translated yet is a copy.
            if bool(_JAPANESE.search(first)) != bool(_JAPANESE.search(second[:LONGEST_A])):
                pairs.append(Pair(first, second, "translation"))
    lines: dict[str, None] = {}
    for pair in pairs:
        a, b = pair.a.strip()[:LONGEST_A], pair.b.strip()[:LONGEST_B]
        least = 8 if pair.kind in ("glossary", "translation") else shortest(b)
        if len(a) >= 3 and len(b) >= least and a != b:
            row = {"a": a, "b": b, "k": pair.kind, "s": name}
            lines[json.dumps(row, ensure_ascii=False)] = None
    return name, list(lines)


def tasks_of(table: dict[str, Any], folder: Path) -> Iterator[tuple[str, str, list[str], Any]]:
    for source in table["source"]:
        name = source["repository"]
        root = folder / name.replace("/", "+")
        uris = sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file())
        if source.get("parallel"):
            yield name, str(root), uris, source
            continue
        for at in range(0, len(uris), FILES_OF_A_TASK):
            yield name, str(root), uris[at : at + FILES_OF_A_TASK], source


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int, default=60_000, help="pairs of one repository")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table = tomllib.loads(given.sources.read_text(encoding="utf-8"))
    of_repository: dict[str, list[str]] = {}
    with Pool(given.workers) as pool:
        for name, lines in pool.imap(collect, tasks_of(table, given.folder)):
            of_repository.setdefault(name, []).extend(lines)
    with given.out.open("w", encoding="utf-8") as out:
        for name, lines in of_repository.items():
            random.Random(0).shuffle(lines)
            kept = lines[: given.most]
            out.writelines(f"{line}\n" for line in kept)
            print(f"{name}: {len(lines):,}, kept {len(kept):,}", flush=True)


if __name__ == "__main__":
    main()

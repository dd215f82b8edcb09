"""Front matter: a mapping that JSON can say, or a warning, and never more work than its size.

Takes: the bytes of a file. Gives: where the block ends, its mapping and its warnings.
Refuses: nothing, as the parser.
"""

from __future__ import annotations

import json
from typing import Any

from fuzz.common import Target
from lookfar.text.normalise import normalise
from lookfar.text.parse import frontmatter

_DEEPEST = frontmatter.MAX_DEPTH + 1


def work(data: bytes) -> tuple[str, frontmatter.FrontMatter | None, list[Any]]:
    text, _ = normalise(data)
    found = frontmatter.split(text)
    read = [frontmatter.parse(found.raw, found.syntax)] if found else []
    # Most inputs open no block: what they hold is read as the inside of one.
    inside = [frontmatter.parse(text, "yaml"), frontmatter.parse(text, "toml")]
    return text, found, read + inside


def check(_: bytes, result: tuple[str, frontmatter.FrontMatter | None, list[Any]]) -> None:
    text, found, parsed = result
    if found is not None:
        assert found.raw in text
        assert 0 < found.body <= len(text)
        assert text[: found.body].rstrip().endswith(("---", "+++", "..."))
        assert found.body == len(text) or text[found.body - 1] == "\n"
    for mapping, warnings in parsed:
        assert isinstance(mapping, dict)
        assert all(isinstance(key, str) for key in mapping)
        said = json.dumps(mapping, allow_nan=False, ensure_ascii=False)
        said.encode("utf-8")
        assert json.loads(said) == mapping
        assert _depth(mapping) <= _DEEPEST
        assert all(isinstance(each, str) and len(each) < 100_000 for each in warnings)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


TARGET = Target(
    work,
    check,
    size=frontmatter.MAX_BYTES,
    words=(
        "---\n", "+++\n", "...\n", "key: ", "key = ", "- ", "? ", "&a ", "*a", "<<: ", "!!python/",
        "!!binary ", "[[x]]\n", "{", "}", "[", "]", '"""', "'''", "|\n", ">-\n", "\\ud800",
        "2024-01-01", "2024-01-01T00:00:00Z", "0x", "1e999", ".inf", ".nan", "12:30:45", "~",
        "%YAML 1.1\n", "\t", "\0", "# ", "true", "no",
    ),
)  # fmt: skip

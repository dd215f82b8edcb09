"""Rules that find definitions in the syntax trees of each grammar, one module per family.

A rule looks at one node and a few of its children; it does not walk the tree.
"""

from __future__ import annotations

from lookfar.text.parse.grammars.compiled import CPP, GO, RUST, ZIG, C
from lookfar.text.parse.grammars.dynamic import BASH, ELIXIR, HASKELL, LUA, PHP, PYTHON, RUBY
from lookfar.text.parse.grammars.managed import CSHARP, JAVA, KOTLIN, SCALA, SWIFT
from lookfar.text.parse.grammars.rules import Rules
from lookfar.text.parse.grammars.scripts import SCRIPT

RULES: dict[str, Rules] = {
    "javascript": SCRIPT, "typescript": SCRIPT, "tsx": SCRIPT, "python": PYTHON, "go": GO,
    "java": JAVA, "rust": RUST, "c": C, "cpp": CPP, "csharp": CSHARP, "kotlin": KOTLIN,
    "swift": SWIFT, "ruby": RUBY, "php": PHP, "scala": SCALA, "bash": BASH, "lua": LUA,
    "haskell": HASKELL, "elixir": ELIXIR, "zig": ZIG,
}  # fmt: skip
"""Rules by language, for every language with a grammar."""

"""A project for the sessions with Search MCP's tools: code, documentation, and other text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SYNONYMS: Final = {
    "auth": "authentication authorize login session token",
    "db": "database sql mongo postgres redis cache",
    "api": "endpoint route http rest graphql request",
    "async": "await promise callback concurrent thread",
    "err": "error exception catch throw fail handle",
    "config": "env settings options param",
    "test": "mock spec stub spy assert expect",
    "fn": "function",
    "util": "utility",
    "msg": "message",
}
"""The words that the document expands, and what it expands them to."""

LOGIN: Final = """\
export async function login(email: string, password: string): Promise<User> {
  if (!email || !password) {
    throw new Error("both are needed");
  }
  return users.find(email, password);
}
"""
SHELF: Final = '''\
import os

SHELVES = 3


def place_walrus(name):
    """Put a walrus on a shelf."""
    return os.path.join("shelf", name)


def count_lemurs():
    return 7


class Keeper:
    """Feeds everybody."""

    def feed_okapi(self, food):
        """Feed the okapi."""
        return food


# A remark about pelicans in winter.
def wake_badger():
    return "awake"
'''
BLOCK: Final = """\
# Blocks

Before the block.

```sh
# Not a heading: run the coypu

make coypu
```
"""
GUIDE: Final = """\
---
title: Ignored
---
# Guide

How things work.

## Authentication

Accounts and passwords.

### JWT Tokens

Tokens are signed and expire after an hour.

#### Deep

A gecko sleeps below this heading.

Setext Story
------------

A heron stands here.
"""


def _long_text() -> str:
    paragraphs = [f"Paragraph {n} is about iguanas. " + f"word{n} " * 90 for n in range(40)]
    return "# Long\n\n## Iguanas\n\n" + "\n\n".join(paragraphs) + "\n"


def _long_fence() -> str:
    lines = "\n".join(f"quokka_{n} = {n}  # a line of the block" for n in range(900))
    return f"# Fence\n\n## Quokkas\n\n```python\n{lines}\n```\n"


def _long_function() -> str:
    lines = "\n".join(f"    total += tapir_{n}(total)" for n in range(900))
    return f"def run_tapirs(total):\n{lines}\n    return total\n"


def _many_functions() -> str:
    docstring = '"""' + "Explains at length what it does. " * 8 + '"""'
    body = f"    {docstring}\n    return first if second else"
    return "\n\n".join(f"def vole_{n}(first, second):\n{body} {n}\n" for n in range(600))


FILES: dict[str, str] = {
    "src/login.ts": LOGIN,
    "src/shelf.py": SHELF,
    "src/tapirs.py": _long_function(),
    "src/voles.py": _many_functions(),
    "docs/guide.md": GUIDE,
    "docs/long.md": _long_text(),
    "docs/fence.md": _long_fence(),
    "docs/block.md": BLOCK,
    "notes.txt": "Plain words about narwhals.\n",
    "LICENSE": "Permission is granted to every marmot.\n",
    "Procfile": "web: serve --animal capybara\n",
    "schema.prisma": "model Axolotl { id Int @id }\n",
    "paper.tex": "\\section{Dormouse} It sleeps.\n",
    "policy.rego": "package echidna\nallow { input.user }\n",
    "latin.unknown": "text with an unknown ending about wombats\n",
    ".env": "PASSWORD=ocelot\n",
    ".ENV.local": "PASSWORD=ocelot\n",
    ".e\u200bnv": "PASSWORD=ocelot\n",
    "/".join(["deep"] * 21) + "/a.md": "# ocelot\n",
    "server.pem": "ocelot\n",
    "node_modules/a/index.js": "const ocelot = 1;\n",
    "dist/out.js": "const ocelot = 2;\n",
    "debug.log": "ocelot\n",
    "package-lock.json": '{"ocelot": 1}\n',
    ".gitignore": "ignored/\n",
    "ignored/a.md": "# ocelot\n",
    "big.txt": "ocelot " * 160_000,
    **{
        f"words/{word}/{other}.txt": f"{other} zebra\n"
        for word, others in SYNONYMS.items()
        for other in others.split()
    },
}
PROGRAMS: Final = {
    "javascript": ("a.js", "function ibis() {}\n"),
    "typescript": ("a.ts", "function ibis(): void {}\n"),
    "tsx": ("a.tsx", "function ibis() { return <p/>; }\n"),
    "python": ("a.py", "def ibis():\n    pass\n"),
    "go": ("a.go", "package a\nfunc ibis() {}\n"),
    "java": ("A.java", "class A { void ibis() {} }\n"),
    "rust": ("a.rs", "fn ibis() {}\n"),
    "c": ("a.c", "void ibis(void) {}\n"),
    "cpp": ("a.cpp", "namespace n { void ibis() {} }\n"),
    "csharp": ("A.cs", "class A { void ibis() {} }\n"),
}
"""A program in each language that a summary covers in full."""
FILES |= {f"programs/{name}": text for name, text in PROGRAMS.values()}

BINARY: Final = {
    "image.png": b"ocelot",
    "renamed.rego": b"ocelot\0\0binary",
    "noise.unknown": bytes(range(128, 256)) * 40,
}


def write_project(root: Path) -> None:
    """Write the files of the project below ``root``."""
    for name, content in (FILES | BINARY).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (root / "link.md").symlink_to(root / "docs" / "guide.md")

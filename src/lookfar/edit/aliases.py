"""Add an alias to the front matter of a note, without changing anything else in it."""

from __future__ import annotations

import json
import re

from lookfar.edit.shape import Change, apply_changes
from lookfar.model import Document
from lookfar.store.catalogue.link_names import fold
from lookfar.text.parse import frontmatter
from lookfar.text.parse.markdown import parse

_KEY = re.compile(r"^(aliases|alias)[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_ITEM = re.compile(r"(?:[ \t]*\n)*([ \t]*)- .*\n?")
_PLAIN = re.compile(r"[^\W\d_][\w .()&+'-]*(?<![ .])")
"""Words that YAML reads as they are."""
_NOT_PLAIN = frozenset(("true", "false", "null", "yes", "no", "on", "off"))


def add_alias(document: Document, alias: str) -> tuple[Change, ...] | None:
    """Return the change that adds an alias; empty if the note has it, None if it is not possible.

    The result is parsed again: only the aliases may differ.
    """
    if fold(alias) in map(fold, document.aliases):
        return ()
    front = frontmatter.split(document.text)
    if front is None:
        changes = (Change(0, 0, (f"---\naliases:\n  - {_quote(alias)}\n---\n",)),)
    elif front.syntax == "yaml":
        changes = (_change_yaml(document.text, front.raw, alias),)
    else:
        return None
    now = parse(document.uri, apply_changes(document.text, changes))
    others = {key: value for key, value in now.metadata.items() if key not in ("aliases", "alias")}
    before = {
        key: value for key, value in document.metadata.items() if key not in ("aliases", "alias")
    }
    same = others == before and now.title == document.title
    return changes if same and set(now.aliases) == {*document.aliases, alias} else None


def _change_yaml(text: str, raw: str, alias: str) -> Change:
    start = text.find("\n") + 1
    key = _KEY.search(raw)
    if key is None:
        end = start + len(raw)
        return Change(end, end, (f"aliases:\n  - {_quote(alias)}\n",))
    value, at = key[2].strip(), start + key.start(2)
    written = _quote(alias)
    if value.startswith("[") and value.endswith("]"):
        inside = value[1:-1].strip()
        return Change(
            at, start + key.end(2), (f"[{inside}, {written}]" if inside else f"[{written}]",)
        )
    if value:  # A text with commas.
        return Change(start + key.end(2), start + key.end(2), (f", {alias}",))
    line = key.end() + 1
    end, indent = line, "  "
    while (item := _ITEM.match(raw, end)) is not None:
        end, indent = item.end(), item[1]
    return Change(start + end, start + end, (f"{indent}- {written}\n",))


def _quote(alias: str) -> str:
    if _PLAIN.fullmatch(alias) and alias.lower() not in _NOT_PLAIN:
        return alias
    return json.dumps(alias, ensure_ascii=False)

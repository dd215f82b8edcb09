"""Credentials in settings: which assignments of a configuration file hold one.

Takes: the text of a file in a format of settings (JSON, YAML, TOML, INI, properties, HCL, XML,
PHP). Gives: the values that are credentials by the name of their key, and for a file whose name
promises credentials whether it holds any. Refuses: to parse; files with placeholders of templates
parse as nothing, and a line with a key is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from lookfar.sources.secrets.token_shapes import Finding
from lookfar.sources.secrets.values import (
    decoded,
    entropy,
    is_opaque,
    is_placeholder,
    is_prose,
)

_SENSITIVE: Final = re.compile(
    r"pass(?:word|wd|phrase|code)?(?![a-z])|passw(?:or)?d|pwd(?![a-z])|secret|token(?!i[sz])"
    r"|credential|api[-_ ]?key|access[-_]?key|auth[-_]?key|account[-_]?key|private[-_]?key"
    r"|encryption[-_]?key|signing[-_]?key|master[-_]?key|license[-_]?key|app[-_]?key"
    r"|client[-_]?key[-_]?data|key[-_]?base|webhook|conn(?:ection)?[-_]?str|_auth(?:token)?$|dsn$"
    r"|^auth$|identitytoken|registrytoken|bearer",
    re.IGNORECASE,
)
_ABOUT: Final = re.compile(
    r"(?:name|names|ref|refs|file|files|path|paths|dir|url|uri|urls|endpoint|host|port|id|ids|arn"
    r"|type|kind|length|len|size|expir\w*|ttl|timeout|lifetime|age|policy|rules?|fields?|columns?"
    r"|labels?|hint|prefix|suffix|format|enabled?|disabled?|required|optional|count|limit|number"
    r"|version|alg|algorithm|class|providers?|manager|stores?|engine|headers?|params?|prompt"
    r"|reset|min|max|mounts?|selector|namespace|annotations?|description|title|message|help|errors?"
    r"|scopes?|issuer|audience|subject|strategy|mode|env|var|variable|template|regex|pattern|rotation"
    r"|command|helper|method|strength|validators?|input|placeholder|tooltip|text|page|link|button"
    r"|existing|create|usage|budget|generator|service|role|group|user|username|email|key|keys)$"
    r"|^(?:existing|has|is|use|no|show|hide|enable|disable|allow|require|max|min|public|reset|forgot"
    r"|confirm|change|update|verify|invalid|wrong|incorrect|missing|kind|reveal|auto)",
    re.IGNORECASE,
)
_STILL_SECRET: Final = re.compile(
    r"(?:api|access|secret|private|encryption|signing|master|license|app|auth|account)[-_]?keys?$",
    re.IGNORECASE,
)
"""Names that end in ``key`` and mean one."""

_KEY: Final = r"[A-Za-z_][\w.$/-]{0,100}"
_ASSIGNED: Final = re.compile(
    rf"(?<![\w.$/-])(?P<mark>['\"]?)(?P<key>{_KEY})(?P=mark)\s{{0,8}}(?:=>|:=|[:=,])[ \t]{{0,40}}"
    r"(?:\"(?P<double>[^\"\n]{1,4096})\"|'(?P<single>[^'\n]{1,4096})'"
    r"|(?P<plain>[^\s\"'#;,<>{}\[\]][^\s\"'#;,<>{}]{0,4096}))"
)
_ELEMENT: Final = re.compile(rf"<(?:\w+:)?({_KEY})>([^<>\n]{{1,4096}})</")
_ADDED: Final = re.compile(
    rf"\b(?:key|name)\s*=\s*[\"']({_KEY})[\"']\s+value\s*=\s*[\"']([^\"'\n]{{1,4096}})[\"']"
)
_KUBERNETES: Final = re.compile(r"kind[\"']?[ \t]*:[ \t]*[\"']?Secret[\"']?,?[ \t]*$", re.MULTILINE)
_DATA: Final = re.compile(r"(?m)^([ \t]*)[\"']?(?:data|stringData)[\"']?[ \t]*:[ \t]*\{?[ \t]*$")
_DOCUMENT: Final = re.compile(r"(?m)^---")
_COMMENT: Final = re.compile(r"(?m)^[ \t]*(?:#|//|;|--|\*|/\*|<!--|\{\{-?/\*).*$")
_TEMPLATE: Final = re.compile(r"\{\{[^{}]*\}\}|<%[^%]*%>|\$\{[^{}\n]*\}|\{%[^%]*%\}")
_STRUCTURE: Final = re.compile(
    r"\s{0,200}(?:$|[-?]?\s*[\"']?[\w./@$%*-][\w./@$%* -]*[\"']?\s*(?:=>|[:=])"
    r"|[-\[\](){},;:\"'<>|&]|\.\.\.\s*$|[^\n]*[;{}]\s*$)"
)
_WORDS: Final = re.compile(r"(?i)password|passwd|secret|token|credential|\bkey\b|\bpw\b")
_SYMBOLS: Final = re.compile(r"[!$%^&*~?]")
_LEAST_ENTROPY: Final = 3.0
_SHORTEST: Final = 8
_LINE: Final = 400
_PAGE: Final = 150
_LONG_LINES: Final = 5
_PIECE: Final = 4_000
"""Of a long line, as minified files have: what is searched at once."""
_DIGITS: Final = bytes(
    0x30 if chr(code) in "0123456789" else 0x20 if chr(code) in " \t\n\r\"'<>=:,{}[]" else 0x2E
    for code in range(256)
)
"""Characters by what they are in a word: a digit, its end, or any other."""
_HINT: Final = re.compile(r"(?i)pass|pwd|secret|token|credential|key|auth|webhook|conn|dsn|bearer")
"""Parts of the names that ``_SENSITIVE`` means."""


class Assigned(NamedTuple):
    """A key with its value, and where that is."""

    key: str
    value: str
    start: int
    end: int


def find_settings(text: str) -> list[Finding]:
    """Values of sensitive keys that look generated, and what a Kubernetes Secret holds."""
    findings = [
        Finding(each.start, each.end, "assigned-credential")
        for each in _hinted(text)
        if is_sensitive(each.key) and _is_generated(each.value)
    ]
    findings += (
        Finding(each.start, each.end, "kubernetes-secret")
        for each in _kubernetes(text)
        if _is_generated(decoded(each.value)) or len(each.value) > 60
    )
    return findings


def holds_credentials(text: str) -> bool:
    """Whether a file whose name promises credentials has any: it has unless all is harmless.

    Harmless are comments, templates, placeholders, references, numbers, names and prose.
    """
    bare = _COMMENT.sub("", text)
    loose = _unstructured_lines(bare)
    if loose:
        # A page of documentation with such a name has paragraphs; a list of passwords has none.
        words = sum(len(line.split()) for line in loose)
        if words >= max(_PAGE, _LONG_LINES * len(loose)):
            return False
    for each in (*assignments(bare), *_kubernetes(bare)):
        value = decoded(each.value)
        if is_prose(value) or is_placeholder(value):
            continue
        if is_sensitive(each.key) or is_opaque(value, each.key):
            return True
    # Who can tell what a note says of a password?
    return any(map(_WORDS.search, loose))


def _unstructured_lines(text: str) -> list[str]:
    """The lines that are not settings, where those are most of them; else none."""
    lines = [line for line in _TEMPLATE.sub(" ", text).split("\n") if line.strip()]
    loose = [line for line in lines if not _STRUCTURE.match(line[:_LINE])]
    return loose if 2 * len(loose) >= len(lines) else []


def is_sensitive(key: str) -> bool:
    """Whether a key names a credential, and not something about one (``secretName``)."""
    last = key.rpartition(".")[2]
    if _SENSITIVE.search(last) is None:
        return False
    return _STILL_SECRET.search(last) is not None or _ABOUT.search(last) is None


def assignments(text: str, start: int = 0, end: int | None = None) -> Iterator[Assigned]:
    """Keys and values, in every notation that settings have."""
    end = len(text) if end is None else end
    for match in _ASSIGNED.finditer(text, start, end):
        group = "double" if match["double"] else "single" if match["single"] else "plain"
        yield Assigned(match["key"], match[group], *match.span(group))
    for pattern in (_ELEMENT, _ADDED):
        for match in pattern.finditer(text, start, end):
            yield Assigned(match[1], match[2], *match.span(2))


def _hinted(text: str) -> Iterator[Assigned]:
    """Those of lines with a long word that has a digit, as all that is generated, and a hint."""
    # One byte for each character, so that offsets agree.
    classes = text.encode("ascii", "replace").translate(_DIGITS)
    at = classes.find(b"0")
    while at >= 0:
        end = classes.find(b" ", at)
        end = len(text) if end < 0 else end
        if end - classes.rfind(b" ", 0, at) > _SHORTEST:
            start = text.rfind("\n", 0, at) + 1
            if _HINT.search(text, max(start, at - _PIECE), at):
                end = text.find("\n", end)
                end = len(text) if end < 0 else end
                for piece in range(start, end, _PIECE):
                    yield from assignments(text, piece, min(piece + _PIECE, end))
        at = classes.find(b"0", end)


def _kubernetes(text: str) -> Iterator[Assigned]:
    """What the Secrets in a manifest hold; every key of theirs is one of a credential."""
    if "Secret" not in text or not _KUBERNETES.search(text):
        return
    starts = [0, *(match.start() for match in _DOCUMENT.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if not _KUBERNETES.search(text, start, end):
            continue
        for block in _DATA.finditer(text, start, end):
            yield from _entries(text, block, end)


def _entries(text: str, block: re.Match[str], end: int) -> Iterator[Assigned]:
    """The keys right below ``data``: those that are as far indented as the first of them."""
    indent, own = len(block[1]), -1
    at = block.end() + 1
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        line = text[at:stop]
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent:
            return
        own = depth if line.strip() and own < 0 else own
        match = _ASSIGNED.match(text, at + depth, stop) if depth == own else None
        if match is not None:
            group = "double" if match["double"] else "single" if match["single"] else "plain"
            yield Assigned("secret", match[group], *match.span(group))
        at = stop + 1


def _is_generated(value: str) -> bool:
    plain = value.strip()
    if len(plain) < _SHORTEST or is_prose(plain) or is_placeholder(plain):
        return False
    mixed = any(c.isdigit() for c in plain) and any(c.isalpha() for c in plain)
    random = is_opaque(plain) or _SYMBOLS.search(plain) is not None
    return mixed and random and entropy(plain) >= _LEAST_ENTROPY

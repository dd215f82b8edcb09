"""Find credentials in settings files: JSON, YAML, TOML, INI, properties, HCL, XML and PHP.

Values are judged by the name of their key. Files are not parsed, because templates with
placeholders would not parse; a line with a key is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from lookfar.sources.secrets.token_shapes import Finding
from lookfar.sources.secrets.values import (
    decode_base64,
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
"""Names that end in ``key`` and are credentials."""

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
"""How much of a long line, as in minified files, is searched at once."""
_DIGITS: Final = bytes(
    0x30 if chr(code) in "0123456789" else 0x20 if chr(code) in " \t\n\r\"'<>=:,{}[]" else 0x2E
    for code in range(256)
)
"""Classes of characters: digit, separator, or other."""
_HINT: Final = re.compile(r"(?i)pass|pwd|secret|token|credential|key|auth|webhook|conn|dsn|bearer")
"""Parts of the names that ``_SENSITIVE`` matches."""


class Assigned(NamedTuple):
    """A key, its value, and the span of the value."""

    key: str
    value: str
    start: int
    end: int


def find_settings(text: str) -> list[Finding]:
    """Find generated values of sensitive keys, and the values of Kubernetes Secrets."""
    findings = [
        Finding(item.start, item.end, "assigned-credential")
        for item in _hinted(text)
        if is_sensitive(item.key) and _is_generated(item.value)
    ]
    findings += (
        Finding(item.start, item.end, "kubernetes-secret")
        for item in _kubernetes(text)
        if _is_generated(decode_base64(item.value)) or len(item.value) > 60
    )
    return findings


def contains_credentials(text: str) -> bool:
    """Whether a file whose name suggests credentials contains any.

    It does unless everything is harmless: comments, templates, placeholders, references, numbers,
    names and prose. One generated value alone, like a key, is a credential.
    """
    if is_opaque(text):
        return True
    bare = _COMMENT.sub("", text)
    loose = _unstructured_lines(bare)
    if loose:
        # Documentation has paragraphs; a list of passwords does not.
        words = sum(len(line.split()) for line in loose)
        if words >= max(_PAGE, _LONG_LINES * len(loose)):
            return False
    for item in (*find_assignments(bare), *_kubernetes(bare)):
        value = decode_base64(item.value)
        if is_prose(value) or is_placeholder(value):
            continue
        if is_sensitive(item.key) or is_opaque(value, item.key):
            return True
    # A note that mentions a password may contain it.
    return any(map(_WORDS.search, loose))


def _unstructured_lines(text: str) -> list[str]:
    """Return the lines that are not settings if they are the majority; else none."""
    lines = [line for line in _TEMPLATE.sub(" ", text).split("\n") if line.strip()]
    loose = [line for line in lines if not _STRUCTURE.match(line[:_LINE])]
    return loose if 2 * len(loose) >= len(lines) else []


def is_sensitive(key: str) -> bool:
    """Whether a key names a credential itself, unlike ``secretName``."""
    last = key.rpartition(".")[2]
    if _SENSITIVE.search(last) is None:
        return False
    return _STILL_SECRET.search(last) is not None or _ABOUT.search(last) is None


def find_assignments(text: str, start: int = 0, end: int | None = None) -> Iterator[Assigned]:
    """Yield keys and values in all supported notations."""
    end = len(text) if end is None else end
    for match in _ASSIGNED.finditer(text, start, end):
        group = "double" if match["double"] else "single" if match["single"] else "plain"
        yield Assigned(match["key"], match[group], *match.span(group))
    for pattern in (_ELEMENT, _ADDED):
        for match in pattern.finditer(text, start, end):
            yield Assigned(match[1], match[2], *match.span(2))


def _hinted(text: str) -> Iterator[Assigned]:
    """Yield lines that may hold a secret: a word like ``token``, then a long one with a digit."""
    # One byte per character, so that offsets agree.
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
                    yield from find_assignments(text, piece, min(piece + _PIECE, end))
        at = classes.find(b"0", end)


def _kubernetes(text: str) -> Iterator[Assigned]:
    """Yield the values of the Secrets in a Kubernetes manifest, whatever their keys."""
    if "Secret" not in text or not _KUBERNETES.search(text):
        return
    starts = [0, *(match.start() for match in _DOCUMENT.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if not _KUBERNETES.search(text, start, end):
            continue
        for block in _DATA.finditer(text, start, end):
            yield from _entries(text, block, end)


def _entries(text: str, block: re.Match[str], end: int) -> Iterator[Assigned]:
    """Yield the direct children of ``data``: keys with the indentation of the first."""
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

"""Compute what setup would change in one file, and the diff that it shows."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.errors import InvalidArgument, InvalidConfig, PermissionDenied, from_os_error
from lookfar.serve.setup import jsonc, markdown, toml_text
from lookfar.serve.setup.malformed import Malformed

GREP_HINT: Final = "grep-hint"
"""The command of Lookfar's hook. Setup recognizes the hook by it."""
BOM: Final = b"\xef\xbb\xbf"
_MAX_BYTES: Final = 64_000_000
_LONG_LINE: Final = 300
_WORDS: Final = r"(?:key|token|secret|passw(?:or)?d|passphrase|auth|credential|cookie)"
_STRING: Final = (
    r"""(?: \"{3} [\s\S]*? \"{3} | '{3} [\s\S]*? '{3} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*' )"""
)
_SECRET: Final = re.compile(
    rf"""(?ix)
    (   {_WORDS} [\w.-]{{0,64}} ["']? \s* [:=] \s*
    |   -[\w-]{{0,64}}? {_WORDS} [\w-]{{0,64}} ["'] \s* , \s* )  # an option before its value
    (?: {_STRING}
    |   \[ (?: {_STRING} | [^\[\]{{}}"'] )* \]
    |   \d [\w.+-]* (?= \s* [,}}\]\n\#] | \s* \Z )
    |   (?! (?:true|false|null)\b | // | /\* ) [^\s"'\[{{,}}\]] [^"'\n]* )  # inside a string"""
)
_VALUE: Final = re.compile(rf"(?x) ( [:=] \s* ) {_STRING}")
_VARIABLES: Final = re.compile(
    r"""(?imx)
        \b (?:env|\w*headers) ["']? \s* [:=] \s* \{ (?: "(?:[^"\\\n]|\\.)*" | [^{}"] )* \}
    |   ^ [ \t]* \[ [^\]\n]* \b (?:env|\w*headers) ["']? \s* \] [\s\S]*? (?= ^ [ \t]* \[ | \Z )"""
)
"""Environment variables and headers, in JSON or TOML. Each value may be a secret."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A settings file, and the keys under which Lookfar's entry is."""

    client: str
    title: str
    scope: str
    path: Path
    format: Literal["json", "toml", "markdown", "skill", "agent", "hook"]
    keys: tuple[str, ...] = ()

    @property
    def real(self) -> Path:
        """The file to write: a symbolic link is followed, and stays a link."""
        return Path(os.path.realpath(self.path))


@dataclass(frozen=True, slots=True)
class Edit:
    """The content of a file before and after; None if there is no file."""

    target: ClientFile
    before: bytes | None
    after: bytes | None
    note: str = ""

    @property
    def changes(self) -> bool:
        return self.before != self.after


def read(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it does not exist."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_BYTES:
            raise InvalidConfig(
                f"{path} is not a settings file.",
                hint="Check what it is; it was not changed.",
                details={"file": str(path)},
            )
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise PermissionDenied(
            f"{path} cannot be read: permission denied.",
            hint="Check its permissions; it was not changed.",
            details={"file": str(path)},
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path}") from error


def refuse_unwritable(path: Path) -> None:
    """Refuse a read-only or hard-linked file, although the system would let us replace it."""
    hint = "Make it writable, or add the entry where the file is generated from."
    for place in (path, path.parent):
        try:
            info = os.stat(place)
        except OSError:
            continue
        if not info.st_mode & 0o222 or not os.access(place, os.W_OK):
            raise PermissionDenied(f"{place} is read-only.", hint=hint, details={"file": str(path)})
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            raise PermissionDenied(
                f"{place} has several names (hard links).",
                hint="Replacing it would separate them. Edit it by hand.",
                details={"file": str(path)},
            )


def decode(target: ClientFile, raw: bytes | None) -> str:
    """Return the text of a file, without a byte order mark."""
    try:
        return (raw or b"").removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid(target, "it is not UTF-8") from None


def encode(raw: bytes | None, text: str) -> bytes:
    """Return a text as bytes, with a byte order mark if the file had one."""
    try:
        return (BOM if raw is not None and raw.startswith(BOM) else b"") + text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(
            "The name of the folder is not valid Unicode, so it cannot be written to settings.",
            hint="Rename the folder, or set up a client that starts servers in the project.",
        ) from None


def parse(target: ClientFile, text: str) -> Any:
    try:
        if target.format == "toml":
            return tomllib.loads(text)
        node = jsonc.parse(text)
    except (Malformed, tomllib.TOMLDecodeError) as error:
        raise _invalid(target, str(error)) from None
    return {} if node is None else node.value


def find_entry(target: ClientFile, text: str) -> Any:
    """Return our entry in a file; None if there is none."""
    value = parse(target, text)
    for key in target.keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put_entry(target: ClientFile, text: str, entry: Mapping[str, Any]) -> str:
    """Return the text with our part; other keys of an existing entry stay."""
    try:
        if target.format == "markdown":
            return markdown.put(text)
        if target.format in ("skill", "agent"):
            return _put_file(target, text)
        if target.format == "hook":
            if dict(entry) in (find_entry(target, text) or ()):
                return text
            return jsonc.append(drop_entry(target, text), target.keys, dict(entry))
        if target.format == "toml":
            return toml_text.put(text, target.keys, entry)
        if not isinstance(find_entry(target, text), dict):
            return jsonc.put(text, target.keys, dict(entry))
        for key, value in entry.items():
            text = jsonc.put(text, (*target.keys, key), value)
        return text
    except Malformed as error:
        raise _invalid(target, str(error)) from None


def drop_entry(target: ClientFile, text: str) -> str:
    """Return the text without our part."""
    try:
        if target.format in ("markdown", "skill", "agent"):
            return markdown.drop(text)
        if target.format == "hook":
            return jsonc.drop_items(text, target.keys, _is_our_hook)
        if target.format == "toml":
            return toml_text.drop(text, target.keys)
        return jsonc.drop(text, target.keys)
    except Malformed as error:
        raise _invalid(target, str(error)) from None


def has_entry(target: ClientFile, text: str) -> bool:
    if target.format in ("markdown", "skill", "agent"):
        return markdown.has(text)
    if target.format == "hook":
        hooks = find_entry(target, text)
        return isinstance(hooks, list) and any(map(_is_our_hook, hooks))
    return find_entry(target, text) is not None


def _put_file(target: ClientFile, text: str) -> str:
    from lookfar.serve.mcp.skills import load_skill

    if text and not markdown.has(text):
        raise Malformed(f"it is another {target.format}, not Lookfar's")
    if target.format == "skill":
        return markdown.put_file(text, load_skill().text)
    explorer = files("lookfar.serve.setup") / "explorer.md"
    return markdown.put_file(text, explorer.read_bytes().decode())


def _is_our_hook(hook: Any) -> bool:
    return GREP_HINT in json.dumps(hook)


def _invalid(target: ClientFile, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"{target.path} cannot be edited: {why}.",
        hint="Fix the file, or add Lookfar by hand. Nothing in it was changed.",
        details={"file": str(target.path)},
    )


def make_diff(edit: Edit, name: str) -> list[str]:
    """Return the lines of a unified diff, with the secrets around our lines masked."""
    old, new = decode(edit.target, edit.before), decode(edit.target, edit.after)
    # Mask before comparing: a comma added after a secret changes its line, and a secret may
    # span several lines.
    lines = list(_unified(_mask(old), _mask(new), edit, name))
    if any(len(line) > _LONG_LINE for line in lines):
        lines = [*lines[:2], *map(_mask, _changed_part(old, new))]
    return [line.replace("\t", "    ") for line in lines]


def _mask(text: str) -> str:
    """Replace secrets by dots, keeping the number of lines."""
    text = _VARIABLES.sub(lambda match: _VALUE.sub(_mask_value, match[0]), text)
    return _SECRET.sub(_mask_value, text)


def _mask_value(match: re.Match[str]) -> str:
    name = match[1]
    value = match[0][len(name) :]
    return name + ('"..."' if value[0] in "\"'[" else "...") + "\n" * value.count("\n")


def _unified(old: str, new: str, edit: Edit, name: str) -> Iterator[str]:
    old_name = name if edit.before is not None else os.devnull
    new_name = name if edit.after is not None else os.devnull
    return difflib.unified_diff(
        old.splitlines(), new.splitlines(), old_name, new_name, n=2, lineterm=""
    )


def _changed_part(old: str, new: str) -> Iterator[str]:
    """Yield only what differs, for a file that is one very long line."""
    begin = _common_prefix(old, new)
    end = _common_prefix(old[begin:][::-1], new[begin:][::-1])
    yield f"@@ character {begin + 1} @@"
    for sign, text in (("-", old), ("+", new)):
        if len(text) - end > begin:
            yield sign + text[begin : len(text) - end]


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the prefix that two texts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))

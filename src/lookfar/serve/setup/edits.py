"""What setup would change in one file, and nothing more than that.

Takes: a file of somebody's, and what of it is ours. Gives: its bytes before and after, and a
difference to show. Refuses: a file that is not UTF-8, not of its format, read-only, or known by
further names; then it is left alone.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lookfar.errors import InvalidArgument, InvalidConfig, PermissionDenied, from_os_error
from lookfar.serve.setup import jsonc, markdown, toml_text
from lookfar.serve.setup.malformed import Malformed

BOM: Final = b"\xef\xbb\xbf"
_LARGEST: Final = 64_000_000
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
"""What a server is started or asked with, as JSON or a table of TOML: secrets by any name."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file, and where in it our part is."""

    client: str
    title: str
    scope: str
    path: Path
    format: Literal["json", "toml", "markdown", "skill"]
    keys: tuple[str, ...] = ()

    @property
    def real(self) -> Path:
        """What is written to: a link is followed, and stays a link."""
        return Path(os.path.realpath(self.path))


@dataclass(frozen=True, slots=True)
class Edit:
    """A file as it is and as it would be; None where there is none."""

    target: Target
    before: bytes | None
    after: bytes | None
    note: str = ""

    @property
    def changes(self) -> bool:
        return self.before != self.after


def read(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LARGEST:
            raise InvalidConfig(
                f"{path} is not a file of settings.",
                hint="Look at what is there; it was left alone.",
                details={"file": str(path)},
            )
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise PermissionDenied(
            f"{path} may not be read.",
            hint="Check its permissions; it was left alone.",
            details={"file": str(path)},
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {path}") from error


def refuse_unwritable(path: Path) -> None:
    """What is read-only is meant to stay as it is, though the system would let us replace it."""
    hint = "Make it writable if it is to be edited, or write the entry where the file comes from."
    for each in (path, path.parent):
        try:
            info = os.stat(each)
        except OSError:
            continue
        if not info.st_mode & 0o222 or not os.access(each, os.W_OK):
            raise PermissionDenied(f"{each} is read-only.", hint=hint, details={"file": str(path)})
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            raise PermissionDenied(
                f"{each} is one file under several names (hard links).",
                hint="Replacing it would part them. Edit it by hand.",
                details={"file": str(path)},
            )


def text_of(target: Target, raw: bytes | None) -> str:
    """The text of a file, without the mark that some editors begin it with."""
    try:
        return (raw or b"").removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid(target, "it is not UTF-8") from None


def bytes_of(raw: bytes | None, text: str) -> bytes:
    """A text as bytes, with the mark at the beginning where the file had one."""
    try:
        return (BOM if raw is not None and raw.startswith(BOM) else b"") + text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(
            "The name of the folder is not text, and settings can hold nothing else.",
            hint="Rename the folder, or set up a client that starts servers in the project.",
        ) from None


def data_of(target: Target, text: str) -> Any:
    """All that a file of settings says."""
    try:
        if target.format == "toml":
            return tomllib.loads(text)
        node = jsonc.parse(text)
    except (Malformed, tomllib.TOMLDecodeError) as error:
        raise _invalid(target, str(error)) from None
    return {} if node is None else node.value


def entry_in(target: Target, text: str) -> Any:
    """Our entry as a file has it; None where it has none."""
    found = data_of(target, text)
    for key in target.keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def with_entry(target: Target, text: str, entry: Mapping[str, Any]) -> str:
    """The text with our part in it; of an entry that is there, other keys stay."""
    try:
        if target.format == "markdown":
            return markdown.put(text)
        if target.format == "skill":
            return _skill(text)
        if target.format == "toml":
            return toml_text.put(text, target.keys, entry)
        if not isinstance(entry_in(target, text), dict):
            return jsonc.put(text, target.keys, dict(entry))
        for key, value in entry.items():
            text = jsonc.put(text, (*target.keys, key), value)
        return text
    except Malformed as error:
        raise _invalid(target, str(error)) from None


def without_entry(target: Target, text: str) -> str:
    """The text without our part."""
    try:
        if target.format in ("markdown", "skill"):
            return markdown.drop(text)
        if target.format == "toml":
            return toml_text.drop(text, target.keys)
        return jsonc.drop(text, target.keys)
    except Malformed as error:
        raise _invalid(target, str(error)) from None


def has_entry(target: Target, text: str) -> bool:
    if target.format in ("markdown", "skill"):
        return markdown.has(text)
    return entry_in(target, text) is not None


def _skill(text: str) -> str:
    if text and not markdown.has(text):
        raise Malformed("it is a skill of somebody else's")
    return markdown.put(text) if text else markdown.SKILL


def _invalid(target: Target, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"{target.path} cannot be edited: {why}.",
        hint="Mend the file, or add Lookfar by hand. Nothing in it was changed.",
        details={"file": str(target.path)},
    )


# --- to show ----------------------------------------------------------------------------------


def difference(edit: Edit, shown: str) -> list[str]:
    """The lines of a unified diff. Secrets that stand around our lines are not repeated."""
    old, new = text_of(edit.target, edit.before), text_of(edit.target, edit.after)
    # Before they are compared: a comma behind a secret makes its line differ, and a secret may
    # go over several lines.
    lines = list(_unified(_masked(old), _masked(new), edit, shown))
    if any(len(line) > _LONG_LINE for line in lines):
        lines = [*lines[:2], *map(_masked, _middle(old, new))]
    return [line.replace("\t", "    ") for line in lines]


def _masked(text: str) -> str:
    """The text with dots for its secrets, and with as many lines."""
    text = _VARIABLES.sub(lambda found: _VALUE.sub(_dots, found[0]), text)
    return _SECRET.sub(_dots, text)


def _dots(found: re.Match[str]) -> str:
    name = found[1]
    value = found[0][len(name) :]
    return name + ('"..."' if value[0] in "\"'[" else "...") + "\n" * value.count("\n")


def _unified(old: str, new: str, edit: Edit, shown: str) -> Iterator[str]:
    was, will = (shown if each is not None else os.devnull for each in (edit.before, edit.after))
    return difflib.unified_diff(old.splitlines(), new.splitlines(), was, will, n=2, lineterm="")


def _middle(old: str, new: str) -> Iterator[str]:
    """Of a file that is one endless line, what differs."""
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    yield f"@@ character {begin + 1} @@"
    for sign, text in (("-", old), ("+", new)):
        if len(text) - end > begin:
            yield sign + text[begin : len(text) - end]


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin alike with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))

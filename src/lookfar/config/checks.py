"""Checking settings: one value at a time, and how values fit together.

Every rejection is an ``InvalidConfig`` that names the setting, where it was set and what it
accepts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, cast

from lookfar.config.schema import (
    DEFAULTS,
    RULES,
    Value,
    describe_accepted,
    variable_name,
)
from lookfar.config.settings import Layer, Rule
from lookfar.errors import InvalidConfig

_POSTGRES_URL: Final = re.compile(r"postgres(ql)?://")
_PASSWORD: Final = re.compile(r"//[^/@]*:[^/@]*@|[?&](ssl)?password=")
_SET_BY_USER: Final = frozenset({"user", "project", "environment", "explicit"})


class Given(NamedTuple):
    """A raw value and where it was written."""

    key: str
    value: object
    layer: Layer
    place: str
    """For people: a file's path, a variable's name, or ``arguments``."""


# --- one value --------------------------------------------------------------------------------


def check(given: Given) -> Value:
    """Convert a raw value to the type of its setting, or raise ``InvalidConfig``."""
    rule = RULES[given.key]
    if given.layer == "project":
        _reject_untrusted(given, rule)
    value = _convert(given, rule)
    if value is None or not _in_range(value, rule):
        text = shorten(given.value)
        raise InvalidConfig(
            f"{_describe(given)} cannot be {text}.",
            hint=f"Give {describe_accepted(given.key)}.",
            details={**_details(given), "value": text},
        )
    if rule.server:
        _reject_password(given, str(value))
    return value


def reject_unknown(name: str, known: list[str], layer: Layer, place: str) -> NoReturn:
    """Raise ``InvalidConfig`` for a name that is not a setting, with the closest known name."""
    import difflib

    leaf = name.rpartition(".")[2]
    # First the same name in another section, then similar spellings.
    close = [key for key in known if key.rpartition(".")[2] == leaf]
    close = close or difflib.get_close_matches(name, known, n=1)
    suggestion = close[0] if close else ""
    raise InvalidConfig(
        f"{name[:100]} in {place} is not a setting.",
        hint=f"Did you mean {suggestion}?" if suggestion else "Remove it, or correct its name.",
        details={**_details(Given(name, None, layer, place)), "suggestion": suggestion},
    )


def reject_section(given: Given) -> NoReturn:
    """Raise ``InvalidConfig`` for a section name that was given a value."""
    raise InvalidConfig(
        f"{given.key} in {given.place} is a section, not a value.",
        hint=f"Write [{given.key}] on a line of its own and its settings below it.",
        details=_details(given),
    )


def _reject_password(given: Given, value: str) -> None:
    """Reject a server address with a password, without showing the address."""
    problem = ""
    if value and not _POSTGRES_URL.match(value):
        problem = "is not the address of a PostgreSQL server"
    elif _PASSWORD.search(value):
        problem = "contains a password, and settings can be listed"
    if problem:
        raise InvalidConfig(
            f"{_describe(given)} {problem}.",
            hint="Give postgresql://ROLE@HOST:PORT/DATABASE, and the password in PGPASSWORD or in"
            " the file that PGPASSFILE names.",
            details=_details(given),
        )


def _convert(given: Given, rule: Rule) -> Value | None:
    """Convert a raw value to the type of its default; None if that is not possible."""
    raw, default = given.value, DEFAULTS[given.key]
    text = raw if isinstance(raw, str) else None
    from_text = given.layer == "environment"
    if isinstance(default, bool):
        if from_text and text is not None:
            return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
        return raw if isinstance(raw, bool) else None
    if isinstance(default, (int, float)):
        if rule.size and text is not None:
            return parse_size(text)
        if from_text and text is not None:
            try:
                return type(default)(text)
            except ValueError:
                return None
        if isinstance(raw, bool):
            return None
        if isinstance(default, float) and isinstance(raw, (int, float)):
            return float(raw) if abs(raw) < 1e300 else None
        return raw if isinstance(raw, int) else None
    if isinstance(default, tuple):
        if from_text and text is not None:
            raw = [part.strip() for part in text.split(",") if part.strip()]
        if not isinstance(raw, (list, tuple)):
            return None
        items = tuple(raw)
        return items if all(isinstance(i, str) and i and "\0" not in i for i in items) else None
    if rule.location and isinstance(raw, os.PathLike):
        text = str(os.fspath(raw))
    return text if text is not None and "\0" not in text else None


def parse_size(text: str) -> int | None:
    """Return the bytes that a size such as ``500KB`` means; None if it is not one."""
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([KMG]?)i?B?\s*", text, re.I | re.A)
    if not match:
        return None
    return int(float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " "))


def _in_range(value: Value, rule: Rule) -> bool:
    if rule.choices:
        return value in rule.choices
    if rule.low is not None and rule.high is not None and isinstance(value, (int, float)):
        return rule.low <= value <= rule.high  # also False for NaN
    return True


def _reject_untrusted(given: Given, rule: Rule) -> None:
    """Reject what a project's own file may not set.

    That file may shape the index of its folder, but may not reach anything outside it.
    """
    elsewhere = (
        "Set it in your own configuration file, as the environment variable "
        f"{variable_name(given.key)}, or as an explicit argument."
    )
    if rule.trusted:
        raise InvalidConfig(
            f"{given.key} may not be set by a project's own file ({given.place}).",
            hint=f"Remove it there. {elsewhere}",
            details=_details(given),
        )
    if not isinstance(given.value, list):
        return
    if given.key == "serve.toolset" and "document-db" in given.value:
        raise InvalidConfig(
            f"serve.toolset may not name document-db in a project's own file ({given.place}):"
            " its tools write to your databases.",
            hint=f"Remove it there. {elsewhere}",
            details=_details(given),
        )
    for pattern in given.value if rule.patterns else ():
        if isinstance(pattern, str) and leaves_root(pattern):
            raise InvalidConfig(
                f"{_describe(given)} names something outside the project: {shorten(pattern)}.",
                hint="Write patterns relative to the project, like docs/**, without a leading "
                f"slash and without '..'. {elsewhere}",
                details={**_details(given), "value": shorten(pattern)},
            )


def leaves_root(pattern: str) -> bool:
    """Return whether a path or glob names something outside the folder it is relative to."""
    bare = pattern.strip().lstrip("!")
    absolute = bare.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", bare)
    # Braces, commas and bars separate alternatives in a glob, so each ends a path component.
    return bool(absolute) or ".." in re.split(r"[/\\{},|()]", bare)


def _describe(given: Given) -> str:
    return f"{given.key} (set in {given.place})"


def shorten(value: object) -> str:
    """Return a value for an error message, at most 60 characters of it."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python agrees to print
        return "a very large number"
    return text if len(text) <= 60 else text[:57] + "..."


def _details(given: Given) -> dict[str, object]:
    where = "file" if given.layer in ("user", "project") else "source"
    return {"key": given.key, "layer": given.layer, where: given.place}


# --- how values fit together ------------------------------------------------------------------


def derive_unset(values: dict[str, Value], origin: dict[str, Layer]) -> None:
    """Adjust settings that were not set to fit those that were."""

    def is_set(key: str) -> bool:
        return origin[key] in _SET_BY_USER

    def derive(key: str, value: float) -> None:
        if not is_set(key) and values[key] != value:
            values[key], origin[key] = value, "derived"

    def number(key: str) -> int:
        return cast(int, values[key])

    if is_set("chunk.min_tokens"):
        derive("chunk.max_tokens", max(number("chunk.max_tokens"), number("chunk.min_tokens")))
    if is_set("chunk.hard_max_tokens"):
        derive("chunk.max_tokens", min(number("chunk.max_tokens"), number("chunk.hard_max_tokens")))
    largest = number("chunk.max_tokens")
    if largest > number("chunk.hard_max_tokens"):
        derive("chunk.hard_max_tokens", -(-largest * 4 // 3))
    derive("chunk.min_tokens", min(number("chunk.min_tokens"), largest))
    if number("chunk.overlap_tokens") >= largest:
        derive("chunk.overlap_tokens", largest // 4)
    # If the user chose the size of chunks or their overlap, parts are of that size.
    part = number("chunk.part_tokens")
    if is_set("chunk.max_tokens") or part > largest or part <= number("chunk.overlap_tokens"):
        derive("chunk.part_tokens", largest)
    chunk_chars = number("documents.chunk_chars")
    if number("documents.overlap_chars") >= chunk_chars:
        derive("documents.overlap_chars", chunk_chars // 4)
    derive("search.candidates", max(number("search.candidates"), number("search.top_k")))

    pair = ("search.vector_weight", "search.keyword_weight")
    for one, other in (pair, pair[::-1]):
        if is_set(one) and not is_set(other):
            derive(other, round(1 - cast(float, values[one]), 6))


def reject_contradictions(values: Mapping[str, Value], origin: Mapping[str, Layer]) -> None:
    """Raise ``InvalidConfig`` if settings contradict each other."""

    def require(holds: bool, rule: str, *keys: str) -> None:
        if not holds:
            listed = ", ".join(f"{key} = {values[key]} ({origin[key]})" for key in keys)
            raise InvalidConfig(
                f"These settings contradict each other: {listed}.",
                hint=f"Choose values so that {rule}.",
                details={
                    "key": keys[0],
                    "keys": list(keys),
                    "layers": {key: origin[key] for key in keys},
                },
            )

    def require_at_most(smaller: str, larger: str) -> None:
        low, high = cast(float, values[smaller]), cast(float, values[larger])
        require(low <= high, f"{smaller} is at most {larger}", smaller, larger)

    def require_below(smaller: str, larger: str) -> None:
        low, high = cast(int, values[smaller]), cast(int, values[larger])
        require(low < high, f"{smaller} is below {larger}", smaller, larger)

    require_at_most("chunk.min_tokens", "chunk.max_tokens")
    require_at_most("chunk.max_tokens", "chunk.hard_max_tokens")
    require_at_most("search.top_k", "search.candidates")
    require_at_most("chunk.part_tokens", "chunk.max_tokens")
    require_below("chunk.overlap_tokens", "chunk.max_tokens")
    require_below("chunk.overlap_tokens", "chunk.part_tokens")
    for provider in ("embed.provider", "embed.code_provider"):
        model = provider.replace("provider", "model")
        named = values[provider] not in ("onnx", "remote") or bool(values[model])
        require(named, f"{model} names a model for {provider}", provider, model)
    has_code_model = bool(values["embed.code_provider"] or values["embed.code_model"])
    require(
        values["embed.provider"] != "none" or not has_code_model,
        "a second model comes with a first",
        "embed.provider",
        "embed.code_provider",
        "embed.code_model",
    )
    for address in ("embed.base_url", "embed.hub"):
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", str(values[address])):
            # The value is not shown, because it may contain a key.
            raise InvalidConfig(
                f"{address} ({origin[address]}) is not a usable address.",
                hint="Give http://HOST or https://HOST, optionally with a path, but without a"
                " user, a key or a query; keys are read from the environment only.",
                details={"key": address, "layer": origin[address]},
            )
    require_below("documents.overlap_chars", "documents.chunk_chars")
    vector, keyword = "search.vector_weight", "search.keyword_weight"
    require(
        bool(values[vector] or values[keyword]), "one of the weights is above 0", vector, keyword
    )

"""Resolving settings from their layers.

Layers, weakest first: default, preset, user file, project file, environment, explicit. If the
toolset of another system is served, its configuration is part of these layers
(:mod:`lookfar.config.foreign.trust_layers`).

Settings that were not set follow those that were (a larger ``chunk.max_tokens`` raises
``chunk.hard_max_tokens``, and a toolset chooses its preset); their origin is then ``derived``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from lookfar.config.checks import (
    Given,
    check,
    derive_unset,
    reject_contradictions,
    reject_section,
    reject_unknown,
)
from lookfar.config.environment import TOKENS_VARIABLE, read_environment
from lookfar.config.folders import (
    DATA_VARIABLE,
    PROJECT_FILE,
    PROJECT_PLACEHOLDER,
    USER_FILE_VARIABLE,
    config_file,
    data_dir,
    expand_home,
    parse_toml,
    read_settings_file,
)
from lookfar.config.presets import PRESETS
from lookfar.config.schema import (
    DEFAULTS,
    NAMED_KEY,
    RETIRED,
    RULES,
    SECTIONS,
    VARIABLE_PREFIX,
    VARIABLES,
    Value,
    from_dict,
    variable_name,
)
from lookfar.config.settings import Layer, Settings
from lookfar.errors import InvalidConfig

_RETIRED_VARIABLES: Final = {variable_name(name): name for name in RETIRED}
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?")
"""A model on the hub: OWNER/NAME, optionally with @REVISION."""


def load(
    root: Path | None,
    explicit: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Resolve the settings for the folder ``root``, or without a project file for None.

    ``explicit`` has dotted keys, nested mappings or both; a value of None means "not given".
    ``environ`` replaces the process environment.
    """
    env = read_environment(environ)
    # PWD of this process may be outdated if the process changed its working directory.
    cwd = Path() if environ is None else Path(env.get("PWD", ""))
    given = [
        *_read_user_file(env),
        *(_read_project_file(root) if root is not None else ()),
        *_read_variables(env),
        *_flatten(explicit or {}, "explicit", "arguments"),
    ]
    checked = [(item, check(item)) for item in given]
    if system := _choose_system({item.key: value for item, value in checked}):
        return _resolve_with_foreign(system, checked, root, env, cwd)
    return _resolve(checked, env, cwd)


def find_problems(
    text: str, path: Path, *, project: bool = False, environ: Mapping[str, str] | None = None
) -> list[InvalidConfig]:
    """Return every problem in the text of a settings file, in order.

    ``project`` means that it is a project's own file. Contradictions between settings are only
    checked if every value is valid by itself.
    """
    layer: Layer = "project" if project else "user"
    try:
        raw = parse_toml(text, path)
    except InvalidConfig as error:
        return [error]
    problems: list[InvalidConfig] = []
    checked: list[tuple[Given, Value]] = []
    for name, value in raw.items():
        section = value if name in SECTIONS and isinstance(value, Mapping) else None
        items = {name: value} if section is None else {f"{name}.{k}": v for k, v in section.items()}
        for item in items.items():
            try:
                checked += [
                    (given, check(given)) for given in _flatten(dict([item]), layer, str(path))
                ]
            except InvalidConfig as error:
                problems.append(error)
    if not problems:
        try:
            _resolve(checked, read_environment(environ), Path())
        except InvalidConfig as error:
            problems.append(error)
    return problems


def check_value(key: str, value: object) -> Value:
    """Convert a value to the type of its setting, or raise ``InvalidConfig``."""
    return check(Given(check_key(key), value, "explicit", "arguments"))


def check_key(name: str) -> str:
    """Return ``name`` if it is a setting; otherwise raise ``InvalidConfig`` with a suggestion."""
    if name in RETIRED:
        raise InvalidConfig(
            f"{name} no longer has an effect.",
            hint="Leave it out. To remove it from a file: lookfar config unset",
            details={"key": name},
        )
    if name not in RULES:
        reject_unknown(name, list(RULES), "explicit", "the command line")
    return name


def describe_origin(
    key: str, settings: Settings, root: Path | None, environ: Mapping[str, str] | None = None
) -> str:
    """Say where the value of a setting comes from; empty for a default."""
    if key in settings.foreign.places:
        return settings.foreign.places[key]
    return {
        "user": str(config_file(environ)),
        "project": str(root / PROJECT_FILE) if root else PROJECT_FILE,
        "environment": variable_name(key),
        "explicit": "--set",
        "preset": f'preset = "{settings.preset}"',
        "derived": "follows other settings",
    }.get(settings.origin[key], "")


def _resolve(checked: list[tuple[Given, Value]], env: Mapping[str, str], cwd: Path) -> Settings:
    """Choose one value for each setting; later values in ``checked`` win."""
    values = dict(DEFAULTS)
    origin: dict[str, Layer] = dict.fromkeys(values, "default")
    preset = _choose_preset({item.key: value for item, value in checked})
    values["preset"], origin["preset"] = preset, "derived" if preset else "default"
    layers = {item.key: item.layer for item, _ in checked}
    by_project = layers.get("preset", layers.get("serve.toolset")) == "project"
    for key, value in PRESETS.get(preset, {}).items():
        # A file of the folder must not set by a preset what it may not set itself.
        if not (by_project and RULES[key].trusted):
            values[key], origin[key] = value, "preset"
    for item, value in checked:
        if RULES[item.key].location and not _is_model_name(item.key, str(value), checked):
            value = _make_absolute(str(value), item, env, cwd)
        values[item.key], origin[item.key] = value, item.layer

    derive_unset(values, origin)
    reject_contradictions(values, origin)
    values["index.dir"] = values["index.dir"] or str(data_dir(env))
    values["embed.models_dir"] = values["embed.models_dir"] or str(data_dir(env) / "models")
    values["documents.dir"] = values["documents.dir"] or str(data_dir(env) / "documents")
    values["outside.dir"] = values["outside.dir"] or str(data_dir(env) / "sources")
    values["memory.dir"] = values["memory.dir"] or str(
        data_dir(env) / "memory" / PROJECT_PLACEHOLDER
    )
    return from_dict(values, origin)


def _choose_preset(given: Mapping[str, Value]) -> str:
    """Return the preset that was given, or the one of the toolset if only one was named."""
    return str(given["preset"]) if "preset" in given else _choose_system(given)


def _choose_system(given: Mapping[str, Value]) -> str:
    """Return the system whose toolset is the only one; empty for any other choice."""
    toolsets = given.get("serve.toolset", ())
    names = set(toolsets) if isinstance(toolsets, tuple) else set()
    return names.pop() if len(names) == 1 and names <= PRESETS.keys() else ""


def _resolve_with_foreign(
    system: str,
    ours: list[tuple[Given, Value]],
    root: Path | None,
    env: Mapping[str, str],
    cwd: Path,
) -> Settings:
    """Resolve our settings together with the configuration of another system.

    Values of theirs that contradict others are dropped, so they never prevent a start.
    """
    # Imported here: most processes serve no other system.
    from lookfar.config.foreign.trust_layers import read_foreign

    known_cwd = Path.cwd() if cwd == Path() and env is read_environment(None) else cwd
    foreign = read_foreign(system, ours, root, env, known_cwd if known_cwd.is_absolute() else None)
    while True:
        merged = foreign.merge(ours)
        try:
            settings = _resolve(merged, env, cwd)
        except InvalidConfig as error:
            keys = error.details.get("keys") or [error.details.get("key")]
            every = [item.key for item, _ in foreign.checked]
            if foreign.drop(keys, error.message) or foreign.drop(every, error.message):
                continue
            raise
        chosen = settings.embed.provider == "remote" and foreign.key
        embed = replace(settings.embed, key=foreign.key) if chosen else settings.embed
        return replace(settings, embed=embed, foreign=foreign.summarise(merged))


def _read_user_file(env: Mapping[str, str]) -> Iterator[Given]:
    path = config_file(env)
    text = read_settings_file(path)
    if text is not None:
        yield from _flatten(parse_toml(text, path), "user", str(path))
    elif env.get(USER_FILE_VARIABLE):
        raise InvalidConfig(
            f"The configuration file {path} does not exist.",
            hint=f"Create it, or correct or unset {USER_FILE_VARIABLE}.",
            details={"file": str(path), "key": USER_FILE_VARIABLE},
        )


def _read_project_file(root: Path) -> Iterator[Given]:
    path = root / PROJECT_FILE
    text = read_settings_file(path, project=True)
    if text is not None:
        yield from _flatten(parse_toml(text, path), "project", str(path))


def _read_variables(env: Mapping[str, str]) -> Iterator[Given]:
    others = (USER_FILE_VARIABLE, TOKENS_VARIABLE, DATA_VARIABLE)
    for variable in sorted(env):
        if not variable.startswith(VARIABLE_PREFIX) or variable in others:
            continue
        if (retired := _RETIRED_VARIABLES.get(variable)) is not None:
            _note_retired(retired, variable)
            continue
        if variable not in VARIABLES:
            reject_unknown(variable, [*VARIABLES, *others], "environment", "the environment")
        yield Given(VARIABLES[variable], env[variable], "environment", variable)


def _flatten(raw: Mapping[str, object], layer: Layer, place: str) -> Iterator[Given]:
    for name, value in raw.items():
        if name in SECTIONS and isinstance(value, Mapping):
            nested: Mapping[str, object] = value
            yield from _flatten({f"{name}.{key}": nested[key] for key in nested}, layer, place)
        elif name == NAMED_KEY and layer == "project":
            # Imported here: few projects name sources.
            from lookfar.config.named_sources import check_named

            check_named(value, place)
        elif name == NAMED_KEY:
            raise InvalidConfig(
                f"{NAMED_KEY} in {place} has no effect: only a project's file can name sources.",
                hint="Add them yourself: lookfar add ORIGIN --everywhere",
                details={"key": NAMED_KEY, "layer": layer},
            )
        elif name in RETIRED:
            _note_retired(name, place)
        elif name in RULES:
            if value is not None or layer != "explicit":
                yield Given(name, value, layer, place)
        elif name in SECTIONS:
            reject_section(Given(name, value, layer, place))
        else:
            reject_unknown(name, [*RULES, *SECTIONS], layer, place)


@cache
def _note_retired(name: str, place: str) -> None:
    """Say once that a setting has no effect any more."""
    import logging

    logging.getLogger(__name__).warning(
        "%s in %s no longer has an effect. You can remove it.", name, place
    )


def _is_model_name(key: str, text: str, checked: list[tuple[Given, Value]]) -> bool:
    """Tell whether a model setting is a name rather than a path.

    A remote model is always a name; a model on the hub has the form OWNER/NAME.
    """
    if key == "search.rerank_model":
        return _HUB_NAME.fullmatch(text) is not None
    provider_key = {
        "embed.model": "embed.provider",
        "embed.code_model": "embed.code_provider",
    }.get(key)
    if provider_key is None:
        return False
    values = {item.key: str(value) for item, value in checked}
    provider = values.get(provider_key) or values.get("embed.provider", "")
    if provider == "remote":
        return True
    return provider == "onnx" and _HUB_NAME.fullmatch(text) is not None


def _make_absolute(text: str, given: Given, env: Mapping[str, str], cwd: Path) -> str:
    """Resolve a path against the user's file if it is set there, otherwise against ``cwd``."""
    if not text:
        return ""
    base = Path(given.place).parent if given.layer == "user" else cwd
    return os.path.abspath(base / expand_home(text, env))

"""The table of settings: keys, defaults, ranges and descriptions.

It is derived from the fields of the section classes, which are its only definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, cast

from lookfar.config.presets import PRESETS
from lookfar.config.settings import (
    ChunkSettings,
    DocumentsSettings,
    EditSettings,
    EmbedSettings,
    GitSettings,
    IndexSettings,
    Layer,
    MemorySettings,
    OutsideSettings,
    QualitySettings,
    Rule,
    SearchSettings,
    ServeSettings,
    Settings,
    SourcesSettings,
    StoreSettings,
    WatchSettings,
)

Value = str | int | float | bool | tuple[str, ...]

VARIABLE_PREFIX: Final = "LOOKFAR_"
NAMED_KEY: Final = "outside.named"
"""The table of sources that a project names. It is not a setting: naming one changes nothing."""


@dataclass(frozen=True, slots=True)
class SettingDoc:
    """One row of the settings reference."""

    key: str
    variable: str
    """The environment variable that sets it."""
    type: str
    default: Value
    description: str
    range: tuple[float, float] | None
    choices: tuple[str, ...]
    presets: Mapping[str, Value]
    """The value under each preset that changes it."""
    project_file: bool
    """Whether a folder's own ``lookfar.toml`` may set it."""


SECTIONS: Final[Mapping[str, type]] = {
    "sources": SourcesSettings,
    "chunk": ChunkSettings,
    "embed": EmbedSettings,
    "quality": QualitySettings,
    "search": SearchSettings,
    "index": IndexSettings,
    "store": StoreSettings,
    "watch": WatchSettings,
    "serve": ServeSettings,
    "git": GitSettings,
    "memory": MemorySettings,
    "edit": EditSettings,
    "documents": DocumentsSettings,
    "outside": OutsideSettings,
}


def _rows() -> Iterator[tuple[str, Rule, Value]]:
    for section, cls in {"": Settings, **SECTIONS}.items():
        for item in fields(cls):
            if "rule" in item.metadata:
                key = f"{section}.{item.name}" if section else item.name
                yield key, item.metadata["rule"], cast(Value, item.default)


def variable_name(key: str) -> str:
    """Return the environment variable that sets ``key``."""
    return VARIABLE_PREFIX + key.replace(".", "_").upper()


RETIRED: Final = frozenset(
    f"search.{name}"
    for name in """
    below_lift body_weight code_docstring code_kind code_sizes code_topic code_vector_weight
    community_seeds concept_threshold described_lift edge_implements edge_related edge_tests
    edge_transclusion expansion_weight link_lift name_boost neighbour_score neighbours
    page_share path_weight phrase_boost quality_lift quality_weight recency_days
    recency_factor recency_late_days recency_late_factor verbatim
    """.split()
) | {"quality.threads", "quality.on_battery", "quality.max_load", "store.vector_memory"}
"""Settings of earlier versions. They have no effect, and naming one is not an error."""
RULES: Final = {key: rule for key, rule, _ in _rows()}
DEFAULTS: Final = {key: default for key, _, default in _rows()}
VARIABLES: Final = {variable_name(key): key for key in RULES}


def describe() -> list[SettingDoc]:
    """Describe every setting, in the order of the table."""
    return [
        SettingDoc(
            key=key,
            variable=variable_name(key),
            type=_type_name(key),
            default=DEFAULTS[key],
            description=rule.description,
            range=None if rule.low is None or rule.high is None else (rule.low, rule.high),
            choices=rule.choices,
            presets={
                name: preset[key]
                for name, preset in PRESETS.items()
                if preset.get(key, DEFAULTS[key]) != DEFAULTS[key]
            },
            project_file=not rule.trusted,
        )
        for key, rule in RULES.items()
    ]


def as_dict(settings: Settings) -> dict[str, Value]:
    """Return the settings by dotted key, in the order of the table."""
    result: dict[str, Value] = {}
    for key in RULES:
        section, _, name = key.rpartition(".")
        result[key] = getattr(getattr(settings, section) if section else settings, name)
    return result


def from_dict(values: Mapping[str, Value], origin: dict[str, Layer]) -> Settings:
    """Build the settings from a value for every dotted key."""
    sections = {
        name: cls(
            **{
                item.name: values[f"{name}.{item.name}"]
                for item in fields(cls)
                if "rule" in item.metadata
            }
        )
        for name, cls in SECTIONS.items()
    }
    return Settings(preset=str(values["preset"]), origin=origin, **sections)


def describe_accepted(key: str) -> str:
    """Say which values ``key`` accepts, to complete a sentence such as "Give ..."."""
    rule = RULES[key]
    if rule.choices:
        return "one of: " + ", ".join(choice or '""' for choice in rule.choices)
    between = "" if rule.low is None or rule.high is None else f" from {rule.low} to {rule.high}"
    return {
        "size": f"a number of bytes{between}, or a size such as 500KB or 1MB",
        "path": "a path as text",
        "boolean": "true or false",
        "integer": f"a whole number{between}",
        "number": f"a number{between}",
        "list": "a list of non-empty strings (in a variable: separated by commas)",
    }.get(_type_name(key), "text")


def _type_name(key: str) -> str:
    if RULES[key].size:
        return "size"
    if RULES[key].location:
        return "path"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (tuple, "list")):
        if isinstance(DEFAULTS[key], kind):
            return name
    return "text"

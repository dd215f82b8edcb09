"""Read the configuration of the system whose toolset is served, as further layers of settings.

A file in the indexed folder counts like its ``lookfar.toml``: it names no service, key, model or
place outside. Files in the user's home and variables count as the user's own. At the same level,
our settings win. What has no effect is noted with a reason, and nothing in these files is an
error: a server starts whatever they contain.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from lookfar.config.checks import Given, check
from lookfar.config.environment import OPENAI_KEY
from lookfar.config.folders import FOREIGN_FILES, home_folder, parse_toml, read_settings_file
from lookfar.config.foreign.rows import convert
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.config.schema import DEFAULTS, RULES, Value
from lookfar.config.settings import ForeignConfig, ForeignNote
from lookfar.errors import InvalidConfig, LookfarError

_STRING_OR_COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL
)
"""Also matches what is not closed, so that each character is examined once."""
_STRING_OR_LAST_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|,(?=\s*[}\]])', re.DOTALL)
MSRL_FILE, RAGDOCS_FILE, PYPROJECT_FILE, ANVIL_FILE = FOREIGN_FILES
ENV_FILE: Final = ".env"
_HASH_LENGTHS: Final = (32, 16)
"""Digits of the hash in the name of Search MCP's folder, now and in its older versions."""
Checked = tuple[Given, Value]
_MOST_NOTES: Final = 50
"""Notes about one file; a hostile one could cause any number."""
_LONGEST_KEY: Final = 100
_INSIDE: Final = frozenset(("memory.in_project", "memory.project_dir"))
"""Settings that name a place inside the folder. Its file may contain them if the user chose the
toolset, because that system keeps memories there."""
_MODEL_KEYS: Final = frozenset(("embed.provider", "embed.model"))
_OPENAI: Final[Mapping[str, object]] = {
    "embed.provider": "remote",
    "embed.model": "text-embedding-3-small",
    "embed.dimensions": 1536,
}
"""The model of Document DB."""
_OTHER_SERVICE: Final = ("OPENAI_BASE_URL", "OPENAI_API_BASE")


@dataclass(slots=True)
class Foreign:
    """What was read: values by layer, and what has no effect."""

    system: str
    by_user: bool
    """Whether the user chose the toolset, not a file of the folder."""
    checked: list[Checked] = field(default_factory=list)
    places: list[ConfigFile] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    notes: list[ForeignNote] = field(default_factory=list)
    key: str = ""
    """The key of OpenAI."""
    enabled: bool = True

    def note(self, place: str, key: str, reason: str) -> None:
        """Note that a setting has no effect, with a name that is safe to print."""
        name = (key if key.isprintable() else ascii(key))[:_LONGEST_KEY]
        here = [note.key for note in self.notes if note.place == place]
        if name not in here and len(here) < _MOST_NOTES:
            self.notes.append(ForeignNote(place, name, reason))

    def drop(self, keys: Iterable[str], reason: str) -> bool:
        """Remove the values of our settings ``keys``; return whether there were any."""
        dropped = [item for item in self.checked if item[0].key in set(keys)]
        self.checked = [item for item in self.checked if item not in dropped]
        for given, _ in dropped:
            self.note(given.place, given.key, reason)
        return bool(dropped)

    def merge(self, ours: list[Checked]) -> list[Checked]:
        """Return all values, weakest first: at each level theirs, then ours."""
        in_user_file = {given.key for given, _ in ours if given.layer == "user"}
        merged: list[Checked] = []
        for layer in ("user", "project", "environment", "explicit"):
            merged += [
                item
                for item in self.checked
                if item[0].layer == layer
                # A variable of theirs and the user's file of ours are equally trusted.
                and not (layer == "environment" and item[0].key in in_user_file)
            ]
            merged += [item for item in ours if item[0].layer == layer]
        return merged

    def summarise(self, merged: list[Checked]) -> ForeignConfig:
        """Return what the settings should say about it; ``merged`` are the values in force."""
        last = {item[0].key: item[0] for item in merged}
        theirs = [given for given, _ in self.checked]
        return ForeignConfig(
            system=self.system,
            files=tuple(self.files),
            watched=tuple(place.path for place in self.places),
            places={key: given.place for key, given in last.items() if given in theirs},
            notes=tuple(self.notes),
            enabled=self.enabled,
        )


def read_foreign(
    system: str,
    ours: list[Checked],
    root: Path | None,
    env: Mapping[str, str],
    cwd: Path | None,
) -> Foreign:
    """Read the configuration of ``system``; ``ours`` are the values of our own settings."""
    chosen = [given.layer for given, _ in ours if given.key == "serve.toolset"]
    foreign = Foreign(system, by_user=chosen[-1:] != ["project"])
    foreign.places = find_places(system, root, env, cwd)
    for place in foreign.places:
        _read_file(foreign, place)
    if system == "document-db" and not foreign.places and cwd and (cwd / ENV_FILE).is_file():
        reason = "It is not read, because it is in a folder that is served."
        foreign.note(str(cwd / ENV_FILE), "", f"{cwd / ENV_FILE}: {reason}")
    if prefix := SYSTEMS[system].variables:
        variables = {name: text for name, text in env.items() if name.startswith(prefix)}
        _read_variables(foreign, variables)
    if system == "document-db":
        foreign.key = env.get(OPENAI_KEY, "").strip() or foreign.key
        _choose_openai(foreign, ours)
    _keep_models_whole(foreign, ours)
    return foreign


# --- files and variables ------------------------------------------------------------------------


def _read_file(foreign: Foreign, place: ConfigFile) -> None:
    """Add the settings of one file, if there is one."""
    path, system = place.path, SYSTEMS[foreign.system]
    try:
        if _leaves_folder(place):
            raise InvalidConfig(
                f"{path} is not read: its folder is a symbolic link.",
                hint="Replace the link by a folder.",
            )
        text = read_settings_file(path, project=place.layer == "project")
        if text is None:
            return
        if path.name == PYPROJECT_FILE:
            if "tool.ragdocs" not in text:
                return
            config = unwrap_pyproject(parse_config(text, path))
        else:
            config = parse_config(text, path)
    except LookfarError as error:
        foreign.note(str(path), "", f"{error.message} It has no effect.")
        return
    foreign.files.append(path)
    if place.layer == "environment":
        config = _take_env_file(foreign, config, str(path))
    config = _drop_own_root(config, place)
    _add(foreign, config, place.layer, lambda _: str(path), system.title)


def _leaves_folder(place: ConfigFile) -> bool:
    """Tell whether a folder between the root and its file is a symbolic link."""
    if place.root is None:
        return False
    parents = place.path.relative_to(place.root).parents
    return any((place.root / parent).is_symlink() for parent in parents if parent.name)


def _take_env_file(foreign: Foreign, config: dict[str, Any], place: str) -> dict[str, Any]:
    """Take the key from a ``.env`` file, and the settings that its system knows.

    Other programs have variables there, too; their names are not reported.
    """
    foreign.key = str(config.pop(OPENAI_KEY, "")).strip()
    for name in _OTHER_SERVICE:
        if name in config:
            foreign.note(place, name, "Another service is only used if embed.base_url is set.")
    known = SYSTEMS[foreign.system].rows_by_name
    return {name: value for name, value in config.items() if name in known}


def _drop_own_root(config: dict[str, Any], place: ConfigFile) -> dict[str, Any]:
    """Drop MSRL's ``vaultRoot`` where it names the folder that is served."""
    vault = config.get("vaultRoot")
    if place.root is None or not isinstance(vault, str) or "\0" in vault:
        return config
    same = (place.root / vault).resolve() == place.root.resolve()
    return (
        {name: value for name, value in config.items() if name != "vaultRoot"} if same else config
    )


def _read_variables(foreign: Foreign, variables: Mapping[str, str]) -> None:
    config = {name: parse_value(text.strip()) for name, text in sorted(variables.items())}
    if config.pop("MSRL_ENABLED", True) in (False, 0):
        foreign.enabled = False
    config.pop("MSRL_VAULT_ROOT", None)  # It chooses the folder, before settings are loaded.
    _add(foreign, config, "environment", lambda theirs: theirs, SYSTEMS[foreign.system].title)


def _add(
    foreign: Foreign,
    config: dict[str, Any],
    layer: Any,
    place_of: Any,
    title: str,
) -> None:
    """Convert and check the settings of one file or of the environment."""
    try:
        converted = convert(SYSTEMS[foreign.system], config)
    except RecursionError:
        foreign.note(place_of(title), "", f"{place_of(title)} is nested too deeply.")
        return
    for unmatched in converted.unmatched:
        foreign.note(place_of(unmatched.theirs), unmatched.theirs, unmatched.note)
    for key, value in converted.settings.items():
        theirs = converted.origins.get(key, key)
        given = Given(key, _as_boolean(key, value), layer, place_of(theirs))
        _add_value(foreign, given, theirs)


def _as_boolean(key: str, value: object) -> object:
    """Return the boolean that a variable means by 0 or 1."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return (
        bool(value) if is_number and isinstance(DEFAULTS[key], bool) and value in (0, 1) else value
    )


def _add_value(foreign: Foreign, given: Given, theirs: str) -> None:
    """Add a value if it is valid and its file may set it."""
    may_set = given.key in _INSIDE and foreign.by_user
    try:
        value = check(given._replace(layer="user") if may_set else given)
    except InvalidConfig as error:
        reason = error.message.replace(f" (set in {given.place})", "")
        if given.layer == "project" and RULES[given.key].trusted:
            reason = f"A file in the folder may not set {given.key}. Set it in your own file."
        foreign.note(given.place, theirs, reason)
        if given.layer == "project" and RULES[given.key].patterns:
            _add_inner_patterns(foreign, given)
        return
    foreign.checked.append((given, value))


def _add_inner_patterns(foreign: Foreign, given: Given) -> None:
    """Add the patterns of a list that stay inside the folder."""
    inner: list[object] = []
    for pattern in given.value if isinstance(given.value, list) else ():
        try:
            check(given._replace(value=[pattern]))
        except InvalidConfig:
            continue
        inner.append(pattern)
    if inner:
        kept = given._replace(value=inner)
        foreign.checked.append((kept, check(kept)))


# --- models -------------------------------------------------------------------------------------


def _choose_openai(foreign: Foreign, ours: list[Checked]) -> None:
    """Choose OpenAI where there is a key and the user chose no model."""
    if not foreign.key:
        return
    if any(given.key in _MODEL_KEYS for given, _ in ours):
        foreign.key = ""
        return
    for key, value in _OPENAI.items():
        given = Given(key, value, "user", OPENAI_KEY)
        foreign.checked.append((given, check(given)))


def _keep_models_whole(foreign: Foreign, ours: list[Checked]) -> None:
    """Drop a model of theirs where ours sets a kind of model or a model: they belong together."""
    own = next((given for given, _ in ours if given.key in _MODEL_KEYS), None)
    if own is not None:
        foreign.drop(_MODEL_KEYS, f"{own.key} is set in {own.place}.")


def parse_config(text: str, path: Path) -> dict[str, Any]:
    """Parse a configuration file; its name and its beginning decide the format."""
    name = path.name.lower()
    if name.endswith(".toml"):
        return dict(parse_toml(text, path))
    if name.endswith(".json") or text.lstrip().startswith(("{", "//", "/*")):
        return _parse_json(text, path)
    return dict(parse_variables(text))


def parse_variables(text: str) -> Iterator[tuple[str, Any]]:
    """Parse ``NAME=VALUE`` lines, as in shell scripts and .env files."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            yield name.strip(), parse_value(value.strip().strip("'\""))


def parse_value(text: str) -> Any:
    """Convert the text of a variable to a number, a boolean or a list if it is one."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except (ValueError, RecursionError):
        return text


def unwrap_pyproject(config: dict[str, Any]) -> dict[str, Any]:
    """Return the table ``tool.ragdocs`` of a pyproject.toml, and anything else unchanged."""
    tools = config.get("tool")
    table = tools.get("ragdocs") if isinstance(tools, dict) else None
    return table if isinstance(table, dict) else config


def _parse_json(text: str, path: Path) -> dict[str, Any]:
    """Parse a JSON object that may have comments and commas before closing brackets."""
    bare = _STRING_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
    bare = _STRING_OR_LAST_COMMA.sub(lambda match: match[0] if match[0] != "," else "", bare)
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidConfig(
            f"{path} is not valid JSON: {reason}.", hint="Fix it, and try again.",
            details={"file": str(path)},
        ) from error  # fmt: skip
    if not isinstance(value, dict):
        raise InvalidConfig(
            f"{path} does not contain a JSON object.", hint="Name a configuration file.",
            details={"file": str(path)},
        )  # fmt: skip
    return value


class ConfigFile(NamedTuple):
    """A file that may contain the configuration of a system."""

    path: Path
    layer: Literal["user", "project", "environment"]
    root: Path | None = None
    """For a file that came with a folder: that folder."""


def find_places(
    system: str, root: Path | None, env: Mapping[str, str], cwd: Path | None
) -> list[ConfigFile]:
    """Return the files of a system, weakest first, whether or not they exist."""
    finders = {
        "anvil": lambda: _anvil(root, cwd),
        "document-db": lambda: _document_db(root, cwd),
        "msrl": lambda: _in_project(root, MSRL_FILE),
        "ragdocs": lambda: _ragdocs(root, env),
        "search-mcp": lambda: _search_mcp(root, env),
    }
    return list(finders[system]())


def search_mcp_folder(root: Path, env: Mapping[str, str]) -> Path:
    """Return the folder in which Search MCP keeps its configuration of a project."""
    digest = hashlib.sha256(os.fsencode(os.path.abspath(root))).hexdigest()
    return _search_mcp_home(env) / "indexes" / digest[: _HASH_LENGTHS[0]]


def _search_mcp_home(env: Mapping[str, str]) -> Path:
    return home_folder(env) / ".mcp" / "search"


def _search_mcp(root: Path | None, env: Mapping[str, str]) -> Iterator[ConfigFile]:
    yield ConfigFile(_search_mcp_home(env) / "config.json", "user")
    if root is not None:
        current = search_mcp_folder(root, env)
        shortened = [current.with_name(current.name[:length]) for length in _HASH_LENGTHS]
        for folder in reversed(shortened):
            yield ConfigFile(folder / "config.json", "user")


def _ragdocs(root: Path | None, env: Mapping[str, str]) -> Iterator[ConfigFile]:
    folder = env.get("XDG_CONFIG_HOME", "")
    config_home = Path(folder) if os.path.isabs(folder) else home_folder(env) / ".config"
    yield ConfigFile(config_home / "mcp-markdown-ragdocs" / "config.toml", "user")
    yield from _in_project(root, PYPROJECT_FILE)
    yield from _in_project(root, RAGDOCS_FILE)


def _anvil(root: Path | None, cwd: Path | None) -> Iterator[ConfigFile]:
    """Its file is beside the documents, or where its command is started."""
    for folder in dict.fromkeys((cwd, root)):
        yield from _in_project(folder, ANVIL_FILE)


def _document_db(root: Path | None, cwd: Path | None) -> Iterator[ConfigFile]:
    """A ``.env`` file chooses a service, so one inside a folder that is served is not read."""
    if cwd is not None and (root is None or not cwd.resolve().is_relative_to(root.resolve())):
        yield ConfigFile(cwd / ENV_FILE, "environment")


def _in_project(root: Path | None, name: str) -> Iterator[ConfigFile]:
    if root is not None:
        yield ConfigFile(root / name, "project", root)

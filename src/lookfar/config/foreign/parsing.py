"""Parse the configuration file of another system: JSON, TOML, or ``NAME=VALUE`` lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lookfar.config.settings_files import parse_toml
from lookfar.errors import InvalidConfig

_STRING_OR_COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL
)
"""Also matches what is not closed, so that each character is examined once."""
_STRING_OR_LAST_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|,(?=\s*[}\]])', re.DOTALL)


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

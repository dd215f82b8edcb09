"""The files of a team server say what the program understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from lookfar import config
from lookfar.serve.cli.main import cli

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_every_variable_is_a_setting(services: dict[str, Any]) -> None:
    known = {setting.variable for setting in config.describe()}
    known |= {config.TOKENS_VARIABLE, config.DATA_VARIABLE}
    named = {
        name
        for service in ("indexer", "front")
        for name in services[service]["environment"]
        if name.startswith("LOOKFAR_")
    }
    assert {"LOOKFAR_STORE_URL", "LOOKFAR_STORE_READ_ONLY", "LOOKFAR_TOKENS"} <= named
    assert named <= known
    image = re.findall(r"\b(LOOKFAR_\w+)=", (ROOT / "Dockerfile").read_text())
    assert set(image) <= known


def test_every_command_line_is_understood(services: dict[str, Any]) -> None:
    for service in ("indexer", "front"):
        name, *arguments = services[service]["command"]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, list(arguments), resilient_parsing=False)


def test_front_ends_and_the_indexer_name_the_same_folder(services: dict[str, Any]) -> None:
    """A collection is known by its path."""
    assert services["front"]["command"][1] == services["indexer"]["command"][1]
    (mounted,) = services["indexer"]["volumes"]
    assert mounted.split(":")[-2:] == [services["indexer"]["command"][1], "ro"]
    assert "volumes" not in services["front"]


def test_the_address_passes_and_holds_no_password(services: dict[str, Any]) -> None:
    url = services["front"]["environment"]["LOOKFAR_STORE_URL"]
    assert config.load(None, {}, {"LOOKFAR_STORE_URL": url}).store.url == url


def test_whatever_has_to_be_set_is_in_the_example(services: dict[str, Any]) -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+)", text))
    example = {line.partition("=")[0] for line in (DEPLOY / ".env.example").read_text().split()}
    assert wanted == example
    assert services["database"]["image"].startswith("pgvector/")


def test_the_role_is_one_that_row_security_binds() -> None:
    script = (DEPLOY / "init.sh").read_text()
    assert "CREATE EXTENSION vector" in script
    created = shlex.split(re.findall(r"CREATE ROLE (.*);", script)[0].replace("'", ""))
    assert created[0] == "lookfar"
    assert not {"SUPERUSER", "BYPASSRLS"} & set(created)

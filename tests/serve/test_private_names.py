"""Names of dependencies that are not documented API, and why Lookfar uses them.

Each dependency has an upper bound in pyproject.toml. Before raising one, run these tests with the
new version and look for a public replacement.
"""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from packaging.requirements import Requirement
from packaging.version import Version
from uvicorn.protocols.http.h11_impl import H11Protocol

PYPROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


@pytest.mark.parametrize("name", ["mcp", "uvicorn"])
def test_the_next_minor_version_is_not_installed(name: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    requirements = map(Requirement, project["dependencies"])
    specifier = next(found.specifier for found in requirements if found.name == name)
    installed = Version(version(name))
    assert installed in specifier
    assert Version(f"{installed.major}.{installed.minor + 1}") not in specifier


def test_a_handler_reaches_its_connection_through_the_session() -> None:
    """Subscriptions of the 2025-11-25 protocol belong to a connection and end with it.

    Handlers get a ``ServerSession`` that is made for each request, and it has no public access to
    the connection behind it. ``mcp/server.py`` reads ``session._connection``.
    """
    assert "self._connection = connection" in inspect.getsource(ServerSession.__init__)
    assert not hasattr(ServerSession, "connection"), "use the public property"
    assert not hasattr(ServerRequestContext, "connection"), "use the public property"
    assert {"send_resource_updated", "send_resource_list_changed"} <= set(dir(Connection))
    assert "self.exit_stack" in inspect.getsource(Connection.__init__)


def test_the_protocol_of_uvicorn_can_be_extended() -> None:
    """Uvicorn has no time limit for the head of a request and none for clients that do not read.

    ``http/listen.py`` adds both to ``H11Protocol`` by overriding its methods.
    """
    overridden = (
        "connection_made",
        "data_received",
        "handle_events",
        "on_response_complete",
        "pause_writing",
        "resume_writing",
        "connection_lost",
        "send_400_response",
    )
    assert set(overridden) <= set(vars(H11Protocol))
    made = inspect.getsource(H11Protocol.__init__)
    for attribute in ("connections", "cycle", "loop", "transport"):
        assert f"self.{attribute}" in made, attribute

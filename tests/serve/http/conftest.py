"""Servers that several modules ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from serve.http.asking import Served, serving


@pytest.fixture(scope="session")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Every toolset on loopback without tokens, as in a default setup."""
    with serving(
        tmp_path_factory.mktemp("open"), "--toolset", "all", "--metrics", "--log-level", "debug"
    ) as served:
        yield served

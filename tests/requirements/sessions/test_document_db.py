"""Sessions of Document DB's clients, as its document shows them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from requirements.sessions.client import TRANSPORTS, Client, serving


@pytest.fixture(scope="module", params=TRANSPORTS)
def db(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    with serving(request.param, "--toolset", "document-db", home=home) as client:
        yield client


def test_the_manifest_lists_the_four_tools(db: Client) -> None:
    names = {"create_database", "insert_document", "find_similar_documents", "delete_document"}
    assert db.tools().keys() == names

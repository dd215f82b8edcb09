"""Similar documents where the model fails or is missing: an error, or no score, but never 0.0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedding_service import Service, cut
from embedding_service import refused as refused_by_service

TOOLSET = "document-db"
Ask = Callable[..., Any]


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


class TestAServiceThatFails:
    @pytest.fixture
    def settings(self, tmp_path: Path, service: Service) -> dict[str, Any]:
        return {
            "embed.provider": "remote",
            "embed.model": "small",
            "embed.base_url": service.url,
            "embed.retries": 0,
            "documents.dir": str(tmp_path / "db"),
        }

    @pytest.mark.parametrize("fault", [refused_by_service(500), refused_by_service(401), cut])
    def test_it_is_an_error_and_not_a_perfect_match(
        self, ask: Ask, refused: Ask, service: Service, fault: Any
    ) -> None:
        """Seen to fail when words answered for the model: the best had ``score: 0.0``, which is
        the distance of a text to itself."""
        made = ask("insert_document", text="boats in the harbour")
        (hit,) = ask("find_similar_documents", text="boats")
        assert 0 < hit["score"] < 2
        service.always = fault
        told = refused("find_similar_documents", text="the harbour")  # The other is remembered.
        assert told["code"] == "MODEL_UNAVAILABLE"
        assert told["hint"]
        service.always = None
        (again,) = ask("find_similar_documents", text="boats")
        assert (again["doc_id"], again["score"]) == (made["doc_id"], hit["score"])


class TestWithoutAModel:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> dict[str, Any]:
        return {"embed.provider": "none", "documents.dir": str(tmp_path / "db")}

    def test_there_is_no_distance_and_so_no_answer(self, ask: Ask, refused: Ask) -> None:
        """Seen to fail when what the ranking leaves to 1 was given as a distance."""
        ask("insert_document", text="boats in the harbour")
        shape = refused("find_similar_documents", text="boats")
        assert shape["code"] == "MODEL_UNAVAILABLE"
        assert "embed.provider" in shape["hint"]

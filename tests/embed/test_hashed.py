"""The double, and the choice between it, the real one and none."""

from __future__ import annotations

import numpy as np
import pytest

from lookfar.config import EmbedSettings
from lookfar.embed.bundled import BundledEmbedder
from lookfar.embed.hashed import HashedEmbedder
from lookfar.embed.providers import open_embedder


def test_shared_words_mean_nearness() -> None:
    vectors = HashedEmbedder(256).embed(["red apple", "Apple RED", "green apple", "blue sky", ""])
    assert np.array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[3]
    assert not vectors[4].any()
    assert np.allclose(np.linalg.norm(vectors[:4], axis=1), 1)


def test_vectors_are_the_same_in_every_process() -> None:
    (vector,) = HashedEmbedder(4).embed(["a b c"])
    assert np.array_equal(vector, HashedEmbedder(4).embed(["c b a"])[0])
    assert vector.dtype == np.float32
    assert HashedEmbedder(4).fingerprint != HashedEmbedder(8).fingerprint


def test_embedded_texts_are_recorded() -> None:
    embedder = HashedEmbedder()
    embedder.embed(["a", "b"])
    embedder.embed(["c"])
    assert embedder.embedded == ["a", "b", "c"]
    assert embedder.count_tokens("12345") == 2


@pytest.mark.parametrize(
    ("provider", "kind"),
    [("none", type(None)), ("hash", HashedEmbedder), ("static", BundledEmbedder)],
)
def test_settings_choose_the_embedder(provider: str, kind: type) -> None:
    assert type(open_embedder(EmbedSettings(provider=provider))) is kind

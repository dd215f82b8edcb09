"""One reading of the words gives what the analyser, the model and the chunker give separately."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.embed.bundled import BundledEmbedder
from lookfar.embed.hashed import HashedEmbedder
from lookfar.index import words as module
from lookfar.index.extraction import decode_content
from lookfar.index.prepare import Prepared, Stages, embed, prepare
from lookfar.index.words import Words
from lookfar.model import Fingerprint
from lookfar.ports import Embedder
from lookfar.store.keywords.analyser import analyse
from lookfar.text.chunk import definitions, headings
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.chunk.parts import Sizes
from lookfar.text.parse.formats import text_parser_for

examples = settings(max_examples=200, deadline=None, derandomize=True)
SIZES = Sizes(max_tokens=40, hard_max_tokens=60, min_tokens=8)
PAGE = """---
title: Zürich “notes”
---
Intro with getUserById, naïve café and real-time.

# One

Prose before. ^block-id
```js
const userName = "x";
```
Prose after — with 設定 and C++, don’t.

    indented_block = 1

## Two

- item `foo.bar`

  ```sh
  kubectl get pods
  ```
"""
PROGRAM = """def parse_url(text):
    '''Parse a URL.'''
    return text.split("://")


class HttpClient:
    def getUserById(self, user_id):
        return self.users[user_id]
"""


@pytest.fixture(scope="module")
def model() -> BundledEmbedder:
    return BundledEmbedder()


texts = st.text() | st.text(
    alphabet="aAbB12_-.'’:+#(<=> é\u0301\u0338\u00a8漢の한ｶＡ“…\u200d\n\u2003"
)


@examples
@given(texts)
def test_terms_and_pieces_are_those_of_the_whole_text(model: BundledEmbedder, text: str) -> None:
    read = Words(model).read(text)
    assert read.terms.split() == analyse(text).split()
    assert read.pieces == model.pieces(text)


compounds = st.lists(
    st.text(alphabet="aBs9_'é", min_size=0, max_size=30), min_size=2, max_size=5
).flatmap(lambda parts: st.sampled_from("-.:").map(lambda joint: joint.join(parts)))


@examples
@given(compounds)
def test_a_compound_is_read_from_its_components(model: BundledEmbedder, word: str) -> None:
    words = Words(model)
    words.read(word.replace("-", " ").replace(".", " "))  # The components are known already.
    assert words.read(word).terms.split() == analyse(word).split()
    assert words.read(word).pieces == model.pieces(word)


@examples
@given(texts)
def test_tokens_are_counted_as_the_model_does(model: BundledEmbedder, text: str) -> None:
    assert Words(model).count(text) == model.count_tokens(text)
    assert Words(model, by_length=True).count(text) == -(-len(text) // 4)


def test_a_full_memory_is_cleared(model: BundledEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CACHED", 3)
    words, text = Words(model), "one two three four five six seven"
    assert words.read(text) == words.read(text) == Words(model).read(text)
    assert len(words._records) <= 3


@pytest.mark.parametrize("uri", ["page.md", "program.py"])
@pytest.mark.parametrize("embedder", [BundledEmbedder(), HashedEmbedder()], ids=["pieces", "texts"])
def test_vectors_are_those_of_the_embedded_texts(uri: str, embedder: Embedder) -> None:
    text = PAGE if uri.endswith("md") else PROGRAM
    content = decode_content(text.encode())
    prepared = prepare(
        uri, content, Fingerprint(1, 1, 1, 1), settled=True, stages=Stages(SIZES, Words(embedder))
    )
    assert isinstance(prepared, Prepared)
    embed([prepared], embedder, set)
    document = text_parser_for(uri, as_source=False)(uri, content.text)
    if document.lane == "code":
        chunks = definitions.chunk(document, SIZES)
        passages = [definitions.embedded_text(document, chunk) for chunk in chunks]
    else:
        chunks = headings.chunk(document, SIZES, embedder.count_tokens)
        passages = [embedded_text(document, chunk) for chunk in chunks]
    rows = embedder.embed(passages).astype(np.float16)
    assert len(chunks) > 1
    assert prepared.version.embedded == {
        chunk.content: row.tobytes() for chunk, row in zip(chunks, rows, strict=True)
    }


def test_words_in_use_outlive_a_full_memory(
    model: BundledEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CACHED", 3)
    words, analysed = Words(model), list[str]()

    def expand(word: str) -> str:
        analysed.append(word)
        return word

    monkeypatch.setattr(module, "expand", expand)
    for number in range(5):
        words.read(f"common. w{number}")
    assert sorted(analysed) == ["common", "w0", "w1", "w2", "w3", "w4"]

"""Changing the model builds a new index while the old one serves; and changing back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookfar.config import config_file
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import ModelUnavailable
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.vectors.reuse import KEPT
from waiting import DEADLINE, wait_for

BASE = {"index.workers": 1, "git.history": False, "embed.provider": "hash"}
PAGES = 12


class Model(HashedEmbedder):
    """An embedder with a name that can be delayed and can fail."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails = False
        self.asked = threading.Event()

    def embed(self, texts: Any) -> Any:
        self.asked.set()
        assert self.go_on.wait(DEADLINE)
        if self.fails:
            raise ModelUnavailable("The model is away.", hint="Wait.")
        return super().embed(texts)

    def embed_query(self, text: str) -> Any:
        return super().embed([text])[0]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "root"
    folder.mkdir()
    for number in range(PAGES):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nzebra word{number}\n")
    return folder


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Set the model that libraries open from now on."""
    models: list[Model] = []

    def choose(dimensions: int) -> Model:
        model = Model(dimensions)
        models.append(model)
        monkeypatch.setattr("lookfar.embed.providers.open_embedder", lambda _: model)
        return model

    yield choose
    for each in models:
        each.go_on.set()


def opened(root: Path, tmp_path: Path, **more: Any) -> Library:
    return Library.open(root, index_dir=tmp_path / "index", settings={**BASE, **more})


def rows(library: Library) -> tuple[str, Any]:
    with library.folder().store.snapshot() as snapshot:
        assert isinstance(snapshot, EpochSnapshot)
        return str(snapshot.manifest()["model_fingerprint"]), np.array(snapshot._rows)


def test_returning_to_a_model_embeds_nothing(root: Path, tmp_path: Path, use: Any) -> None:
    """Seen to fail without ``_keep_vectors``."""
    first = use(32)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == PAGES
        before = rows(library)
    assert len(first.embedded) == PAGES
    second = use(48)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == PAGES
        assert rows(library)[1].shape == (PAGES, 48)
    assert len(second.embedded) == PAGES
    again = use(32)
    with opened(root, tmp_path) as library:
        report = library.index()
        assert report.chunks_embedded == 0
        assert report.added == PAGES
        assert again.embedded == []
        after = rows(library)
        assert library.verify() == []
        assert library.search("word3", mode="vector").hits[0].uri == "3.md"
    assert after[0] == before[0]
    assert sorted(map(bytes, after[1])) == sorted(map(bytes, before[1]))
    (root / "new.md").write_text("# New\n\nwalrus\n")
    back = use(48)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == 1
    assert len(back.embedded) == 1


def test_the_settings_switch_between_providers(root: Path, tmp_path: Path) -> None:
    """static, hash, and static again, as a user would switch them."""
    embedded = []
    for provider in ("static", "hash", "static", "hash"):
        with opened(root, tmp_path, **{"embed.provider": provider}) as library:
            embedded.append(library.index().chunks_embedded)
            assert library.status().model.startswith(provider)
            assert library.search("word3").hits[0].uri == "3.md"
    assert embedded == [PAGES, PAGES, 0, 0]


def test_only_the_last_few_models_are_kept(root: Path, tmp_path: Path, use: Any) -> None:
    for dimensions in (8, 16, 24, 32, 40):
        use(dimensions)
        with opened(root, tmp_path) as library:
            library.index()
            place = library.folder().index_dir
    assert len(list(place.glob(f"{KEPT}*"))) == 2
    oldest = use(8)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == PAGES
    newest = use(40)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == 0
        library.folder().delete()
    assert (len(oldest.embedded), newest.embedded) == (PAGES, [])
    assert not place.exists()


def test_damaged_kept_vectors_are_made_again(root: Path, tmp_path: Path, use: Any) -> None:
    """Seen to fail without the checksums in ``Siblings._read_vectors``."""
    for dimensions in (32, 48):
        use(dimensions)
        with opened(root, tmp_path) as library:
            library.index()
            place = library.folder().index_dir
    (shelf,) = place.glob(f"{KEPT}*")
    raw = bytearray((shelf / "vectors.f16").read_bytes())
    raw[64:128] = b"\x11" * 64
    (shelf / "vectors.f16").write_bytes(raw)
    again = use(32)
    with opened(root, tmp_path) as library:
        assert library.index().chunks_embedded == 1
        assert library.verify() == []
    assert len(again.embedded) == 1


@pytest.mark.parametrize("written", [b"checksum INTEGER NOT NULL", b"value TEXT NOT NULL"])
def test_a_changed_schema_of_kept_vectors_is_noticed(
    root: Path, tmp_path: Path, use: Any, written: bytes
) -> None:
    """SQLite reads such a catalogue as before. Seen to fail when only its rows were checked."""
    for dimensions in (32, 48):
        use(dimensions)
        with opened(root, tmp_path) as library:
            library.index()
            place = library.folder().index_dir
    (catalogue,) = place.glob(f"{KEPT}*/catalogue.db")
    raw = catalogue.read_bytes()
    assert raw.count(written) == 1
    catalogue.write_bytes(raw.replace(written, written.replace(b"NOT NULL", b"NOT_NULL")))
    with opened(root, tmp_path) as library:
        assert "another schema" in str(library.verify())


def test_kept_vectors_contain_no_text(root: Path, tmp_path: Path, use: Any) -> None:
    for dimensions in (32, 48):
        use(dimensions)
        with opened(root, tmp_path) as library:
            library.index()
            place = library.folder().index_dir
    (shelf,) = place.glob(f"{KEPT}*")
    found = {path.name: path.read_bytes() for path in shelf.iterdir()}
    assert set(found) == {"catalogue.db", "vectors.f16"}
    assert not [name for name, raw in found.items() if b"zebra" in raw or b"Page" in raw]


def test_the_old_index_answers_while_the_new_one_is_built(
    root: Path, tmp_path: Path, use: Any
) -> None:
    """Where a server follows the folder. Seen to fail when ``_freshen`` waited for the build."""
    use(32)
    with opened(root, tmp_path) as library:
        library.index()
    slow = use(48)
    slow.go_on.clear()
    with opened(root, tmp_path) as library:
        library.watch()
        assert slow.asked.wait(DEADLINE)
        answer = library.search("word3 zebra")
        assert answer.hits[0].uri == "3.md"
        assert answer.generation == 1
        notes = {each.reason: each.detail for each in answer.incomplete}
        assert "is being rebuilt" in notes["rebuilding"]
        assert f"0 of {PAGES} files" in notes["rebuilding"]
        assert "Words only" in notes["no_model"]
        assert rows(library)[1].shape == (PAGES, 32)
        assert not library.status().current
        slow.go_on.set()
        wait_for(lambda: library.status().current)
        answer = library.search("word3 zebra")
        assert answer.generation == 2
        assert [each.reason for each in answer.incomplete] == []
        assert rows(library)[1].shape == (PAGES, 48)


def test_an_unavailable_model_leaves_the_old_index_serving(
    root: Path, tmp_path: Path, use: Any
) -> None:
    use(32)
    with opened(root, tmp_path) as library:
        library.index()
    away = use(48)
    away.fails = True
    with opened(root, tmp_path) as library:
        answer = library.search("word3")
        assert answer.hits[0].uri == "3.md"
        assert "The model is away" in " ".join(each.detail for each in answer.incomplete)
        assert rows(library)[1].shape == (PAGES, 32)
        with pytest.raises(ModelUnavailable):
            library.index()
        away.fails = False
        assert library.search("word3").generation == 2


def test_the_first_query_after_a_change_uses_the_new_model(
    repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Any
) -> None:
    """Seen to fail where the question was made ready before the settings were read again, and
    where a history went on with the model that it had first."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    chosen = config_file()
    chosen.parent.mkdir(parents=True)
    chosen.write_text('[embed]\nprovider = "hash"\n')
    repo = repository("project")
    repo.commit("Tell of the zebra", {"a.md": "# A\n\nzebra\n"})
    repo.commit("Tell of the walrus", {"b.md": "# B\n\nwalrus\n"})
    of_commits = Filters(lanes=("commits",))

    def asked(library: Library) -> tuple[str, str]:
        first = library.search("walrus", mode="vector")
        second = library.search("walrus", mode="vector", filters=of_commits)
        assert [each.reason for each in (*first.incomplete, *second.incomplete)] == []
        return first.hits[0].uri, second.hits[0].title

    use(32)
    settings = {"index.workers": 1, "git.cool_down_seconds": 0}
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=settings) as library:
        assert asked(library) == ("b.md", "Tell of the walrus")
        use(48)
        chosen.write_text('[embed]\nprovider = "hash"\nquery_prefix = "another: "\n')
        assert asked(library) == ("b.md", "Tell of the walrus")
        (history,) = library.histories().values()
        with history.store.snapshot() as snapshot:
            assert snapshot.dimensions == 48

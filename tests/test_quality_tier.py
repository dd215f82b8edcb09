"""The second model end to end: answers at once from the first, better with every passage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny_transformer
from lookfar.collections.folder import Folder
from lookfar.errors import IndexBusy
from lookfar.index.embed_process import compose_passage, run_quality_pass
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.ports import LackingDocument
from lookfar.retrieve.question.plan import add_quality, make_plan
from lookfar.retrieve.retrievers.candidates import gather_candidates
from lookfar.store.ground.files import WriterLock
from lookfar.store.vectors.quality_vectors import QualityVectors, ReadContents

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

GROUPS = (
    "cat feline kitten",
    "dog canine hound",
    "engine motor",
    "boat vessel ship",
    "river stream",
    "bread loaf",
)
PAGES = {
    "cats.md": "# Sleeping\n\nThe feline dozes on the warm window sill all day.\n",
    "dogs.md": "# Walking\n\nA canine wants to go out in the morning and in the evening.\n",
    "engines.md": "# Starting\n\nTurn the motor over twice before the first trip of the year.\n",
    "boats.md": "# Mooring\n\nThe vessel is tied to the jetty with two ropes.\n",
    "rivers.md": "# Flooding\n\nThe stream rises after every long rain.\n",
    "bread.md": "# Baking\n\nThe loaf rests under a cloth until it has doubled.\n",
    **{
        f"other-{number}.md": f"# Note {number}\n\nNothing much happened on day {number}.\n"
        for number in range(6)
    },
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_transformer.write(tmp_path_factory.mktemp("models") / "tiny", GROUPS)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def library(pages: Path, model: Path, tmp_path: Path) -> Iterator[Library]:
    with open_library(pages, tmp_path / "index", model) as opened:
        opened.index()
        yield opened


def open_library(pages: Path, index: Path, model: Path | str, **more: Any) -> Library:
    settings = {"quality.model": str(model), "quality.enabled": "auto", **more}
    return Library.open(pages, index_dir=index, settings=settings)


def embed_passages(library: Library) -> int:
    folder = library.folder()
    assert folder.second_model is not None
    return run_quality_pass(folder.store, folder.second_model)


def order(library: Library, question: str, **options: Any) -> list[str]:
    return [hit.uri for hit in library.search(question, **options).hits]


def counts(folder: Folder) -> tuple[int, int, int]:
    model = folder.second_model
    assert model is not None
    with folder.store.snapshot() as snapshot:
        counted = snapshot.quality_counts(model.fingerprint, model.dimensions)
    assert counted is not None
    return tuple(counted)  # type: ignore[return-value]


def test_a_page_without_the_words_of_the_question_is_found_once_it_is_embedded(
    library: Library,
) -> None:
    question = "where does the kitten stay"
    before = library.search(question, mode="vector", explain=True)
    assert "second model" not in str(before.hits[0].explanation)
    assert embed_passages(library) == len(PAGES)
    after = library.search(question, mode="vector", explain=True)
    assert after.hits[0].uri == "cats.md"
    notes = [c.note for c in after.hits[0].explanation if c.stage == "vector"]
    assert len(notes) == 1
    assert "cosine" in notes[0]
    assert "second model 0." in notes[0] or "second model 1." in notes[0]
    assert embed_passages(library) == 0


def test_with_half_of_the_passages_the_others_are_ranked_as_before(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tiers in one answer: a page neither gains nor loses by having a vector alone."""
    question = "turn the engine before the trip"
    alone = order(library, question)
    assert alone[0] == "engines.md"
    monkeypatch.setattr("lookfar.index.embed_process.BATCH", 6)
    stop_after(library, 1)
    embedded, _, total = counts(library.folder())
    assert (embedded, total) == (6, len(PAGES))
    assert order(library, question)[0] == "engines.md"
    for name, words in {
        "dogs.md": "a canine in the morning and evening",
        "boats.md": "vessel tied to the jetty with ropes",
        "bread.md": "loaf under a cloth until doubled",
        "other-3.md": "what happened on day 3",
    }.items():
        assert order(library, words)[0] == name


class _Stop(Exception):
    pass


def stop_after(library: Library, batches: int) -> None:
    folder = library.folder()
    seen: list[int] = []

    def count(passages: int) -> None:
        seen.append(passages)
        if len(seen) == batches:
            raise _Stop

    assert folder.second_model is not None
    with pytest.raises(_Stop):
        run_quality_pass(folder.store, folder.second_model, on_batch=count)


def test_the_newest_documents_come_first_and_preferred_ones_before_them(
    library: Library, pages: Path
) -> None:
    (pages / "bread.md").write_text("# Baking\n\nThe loaf is eaten while it is warm.\n")
    library.index()
    folder = library.folder()
    asked: list[list[str]] = []

    def prefer(documents: Sequence[LackingDocument]) -> Sequence[LackingDocument]:
        asked.append([document.uri for document in documents])
        return documents

    assert folder.second_model is not None
    run_quality_pass(folder.store, folder.second_model, prefer=prefer)
    assert asked[0][0] == "bread.md"


def test_of_documents_with_equal_times_the_last_one_indexed_comes_first(
    library: Library, pages: Path
) -> None:
    """As after a checkout, which gives all files the same time. Seen to fail with ascending ids."""
    (pages / "added.md").write_text("# Added\n\nThe newest page of all.\n")
    for page in pages.iterdir():
        os.utime(page, ns=(10**18, 10**18))
    library.index()
    folder = library.folder()
    assert folder.second_model is not None
    name, size = folder.second_model.fingerprint, folder.second_model.dimensions
    with folder.store.quality_writer(name, size) as writer:
        assert writer is not None
        assert writer.list_documents()[0].uri == "added.md"


def test_a_few_embedded_passages_do_not_take_part_in_every_answer(library: Library) -> None:
    """Seen to fail when the second model brought as many candidates as with all passages."""
    folder = library.folder()
    second, embedder = folder.second_model, folder.embedder
    assert second is not None
    assert embedder is not None

    def choose(documents: Sequence[LackingDocument]) -> Sequence[LackingDocument]:
        return [document for document in documents if document.uri == "dogs.md"]

    assert run_quality_pass(folder.store, second, prefer=choose) == 1
    settings = replace(folder.settings.search, candidates=2)
    question = "the vessel is tied to the jetty with two ropes after long rain, said the hound"
    plan = make_plan(question, mode="vector", top_k=2, filters=Filters(), embedder=embedder)
    both = add_quality(plan, second)
    assert both.quality is not None

    def find() -> tuple[set[str], set[str]]:
        with folder.store.snapshot() as snapshot:
            alone, together = (
                gather_candidates(each, snapshot, settings).candidates for each in (plan, both)
            )
        return {c.place.uri for c in alone}, {c.place.uri for c in together}

    alone, together = find()
    assert "dogs.md" not in alone
    assert together == alone
    embed_passages(library)
    assert "dogs.md" in find()[1]


def test_a_pass_ends_when_the_index_is_rebuilt_under_it(library: Library, tmp_path: Path) -> None:
    """Seen to fail with an error about a missing folder, which the status then showed."""
    folder = library.folder()
    assert folder.second_model is not None
    name, size = folder.second_model.fingerprint, folder.second_model.dimensions
    with folder.store.quality_writer(name, size) as writer:
        assert writer is not None
        numbers = [document.number for document in writer.list_documents()]
        passages = writer.read(numbers, compose_passage)
        library.index(rebuild=True)
        with pytest.raises(IndexBusy, match="was rebuilt"):
            writer.put([(passage, None) for passage in passages])
    assert not [path for path in (tmp_path / "index").rglob("*") if path.name == "epoch-1"]
    assert embed_passages(library) == len(PAGES)


def test_repairing_waits_for_a_vector_that_is_being_written(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the files were repaired without the lock on them."""
    embed_passages(library)
    (rows,) = (tmp_path / "index").rglob("quality-*.f16")
    data = rows.read_bytes()
    rows.write_bytes(data[:64] + bytes(len(data) - 64))
    held: list[bool] = []
    drop = QualityVectors.drop_damaged

    def note(self: QualityVectors, read_contents: ReadContents) -> None:
        lock = WriterLock(rows.parent.parent / "quality.lock")
        try:
            lock.acquire()
        except IndexBusy:
            held.append(True)
        lock.release()
        drop(self, read_contents)

    monkeypatch.setattr(QualityVectors, "drop_damaged", note)
    assert all(done.repaired for done in library.verified(repair=True))
    assert held == [True]


def test_an_edit_embeds_only_what_is_new_and_a_return_embeds_nothing(
    library: Library, pages: Path
) -> None:
    embed_passages(library)
    old = (pages / "cats.md").read_text()
    (pages / "cats.md").write_text("# Sleeping\n\nThe kitten is awake at night.\n")
    library.index()
    assert embed_passages(library) == 1
    assert order(library, "feline at night", mode="vector")[0] == "cats.md"
    (pages / "cats.md").write_text(old)
    library.index()
    assert embed_passages(library) == 0


def test_another_model_uses_no_vector_of_the_first_and_replaces_its_files(
    library: Library, pages: Path, tmp_path: Path
) -> None:
    embed_passages(library)
    other = tiny_transformer.write(tmp_path / "other", GROUPS, seed=8, name="other")
    with open_library(pages, tmp_path / "index", other) as changed:
        answer = changed.search("where does the kitten stay", explain=True)
        assert "second model" not in str([hit.explanation for hit in answer.hits])
        assert counts(changed.folder())[0] == 0
        assert embed_passages(changed) == len(PAGES)
        logs = list((tmp_path / "index").rglob("quality-*.log"))
        assert len(logs) == 1
    # The first model finds none of its vectors, and nothing wrong.
    assert counts(library.folder())[0] == 0
    assert library.verify() == []


def test_a_new_epoch_takes_the_vectors_of_the_old_one_along(
    library: Library, pages: Path, tmp_path: Path, model: Path
) -> None:
    """Seen to fail when the old epoch was removed with its vectors."""
    (pages / "japanese.md").write_text("# 設定\n\n猫は窓辺で眠っています。\n", encoding="utf-8")
    library.index()
    embed_passages(library)
    before = counts(library.folder())
    library.index(rebuild=True)
    assert [path.parent.name for path in (tmp_path / "index").rglob("quality-*.log")] == ["epoch-2"]
    assert counts(library.folder()) == before
    assert embed_passages(library) == 0
    assert library.verify() == []
    assert order(library, "how is a ship moored", mode="vector")[0] == "boats.md"


def test_a_text_in_another_script_keeps_the_first_model(library: Library, pages: Path) -> None:
    (pages / "japanese.md").write_text(
        "# 設定\n\n猫は窓辺で一日中眠っています。設定を変更します。\n", encoding="utf-8"
    )
    library.index()
    embed_passages(library)
    assert counts(library.folder()) == (len(PAGES), 1, len(PAGES) + 1)
    assert embed_passages(library) == 0
    answer = library.search("設定を変更", explain=True)
    assert answer.hits[0].uri == "japanese.md"
    assert "second model" not in str([hit.explanation for hit in answer.hits])


def test_damage_is_found_and_repaired_and_never_used(library: Library, tmp_path: Path) -> None:
    embed_passages(library)
    (rows,) = (tmp_path / "index").rglob("quality-*.f16")
    data = bytearray(rows.read_bytes())
    data[64:] = bytes(255 - byte for byte in data[64:])
    with open_library(
        tmp_path / "pages", tmp_path / "index", library.settings.quality.model
    ) as two:
        rows.write_bytes(data)
        answer = two.search("where does the kitten stay", explain=True)
        assert "second model" not in str([hit.explanation for hit in answer.hits])
        assert any(rows.name in line for line in two.verify())
        assert all(done.repaired for done in two.verified(repair=True))
        assert two.verify() == []
        assert embed_passages(two) == len(PAGES)


def test_deleting_the_files_costs_only_time(library: Library, tmp_path: Path) -> None:
    embed_passages(library)
    for path in (tmp_path / "index").rglob("quality-*"):
        path.unlink()
    assert order(library, "vessel tied to the jetty")[0] == "boats.md"
    assert library.verify() == []
    assert embed_passages(library) == len(PAGES)


def test_a_model_that_cannot_be_opened_is_reported_and_answers_go_on(
    library: Library, pages: Path, tmp_path: Path
) -> None:
    embed_passages(library)
    with open_library(pages, tmp_path / "index", tmp_path / "nowhere") as broken:
        assert order(broken, "vessel tied to the jetty")[0] == "boats.md"
        state = broken.status().quality
        assert state is not None
        assert "nowhere has no model.json" in state.failure


def test_a_command_that_answers_once_does_not_load_it(
    library: Library, pages: Path, tmp_path: Path, model: Path
) -> None:
    """Seen to fail: every search without a daemon imported onnxruntime and loaded the model."""
    embed_passages(library)
    program = (
        "import sys\n"
        "from lookfar.serve.entry import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print('loaded:', *{'onnxruntime', 'lookfar.embed.quality'} & set(sys.modules))\n"
    )
    settings = (f"quality.model={model}", "serve.daemon=false")
    options = [part for setting in settings for part in ("--set", setting)]
    for command in (["search", "where does the kitten stay"], ["why", "cats.md", "--query", "cat"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *command, str(pages), *options,
             "--index-dir", str(tmp_path / "index")],
            env={**os.environ, "LOOKFAR_QUALITY_ENABLED": "auto"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "loaded:"


def test_without_onnxruntime_the_status_says_so(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with open_library(pages, tmp_path / "index", "") as library:
        library.index()
        assert order(library, "vessel tied to the jetty")[0] == "boats.md"
        state = library.status().quality
        assert state is not None
        assert "first model answers alone" in state.failure


def test_turned_off_it_is_neither_made_nor_used(
    library: Library, pages: Path, tmp_path: Path, model: Path
) -> None:
    embed_passages(library)
    with open_library(pages, tmp_path / "index", model, **{"quality.enabled": "off"}) as off:
        assert off.folder().second_model is None
        answer = off.search("where does the kitten stay", explain=True)
        assert "second model" not in str([hit.explanation for hit in answer.hits])


def test_commits_are_left_to_the_first_model(pages: Path, model: Path, tmp_path: Path) -> None:
    """Measured: the second model ranks them worse."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "begin")):
        subprocess.run(["git", *identity, "-C", str(pages), *words], check=True)
    with open_library(pages, tmp_path / "index", model) as library:
        library.index()
        assert library.folder().second_model is not None
        (history,) = library.histories().values()
        assert history.second_model is None
        assert not history.has_second_vectors()

"""Embedding in the background: who is first, when it waits, its status, and its process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

import tiny_transformer
from lookfar.collections import embedding
from lookfar.collections.embedding import BackgroundEmbedding, embed_now, find_reason_to_pause
from lookfar.collections.folder import Folder
from lookfar.common.frames import send_frame
from lookfar.embed.quality import QualityModel
from lookfar.errors import IOFailed, ModelUnavailable
from lookfar.index import embed_process
from lookfar.index.embed_process import EmbedProcess
from lookfar.library import Library
from lookfar.model.status import QualityStatus
from lookfar.ports import LackingDocument
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.reader_process import Reader
from lookfar.serve.daemon.readers import Opening, Task, get_key
from lookfar.serve.show import json_shapes, render
from lookfar.serve.toolsets import load_tools

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

PAGES = 12
PATIENCE = 300.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    groups = ("cat feline", "dog canine", "boat vessel")
    return tiny_transformer.write(tmp_path_factory.mktemp("models") / "tiny", groups)


@pytest.fixture
def library(tmp_path: Path, model: Path) -> Iterator[Library]:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(PAGES):
        (root / f"page{number}.md").write_text(f"# Page {number}\n\nThe feline of day {number}.\n")
    settings = {"quality.model": str(model), "quality.enabled": "auto", "index.workers": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as opened:
        opened.index()
        yield opened


def never(_: float) -> str:
    return ""


def test_the_background_embeds_everything_and_the_status_says_so(library: Library) -> None:
    folder = library.folder()
    before = library.status().quality
    assert before is not None
    assert (before.embedded, before.total, before.working) == (0, PAGES, False)
    assert "0 of 12 passages" in render.describe_quality(before)
    assert "lookfar index --quality" in render.describe_quality(before)
    assert BackgroundEmbedding(lambda: [folder], never).run_once() == PAGES
    after = library.status().quality
    assert after is not None
    assert (after.embedded, after.unreadable, after.total) == (PAGES, 0, PAGES)
    shape = json_shapes.status(library.status())["quality"]
    assert shape == {
        "model": "tiny", "dimensions": tiny_transformer.DIMENSIONS, "embedded": PAGES,
        "unreadable": 0, "total": PAGES, "working": False, "paused": "", "per_second": 0.0,
        "failure": "",
    }  # fmt: skip
    assert "12 of 12 passages" in render.status(library.status())


def test_documents_that_were_asked_for_are_embedded_first(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when hits were not noted."""
    folder = library.folder()
    asked = library.search("feline of day 7", top_k=1).hits[0].uri
    assert asked == "page7.md"
    order: list[str] = []
    prefer = folder.embedding.prefer

    def note(documents: Sequence[LackingDocument]) -> Sequence[LackingDocument]:
        preferred = prefer(documents)
        order.extend(document.uri for document in preferred)
        return preferred

    monkeypatch.setattr(type(folder.embedding), "prefer", lambda self, given: note(given))
    BackgroundEmbedding(lambda: [folder], never).run_once()
    assert order[0] == asked


def test_it_pauses_for_a_reason_and_says_it(library: Library) -> None:
    folder = library.folder()
    asked, go_on = threading.Event(), threading.Event()

    def reason(_: float) -> str:
        asked.set()
        return "" if go_on.is_set() else "the computer runs on battery"

    background = BackgroundEmbedding(lambda: [folder], reason)
    background.wake()
    try:
        assert asked.wait(PATIENCE)
        while not folder.embedding.paused:
            assert background._thread is not None
            assert background._thread.is_alive()
        state = library.status().quality
        assert state is not None
        assert state.embedded == 0
        assert "paused: the computer runs on battery" in render.describe_quality(state)
    finally:
        background.close()
    go_on.set()
    assert BackgroundEmbedding(lambda: [folder], reason).run_once() == PAGES
    assert not folder.embedding.paused


def test_closing_ends_the_thread_and_its_process(library: Library) -> None:
    background = BackgroundEmbedding(lambda: [library.folder()], never)
    background.wake()
    background.close()
    thread = background._thread
    assert thread is not None
    assert not thread.is_alive()
    background.wake()
    assert not thread.is_alive()


def test_an_idle_server_does_not_load_the_model_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = library.folder()
    background = BackgroundEmbedding(lambda: [folder], never)
    assert background.run_once() == PAGES
    folder.rest()
    assert not folder.awake
    loaded: list[QualityModel] = []
    monkeypatch.setattr(QualityModel, "load", lambda self: loaded.append(self))
    assert background.run_once(load=False) == 0
    assert not loaded
    assert folder.awake, "what it opened is released when the server looks again"
    folder.rest()
    assert not folder.awake
    assert background.run_once() == 0
    assert loaded


def test_the_model_is_loaded_before_a_question_can_use_it(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: the first question after the first batch waited for onnxruntime."""
    folder = library.folder()
    embedded: list[int] = []

    def load(_: QualityModel) -> None:
        state = library.status().quality
        assert state is not None
        embedded.append(state.embedded)

    monkeypatch.setattr(QualityModel, "load", load)
    assert BackgroundEmbedding(lambda: [folder], never).run_once() == PAGES
    assert embedded[0] == 0


def test_closing_does_not_wait_for_a_process_that_hangs(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when closing waited for the end of the batch."""
    monkeypatch.setattr(embed_process, "_CHILD", "import sys; sys.stdin.buffer.read()")
    started = threading.Event()

    def send(pipe: IO[bytes], message: object) -> None:
        send_frame(pipe, message)
        if isinstance(message, list):
            started.set()

    monkeypatch.setattr(embed_process, "send_frame", send)
    folder = library.folder()
    background = BackgroundEmbedding(lambda: [folder], never)
    background.wake()
    assert started.wait(PATIENCE)
    child = background._process._process if background._process else None
    assert child is not None
    closing = threading.Thread(target=background.close, daemon=True)
    closing.start()
    closing.join(PATIENCE)
    hangs = closing.is_alive()
    child.kill()
    closing.join(PATIENCE)
    assert not hangs
    assert child.returncode is not None
    assert not folder.embedding.working
    assert not folder.embedding.failure


def test_a_collection_that_was_closed_is_left_alone(library: Library) -> None:
    folder = library.folder()
    open_now: list[Folder] = [folder]

    def reason(_: float) -> str:
        open_now.clear()
        return ""

    background = BackgroundEmbedding(lambda: open_now, reason)
    with pytest.raises(Exception, match=r"^$"):
        background.run_once()
    assert not folder.embedding.working


def test_only_one_process_embeds_a_collection_and_the_other_goes_on(
    library: Library, tmp_path: Path, model: Path
) -> None:
    folder = library.folder()
    assert folder.second_model is not None
    name, size = folder.second_model.fingerprint, folder.second_model.dimensions
    with folder.store.quality_writer(name, size):
        assert BackgroundEmbedding(lambda: [folder], never).run_once() == 0
        (tmp_path / "root" / "new.md").write_text("# New\n\nThe vessel is indexed meanwhile.\n")
        library.index()
        assert library.search("vessel indexed meanwhile").hits[0].uri == "new.md"
    assert embed_now(folder) == PAGES + 1


def test_nothing_is_locked_or_loaded_during_a_pause(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: a command could not embed while a server was paused half-way."""
    monkeypatch.setattr("lookfar.index.embed_process.BATCH", 4)
    folder = library.folder()
    paused = threading.Event()

    def reason(_: float) -> str:
        state = folder.embedding
        if not state.pace:
            return ""
        if not state.working:
            paused.set()
        return "the computer runs on battery"

    background = BackgroundEmbedding(lambda: [folder], reason)
    background.wake()
    try:
        assert paused.wait(PATIENCE)
        process = background._process
        assert process is not None
        assert process._process is None
        waited: list[bool] = []
        assert embed_now(folder, on_wait=lambda: waited.append(True)) == PAGES - 4
        assert not waited
        state = library.status().quality
        assert state is not None
        assert "paused" not in render.describe_quality(state), "there is nothing left to do"
    finally:
        background.close()
    assert not folder.embedding.paused


def test_a_command_waits_for_another_process_and_takes_over(library: Library) -> None:
    """Seen to fail with IndexBusy."""
    folder = library.folder()
    assert folder.second_model is not None
    name, size = folder.second_model.fingerprint, folder.second_model.dimensions
    done: list[int] = []
    waiting = threading.Event()
    command = threading.Thread(
        target=lambda: done.append(embed_now(folder, on_wait=waiting.set)), daemon=True
    )
    with folder.store.quality_writer(name, size):
        command.start()
        assert waiting.wait(PATIENCE)
        assert not done
    command.join(PATIENCE)
    assert done == [PAGES]


def test_a_failure_is_shown_until_it_is_over_and_not_repeated_at_once(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: each question started the process again, and its failure stayed for good."""
    folder = library.folder()
    background = BackgroundEmbedding(lambda: [folder], never)
    with monkeypatch.context() as broken:
        broken.setattr(embed_process, "_CHILD", "raise SystemExit(3)")
        assert background.run_once() == 0
    state = library.status().quality
    assert state is not None
    assert "has ended" in render.describe_quality(state)
    assert background.run_once() == 0, "it was tried a moment ago"
    assert embed_now(folder) == PAGES
    folder.embedding.retry_at = 0.0
    assert background.run_once() == 0
    state = library.status().quality
    assert state is not None
    assert not state.failure


def test_a_server_goes_on_with_a_model_that_was_upgraded(tmp_path: Path) -> None:
    """Seen to fail: vectors of the new model were stored as those of the old one."""
    root, model = tmp_path / "root", tmp_path / "model"
    root.mkdir()
    (root / "page.md").write_text("# Page\n\nThe feline of the day.\n")
    tiny_transformer.write(model, ["cat feline"], name="old")
    settings = {"quality.model": str(model), "quality.enabled": "auto", "index.workers": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        folder = library.folder()
        background = BackgroundEmbedding(lambda: [folder], never)
        assert folder.second_model is not None
        old = folder.second_model.fingerprint
        tiny_transformer.write(model, ["cat feline"], seed=8, name="new")
        assert background.run_once() == 0
        assert "was replaced" in folder.embedding.failure
        folder.embedding.retry_at = 0.0
        assert background.run_once() == 1
        assert not folder.embedding.failure
        assert folder.second_model.fingerprint != old
        state = library.status().quality
        assert state is not None
        assert (state.model, state.embedded) == ("new", 1)


def test_the_status_says_when_work_begins_and_why_there_is_no_model() -> None:
    """Seen to fail with "0 per second" and "none: 0 of 0 passages"."""
    begins = QualityStatus("tiny", 16, 0, 0, 12, working=True)
    assert render.describe_quality(begins) == "tiny: 0 of 12 passages; starting"
    broken = QualityStatus("none", 0, 0, 0, 0, failure="The second model is incomplete.")
    assert render.describe_quality(broken) == "The second model is incomplete."


def test_the_process_refuses_another_model_than_the_one_it_was_started_for(model: Path) -> None:
    process = EmbedProcess(model, "tiny:16:another")
    try:
        with pytest.raises(ModelUnavailable, match="upgraded"):
            process.encode(["cat"])
    finally:
        process.close()


def test_the_process_refuses_a_folder_without_a_model(tmp_path: Path) -> None:
    process = EmbedProcess(tmp_path)
    try:
        with pytest.raises(ModelUnavailable, match="incomplete"):
            process.encode(["cat"])
    finally:
        process.close()


def test_a_process_that_ends_is_reported_and_started_again(model: Path) -> None:
    process = EmbedProcess(model)
    try:
        assert process.encode(["the cat", "猫"])[1] is None
        assert process._process is not None
        process._process.kill()
        process._process.wait()
        with pytest.raises(IOFailed, match="has ended"):
            process.encode(["the cat"])
        assert process.encode(["the cat"]) != [None]
    finally:
        process.close()


def test_the_process_leaves_no_file_in_the_home_of_the_user(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime writes a database of events unless it is told not to before it is imported."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(home))
    process = EmbedProcess(model)
    try:
        assert process.encode(["the cat"]) != [None]
    finally:
        process.close()
    assert [path for path in home.rglob("*") if path.is_file()] == []


# --- battery and load -------------------------------------------------------------------------


def write_supply(folder: Path, name: str, **values: str) -> None:
    (folder / name).mkdir(parents=True)
    for key, value in values.items():
        (folder / name / key).write_text(f"{value}\n")


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="read on Linux")
def test_a_battery_counts_only_while_it_is_used(tmp_path: Path) -> None:
    assert not embedding.runs_on_battery(tmp_path / "nowhere")
    write_supply(tmp_path / "a", "BAT0", type="Battery", status="Discharging")
    assert embedding.runs_on_battery(tmp_path / "a")
    write_supply(tmp_path / "a", "AC", type="Mains", online="1")
    assert not embedding.runs_on_battery(tmp_path / "a")
    write_supply(tmp_path / "b", "BAT0", type="Battery", status="Charging")
    assert not embedding.runs_on_battery(tmp_path / "b")
    write_supply(tmp_path / "c", "mouse", type="Battery", status="Discharging", scope="Device")
    assert not embedding.runs_on_battery(tmp_path / "c")


def test_battery_and_load_are_reasons_to_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookfar.collections.embedding.runs_on_battery", lambda: True)
    monkeypatch.setattr("lookfar.collections.embedding.measure_other_load", lambda _: 2.0)
    assert "battery" in find_reason_to_pause(0.0)
    monkeypatch.setattr("lookfar.collections.embedding.runs_on_battery", lambda: False)
    assert "cores" in find_reason_to_pause(0.0)
    monkeypatch.setattr("lookfar.collections.embedding.measure_other_load", lambda _: 0.5)
    assert not find_reason_to_pause(0.0)


def test_the_work_of_its_own_threads_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 0, 0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert embedding.measure_other_load(1) == 0.5
    assert embedding.measure_other_load(4) == 0.0


def test_its_own_load_follows_the_average_of_the_system() -> None:
    """Seen to fail: its threads were subtracted during a pause, too, and it went on too early."""
    now = 0.0
    own = embedding.OwnLoad(lambda: now)
    assert own.estimate() == 0.0
    own.set_threads(2)
    assert own.estimate() == 0.0
    now = 600.0
    assert own.estimate() == pytest.approx(2.0, abs=0.01)
    own.set_threads(0)
    now += 60.0
    assert own.estimate() == pytest.approx(2.0 / 2.718, abs=0.01)
    now += 600.0
    assert own.estimate() == pytest.approx(0.0, abs=0.01)


# --- in a server ------------------------------------------------------------------------------


def test_a_server_embeds_what_its_sessions_have_open(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the pool did not start the thread, and when it listed nothing."""
    done = threading.Event()
    run_once = BackgroundEmbedding.run_once

    def note(self: BackgroundEmbedding, *, load: bool) -> int:
        embedded = run_once(self, load=load)
        if embedded:
            done.set()
        return embedded

    monkeypatch.setattr(BackgroundEmbedding, "run_once", note)
    root = tmp_path / "root"
    root.mkdir()
    (root / "page.md").write_text("# Page\n\nThe feline of the day.\n")
    pool = Pool()
    monkeypatch.setattr("lookfar.collections.embedding.runs_on_battery", lambda: False)
    monkeypatch.setattr("lookfar.collections.embedding.measure_other_load", lambda _: 0.0)
    settings = {"quality.model": str(model), "quality.enabled": "auto", "index.workers": 1}
    try:
        with pool.session([str(root)], index_dir=str(tmp_path / "i"), settings=settings) as session:
            session.library.index()
            assert done.wait(PATIENCE)
            state = session.library.status().quality
            assert state is not None
            assert (state.embedded, state.total) == (1, 1)
    finally:
        pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "lookfar-embedding"]


def test_what_readers_find_is_embedded_first_by_the_server(library: Library) -> None:
    """Seen to fail: with several answering processes, no question counted."""
    (tool,) = (tool for tool in load_tools(["default"]) if tool.name == "search")
    folder = library.folder()
    settings = {"index.dir": folder.settings.index.dir, "index.workers": 1}
    notes = library.freshen()
    assert notes is not None
    reader = Reader(Opening((folder.root.path,), settings, {}))
    task = Task(1, get_key(tool), {"query": "feline of day 7", "top_k": 1}, "", (), notes)
    outcome = reader.answer(task)
    assert outcome.result is not None, outcome.reason
    ((name, uris),) = outcome.hits
    assert (name, uris[0]) == (folder.name, "page7.md")
    assert not reader.answer(replace(task, number=2, arguments={"query": ""})).hits

"""Definitions of code and sections of documents, ranked by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Unit

SERVER = '''"""Serve requests."""

import socket

TIMEOUT = 30


def open_listener(port):
    """Bind a socket."""
    return socket.create_server(("", port))


class Connection:
    """One client."""

    def read_chunk(self, size):
        """Read a part of the body.

        An error is raised if the chunk is larger than the limit, or larger than the chunk before.
        """
        if size > self.limit:
            raise ValueError("chunk larger than the limit")
        return self.stream.read(size)

    # Called once.
    @property
    def peer_address(self):
        return self.stream.peer
'''
GUIDE = "# Guide\n\nHow to run it.\n\n## Limits\n\n### Chunks\n\nA chunk may not be too large.\n"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "server.py").write_text(SERVER)
    (folder / "guide.md").write_text(GUIDE)
    (folder / "tests" / "test_server.py").write_text(
        "def test_read_chunk_larger_than_limit():\n    assert read_chunk(9)\n"
    )
    with Library.open(folder, index_dir=tmp_path / "index") as library:
        yield library


def ask(library: Library, question: str) -> list[Unit]:
    return list(library.search(question, units=20).units)


def test_definitions_compete_by_themselves(library: Library) -> None:
    units = ask(library, "error when a chunk is larger than the limit")
    names = [unit.name for unit in units]
    assert names.index("Connection.read_chunk") < names.index("test_read_chunk_larger_than_limit")
    best = next(unit for unit in units if unit.lane == "code")
    assert (best.name, best.kind, best.line) == ("Connection.read_chunk", "method", 16)
    lines = {line.number: line.text for line in best.lines}
    assert lines[22] == '            raise ValueError("chunk larger than the limit")'
    assert best.text.lstrip().startswith("def read_chunk")


def test_passages_of_documents_are_among_them(library: Library) -> None:
    sections = [unit for unit in ask(library, "how large a chunk") if unit.kind == "section"]
    assert [(unit.uri, unit.path[:1]) for unit in sections] == [("guide.md", ("Guide",))]


def test_hits_are_whole_definitions(library: Library) -> None:
    answer = library.search("error when a chunk is larger than the limit", top_k=3, units=9)
    hit = next(hit for hit in answer.hits if hit.lane == "code")
    body = SERVER[SERVER.index("    def read_chunk") : SERVER.index("    # Called")]
    assert hit.text.rstrip("\n") == body.rstrip("\n")
    assert hit.state == "same"
    first = hit.text.split("\n")[hit.focus[0].start_line - hit.span.start_line]
    assert "raise ValueError" in first  # And not what the documentation says about it.
    assert len(answer.hits) == 3 < len(answer.units)


def test_what_is_outside_of_all_definitions_is_found(library: Library) -> None:
    assert any(unit.kind in ("file", "constant") for unit in ask(library, "socket timeout"))


def test_line_names_the_definition_and_not_what_is_above(library: Library) -> None:
    unit = next(u for u in ask(library, "peer address") if u.path[-1] == "peer_address")
    assert (unit.span.start_line, unit.line) == (25, 27)


def test_units_are_ranked_only_on_request(library: Library) -> None:
    assert library.search("chunk").units == ()
    assert len(library.search("chunk", units=2).units) == 2


def test_definitions_keep_to_filters_on_passages(tmp_path: Path) -> None:
    """Protects against definitions of an admitted file that the filters do not admit."""
    folder = tmp_path / "long"
    folder.mkdir()
    functions = [
        f"def step_{number}(boat):\n" + f"    boat.move({number})\n" * 60 for number in range(9)
    ]
    functions[4] += '    raise ValueError("the boat has sunk")\n'
    (folder / "steps.py").write_text("\n\n".join(functions))
    with Library.open(folder, index_dir=tmp_path / "index") as library:
        assert len(ask(library, "move the boat")) > 5
        sunk = [unit.name for unit in ask(library, 'move "the boat has sunk"')]
        assert sunk == ["step_4"]


NAMES = '''"""Filters and queues."""

LIMITS = {"drain_queue": 4, "queue": 9}


def filter(values):
    return [value for value in values if value]


def drain_queue(queue):
    while queue:
        yield queue.pop()


def describe_worker(worker):
    """Say which state a worker has, and how long its queue may be."""
    state = worker.state
    return f"{worker}: state {state}, queue of {LIMITS['queue']}"
'''


def test_a_name_decides_and_an_everyday_word_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "names"
    (folder / "migrations").mkdir(parents=True)
    (folder / "queues.py").write_text(NAMES)
    (folder / "migrations" / "queues_2.py").write_text(NAMES.replace("queue", "que_ue"))
    (folder / "copy.py").write_text(NAMES)
    with Library.open(folder, index_dir=tmp_path / "index") as library:
        named = ask(library, "which state has the worker when drain_queue runs")
        assert named[0].name == "drain_queue"
        assert [unit.name for unit in named].count("drain_queue") == 1, "copies are shown once"
        everyday = ask(library, "how to filter the state of a worker by its queue")
        assert everyday[0].name == "describe_worker"
        assert everyday[0].uri != "migrations/queues_2.py"

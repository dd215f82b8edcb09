"""Hypothesis plays with a real folder, real processes and kills; the index stays up to date.

Passes are killed at a fault point, generations are rolled back to, libraries closed and opened.
After each pass the index has the texts of the disk and equals one made from scratch, and the
answers of both are those of an oracle that reads the texts themselves: which chunks hold a word
or two words in a row, how BM25 ranks them where no older generation is kept, and which vectors
are nearest.

Seen to fail, each within sixteen plays, when the oracle weighed length otherwise in BM25; when the
words of a phrase were looked up the other way round; when the question's vector was negated; when
the nearest vector was left out; and when ``catalog.mark_dead`` did nothing, so that a second
version of a file stayed alive.
It does not notice fingerprints that are compared by size alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness import amount, report
from index.oracle import check_answers
from index.visible_state import SETTINGS, VOCABULARY, visible_state
from lookfar.errors import IOFailed
from lookfar.library import Library
from points import Points

NAMES = st.sampled_from(["a.md", "b.md", "c.txt", "d/a.md", "d/e/b.md", "f.rst", "日本.md"])
BLOCKS = st.lists(
    st.tuples(
        st.sampled_from(["## {}\n\n", "{}\n===\n\n", "", "- {}\n", "```\n{}\n```\n\n"]),
        st.sampled_from(VOCABULARY),
        st.lists(st.sampled_from((*VOCABULARY, "設定", "getUserById")), max_size=30),
    ),
    max_size=6,
)
TEXTS = BLOCKS.map(
    lambda blocks: "".join(
        head.format(word) + " ".join(words) + "\n\n" for head, word, words in blocks
    )
)


class Folder(RuleBasedStateMachine):
    """What users, editors and crashes do to a folder."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Path(mkdtemp(prefix="lookfar-stateful-"))
        self.root = self.work / "root"
        self.root.mkdir()
        self.seen: dict[int, dict[str, str | None]] = {}
        self.library = self.opened()

    cut = 0
    """Passes that a fault really ended, of all plays."""

    def opened(self) -> Library:
        return Library.open(self.root, index_dir=self.work / "index", settings=SETTINGS)

    def path(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @initialize(text=TEXTS)
    def begin(self, text: str) -> None:
        self.path("a.md").write_text(text)
        self.reconcile()

    @rule(name=NAMES, text=TEXTS)
    def write(self, name: str, text: str) -> None:
        self.path(name).write_text(text)

    @rule(name=NAMES, text=TEXTS)
    def append(self, name: str, text: str) -> None:
        with self.path(name).open("a") as file:
            file.write(text)

    @rule(name=NAMES, text=TEXTS)
    def save_as_editors_do(self, name: str, text: str) -> None:
        temporary = self.path(f"{name}.tmp")
        temporary.write_text(text)
        temporary.replace(self.path(name))

    @rule(name=NAMES, to=NAMES)
    def rename(self, name: str, to: str) -> None:
        if self.path(name).is_file():
            self.path(name).replace(self.path(to))

    @rule(name=NAMES, to=NAMES)
    def copy(self, name: str, to: str) -> None:
        if self.path(name).is_file() and name != to:
            shutil.copy2(self.path(name), self.path(to))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if self.path(name).is_file():
            os.utime(self.path(name))

    @rule(name=NAMES)
    def link(self, name: str) -> None:
        link = self.path(f"link-{name.replace('/', '-')}")
        if not link.is_symlink():
            link.symlink_to(self.path(name))

    @rule()
    def rename_the_folder(self) -> None:
        if (self.root / "d").exists():
            shutil.rmtree(self.root / "g", ignore_errors=True)
            (self.root / "d").rename(self.root / "g")

    @rule()
    def restart(self) -> None:
        self.library.close()
        self.library = self.opened()

    @precondition(lambda self: hasattr(os, "fork"))
    @rule(
        at=st.integers(1, 16), how=st.sampled_from(["kill", "EIO", "full"]), name=NAMES, text=TEXTS
    )
    def fail_a_pass(self, at: int, how: str, name: str, text: str) -> None:
        """Kill a pass with work to do at a fault point."""
        self.path(name).write_text(text)
        self.library.close()
        child = os.fork()
        if not child:
            status = 0
            try:
                with Points(at, how).watching():
                    self.opened().index(wait_seconds=5)
            except IOFailed:
                status = 3
            except BaseException:
                status = 5
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 3, -9)
        Folder.cut += status != 0
        self.library = self.opened()
        # What the killed pass may have activated was true to the disk, too.
        self.reconcile()

    @rule()
    def reconcile(self) -> None:
        self.library.index(wait_seconds=5)
        assert self.library.verify() == []
        assert self.library.status().stale == ()
        here = visible_state(self.library)
        assert here["texts"] == self.on_disk()
        check_answers(self.library, VOCABULARY, ranking=False)
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        with Library.open(self.root, index_dir=scratch, settings=SETTINGS) as fresh:
            fresh.index()
            assert here == visible_state(fresh)
            check_answers(fresh, VOCABULARY, ranking=True)
        self.remember(here["texts"])

    def on_disk(self) -> dict[str, str]:
        """What may be indexed: links are not followed."""
        return {
            path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink()
        }

    @rule(which=st.integers(0, 5))
    def roll_back(self, which: int) -> None:
        """Roll back to any kept generation, which serves unchanged until the next indexing."""
        kept = self.library.status(check=False).generations
        number = kept[which % len(kept)]
        self.library.roll_back(number)
        with self.library.folder().store.snapshot() as shows:
            assert shows.generation == number
            if number in self.seen:
                assert {uri: shows.text(uri) for uri in shows.uris()} == self.seen[number]
        # What lies beyond is dropped by the next pass, and its numbers are not given out again.
        self.seen = {each: texts for each, texts in self.seen.items() if each <= number}
        self.reconcile()

    def remember(self, texts: dict[str, str | None]) -> None:
        """Every kept generation is unchanged."""
        status = self.library.status(check=False)
        self.seen[status.generation] = texts
        for number in status.generations:
            if number in self.seen:
                with self.library.folder().store.snapshot(number) as old:
                    assert {uri: old.text(uri) for uri in old.uris()} == self.seen[number]

    def teardown(self) -> None:
        self.library.close()
        shutil.rmtree(self.work, ignore_errors=True)


@pytest.mark.parametrize("steps", [amount(25, 50)])
def test_the_index_equals_a_fresh_one(steps: int) -> None:
    examples = amount(16, 100)
    Folder.cut = 0
    run_state_machine_as_test(
        Folder,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
    report(
        "state machine", trials=examples, faults=Folder.cut,
        note=f"of at most {steps} steps each; {Folder.cut} passes were cut by a fault",
    )  # fmt: skip
    assert Folder.cut

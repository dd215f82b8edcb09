"""Hypothesis plays with a real folder, real processes and kills; the index stays true to it.

Seen to fail with ``catalog.bury`` doing nothing: a second version of a file stayed alive.
It does not notice fingerprints that are compared by size alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
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
from test_equality import SETTINGS, VOCABULARY, shown

from lookfar.library import Library

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
    @rule(delay=st.floats(0, 0.03))
    def kill_a_pass(self, delay: float) -> None:
        self.library.close()
        child = os.fork()
        if not child:
            try:
                self.opened().index(wait_seconds=5)
            finally:
                os._exit(0)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.library = self.opened()
        # What the killed pass may have activated was true to the disk, too.
        self.reconcile()

    @rule()
    def reconcile(self) -> None:
        self.library.index(wait_seconds=5)
        assert self.library.verify() == []
        assert self.library.status().stale == ()
        here = shown(self.library)
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        with Library.open(self.root, index_dir=scratch, settings=SETTINGS) as fresh:
            fresh.index()
            assert here == shown(fresh)
        self.remember(here["texts"])

    def remember(self, texts: dict[str, str | None]) -> None:
        """Every generation that is kept still says what it said when it was made."""
        status = self.library.status(check=False)
        self.seen[status.generation] = texts
        for number in status.generations:
            if number in self.seen:
                with self.library.folder()._store.snapshot(number) as old:
                    assert {uri: old.text(uri) for uri in old.uris()} == self.seen[number]

    def teardown(self) -> None:
        self.library.close()
        shutil.rmtree(self.work, ignore_errors=True)


@pytest.mark.parametrize("steps", [30])
def test_the_index_equals_one_made_from_scratch(steps: int) -> None:
    run_state_machine_as_test(
        Folder,
        settings=settings(
            max_examples=25,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )

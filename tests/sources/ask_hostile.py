"""Ask Lookfar everything about one folder, in a process that may hang or grow; see the test.

Takes: on standard input a line of JSON per folder, with an index to make and a hash to read.
Gives: a line of JSON for each, with every answer and error as text, whether it ended in time, and
the memory it took. Each folder is asked in a child of its own, so that one says nothing about
another; the imports are paid once.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from lookfar import Filters
from lookfar.collections.commits import Commits
from lookfar.collections.read_documents import titles
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.serve.cli.doctor.findings import Subject
from lookfar.serve.cli.doctor.index_checks import check_git
from lookfar.sources.confine import Root
from lookfar.sources.folder.ignore import load_outer_ignores
from lookfar.sources.git.repositories import read_head

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0}
WORDS = "zanzibarcanary7719 harmless own commit"
PATIENCE = 45.0
MOST_BYTES = 3 << 30


def questions(library: Library, root: str, commit: str) -> Iterator[Callable[[], Any]]:
    commits = Filters(lanes=("commits",))
    yield lambda: library.search(WORDS, filters=commits, top_k=50)
    yield lambda: library.search(f"when was {WORDS} changed", commits=True, top_k=50)
    yield lambda: library.history(limit=1000)
    yield lambda: [contents(result) for result in library.histories().values()]
    yield lambda: library.statuses()
    yield lambda: [library.status(collection=name) for name in library.histories()]
    yield lambda: library.read(commit)
    yield lambda: library.search(WORDS, filters=Filters(branch="main"))
    yield lambda: library.search(WORDS, filters=Filters(touches="*"))
    yield lambda: list(findings(library, root))
    yield lambda: read_head(Root.open(root))
    yield lambda: repr(load_outer_ignores(root))
    yield lambda: library.listed()


def findings(library: Library, root: str) -> Iterator[Any]:
    subject = Subject(root, None, {})
    subject.library = library
    return check_git(subject)


def contents(commits: Commits) -> Any:
    return [(uri, commits.details(uri)) for uri, _ in titles(commits)]


def ask(task: dict[str, str]) -> list[str]:
    answers: list[str] = []
    with Library.open(task["root"], index_dir=task["index"], settings=SETTINGS) as library:
        for question in questions(library, task["root"], task["commit"]):
            try:
                answers.append(repr(question()))
            except LookfarError as error:
                answers.append(json.dumps(error.as_dict()))
            except Exception:
                answers.append(f"CRASH {traceback.format_exc()}")
    return answers


def attempt(task: dict[str, str]) -> dict[str, Any]:
    """Ask in a child, and end it and what it started when it takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        # So that a failure is a failure, and not the end of the machine.
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(ask(task), pipe)
        os._exit(0)
    os.close(writing)
    data = b""
    hung = False
    while True:
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        if not ready:
            hung = True
            os.killpg(child, signal.SIGKILL)
            break
        piece = os.read(reading, 1 << 20)
        if not piece:
            break
        data += piece
    os.close(reading)
    _, status, usage = os.wait4(child, 0)
    answers = json.loads(data) if data and not hung else [] if hung else [f"CRASH {status}"]
    return {"name": task["name"], "hung": hung, "kilobytes": usage.ru_maxrss, "answers": answers}


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(attempt(json.loads(line)))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""A process that may have little memory: a typed error or the whole work, and nothing broken."""

from __future__ import annotations

import bz2
import json
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import amount, report
from lookfar.errors import (
    IOFailed,
    LookfarError,
    OutOfMemory,
    as_out_of_memory,
    from_os_error,
    out_of_memory,
)
from lookfar.library import Library
from lookfar.serve.http.statuses import error_response, wrap_unexpected
from lookfar.serve.mcp.server import internal_error
from lookfar.store.ground import headroom
from outside.git_bombs import make_bomb

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")

LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
import runpy
runpy.run_module("lookfar", run_name="__main__")
"""


def limited(limit: int, *arguments: object, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, str(limit), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    chance = random.Random(7)
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(40):
        words = " ".join(f"{chance.getrandbits(40):x}" for _ in range(2_000))
        (folder / f"{number}.md").write_text(f"# Page {number}\n\ncommon {words}\n")
    return folder


def test_an_index_pass_under_a_limit_is_whole_or_a_typed_error(docs: Path, tmp_path: Path) -> None:
    """Protects against a process that ends where it could have said that memory is short."""
    steps = amount(3, 12)
    limits = [(320 + number * 900 // steps) * 1_000_000 for number in range(steps)]
    index = tmp_path / "index"
    common = ("--index-dir", index, "--set", "embed.provider=hash", "--set", "index.workers=1")
    bad, typed = [], 0
    for limit in limits:
        done = limited(limit, "index", docs, "--json", "--rebuild", *common, home=tmp_path)
        if done.returncode == 0:
            continue
        try:
            code = json.loads(done.stdout)["error"]["code"]
        except ValueError:
            code = done.stderr[-300:]
        typed += code == "OUT_OF_MEMORY"
        if code != "OUT_OF_MEMORY" or "Traceback" in done.stderr:
            bad.append((limit, done.returncode, code))
    report("memory limits", trials=len(limits), faults=typed, failures=len(bad))
    assert bad == []
    assert typed, "no limit was small enough to prove anything"
    unlimited = ("--json", "--top-k", "3", *common)
    assert limited(resource.RLIM_INFINITY, "index", docs, *common, home=tmp_path).returncode == 0
    done = limited(resource.RLIM_INFINITY, "search", "common", docs, *unlimited, home=tmp_path)
    assert len(json.loads(done.stdout)["hits"]) == 3


def test_what_is_fetched_does_not_fill_the_memory(
    tmp_path: Path, repository: Callable[..., Any]
) -> None:
    """Seen to fail when the whole list of a commit, or a name of any length, was read at once."""
    project = tmp_path / "project"
    project.mkdir()
    make_bomb(repository("bomb"))
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 2 << 30
    piece = bz2.compress(bytes(64 << 20))
    for number, kind in enumerate((tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE)):
        name.type = kind
        head = bz2.compress(name.tobuf(tarfile.GNU_FORMAT))
        (tmp_path / f"name{number}.tar.bz2").write_bytes(head + piece * 32)
    for origin, reason in (
        (f"git+file://{tmp_path}/bomb", "lists more than"),
        (f"{tmp_path}/name0.tar.bz2", "bytes for one name"),
        (f"{tmp_path}/name1.tar.bz2", "bytes for one name"),
    ):
        chosen = ("--json", "--set", "embed.provider=hash")
        done = limited(1_200_000_000, "add", origin, project, *chosen, home=tmp_path)
        error = json.loads(done.stdout)["error"]
        assert (error["code"], reason in error["message"]) == ("INVALID_ARGUMENT", True), error


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), out_of_memory("x")]
)
def test_every_interface_reports_it(error: Exception) -> None:
    """Seen to fail when each took it for a mistake of our own: INTERNAL."""
    assert internal_error(error).code == "OUT_OF_MEMORY"
    assert wrap_unexpected(error).code == "OUT_OF_MEMORY"
    assert error_response(wrap_unexpected(error)).status_code == 503
    assert as_out_of_memory(RuntimeError("something else")) is None
    assert isinstance(from_os_error(OSError(12, "Cannot allocate memory"), "reading"), OutOfMemory)


def test_running_out_of_memory_is_not_reported_as_a_file_error(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: None
) -> None:
    """Seen to fail when it was reported as PARSE_FAILED of the file, and the pass went on."""

    def exhausted(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("lookfar.index.prepare.text_parser_for", exhausted)
    chosen = {"embed.provider": "hash", "index.workers": 1}
    with (
        Library.open(docs, index_dir=tmp_path / "index", settings=chosen) as library,
        pytest.raises((MemoryError, OutOfMemory)),
    ):
        library.index()


def test_the_headroom_is_what_the_limit_leaves() -> None:
    """Seen to fail when the limit itself was used as the headroom."""
    assert headroom.address_space_left() is None
    headroom.require_memory(1 << 60)
    code = (
        "import resource; from lookfar.store.ground import headroom;"
        "resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, 4_000_000_000));"
        "print(headroom.address_space_left()); headroom.require_memory(5_000_000_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 0 < int(done.stdout) < 4_000_000_000
    assert "OutOfMemory" in done.stderr
    assert issubclass(OutOfMemory, IOFailed)
    assert issubclass(OutOfMemory, LookfarError)

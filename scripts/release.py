"""Prepare, check and build a release: ``python scripts/release.py COMMAND``.

    prepare VERSION   set the version everywhere and date the notes in the changelog
    check             list everything that keeps this checkout from being released
    notes             print the notes of a version, as the changelog has them
    build             build the sdist and the wheel, and list their hashes
    inspect FOLDER    check what was built
    sbom FOLDER       write a software bill of materials for each wheel

Takes: the repository. Gives: changed files (prepare), files in ``dist`` (build, sbom), or a list of
problems. Refuses: an uncommitted change, notes that are missing or not dated, versions that differ,
generated documentation that is out of date, a lock file that lacks a dependency, and workflows with
findings. Nothing here publishes; that is done by ``.github/workflows/release.yml``.

The version of Lookfar is in ``src/lookfar/__init__.py`` only. Files that must repeat it, because
another program reads them (``server.json``, manifests, image tags), are found by ``find_copies``
and written by ``prepare``.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parent.parent

NO_COPIES = (*("CHANGELOG.md", "bench/", "examples/", "fuzz/", "src/", "tests/", "training/"),)
"""Where a version may be that of something else."""

VERSION_FILE = "src/lookfar/__init__.py"
SUMS = "SHA256SUMS"
LARGEST_WHEEL = 45 * 1024 * 1024

_VERSION_LINE = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_NUMBER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:(?:a|b|rc)(?:0|[1-9]\d*))?")
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?[ \t]*\n", re.MULTILINE)
_PART = re.compile(r"^### (\w+)\n", re.MULTILINE)
_JSON_VERSION = re.compile(r'("version"\s*:\s*")(\d[^"]*)(")')
_NAMED_VERSION = re.compile(r"(\blookfar(?:\[[\w,]*\])?==|\blookfar/lookfar:)(\d[\w.]*\w)()")
_PARTS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


class Unready(Exception):
    """The repository cannot be released, or a command cannot be run on it."""


# --- the version ------------------------------------------------------------------------------


def read_version(root: Path = ROOT) -> str:
    found = _VERSION_LINE.search((root / VERSION_FILE).read_text(encoding="utf-8"))
    if found is None:
        raise Unready(f'{VERSION_FILE} has no line __version__ = "…".')
    return found[1]


def find_copies(root: Path = ROOT) -> Iterator[tuple[Path, re.Pattern[str]]]:
    """Yield the files that repeat the version, each with the pattern that finds it there.

    Manifests have it as the key ``version``; others name a requirement or an image.
    """
    for name in _git(root, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        path = root / name
        if name.startswith(NO_COPIES) or not path.is_file():
            continue
        manifest = path.suffix == ".json" and not name.startswith(("docs/", "deploy/"))
        if manifest:
            yield path, _JSON_VERSION
        if path.suffix in (".json", ".md", ".toml", ".yaml", ".yml"):
            yield path, _NAMED_VERSION


def write_version(version: str, root: Path = ROOT) -> list[Path]:
    """Set the version in its place and in every copy; return the files that changed."""
    path = root / VERSION_FILE
    changed = _replace(path, _VERSION_LINE, f'__version__ = "{version}"')
    for copy, pattern in find_copies(root):
        changed += _replace(copy, pattern, rf"\g<1>{version}\g<3>")
    return sorted(set(changed))


def _replace(path: Path, pattern: re.Pattern[str], text: str) -> list[Path]:
    before = path.read_text(encoding="utf-8")
    after = pattern.sub(text, before)
    if after == before:
        return []
    path.write_text(after, encoding="utf-8")
    return [path]


# --- the changelog ----------------------------------------------------------------------------


def read_sections(text: str) -> dict[str, tuple[str | None, str]]:
    """Return date and notes of each version of a changelog, newest first."""
    heads = list(_HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {
        head[1]: (head[2], text[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    }


def read_notes(version: str, root: Path = ROOT) -> str:
    sections = read_sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    date, notes = sections.get(version, (None, ""))
    if not notes or date is None:
        raise Unready(f"CHANGELOG.md has no dated notes for {version}.")
    return notes


def date_notes(text: str, version: str, date: str) -> str:
    """Move the unreleased notes below a heading for a version, and leave an empty one.

    A version that is prepared a second time keeps its notes; the new ones are added to its parts.
    """
    sections = read_sections(text)
    if "Unreleased" not in sections:
        raise Unready("CHANGELOG.md has no heading [Unreleased].")
    head = text[: text.index("## [Unreleased]")]
    parts = _split_parts(sections.pop("Unreleased")[1])
    for name, notes in _split_parts(sections.pop(version, (None, ""))[1]).items():
        parts[name] = "\n".join(filter(None, [parts.get(name, ""), notes]))
    if not any(parts.values()):
        raise Unready("CHANGELOG.md has no unreleased notes: there is nothing to release.")
    order = sorted(parts, key=lambda name: _PARTS.index(name) if name in _PARTS else -1)
    body = "\n\n".join(f"### {name}\n\n{parts[name]}" if name else parts[name] for name in order)
    older = "".join(
        f"\n## [{name}]{f' - {when}' if when else ''}\n\n{notes}\n"
        for name, (when, notes) in sections.items()
    )
    return f"{head}## [Unreleased]\n\n## [{version}] - {date}\n\n{body}\n{older}"


def _split_parts(notes: str) -> dict[str, str]:
    heads = list(_PART.finditer(notes))
    ends = [head.start() for head in heads] + [len(notes)]
    parts = {"": notes[: ends[0]].strip()}
    for head, end in zip(heads, ends[1:], strict=True):
        parts[head[1]] = notes[head.end() : end].strip()
    return {name: text for name, text in parts.items() if text}


# --- preparing --------------------------------------------------------------------------------


def prepare(version: str, date: str, root: Path = ROOT) -> list[Path]:
    """Write version and date; return the files that changed."""
    if not _NUMBER.fullmatch(version):
        raise Unready(f"{version!r} is not a version such as 0.2.0 or 1.0.0rc1.")
    if _order(version) < _order(read_version(root)):
        raise Unready(f"{version} is older than the current version, {read_version(root)}.")
    if f"v{version}" in _git(root, "tag").split():
        raise Unready(f"{version} has been released: the tag v{version} exists.")
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        raise Unready(f"{date!r} is not a date such as 2026-11-17.") from None
    path = root / "CHANGELOG.md"
    before = path.read_text(encoding="utf-8")
    after = date_notes(before, version, date)
    changed = write_version(version, root)
    if after != before:
        path.write_text(after, encoding="utf-8")
        changed.append(path)
    return changed


def _order(version: str) -> tuple[int, ...]:
    """Return a key by which versions sort; pre-releases are before their release."""
    number, kind, candidate = re.fullmatch(r"([\d.]+)(a|b|rc)?(\d*)", version).groups()  # type: ignore[union-attr]
    rank = {"a": 0, "b": 1, "rc": 2, None: 3}[kind]
    return (*map(int, number.split(".")), rank, int(candidate or 0))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unready(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


# --- checking ---------------------------------------------------------------------------------


def find_changes(root: Path) -> Iterator[str]:
    """Uncommitted changes would not be part of the tag."""
    for line in _git(root, "status", "--porcelain").splitlines():
        yield f"not committed: {line[3:]}"


def find_version_problems(root: Path) -> Iterator[str]:
    version = read_version(root)
    if not _NUMBER.fullmatch(version):
        yield f"{VERSION_FILE}: {version!r} is not a version such as 0.2.0"
    for path, pattern in find_copies(root):
        for _, other, _ in sorted(set(pattern.findall(path.read_text(encoding="utf-8")))):
            if other != version:
                yield f"{path.relative_to(root).as_posix()}: version {other}, not {version}"


def find_note_problems(root: Path) -> Iterator[str]:
    version = read_version(root)
    sections = read_sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    date, notes = sections.get(version, (None, ""))
    if version not in sections:
        yield f"CHANGELOG.md: no heading [{version}]; run: scripts/release.py prepare {version}"
        return
    if not notes:
        yield f"CHANGELOG.md: no notes for {version}"
    try:
        datetime.date.fromisoformat(date or "")
    except ValueError:
        yield f"CHANGELOG.md: {version} has no date such as 2026-11-17"
    if "Unreleased" not in sections:
        yield "CHANGELOG.md: no heading [Unreleased] for the next changes"
    elif sections["Unreleased"][1]:
        yield f"CHANGELOG.md: notes below [Unreleased]; run: scripts/release.py prepare {version}"


def find_tag_problems(root: Path, tag: str | None) -> Iterator[str]:
    """A given tag names this version and this commit; without one, the version is not tagged."""
    wanted = f"v{read_version(root)}"
    tags = _git(root, "tag").split()
    if tag is None:
        if wanted in tags:
            yield f"the tag {wanted} exists: this version has been released"
    elif tag != wanted:
        yield f"the tag is {tag}, the version asks for {wanted}"
    elif tag in tags and _git(root, "rev-parse", f"{tag}^{{commit}}") != _git(
        root, "rev-parse", "HEAD"
    ):
        yield f"the tag {tag} is not on this commit"


def find_lock_problems(root: Path) -> Iterator[str]:
    """Every dependency is pinned in the lock file that it belongs to."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    about = project["project"]
    needed = {
        "requirements-dev.lock": about["dependencies"] + about["optional-dependencies"]["dev"],
        "requirements-release.lock": project["dependency-groups"]["release"],
    }
    for lock, requirements in needed.items():
        pinned = re.findall(r"^([a-z0-9.-]+)(?:\[[^\]]*\])?==", (root / lock).read_text(), re.M)
        for requirement in requirements:
            name = re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]
            if re.sub(r"[-_.]+", "-", name).lower() not in pinned:
                yield f"{lock}: {name} is missing; see CONTRIBUTING.md"


def find_classifier_problems(root: Path) -> Iterator[str]:
    """The classifiers name the Python versions that the tests run on."""
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = set(re.findall(r"Python :: (3\.\d+)", "\n".join(about["classifiers"])))
    workflow = root / ".github" / "workflows" / "tests.yml"
    tested = set(re.findall(r'"(3\.\d+)"', workflow.read_text(encoding="utf-8")))
    for version in sorted(claimed ^ tested):
        where = "a classifier only" if version in claimed else "tests.yml only"
        yield f"Python {version} is in {where}"


def find_stale_documentation(root: Path) -> Iterator[str]:
    """Tables that were generated are what the code says now."""
    tests = ("tests/serve/test_docs.py", "-k", "up_to_date or removed_command or every_kind")
    yield from _run_tests(root, "generated documentation", *tests)


def find_workflow_problems(root: Path) -> Iterator[str]:
    """Workflows and their scripts pass their linters."""
    yield from _run_tests(root, "workflows", "tests/test_workflows.py")


def _run_tests(root: Path, what: str, *tests: str) -> Iterator[str]:
    options = ("-q", "-p", "no:cacheprovider", "-p", "pytest_timeout")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=root,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        yield f"{what}: {tests[0]} failed:\n      " + "\n      ".join(lines[-12:])


CHECKS: tuple[Callable[[Path], Iterator[str]], ...] = (
    find_changes,
    find_version_problems,
    find_note_problems,
    find_lock_problems,
    find_classifier_problems,
)
TESTS: tuple[Callable[[Path], Iterator[str]], ...] = (
    find_stale_documentation,
    find_workflow_problems,
)


def find_problems(root: Path = ROOT, tag: str | None = None, *, tests: bool = True) -> list[str]:
    """List everything that keeps a checkout from being released."""
    checks = CHECKS + (TESTS if tests else ())
    problems = [problem for check in checks for problem in check(root)]
    return problems + list(find_tag_problems(root, tag))


# --- building ---------------------------------------------------------------------------------


def build(out: Path, root: Path = ROOT) -> list[Path]:
    """Build the sdist, the wheel from the unpacked sdist, and list the hashes.

    What git does not know is not built. The files get the time of the commit, so two builds of one
    commit are equal.
    """
    out.mkdir(parents=True, exist_ok=True)
    if list(out.iterdir()):
        raise Unready(f"{out} is not empty.")
    epoch = _git(root, "log", "-1", "--format=%ct").strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    with tempfile.TemporaryDirectory() as temporary:
        copy, unpacked = Path(temporary, "copy"), Path(temporary, "unpacked")
        copy_distribution(copy, root)
        (sdist,) = _build_one("sdist", copy, out, environment)
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        _build_one("wheel", inner, out, environment)
    files = sorted(out.iterdir())
    write_sums(out)
    return files


def copy_distribution(target: Path, root: Path = ROOT) -> None:
    """Copy the files that git knows, and let the README link to the pages of this version."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = target / "README.md"
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        tag = f"v{read_version(root)}"
        readme.write_text(link_to(about["urls"]["Homepage"], tag, text), encoding="utf-8")


def link_to(home: str, tag: str, text: str) -> str:
    """Make relative links of a page absolute: a package index has the page without its folder."""

    def replace(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{match[2]}]({home}/{kind}/{tag}/{match[3]})"

    link = re.compile(r"(!?)\[([^\]\n]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)  # Code has no links.
    return "".join(part if part.startswith("`") else link.sub(replace, part) for part in parts)


def _build_one(target: str, folder: Path, out: Path, environment: dict[str, str]) -> list[Path]:
    before = set(out.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unready(f"{folder.name}: the {target} does not build.\n{done.stdout}{done.stderr}")
    return sorted(set(out.iterdir()) - before)


def write_sums(folder: Path) -> Path:
    """Write the SHA-256 of every file, as ``sha256sum --check`` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    return folder / SUMS


def inspect(folder: Path, version: str) -> list[str]:
    """List what is wrong with built files, by their metadata and contents."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    problems = []
    if not wheels or {_base(path) for path in wheels} != {_base(path) for path in sdists}:
        problems.append(f"{folder}: every distribution needs a wheel and an sdist")
    for wheel in wheels:
        problems += [f"{wheel.name}: {problem}" for problem in _wheel_problems(wheel)]
        if _base(wheel)[0] == "lookfar" and _base(wheel)[1] != version:
            problems.append(f"{wheel.name}: the version is {version}")
    for sdist in sdists:
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        needed = {"pyproject.toml", "PKG-INFO", "LICENSE"} - names
        problems += [f"{sdist.name}: {name} is missing" for name in sorted(needed)]
        hidden = [
            name for name in names if "__pycache__" in name or name.startswith((".venv", "."))
        ]
        problems += [
            f"{sdist.name}: {name} does not belong there" for name in hidden if name != ".gitignore"
        ]
    return problems


def _base(path: Path) -> tuple[str, str]:
    name, version = path.name.removesuffix(".tar.gz").split("-")[:2]
    return name, version


def _wheel_problems(wheel: Path) -> Iterator[str]:
    if wheel.stat().st_size > LARGEST_WHEEL:
        yield f"{wheel.stat().st_size:,} bytes; at most {LARGEST_WHEEL:,}"
    about = read_metadata(wheel)
    for field in ("License-Expression", "Requires-Python", "Project-URL", "Summary"):
        if not about[field]:
            yield f"the metadata has no {field}"
    if about["Description-Content-Type"] != "text/markdown":
        yield "the description is not Markdown"


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def write_sbom(folder: Path) -> list[Path]:
    """Write a CycloneDX bill of materials beside each wheel, from a real installation of it."""
    if not list(folder.glob("*.whl")):
        raise Unready(f"{folder} has no wheel.")
    written = []
    for wheel in sorted(folder.glob("*.whl")):
        target = folder / f"{_base(wheel)[0]}.cdx.json"
        with tempfile.TemporaryDirectory() as temporary:
            venv.create(temporary, with_pip=True)
            python = Path(temporary) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
            _check_run([str(python), "-m", "pip", "install", "-q", str(wheel)])
            _check_run([str(python), "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools"])
            _check_run(
                [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible",
                 "--output-format", "JSON", "--output-file", str(target), str(python)]
            )  # fmt: skip
        named = {part["name"] for part in json.loads(target.read_text("utf-8"))["components"]}
        if _base(wheel)[0].replace("_", "-") not in named:
            raise Unready(f"{target.name} does not name {wheel.name}.")
        written.append(target)
    write_sums(folder)
    return written


def _check_run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unready(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


# --- the command line -------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("version")
    preparing.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    checking = commands.add_parser("check")
    checking.add_argument("--tag", help="the tag that the release was started by")
    noting = commands.add_parser("notes")
    noting.add_argument("version", nargs="?")
    building = commands.add_parser("build")
    building.add_argument("--out", type=Path, default=ROOT / "dist")
    for name in ("inspect", "sbom"):
        commands.add_parser(name).add_argument("folder", type=Path)
    try:
        return _run(parser.parse_args(arguments))
    except Unready as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    match given.command:
        case "prepare":
            for path in prepare(given.version, given.date):
                print(f"changed {path.relative_to(ROOT).as_posix()}")
            print(f"Now run the tests, commit, and tag the commit v{given.version}.")
        case "check":
            return _report(find_problems(tag=given.tag), f"{read_version()} can be released.")
        case "notes":
            print(read_notes(given.version or read_version()))
        case "build":
            for path in build(given.out):
                print(f"{path.stat().st_size:>12,}  {path.name}")
        case "inspect":
            return _report(inspect(given.folder, read_version()), "The files are good.")
        case "sbom":
            for path in write_sbom(given.folder):
                print(f"wrote {path.name}")
    return 0


def _report(problems: Sequence[str], good: str) -> int:
    for problem in problems:
        print(f"  - {problem}")
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
    print(f"{count}. This is not ready." if problems else good)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

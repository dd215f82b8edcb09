"""Does a change keep every answer, and what does it import?

    python bench/answers.py record OUT [FOLDER ...] [--tree TREE]
    python bench/answers.py compare A B
    python bench/answers.py imports [TREE ...]

``record`` indexes copies of ``examples/handbook`` and of each FOLDER, such as a public repository,
and writes each answer to a file of OUT: what ``lookfar search`` (with grep's modes, too), ``read``
and ``related`` print with ``--json``, and what the six tools answer over MCP. What to ask for is
drawn from the files. Times, paths, sizes and names of memories are masked, because they differ from
run to run; everything else is kept byte for byte. ``compare`` prints a diff of each answer that
differs, and fails if there is one. ``imports`` counts what commands import, with the least time of
five runs. TREE is the checkout whose program is asked: this one, unless it is given.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = ROOT / "examples" / "handbook"
QUESTIONS: Final = ("how do I configure it", "error handling", "what changed in the last version")
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "recorder", "version": "1"},
}
_DEFINED: Final = re.compile(
    r"^\s*(?:#{1,6}\s+|(?:pub |export |async |static )*(?:def|class|func|fn|function|struct)\s+)"
    r"(\w[\w .'-]*\w)",
    re.MULTILINE,
)
_MASKED: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r'("(?:\w*seconds|\w*_ms|pid|\w*bytes)": ?)[\d.]+'), r"\1NUMBER"),
    (re.compile(r"\d{8}-?\d{6}-[\w-]+"), "MEMORY"),
    (re.compile(r"(?:-[0-9a-f]{16})+\b|\b[0-9a-f]{12}(?= recorder)"), "-HASH"),
)
_PLACES: Final = 8
_MODIFIED: Final = 1_700_000_000
_SHOWN: Final = 30  # Lines of the diff of one answer.
Places = Sequence[tuple[str, str]]  # Files, and the first heading or definition in each.


class Program:
    """The program of a checkout, with a home of its own."""

    def __init__(self, tree: Path, home: str) -> None:
        self.home = Path(home).resolve()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOOKFAR")}
        own = ("HOME", *(f"XDG_{name}" for name in ("RUNTIME_DIR", "STATE_HOME", "DATA_HOME",
                                                    "CONFIG_HOME", "CACHE_HOME")))  # fmt: skip
        # The second model embeds in the background: its scores would depend on the time.
        other = {"PYTHONPATH": str(tree.resolve() / "src"), "LOOKFAR_QUALITY_ENABLED": "off"}
        self.env = {**kept, **dict.fromkeys(own, str(self.home)), **other}

    def run(self, *arguments: str, python: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *python, "-m", "lookfar", *arguments]
        return subprocess.run(
            command, env=self.env, cwd=self.home, capture_output=True, stdin=subprocess.DEVNULL,
            text=True, check=False,
        )  # fmt: skip

    def write(self, path: Path, asked: str, answer: str) -> None:
        answer = answer.replace(str(self.home), "HOME")
        for pattern, instead in _MASKED:
            answer = pattern.sub(instead, answer)
        path.write_text(f"{asked}\n{answer}\n", encoding="utf-8")

    def copy(self, folder: Path) -> Path:
        """Copy the files of a folder, without its history, as if they were of one time."""
        to = self.home / folder.name
        shutil.copytree(folder, to, ignore=shutil.ignore_patterns(".git", ".venv", "node_modules"))
        for path in to.rglob("*"):
            os.utime(path, (_MODIFIED, _MODIFIED))
        return to


def draw_places(folder: Path) -> Places:
    """Return files at equal distances among those that define or describe something."""
    texts = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    places = [(uri, found[1]) for uri, text in texts.items() if (found := _DEFINED.search(text))]
    return places[:: max(1, len(places) // _PLACES)][:_PLACES]


def list_commands(places: Places) -> Iterator[tuple[str, ...]]:
    for question in (*QUESTIONS, *(f"how does {name} work" for _, name in places)):
        yield "search", question
    for uri, name in places:
        yield "search", name, "--mode", "literal"
        yield "search", rf"{re.escape(name[:4])}\w+", "--mode", "regex"
        yield from (("read", uri), ("read", f"{uri}:1-9"), ("related", uri), ("related", name))


def list_calls(places: Places) -> Iterator[tuple[str, dict[str, Any]]]:
    names = [name for _, name in places]
    yield from (("search", {"query": question}) for question in QUESTIONS)
    yield "search", {"queries": [*names[:3], f"/{names[0][:4]}/", f'"{names[-1]}"']}
    for uri, name in places:
        yield "search", {"query": name, "mode": "keyword", "detail": "full"}
        yield "read", {"target": uri, "find": name.split()[0]}
        yield from (("related", {"target": uri}), ("related", {"target": name}))
    yield "read", {"target": "nothing-like-this.md"}
    yield "remember", {"text": "We chose zebras over quokkas.", "title": "Zebras"}
    yield "search", {"query": "zebras", "kinds": ["memory"]}
    created = {"op": "create", "target": "notes/quokkas.md", "heading": "Quokkas"}
    yield from (("edit", {"edits": [created], "dry_run": dry_run}) for dry_run in (True, False))
    yield "status", {}


def converse(program: Program, folder: Path, places: Places) -> Iterator[tuple[str, str]]:
    """Yield each request to an MCP server with its answer."""
    calls = [
        ("tools/call", {"name": tool, "arguments": given}) for tool, given in list_calls(places)
    ]
    requests: list[tuple[str, Any]] = [("initialize", HELLO), ("tools/list", {}), *calls]
    with subprocess.Popen(
        [sys.executable, "-m", "lookfar", "mcp", "--write", str(folder)], env=program.env,
        cwd=program.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        for number, (method, params) in enumerate(requests):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answer: dict[str, Any] = {}
            while answer.get("id") != number:
                answer = json.loads(server.stdout.readline())
            yield f"{method} {json.dumps(params)}", json.dumps(answer, indent=1, ensure_ascii=False)
            if not number:
                server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        server.stdin.close()


def record(out: Path, folders: Sequence[Path], tree: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lf") as home:
        program = Program(tree, home)
        for folder in map(program.copy, folders):
            places = draw_places(folder)
            print(folder.name, program.run("index", str(folder)).stdout)
            to = out / folder.name
            to.mkdir(parents=True)
            for number, command in enumerate(list_commands(places)):
                done = program.run(*command, str(folder), "--json")
                asked = f"$ lookfar {' '.join(command)}: exit status {done.returncode}"
                program.write(to / f"cli-{number:03}.txt", asked, done.stdout)
            for number, (asked, answer) in enumerate(converse(program, folder, places)):
                program.write(to / f"mcp-{number:03}.txt", asked, answer)
        program.run("daemon", "stop")


def compare(before: Path, after: Path) -> bool:
    """Print what differs; return whether anything does."""
    names = {path.relative_to(out) for out in (before, after) for path in out.rglob("*.txt")}
    different = 0
    for name in sorted(names):
        paths = [out / name for out in (before, after)]
        old, new = (path.read_text("utf-8") if path.exists() else "(not there)" for path in paths)
        if old == new:
            continue
        different += 1
        # The texts of answers have their line ends escaped, and would be one long line each.
        left, right = (text.replace("\\n", "\n").splitlines() for text in (old, new))
        lines = [*difflib.unified_diff(left, right, lineterm="", n=2)][2:]
        print(f"\n{name}: {old.splitlines()[0]}")
        print("\n".join(line[:200] for line in lines[:_SHOWN]))
        if len(lines) > _SHOWN:
            print(f"... {len(lines) - _SHOWN:,} more lines")
    print(f"{different:,} of {len(names):,} answers differ")
    return different > 0


def show_imports(tree: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lf") as home:
        program = Program(tree, home)
        folder = str(program.copy(EXAMPLES))
        print(f"{tree}\n{'':10} of ours  modules  ms")
        program.run("index", folder)
        for command in (["--version"], ["search", "rotate", folder], ["mcp", folder]):
            runs = [program.run(*command, python=("-X", "importtime")).stderr for _ in range(5)]
            rows = [re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", run) for run in runs]
            least = min(sum(int(micros) for micros, _ in run) for run in rows) / 1000
            ours = sum(name.split(".")[0] == "lookfar" for _, name in rows[-1])
            print(f"{command[0]:10} {ours:7} {len(rows[-1]):8} {least:3.0f}")
        program.run("daemon", "stop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("folder", type=Path, nargs="*")
    recording.add_argument("--tree", type=Path, default=ROOT)
    comparing = actions.add_parser("compare")
    comparing.add_argument("recorded", type=Path, nargs=2)
    actions.add_parser("imports").add_argument("tree", type=Path, nargs="*", default=[ROOT])
    given = parser.parse_args()
    if given.action == "record":
        folders = [EXAMPLES, *(folder.resolve() for folder in given.folder)]
        record(given.out, folders, given.tree)
    elif given.action == "compare":
        sys.exit(compare(*given.recorded))
    else:
        for tree in given.tree:
            show_imports(tree)


if __name__ == "__main__":
    main()

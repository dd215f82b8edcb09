"""Record a session in a terminal as an animated picture: docs/images/session.svg.

Takes: the commands of ``SCENES``, run for real on a terminal over a copy of ``examples/handbook``,
with an empty home. Gives: an SVG without scripts, fonts or links, which plays in a loop; people who
asked their system for less motion see the last scene. Refuses: a command that fails, or output that
does not fit the picture. Run it after a change of what commands print:
``.venv/bin/python scripts/recording.py``.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
TARGET: Final = ROOT / "docs" / "images" / "session.svg"
COLUMNS: Final = 92
ROWS: Final = 14
TAKES: Final = 5
"""How often a command is run; the fastest run is shown, as other programs share the machine."""

QUESTION: Final = 'lookfar search "how long does an old API key keep working" handbook -k 1'
SCENES: Final = (
    ('lookfar search "go back to the previous version after a bad deploy" handbook -k 1',),
    (QUESTION,),
    ('lookfar search "who feeds the office cat" handbook -k 1',),
    ("sed -i 's/24 hours/two days/' handbook/security/keys.md", QUESTION),
)
"""What is typed on one screen, in the order of the session."""

# Sizes in pixels, times in seconds.
CELL_WIDTH, CELL_HEIGHT, MARGIN, BAR = 8.4, 19, 16, 34
PER_LETTER, THINKING, HOLD = 0.045, 0.5, 4.5

COLOURS: Final = {
    "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue",
    "35": "magenta", "36": "cyan",
}  # fmt: skip
STYLE: Final = """\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace;
  fill: #d8dee9; white-space: pre; }
.bold { font-weight: bold } .dim { fill: #8b95a7 } .red { fill: #f38ba8 } .green { fill: #a6d189 }
.yellow { fill: #e5c890 } .blue { fill: #8caaee } .magenta { fill: #f4b8e4 } .cyan { fill: #81c8be }
.prompt { fill: #a6d189; font-weight: bold }
"""


@dataclass(frozen=True)
class Run:
    """Neighbouring letters of one style."""

    column: int
    text: str
    style: str


@dataclass
class Screen:
    """A terminal that knows what these programs use: colours, erased lines, and moves up."""

    cells: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""

    def feed(self, output: str) -> None:
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", output):
            if part.startswith("\x1b["):
                self._control(part[2:-1], part[-1])
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                while len(self.cells) <= self.row:
                    self.cells.append([])
            else:
                self._write(part)

    def _control(self, values: str, letter: str) -> None:
        if letter == "m":
            names = [COLOURS[value] for value in values.split(";") if value in COLOURS]
            self.style = " ".join(names)
        elif letter == "A":
            self.row = max(0, self.row - int(values or 1))
        elif letter == "K":
            self.cells[self.row] = []

    def _write(self, text: str) -> None:
        line = self.cells[self.row]
        for letter in text:
            line += [(" ", "")] * (self.column + 1 - len(line))
            line[self.column] = (letter, self.style)
            self.column += 1

    def lines(self) -> list[list[Run]]:
        """Return the lines, without empty ones at the end."""
        while self.cells and not self.cells[-1]:
            self.cells.pop()
        return [list(_join(line)) for line in self.cells]


def _join(line: Sequence[tuple[str, str]]) -> Iterator[Run]:
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or line[at][1] != line[start][1]:
            yield Run(start, "".join(letter for letter, _ in line[start:at]), line[start][1])
            start = at


@dataclass(frozen=True)
class Command:
    """What was typed, and the lines that it printed."""

    typed: str
    lines: list[list[Run]]

    @property
    def text(self) -> str:
        return "\n".join("".join(run.text for run in line).rstrip() for line in self.lines)


def run(typed: str, work: Path) -> str:
    """Run a command on a terminal of its own, and return the bytes that it wrote as text."""
    words = shlex.split(typed)
    if words[0] == "lookfar":
        words[:1] = [sys.executable, "-m", "lookfar"]
    program = shutil.which(words[0]) or words[0]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(work / "home"),
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "LOOKFAR_SERVE_DAEMON": "false",
        }
        os.execve(program, words, variables)
    output = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        output += more
    os.close(terminal)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"{typed} failed:\n{output.decode('utf-8', 'replace')}")
    return output.decode("utf-8")


def record(work: Path, takes: int = TAKES) -> list[list[Command]]:
    """Run all scenes in a folder that is empty, and return them."""
    shutil.copytree(ROOT / "examples" / "handbook", work / "handbook")
    (work / "home").mkdir()
    run("lookfar index handbook", work)
    return [[_take(typed, work, takes) for typed in scene] for scene in SCENES]


def _take(typed: str, work: Path, takes: int) -> Command:
    outputs = [run(typed, work) for _ in range(takes if typed.startswith("lookfar") else 1)]
    screen = Screen()
    screen.feed(min(outputs, key=_milliseconds))
    return Command(typed, screen.lines())


def _milliseconds(output: str) -> int:
    found = re.search(r"(\d+) ms", output)
    return int(found[1]) if found else 0


# --- drawing ----------------------------------------------------------------------------------


@dataclass
class Picture:
    """The parts of the SVG, and the time at which each of them appears and disappears."""

    parts: list[str] = field(default_factory=list)
    rules: list[tuple[str, float, float]] = field(default_factory=list)
    clock: float = 0.0

    def show(self, part: str, start: float) -> None:
        """Add a part that appears at a time, and stays until its scene ends."""
        name = f"p{len(self.rules)}"
        self.rules.append((name, start, -1.0))
        self.parts.append(f'<g class="{name}">{part}</g>')

    def end_scene(self, first: int) -> None:
        """Let the parts since `first` disappear now."""
        for at in range(first, len(self.rules)):
            self.rules[at] = (*self.rules[at][:2], self.clock)


def draw(scenes: Sequence[Sequence[Command]]) -> str:
    picture = Picture()
    last = 0
    for scene in scenes:
        last = len(picture.rules)
        _draw_scene(picture, scene)
        picture.end_scene(last)
    width = round(2 * MARGIN + COLUMNS * CELL_WIDTH)
    height = BAR + 2 * MARGIN + ROWS * CELL_HEIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    title = "A session in a terminal: questions about a folder, answered with files and lines."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}{_animate(picture, last)}</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#1e2430"/>',
            *(
                f'<circle cx="{22 + 20 * at}" cy="19" r="6" fill="{colour}"/>'
                for at, colour in enumerate(("#f38ba8", "#e5c890", "#a6d189"))
            ),
            *picture.parts,
            "</svg>\n",
        ]
    )


def _draw_scene(picture: Picture, scene: Sequence[Command]) -> None:
    row = 0
    for command in scene:
        picture.show(_text(row, [Run(0, "$", "prompt")]), picture.clock)
        picture.clock += THINKING
        words = re.findall(r"\S+\s*", command.typed)
        at = 2
        for word in words:
            picture.show(_text(row, [Run(at, word, "bold")]), picture.clock)
            picture.clock += PER_LETTER * len(word)
            at += len(word)
        if at > COLUMNS:
            sys.exit(f"{command.typed} is wider than {COLUMNS} columns.")
        row += 1
        picture.clock += THINKING / 2
        if command.lines:
            lines = [_text(row + at, line) for at, line in enumerate(command.lines) if line]
            picture.show("".join(lines), picture.clock)
            row += len(command.lines)
    if row > ROWS:
        sys.exit(f"A scene has {row} lines; the picture has room for {ROWS}.")
    picture.clock += HOLD


def _text(row: int, runs: Sequence[Run]) -> str:
    y = BAR + MARGIN + row * CELL_HEIGHT
    spans = [
        f'<tspan x="{MARGIN + run.column * CELL_WIDTH:g}"'
        + (f' class="{run.style}"' if run.style else "")
        + f">{escape(run.text.rstrip(), quote=False)}</tspan>"
        for run in runs
        if run.text.strip()
    ]
    return f'<text y="{y}">{"".join(spans)}</text>' if spans else ""


def _animate(picture: Picture, last: int) -> str:
    """Return a rule per part: hidden, shown from one share of the loop to another, hidden."""
    whole = picture.clock
    lines = []
    for at, (name, start, end) in enumerate(picture.rules):
        shares = [100 * start / whole, 100 * end / whole]
        frames = f"0% {{ opacity: 0 }} {shares[0]:.2f}% {{ opacity: 1 }}"
        if shares[1] < 100:
            frames += f" {shares[1]:.2f}% {{ opacity: 0 }}"
        still = 1 if at >= last else 0
        lines.append(f"@keyframes {name} {{ {frames} }}")
        lines.append(
            f".{name} {{ opacity: {still}; animation: {name} {whole:.2f}s step-end infinite }}"
        )
    names = ", ".join(f".{name}" for name, _, _ in picture.rules)
    lines.append(f"@media (prefers-reduced-motion: reduce) {{ {names} {{ animation: none }} }}")
    return "\n".join(lines) + "\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scenes = record(Path(folder))
    TARGET.write_text(draw(scenes), encoding="utf-8")
    for scene in scenes:
        for command in scene:
            print(f"$ {command.typed}\n{command.text}")
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

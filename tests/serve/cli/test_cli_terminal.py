"""What reaches a terminal or a pipe: no stack traces, no raw control characters, no surprises.

Proved by mutation: a bar forced onto a pipe, a bar without time left, heads of a table on a pipe,
errors coloured whatever ``NO_COLOR`` says, and an index that goes at a "no" each fail here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lookfar.errors import LookfarError
from lookfar.serve.cli import exits
from lookfar.serve.cli.main import cli
from lookfar.serve.show.printable import safe_json, safe_name, safe_text
from python_programs import run_python
from serve.processes import alive, end_all
from serve.terminal import on_terminal
from waiting import DEADLINE, wait_for

Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]

HASH = ("--set", "embed.provider=hash")
HOSTILE = "# Evil \x1b]0;owned\x07\n\nkeys \x1b[2J\x1b[31mred\x9b31m \u202egnitirw\u202c \x08\x7f\n"


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def test_help_and_version(process: Process) -> None:
    assert "Everyday commands:" in process("--help").stdout
    assert "Everyday commands:" in process().stdout
    assert re.fullmatch(r"lookfar \d+\.\d+\.\d+\n", process("--version").stdout)


def test_help_imports_nothing_heavy() -> None:
    program = "import sys, lookfar.serve.cli.main; print(*sys.modules)"
    output = run_python(program).stdout.split()
    heavy = {"numpy", "tokenizers", "rich", "sqlite3", "yaml", "lookfar.library"}
    assert heavy & set(output) == set()


def test_a_terminal_shows_the_best_hit_in_full_and_four_briefly(run: Run, tmp_path: Path) -> None:
    """Fails if a list scrolls its best hit away; a pipe gets all of every hit."""
    for at in range(12):
        text = f"# Berth {at}\n\nThe harbour has berth {at}.\n\nA boat.\n\nThe tide turns.\n"
        (tmp_path / f"berth{at}.md").write_text(text, encoding="utf-8")
    asked = ("search", "harbour berth", tmp_path)
    piped = run(*asked).stdout
    assert len(re.findall(r"^\d+\. ", piped, re.M)) == piped.count("The tide turns.") == 10

    def show(*options: str) -> str:
        shown = on_terminal(*asked, *options, *HASH)[1]
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", shown)

    blocks = show().strip().split("\n\n")
    assert [len(block.split("\n")) for block in blocks] == [5, 2, 2, 2, 2, 1]
    assert all("The harbour has berth" in block for block in blocks[:5])
    assert blocks[5].startswith("5 of 10 hits (--full shows all)")
    several = show("-k", "7")
    assert (len(re.findall(r"^\d+\. ", several, re.M)), several.count("tide")) == (7, 1)
    assert show("--full").count("The tide turns.") == 10


def test_a_mistyped_command_is_recognised(run: Run) -> None:
    result = run("serch", "x")
    assert result.exit_code == 2
    assert result.stderr.endswith("hint: Did you mean search?\n")
    assert "lookfar --help" in run("xyzzy").stderr


def test_a_mistyped_option_is_recognised(run: Run) -> None:
    result = run("search", "x", "--topk", "3")
    assert result.exit_code == 2
    assert "There is no option --topk." in result.stderr
    assert "Did you mean --top-k?" in result.stderr


def test_an_option_that_is_only_as_short_is_not_suggested(run: Run) -> None:
    """Fails if dashes count: --yes and --set have three of five characters in common."""
    result = run("undo", "--yes")
    assert "There is no option --yes." in result.stderr
    assert result.stderr.endswith("hint: See: lookfar undo --help\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ("deps", "--diff", "httpx", "0.25"),
            "Option --diff needs 3 values: NAME OLD NEW.",
            "For example: lookfar deps --diff requests 2.31.0 2.32.0  See: lookfar deps --help",
        ),
        (("search", "x", "--path"), "Option --path needs a value: PATH.", "See: lookfar search"),
        (("config", "set", "a", "b", "--path"), "Option --path", "See: lookfar config set --help"),
    ],
)
def test_too_few_values_of_an_option_lead_to_its_command(
    arguments: tuple[str, ...], message: str, hint: str
) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert hint in result.stderr


def test_an_option_before_its_command_gets_a_hint(run: Run) -> None:
    assert "after the command" in run("--verbose", "search", "x").stderr


@pytest.mark.parametrize(
    "arguments", [("index", ""), ("search", "x", ""), ("status", ""), ("status", "--index-dir", "")]
)
def test_an_empty_folder_name_is_not_the_current_folder(
    arguments: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "is empty." in result.stderr


def test_missing_arguments(run: Run) -> None:
    result = run("search")
    assert result.exit_code == 2
    assert "lookfar search --help" in result.stderr.replace("cli search", "lookfar search")


@pytest.mark.parametrize(
    "arguments",
    [("serch",), ("search",), ("search", "", "."), ("index", "absent"), ("read", "--nope")],
)
def test_errors_are_one_json_object(arguments: tuple[str, ...], run: Run) -> None:
    result = run(*arguments, "--json")
    error = json.loads(result.stdout)["error"]
    assert list(error) == ["code", "message", "hint", "developer_message", "details"]
    assert error["hint"]
    assert result.exit_code == 2 + (arguments[0] == "index")


def test_verbose_shows_developer_details(tmp_path: Path, run: Run) -> None:
    plain = run("index", tmp_path / "absent")
    verbose = run("index", tmp_path / "absent", "--verbose")
    assert "Traceback" not in plain.output
    assert "Traceback" in verbose.stderr
    assert plain.stderr in verbose.stderr
    assert verbose.exit_code == plain.exit_code


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("the inside of the machine")


def test_an_unexpected_error_is_reported_without_a_trace(
    handbook: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookfar.library.Library.search", broken)
    result = run("search", "keys", handbook)
    assert result.exit_code == 1
    assert "error INTERNAL: " in result.stderr
    assert "--verbose" in result.stderr
    assert "Traceback" not in result.output
    assert "the inside of the machine" in run("search", "keys", handbook, "--verbose").stderr
    shape = json.loads(run("search", "keys", handbook, "--json").stdout)
    assert shape["error"]["code"] == "INTERNAL"


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_reports_that_the_index_is_intact(
    handbook: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookfar.collections.folder.Folder.index", interrupted)
    result = run("index", handbook)
    assert result.exit_code == 130
    assert "intact" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_real_interrupt(tmp_path: Path, own_home: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\n" + "words and more words\n" * 40)
    process = subprocess.Popen(
        [sys.executable, "-m", "lookfar", "index", str(folder), *HASH],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ends = time.monotonic() + DEADLINE
    while not list(own_home.rglob("many-*")) and process.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=DEADLINE)
    if process.returncode != 0:  # A quick machine may have finished.
        assert process.returncode == 130
        assert "intact" in stderr
        assert "Traceback" not in stderr


def list_importing(parent: int) -> list[int]:
    """Return the two workers of a process, as soon as both import compiled modules."""
    found = Path(f"/proc/{parent}/task").glob("*/children")
    pids = [int(pid) for children in found for pid in children.read_text().split()]
    # A process that was forked and has not called exec yet has the command line of its parent.
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
    workers = [pid for pid, line in lines.items() if b"lookfar.index.worker" in line]
    loaded = [Path(f"/proc/{pid}/maps").read_text() for pid in workers]
    return workers if len(workers) == 2 and all("numpy" in names for names in loaded) else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
@pytest.mark.parametrize("stuck", [False, True], ids=["importing", "stuck"])
def test_an_interrupt_while_workers_start(tmp_path: Path, own_home: Path, stuck: bool) -> None:
    """Seen to fail with a stack trace of each worker, and when the command waited until its
    workers had imported everything and answered."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\n" + "words of a page\n" * 1200)
    command = ("index", str(folder), "--set", "index.workers=2", *HASH)
    process = subprocess.Popen(
        [sys.executable, "-m", "lookfar", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    workers = wait_for(lambda: list_importing(process.pid), "the workers import", pause=0.001)
    for pid in workers if stuck else ():
        os.kill(pid, signal.SIGSTOP)
    # What a terminal does: every process of the foreground group gets the signal.
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, stderr = process.communicate(timeout=DEADLINE)
        assert not any(map(alive, workers))
    except BaseException:
        end_all([process.pid, *workers])
        raise
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1:] == ["Stopped. The last finished index is intact."]
    assert "Traceback" not in stderr


def test_an_interrupt_while_starting_leaves_no_trace() -> None:
    """Ctrl-C may come during our imports; without the guard, this printed a stack trace."""
    program = "import builtins, sys; from lookfar.serve.entry import main\n"
    program += "def stop(*_, **__): raise KeyboardInterrupt\n"
    program += "sys.argv = ['lookfar', 'status']; builtins.__import__ = stop\n"
    program += "main()\n"
    done = run_python(program, check=False)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("command", ["read big.md {folder}", "search words {folder} -k 900 --json"])
def test_a_closed_pipe_is_not_an_error(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "big.md").write_text("# Big\n\n" + "".join(f"words {n}\n\n" for n in range(60_000)))
    lookfar = f"{sys.executable} -m lookfar"
    flags = f"{' '.join(HASH)} --set search.per_document=0 --set search.max_excerpt_chars=1000000"
    script = f"{lookfar} index {folder} --quiet {flags} && "
    script += (
        f"{lookfar} {command.format(folder=folder)} {flags} | head -1; echo ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert result.stdout.splitlines()[-1] == "0"
    assert result.stderr == ""


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
class TestOnATerminal:
    def test_colours_and_highlights(self, handbook: Path) -> None:
        code, output = on_terminal("search", "signing key", handbook, *HASH)
        assert code == 0
        assert "\x1b[1;33mSigning\x1b[0m" in output or "\x1b[1;33msigning\x1b[0m" in output

    def test_no_color(self, handbook: Path) -> None:
        on_terminal("index", handbook, *HASH)
        _, output = on_terminal("search", "signing key", handbook, *HASH, env={"NO_COLOR": "1"})
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", output)

    def test_a_bar_shows_progress(self, handbook: Path) -> None:
        _, output = on_terminal("index", handbook, *HASH)
        assert "Indexing handbook" in output
        assert "4 of 4 files" in output
        assert "MB/s" in output

    def test_the_bar_shows_rate_and_time_left(self, tmp_path: Path) -> None:
        """Also of a folder that takes long enough to be waited for, and of a rebuild."""
        folder = tmp_path / "many"
        folder.mkdir()
        for number in range(300):
            (folder / f"{number}.md").write_text(f"# Page {number}\n\n" + "many words\n" * 200)
        for command in ("index", "reindex"):
            _, output = on_terminal(command, folder, "--set", "index.workers=1", *HASH)
            assert re.search(r"[\d,]+ of 300 files", output)
            assert re.search(r"\d+\.\d MB/s", output)
            assert re.search(r"\d:\d\d:\d\d", output), "the time left"
            assert "\u2501" in output, "the bar itself"
            assert COLOUR.search(output)

    def test_an_import_shows_rate_and_time_left(self, tmp_path: Path) -> None:
        file = tmp_path / "many.jsonl"
        file.write_text("".join(f'{{"text": "text number {n}"}}\n' for n in range(1500)))
        code, output = on_terminal("documents", "import", file, "--db", "notes", *HASH)
        assert code == 0, output
        assert "Reading documents" in output
        assert re.search(r"[\d,]+/s", output)
        assert "1,500 added" in output

    def test_a_question_is_answered_with_breadcrumbs(self, handbook: Path) -> None:
        _, output = on_terminal("search", "signing key", handbook, *HASH)
        assert "\x1b[32m   Keys" in output, "its heading"
        assert re.search(r"\x1b\[1;36msecurity/keys\.md:\d+-\d+", output)

    def test_an_error_is_coloured(self, tmp_path: Path) -> None:
        _, output = on_terminal("index", tmp_path / "absent")
        assert "\x1b[31m\x1b[1merror ROOT_NOT_FOUND:\x1b[0m" in output
        assert "\x1b[36mhint:\x1b[0m" in output
        _, plain = on_terminal("index", tmp_path / "absent", env={"NO_COLOR": "1"})
        assert "\x1b" not in plain

    def test_a_table_has_heads_for_people_alone(self, process: Process) -> None:
        _, output = on_terminal("config", "show", "search.top_k")
        assert re.search(r"key .*value .*from", output)
        assert COLOUR.search(output)
        piped = process("config", "show", "search.top_k").stdout
        assert piped == "search.top_k  10  default\n"

    def test_a_person_is_asked_before_an_index_goes(self, handbook: Path) -> None:
        on_terminal("index", handbook, "--quiet", *HASH)
        code, output = on_terminal("delete", handbook, *HASH, typed="n\n")
        assert code == 130
        assert "Its files stay." in output
        assert "Removed" not in output
        code, output = on_terminal("delete", handbook, *HASH, typed="y\n")
        assert code == 0
        assert "Removed" in output

    @pytest.mark.parametrize(
        "command", [("search", "keys"), ("read", "evil.md"), ("outline", "evil.md"), ("status",)]
    )
    def test_a_document_cannot_drive_the_terminal(
        self, command: tuple[str, ...], tmp_path: Path
    ) -> None:
        folder = tmp_path / "evil\x1b]2;title\x07"
        folder.mkdir()
        (folder / "evil.md").write_text(HOSTILE)
        on_terminal("index", folder, "--quiet", *HASH)
        code, output = on_terminal(*command, folder, *HASH)
        assert code == 0, output
        # What remains of escapes are the colours that we set ourselves.
        assert not re.search(r"\x1b(?!\[[0-9;]*m)", output)
        assert "\x1b[31mred" not in output
        assert not re.search("[\x07\x08\x7f\x9b\u202e]", output)


def test_a_pipe_gets_no_colours_and_no_control_characters(tmp_path: Path, process: Process) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "evil.md").write_text(HOSTILE)
    output = process("search", "keys", folder, *HASH).stdout
    assert "\\x1b[2J" in output
    assert not re.search("[\x1b\x07\x08\x7f\x9b\u202e]", output)
    as_json = process("search", "keys", folder, "--json", *HASH).stdout
    assert not re.search("[\x1b\x07\x08\x7f\x9b\u202e]", as_json)
    assert json.loads(as_json)["hits"][0]["text"] == HOSTILE, "escaped, not altered"


def test_a_pipe_gets_no_progress_and_no_colours(handbook: Path, process: Process) -> None:
    for command in ("index", "reindex", "status", "search"):
        words = (command, "keys", handbook) if command == "search" else (command, handbook)
        done = process(*words, *HASH)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr, command
        assert "\r" not in done.stderr
        assert "\u2501" not in done.stderr
    failed = process("index", handbook / "absent")
    assert "\x1b" not in failed.stderr


def test_colours_can_be_forced_and_forbidden(handbook: Path, process: Process) -> None:
    process("index", handbook, "--quiet", *HASH)
    for env, coloured in (
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ):
        found = process("search", "signing key", handbook, *HASH, env=env).stdout
        assert bool(COLOUR.search(found)) is coloured, env
        failed = process("index", handbook / "absent", env=env).stderr
        assert bool(COLOUR.search(failed)) is coloured, env


def test_error_messages_are_escaped(run: Run) -> None:
    result = run("index", "no\x1b[31msuch\nfolder")
    assert "\x1b" not in result.stderr
    assert result.stderr.count("\n") == 2


def test_a_terminal_without_unicode(tmp_path: Path, process: Process) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Schlüssel 漢字\n\nkeys\n", encoding="utf-8")
    narrow = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = process("search", "keys", folder, *HASH, env=narrow)
    assert result.returncode == 0, result.stderr
    assert "Schl\\xfcssel" in result.stdout
    as_json = process("search", "keys", folder, "--json", *HASH, env=narrow).stdout
    assert json.loads(as_json)["hits"][0]["title"] == "Schlüssel 漢字"


def test_names_are_escaped_to_one_line() -> None:
    assert safe_name("a\nb\tc\x1b") == "a\\x0ab\\x09c\\x1b"
    assert safe_text("a\nb\tc\x1b\r") == "a\nb\tc\\x1b\\x0d"
    assert safe_name("漢字 é \u200f") == "漢字 é \u200f"
    assert json.loads(safe_json({"a": "\x9b\ud800漢"})) == {"a": "\x9b\ud800漢"}


def test_every_kind_of_ending_has_its_own_exit_code() -> None:
    assert LookfarError.exit_code == 1
    assert exits.INTERRUPTED == 130

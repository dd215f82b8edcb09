"""``lookfar completion``: what it offers, and a real bash that uses it.

Proved by mutation: a path that completes as any text, missing keys of settings, and a script of
another program's name each fail here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from lookfar.serve.cli.main import cli
from python_programs import run_python
from waiting import DEADLINE


def offered(*words: str) -> list[tuple[str, str]]:
    """Return the completions of the last word, with their types."""
    *before, last = words
    complete = ShellComplete(cli, {}, "lookfar", "_LOOKFAR_COMPLETE")
    return [(item.value, item.type) for item in complete.get_completions(before, last)]


def names(*words: str) -> list[str]:
    return [value for value, _ in offered(*words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sea",), ["search"]),
        (("memory", "re"), ["restore", "read"]),
        (("search", "x", "--mode", "k"), ["keyword"]),
        (("logs", "d"), ["daemon"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("config", "get", "search.rrf"), ["search.rrf_k"]),
        (("search", "x", "--set", "chunk.max"), ["chunk.max_tokens="]),
        (("search", "x", "--langu"), ["--language"]),
    ],
)
def test_names_and_values_are_offered(words: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(names(*words)) == sorted(expected)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("index", "do"), "dir"),
        (("search", "query", "do"), "dir"),
        (("memory", "list", "--path", "do"), "dir"),
        (("status", "--index-dir", "do"), "dir"),
        (("config", "migrate", "do"), "file"),
        (("doc", "replace", "a.md#B", "--file", "do"), "file"),
        (("why", "do"), "file"),
    ],
)
def test_folders_and_files_are_completed_by_the_shell(words: tuple[str, ...], kind: str) -> None:
    assert offered(*words) == [("do", kind)]


def test_completion_opens_no_library() -> None:
    program = "import sys; sys.argv = ['lookfar', 'completion', 'bash']\n"
    program += "from lookfar.serve.entry import main\n"
    program += "try: main()\nexcept SystemExit: pass\n"
    program += "print(*sys.modules, file=sys.stderr)"
    done = run_python(program)
    heavy = {"numpy", "rich", "sqlite3", "lookfar.library", "subprocess"}
    assert heavy & set(done.stderr.split()) == set()
    assert "_lookfar_completion" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_LOOKFAR_COMPLETE={shell}_complete" in result.stdout
    program = shutil.which(shell)
    if program is not None:  # Where the shell is there, it has to understand the script.
        checked = subprocess.run(
            [program, "-n"], input=result.stdout, capture_output=True, text=True, timeout=DEADLINE,
            check=False,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stderr


def test_an_unknown_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sea"], "search"),
        (["config", "get", "chunk.max"], "chunk.max_tokens"),
        (["index", "han"], "compopt dirnames"),
    ],
)
def test_a_real_bash_completes(words: list[str], expected: str, handbook: Path) -> None:
    """Source the script and call it as a key press would."""
    binary = handbook.parent / "bin"
    binary.mkdir()
    command = binary / "lookfar"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lookfar "$@"\n')
    command.chmod(0o755)
    line = " ".join(f'"{word}"' for word in ["lookfar", *words])
    script = f"""
        eval "$(lookfar completion bash)"
        complete -p lookfar
        compopt() {{ echo compopt "$2"; }}
        COMP_WORDS=({line}); COMP_CWORD={len(words)}
        _lookfar_completion lookfar
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{binary}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
        env=environment,
    )
    assert "-F _lookfar_completion lookfar" in done.stdout
    assert expected in done.stdout.splitlines()

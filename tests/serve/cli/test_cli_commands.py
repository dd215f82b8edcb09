"""The command line as a whole: every command is there, helps, reports alike and ends alike.

Proved by mutation: a command taken out of the list, an example with a wrong option, an option
``--json`` taken away, a summary too long for a line, and a hint without the nearest name each
fail here.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from lookfar import errors
from lookfar.serve.cli.main import cli
from lookfar.serve.cli.options import get_examples

Run = Callable[..., Result]

ASKED_FOR = (
    *("index", "search", "read", "outline", "related", "status", "reindex", "snapshots", "watch"),
    *("why", "eval", "memory", "history", "doc", "documents", "serve", "mcp", "daemon", "setup"),
    *("doctor", "logs", "delete", "config", "completion"),
)
SPEAKS_OTHERWISE = {"mcp", "serve", "completion"}
"""What these write is a protocol or a script."""


def ways(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        way = f"{above} {name}".strip()
        yield way, command
        if isinstance(command, click.Group):
            yield from ways(command, way)


EVERY = {way: command for way, command in ways(cli) if not command.hidden}
"""All commands but the aliases for users of other systems."""
LEAVES = {way: command for way, command in EVERY.items() if not isinstance(command, click.Group)}


def test_every_command_exists(subtests: pytest.Subtests) -> None:
    for name in ASKED_FOR:
        with subtests.test(name=str(name)):
            assert name in cli.commands


def test_snapshots_has_its_commands() -> None:
    group = cli.commands["snapshots"]
    assert isinstance(group, click.Group)
    assert {"list", "diff", "rollback", "pin"} <= set(group.commands)


def test_memory_has_its_commands() -> None:
    group = cli.commands["memory"]
    assert isinstance(group, click.Group)
    assert {"list", "add", "read", "edit", "append", "delete", "restore"} <= set(group.commands)


def test_every_help_page_has_an_example(subtests: pytest.Subtests) -> None:
    for way in EVERY:
        with subtests.test(way=str(way)):
            output = CliRunner().invoke(cli, [*way.split(), "--help"]).stdout
            examples = get_examples(EVERY[way])
            assert examples, way
            assert "Examples:" in output
            for example in examples:
                assert example in output, "click must not rewrap the lines"


def test_every_example_parses(subtests: pytest.Subtests) -> None:
    for way in EVERY:
        with subtests.test(way=str(way)):
            for example in get_examples(EVERY[way]):
                bare = re.sub(r'^eval "\$\((.*)\)"$', r"\1", example)
                first, *words = shlex.split(bare)
                assert first == "lookfar"
                words = words[: words.index(">")] if ">" in words else words
                assert " ".join(words).startswith(way), "of this very command"
                command: click.Command = cli
                context = click.Context(cli, info_name="lookfar", **cli.context_settings)
                while isinstance(command, click.Group):
                    command = command.commands[words.pop(0)]
                    context = click.Context(command, parent=context, info_name=command.name)
                command.make_context(command.name, words, parent=context.parent)


def test_every_command_takes_json_and_verbose(subtests: pytest.Subtests) -> None:
    for way in LEAVES:
        with subtests.test(way=str(way)):
            options = {name for option in LEAVES[way].params for name in option.opts}
            assert "--verbose" in options
            assert ("--json" in options) == (way not in SPEAKS_OTHERWISE)


ONE_SPELLING = {
    "-k": "--top-k",
    "-f": "--follow",
    "--index-dir": "--index-dir",
}


def test_options_are_named_consistently(subtests: pytest.Subtests) -> None:
    for way in LEAVES:
        with subtests.test(way=str(way)):
            for option in LEAVES[way].params:
                if isinstance(option, click.Option):
                    for name in option.opts:
                        assert ONE_SPELLING.get(name, name) in option.opts
                        assert re.fullmatch(r"-[a-zA-Z]|--[a-z0-9]+(-[a-z0-9]+)*", name), name
                    assert option.help, f"{way} {option.opts}"
                    assert option.help.endswith((".", ")")), f"{way} {option.opts}: {option.help}"
                    assert "--query" not in option.opts or way == "why"


def test_no_summary_is_cut_off() -> None:
    output = CliRunner().invoke(cli, ["--help"], env={"COLUMNS": "80"}).stdout
    assert "..." not in output.split("Everyday commands:")[1]


def test_every_command_has_a_page(subtests: pytest.Subtests) -> None:
    for way in EVERY:
        with subtests.test(way=str(way)):
            page = Path(__file__).parents[3] / "docs" / "commands" / f"{way.split()[0]}.md"
            assert f"lookfar {way}" in page.read_text(encoding="utf-8")


# --- what is mistyped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "intended"),
    [
        (("serch", "x"), "search"),
        (("memories", "list"), "memory"),
        (("memory", "lst"), "list"),
        (("config", "sohw"), "show"),
        (("snapshots", "rolback", "2"), "rollback"),
        (("search", "x", "--lnguage", "python"), "--language"),
        (("logs", "--folow"), "--follow"),
        (("config", "get", "search.topk"), "search.top_k"),
        (("config", "set", "chunk.maxtokens", "3"), "chunk.max_tokens"),
        (("config", "show", "serach"), "search"),
        (("search", "x", ".", "--set", "serch.top_k=3"), "search.top_k"),
    ],
)
def test_a_typo_suggests_the_nearest_name(
    given: tuple[str, ...], intended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == 2
    assert f"Did you mean {intended}?" in result.stderr


def test_a_missing_argument_shows_an_example(run: Run) -> None:
    output = run("search").stderr
    assert "Missing argument 'QUERY'" in output
    assert f"For example: {get_examples(cli.commands['search'])[0]}" in output


def test_an_unknown_subcommand_refers_to_the_help_of_its_group() -> None:
    result = CliRunner().invoke(cli, ["daemon", "xyzzy"])
    assert "See: lookfar daemon --help" in result.stderr


# --- how a command ends ---------------------------------------------------------------------------


def kinds() -> list[type[errors.LookfarError]]:
    found = [errors.LookfarError]
    for error in found:
        found += [kind for kind in error.__subclasses__() if kind.__module__ == errors.__name__]
    return found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_every_error_has_a_message_and_developer_details(
    kind: type[errors.LookfarError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise kind("It went wrong.", hint="Do this next.", developer="EIO at byte 7")

    monkeypatch.setattr("lookfar.config.load", fails)
    plain = CliRunner().invoke(cli, ["status"])
    assert plain.stderr == f"error {kind.code}: It went wrong.\nhint: Do this next.\n"
    assert plain.exit_code == kind.exit_code
    verbose = CliRunner().invoke(cli, ["status", "--verbose"])
    assert f"{kind.code}: EIO at byte 7" in verbose.stderr
    assert plain.stderr in verbose.stderr
    shape = json.loads(CliRunner().invoke(cli, ["status", "--json"]).stdout)["error"]
    assert shape["developer_message"] == f"{kind.code}: EIO at byte 7"
    assert (shape["message"], shape["hint"]) == ("It went wrong.", "Do this next.")


def test_search_can_be_limited_to_documentation(
    tmp_path: Path, ask: Callable[..., dict[str, Any]]
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "guide.md").write_text("# Keys\n\nRotate the signing key in March.\n")
    (folder / "keys.py").write_text("def rotate_signing_key():\n    return 'rotate signing key'\n")
    found = [hit["uri"] for hit in ask("search", "rotate signing key", folder)["hits"]]
    assert sorted(found) == ["guide.md", "keys.py"]
    docs_only = ask("search", "rotate signing key", folder, "--kind", "docs")["hits"]
    assert [hit["uri"] for hit in docs_only] == ["guide.md"]


def test_a_map_on_the_command_line_names_definitions(tmp_path: Path, run: Run) -> None:
    """Seen to fail when it mapped passages, which hold several definitions."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "keys.py").write_text("def rotate():\n    return 'new'\n\n\ndef keep():\n    pass\n")
    shown = run("search", "rotate", folder, "--map").stdout
    assert shown.startswith(
        "keys.py\n  1-2 rotate\n    1| def rotate():\n    2|     return 'new'\n"
    )
    assert run("search", "rotate", folder, "--paths").stdout.startswith("keys.py:1-2,5-6")


def test_reindex_reads_everything_again(
    handbook: Path, run: Run, ask: Callable[..., dict[str, object]]
) -> None:
    never = run("reindex", handbook)
    assert never.exit_code == 4
    assert "lookfar index" in never.stderr
    first = ask("index", handbook)
    assert ask("index", handbook)["unchanged"] == first["added"]
    again = ask("reindex", handbook)
    assert again["added"] == first["added"], "no file counts as unchanged"
    assert again["generation"] != first["generation"]

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


EVERY = dict(ways(cli))
LEAVES = {way: each for way, each in EVERY.items() if not isinstance(each, click.Group)}


@pytest.mark.parametrize("name", ASKED_FOR)
def test_every_command_is_there(name: str) -> None:
    assert name in cli.commands


def test_snapshots_are_listed_compared_returned_to_and_kept() -> None:
    group = cli.commands["snapshots"]
    assert isinstance(group, click.Group)
    assert {"list", "diff", "rollback", "pin"} <= set(group.commands)


def test_memories_are_kept_read_changed_and_put_away() -> None:
    group = cli.commands["memory"]
    assert isinstance(group, click.Group)
    assert {"list", "add", "read", "edit", "append", "delete", "restore"} <= set(group.commands)


@pytest.mark.parametrize("way", EVERY)
def test_every_help_page_has_an_example(way: str) -> None:
    shown = CliRunner().invoke(cli, [*way.split(), "--help"]).stdout
    examples = get_examples(EVERY[way])
    assert examples, way
    assert "Examples:" in shown
    for each in examples:
        assert each in shown, "click must not fill the lines anew"


@pytest.mark.parametrize("way", EVERY)
def test_every_example_is_what_the_commands_take(way: str) -> None:
    for example in get_examples(EVERY[way]):
        bare = re.sub(r'^eval "\$\((.*)\)"$', r"\1", example)
        first, *words = shlex.split(bare)
        assert first == "lookfar"
        words = words[: words.index(">")] if ">" in words else words
        assert " ".join(words).startswith(way), "of this very command"
        command: click.Command = cli
        context = click.Context(cli, info_name="lookfar")
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
            context = click.Context(command, parent=context, info_name=command.name)
        command.make_context(command.name, words, parent=context.parent)


@pytest.mark.parametrize("way", LEAVES)
def test_every_command_takes_json_and_verbose(way: str) -> None:
    options = {name for each in LEAVES[way].params for name in each.opts}
    assert "--verbose" in options
    assert ("--json" in options) == (way not in SPEAKS_OTHERWISE)


ONE_SPELLING = {
    "-k": "--top-k",
    "-f": "--follow",
    "--index-dir": "--index-dir",
}


@pytest.mark.parametrize("way", LEAVES)
def test_what_is_alike_is_named_alike(way: str) -> None:
    for each in LEAVES[way].params:
        if isinstance(each, click.Option):
            for name in each.opts:
                assert ONE_SPELLING.get(name, name) in each.opts
                assert re.fullmatch(r"-[a-zA-Z]|--[a-z0-9]+(-[a-z0-9]+)*", name), name
            assert each.help, f"{way} {each.opts}"
            assert each.help.endswith((".", ")")), f"{way} {each.opts}: {each.help}"
            assert "--query" not in each.opts or way == "why"


def test_no_summary_is_cut_off() -> None:
    shown = CliRunner().invoke(cli, ["--help"], env={"COLUMNS": "80"}).stdout
    assert "..." not in shown.split("Commands:")[1]


@pytest.mark.parametrize("way", EVERY)
def test_every_command_has_a_page(way: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "commands" / f"{way.split()[0]}.md"
    assert f"lookfar {way}" in page.read_text(encoding="utf-8")


# --- what is mistyped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
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
def test_what_is_mistyped_is_recognised(
    given: tuple[str, ...], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.stderr


def test_a_missing_argument_is_shown_by_an_example(run: Run) -> None:
    shown = run("search").stderr
    assert "Missing argument 'QUERY'" in shown
    assert f"For example: {get_examples(cli.commands['search'])[0]}" in shown


def test_an_unknown_command_of_a_group_is_helped_by_that_group() -> None:
    result = CliRunner().invoke(cli, ["daemon", "xyzzy"])
    assert "See: lookfar daemon --help" in result.stderr


# --- how a command ends ---------------------------------------------------------------------------


def kinds() -> list[type[errors.LookfarError]]:
    found = [errors.LookfarError]
    for each in found:
        found += [kind for kind in each.__subclasses__() if kind.__module__ == errors.__name__]
    return found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_every_error_has_words_for_people_and_for_developers(
    kind: type[errors.LookfarError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise kind("It went wrong.", hint="Do this next.", developer="EIO at byte 7")

    monkeypatch.setattr("lookfar.config.load", fails)
    plain = CliRunner().invoke(cli, ["status"])
    assert plain.stderr == f"error {kind.code}: It went wrong.\nhint: Do this next.\n"
    assert plain.exit_code == kind.exit_code
    told = CliRunner().invoke(cli, ["status", "--verbose"])
    assert f"{kind.code}: EIO at byte 7" in told.stderr
    assert plain.stderr in told.stderr
    shape = json.loads(CliRunner().invoke(cli, ["status", "--json"]).stdout)["error"]
    assert shape["developer_message"] == f"{kind.code}: EIO at byte 7"
    assert (shape["message"], shape["hint"]) == ("It went wrong.", "Do this next.")


def test_search_can_be_kept_to_documentation(
    tmp_path: Path, ask: Callable[..., dict[str, Any]]
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "guide.md").write_text("# Keys\n\nRotate the signing key in March.\n")
    (folder / "keys.py").write_text("def rotate_signing_key():\n    return 'rotate signing key'\n")
    found = [hit["uri"] for hit in ask("search", "rotate signing key", folder)["hits"]]
    assert sorted(found) == ["guide.md", "keys.py"]
    kept = ask("search", "rotate signing key", folder, "--kind", "docs")["hits"]
    assert [hit["uri"] for hit in kept] == ["guide.md"]


def test_reindex_reads_everything_again(
    handbook: Path, run: Run, ask: Callable[..., dict[str, object]]
) -> None:
    never = run("reindex", handbook)
    assert never.exit_code == 4
    assert "lookfar index" in never.stderr
    first = ask("index", handbook)
    assert ask("index", handbook)["unchanged"] == first["added"]
    again = ask("reindex", handbook)
    assert again["added"] == first["added"], "nothing is taken for unchanged"
    assert again["generation"] != first["generation"]

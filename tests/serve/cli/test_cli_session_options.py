"""Both start-up paths of ``lookfar mcp`` read the same options in the same way."""

from __future__ import annotations

import click
import pytest

from lookfar.serve.cli.main import cli
from lookfar.serve.cli.serve import mcp
from lookfar.serve.daemon.session_options import (
    INDEX_DIR,
    NO_DAEMON,
    OFFER_OPTIONS,
    SessionOption,
    build_session_options,
    parse_plain_session,
)
from python_programs import run_python

EVERY = (NO_DAEMON, *OFFER_OPTIONS, INDEX_DIR)


@pytest.mark.parametrize("option", EVERY, ids=lambda option: option.flag)
def test_both_paths_agree(option: SessionOption) -> None:
    value = [option.choices[-1] if option.choices else "docs"] if option.takes_value else []
    arguments = ["first", option.flag, *value, "second"]
    session = parse_plain_session(["mcp", *arguments])
    assert session is not None
    paths, options = session
    # Under the group: click remembers the help option of a command, as its first context names it.
    group = click.Context(cli, info_name="lookfar", **cli.context_settings)
    full = mcp.make_context("mcp", list(arguments), parent=group).params
    assert paths == full.pop("path")
    assert build_session_options(options) == build_session_options(full)
    assert bool(options.get("no_daemon")) == full["no_daemon"]


def test_a_repeated_option_collects_its_values() -> None:
    session = parse_plain_session(["mcp", "--toolset", "msrl", "--toolset", "default"])
    assert session == ((), {"toolset": ["msrl", "default"]})


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "query"],
        ["mcp", "--help"],
        ["mcp", "--set", "search.top_k=3"],
        ["mcp", "--toolset"],
        ["mcp", "--toolset", "--write"],
        ["mcp", "--results", "colourful"],
        ["mcp", "--index-dir="],
        ["mcp", ""],
    ],
)
def test_anything_else_goes_to_the_full_command_line(arguments: list[str]) -> None:
    assert parse_plain_session(arguments) is None


def test_the_short_path_does_not_import_click() -> None:
    program = "import lookfar.serve.entry, lookfar.serve.daemon.client_session, sys\n"
    program += "print(*sys.modules)"
    loaded = run_python(program).stdout.split()
    assert not {"click", "rich", "anyio", "numpy", "lookfar.serve.cli"} & set(loaded)


@pytest.mark.parametrize("option", [one for one in EVERY if one.takes_value], ids=lambda o: o.flag)
def test_an_option_without_its_value_is_refused(option: SessionOption) -> None:
    assert parse_plain_session(["mcp", option.flag]) is None
    with pytest.raises(click.UsageError):
        mcp.make_context("mcp", [option.flag])

"""``lookfar setup``: the command. :mod:`lookfar.serve.cli.setup_flow` does the work."""

from __future__ import annotations

from typing import Literal

import click

from lookfar.errors import ConfirmationNeeded, InvalidArgument
from lookfar.serve.cli.options import examples, folder_argument, output_options


@examples(
    "lookfar setup",
    "lookfar setup --client cursor --dry-run",
    "lookfar setup --all --yes",
    "lookfar setup --undo",
)
@click.command()
@folder_argument(default=None)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Only this client, such as cursor, even if it is not detected. Repeatable.",
)
@click.option(
    "--all", "all_at_once", is_flag=True, help="Ask once for all detected clients, not for each."
)
@click.option(
    "--scope",
    type=click.Choice(("user", "project")),
    help="Set up all projects (user, the default), or only this project.",
)
@click.option("--yes", is_flag=True, help="Make the changes shown without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--undo", is_flag=True, help="Undo what setup changed.")
@click.option(
    "--snippet/--no-snippet",
    default=None,
    help="Tell agents in AGENTS.md or CLAUDE.md to search with Lookfar, not grep (asks).",
)
@click.option(
    "--skill", is_flag=True, help="Write these instructions as a skill (SKILL.md) instead."
)
@click.option(
    "--helpers/--no-helpers",
    default=None,
    help="Claude Code: add an explorer subagent, and a hint after greps without a match (asks).",
)
@click.option(
    "--packages/--no-packages",
    default=None,
    help="Also index the packages that the project uses (asks; off with --yes).",
)
@click.option("--no-index", is_flag=True, help="Only edit files: no indexing, no test search.")
@output_options
def setup(
    path: str | None,
    clients: tuple[str, ...],
    all_at_once: bool,
    scope: Literal["user", "project"] | None,
    yes: bool,
    dry_run: bool,
    undo: bool,
    snippet: bool | None,
    skill: bool,
    helpers: bool | None,
    packages: bool | None,
    no_index: bool,
    as_json: bool,
) -> None:
    """Add Lookfar to the agents on this machine.

    PATH is the project to index and search (default: the project that contains the current
    folder). Detects the installed clients, shows the changes to their settings, and asks.
    """
    from lookfar.serve.cli.setup_flow import SetupFlow

    if undo and (snippet is not None or skill or helpers is not None):
        raise InvalidArgument(
            "--undo removes all that setup added.", hint="Omit --snippet, --skill and --helpers."
        )
    if skill and snippet is False:
        raise InvalidArgument("--skill contradicts --no-snippet.", hint="Omit one of them.")
    if as_json and not (yes or dry_run):
        raise ConfirmationNeeded(
            "--json cannot ask for confirmation.", hint="Add --yes, or --dry-run to look first."
        )
    if all_at_once and clients:
        raise InvalidArgument("--all contradicts --client.", hint="Omit one of them.")
    flow = SetupFlow(
        path, clients, scope, yes=yes, dry_run=dry_run, as_json=as_json, all_at_once=all_at_once
    )
    if undo:
        code = flow.undo()
    else:
        code = flow.run(
            snippet=snippet, skill=skill, index=not no_index, packages=packages, helpers=helpers
        )
    click.get_current_context().exit(code)

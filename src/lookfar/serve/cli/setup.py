"""``lookfar setup``: the command.

Takes: a command line. Gives: what :mod:`lookfar.serve.cli.setup_flow` does with it, and its exit
code. Refuses: options that contradict each other; and to import more than a help page needs.
"""

from __future__ import annotations

from typing import Any, Literal

import click

from lookfar.errors import ConfirmationNeeded, InvalidArgument
from lookfar.serve.cli.options import examples, output_options


@examples("lookfar setup", "lookfar setup --client cursor --dry-run", "lookfar setup --undo")
@click.command()
@click.argument("path", required=False)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Only this client, such as cursor, found or not. Repeatable.",
)
@click.option(
    "--scope",
    type=click.Choice(("user", "project")),
    help="For all projects (user, the default), or in a file of this project.",
)
@click.option("--yes", is_flag=True, help="Change what is shown without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--undo", is_flag=True, help="Take back what setup changed.")
@click.option(
    "--snippet/--no-snippet",
    default=None,
    help="Tell agents in AGENTS.md or CLAUDE.md to search with Lookfar, not grep (asked).",
)
@click.option("--skill", is_flag=True, help="Tell them in a skill (SKILL.md) instead.")
@click.option("--no-index", is_flag=True, help="Only edit files: no index, no question at the end.")
@output_options
def setup(
    path: str | None,
    clients: tuple[str, ...],
    scope: Literal["user", "project"] | None,
    yes: bool,
    dry_run: bool,
    undo: bool,
    snippet: bool | None,
    skill: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make Lookfar known to the agents on this machine.

    PATH is the project to index and to search (default: the project around this folder). Finds
    the clients that are installed, shows what it would change in their settings, and asks.
    """
    from lookfar.serve.cli.setup_flow import Flow

    if undo and (snippet is not None or skill):
        raise InvalidArgument(
            "--undo takes back snippets, too.", hint="Leave out --snippet and --skill."
        )
    if skill and snippet is False:
        raise InvalidArgument("--skill contradicts --no-snippet.", hint="Leave out one of them.")
    if as_json and not (yes or dry_run):
        raise ConfirmationNeeded(
            "With --json nobody is asked.", hint="Add --yes, or --dry-run to look first."
        )
    flow = Flow(path, clients, scope, yes=yes, dry_run=dry_run, as_json=as_json)
    if undo:
        code = flow.undo()
    else:
        code = flow.run(snippet=snippet, skill=skill, index=not options["no_index"])
    click.get_current_context().exit(code)

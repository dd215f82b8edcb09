"""``lookfar doctor``: what is wrong on this machine, and what to do about it.

Takes: a command line. Gives: a line for each thing that was looked at, with its fix; with
``--json`` the same for scripts. Refuses: to mend anything unless ``--fix`` asks, and then only what
cannot make anything worse and needs no other user's rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.exits import FELL_SHORT, write, write_json
from lookfar.serve.cli.options import common, examples, settings_from

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.serve.cli.doctor.checks import Finding

_SHOWN = {
    "ok": ("ok     ", "green"),
    "fixed": ("fixed  ", "cyan"),
    "warning": ("warning", "yellow"),
    "error": ("error  ", "bold red"),
}


@examples("lookfar doctor", "lookfar doctor docs --deep", "lookfar doctor --fix --json")
@click.command()
@click.argument("path", default=".")
@click.option("--deep", is_flag=True, help="Check every row and file of the index, too.")
@click.option("--fix", is_flag=True, help="Mend what can safely be mended.")
@common
def doctor(path: str, deep: bool, fix: bool, as_json: bool, **options: Any) -> int:
    """Look for what could be wrong and say how to mend it.

    PATH is a folder to look at besides the machine (default: this one). The exit code is 9 where
    something is wrong; warnings alone are no reason for another than 0.
    """
    from lookfar.serve.cli.doctor.checks import Checks

    checks = Checks(path, options["index_dir"], settings_from(options["settings"]))
    found: list[Finding] = []
    for each in checks.run(deep=deep, fix=fix):
        found.append(each)
        if not as_json:
            _show(each)
    bad = sum(each.state == "error" for each in found)
    if as_json:
        write_json(_json_shape(found))
    else:
        _sum_up(found, fix)
    return FELL_SHORT if bad else 0


def _json_shape(findings: list[Finding]) -> dict[str, Any]:
    """Return what ``lookfar doctor --json`` prints."""
    return {
        "ok": not any(finding.state == "error" for finding in findings),
        "counts": {
            state: sum(finding.state == state for finding in findings)
            for state in ("ok", "fixed", "warning", "error")
        },
        "findings": [
            {
                "check": finding.check,
                "state": finding.state,
                "message": finding.message,
                "fix": finding.fix,
                "fixable": finding.fixable,
            }
            for finding in findings
        ],
    }


def _show(each: Finding) -> None:
    from lookfar.serve.show import render

    word, style = _SHOWN[each.state]
    lines: list[Text] = [
        render.styled((word, style), (f"  {each.check:<12}", "bold"), (each.message, ""))
    ]
    if each.fix:
        lines.append(render.styled((f"{'':23}{each.fix}", "dim")))
    write(render.printed(lines))


def _sum_up(found: list[Finding], fix: bool) -> None:
    errors = sum(each.state == "error" for each in found)
    warnings = sum(each.state == "warning" for each in found)
    if not errors and not warnings:
        write("Everything is as it should be.")
        return
    counts = [
        how_many(number, noun)
        for number, noun in ((errors, "error"), (warnings, "warning"))
        if number
    ]
    mendable = sum(each.fixable for each in found)
    which = "It" if errors + warnings == 1 else f"{mendable} of them"
    more = f" {which} can be mended with --fix." if mendable and not fix else ""
    write(f"{' and '.join(counts)}.{more}")

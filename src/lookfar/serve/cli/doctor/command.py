"""``lookfar doctor``: report what is wrong on this machine, and fix what can be fixed safely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from lookfar.errors import how_many
from lookfar.serve.cli.doctor.findings import Finding, Subject
from lookfar.serve.cli.exits import CHECK_FAILED, write, write_json
from lookfar.serve.cli.options import examples, folder_argument, library_options
from lookfar.serve.daemon.session_options import parse_settings

_STYLES = {
    "ok": ("ok     ", "green"),
    "fixed": ("fixed  ", "cyan"),
    "warning": ("warning", "yellow"),
    "error": ("error  ", "bold red"),
}


@examples("lookfar doctor", "lookfar doctor docs --deep", "lookfar doctor --fix --json")
@click.command()
@folder_argument()
@click.option("--deep", is_flag=True, help="Also check every row and file of the index.")
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely.")
@library_options
def doctor(path: str, deep: bool, fix: bool, as_json: bool, **options: Any) -> int:
    """Check the installation and an index for problems.

    PATH is the folder whose index to check (default: the current one). The exit code is 9 if
    there are errors; warnings do not change it.
    """
    from lookfar.serve.cli.doctor.run_checks import run_checks

    subject = Subject(path, options["index_dir"], parse_settings(options["settings"]))
    findings: list[Finding] = []
    for finding in run_checks(subject, deep=deep, fix=fix):
        findings.append(finding)
        if not as_json:
            _print_finding(finding)
    if as_json:
        write_json(_shape(findings))
    else:
        _print_summary(findings, fix)
    return CHECK_FAILED if _count(findings, "error") else 0


def _count(findings: Sequence[Finding], state: str) -> int:
    return sum(finding.state == state for finding in findings)


def _shape(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "ok": not _count(findings, "error"),
        "counts": {state: _count(findings, state) for state in _STYLES},
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


def _print_finding(finding: Finding) -> None:
    from lookfar.serve.show import render

    word, style = _STYLES[finding.state]
    lines = [
        render.styled((word, style), (f"  {finding.check:<12}", "bold"), (finding.message, ""))
    ]
    if finding.fix:
        lines.append(render.styled((f"{'':23}{finding.fix}", "dim")))
    write(render.printed(lines))


def _print_summary(findings: Sequence[Finding], fix: bool) -> None:
    errors, warnings = _count(findings, "error"), _count(findings, "warning")
    if not errors and not warnings:
        write("No problems found.")
        return
    counts = [
        how_many(number, noun)
        for number, noun in ((errors, "error"), (warnings, "warning"))
        if number
    ]
    fixable = sum(finding.fixable for finding in findings)
    which = "It" if errors + warnings == 1 else f"{fixable} of them"
    more = f" {which} can be fixed with --fix." if fixable and not fix else ""
    write(f"{' and '.join(counts)}.{more}")

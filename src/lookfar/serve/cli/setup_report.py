"""What ``lookfar setup`` prints: diffs, one line per file, and one JSON object at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import click

from lookfar.errors import LookfarError, how_many
from lookfar.serve.cli.exits import write
from lookfar.serve.setup import edits
from lookfar.serve.setup.edits import ClientFile, Edit
from lookfar.serve.setup.machine import Machine
from lookfar.serve.setup.trial import Trial
from lookfar.serve.show.printable import safe_name, safe_text

_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_MESSAGES: Final = {
    "added": "added to {}.",
    "updated": "updated in {}.",
    "unchanged": "already set up in {}.",
    "kept": "left as it is in {}.",
    "declined": "not changed: {}.",
    "planned": "would be changed: {}.",
    "restored": "restored {}.",
    "removed": "removed Lookfar from {}.",
    "forgotten": "found nothing to remove in {}.",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One file, and what was done with it."""

    target: ClientFile
    state: str
    edit: Edit | None = None
    error: LookfarError | None = None
    note: str = ""

    @property
    def works(self) -> bool:
        return self.state in ("added", "updated", "unchanged")

    def as_dict(self) -> dict[str, Any]:
        path = str(self.target.path)
        return {
            "client": self.target.client,
            "title": self.target.title,
            "scope": self.target.scope,
            "path": path,
            "state": self.state,
            "diff": edits.make_diff(self.edit, path) if self.edit else [],
            "note": self.note,
            "error": self.error.as_dict() if self.error else None,
        }


class SetupReport:
    """Collects the steps and prints them, unless the result is JSON."""

    def __init__(self, machine: Machine, *, as_json: bool) -> None:
        self._machine = machine
        self._as_json = as_json
        self.steps: list[Step] = []

    def say(self, text: str) -> None:
        if not self._as_json:
            write(safe_text(text))

    def add(self, step: Step) -> None:
        self.steps.append(step)
        path = self._machine.shorten(step.target.path)
        note = f" {step.note}" if step.note else ""
        message = _MESSAGES[step.state]
        if step.state == "restored" and step.edit is not None and step.edit.after is None:
            message = "deleted {}, which Lookfar had created."
        self.say(f"{step.target.title}: {message.format(path)}{note}")

    def add_failure(self, target: ClientFile, error: LookfarError) -> None:
        self.steps.append(Step(target, "failed", error=error))
        self._complain(f"error {error.code}: {error.message}", error.hint)

    def add_trial(self, title: str, trial: Trial) -> None:
        if not trial.ok:
            message = f"error: The test search with the settings of {title} failed."
            self._complain(f"{message} {trial.problem}", trial.hint)
            return
        best = f", the best in {trial.first}" if trial.first else ""
        passages = how_many(trial.passages, "passage")
        self.say(f"Test search as {title}: {passages}{best} ({trial.seconds:.1f} s).")

    def show_diff(self, edit: Edit) -> None:
        if self._as_json:
            return
        from lookfar.serve.show.render import printed, styled

        path = self._machine.shorten(edit.target.path)
        lines = [styled((edit.target.title, "bold"), (f"  {path}", ""))]
        lines += [
            styled((line, _STYLES.get(line[:1], "") if number > 1 else "bold"))
            for number, line in enumerate(edits.make_diff(edit, path))
        ]
        write(printed(lines))

    def _complain(self, message: str, hint: str) -> None:
        if not self._as_json:
            click.echo(safe_name(message), err=True)
            click.echo(f"hint: {safe_name(hint)}", err=True)

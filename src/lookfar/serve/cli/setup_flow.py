"""What ``lookfar setup`` does, step by step: find, show, ask, write, index, try.

Takes: what the command line asked for. Gives: clients that start Lookfar, a report for people
or one object for scripts, and an exit code. Refuses: to change anything that nobody agreed to;
and to stop at one client's broken file, as the others can still be served.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lookfar.errors import ConfirmationNeeded, InvalidArgument, LookfarError, NotFound, RootNotFound
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import open_library, quote
from lookfar.serve.daemon.project import project_root
from lookfar.serve.setup import edits
from lookfar.serve.setup.backups import Kept
from lookfar.serve.setup.clients import BY_NAME, CLIENTS, WORKSPACE, Client, Scope
from lookfar.serve.setup.edits import Edit, Target
from lookfar.serve.setup.machine import Machine, launcher
from lookfar.serve.show import progress
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from lookfar.serve.setup.trial import Trial

SNIPPET: Final = "snippet"
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
_WORDS: Final = {
    "added": "added to {}.",
    "updated": "brought up to date in {}.",
    "unchanged": "set up already in {}.",
    "kept": "left as it is in {}.",
    "declined": "not changed: {}.",
    "planned": "would be changed: {}.",
    "restored": "{} is as it was before.",
    "removed": "Lookfar is out of {} again.",
    "forgotten": "nothing of ours was left in {}.",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One file, and what became of it."""

    target: Target
    state: str
    edit: Edit | None = None
    error: LookfarError | None = None
    note: str = ""

    @property
    def works(self) -> bool:
        return self.state in ("added", "updated", "unchanged")


class Flow:
    """One run of the command."""

    def __init__(
        self,
        path: str | None,
        clients: Sequence[str],
        scope: Scope | None,
        *,
        yes: bool,
        dry_run: bool,
        as_json: bool,
    ) -> None:
        self._machine = Machine.here()
        self._project = _project(path)
        self._named = [_client(name) for name in clients]
        self._scope = scope
        self._yes, self._dry_run, self._as_json = yes, dry_run, as_json
        self._launch = launcher(self._machine)
        self._kept = Kept()
        self._steps: list[Step] = []

    # --- setting up ---------------------------------------------------------------------------

    def run(self, *, snippet: bool | None, skill: bool, index: bool) -> int:
        """Set up, and give the exit code."""
        chosen = self._chosen()
        self._say(f"Lookfar is started as: {' '.join(map(quote, (*self._launch, 'mcp')))}")
        seen: set[Path] = set()
        for client in chosen:
            self._set_up(client, seen)
        working = [step for step in self._steps if step.works]
        served = [BY_NAME[step.target.client] for step in working]
        if self._dry_run:
            served = [BY_NAME[step.target.client] for step in self._steps if step.edit is not None]
        self._tell_agents(served, snippet, skill, seen)
        report: dict[str, Any] | None = None
        trials: list[Trial] = []
        if index and working and not self._dry_run:
            report, trials = self._index_and_try(working)
        return self._end({"index": report, "trials": [asdict(each) for each in trials]})

    def _chosen(self) -> list[Client]:
        if self._named:
            return self._named
        found = [each for each in CLIENTS if each.is_here(self._machine)]
        if self._scope == "project":
            found = [each for each in found if each.project]
        if not found:
            raise NotFound(
                "No client was found on this machine that Lookfar knows.",
                hint=f"Name one with --client: {', '.join(BY_NAME)}.",
                details={"clients": list(BY_NAME)},
            )
        return found

    def _set_up(self, client: Client, seen: set[Path]) -> None:
        scope: Scope = self._scope or ("user" if client.user else "project")
        path = client.place(self._machine, scope, self._project)
        if path is None:
            why = "has no file of its own in a project" if self._project else "needs a project"
            self._fail(
                Target(client.name, client.title, scope, Path(), client.format),
                InvalidArgument(
                    f"{client.title} {why}.", hint="Leave out --scope project, or name a folder."
                ),
            )
            return
        target = Target(client.name, client.title, scope, path, client.format)
        if target.real in seen:
            return
        seen.add(target.real)
        try:
            if client.folder == "absolute" and self._project is None:
                raise NotFound(
                    f"{client.title} starts servers outside of any project.",
                    hint="Name the folder that it should search: lookfar setup PATH",
                )
            edit = self._planned(client, target)
        except LookfarError as error:
            self._fail(target, error)
            return
        self._carry_out(edit)

    def _planned(self, client: Client, target: Target) -> Edit:
        before = edits.read(target.real)
        text = edits.text_of(target, before)
        target = replace(target, keys=client.path_in(edits.data_of(target, text)))
        existing = edits.entry_in(target, text)
        if client.is_remote(existing):
            return Edit(target, before, before, note="It connects to a server that runs elsewhere.")
        entry = client.entry(existing, self._launch, self._project)
        after = edits.with_entry(target, text, entry)
        unchanged = before is not None and after == text
        return Edit(target, before, before if unchanged else edits.bytes_of(before, after))

    def _carry_out(self, edit: Edit, *, agreed: bool = False, question: str = "") -> None:
        """Show an edit, ask, write; and remember how it went."""
        target = edit.target
        if not edit.changes:
            self._done(Step(target, "kept" if edit.note else "unchanged", edit, note=edit.note))
            return
        try:
            edits.refuse_unwritable(target.real)
            self._show(edit)
            if self._dry_run:
                self._done(Step(target, "planned", edit))
                return
            ask = question or f"Change the settings of {target.title}?"
            if not agreed and not self._agrees(ask, default=not question):
                self._done(Step(target, "declined", edit))
                return
            there = edits.has_entry(target, edits.text_of(target, edit.before))
            self._kept.apply(edit)
        except LookfarError as error:
            if isinstance(error, ConfirmationNeeded):
                raise
            self._fail(target, error)
            return
        client = BY_NAME.get(target.client)
        self._done(
            Step(target, "updated" if there else "added", edit, note=client.then if client else "")
        )

    # --- what agents are told -----------------------------------------------------------------

    def _tell_agents(
        self, served: Sequence[Client], snippet: bool | None, skill: bool, seen: set[Path]
    ) -> None:
        """Offer the paragraph that makes agents search with us, where nobody said no."""
        wanted = snippet or (skill and (self._yes or self._dry_run))
        unasked = not wanted and (snippet is False or self._yes or self._dry_run)
        if unasked or self._project is None or not (served or snippet):
            return
        for name in self._guides(served, skill):
            path = self._project / name
            target = Target(SNIPPET, name, "project", path, "skill" if skill else "markdown")
            if target.real in seen:
                continue
            seen.add(target.real)
            try:
                before = edits.read(target.real)
                text = edits.text_of(target, before)
                after = edits.with_entry(target, text, {})
            except LookfarError as error:
                self._fail(target, error)
                continue
            edit = Edit(target, before, edits.bytes_of(before, after))
            question = f"Tell agents in {name} to search with Lookfar instead of grep?"
            self._carry_out(edit, agreed=bool(wanted), question=question)

    def _guides(self, served: Sequence[Client], skill: bool) -> list[str]:
        """The files that these clients read, each once."""
        assert self._project is not None, "only a project has such files"
        if skill:
            places = [f"{each.skills}/lookfar/SKILL.md" for each in served if each.guide]
            return list(dict.fromkeys(places or [".agents/skills/lookfar/SKILL.md"]))
        names = [each.guide for each in served if each.guide] or ["AGENTS.md"]
        through = ["AGENTS.md" if _takes_over(self._project / name) else name for name in names]
        return list(dict.fromkeys(through))

    # --- the project --------------------------------------------------------------------------

    def _index_and_try(self, working: Sequence[Step]) -> tuple[dict[str, Any] | None, list[Trial]]:
        if self._project is None:
            self._say("There is no project here to index; agents index theirs when they search.")
            return None, []
        from lookfar.serve.show import json_shapes, render

        try:
            options = {"index_dir": None, "settings": ()}
            with open_library(str(self._project), options) as library:
                folder = library.folder(library.collections[0])
                with progress.shown(self._project.name, quiet=self._as_json) as tell:
                    done = folder.index(on_progress=tell)
        except LookfarError as error:
            target = Target("index", str(self._project), "project", self._project, "markdown")
            self._fail(target, error)
            return None, []
        if not self._as_json:
            write(render.report(done, str(folder.index_dir)))
        return json_shapes.report(done, str(folder.index_dir)), self._trials(working)

    def _trials(self, working: Sequence[Step]) -> list[Trial]:
        """Ask through each command that was written, once."""
        from lookfar.serve.setup.trial import try_out

        assert self._project is not None, "there is a project to ask about"
        query = f"What is {self._project.name} about?"
        tried: dict[tuple[Any, ...], Trial] = {}
        for step in working:
            client = BY_NAME[step.target.client]
            text = edits.text_of(step.target, edits.read(step.target.real))
            target = replace(step.target, keys=client.path_in(edits.data_of(step.target, text)))
            entry = edits.entry_in(target, text)
            words = [each.replace(WORKSPACE, str(self._project)) for each in client.words(entry)]
            folder = self._machine.home if client.folder else self._project
            variables = client.variables(entry)
            key = (*words, str(folder), *sorted(variables.items()))
            if key in tried:
                continue
            trial = try_out(words, {**self._machine.env, **variables}, folder, query)
            tried[key] = trial
            self._tell_trial(step.target.title, trial)
        return list(tried.values())

    def _tell_trial(self, title: str, trial: Trial) -> None:
        if not trial.ok:
            self._complain(f"error: The search through the settings of {title} failed."
                           f" {trial.problem}", trial.hint)  # fmt: skip
            return
        found = f"{trial.passages} passages" if trial.passages != 1 else "1 passage"
        best = f", the best in {trial.first}" if trial.first else ""
        self._say(f"Asked as {title} would: {found}{best} ({trial.seconds:.1f} s).")

    # --- taking back --------------------------------------------------------------------------

    def undo(self) -> int:
        """Take back, and give the exit code."""
        names = {each.name for each in self._named}
        elsewhere = 0
        for record in self._kept.records():
            target = record.target
            if (names and target.client not in names) or self._scope not in (None, target.scope):
                continue
            if target.scope == "project" and not self._is_inside(target.path):
                elsewhere += 1
                continue
            try:
                undo = self._kept.undoing(record)
                if undo.edit.changes:
                    self._show(replace(undo.edit, target=target))
                    if self._dry_run:
                        self._done(Step(target, "planned", undo.edit))
                        continue
                    if not self._agrees(f"Take this back from {target.title}?", default=True):
                        self._done(Step(target, "declined", undo.edit))
                        continue
                if not self._dry_run:
                    self._kept.undo(undo)
            except LookfarError as error:
                if isinstance(error, ConfirmationNeeded):
                    raise
                self._fail(target, error)
                continue
            state = "restored" if undo.exact else "removed"
            note = "" if undo.exact else "It was changed since, so only our part was taken out."
            if undo.kept:
                note += f" The original is in {undo.kept}"
            self._done(
                Step(target, state if undo.edit.changes else "forgotten", undo.edit, note=note)
            )
        if not self._steps:
            self._say("There is nothing to take back.")
        if elsewhere:
            self._say(f"In other projects: {elsewhere}. Run lookfar setup --undo there.")
        return self._end({})

    def _is_inside(self, path: Path) -> bool:
        return self._project is not None and path.is_relative_to(self._project)

    # --- talking ------------------------------------------------------------------------------

    def _agrees(self, question: str, *, default: bool) -> bool:
        if self._yes:
            return True
        try:
            return click.confirm(safe_name(question), default=default, err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            if not default:
                return False  # What has to be asked for is not meant by silence.
            raise ConfirmationNeeded(
                "Nobody is there to be asked.", hint="Add --yes, or --dry-run to look first."
            ) from None

    def _say(self, text: str) -> None:
        if not self._as_json:
            write(safe_text(text))

    def _complain(self, message: str, hint: str) -> None:
        if not self._as_json:
            click.echo(safe_name(message), err=True)
            click.echo(f"hint: {safe_name(hint)}", err=True)

    def _show(self, edit: Edit) -> None:
        if self._as_json:
            return
        from lookfar.serve.show.render import printed, styled

        shown = self._machine.shown(edit.target.path)
        lines = [styled((edit.target.title, "bold"), (f"  {shown}", ""))]
        lines += [
            styled((line, _STYLES.get(line[:1], "") if at > 1 else "bold"))
            for at, line in enumerate(edits.difference(edit, shown))
        ]
        write(printed(lines))

    def _done(self, step: Step) -> None:
        self._steps.append(step)
        shown = self._machine.shown(step.target.path)
        note = f" {step.note}" if step.note else ""
        self._say(f"{step.target.title}: {_WORDS[step.state].format(shown)}{note}")

    def _fail(self, target: Target, error: LookfarError) -> None:
        self._steps.append(Step(target, "failed", error=error))
        self._complain(f"error {error.code}: {error.message}", error.hint)

    def _end(self, more: dict[str, Any]) -> int:
        if self._as_json:
            shape = {
                "project": str(self._project) if self._project else None,
                "command": [*self._launch, "mcp"],
                "dry_run": self._dry_run,
                "changes": [self._shape(step) for step in self._steps],
            }
            write_json(shape | more)
        failed = [step.error.exit_code for step in self._steps if step.error is not None]
        tried = [1 for trial in more.get("trials", ()) if not trial["ok"]]
        return next(iter((*failed, *tried)), 0)

    def _shape(self, step: Step) -> dict[str, Any]:
        path = str(step.target.path)
        return {
            "client": step.target.client,
            "title": step.target.title,
            "scope": step.target.scope,
            "path": path,
            "state": step.state,
            "diff": edits.difference(step.edit, path) if step.edit else [],
            "note": step.note,
            "error": step.error.as_dict() if step.error else None,
        }


def _takes_over(path: Path) -> bool:
    """Whether a file includes AGENTS.md, so that what stands there is told through it."""
    try:
        return b"@AGENTS.md" in (edits.read(path) or b"")
    except LookfarError:
        return False  # Whoever writes to it says best what is wrong with it.


def _project(path: str | None) -> Path | None:
    if path is None:
        try:
            return project_root(os.getcwd())
        except FileNotFoundError:
            return None
    if not os.path.isdir(path):
        raise RootNotFound(
            f"The folder {path!r} does not exist.", hint="Name the folder of a project."
        )
    return Path(os.path.realpath(path))


def _client(name: str) -> Client:
    if name in BY_NAME:
        return BY_NAME[name]
    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    raise InvalidArgument(
        f"There is no client {name!r}.",
        hint=f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(BY_NAME)}.",
        details={"candidates": near},
    )

"""What ``lookfar setup`` does: find clients, show changes, ask, write, index, test."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from lookfar.errors import (
    ConfirmationNeeded,
    InvalidArgument,
    LookfarError,
    NotFound,
    RootNotFound,
    how_many,
)
from lookfar.serve.cli.exits import write, write_json
from lookfar.serve.cli.options import open_library, quote
from lookfar.serve.cli.setup_report import SetupReport, Step
from lookfar.serve.daemon.project import project_root
from lookfar.serve.setup import edits
from lookfar.serve.setup.backups import Backups, Record
from lookfar.serve.setup.clients import BY_NAME, CLIENTS, ENTRY, WORKSPACE, Client, Scope
from lookfar.serve.setup.edits import ClientFile, Edit
from lookfar.serve.setup.machine import Machine, find_launcher
from lookfar.serve.setup.trial import Trial
from lookfar.serve.show import progress
from lookfar.serve.show.printable import safe_name

SNIPPET: Final = "snippet"
_HOOK_KEYS: Final = ("hooks", "PostToolUse")
_HINT_SECONDS: Final = 5


class SetupFlow:
    def __init__(
        self,
        path: str | None,
        clients: Sequence[str],
        scope: Scope | None,
        *,
        yes: bool,
        dry_run: bool,
        as_json: bool,
        all_at_once: bool = False,
    ) -> None:
        self._machine = Machine.here()
        self._project = _find_project(path)
        self._requested = [_find_client(name) for name in clients]
        self._scope = scope
        self._yes, self._dry_run, self._as_json = yes, dry_run, as_json
        self._all_at_once = all_at_once
        self._launcher = find_launcher(self._machine)
        self._backups = Backups()
        self._report = SetupReport(self._machine, as_json=as_json)

    def run(
        self,
        *,
        snippet: bool | None,
        skill: bool,
        index: bool,
        packages: bool | None = None,
        helpers: bool | None = None,
    ) -> int:
        """Set up the clients, and return the exit code."""
        clients = self._choose_clients()
        command = " ".join(map(quote, (*self._launcher, "mcp")))
        self._report.say(f"Command that starts Lookfar: {command}")
        seen: set[Path] = set()
        if self._all_at_once and not (self._yes or self._dry_run):
            self._set_up_at_once(clients, seen)
        else:
            for client in clients:
                if (edit := self._plan_client(client, seen)) is not None:
                    self._carry_out(edit)
        steps = list(self._report.steps)
        working = [step for step in steps if step.works]
        if self._dry_run:
            served = [BY_NAME[step.target.client] for step in steps if step.edit is not None]
        else:
            served = [BY_NAME[step.target.client] for step in working]
        self._offer_snippets(served, snippet, skill, seen)
        if BY_NAME["claude-code"] in served:
            self._offer_helpers(helpers)
        report: dict[str, Any] | None = None
        trials: list[Trial] = []
        if index and working and not self._dry_run:
            report, trials = self._index_and_try(working)
            self._offer_packages(packages)
        return self._finish({"index": report, "trials": [asdict(trial) for trial in trials]})

    def _choose_clients(self) -> list[Client]:
        if self._requested:
            return self._requested
        clients = [client for client in CLIENTS if client.is_installed(self._machine)]
        if self._scope == "project":
            clients = [client for client in clients if client.project]
        if not clients:
            entry = self._make_generic_entry()
            self._report.say("Most clients accept this entry in their settings for MCP servers:")
            self._report.say(json.dumps(entry, indent=2, ensure_ascii=False))
            raise NotFound(
                "No supported client was found on this machine.",
                hint="Add the entry to the settings of your client, or name one with --client:"
                f" {', '.join(BY_NAME)}.",
                details={"clients": list(BY_NAME), "entry": entry},
            )
        return clients

    def _make_generic_entry(self) -> dict[str, Any]:
        """Return the entry in the form that most clients accept."""
        words = [*self._launcher, "mcp", *([str(self._project)] if self._project else [])]
        return {"mcpServers": {ENTRY: {"command": words[0], "args": words[1:]}}}

    def _set_up_at_once(self, clients: Sequence[Client], seen: set[Path]) -> None:
        """Show all changes, ask once, and write them."""
        planned = [self._plan_client(client, seen) for client in clients]
        plans = [edit for edit in planned if edit is not None]
        changing = [edit for edit in plans if edit.changes]
        for edit in changing:
            self._report.show_diff(edit)
        titles = ", ".join(edit.target.title for edit in changing)
        agreed = not changing or self._confirm(f"Change the settings of {titles}?", default=True)
        for edit in plans:
            if agreed or not edit.changes:
                self._carry_out(edit, agreed=True, shown=True)
            else:
                self._report.add(Step(edit.target, "declined", edit))

    def _plan_client(self, client: Client, seen: set[Path]) -> Edit | None:
        """Plan the change for a client; None if its file is planned already, or after an error."""
        scope: Scope = self._scope or ("user" if client.user else "project")
        path = client.config_path(self._machine, scope, self._project)
        if path is None:
            why = "has no settings file in a project" if self._project else "needs a project"
            self._report.add_failure(
                ClientFile(client.name, client.title, scope, Path(), client.format),
                InvalidArgument(
                    f"{client.title} {why}.", hint="Omit --scope project, or name a folder."
                ),
            )
            return None
        target = ClientFile(client.name, client.title, scope, path, client.format)
        if target.real in seen:
            return None
        seen.add(target.real)
        try:
            if client.folder == "absolute" and self._project is None:
                raise NotFound(
                    f"{client.title} starts servers outside of any project.",
                    hint="Name the folder to search: lookfar setup PATH",
                )
            return self._plan(client, target)
        except LookfarError as error:
            self._report.add_failure(target, error)
            return None

    def _plan(self, client: Client, target: ClientFile) -> Edit:
        before = edits.read(target.real)
        text = edits.decode(target, before)
        target = replace(target, keys=client.entry_keys(edits.parse(target, text)))
        existing = edits.find_entry(target, text)
        if client.is_remote(existing):
            return Edit(target, before, before, note="It connects to a remote server.")
        entry = client.make_entry(existing, self._launcher, self._project)
        after = edits.put_entry(target, text, entry)
        unchanged = before is not None and after == text
        return Edit(target, before, before if unchanged else edits.encode(before, after))

    def _carry_out(
        self, edit: Edit, *, agreed: bool = False, shown: bool = False, question: str = ""
    ) -> None:
        """Show an edit, ask, and write it."""
        target = edit.target
        if not edit.changes:
            state = "kept" if edit.note else "unchanged"
            self._report.add(Step(target, state, edit, note=edit.note))
            return
        try:
            edits.refuse_unwritable(target.real)
            if not shown:
                self._report.show_diff(edit)
            if self._dry_run:
                self._report.add(Step(target, "planned", edit))
                return
            ask = question or f"Change the settings of {target.title}?"
            if not agreed and not self._confirm(ask, default=not question):
                self._report.add(Step(target, "declined", edit))
                return
            existed = edits.has_entry(target, edits.decode(target, edit.before))
            self._backups.apply(edit)
        except LookfarError as error:
            if isinstance(error, ConfirmationNeeded):
                raise
            self._report.add_failure(target, error)
            return
        client = BY_NAME.get(target.client)
        note = client.next_step if client else ""
        self._report.add(Step(target, "updated" if existed else "added", edit, note=note))

    def _offer_snippets(
        self, served: Sequence[Client], snippet: bool | None, skill: bool, seen: set[Path]
    ) -> None:
        """Offer to tell agents to search with Lookfar, unless the options say no."""
        wanted = snippet or (skill and (self._yes or self._dry_run))
        unwanted = not wanted and (snippet is False or self._yes or self._dry_run)
        if unwanted or self._project is None or not (served or snippet):
            return
        for name in self._guide_files(served, skill):
            path = self._project / name
            target = ClientFile(SNIPPET, name, "project", path, "skill" if skill else "markdown")
            if target.real in seen:
                continue
            seen.add(target.real)
            try:
                before = edits.read(target.real)
                text = edits.decode(target, before)
                after = edits.put_entry(target, text, {})
            except LookfarError as error:
                self._report.add_failure(target, error)
                continue
            edit = Edit(target, before, edits.encode(before, after))
            question = f"Tell agents in {name} to search with Lookfar instead of grep?"
            self._carry_out(edit, agreed=bool(wanted), question=question)

    def _offer_helpers(self, wanted: bool | None) -> None:
        """Offer Claude Code a subagent that explores, and a hint after greps that find nothing."""
        if wanted is False or (not wanted and (self._yes or self._dry_run)):
            return
        scope: Scope = self._scope or "user"
        folder, settings = self._machine.resolve("{claude_folder}"), "settings.json"
        if scope == "project" and self._project is not None:
            # The command is valid only on this machine, so choose a file that is not committed.
            folder, settings = self._project / ".claude", "settings.local.json"
        explorer, hint = folder / "agents" / "lookfar-explorer.md", folder / settings
        command = {"type": "command", "command": shlex.join((*self._launcher, edits.GREP_HINT))}
        hook = {"matcher": "Grep|Bash", "hooks": [{**command, "timeout": _HINT_SECONDS}]}
        for title, path, format, keys, entry, question in (
            ("Explorer subagent", explorer, "agent", (), {}, "Add a subagent for searches?"),
            (
                "Hint after greps", hint, "hook", _HOOK_KEYS, hook,
                "Mention Lookfar to the agent after a grep that finds nothing?",
            ),
        ):  # fmt: skip
            target = ClientFile("claude-code", title, scope, path, format, keys)  # type: ignore[arg-type]
            try:
                before = edits.read(target.real)
                after = edits.put_entry(target, edits.decode(target, before), entry)
            except LookfarError as error:
                self._report.add_failure(target, error)
                continue
            edit = Edit(target, before, edits.encode(before, after))
            self._carry_out(edit, agreed=bool(wanted), question=question)

    def _guide_files(self, served: Sequence[Client], skill: bool) -> list[str]:
        """Return the instruction files that these clients read, without duplicates."""
        assert self._project is not None, "only a project has such files"
        if skill:
            files = [f"{client.skills}/lookfar/SKILL.md" for client in served if client.guide]
            return list(dict.fromkeys(files or [".agents/skills/lookfar/SKILL.md"]))
        names = [client.guide for client in served if client.guide] or ["AGENTS.md"]
        return list(
            dict.fromkeys(
                "AGENTS.md" if _includes_agents_file(self._project / name) else name
                for name in names
            )
        )

    def _index_and_try(self, working: Sequence[Step]) -> tuple[dict[str, Any] | None, list[Trial]]:
        if self._project is None:
            self._report.say(
                "There is no project here to index. Agents index their projects when they search."
            )
            return None, []
        from lookfar.serve.show import json_shapes, render

        try:
            options = {"index_dir": None, "settings": ()}
            with open_library(str(self._project), options) as library:
                folder = library.folder(library.collections[0])
                with progress.show_progress(self._project.name, quiet=self._as_json):
                    report = folder.index()
        except LookfarError as error:
            target = ClientFile("index", str(self._project), "project", self._project, "markdown")
            self._report.add_failure(target, error)
            return None, []
        if not self._as_json:
            write(render.report(report, str(folder.index_dir)))
        return json_shapes.report(report, str(folder.index_dir)), list(self._run_trials(working))

    def _offer_packages(self, wanted: bool | None) -> None:
        """Offer to index the packages that the project uses; do so only if the user agrees."""
        if wanted is False or self._project is None or (self._yes and not wanted):
            return
        try:
            with open_library(str(self._project), {"index_dir": None, "settings": ()}) as library:
                found = library.outside.packages(prepare=False)
                question = (
                    f"Index the {how_many(len(found), 'package')} that {self._project.name} uses,"
                    " so that agents see the installed versions?"
                )
                if not found or not (wanted or self._confirm(question, default=False)):
                    return
                with progress.show_fetch("Indexing", "indexed") as on_package:
                    library.outside.packages(on_package=on_package)
        except LookfarError as error:
            target = ClientFile(
                "packages", str(self._project), "project", self._project, "markdown"
            )
            self._report.add_failure(target, error)
            return
        self._report.say(f"{how_many(len(found), 'package')} indexed; kept up to date from now on.")

    def _run_trials(self, working: Sequence[Step]) -> Iterator[Trial]:
        """Search once with each different command that clients start."""
        from lookfar.serve.setup.trial import run_trial

        assert self._project is not None, "there is a project to search"
        query = f"What is {self._project.name} about?"
        tried: set[tuple[Any, ...]] = set()
        for step in working:
            client = BY_NAME[step.target.client]
            text = edits.decode(step.target, edits.read(step.target.real))
            keys = client.entry_keys(edits.parse(step.target, text))
            entry = edits.find_entry(replace(step.target, keys=keys), text)
            words = client.read_command(entry)
            command = [word.replace(WORKSPACE, str(self._project)) for word in words]
            folder = self._machine.home if client.folder else self._project
            variables = client.read_environment(entry)
            key = (*command, str(folder), *sorted(variables.items()))
            if key in tried:
                continue
            tried.add(key)
            trial = run_trial(command, {**self._machine.env, **variables}, folder, query)
            self._report.add_trial(step.target.title, trial)
            yield trial

    def undo(self) -> int:
        """Undo what setup changed, and return the exit code."""
        names = {client.name for client in self._requested}
        elsewhere = 0
        for record in self._backups.list_records():
            target = record.target
            if (names and target.client not in names) or self._scope not in (None, target.scope):
                continue
            if target.scope == "project" and not self._is_in_project(target.path):
                elsewhere += 1
                continue
            try:
                self._undo_record(record)
            except ConfirmationNeeded:
                raise
            except LookfarError as error:
                self._report.add_failure(target, error)
        if not self._report.steps:
            self._report.say("There is nothing to undo.")
        if elsewhere:
            self._report.say(
                f"Changes in other projects: {elsewhere}. Run lookfar setup --undo there."
            )
        return self._finish({})

    def _undo_record(self, record: Record) -> None:
        target = record.target
        undo = self._backups.plan_undo(record)
        if undo.edit.changes:
            self._report.show_diff(replace(undo.edit, target=target))
            if self._dry_run:
                self._report.add(Step(target, "planned", undo.edit))
                return
            if not self._confirm(f"Undo this in {target.title}?", default=True):
                self._report.add(Step(target, "declined", undo.edit))
                return
        if not self._dry_run:
            self._backups.apply_undo(undo)
        state = "restored" if undo.exact else "removed"
        note = (
            "" if undo.exact else "The file has changed since, so only Lookfar's part was removed."
        )
        if undo.original:
            note += f" The original is in {undo.original}"
        self._report.add(
            Step(target, state if undo.edit.changes else "forgotten", undo.edit, note=note)
        )

    def _is_in_project(self, path: Path) -> bool:
        return self._project is not None and path.is_relative_to(self._project)

    def _confirm(self, question: str, *, default: bool) -> bool:
        if self._yes:
            return True
        try:
            return click.confirm(safe_name(question), default=default, err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            if not default:
                return (
                    False  # Without a terminal, a question with the default no is answered with no.
                )
            raise ConfirmationNeeded(
                "Confirmation is needed, and there is no terminal to ask on.",
                hint="Add --yes, or --dry-run to look first.",
            ) from None

    def _finish(self, results: dict[str, Any]) -> int:
        steps = self._report.steps
        if self._as_json:
            shape = {
                "project": str(self._project) if self._project else None,
                "command": [*self._launcher, "mcp"],
                "dry_run": self._dry_run,
                "changes": [step.as_dict() for step in steps],
            }
            write_json(shape | results)
        failed_steps = [step.error.exit_code for step in steps if step.error is not None]
        failed_trials = [1 for trial in results.get("trials", ()) if not trial["ok"]]
        return next(iter((*failed_steps, *failed_trials)), 0)


def _includes_agents_file(path: Path) -> bool:
    """Return whether a file includes AGENTS.md, so that instructions there are enough."""
    try:
        return b"@AGENTS.md" in (edits.read(path) or b"")
    except LookfarError:
        return False  # Editing the file reports the error.


def _find_project(path: str | None) -> Path | None:
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


def _find_client(name: str) -> Client:
    if name in BY_NAME:
        return BY_NAME[name]
    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    raise InvalidArgument(
        f"There is no client {name!r}.",
        hint=f"Did you mean {near[0]}?" if near else f"Known clients: {', '.join(BY_NAME)}.",
        details={"candidates": near},
    )

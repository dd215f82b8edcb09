"""Rewrites the generated parts of the documentation: ``python scripts/docs.py``.

Takes: the commands, the settings and the error tree as the code defines them,
and the sample folder of ``examples``. Gives: the regions between
``<!-- generated: NAME -->`` and ``<!-- end -->`` in docs and README, renewed.
Refuses: to invent a region; one that is not marked is not written.

A test compares the tables with the code. Regions named ``run ...`` hold the real
output of a command over the sample folder; they are renewed here, by hand, and
only checked to run, because scores and times differ between machines.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from click.testing import CliRunner

from lookfar import config, errors
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.serve.cli.main import cli
from lookfar.serve.mcp.skills import load_skill
from lookfar.serve.setup.clients import BY_NAME
from lookfar.serve.toolsets import load_toolset
from lookfar.text.extract.formats import EXTRACTORS
from lookfar.text.parse.formats import FORMATS
from lookfar.text.parse.languages import LANGUAGES

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
REGION = re.compile(r"(<!-- generated: ([^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)

_FLEETING = re.compile(
    r"\d+ ms|\"took_ms\": [\d.]+|in [\d.]+ s\b|\d{4}-\d\d-\d\dT[\d:+]+|-[0-9a-f]{16}|\(\d+ kB\)"
)
"""What differs from run to run, and is no reason to rewrite a page."""


def regions(text: str) -> Iterator[tuple[str, str]]:
    """The names and contents of the generated parts of a page."""
    for match in REGION.finditer(text):
        yield match[2], match[0][len(match[1]) : -len(match[3])]


def table(name: str) -> str | None:
    """What a region should hold by the code, or None for one that is run."""
    kind, _, rest = name.partition(" ")
    if kind == "options":
        return "\n".join(map(options, leaves(cli.commands[rest])))
    if kind == "run":
        return None
    if kind == "tools":
        return tools(rest)
    if kind == "migration":
        return migration(rest)
    tables = {
        "commands": commands,
        "install-links": install_links,
        "settings": settings,
        "errors": codes,
        "extractors": extractors,
        "formats": formats,
        "languages": languages,
    }
    return tables[kind]()


def commands() -> str:
    rows = [
        f"| [`lookfar {name}`](commands/{name}.md) | {command.get_short_help_str(200)} |"
        for name, command in cli.commands.items()
        if not command.hidden
    ]
    return _rows("| command | what it does |", rows)


def install_links() -> str:
    """Links that add Lookfar to an editor, with what setup would write; uv starts it."""
    launcher = ("uvx", "lookfar")
    cursor = json.dumps(BY_NAME["cursor"].make_entry({}, launcher, None), separators=(",", ":"))
    code = json.dumps(BY_NAME["vscode"].make_entry({}, launcher, None), separators=(",", ":"))
    encoded = quote(base64.b64encode(cursor.encode()).decode(), safe="")
    query = f"name=lookfar&config={quote(code, safe='')}"
    return (
        f"- [Add Lookfar to Cursor](https://cursor.com/install-mcp?name=lookfar&config={encoded})\n"
        f"- [Add Lookfar to VS Code](https://vscode.dev/redirect/mcp/install?{query})\n"
        "- [Add Lookfar to VS Code Insiders]"
        f"(https://insiders.vscode.dev/redirect/mcp/install?{query}&quality=insiders)\n"
    )


def copy_to_plugin() -> None:
    """Give the plugin the skill that the server serves, and what setup writes for agents."""
    setup = ROOT / "src" / "lookfar" / "serve" / "setup"
    for name, text in (
        ("skills/lookfar/SKILL.md", load_skill().text),
        ("agents/explorer.md", plugin_explorer((setup / "explorer.md").read_text("utf-8"))),
        ("hooks/grep_hint.py", (setup / "grep_hint.py").read_text("utf-8")),
    ):
        target = ROOT / "plugin" / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"renewed {target.relative_to(ROOT)}\n")


def plugin_explorer(text: str) -> str:
    """Return the subagent for the plugin, whose name comes before that of each of its agents."""
    return text.replace("name: lookfar-explorer", "name: explorer")


Way = tuple[click.Command, ...]


def leaves(command: click.Command) -> list[Way]:
    """A command as the way to it; of a group the ways to each of its commands."""
    if not isinstance(command, click.Group):
        return [(command,)]
    return [(command, *way) for each in command.commands.values() for way in leaves(each)]


def options(way: Way) -> str:
    """Usage, arguments and options of a command."""
    context = click.Context(cli, info_name="lookfar", **cli.context_settings)
    for command in way:
        context = click.Context(command, parent=context, info_name=command.name)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            names, text = (part.replace("|", "\\|") for part in record)
            rows.append(f"| `{names}` | {text} |")
    return f"```\n{context.command_path} {usage}\n```\n\n" + _rows("| option | meaning |", rows)


def settings() -> str:
    """One table of settings for each section."""
    parts, section = [], None
    rows: list[str] = []
    for doc in [*config.describe(), None]:
        name = doc.key.rpartition(".")[0] if doc else ""
        if section is not None and (doc is None or name != section):
            parts.append((f"### {section}\n\n" if section else "") + _rows(_SETTINGS_HEAD, rows))
            rows = []
        if doc is not None:
            section = name
            rows.append(_setting(doc))
    return "\n".join(parts)


_SETTINGS_HEAD = "| key | type | default | accepts | meaning |"


def _setting(doc: config.SettingDoc) -> str:
    default = doc.default
    if isinstance(default, bool):
        default = str(default).lower()
    shown = "`" + str(default) + "`" if default not in ("", ()) else "empty"
    accepts = ", ".join(f"`{each}`" if each else "empty" for each in doc.choices)
    if doc.range:
        accepts = "{:,} to {:,}".format(*doc.range)
    meaning = doc.description
    if doc.presets:
        presets = ", ".join(f"{name} {value}" for name, value in doc.presets.items())
        meaning += f" Presets: {presets}."
    if not doc.project_file:
        meaning += " Not in a folder's own file."
    return f"| `{doc.key}` | {doc.type} | {shown} | {accepts} | {meaning} |"


def tools(name: str) -> str:
    """Each tool of a toolset with its arguments."""
    parts = []
    for tool in load_toolset(name):
        rows = [
            _argument(key, shape, key in tool.input_schema.get("required", ()))
            for key, shape in tool.input_schema.get("properties", {}).items()
        ]
        table = (
            _rows("| argument | type | default | accepts |", rows) if rows else "No arguments.\n"
        )
        parts.append(f"### {tool.name}\n\n{tool.description}\n\n{table}")
    return "\n".join(parts)


def _argument(name: str, shape: dict[str, Any], required: bool) -> str:
    kind = shape.get("type", "object")
    inner = shape.get("items", {})
    if kind == "array":
        kind = f"list of {inner.get('type', 'object')}s"
    default = (
        "required"
        if required
        else f"`{json.dumps(shape['default'])}`"
        if "default" in shape
        else ""
    )
    options = shape.get("enum") or inner.get("enum")
    accepts = ", ".join(f"`{each}`" for each in options or ())
    bounds = [shape.get("minimum"), shape.get("maximum")]
    if any(bound is not None for bound in bounds):
        accepts = " to ".join(f"{bound:,}" for bound in bounds if bound is not None)
        accepts = accepts if None not in bounds else f"{accepts} or more"
    if kind == "object" and shape.get("properties"):
        accepts = ", ".join(f"`{each}`" for each in shape["properties"])
    return f"| `{name}` | {kind} | {default} | {shape.get('description') or accepts} |"


def migration(name: str) -> str:
    """Each setting of another system, and ours."""
    system = SYSTEMS[name]
    own = {doc.key for doc in config.describe() if not doc.project_file}
    rows = []
    for row in system.rows:
        ours = f"`{row.ours}`{' *' if row.ours in own else ''}" if row.ours else "none"
        rows.append(f"| `{row.theirs}` | {ours} | {row.note} |")
    return f"Its configuration: {system.where}.\n\n" + _rows("| theirs | ours | |", rows)


def codes() -> str:
    """Every error with its exit code; what to do about it is written by hand below."""
    rows = [f"| [`{cls.code}`](#{cls.code.lower()}) | {cls.exit_code} |" for cls in error_classes()]
    return _rows("| code | exit code |", rows)


def error_classes() -> list[type[errors.LookfarError]]:
    """The whole tree; a toolset's own errors belong to the clients that know them."""
    found = [errors.LookfarError]
    for cls in found:
        found += [each for each in cls.__subclasses__() if each.__module__ == errors.__name__]
    return sorted(found, key=lambda cls: (cls.exit_code, cls.code))


def formats() -> str:
    rows = []
    for each in FORMATS:
        files = ", ".join(f"`{name}`" for name in (*each.extensions, *each.names))
        rows.append(f"| {each.name} | {files} | {each.reads} |")
    return _rows("| format | files | what is understood |", rows)


def extractors() -> str:
    """What is kept and lost of every format that is converted to text."""
    rows = []
    for row in EXTRACTORS:
        files = ", ".join(f"`{ending}`" for ending in row.extensions)
        place = f"`{row.place}`" if row.place else "headings"
        rows.append(f"| {row.name} | {files} | {place} | {row.keeps} | {row.loses} |")
    return _rows("| format | files | cited by | kept | lost |", rows)


def languages() -> str:
    """How well each programming language is understood, the best first."""
    order = ("full", "structural", "heuristic", "plain")
    rows = []
    for each in sorted(LANGUAGES, key=lambda language: order.index(language.tier)):
        files = ", ".join(f"`{name}`" for name in (*each.extensions, *each.names))
        rows.append(f"| {each.name} | `{each.language}` | {files} | {each.tier} |")
    return _rows("| language | in filters | files | understood |", rows)


def _rows(head: str, rows: list[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|" + "---|" * columns, *rows]) + "\n"


def run(name: str, work: Path) -> str:
    """The output of ``run lookfar ...`` over the sample folder."""
    arguments = shlex.split(name.removeprefix("run lookfar "))
    result = CliRunner().invoke(cli, [*arguments, "--index-dir", str(work / "indexes")])
    shown = result.stdout + (result.stderr if result.exit_code else "")
    shown = shown.replace(str(work / "indexes"), "~/.local/share/lookfar")
    shown = shown.replace(str(work.resolve()), "/home/me").replace(str(work), "/home/me")
    command = name.removeprefix("run ")
    language = "sh" if not result.exit_code else ""
    return f"```{language}\n$ {command}\n{shown.rstrip()}\n```\n"


def renewed(text: str, work: Path) -> str:
    def region(match: re.Match[str]) -> str:
        name = match[2]
        content = run(name, work) if name.startswith("run ") else table(name)
        after = f"{match[1]}{content}{match[3]}"
        return match[0] if _FLEETING.sub("", after) == _FLEETING.sub("", match[0]) else after

    return REGION.sub(region, text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copytree(ROOT / "examples" / "handbook", work / "handbook")
        os.chdir(work)
        CliRunner().invoke(cli, ["index", "handbook", "--index-dir", str(work / "indexes")])
        for page in PAGES:
            before = page.read_text(encoding="utf-8")
            after = renewed(before, work)
            if after != before:
                page.write_text(after, encoding="utf-8")
                sys.stdout.write(f"renewed {page.relative_to(ROOT)}\n")
        os.chdir(ROOT)
    copy_to_plugin()


if __name__ == "__main__":
    main()

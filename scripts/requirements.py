"""Lists what the systems we stand in for promise and no test proves.

    python scripts/requirements.py                    what is unproved, by spec and tool
    python scripts/requirements.py --later            also what a later capability brings
    python scripts/requirements.py --prove TEST ID... write down that TEST proves the IDs

Takes: the manifests ``tests/requirements/*.toml``, the tests they name, and (from
a test) the table of toolsets. Gives: the unproved requirements, the faults of a
manifest, and where a toolset, a result and its manifest disagree. Refuses: to run
any test; a proof counts when its file and its function are there. An ID may be a
pattern such as ``msrl.query.result.*``.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "tests" / "requirements"

KINDS = ("tool", "parameter", "result", "error", "behaviour", "limit")
CAPABILITIES = ("code", "ranking", "git", "memory", "documents", "edits", "people", "scale")
ID = re.compile(r"[a-z_]+(\.[A-Za-z0-9_]+)+")

Schema = Mapping[str, Any]

_LIMITS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "minItems": "minItems",
    "maxItems": "maxItems",
    "minLength": "minLength",
}
_FIELDS = {
    "parameter": {"name", "type", "required", "default", "enum", "items", *_LIMITS},
    "result": {"field", "type"},
    "error": {"code", "details"},
}
_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


@dataclass(frozen=True)
class Requirement:
    """One promise of one spec."""

    id: str
    kind: str
    says: str
    arrives: str
    proved_by: tuple[str, ...]
    tool: str = ""
    """The MCP tool it is about; empty for what concerns the whole."""
    face: str = ""
    """``cli`` or ``http`` for a command or an endpoint."""
    measured: str = ""
    """What was measured of a figure that is not reached; such a figure has no proof."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What its kind adds: a parameter's schema, a result's field, an error's details."""


@dataclass(frozen=True)
class Manifest:
    """All promises of one spec, and the toolset that keeps them."""

    spec: str
    toolset: str
    requirements: tuple[Requirement, ...]


def read(path: Path) -> Manifest:
    """One manifest; a key that is missing, unknown or of a wrong type is a ValueError."""
    with path.open("rb") as file:
        data = tomllib.load(file)
    rows = data.get("requirement", [])
    return Manifest(data["spec"], data["toolset"], tuple(_requirement(row) for row in rows))


def manifests(folder: Path = MANIFESTS) -> list[Manifest]:
    return [read(path) for path in sorted(folder.glob("*.toml"))]


def _requirement(row: Mapping[str, Any]) -> Requirement:
    common = {"id", "kind", "says", "arrives", "proved_by", "tool", "face", "measured"}
    missing = {"id", "kind", "says", "proved_by"} - set(row)
    more = {key: value for key, value in row.items() if key not in common}
    unknown = set(more) - _FIELDS.get(row.get("kind", ""), set())
    if missing or unknown:
        raise ValueError(f"{row.get('id')}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    keys = ("id", "kind", "says", "arrives", "tool", "face", "measured")
    texts = [row.get(key, "") for key in keys]
    proofs = row["proved_by"]
    if not all(isinstance(text, str) for text in [*texts, *proofs]):
        raise ValueError(f"{row['id']}: only texts are expected")
    identity, kind, says, arrives, *about = texts
    return Requirement(identity, kind, says, arrives, tuple(proofs), *about, more)


def faults(manifest: Manifest, root: Path = ROOT) -> list[str]:
    """What is wrong with a manifest in itself, and proofs that lead nowhere."""
    found = []
    counts = Counter(each.id for each in manifest.requirements)
    found += [f"{identity}: stands there {n} times" for identity, n in counts.items() if n > 1]
    tools = {each.tool for each in manifest.requirements if each.kind == "tool" and each.tool}
    for each in manifest.requirements:
        found += [f"{each.id}: {fault}" for fault in _faults(manifest, each, tools, root)]
    return found


def _faults(manifest: Manifest, each: Requirement, tools: set[str], root: Path) -> Iterator[str]:
    if not ID.fullmatch(each.id) or not each.id.startswith(f"{manifest.spec}."):
        yield "is no dotted id of this spec"
    if each.kind not in KINDS:
        yield f"has the unknown kind {each.kind!r}"
    if each.arrives and each.arrives not in CAPABILITIES:
        yield f"arrives with the unknown {each.arrives!r}"
    if not each.says.endswith("."):
        yield "says no whole sentence"
    if each.tool and each.tool not in tools:
        yield f"is about {each.tool!r}, which is no tool here"
    if each.kind == "tool" and bool(each.tool) == bool(each.face):
        yield "must name either a tool or a face"
    if each.kind == "parameter":
        if "name" not in each.more or each.more.get("type") not in _TYPES:
            yield "needs a name and a type"
        if each.more.get("required") and "default" in each.more:
            yield "is required and has a default"
    if each.measured and each.proved_by:
        yield "is proved, though its figure is not reached"
    yield from (
        f"proof {proof} leads nowhere" for proof in each.proved_by if not leads(proof, root)
    )


def leads(proof: str, root: Path = ROOT) -> bool:
    """Whether a proof names a test that is there, or a benchmark."""
    name, _, function = proof.partition("::")
    path = root / name
    if name.startswith("bench/"):
        return not function and path.is_file()
    return name.startswith("tests/") and function.split("[")[0] in _tests(path)


@functools.cache
def _tests(path: Path) -> frozenset[str]:
    """The tests of a file as pytest would name them, without importing it."""
    if not path.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + each.name)
            elif isinstance(each, ast.Assign):
                # A state machine of hypothesis becomes a test by ``TestX = Machine.TestCase``.
                names.update(t.id for t in each.targets if isinstance(t, ast.Name))
    return frozenset(name for name in names if name.split("::")[-1].lower().startswith("test"))


def unproved(manifest: Manifest) -> list[Requirement]:
    """What must hold now and has no proof, except figures that are known not to be reached."""
    return [
        each
        for each in manifest.requirements
        if not (each.arrives or each.proved_by or each.measured)
    ]


# --- a toolset and its manifest ----------------------------------------------------------------


def differences(
    toolsets: Mapping[str, Mapping[str, Schema]], known: Iterable[Manifest]
) -> list[str]:
    """Where served tools (toolset -> tool -> JSON schema of its input) and manifests disagree.

    Each served tool and parameter must be in the manifest, and each of the manifest must be
    served, unless it arrives later. Toolsets without a manifest are not looked at.
    """
    found = []
    for manifest in known:
        served = toolsets.get(manifest.toolset)
        promised = {each.tool: each for each in manifest.requirements if each.kind == "tool"}
        promised.pop("", None)
        if served is None:
            if any(not tool.arrives for tool in promised.values()):
                found.append(f"{manifest.toolset}: the toolset is not there")
            continue
        for name, tool in promised.items():
            if name not in served and not tool.arrives:
                found.append(f"{manifest.toolset}: {name} is promised and not served")
        for name, schema in served.items():
            if name not in promised:
                found.append(f"{manifest.toolset}: {name} is served and not promised")
                continue
            found += [
                f"{manifest.toolset}: {name}: {what}"
                for what in _parameters(manifest, name, schema)
            ]
    return found


def _parameters(manifest: Manifest, tool: str, schema: Schema) -> Iterator[str]:
    served = dict(_flat(schema, schema))
    promised = {
        each.more["name"]: each
        for each in manifest.requirements
        if each.kind == "parameter" and each.tool == tool
    }
    yield from (
        f"{name} is served and not promised" for name in sorted(set(served) - set(promised))
    )
    for name, each in promised.items():
        if name in served:
            yield from (f"{name}: {what}" for what in _parameter(each.more, *served[name]))
        elif not each.arrives:
            yield f"{name} is promised and not served"
    yield from (f"{at} takes unknown arguments" for at in _open(schema, schema, "the input"))


def _parameter(promised: Schema, served: Schema, required: bool) -> Iterator[str]:
    kind = served.get("type")
    # Every integer is a number, so a whole-number parameter may say so.
    if kind != promised["type"] and (kind, promised["type"]) != ("integer", "number"):
        yield f"type is {kind}, promised {promised['type']}"
    if required != promised.get("required", False):
        yield "is required" if required else "is not required"
    default = served.get("default")
    # Inputs have no nullable fields: "not given" is an empty value.
    if default in ("", [], {}) and "default" not in promised:
        default = None
    if default != promised.get("default") or type(default) is bool is not type(
        promised.get("default")
    ):
        yield f"default is {default!r}, promised {promised.get('default')!r}"
    if set(served.get("enum", [])) != set(promised.get("enum", [])):
        yield f"values are {served.get('enum')}, promised {promised.get('enum')}"
    for key in _LIMITS:
        if served.get(key) != promised.get(key):
            yield f"{key} is {served.get(key)}, promised {promised.get(key)}"
    if "items" in promised and served.get("items", {}).get("type") != promised["items"]:
        yield f"items are {served.get('items')}, promised {promised['items']}"


def _flat(schema: Schema, whole: Schema, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The parameters of a schema, those of inner objects by dotted names."""
    for name, inner in schema.get("properties", {}).items():
        seen = _resolved(inner, whole)
        yield prefix + name, (seen, name in schema.get("required", []))
        yield from _flat(seen, whole, f"{prefix}{name}.")


def _open(schema: Schema, whole: Schema, at: str) -> Iterator[str]:
    if schema.get("additionalProperties", True) is not False:
        yield at
    for name, inner in schema.get("properties", {}).items():
        seen = _resolved(inner, whole)
        if "properties" in seen:
            yield from _open(seen, whole, name)


def _resolved(schema: Schema, whole: Schema) -> Schema:
    """A schema with its reference followed; what stands beside the reference is kept."""
    target = schema.get("$ref")
    if target is None and len(schema.get("allOf", [])) == 1:
        target = schema["allOf"][0].get("$ref")
    if target is None:
        return schema
    found: Any = whole
    for step in target.removeprefix("#/").split("/"):
        found = found[step]
    beside = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    return {**_resolved(found, whole), **beside}


# --- a result and its manifest -----------------------------------------------------------------


def unmet(manifest: Manifest, tool: str, results: Iterable[Any]) -> list[str]:
    """Promised fields of a tool that none of these results has, or that have a wrong type.

    Several results are taken because some fields are there only when asked for.
    """
    given = list(results)
    found = []
    for each in manifest.requirements:
        if each.kind != "result" or each.tool != tool or each.arrives:
            continue
        steps = [step for step in re.split(r"\.|(\[\])", each.more["field"]) if step]
        values = [value for result in given for value in _values(result, steps)]
        kinds = each.more["type"].split("|")
        wrong = [value for value in values if not any(_is(value, kind) for kind in kinds)]
        if not values:
            found.append(f"{each.id}: is in no result")
        found += [f"{each.id}: {value!r} is no {each.more['type']}" for value in wrong]
    return found


def _values(value: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield value
    elif steps[0] == "[]":
        for each in value if isinstance(value, list) else ():
            yield from _values(each, steps[1:])
    elif isinstance(value, Mapping) and steps[0] in value:
        yield from _values(value[steps[0]], steps[1:])


def _is(value: Any, kind: str) -> bool:
    types: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
        "null": (type(None),),
    }
    # In Python a bool is an int; in JSON it is not.
    return isinstance(value, types[kind]) and (kind == "boolean" or not isinstance(value, bool))


# --- the list ----------------------------------------------------------------------------------


def listing(known: Iterable[Manifest], *, later: bool = False) -> str:
    """The unproved, by spec and tool; with ``later`` also what is still to come."""
    lines = []
    for manifest in known:
        now = [each for each in manifest.requirements if not each.arrives]
        open_ = unproved(manifest)
        to_come = len(manifest.requirements) - len(now)
        lines.append(
            f"{manifest.spec}: {len(now) - len(open_)} of {len(now)} proved, {to_come} to come"
        )
        chosen = open_
        if later:
            chosen = [each for each in manifest.requirements if each.arrives] + open_
        by_tool: dict[str, list[Requirement]] = {}
        for each in chosen:
            by_tool.setdefault(each.tool or each.face or "general", []).append(each)
        for tool, rows in by_tool.items():
            lines.append(f"  {tool}")
            lines += [
                f"    {each.id}{f' ({each.arrives})' if each.arrives else ''}" for each in rows
            ]
    return "\n".join(lines)


def prove(test: str, patterns: list[str], folder: Path = MANIFESTS) -> int:
    """Adds a proof to each requirement whose id matches, and tells to how many."""
    if not leads(test):
        raise SystemExit(f"{test} is no test.")
    count = 0
    for path in sorted(folder.glob("*.toml")):
        blocks = path.read_text(encoding="utf-8").split("[[requirement]]\n")
        for at, block in enumerate(blocks[1:], start=1):
            row = tomllib.loads(block)
            if not any(fnmatchcase(row["id"], each) for each in patterns):
                continue
            proofs = row["proved_by"] + [test] * (test not in row["proved_by"])
            lines = "".join(f"    {json.dumps(proof)},\n" for proof in proofs)
            # A function, because a replacement text would read backslashes as groups.
            written = f"proved_by = [\n{lines}]"
            blocks[at] = re.sub(r"(?ms)^proved_by = \[.*?\]$", lambda _, t=written: t, block)
            count += 1
        path.write_text("[[requirement]]\n".join(blocks), encoding="utf-8")
    return count


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--prove"]:
        sys.stdout.write(f"{prove(arguments[1], arguments[2:])} requirements\n")
        return 0
    known = manifests()
    sys.stdout.write(listing(known, later="--later" in arguments) + "\n")
    wrong = [fault for manifest in known for fault in faults(manifest)]
    sys.stderr.writelines(f"{fault}\n" for fault in wrong)
    return 1 if wrong or any(map(unproved, known)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Every promise of the five specs is written down, and those that hold now have a proof."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lookfar.serve.toolsets import ALL, DEFAULT, NAMES, load_toolset

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(__file__).parent


def load() -> ModuleType:
    path = ROOT / "scripts" / "requirements.py"
    spec = importlib.util.spec_from_file_location("requirements_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


requirements = load()
MANIFESTS = {entry.spec: entry for entry in requirements.manifests()}


def test_each_spec_has_a_manifest() -> None:
    """Protects against a manifest that is lost unnoticed."""
    assert set(MANIFESTS) == {"anvil", "msrl", "ragdocs", "document_db", "search_mcp"}
    assert all(len(entry.requirements) > 40 for entry in MANIFESTS.values())


@pytest.mark.parametrize("spec", MANIFESTS)
def test_a_manifest_is_sound(spec: str) -> None:
    """Protects against ids that clash, unknown words, and proofs that are gone or renamed."""
    assert requirements.faults(MANIFESTS[spec]) == []


def test_every_current_requirement_has_a_proof() -> None:
    """Protects against a requirement without a test."""
    missing = [one.id for entry in MANIFESTS.values() for one in requirements.unproved(entry)]
    assert missing == []


def test_the_toolsets_are_those_of_the_manifests() -> None:
    """Protects against a tool, parameter, default or limit that differs from its spec."""
    served = {
        name: {tool.name: tool.input_schema for tool in load_toolset(name)}
        for name in NAMES
        if name not in (DEFAULT, ALL)
    }
    present = [entry for entry in MANIFESTS.values() if entry.toolset in served]
    assert len(present) == len(served)
    assert requirements.differences(served, present) == []


# --- the checks can fail ----------------------------------------------------------------------

SOUND = """
spec = "toy"
toolset = "toys"

[[requirement]]
id = "toy.find"
kind = "tool"
tool = "find"
says = "Finds."
arrives = ""
proved_by = ["tests/requirements/test_manifest.py::test_each_spec_has_a_manifest"]

[[requirement]]
id = "toy.find.top"
kind = "parameter"
tool = "find"
name = "top"
type = "number"
default = 3
minimum = 1
maximum = 9
says = "How many."
arrives = ""
proved_by = []

[[requirement]]
id = "toy.find.filters"
kind = "parameter"
tool = "find"
name = "filters"
type = "object"
says = "Narrows."
arrives = ""
proved_by = []

[[requirement]]
id = "toy.find.filters.kind"
kind = "parameter"
tool = "find"
name = "filters.kind"
type = "string"
required = true
enum = ["a", "b"]
says = "Only these."
arrives = ""
proved_by = []

[[requirement]]
id = "toy.find.result.hits.line"
kind = "result"
tool = "find"
field = "hits[].line"
type = "integer|null"
says = "Where."
arrives = ""
proved_by = []

[[requirement]]
id = "toy.later"
kind = "tool"
tool = "later"
says = "Comes later."
arrives = "code"
proved_by = []
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "top": {"type": "integer", "default": 3, "minimum": 1, "maximum": 9},
        "filters": {"$ref": "#/$defs/Filters", "default": {}},
    },
    "$defs": {
        "Filters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["kind"],
            "properties": {"kind": {"type": "string", "enum": ["b", "a"]}},
        }
    },
}


def toy(tmp_path: Path, text: str = SOUND) -> Any:
    path = tmp_path / "toy.toml"
    path.write_text(text, encoding="utf-8")
    return requirements.read(path)


def test_a_sound_manifest_has_no_faults(tmp_path: Path) -> None:
    manifest = toy(tmp_path)
    assert requirements.faults(manifest) == []
    assert [entry.id for entry in requirements.unproved(manifest)] == [
        "toy.find.top",
        "toy.find.filters",
        "toy.find.filters.kind",
        "toy.find.result.hits.line",
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"toy.find.top"', '"toy.find"', "stands there 2 times"),
        ('"toy.find.top"', '"other.find.top"', "no dotted id"),
        ('kind = "tool"\ntool = "later"', 'kind = "tol"\ntool = "find"', "unknown kind"),
        ('arrives = "code"', 'arrives = "soon"', "unknown 'soon'"),
        ("test_each_spec_has", "test_every_spec_has", "leads nowhere"),
        ("test_manifest.py::", "test_nothing.py::", "leads nowhere"),
        ('tool = "find"\nname = "top"', 'tool = "fond"\nname = "top"', "no tool here"),
        ('type = "number"', 'type = "float"', "needs a name and a type"),
        ("default = 3", "default = 3\nrequired = true", "required and has a default"),
        ('says = "Finds."', 'says = "Finds"', "no whole sentence"),
        ('says = "Finds."', 'says = "Finds."\nmeasured = "5 s"', "is not reached"),
        ('tool = "later"\n', "", "a tool or a face"),
    ],
)
def test_each_fault_is_noticed(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in SOUND
    faults = requirements.faults(toy(tmp_path, SOUND.replace(old, new, 1)))
    assert any(fault in entry for entry in faults), faults


@pytest.mark.parametrize(
    ("old", "new"), [("says", "said"), ("minimum", "min"), ('proved_by = ["', 'proved_by = [1, "')]
)
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(ValueError, match="toy"):
        toy(tmp_path, SOUND.replace(old, new, 1))


def test_a_toolset_like_its_manifest_passes(tmp_path: Path) -> None:
    """Integers may stand for numbers, an empty default for none, and references are followed."""
    served = {"toys": {"find": SCHEMA}, "own": {"anything": {}}}
    assert requirements.differences(served, [toy(tmp_path)]) == []


@pytest.mark.parametrize(
    ("path", "value", "difference"),
    [
        ("find.properties.top.default", 4, "top: default is 4, promised 3"),
        ("find.properties.top.default", True, "top: default is True"),
        ("find.properties.top.maximum", 10, "top: maximum is 10, promised 9"),
        ("find.properties.top.minimum", None, "top: minimum is None, promised 1"),
        ("find.properties.top.type", "string", "top: type is string"),
        ("find.required", ["top"], "top: is required"),
        ("find.properties.new", {"type": "string"}, "new is served and not promised"),
        ("find.properties.top", None, "top is promised and not served"),
        ("find.$defs.Filters.properties.kind.enum", ["a"], "filters.kind: values are"),
        ("find.$defs.Filters.required", [], "filters.kind: is not required"),
        ("find.$defs.Filters.additionalProperties", True, "filters takes unknown arguments"),
        ("find.additionalProperties", True, "the input takes unknown arguments"),
        ("find", None, "find is promised and not served"),
        ("found", SCHEMA, "found is served and not promised"),
    ],
)
def test_each_difference_is_noticed(tmp_path: Path, path: str, value: Any, difference: str) -> None:
    served = {"toys": {"find": copy.deepcopy(SCHEMA)}}
    *steps, last = path.split(".")
    at: Any = served["toys"]
    for step in steps:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    messages = requirements.differences(served, [toy(tmp_path)])
    assert any(difference in entry for entry in messages), messages


def test_a_missing_toolset_is_noticed(tmp_path: Path) -> None:
    assert requirements.differences({}, [toy(tmp_path)]) == ["toys: the toolset is not there"]


def test_results_are_compared_with_their_manifest(tmp_path: Path) -> None:
    """Protects tests that lean on ``unmet``: a missing field and a wrong type are both told."""

    def unmet(*results: Any) -> list[str]:
        messages: list[str] = requirements.unmet(toy(tmp_path), "find", results)
        return messages

    assert unmet({"hits": [{"line": 3}, {"line": None}]}) == []
    assert unmet({"hits": []}) == ["toy.find.result.hits.line: is in no result"]
    assert unmet({"hits": []}, {"hits": [{"line": 3}]}) == []
    assert unmet({"hits": [{"line": True}]}) == [
        "toy.find.result.hits.line: True is no integer|null"
    ]


def test_a_proof_is_written_down(tmp_path: Path) -> None:
    """The rest of the file stays as it is, and the same proof is not written twice."""
    before = toy(tmp_path)
    test = "tests/requirements/test_manifest.py::test_a_manifest_is_sound"
    for _ in range(2):
        assert requirements.prove(test, ["toy.find", "toy.find.filters*"], tmp_path) == 3
    after = requirements.read(tmp_path / "toy.toml")
    assert [entry.id for entry in requirements.unproved(after)] == [
        "toy.find.top",
        "toy.find.result.hits.line",
    ]
    assert after.requirements[0].proved_by == (*before.requirements[0].proved_by, test)
    assert (tmp_path / "toy.toml").read_text(encoding="utf-8").count(test) == 3
    with pytest.raises(SystemExit, match="is no test"):
        requirements.prove("tests/test_nothing.py::test_x", ["*"], tmp_path)


def test_the_list_names_what_is_unproved(tmp_path: Path) -> None:
    text = requirements.listing([toy(tmp_path)])
    assert text.startswith("toy: 1 of 5 proved, 1 to come\n  find\n    toy.find.top\n")
    assert "toy.later" not in text
    assert "toy.later (code)" in requirements.listing([toy(tmp_path)], later=True)

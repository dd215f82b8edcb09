"""The layers of other systems' configurations: what wins, what is refused, what never raises.

Proved by mutation: a trusted setting taken from a folder's file, theirs winning over ours at the
same level, a bad file that raises, and a note that is missing each fail here.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookfar.config import Settings, describe, describe_origin, load
from lookfar.config.foreign.systems import SYSTEMS
from lookfar.serve.cli.main import cli

FILES = {
    "msrl": ".msrl/config.json",
    "ragdocs": ".mcp-markdown-ragdocs/config.toml",
    "anvil": "anvil.config.json",
}
TRUSTED = frozenset(doc.key for doc in describe() if not doc.project_file)


class Machine:
    """A home, a served folder, and a folder to start servers in."""

    def __init__(self, base: Path) -> None:
        self.home, self.root, self.start = base / "home", base / "root", base / "start"
        for folder in (self.home, self.root, self.start):
            folder.mkdir()

    def write(self, path: Path, content: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def load(
        self, system: str, explicit: dict[str, Any] | None = None, **variables: str
    ) -> Settings:
        chosen = {"serve.toolset": [system], **(explicit or {})}
        return load(
            self.root, chosen, {"HOME": str(self.home), "PWD": str(self.start), **variables}
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def notes(settings: Settings) -> dict[str, str]:
    return {note.key: note.reason for note in settings.foreign.notes}


# --- which wins ---------------------------------------------------------------------------------


def test_each_level_is_above_the_one_before(machine: Machine) -> None:
    top_k = {"retrieval": {"defaultTopK": 11}}
    machine.write(machine.home / ".config/lookfar/config.toml", "[search]\nrrf_k = 50\n")
    assert machine.load("msrl").search.top_k == 8  # its preset
    machine.write(machine.root / FILES["msrl"], top_k)
    assert machine.load("msrl").search.top_k == 11
    machine.write(machine.root / "lookfar.toml", "[search]\ntop_k = 12\n")
    assert machine.load("msrl").search.top_k == 12
    variable: dict[str, Any] = {"MSRL_RETRIEVAL_DEFAULT_TOP_K": "13"}
    assert machine.load("msrl", **variable).search.top_k == 13
    assert machine.load("msrl", **variable, LOOKFAR_SEARCH_TOP_K="14").search.top_k == 14
    assert machine.load("msrl", {"search.top_k": 15}, **variable).search.top_k == 15


def test_the_users_own_file_wins_over_what_is_equally_trusted(machine: Machine) -> None:
    machine.write(machine.home / ".config/lookfar/config.toml", "[watch]\ndebounce_ms = 400\n")
    assert machine.load("msrl", MSRL_WATCHER_DEBOUNCE_MS="900").watch.debounce_ms == 400
    machine.write(
        machine.home / ".config/mcp-markdown-ragdocs/config.toml",
        "[search]\nrrf_k_constant = 7\n",
    )
    assert machine.load("ragdocs").search.rrf_k == 7
    machine.write(machine.home / ".config/lookfar/config.toml", "[search]\nrrf_k = 8\n")
    assert machine.load("ragdocs").search.rrf_k == 8


def test_only_the_toolset_that_is_served_brings_its_file(machine: Machine) -> None:
    machine.write(machine.root / FILES["msrl"], {"retrieval": {"defaultTopK": 11}})
    for toolset in (["anvil"], ["msrl", "anvil"], ["default"], ["all"]):
        settings = load(machine.root, {"serve.toolset": toolset}, {"HOME": str(machine.home)})
        assert settings.search.top_k != 11, toolset
        assert settings.foreign.notes == ()


def test_a_value_says_where_it_comes_from(machine: Machine) -> None:
    file = machine.write(machine.root / FILES["msrl"], {"retrieval": {"defaultTopK": 11}})
    settings = machine.load("msrl", MSRL_WATCHER_ENABLED="0")
    assert settings.watch.enabled is False
    assert describe_origin("search.top_k", settings, machine.root) == str(file)
    assert describe_origin("watch.enabled", settings, machine.root) == "MSRL_WATCHER_ENABLED"
    assert settings.origin["search.top_k"] == "project"


def test_search_mcp_has_a_file_for_all_projects_and_one_for_each(machine: Machine) -> None:
    digest = hashlib.sha256(os.fsencode(machine.root)).hexdigest()
    folder = machine.home / ".mcp/search"
    machine.write(folder / "config.json", {"maxFiles": 1, "maxFileSize": "1KB"})
    machine.write(folder / "indexes" / digest[:16] / "config.json", {"maxFiles": 2})
    settings = machine.load("search-mcp")
    assert (settings.sources.max_files, settings.sources.max_file_bytes) == (2, 1024)
    machine.write(folder / "indexes" / digest[:32] / "config.json", {"maxFiles": 3})
    assert machine.load("search-mcp").sources.max_files == 3


def test_documentation_of_search_mcp_can_be_left_out(machine: Machine) -> None:
    file = machine.home / ".mcp/search/config.json"
    machine.write(file, {"indexDocs": False, "docPatterns": ["**/*.rst"], "exclude": ["a/**"]})
    assert machine.load("search-mcp").sources.exclude == ("a/**", "**/*.rst")


def test_ragdocs_reads_a_folder_and_its_parsers(machine: Machine) -> None:
    machine.write(
        machine.root / "pyproject.toml",
        '[tool.ragdocs.indexing]\ndocuments_path = "docs"\n'
        '[tool.ragdocs.parsers]\n"**/*.md" = "MarkdownParser"\n',
    )
    assert machine.load("ragdocs").sources.include == ("docs/**/*.md",)
    machine.write(machine.root / FILES["ragdocs"], '[parsers]\n"**/*.x" = "XParser"\n')
    assert "sources.include" in notes(machine.load("ragdocs"))["parsers"]


# --- what a folder may not do -------------------------------------------------------------------


def plant(machine: Machine, system: str) -> Path:
    """Write every setting of a system that only the user may set into the folder's file."""
    texts = {"memory.storage_strategy": "user", "search.rerank_enabled": True, "server.port": 1}
    rows = [row for row in SYSTEMS[system].rows if row.ours in TRUSTED and "." in row.theirs]
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        section, _, leaf = row.theirs.rpartition(".")
        lines.setdefault(section, {})[leaf] = texts.get(row.theirs, "/elsewhere/model")
    text = "\n".join(
        f"[{section}]\n" + "\n".join(f"{leaf} = {json.dumps(item)}" for leaf, item in items.items())
        for section, items in lines.items()
    )
    return machine.write(
        machine.root / FILES[system], text if FILES[system].endswith(".toml") else lines
    )


@pytest.mark.parametrize("system", ["msrl", "ragdocs"])
def test_a_folder_sets_nothing_that_only_the_user_may_set(machine: Machine, system: str) -> None:
    before = machine.load(system)
    file = plant(machine, system)
    after = machine.load(system)
    assert after == before
    assert file.is_file()
    reported = {note.key for note in after.foreign.notes}
    rows = [row for row in SYSTEMS[system].rows if row.ours in TRUSTED and "." in row.theirs]
    assert {row.ours for row in rows if row.theirs in reported} == {row.ours for row in rows}


def test_memories_are_kept_in_a_project_only_if_the_user_chose_the_toolset(
    machine: Machine,
) -> None:
    machine.write(machine.root / FILES["ragdocs"], '[memory]\nstorage_strategy = "project"\n')
    chosen = machine.load("ragdocs").memory
    assert (chosen.in_project, chosen.project_dir) == (True, ".memories")
    machine.write(machine.root / "lookfar.toml", '[serve]\ntoolset = ["ragdocs"]\n')
    by_folder = load(machine.root, {}, {"HOME": str(machine.home), "PWD": str(machine.start)})
    assert by_folder.foreign.system == "ragdocs"
    assert by_folder.memory.in_project is False
    assert "memory.storage_strategy" in notes(by_folder)


def test_a_folder_does_not_choose_the_toolset_that_reads_keys(machine: Machine) -> None:
    machine.write(machine.start / ".env", "OPENAI_API_KEY=sk-1\n")
    assert machine.load("document-db").embed.provider == "remote"
    machine.write(machine.root / ".env", "OPENAI_API_KEY=sk-2\n")
    own = {"HOME": str(machine.home), "PWD": str(machine.root)}
    inside = load(machine.root, {"serve.toolset": ["document-db"]}, own)
    assert (inside.embed.provider, inside.embed.key) == ("static", "")
    below = {**own, "PWD": str(machine.root / "docs")}
    machine.write(machine.root / "docs/.env", "OPENAI_API_KEY=sk-3\n")
    nested = load(machine.root, {"serve.toolset": ["document-db"]}, below)
    assert (nested.embed.provider, nested.embed.key) == ("static", "")


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_out_of_the_folder_is_not_followed(machine: Machine, link: str) -> None:
    outside = machine.write(
        machine.start / "config.json", {"retrieval": {"defaultTopK": 11}, "secret": 1}
    )
    if link == "folder":
        (machine.root / ".msrl").symlink_to(machine.start)
    else:
        (machine.root / ".msrl").mkdir()
        (machine.root / FILES["msrl"]).symlink_to(outside)
    settings = machine.load("msrl")
    assert settings.search.top_k == 8
    assert "symbolic link" in notes(settings)[""]
    assert "secret" not in str(settings.foreign)


# --- the key ------------------------------------------------------------------------------------


def test_a_model_of_the_user_wins_over_a_key(machine: Machine) -> None:
    key: dict[str, Any] = {"OPENAI_API_KEY": "sk-1"}
    assert machine.load("document-db", **key).embed.model == "text-embedding-3-small"
    for explicit in ({"embed.provider": "hash"}, {"embed.provider": "static"}):
        embed = machine.load("document-db", explicit, **key).embed
        assert (embed.provider, embed.model, embed.key) == (explicit["embed.provider"], "", "")
    machine.write(machine.home / ".config/lookfar/config.toml", '[embed]\nprovider = "hash"\n')
    assert machine.load("document-db", **key).embed.provider == "hash"


def test_the_key_is_nowhere_to_be_read(machine: Machine) -> None:
    machine.write(machine.start / ".env", "OPENAI_API_KEY=sk-secret\nOPENAI_BASE_URL=http://x/\n")
    settings = machine.load("document-db")
    assert settings.embed.key == "sk-secret"
    assert "sk-secret" not in repr(settings)
    assert settings.embed.base_url == "https://api.openai.com/v1"
    assert list(notes(settings)) == ["OPENAI_BASE_URL"]


# --- what is wrong with a file --------------------------------------------------------------------


@pytest.mark.parametrize("system", FILES)
@pytest.mark.parametrize(
    "content",
    ["{", "[1]", '"text"', "\0", "{" * 5000, '{"a":' * 3000, "x" * 300_000, "[[[", "a = [", ""],
)
def test_no_file_prevents_a_start(machine: Machine, system: str, content: str) -> None:
    file = machine.write(machine.root / FILES[system], content)
    settings = machine.load(system)
    assert settings == machine_without(file, machine, system)
    is_toml = system == "ragdocs" and content in ("", "[1]")
    assert settings.foreign.notes or is_toml


def machine_without(file: Path, machine: Machine, system: str) -> Settings:
    file.unlink()
    return machine.load(system)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("system", ["msrl", "anvil"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_value_prevents_a_start(
    tmp_path_factory: pytest.TempPathFactory, system: str, data: st.DataObject
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    known = st.sampled_from([row.theirs for row in SYSTEMS[system].rows])
    config: dict[str, Any] = {}
    for key, value in data.draw(st.dictionaries(known | st.text(max_size=6), _VALUES)).items():
        *sections, leaf = key.split(".")
        table = config
        for section in sections:
            inner = table.setdefault(section, {})
            table = inner if isinstance(inner, dict) else {}
        table[leaf] = value
    machine.write(machine.root / FILES[system], config)
    assert machine.load(system).embed == machine.load("default").embed


def test_values_that_contradict_each_other_are_dropped(machine: Machine) -> None:
    machine.write(
        machine.root / FILES["msrl"],
        {
            "chunking": {"targetMaxTokens": 900, "hardMaxTokens": 100},
            "retrieval": {"defaultTopK": 11},
        },
    )
    settings = machine.load("msrl")
    assert (settings.chunk.max_tokens, settings.search.top_k) == (1000, 11)
    assert "contradict" in notes(settings)["chunk.max_tokens"]


def test_a_file_causes_a_limited_number_of_notes(machine: Machine) -> None:
    machine.write(machine.root / FILES["msrl"], {f"key\x1b[{n}m": n for n in range(5000)})
    settings = machine.load("msrl")
    assert len(settings.foreign.notes) == 50
    assert all(str(note).isprintable() for note in settings.foreign.notes)


# --- what people see ----------------------------------------------------------------------------


def test_config_show_and_doctor_report_what_has_no_effect(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.setenv("LOOKFAR_SERVE_TOOLSET", "msrl")
    file = machine.write(
        machine.root / FILES["msrl"],
        {"retrieval": {"defaultTopK": 11}, "sharding": {"shardCount": 2}},
    )
    path = str(machine.root)
    shown = CliRunner().invoke(cli, ["config", "show", "search.top_k", "--path", path, "--json"])
    shape = json.loads(shown.stdout)
    assert (shape["settings"][0]["value"], shape["settings"][0]["place"]) == (11, str(file))
    assert shape["foreign"]["files"] == [str(file)]
    assert [note["key"] for note in shape["foreign"]["notes"]] == ["sharding.shardCount"]
    plain = CliRunner().invoke(cli, ["config", "show", "search.top_k", "--path", path])
    assert "sharding.shardCount" in plain.stderr
    checked = CliRunner().invoke(cli, ["doctor", path])
    assert "sharding.shardCount" in checked.output

"""Settings: layers, checks, presets, and what a cloned folder may not do."""

from __future__ import annotations

import errno
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookfar import config
from lookfar.config import PRESETS, Settings, describe, load, loading
from lookfar.config.schema import RETIRED, RULES
from lookfar.errors import InvalidConfig, IOFailed

EVERYTHING = {doc.key: doc for doc in describe()}
TRUSTED = {
    "memory.project_dir",
    *("index.dir", "sources.allow_hard_links", "sources.allow_secrets", "git.trusted"),
    # It may not let extractors run longer or take more memory.
    *("sources.extract_seconds", "sources.extract_memory_bytes"),
    # A cloned folder chooses no model, no service and no key.
    *(key for key in EVERYTHING if key.startswith(("embed.", "quality."))),
    *("search.rerank", "search.rerank_model"),
    # Nor does it send what is indexed to a server of its own.
    *(key for key in EVERYTHING if key.startswith("store.")),
    *("memory.scope", "memory.in_project", "memory.dir", "documents.dir", "outside.dir"),
    *("outside.max_files", "outside.max_bytes", "outside.max_pages"),
    *("outside.pause_ms", "outside.allow_private", "outside.packages", "outside.drop_after_days"),
    *("outside.trusted_keys", "outside.require_signed"),
    *("documents.chunk_chars", "documents.overlap_chars", "documents.max_chars"),
    *("serve.write", "serve.daemon", "serve.idle_minutes", "serve.host", "serve.port"),
    "serve.workers",
    *("serve.hosts", "serve.origins", "serve.tokens_file", "serve.max_body_bytes"),
    *("serve.body_seconds", "serve.request_seconds", "serve.requests_per_second"),
    *("serve.max_concurrent", "serve.log_level", "serve.log_file", "serve.log_arguments"),
    *("serve.metrics", "serve.traces", "serve.access_log"),
    *("serve.grace_seconds", "serve.drain_seconds"),
    # Nor does it say whose tokens are accepted.
    *(key for key in EVERYTHING if key.startswith("serve.oauth_")),
}


class Place:
    """A home and a project folder that no test shares."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.root = base / "project"
        self.root.mkdir()
        self.env = {"HOME": str(self.home), "USERPROFILE": str(self.home)}
        self.user_file = config.config_file(self.env)

    def user(self, text: str) -> None:
        self.user_file.parent.mkdir(parents=True, exist_ok=True)
        self.user_file.write_text(text, encoding="utf-8")

    def project(self, text: str) -> None:
        (self.root / "lookfar.toml").write_text(text, encoding="utf-8")

    def load(self, explicit: Mapping[str, object] | None = None, /, **variables: str) -> Settings:
        return load(self.root, explicit, self.env | variables)

    def refused(
        self, explicit: Mapping[str, object] | None = None, /, **variables: str
    ) -> InvalidConfig:
        with pytest.raises(InvalidConfig) as caught:
            self.load(explicit, **variables)
        error = caught.value
        assert error.hint
        return error


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- layers -----------------------------------------------------------------------------------


PLACED = ("index.dir", "documents.dir", "memory.dir", "outside.dir", "embed.models_dir")
"""Settings whose default is a folder of this machine."""


def test_defaults_are_the_table(place: Place) -> None:
    settings = place.load()
    resolved = config.as_dict(settings) | dict.fromkeys(PLACED, "")
    assert resolved == {key: doc.default for key, doc in EVERYTHING.items()}
    assert set(settings.origin) == set(EVERYTHING)
    assert set(settings.origin.values()) == {"default"}


def test_each_layer_is_stronger_than_the_one_before(place: Place) -> None:
    seen = [(place.load().search.top_k, place.load().origin["search.top_k"])]

    def look(**more: str) -> None:
        settings = place.load(**more)
        seen.append((settings.search.top_k, settings.origin["search.top_k"]))

    place.user('preset = "msrl"\n')
    look()
    place.user('preset = "msrl"\n[search]\ntop_k = 21\n')
    look()
    place.project("[search]\ntop_k = 22\n")
    look()
    look(LOOKFAR_SEARCH_TOP_K="23")
    settings = place.load({"search.top_k": 24}, LOOKFAR_SEARCH_TOP_K="23")
    seen.append((settings.search.top_k, settings.origin["search.top_k"]))
    assert seen == [
        (10, "default"),
        (8, "preset"),
        (21, "user"),
        (22, "project"),
        (23, "environment"),
        (24, "explicit"),
    ]


def test_a_layer_changes_only_what_it_names(place: Place) -> None:
    place.project("[search]\nper_document = 0\n")
    settings = place.load()
    assert settings.search.per_document == 0
    assert [key for key, layer in settings.origin.items() if layer != "default"] == [
        "search.per_document"
    ]


def test_no_folder_means_no_project_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.project("[search]\ntop_k = 5\n")
    monkeypatch.chdir(place.root)
    assert load(None, environ=place.env).search.top_k == 10


def test_a_missing_folder_has_no_project_file(place: Place) -> None:
    assert load(place.root / "nowhere", environ=place.env) == place.load()


def test_the_process_environment_is_the_default(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("LOOKFAR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("LOOKFAR_SEARCH_TOP_K", "7")
    assert load(place.root).search.top_k == 7


def test_explicit_may_be_dotted_or_nested_and_none_means_not_given(place: Place) -> None:
    settings = place.load(
        {"search": {"top_k": 3, "mode": None}, "chunk.max_tokens": None, "search.merge_gap": 9}
    )
    assert (settings.search.top_k, settings.search.merge_gap) == (3, 9)
    assert settings.origin["search.mode"] == settings.origin["chunk.max_tokens"] == "default"


def test_every_setting_can_come_from_every_layer(place: Place) -> None:
    """Each default, written in the format of each layer, is read back unchanged."""
    for key, doc in EVERYTHING.items():
        section, _, name = key.rpartition(".")
        value = doc.default
        if isinstance(value, bool):
            written = in_variable = str(value).lower()
        elif isinstance(value, tuple):
            written, in_variable = '["docs/**", "a*"]', "docs/**, a*"
            value = ("docs/**", "a*")
        elif isinstance(value, str):
            written, in_variable = f'"{value}"', value
        else:
            written = in_variable = str(value)
        text = f"[{section}]\n{name} = {written}\n" if section else f"{name} = {written}\n"
        place.user(text)
        seen = {"user": place.load()}
        place.user("")
        seen["environment"] = place.load(**{doc.variable: in_variable})
        seen["explicit"] = place.load({key: value})
        if doc.project_file:
            place.project(text)
            seen["project"] = place.load()
            place.project("")
        for layer, settings in seen.items():
            assert settings.origin[key] == layer
            if key not in PLACED:
                assert config.as_dict(settings)[key] == value


def test_settings_are_frozen_comparable_and_travel_to_other_processes(place: Place) -> None:
    settings = place.load({"chunk.max_tokens": 300})
    with pytest.raises(FrozenInstanceError):
        settings.chunk.max_tokens = 1  # type: ignore[misc]
    assert not hasattr(settings, "__dict__")
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.origin == settings.origin
    assert hash(again) == hash(settings)


# --- environment ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("1", True), ("TRUE", True), ("false", False), ("0", False)],
)
def test_booleans_in_variables(place: Place, text: str, value: bool) -> None:
    assert place.load(LOOKFAR_CHUNK_MERGE_SMALL=text).chunk.merge_small is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("*.md", ("*.md",)), ("*.md, docs/**,", ("*.md", "docs/**")), ("", ())],
)
def test_lists_in_variables(place: Place, text: str, value: tuple[str, ...]) -> None:
    assert place.load(LOOKFAR_SOURCES_INCLUDE=text).sources.include == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LOOKFAR_CHUNK_MERGE_SMALL", "yes please"),
        ("LOOKFAR_CHUNK_MERGE_SMALL", ""),
        ("LOOKFAR_SEARCH_TOP_K", ""),
        ("LOOKFAR_SEARCH_TOP_K", "ten"),
        ("LOOKFAR_SEARCH_TOP_K", "1.5"),
        ("LOOKFAR_SEARCH_TOP_K", "9" * 5000),
        ("LOOKFAR_SEARCH_VECTOR_WEIGHT", "nan"),
        ("LOOKFAR_SEARCH_VECTOR_WEIGHT", "inf"),
        ("LOOKFAR_SEARCH_MODE", "fuzzy"),
    ],
)
def test_bad_variables_are_named(place: Place, variable: str, text: str) -> None:
    error = place.refused(**{variable: text})
    assert variable in error.message
    assert error.details["source"] == variable
    assert error.details["layer"] == "environment"


@pytest.mark.parametrize(
    ("variable", "suggestion"),
    [
        ("LOOKFAR_CHUNK_MAX_TOKEN", "LOOKFAR_CHUNK_MAX_TOKENS"),
        ("LOOKFAR_SERCH_TOP_K", "LOOKFAR_SEARCH_TOP_K"),
        ("LOOKFAR_CONFG", "LOOKFAR_CONFIG"),
        ("LOOKFAR_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", ""),
    ],
)
def test_unknown_variables(place: Place, variable: str, suggestion: str) -> None:
    error = place.refused(**{variable: "1"})
    assert error.details["key"] == variable
    assert error.details["suggestion"] == suggestion
    assert suggestion in error.hint


def test_settings_of_earlier_versions_have_no_effect(place: Place) -> None:
    """Seen to fail: nothing worked until they were removed."""
    place.user("[quality]\nthreads = 2\nmax_load = 0.5\n")
    assert place.load({"quality.on_battery": True}, LOOKFAR_QUALITY_THREADS="3") == place.load()


def test_other_variables_are_ignored(place: Place) -> None:
    assert place.load(LOOKFARTHER="1", PATH="x", lookfar_search_top_k="1") == place.load()


# --- files ------------------------------------------------------------------------------------


def test_a_named_user_file_is_read_and_must_exist(place: Place, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    error = place.refused(LOOKFAR_CONFIG=str(mine))
    assert error.details == {"file": str(mine), "key": "LOOKFAR_CONFIG"}
    mine.write_text("[search]\ntop_k = 77\n")
    place.user("[search]\ntop_k = 5\n")
    assert place.load(LOOKFAR_CONFIG=str(mine)).search.top_k == 77
    assert place.load(LOOKFAR_CONFIG="").search.top_k == 5


def test_a_user_file_may_be_a_link(place: Place, tmp_path: Path) -> None:
    (tmp_path / "dotfile").write_text("[search]\ntop_k = 6\n")
    place.user_file.parent.mkdir(parents=True)
    place.user_file.symlink_to(tmp_path / "dotfile")
    assert place.load().search.top_k == 6


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[search]\ntop_k = \n", 2),
        ("[search]\n\ntop_k 5", 3),
        ("[search\n", 1),
        ("x = '''\n\nnever closed", 3),
        ("[search]\ntop_k = 1\ntop_k = 2\n", 3),
        ("a = " + "[" * 5000, 1),
    ],
)
def test_broken_toml_names_its_line(place: Place, text: str, line: int) -> None:
    place.project(text)
    error = place.refused()
    assert error.details["file"] == str(place.root / "lookfar.toml")
    if "[[[" not in text:
        assert error.details["line"] == line
        assert f"line {line}" in error.message


def test_a_number_too_long_to_print_is_rejected(place: Place) -> None:
    place.project("[search]\ntop_k = 0x" + "f" * 20_000)
    assert "very large number" in place.refused().message
    place.project("[search]\ntop_k = " + "9" * 20_000)
    place.refused()


def test_a_byte_order_mark_is_accepted(place: Place) -> None:
    (place.root / "lookfar.toml").write_bytes(b"\xef\xbb\xbf[search]\r\ntop_k = 4\r\n")
    assert place.load().search.top_k == 4


def test_text_that_is_not_utf8_names_its_line(place: Place) -> None:
    (place.root / "lookfar.toml").write_bytes(b"[search]\n# \xff\n")
    assert place.refused().details["line"] == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_rejected_at_once(place: Place) -> None:
    os.mkfifo(place.root / "lookfar.toml")
    assert "not a regular file" in place.refused().message


def test_a_folder_a_link_and_a_huge_file_are_rejected(place: Place, tmp_path: Path) -> None:
    path = place.root / "lookfar.toml"
    path.mkdir()
    assert "not a regular file" in place.refused().message
    path.rmdir()
    (tmp_path / "elsewhere.toml").write_text("[search]\ntop_k = 4\n")
    path.symlink_to(tmp_path / "elsewhere.toml")
    assert "symbolic link" in place.refused().message
    path.unlink()
    path.write_text("#" * 300_000)
    assert "larger than" in place.refused().message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_forbidden_file_is_an_io_error(place: Place) -> None:
    place.project("")
    (place.root / "lookfar.toml").chmod(0)
    with pytest.raises(IOFailed):
        place.load()


def test_a_folder_without_access_is_named_and_not_a_file_in_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read all, so the system's answers are pretended."""

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_symlink", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(IOFailed) as raised:
        place.load()
    assert raised.value.message == f"Permission denied while reading {place.root}."


# --- unknown keys, wrong types, ranges --------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "suggestion"),
    [
        ("[chunk]\nmax_tokns = 5\n", "chunk.max_tokns", "chunk.max_tokens"),
        ("[chunks]\nmax_tokens = 5\n", "chunks", "chunk"),
        ("max_tokens = 5\n", "max_tokens", "chunk.max_tokens"),
        ("[search]\nworkers = 5\n", "search.workers", "index.workers"),
        ("persets = 'msrl'\n", "persets", "preset"),
        ("qqqqqqq = 1\n", "qqqqqqq", ""),
    ],
)
def test_unknown_keys(place: Place, text: str, key: str, suggestion: str) -> None:
    place.project(text)
    error = place.refused()
    assert error.code == "INVALID_CONFIG"
    assert error.details["key"] == key
    assert error.details["suggestion"] == suggestion
    assert error.details["file"] == str(place.root / "lookfar.toml")
    assert key in error.message
    assert suggestion in error.hint


def test_retired_settings_are_noted_and_change_nothing(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Fails if an upgrade makes the settings of an earlier version an error."""
    loading._note_retired.cache_clear()
    place.user("[search]\npage_share = 0.9\ntop_k = 4\n")
    place.project("[search]\nlink_lift = 7\n")
    settings = place.load({"search.verbatim": False}, LOOKFAR_SEARCH_NAME_BOOST="much")
    assert settings.search.top_k == 4
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 4
    for name, where in (
        ("search.page_share", str(place.user_file)),
        ("search.link_lift", "lookfar.toml"),
        ("search.verbatim", ""),
        ("search.name_boost", "LOOKFAR_SEARCH_NAME_BOOST"),
    ):
        (text,) = [text for text in texts if text.startswith(f"{name} ")]
        assert where in text
        assert text.endswith("no longer has an effect. You can remove it.")
    place.load({"search.verbatim": False}, LOOKFAR_SEARCH_NAME_BOOST="much")
    assert len(caplog.records) == 4, "noted once"


def test_retired_settings_are_not_settings(place: Place) -> None:
    assert not RETIRED & set(RULES)
    with pytest.raises(InvalidConfig, match="no longer has an effect"):
        config.check_key("search.page_share")


def test_boosts_are_a_setting(place: Place) -> None:
    assert place.load().search.boosts
    place.project("[search]\nboosts = false\n")
    assert not place.load().search.boosts


def test_unknown_explicit_keys(place: Place) -> None:
    assert place.refused({"search.topk": 5}).details["suggestion"] == "search.top_k"
    assert place.refused({"search": {"topk": 5}}).details["suggestion"] == "search.top_k"
    assert place.refused({"origin": {}}).details["layer"] == "explicit"


def test_a_section_is_not_a_value(place: Place) -> None:
    place.project("chunk = 5\n")
    assert "section" in place.refused().message


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("search.top_k", 0, "a whole number from 1 to 1000"),
        ("search.top_k", 1001, "a whole number from 1 to 1000"),
        ("search.top_k", "10", "a whole number"),
        ("search.top_k", True, "a whole number"),
        ("search.top_k", 5.0, "a whole number"),
        ("search.top_k", {"a": 1}, "a whole number"),
        ("search.vector_weight", 1.01, "a number from 0 to 1"),
        ("search.vector_weight", -0.01, "a number from 0 to 1"),
        ("search.vector_weight", float("nan"), "a number from 0 to 1"),
        ("search.vector_weight", 10**400, "a number from 0 to 1"),
        ("search.mode", "semantic", "hybrid, vector, keyword"),
        ("search.mode", 1, "hybrid, vector, keyword"),
        ("preset", "anvill", "anvil, msrl, search-mcp, document-db"),
        ("sources.include", "*.md", "a list"),
        ("sources.include", ["*.md", 5], "a list"),
        ("sources.exclude", [""], "a list"),
        ("sources.exclude", ["a\0b"], "a list"),
        ("sources.respect_ignore_files", 1, "true or false"),
        ("sources.respect_ignore_files", "true", "true or false"),
        ("sources.max_file_bytes", "many", "500KB or 1MB"),
        ("sources.max_file_bytes", "-1MB", "500KB or 1MB"),
        ("sources.max_file_bytes", "0", "500KB or 1MB"),
        ("sources.max_file_bytes", "9000GB", "500KB or 1MB"),
        ("embed.provider", "openai", "static, onnx, remote, hash, none"),
        ("embed.model", 5, "a path"),
        ("index.dir", "a\0b", "a path"),
    ],
)
def test_wrong_values_say_what_is_accepted(
    place: Place, key: str, value: object, accepted: str
) -> None:
    error = place.refused({key: value})
    assert accepted in error.hint
    assert key in error.message
    assert error.details["key"] == key
    assert len(error.message) < 200


@pytest.mark.parametrize(
    ("text", "size"),
    [("1MB", 1 << 20), ("500KB", 500 * 1024), ("0.5 mb", 1 << 19), ("12", 12), ("1GiB", 1 << 30)],
)
def test_sizes(place: Place, text: str, size: int) -> None:
    place.project(f'[sources]\nmax_file_bytes = "{text}"\n')
    assert place.load().sources.max_file_bytes == size
    assert place.load(LOOKFAR_SOURCES_MAX_FILE_BYTES=text).sources.max_file_bytes == size
    assert place.load({"sources.max_file_bytes": text}).sources.max_file_bytes == size


@given(
    key=st.sampled_from(sorted(EVERYTHING)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)
def test_any_value_is_accepted_or_rejected_with_a_hint(key: str, value: object) -> None:
    try:
        settings = load(None, {key: value}, {"HOME": "nowhere"})
    except InvalidConfig as error:
        named, hint = error.details["key"], error.hint
    else:
        assert type(config.as_dict(settings)[key]) is type(EVERYTHING[key].default)
        return
    assert named
    assert hint


# --- settings that belong together ------------------------------------------------------------


def test_unset_values_follow_those_that_are_set(place: Place) -> None:
    larger = place.load(LOOKFAR_CHUNK_MAX_TOKENS="800")
    assert (larger.chunk.max_tokens, larger.chunk.hard_max_tokens) == (800, 1067)
    assert larger.origin["chunk.hard_max_tokens"] == "derived"

    smaller = place.load({"preset": "msrl", "chunk.max_tokens": 40})
    assert (smaller.chunk.min_tokens, smaller.chunk.overlap_tokens) == (40, 10)
    assert smaller.chunk.part_tokens == smaller.chunk.max_tokens
    assert smaller.chunk.hard_max_tokens == 1200

    assert place.load({"chunk.hard_max_tokens": 300}).chunk.max_tokens == 300
    assert place.load({"chunk.min_tokens": 700}).chunk.max_tokens == 700
    assert place.load({"search.top_k": 900}).search.candidates == 900


def test_one_weight_decides_the_other(place: Place) -> None:
    settings = place.load({"search.vector_weight": 0.4})
    assert (settings.search.vector_weight, settings.search.keyword_weight) == (0.4, 0.6)
    settings = place.load({"search.keyword_weight": 1})
    assert (settings.search.vector_weight, settings.search.keyword_weight) == (0.0, 1.0)
    both = place.load({"search.vector_weight": 0.9, "search.keyword_weight": 0.9})
    assert (both.search.vector_weight, both.search.keyword_weight) == (0.9, 0.9)


@pytest.mark.parametrize(
    "explicit",
    [
        {"chunk.min_tokens": 500, "chunk.max_tokens": 400},
        {"chunk.max_tokens": 400, "chunk.hard_max_tokens": 300},
        {"chunk.min_tokens": 400, "chunk.hard_max_tokens": 300},
        {"chunk.max_tokens": 100, "chunk.overlap_tokens": 100},
        {"chunk.overlap_tokens": 5000},
        {"search.top_k": 50, "search.candidates": 49},
        {"search.vector_weight": 0, "search.keyword_weight": 0},
    ],
)
def test_contradictions_name_both_sides(place: Place, explicit: dict[str, object]) -> None:
    error = place.refused(explicit)
    assert "contradict" in error.message
    assert set(explicit) & set(error.details["keys"])
    assert "explicit" in error.details["layers"].values()


SIZES = st.none() | st.integers(0, 2000)


@given(st.fixed_dictionaries(dict.fromkeys(
    [f"chunk.{name}_tokens" for name in ("max", "hard_max", "min", "overlap")], SIZES
)), st.sampled_from(["", *PRESETS]))  # fmt: skip
def test_chunk_sizes_always_fit_together(sizes: dict[str, object], preset: str) -> None:
    try:
        chunk = load(None, {**sizes, "preset": preset}, {"HOME": "nowhere"}).chunk
    except InvalidConfig:
        assert sum(size is not None for size in sizes.values()) >= 1
        return
    assert chunk.min_tokens <= chunk.max_tokens <= chunk.hard_max_tokens
    assert chunk.overlap_tokens < chunk.max_tokens
    for key, size in sizes.items():
        assert size is None or getattr(chunk, key.removeprefix("chunk.")) == size


# --- presets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_gives_its_values_and_no_others(place: Place, name: str) -> None:
    settings = place.load({"preset": name})
    assert settings.preset == name
    assert settings.origin["preset"] == "explicit"
    resolved = config.as_dict(settings)
    assert {key: resolved[key] for key in PRESETS[name]} == PRESETS[name]
    others = set(settings.origin) - set(PRESETS[name]) - {"preset"}
    assert {settings.origin[key] for key in others} == {"default"}


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_would_pass_as_an_argument(place: Place, name: str) -> None:
    assert place.load(dict(PRESETS[name])).chunk == place.load({"preset": name}).chunk


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"document-db"}))
@pytest.mark.parametrize("chosen_by", ["preset", "serve.toolset"])
def test_a_folder_sets_nothing_trusted_by_a_preset(place: Place, name: str, chosen_by: str) -> None:
    """Seen to fail when a preset in a project's file set all its values."""
    value = name if chosen_by == "preset" else [name]
    section, _, key = chosen_by.rpartition(".")
    place.project(f"{f'[{section}]' if section else ''}\n{key} = {json.dumps(value)}\n")
    settings = place.load()
    assert settings.preset == name
    assert {settings.origin[key] for key in TRUSTED} == {"default"}
    by_user = place.load({chosen_by: name if chosen_by == "preset" else (name,)})
    trusted = TRUSTED & set(PRESETS[name])
    assert {by_user.origin[key] for key in trusted} <= {"preset"}


def test_presets_have_the_sizes_of_their_systems(place: Place) -> None:
    def sizes(name: str) -> tuple[int, int, int, int]:
        chunk = place.load({"preset": name}).chunk
        return chunk.max_tokens, chunk.hard_max_tokens, chunk.min_tokens, chunk.overlap_tokens

    assert sizes("anvil") == (6000 // 4, 6000 // 4, 200 // 4, 0)
    assert sizes("msrl") == (1000, 1200, 200, 100)
    assert sizes("search-mcp")[0::3] == (2000, 500)
    code = place.load({"preset": "search-mcp"}).chunk
    assert (code.code_max_tokens * 4, code.code_overlap_tokens * 4) == (4000, 800)
    assert sizes("document-db")[0::3] == (700 // 4, 100 // 4)
    inserted = place.load().documents
    assert (inserted.chunk_chars, inserted.overlap_chars, inserted.max_chars) == (700, 100, 100_000)
    assert place.load({"documents.chunk_chars": 80}).documents.overlap_chars == 20


def test_the_strongest_layer_names_the_preset_and_any_file_overrides_it(place: Place) -> None:
    place.user('preset = "anvil"\n[chunk]\nmin_tokens = 33\n')
    place.project('preset = "msrl"\n')
    assert place.load().chunk.overlap_tokens == 100
    assert place.load().chunk.min_tokens == 33
    assert place.load(LOOKFAR_PRESET="search-mcp").chunk.overlap_tokens == 500
    assert place.load({"preset": ""}).chunk.overlap_tokens == 0


# --- a project's own file is not trusted ------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("index.dir", '"here"', "here"),
        ("index.dir", '""', ""),
        ("embed.provider", '"none"', "none"),
        ("embed.model", '"model.bin"', "model.bin"),
        ("store.url", '"postgresql://me@db/x"', "postgresql://me@db/x"),
        ("store.read_only", "true", True),
        ("sources.allow_hard_links", "true", True),
        ("sources.allow_hard_links", "false", False),
    ],
)
def test_a_project_file_may_not_set_trusted_settings(
    place: Place, key: str, written: str, value: object
) -> None:
    section, name = key.split(".")
    text = f"[{section}]\n{name} = {written}\n"
    place.project(text)
    error = place.refused()
    assert key in error.message
    assert error.details["file"] == str(place.root / "lookfar.toml")
    for allowed in ("your own configuration file", EVERYTHING[key].variable, "argument"):
        assert allowed in error.hint

    (place.root / "lookfar.toml").unlink()
    place.user(text)
    assert place.load().origin[key] == "user"
    assert place.load({key: value}).origin[key] == "explicit"
    assert place.load(**{EVERYTHING[key].variable: str(value)}).origin[key] == "environment"


def test_the_table_marks_trusted_settings() -> None:
    assert {doc.key for doc in describe() if not doc.project_file} == TRUSTED


def test_every_path_setting_is_trusted() -> None:
    for key, rule in RULES.items():
        assert not rule.location or rule.trusted, key


@pytest.mark.parametrize(
    "text",
    [
        '"index.dir" = "x"',
        'index.dir = "x"',
        'index = { dir = "x" }',
        '[index]\n"dir" = "x"',
        '["index"]\ndir = "x"',
        '[index]\n"d\\u0069r" = "x"',
    ],
)
def test_no_toml_spelling_bypasses_trust(place: Place, text: str) -> None:
    place.project(text)
    assert "index.dir" in place.refused().message


@pytest.mark.parametrize("key", ["include", "exclude"])
@pytest.mark.parametrize(
    "pattern",
    [
        "/etc/**",
        "//server/share",
        "../other/**",
        "docs/../../other",
        "docs/..",
        "..",
        "!../x",
        "~/secrets",
        "~root/x",
        "C:/Users/**",
        "c:secret",
        "\\\\server\\share",
        "..\\x",
        "docs\\..\\..\\x",
        " /etc",
        "{..,a}/x",
        "{a,../b}/x",
        "@(..|a)/x",
    ],
)
def test_patterns_stay_inside_the_project(place: Place, key: str, pattern: str) -> None:
    place.project(f"[sources]\n{key} = ['docs/**', '''{pattern}''']\n")
    error = place.refused()
    assert "outside the project" in error.message
    assert "your own configuration file" in error.hint
    (place.root / "lookfar.toml").unlink()
    assert place.load({f"sources.{key}": [pattern]}).origin[f"sources.{key}"] == "explicit"


@pytest.mark.parametrize(
    "pattern", ["docs/**", "*.md", "a..b", "...", "!drafts/*", "x~", "[a-c]:d"]
)
def test_ordinary_patterns_pass(place: Place, pattern: str) -> None:
    place.project(f"[sources]\ninclude = ['{pattern}']\n")
    assert place.load().sources.include == (pattern,)


# --- places -----------------------------------------------------------------------------------


def at(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)


def test_places_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    at("linux", monkeypatch)
    env = {"HOME": "/home/ann"}
    assert config.data_dir(env) == Path("/home/ann/.local/share/lookfar")
    assert config.config_file(env) == Path("/home/ann/.config/lookfar/config.toml")
    env |= {"XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "/conf"}
    assert config.data_dir(env) == Path("/data/lookfar")
    assert config.config_file(env) == Path("/conf/lookfar/config.toml")
    env |= {"XDG_DATA_HOME": "relative", "XDG_CONFIG_HOME": ""}
    assert config.data_dir(env) == Path("/home/ann/.local/share/lookfar")
    assert config.config_file(env) == Path("/home/ann/.config/lookfar/config.toml")


def test_places_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    at("darwin", monkeypatch)
    folder = Path("/Users/ann/Library/Application Support/lookfar")
    assert config.data_dir({"HOME": "/Users/ann", "XDG_DATA_HOME": "/data"}) == folder
    assert config.config_file({"HOME": "/Users/ann"}) == folder / "config.toml"


def test_places_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    at("win32", monkeypatch)
    env = {"USERPROFILE": "C:/Users/ann"}
    assert config.data_dir(env) == Path("C:/Users/ann/AppData/Local/lookfar")
    assert config.config_file(env) == Path("C:/Users/ann/AppData/Roaming/lookfar/config.toml")
    env |= {"LOCALAPPDATA": "D:/local", "APPDATA": "D:/roaming"}
    assert config.data_dir(env) == Path("D:/local/lookfar")
    assert config.config_file(env) == Path("D:/roaming/lookfar/config.toml")


def test_home_is_known_without_variables() -> None:
    assert config.data_dir({}).is_absolute()


def test_each_project_has_a_folder_for_memories(place: Place, tmp_path: Path) -> None:
    """Each project has its own unless one is set for all; an empty path counts as not set."""

    def folder(root: Path, **chosen: object) -> Path:
        given = {f"memory.{key}": value for key, value in chosen.items()}
        return config.memory_folder(place.load(given), root)

    one, two = tmp_path / "a" / "Docs", tmp_path / "b" / "Docs"
    ours = config.data_dir(place.env) / "memory"
    assert folder(one).parent == folder(two).parent == ours
    assert folder(one).name.startswith("docs-")
    assert folder(one) != folder(two)
    assert folder(one, dir="") == folder(one)
    assert folder(one, scope="user") == folder(two, scope="user") == ours / "user"
    assert folder(one, in_project=True) == one / ".lookfar" / "memory"
    assert folder(one, dir=str(tmp_path / "all")) == tmp_path / "all"
    pattern = str(tmp_path / "{project}" / "notes")
    assert folder(one, dir=pattern) == tmp_path / folder(one).name / "notes"


def test_index_dir_is_resolved(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert place.load().index.dir == str(config.data_dir(place.env))
    assert place.load().origin["index.dir"] == "default"

    monkeypatch.chdir(tmp_path)
    assert place.load({"index.dir": "idx"}).index.dir == str(tmp_path / "idx")
    assert place.load({"index.dir": Path("idx")}).index.dir == str(tmp_path / "idx")
    assert place.load(LOOKFAR_INDEX_DIR="~/idx").index.dir == str(place.home / "idx")
    place.user('[index]\ndir = "idx"\n[embed]\nmodel = "m.bin"\n')
    assert place.load().index.dir == str(place.user_file.parent / "idx")
    assert place.load().embed.model == str(place.user_file.parent / "m.bin")


# --- the reference ----------------------------------------------------------------------------


def test_every_setting_is_described() -> None:
    for doc in describe():
        assert doc.description.endswith(".")
        assert "\n" not in doc.description
        assert len(doc.description) < 90
        assert doc.range or doc.choices or doc.type in ("text", "path", "list", "boolean")
        if doc.range:
            assert isinstance(doc.default, (int, float))
            assert doc.range[0] <= doc.default <= doc.range[1]
        if doc.choices:
            assert doc.default in doc.choices


def test_the_reference_lists_preset_values() -> None:
    assert EVERYTHING["chunk.overlap_tokens"].presets == {
        "msrl": 100,
        "search-mcp": 500,
        "document-db": 25,
        "ragdocs": 12,
    }
    assert EVERYTHING["search.rrf_k"].presets == {}
    assert EVERYTHING["search.merge_gap"].presets == {"search-mcp": -1}
    for values in PRESETS.values():
        assert set(values) <= set(EVERYTHING)


def test_the_reference_lists_types() -> None:
    assert EVERYTHING["sources.max_file_bytes"].type == "size"
    assert EVERYTHING["search.vector_weight"].type == "number"
    assert EVERYTHING["search.top_k"].range == (1, 1000)
    assert EVERYTHING["preset"].variable == "LOOKFAR_PRESET"


def test_import_and_load_without_files_are_light(place: Place) -> None:
    program = (
        "import sys; from lookfar.config import load; load(None, environ={'HOME': sys.argv[1]});"
        "print([m for m in ('tomllib', 'difflib', 'click', 'numpy', 'json') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, str(place.home)],
        env={**os.environ, "PYTHONPATH": str(Path(config.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == "[]"


# --- models -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "named"),
    [
        ("onnx", "BAAI/bge-m3", True),
        ("onnx", "intfloat/multilingual-e5-small@v1.0", True),
        ("onnx", "./models/mine", False),
        ("onnx", "models/mine/deeper", False),
        ("onnx", "mine", False),
        ("remote", "text-embedding-3-small", True),
        ("remote", "library/nomic-embed-text:latest", True),
        ("static", "models/mine", False),
    ],
)
def test_a_model_setting_is_a_path_or_a_name(
    place: Place, provider: str, model: str, named: bool
) -> None:
    resolved = place.load({"embed.provider": provider, "embed.model": model}).embed.model
    assert (resolved == model) is named
    assert os.path.isabs(resolved) is not named


def test_a_second_model_is_named_by_its_own_provider(place: Place) -> None:
    chosen = {"embed.provider": "static", "embed.code_provider": "remote", "embed.code_model": "m"}
    assert place.load(chosen).embed.code_model == "m"
    alike = {"embed.provider": "onnx", "embed.model": "a/b", "embed.code_model": "c/d"}
    assert place.load(alike).embed.code_model == "c/d"


@pytest.mark.parametrize(
    "address", ["ftp://host", "host/v1", "https://a@b/v1", "https://host/v1?key=secret", ""]
)
def test_an_address_with_a_key_is_rejected_and_not_shown(place: Place, address: str) -> None:
    for key in ("embed.base_url", "embed.hub"):
        with pytest.raises(InvalidConfig, match=key) as raised:
            place.load({key: address})
        assert not address or address not in str(raised.value.as_dict())


def test_a_secret_is_read_from_the_environment() -> None:
    assert config.read_secret("MY_KEY", {"MY_KEY": " abc\n"}) == "abc"
    assert config.read_secret("MY_KEY", {}) == ""


def test_relative_paths_start_at_the_callers_folder(place: Place, tmp_path: Path) -> None:
    """A daemon runs in another folder. Seen to fail by creating indexes in the root folder."""
    settings = place.load({"index.dir": "mine"}, PWD=str(tmp_path), LOOKFAR_DOCUMENTS_DIR="./texts")
    assert settings.index.dir == str(tmp_path / "mine")
    assert settings.documents.dir == str(tmp_path / "texts")


def test_one_variable_moves_all_data(place: Place, tmp_path: Path) -> None:
    data = tmp_path / "volume"
    env = place.env | {"LOOKFAR_DATA_DIR": str(data)}
    settings = config.load(place.root, environ=env)
    assert settings.index.dir == str(data)
    assert config.tokens_file(settings.serve, env) == data / "tokens.json"
    assert config.memory_folder(settings, place.root).is_relative_to(data / "memory")
    assert settings.documents.dir == str(data / "documents")
    assert settings.embed.models_dir == str(data / "models")
    # A setting of one kind wins, so that a container with LOOKFAR_INDEX_DIR keeps its indexes.
    elsewhere = config.load(place.root, environ=env | {"LOOKFAR_INDEX_DIR": str(tmp_path / "old")})
    assert elsewhere.index.dir == str(tmp_path / "old")
    assert elsewhere.documents.dir == str(data / "documents")


def test_the_data_folder_may_be_relative_or_below_home(place: Place) -> None:
    below_home = place.env | {"LOOKFAR_DATA_DIR": "~/data"}
    assert config.data_dir(below_home) == place.home / "data"
    assert config.data_dir(place.env | {"LOOKFAR_DATA_DIR": "data"}) == Path.cwd() / "data"
    assert config.data_dir(place.env | {"LOOKFAR_DATA_DIR": ""}) == config.data_dir(place.env)

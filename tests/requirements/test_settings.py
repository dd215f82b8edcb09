"""The figures of the specs that are settings here: presets, defaults and ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar import config
from lookfar.errors import InvalidConfig


def settings(tmp_path: Path, **explicit: object) -> config.Settings:
    return config.load(tmp_path, {k.replace("__", "."): v for k, v in explicit.items()}, {})


def value(loaded: config.Settings, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(loaded, section), name)


@pytest.mark.parametrize(
    ("preset", "key", "expected"),
    [
        ("anvil", "watch.debounce_ms", 300),
        ("msrl", "search.vector_weight", 0.75),
        ("msrl", "search.keyword_weight", 0.25),
        ("msrl", "search.top_k", 8),
        ("msrl", "search.max_excerpt_chars", 4000),
        ("msrl", "search.merge_gap", 200),
        ("msrl", "index.retain_generations", 3),
        ("msrl", "watch.debounce_ms", 2000),
        ("msrl", "watch.enabled", True),
        ("search-mcp", "sources.max_file_bytes", 1 << 20),
        ("search-mcp", "sources.max_files", 50_000),
        ("search-mcp", "sources.max_depth", 20),
        ("search-mcp", "sources.respect_ignore_files", True),
        ("search-mcp", "search.vector_weight", 0.5),
        ("search-mcp", "search.top_k", 10),
        ("search-mcp", "index.check_every_searches", 10),
        ("search-mcp", "index.max_auto_files", 5),
        ("search-mcp", "watch.debounce_ms", 500),
        ("search-mcp", "watch.strategy", "realtime"),
        ("document-db", "search.top_k", 10),
    ],
)
def test_a_preset_has_the_figure_of_its_spec(
    tmp_path: Path, preset: str, key: str, expected: object
) -> None:
    """Protects against a figure that drifts from its spec while the table of presets agrees."""
    assert value(settings(tmp_path, preset=preset), key) == expected


@pytest.mark.parametrize(
    ("key", "accepted", "refused"),
    [
        ("watch.debounce_ms", (250, 30_000), (249, 30_001)),
        ("index.retain_generations", (1,), (0,)),
        ("search.vector_weight", (0.0, 1.0), (-0.1, 1.1)),
        ("watch.reconcile_seconds", (0, 86_400), (-1, 86_401)),
    ],
)
def test_a_range_is_that_of_the_spec(
    tmp_path: Path, key: str, accepted: tuple[object, ...], refused: tuple[object, ...]
) -> None:
    """Protects the ends of each range: the last good value passes, the next one does not."""
    for good in accepted:
        assert value(config.load(tmp_path, {key: good}, {}), key) == good
    for bad in refused:
        with pytest.raises(InvalidConfig):
            config.load(tmp_path, {key: bad}, {})

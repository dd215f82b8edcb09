"""Memory left in control groups, read from trees of files like the kernel's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lookfar.errors import OutOfMemory
from lookfar.store.ground.headroom import ControlGroups, require_memory

GIGABYTE = 1_000_000_000


def groups_of(tmp_path: Path, listing: str, files: Mapping[str, object]) -> ControlGroups:
    """Control groups described by these files, without caching."""
    (tmp_path / "cgroup").write_text(listing)
    for name, content in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    ticks = iter(range(1_000))
    return ControlGroups(
        tmp_path / "cgroup", tmp_path / "mount", tmp_path / "vmstat", lambda: float(next(ticks))
    )


def test_the_tightest_group_counts(tmp_path: Path) -> None:
    """Seen to fail when only the process's own group was looked at."""
    groups = groups_of(
        tmp_path,
        "0::/slice/pod/box\n",
        {
            "slice/pod/box/memory.max": "max",
            "slice/pod/box/memory.current": 100,
            "slice/pod/memory.max": GIGABYTE,
            "slice/pod/memory.current": 700_000_000,
            "slice/memory.max": 2 * GIGABYTE,
            "slice/memory.current": 800_000_000,
        },
    )
    assert groups.left() == 300_000_000
    require_memory(1, groups)
    (tmp_path / "mount/slice/pod/memory.current").write_text("990000000\n")
    with pytest.raises(OutOfMemory) as refused:
        require_memory(1, groups)
    assert "control group" in refused.value.developer


def test_the_file_cache_counts_as_free(tmp_path: Path) -> None:
    """Seen to fail when the cache counted as taken: a long pass fills all of a group with it."""
    groups = groups_of(
        tmp_path,
        "0::/\n",
        {
            "memory.max": GIGABYTE,
            "memory.current": GIGABYTE,
            "memory.stat": "anon 300000000\ninactive_file 500000000\nactive_file 200000000",
        },
    )
    assert groups.left() == 700_000_000


def test_control_groups_version_1(tmp_path: Path) -> None:
    """Seen to fail without the names of the first version."""
    listing = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n"
    groups = groups_of(
        tmp_path,
        listing,
        {
            "memory/memory.limit_in_bytes": 9_223_372_036_854_771_712,
            "memory/memory.usage_in_bytes": 5 * GIGABYTE,
            "memory/docker/abc/memory.limit_in_bytes": GIGABYTE,
            "memory/docker/abc/memory.usage_in_bytes": 900_000_000,
            "memory/docker/abc/memory.stat": "inactive_file 7\ntotal_inactive_file 400000000",
            "memory/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
        },
    )
    assert groups.left() == 500_000_000
    assert groups.kills() == 2


def test_a_container_sees_its_own_group_as_the_top(tmp_path: Path) -> None:
    """Seen to fail when a path that is not mounted ended the search."""
    files = {"memory.max": GIGABYTE, "memory.current": 0, "memory.events": "oom 3\noom_kill 1"}
    for number, path in enumerate(("/kubepods/pod1", "/../outside")):
        folder = tmp_path / str(number)
        folder.mkdir()
        groups = groups_of(folder, f"0::{path}\n", files)
        assert groups.left() == GIGABYTE
        assert groups.kills() == 1


@pytest.mark.parametrize(
    "listing", ["", "nonsense", "0::/\n", "4:memory:/\n", "::::\n", "0::" + "/a" * 500 + "\n"]
)
def test_without_limits_nothing_is_refused(tmp_path: Path, listing: str) -> None:
    groups = groups_of(tmp_path, listing, {"memory.max": "max", "memory.current": "lots"})
    assert groups.left() is None
    assert groups.kills() == 0
    require_memory(1, groups)


def test_a_reading_is_reused_for_a_moment(tmp_path: Path) -> None:
    """A pass checks for every document. Seen to fail when every question read the files."""
    now = [0.0]
    groups_of(tmp_path, "0::/\n", {"memory.max": GIGABYTE, "memory.current": 0})
    listing, mount = tmp_path / "cgroup", tmp_path / "mount"
    groups = ControlGroups(listing, mount, tmp_path / "vmstat", lambda: now[0])
    assert groups.left() == GIGABYTE
    (mount / "memory.current").write_text("400000000\n")
    assert groups.left() == GIGABYTE
    now[0] = 1.0
    assert groups.left() == 600_000_000

"""A pass looks for garbage seldom, and leaves the process as it was."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from lookfar.common.garbage import collecting_seldom


@pytest.mark.parametrize("before", [(700, 10, 10), (90_000, 30, 10)])
def test_garbage_is_looked_for_seldom_until_a_pass_ends(before: tuple[int, int, int]) -> None:
    usual = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with suppress(RuntimeError), collecting_seldom():
            during = gc.get_threshold()
            raise RuntimeError
        assert gc.get_threshold() == before
        assert all(now >= then for now, then in zip(during, before, strict=True))
        assert during[0] >= 50_000
    finally:
        gc.set_threshold(*usual)


def test_the_last_of_several_at_once_restores_the_thresholds() -> None:
    """Seen to fail if each restores what it found: the second found those of the first."""
    usual = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        first, second = collecting_seldom(), collecting_seldom()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert gc.get_threshold()[0] >= 50_000
        second.__exit__(None, None, None)
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*usual)


def test_a_collector_that_is_off_stays_off() -> None:
    usual = gc.get_threshold()
    try:
        gc.set_threshold(0)
        with collecting_seldom():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)

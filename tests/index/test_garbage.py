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

"""A folder with a short name, for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="lf")
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)

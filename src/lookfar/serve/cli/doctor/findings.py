"""What a check of ``lookfar doctor`` examines, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lookfar.serve.cli.options import quote

if TYPE_CHECKING:
    from lookfar.library import Library

State = Literal["ok", "warning", "error", "fixed"]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    message: str
    fix: str = ""
    """What the user can do about it; empty if nothing needs to be done."""
    mend: Callable[[], object] | None = field(default=None, compare=False)
    """Applies the fix, where that is safe."""

    @property
    def fixable(self) -> bool:
        """Whether ``--fix`` can apply the fix."""
        return self.mend is not None


class Subject:
    def __init__(self, path: str, index_dir: str | None, settings: dict[str, Any]) -> None:
        self.path = path
        self._index_dir = index_dir
        self._settings = settings

    @cached_property
    def library(self) -> Library:
        from lookfar.library import Library

        return Library.open(self.path, index_dir=self._index_dir, settings=self._settings)

    @property
    def shell_path(self) -> str:
        """The path as an argument of a suggested command."""
        return quote(self.path)

    @property
    def index_home(self) -> Path:
        return Path(self.library.settings.index.dir)

    def close(self) -> None:
        if "library" in self.__dict__:
            self.library.close()

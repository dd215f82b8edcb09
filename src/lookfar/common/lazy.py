"""Import a module when it is first used, for modules that many calls do not need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Has the attributes of a module, which is imported for the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)

"""Frozen data as plain JSON and back, for the two ends of a socket.

Takes: the dataclasses of :mod:`lookfar.model`. Gives: dicts, lists and scalars, and from
those the same objects again. Refuses: what JSON cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    return value


def from_plain(kind: type[T], value: Any) -> T:
    """An object of ``kind`` from what :func:`to_plain` made of one."""
    made: T = _made(kind, value)
    return made


def _made(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: _made(hints[name], each) for name, each in value.items()})
    if origin in (Union, UnionType):
        one = next((each for each in inner if each is not type(None)), Any)
        return None if value is None else _made(one, value)
    if origin is tuple:
        several = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(_made(each, item) for each, item in zip(several, value, strict=True))
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {key: _made(inner[1], each) for key, each in value.items()}
    return value

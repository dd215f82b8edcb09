"""Convert the dataclasses of :mod:`lookfar.model` to plain JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Convert a value to dicts, lists and scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: Any) -> T:
    """Rebuild an object of type ``kind`` from the output of :func:`to_plain`."""
    result: T = _convert(kind, value)
    return result


def _convert(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: _convert(hints[name], item) for name, item in value.items()})
    if origin in (Union, UnionType):
        inner = next((member for member in arguments if member is not type(None)), Any)
        return None if value is None else _convert(inner, value)
    if origin is tuple:
        types = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(
            _convert(item_type, item) for item_type, item in zip(types, value, strict=True)
        )
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {key: _convert(arguments[1], item) for key, item in value.items()}
    return value

"""The public interface of Lookfar: open folders and databases, search, read and edit them."""

from lookfar.library.facade import Library

__all__ = ["Library"]

"""The vocabulary of Lookfar as frozen data, with no behaviour and no I/O.

All offsets count characters of the *normalised text* of a document (UTF-8 decoded, no
byte-order mark, ``\\n`` line ends, one final newline). Lines count from 1 and both ends are
inclusive; offsets are half-open.
"""

# ruff: noqa: F403 - every name of these modules is part of the vocabulary.

from __future__ import annotations

from lookfar.model.answers import *
from lookfar.model.code import *
from lookfar.model.documents import *
from lookfar.model.editing import *
from lookfar.model.outside import *
from lookfar.model.reading import *
from lookfar.model.status import *

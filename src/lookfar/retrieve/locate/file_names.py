"""Recognise paths: questions that are the name of a file, tests, and marginal files."""

from __future__ import annotations

import re

_LINES = re.compile(r":\d+(?:-\d+)?$")
_LIKE_A_PATH = re.compile(r"\S*[^\s./_-][/._-]\S+")
_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|specs?|testdata|fixtures?|__mocks__)/"
    r"|(?:^|/)test_[^/]+\.py$|[._-](?:test|spec)\.[^/]+$|_test\.[^/]+$|_spec\.rb$"
    r"|[a-z]Tests?\.(?:java|cs|kt|swift|scala|php)$"
)
_MARGINS = re.compile(
    r"(?:^|/)(?:examples?|samples?|demos?|bench(?:es|marks?)?|docs?|legacy|deprecated|compat"
    r"|vendor|third_party|node_modules|dist|generated|locales?)/"
    r"|\.d\.ts$|\.min\.js$|_compat\.[^/]+$|\.generated\.[^/]+$|_pb2?\.[^/]+$"
)
_CHANGELOG = re.compile(
    r"(?:^|/)(?:changes|change-?logs?|history|news|release[-_ ]?notes|what'?s[-_ ]?new)"
    r"(?:[./_-]|$)",
    re.IGNORECASE,
)

_INNER = frozenset(("internal", "_internal", "internals", "_internals", "private", "_private"))
"""Folders whose code a package keeps for itself, by the conventions of its language."""
_EARLIER = re.compile(r"v(\d+)")
_PACKAGE = re.compile(r"-v?(\d+)\.[^@]*@(?:pypi|npm|crates|go|maven)$")


def extract_path(text: str) -> str:
    """Return the path that a question consists of, without line numbers, or an empty string."""
    path = _LINES.sub("", text.strip()).removeprefix("./").strip("/")
    return path if _LIKE_A_PATH.fullmatch(path) else ""


def matches_path_end(uri: str, path: str) -> bool:
    """Return whether ``uri`` ends in ``path``, with or without its file extension."""
    whole, asked = f"/{uri}".casefold(), f"/{path}".casefold()
    return whole.endswith(asked) or whole.rpartition(".")[0].endswith(asked)


def is_test(uri: str) -> bool:
    """Return whether a path belongs to a test or its fixtures."""
    return _TESTS.search(uri) is not None


def is_marginal(uri: str) -> bool:
    """Return whether a path belongs to an example, generated code or the like."""
    return _MARGINS.search(uri) is not None


def is_changelog(uri: str) -> bool:
    """Return whether a path belongs to a list of changes."""
    return _CHANGELOG.search(uri) is not None


def is_aside(uri: str) -> bool:
    """Return whether other code should be shown before this file."""
    return is_test(uri) or is_marginal(uri)


def find_major_version(collection: str) -> int | None:
    """Return the major version of the package that a collection holds, or None."""
    match = _PACKAGE.search(collection)
    return int(match[1]) if match else None


def find_inner_folder(uri: str, major: int) -> str:
    """Return the folder of a package that makes a file secondary, or an empty string.

    That is a folder of internal code, or one named after a major version before ``major``, in
    which packages keep an earlier API.
    """
    for folder in uri.lower().split("/")[:-1]:
        earlier = _EARLIER.fullmatch(folder)
        # A number too long for a version is not one.
        if folder in _INNER or (earlier and len(folder) < 5 and int(earlier[1]) < major):
            return folder
    return ""

"""Explain why a path is indexed or skipped: the deciding rule, and where it is defined.

Applies the rules of the walk in their order, from the root down to the path. Links are not
followed, and nothing inside a skipped folder is read. A path that does not exist is judged by
its name and the build files beside its parents.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from functools import partial
from typing import Final

from lookfar.errors import LookfarError
from lookfar.model import Ruling
from lookfar.sources.confine import Refused, Root, close_folder, components, lstat_in
from lookfar.sources.fingerprints import NOT_TEXT, is_binary
from lookfar.sources.folder.build_output import find_evidence
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.folder.policy import DEFAULT_EXCLUDE, Policy, Verdict, read_extension
from lookfar.sources.folder.walk import load_rules

BUILT_IN: Final = "built in"
_PLACES: Final = {
    "denied": BUILT_IN,
    "excluded": "sources.exclude",
    "binary": BUILT_IN,
    "not_included": "sources.include",
    "too_deep": "sources.max_depth",
    "too_large": "sources.max_file_bytes",
    "hard_link": "sources.allow_hard_links",
    "symlink": BUILT_IN,
    "not_a_file": BUILT_IN,
    "gone": "",
    "no_parser": BUILT_IN,
    "secret": BUILT_IN,
    "masked": BUILT_IN,
}


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def why(
    root: Root,
    policy: Policy,
    uri: str,
    *,
    understood: bool,
    decode: Callable[[bytes], str] = _decode,
) -> Ruling:
    """Return the rule that decides on ``uri``.

    ``understood`` says whether a parser knows its format; ``decode`` returns the text for it.
    """
    parts = components(uri)
    ignores: Ignores | None = None
    for depth in range(len(parts)):
        inside = "/".join(parts[:depth])
        ignores, verdict = load_rules(root, policy, inside)
        here = "/".join(parts[: depth + 1])
        kind = _kind(root, here)
        last = depth == len(parts) - 1
        if verdict is None and not last and depth >= policy.max_depth:
            verdict = Verdict("too_deep", f"limit {policy.max_depth}")
        if verdict is None:
            is_dir = not last or stat.S_ISDIR(kind or 0)
            evidence = partial(find_evidence, root)
            verdict = policy.judge(here, parts[depth], is_dir, ignores, evidence)
        if verdict is not None:
            return _refused(uri, here, verdict)
        if kind is not None and stat.S_ISLNK(kind):
            return _refused(uri, here, Verdict("symlink", "links are not followed"))
        if kind is not None and not last and not stat.S_ISDIR(kind):
            return _refused(uri, here, Verdict("gone", "this is not a folder"))
    kind = _kind(root, uri)
    if kind is not None and stat.S_ISDIR(kind):
        return _admitted(uri, parts[-1], True, policy, ignores)
    admitted = _admitted(uri, parts[-1], False, policy, ignores)
    return _by_content(root, policy, uri, understood, decode) or admitted


def _kind(root: Root, uri: str) -> int | None:
    """Return the mode of an entry without following links; None if it does not exist."""
    *folders, name = components(uri)
    try:
        handle = root.open_folder("/".join(folders))
    except (Refused, OSError):
        return None
    try:
        return lstat_in(handle, name).st_mode
    except OSError:
        return None
    finally:
        close_folder(handle)


def _by_content(
    root: Root, policy: Policy, uri: str, understood: bool, decode: Callable[[bytes], str]
) -> Ruling | None:
    """Return a ruling if the content of a file excludes it or parts of it."""
    try:
        raw, _ = root.read(uri, policy.size_limit(uri))
    except Refused as refusal:
        detail = refusal.detail or ("no such file" if refusal.reason == "gone" else "")
        return _refused(uri, uri, Verdict(refusal.reason, detail))
    except LookfarError as error:
        return _refused(uri, uri, Verdict("unreadable", error.message))
    if read_extension(uri) in policy.extracted:
        return None
    if not understood and not policy.any_text:
        return _refused(uri, uri, Verdict("no_parser", "no known format has this name"))
    if is_binary(raw, known=understood):
        return _refused(uri, uri, Verdict("binary", NOT_TEXT))
    screened = policy.secrets.screen(uri, decode(raw))
    if screened.refused:
        return _refused(uri, uri, Verdict("secret", screened.refused))
    if screened.findings:
        lines = screened.masked_lines().items()
        rule = "; ".join(f"{rule} on line {numbers}" for rule, numbers in lines)
        return Ruling(uri, True, "masked", rule, BUILT_IN, uri)
    return None


def _refused(uri: str, decided: str, verdict: Verdict) -> Ruling:
    rule, place = verdict.rule, _PLACES.get(verdict.reason, "")
    if verdict.reason == "ignored":
        place, line = _place_and_line(rule)
        rule = line
    elif verdict.reason == "excluded" and rule in DEFAULT_EXCLUDE:
        place = BUILT_IN
    return Ruling(uri, False, verdict.reason, rule, place, decided)


def _admitted(uri: str, name: str, is_dir: bool, policy: Policy, ignores: Ignores | None) -> Ruling:
    """Return the ruling for an admitted path, with the rule that includes it, if any."""
    decision = ignores.find_decision(uri, name, is_dir) if ignores is not None else None
    if decision is not None:
        place, line = _place_and_line(decision[1])
        return Ruling(uri, True, "not_ignored", line, place, uri)
    glob = policy.find_include(uri) if not is_dir else None
    if glob is not None:
        return Ruling(uri, True, "included", glob, "sources.include", uri)
    return Ruling(uri, True, "admitted", "", "", uri)


def _place_and_line(rule: str) -> tuple[str, str]:
    """Split ``file:line: text`` into location and text."""
    place, _, line = rule.partition(": ")
    return place, line

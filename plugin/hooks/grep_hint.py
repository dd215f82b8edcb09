"""The hook ``lookfar grep-hint``: after a grep that found nothing, tell Claude Code of Lookfar.

It reads the event of a hook (``PostToolUse`` of ``Grep`` or ``Bash``) and prints advice for the
model, or nothing. It never blocks a tool and never fails. Nothing is imported that takes time,
because it runs after each command; the plugin has a copy of this file, which runs without Lookfar.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

_GREPS = r"(?:rg|[ef]?grep|git\s+grep|ag|ack)"
_FILES = re.compile(rf"(?:^|[;&(\n]|\|\|)\s*(?:\w+=\S*\s+)*{_GREPS}\s(?P<rest>[^\n]*)")
"""A grep over files; one after ``|`` only filters what another program prints."""
_SILENT = re.compile(
    r"\s(?:-\w*[qL]\w*|--quiet|--silent|--files)(?=\s|$)|(?<![\d&])>(?!&)|&>|\s&\s*$"
)
"""Options and redirections with which a grep prints nothing, or not what it found."""
_WITH_VALUE = re.compile(r"-(?:[ABCdDfgmMtT]|-(?:glob|type|include|exclude|context|max-count))")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_MOST_WORDS = 8


def main() -> None:
    """Answer the event on stdin."""
    print_hint(read_hint(sys.stdin.read()))


def print_hint(hint: str) -> None:
    if hint:
        context = {"hookEventName": "PostToolUse", "additionalContext": hint}
        sys.stdout.write(json.dumps({"hookSpecificOutput": context}) + "\n")


def read_hint(text: str) -> str:
    """Return the advice for an event; empty if it is not a grep that found nothing."""
    try:
        event = json.loads(text)
        tool, given, response = event["tool_name"], event["tool_input"], event["tool_response"]
        if tool == "Grep" and _is_empty(response):
            return _advise(str(given.get("pattern", "")))
        if tool == "Bash" and _is_empty(response):
            command = str(given.get("command", ""))
            grep = _FILES.search(command)
            if grep is not None and not _SILENT.search(command.replace("2>/dev/null", "")):
                return _advise(_find_pattern(grep["rest"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # The event of another version: no advice is better than a wrong one.
    return ""


def _is_empty(response: Any) -> bool:
    """Return whether a grep that came to its end found nothing."""
    if isinstance(response, str):
        return response.strip() in ("", "No files found", "No matches found")
    if response.get("interrupted") or response.get("backgroundTaskId"):
        return False
    keys = ("filenames", "numFiles", "numLines", "numMatches", "stderr")
    texts = (response.get("stdout") or "", response.get("content") or "")
    return not any(response.get(key) for key in keys) and all(map(_is_empty, texts))


def _find_pattern(arguments: str) -> str:
    """Return the pattern among the arguments of a grep."""
    import shlex

    words = iter(shlex.split(re.split(r"\s[|;&]", arguments)[0]))
    for word in words:
        if word in ("-e", "--regexp"):
            return next(words, "")
        if _WITH_VALUE.fullmatch(word):
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def _advise(pattern: str) -> str:
    words = _WORD.findall(re.sub(r"\\[a-zA-Z]", " ", pattern))[:_MOST_WORDS]
    question = " ".join(word.lower() for word in words)
    if not question:
        return ""
    return (
        "The grep found nothing. Lookfar finds by meaning and other forms of words, also in"
        f' documents and history: call its tool search with the query "{question}", or run:'
        f' lookfar search --map "{question}"'
    )


if __name__ == "__main__":
    main()

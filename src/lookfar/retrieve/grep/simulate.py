"""Match an expression without RE2, on lines where RE2's word boundaries differ from ripgrep's.

RE2 knows ASCII word boundaries only. All threads of the expression advance through the line
together, so the time is at most the size of the expression times the length of the line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from lookfar.errors import InvalidArgument
from lookfar.retrieve.grep import syntax

_LARGEST: Final = 20_000
_TAKE, _SPLIT, _JUMP, _CHECK, _MATCH = range(5)

Instruction = tuple[int, Any, int]
"""Operation, operand, and for a split the less preferred branch."""


class Program:
    def __init__(self, node: syntax.Node) -> None:
        self._code: list[Instruction] = []
        self._compile(node)
        self._code.append((_MATCH, None, 0))

    def _emit(self, operation: int, operand: Any = None, other: int = 0) -> int:
        if len(self._code) >= _LARGEST:
            raise InvalidArgument(
                "The expression is too large.", hint="Use fewer or smaller repetitions."
            )
        self._code.append((operation, operand, other))
        return len(self._code) - 1

    def _compile(self, node: syntax.Node) -> None:
        if isinstance(node, syntax.Char | syntax.CharSet):
            self._emit(_TAKE, _membership(syntax.to_re2(node)))
        elif isinstance(node, syntax.Assertion):
            self._emit(_CHECK, node.kind)
        elif isinstance(node, syntax.Sequence):
            for part in node.parts:
                self._compile(part)
        elif isinstance(node, syntax.Choice):
            self._compile_choice(node)
        else:
            self._compile_repeat(node)

    def _compile_choice(self, node: syntax.Choice) -> None:
        ends = []
        for part in node.parts[:-1]:
            split = self._emit(_SPLIT)
            self._compile(part)
            ends.append(self._emit(_JUMP))
            self._code[split] = (_SPLIT, split + 1, len(self._code))
        self._compile(node.parts[-1])
        for end in ends:
            self._code[end] = (_JUMP, len(self._code), 0)

    def _compile_repeat(self, node: syntax.Repeat) -> None:
        for _ in range(node.least):
            self._compile(node.part)
        if node.most is None:
            split = self._emit(_SPLIT)
            self._compile(node.part)
            self._emit(_JUMP, split)
            self._code[split] = _split(split + 1, len(self._code), node.greedy)
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._emit(_SPLIT))
            self._compile(node.part)
        for split in splits:
            self._code[split] = _split(split + 1, len(self._code), node.greedy)

    def search(self, line: str, start: int = 0) -> tuple[int, int] | None:
        """Return the leftmost match from ``start`` on; assertions see what precedes it."""
        threads: dict[int, int] = {}
        best: tuple[int, int] | None = None
        for at in range(start, len(line) + 1):
            if best is None:
                self._follow(threads, 0, at, line, at)
            elif not threads:
                break
            char = line[at : at + 1]
            following: dict[int, int] = {}
            for place, began in threads.items():
                operation, operand, _ = self._code[place]
                if operation == _MATCH:
                    best = (began, at)
                    break  # The remaining threads are less preferred.
                if char and operand(char):
                    self._follow(following, place + 1, began, line, at + 1)
            threads = following
        return best

    def _follow(self, threads: dict[int, int], place: int, began: int, line: str, at: int) -> None:
        """Add the instructions reached without reading a character, the preferred ones first."""
        waiting = [place]
        seen = set()
        while waiting:
            place = waiting.pop()
            if place in threads or place in seen:
                continue
            operation, operand, other = self._code[place]
            if operation in (_TAKE, _MATCH):
                threads[place] = began
                continue
            seen.add(place)
            if operation == _JUMP:
                waiting.append(operand)
            elif operation == _SPLIT:
                waiting += (other, operand)
            elif _holds(operand, line, at):
                waiting.append(place + 1)


def _split(first: int, second: int, greedy: bool) -> Instruction:
    return (_SPLIT, first, second) if greedy else (_SPLIT, second, first)


def _holds(kind: str, line: str, at: int) -> bool:
    if kind == "line_start":
        return at == 0
    if kind == "line_end":
        return at == len(line)
    is_word = _membership(syntax.WORD_CHARACTER)
    before = at > 0 and is_word(line[at - 1])
    after = at < len(line) and is_word(line[at])
    if kind == "word_start":
        return not before
    if kind == "word_end":
        return not after
    return (before != after) == (kind == "word")


@lru_cache(maxsize=256)
def _membership(source: str) -> Any:
    """Return a test for membership in a set, as RE2 defines it."""
    import re2

    expression = re2.compile(source)

    @lru_cache(maxsize=4096)
    def holds(char: str) -> bool:
        return expression.fullmatch(char) is not None

    return holds

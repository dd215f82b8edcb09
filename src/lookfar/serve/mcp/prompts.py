"""Prompts that people pick from a menu: they tell a model how to use the tools well.

Takes: the arguments that a person filled in. Gives: the text of a message. Refuses: to run
without an argument that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lookfar.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    description: str
    arguments: Mapping[str, tuple[str, bool]]
    """Each with what it is, and whether it is needed."""
    make: Callable[[Mapping[str, str]], str]

    def text(self, given: Mapping[str, str]) -> str:
        """The message; ``InvalidArgument`` where something needed is missing."""
        for name, (about, required) in self.arguments.items():
            if required and not given.get(name, "").strip():
                raise InvalidArgument(f"The prompt needs {name!r}.", hint=f"Give it: {about}.")
        return self.make(given)


def _answer(given: Mapping[str, str]) -> str:
    return (
        f"Question: {given['question']}\n\n"
        "Answer it from this project's own documents. Search with the question, then with the"
        " names and terms that the first passages use. Read a section whole when a passage is cut."
        " State only what a passage says, and cite each statement as path:lines. If the passages"
        " do not answer the question, say so and name what you searched for."
    )


def _changed(given: Mapping[str, str]) -> str:
    since = f" since {given['since']}" if given.get("since") else " lately"
    return (
        f"What changed about this{since}: {given['topic']}\n\n"
        "Find the documents about it with search, narrowed by date with its 'after' argument"
        " where a time is given. Compare what they say now with an earlier generation (search"
        " with as_of; status lists the generations). Tell what is new, what is different and what"
        " is gone, each with its citation as path:lines. Say what you could not determine."
    )


PROMPTS = (
    Prompt(
        "answer_with_citations",
        "Answer a question from the project's documents, every statement cited.",
        {"question": ("what you want to know", True)},
        _answer,
    ),
    Prompt(
        "what_changed",
        "What changed about a topic, and where that is written.",
        {"topic": ("a feature, file or decision", True), "since": ("a date", False)},
        _changed,
    ),
)

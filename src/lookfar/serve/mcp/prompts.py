"""Prompts that users pick from a menu: they tell a model how to use the tools well."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from lookfar.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    title: str
    description: str
    arguments: Mapping[str, tuple[str, bool]]
    """The description of each argument, and whether it is required."""
    make: Callable[[Mapping[str, str]], str]
    tools: tuple[str, ...]
    """The tools that the message tells a model to use."""

    def text(self, given: Mapping[str, str]) -> str:
        """Return the message; raise ``InvalidArgument`` if a required argument is missing."""
        for name, (description, required) in self.arguments.items():
            if required and not given.get(name, "").strip():
                raise InvalidArgument(
                    f"The prompt needs {name!r}.", hint=f"Give it: {description}."
                )
        return self.make(given)


def _answer_with_citations(given: Mapping[str, str]) -> str:
    return (
        f"Question: {given['question']}\n\n"
        "Answer it from this project's own documents. Search with the question, then with the"
        " names and terms that the first passages use. Read the whole section when a passage is"
        " cut. State only what a passage says, and cite each statement as path:lines. If the"
        " passages do not answer the question, say so and name what you searched for."
    )


def _what_changed(given: Mapping[str, str]) -> str:
    since = f" since {given['since']}" if given.get("since") else " lately"
    return (
        f"What changed about this{since}: {given['topic']}\n\n"
        "Find the documents about it with search, narrowed by date with its 'after' argument"
        " if a date is given. Compare what they say now with an earlier generation (search"
        " with as_of; status lists the generations). Report what is new, what is different and"
        " what is gone, each with its citation as path:lines. Say what you could not determine."
    )


PROMPTS = (
    Prompt(
        "answer_with_citations",
        "Answer with citations",
        "Answer a question from the project's documents, with a citation for every statement.",
        {"question": ("what you want to know", True)},
        _answer_with_citations,
        ("search", "read"),
    ),
    Prompt(
        "what_changed",
        "What changed",
        "What changed about a topic, and where it is documented.",
        {"topic": ("a feature, file or decision", True), "since": ("a date", False)},
        _what_changed,
        ("search", "status"),
    ),
)


def choose_prompts(tools: Container[str]) -> tuple[Prompt, ...]:
    """Return the prompts that name only these tools."""
    return tuple(prompt for prompt in PROMPTS if all(name in tools for name in prompt.tools))

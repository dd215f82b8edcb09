"""The tool ``edit``: agents change Markdown by section, with a hash of what they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from lookfar.errors import InvalidArgument
from lookfar.model import Edit, EditedDocument, EditResult, LinkChange, Position
from lookfar.retrieve.answer.pack import cut, tokens
from lookfar.retrieve.locate.address import format_address, format_citation
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.inputs import FILLED
from lookfar.serve.tools.output_schemas import EDITED
from lookfar.serve.tools.tool import Call, Input, Json, Passage, Result, Session, Tool, bounded

Operation = Literal[
    "replace", "append", "insert", "move", "rename", "delete", "create", "fix", "undo"
]

_DIFF_TOKENS: Final = 3_000
"""The most tokens of all diffs of a call together."""
_LEAST_TOKENS: Final = 100
_NAMED: Final = 20
_MOST_ROWS: Final = 200
_DIGITS: Final = 16

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "replace": ("text",),
    "append": ("text",),
    "insert": ("heading",),
    "move": ("to",),
    "rename": ("heading",),
    "create": ("heading",),
}
_TAKES: Final[dict[str, tuple[str, ...]]] = {
    "replace": ("whole", "expected"),
    "append": ("expected",),
    "insert": ("text", "position", "expected"),
    "move": ("position", "expected"),
    "rename": ("keep_alias", "expected"),
    "delete": ("expected",),
    "create": ("text", "template"),
    "fix": ("expected",),
}
_WITHOUT: Final = {
    "text": "Add it; an empty text removes the old one.",
    "heading": "Add the new heading.",
    "to": 'Add the heading path of the new parent or neighbour; "" is the top level.',
}


class OneEdit(Input):
    op: Operation
    target: Annotated[str, FILLED, Field(description="As for read")]
    text: str = ""
    heading: Annotated[str, Field(description="New title")] = ""
    to: Annotated[str, Field(description="New parent path")] = ""
    position: Position = "last"
    whole: Annotated[bool, Field(default_factory=bool, description="With all below")]
    template: str = ""
    keep_alias: Annotated[bool, Field(default_factory=bool)]
    expected: Annotated[str, Field(description="sha256 from read")] = ""


class EditInput(Input):
    edits: Annotated[list[OneEdit], FILLED]
    # A factory keeps the default out of the schema, where it would cost every client tokens.
    dry_run: Annotated[bool, Field(default_factory=bool)]
    rewrite_links: Annotated[bool, Field(default_factory=bool)]


def _edit(session: Session, given: EditInput, _: Call) -> Result:
    for at, edit in enumerate(given.edits):
        _check_arguments(at, edit)
    library = session.library
    if any(edit.op == "undo" for edit in given.edits):
        _check_undo(given)
        done = library.undo(given.edits[0].target, dry_run=given.dry_run)
    else:
        done = library.edit(
            [Edit(**edit.model_dump()) for edit in given.edits],
            dry_run=given.dry_run,
            rewrite_links=given.rewrite_links,
        )
    return bounded(lambda budget: _show(done, budget), _DIFF_TOKENS, _LEAST_TOKENS)


def _check_arguments(at: int, edit: OneEdit) -> None:
    """Refuse arguments that the operation ignores, unless they have their default value.

    A caller that gives an argument expects an effect, but some clients send all arguments with
    their defaults.
    """
    needs = _NEEDS.get(edit.op, ())
    for name in needs:
        if name not in edit.model_fields_set:
            raise _wrong(at, name, f"{edit.op} needs it", _WITHOUT[name])
    usable = (*needs, *_TAKES.get(edit.op, ()))
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in OneEdit.model_fields.items()
        if name not in ("op", "target", *usable)
    }
    for name in [name for name, default in defaults.items() if getattr(edit, name) != default]:
        hint = f"It takes: target, {', '.join(usable)}." if usable else "It takes: target."
        raise _wrong(at, name, f"{edit.op} does not use it", hint)


def _check_undo(given: EditInput) -> None:
    if len(given.edits) > 1:
        raise _wrong(
            0, "op", "undo cannot be combined with other edits", "Undo in a separate call."
        )
    if given.rewrite_links:
        reason = "undo does not use it"
        raise InvalidArgument(
            f"The argument 'rewrite_links' of edit is wrong: {reason}.",
            hint="Remove it: undo also restores links that an edit rewrote.",
            details={"field": "rewrite_links", "value": True, "reason": reason},
        )


def _wrong(at: int, name: str, reason: str, hint: str) -> InvalidArgument:
    field = f"edits.{at}.{name}"
    return InvalidArgument(
        f"The argument {field!r} of edit is wrong: {reason}.",
        hint=hint,
        details={"field": field, "reason": reason},
    )


def _show(done: EditResult, budget: int) -> Result:
    data: Json = json_shapes.edited(done)
    passages = []
    left = budget
    for at, (document, shape) in enumerate(zip(done.documents, data["documents"], strict=True)):
        shape["cite"] = _cite(document)
        shape["diff"] = cut(document.diff, max(left, 1))
        shape["truncated"] = len(shape["diff"]) < len(document.diff)
        left -= tokens(shape["diff"])
        if shape["diff"]:
            address = shape["cite"] or format_address(document.collection, document.uri)
            line = _line(document, shape["truncated"])
            passages.append(Passage(("documents", at, "diff"), line, address, document.uri, "diff"))
    # A smaller budget lists fewer rows.
    rows = _MOST_ROWS * budget // _DIFF_TOKENS
    data["left_out"] = sum(max(0, len(data[key]) - rows) for key in ("links", "violations"))
    data["links"], data["violations"] = data["links"][:rows], data["violations"][:rows]
    return Result(data, "\n".join(map(safe_name, _describe(done))), tuple(passages))


def _cite(document: EditedDocument) -> str:
    if document.span is None:
        return ""
    return format_citation(
        document.collection, document.uri, document.span, document.section_sha256
    )  # fmt: skip


def _line(document: EditedDocument, truncated: bool) -> str:
    """Name the document of a diff, and the hash that the next edit of the same part expects."""
    span = document.span
    digits = document.section_sha256 if span is not None else document.after
    parts = [
        document.uri if span is None else f"{document.uri}:{span.start_line}-{span.end_line}",
        *([" > ".join(document.heading_path)] if document.heading_path else []),
        f"moved from {document.moved_from}" if document.moved_from else document.action,
        *([f"sha256 {digits[:_DIGITS]}"] if digits else []),
        *(["diff cut"] if truncated else []),
    ]
    return safe_name(" | ".join(parts))


def _describe(done: EditResult) -> Iterator[str]:
    changed = [document for document in done.documents if document.action != "unchanged"]
    if not changed:
        yield "Nothing changed: the text is already there."
    elif done.dry_run:
        yield "Dry run: nothing was written."
    else:
        state = "indexed" if done.indexed else "not indexed yet"
        yield f"Done in transaction {done.transaction}; {state}."
    yield from _first_links([_describe_link(link, done.dry_run) for link in done.links])
    for violation in done.violations[:_NAMED]:
        at = f"{violation.uri}:{violation.start_line}"
        yield f"Breaks {violation.rule} at {at}: {violation.message} {violation.suggested_fix}"
    yield from done.warnings


def _describe_link(link: LinkChange, dry_run: bool) -> str:
    if link.becomes.startswith(("[", "!")):
        done = ("would become" if dry_run else "became") if link.rewritten else "should be"
        return f"{link.uri}:{link.line}: {link.written} {done} {link.becomes}"
    target = link.anchor or " > ".join(link.heading_path)
    where = f"Link in {link.uri}:{link.line} to {target!r}"
    if not link.becomes:
        return f"{where} is broken now."
    if link.rewritten:
        return f"{where} {'would be' if dry_run else 'was'} rewritten to {link.becomes!r}."
    return f"{where} should be {link.becomes!r}; rewrite_links does it."


def _first_links(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _NAMED
    return [*lines[:_NAMED], *([f"{more:,} more links."] if more > 0 else [])]


EDIT = Tool(
    "edit",
    "Change Markdown by section, all edits or none; undo reverts the last. text has no"
    " heading, but for whole.",
    EditInput,
    _edit,
    read_only=False,
    destructive=True,
    idempotent=False,
    writes=True,
    title="Edit Markdown",
    output_schema=EDITED,
)

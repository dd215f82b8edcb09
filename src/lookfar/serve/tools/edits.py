"""The tool ``edit``: agents change Markdown by section, with a hash of what they read.

Takes: one edit or several, which are one transaction; or ``undo``, which takes back the last
one of a document. Gives: the diffs, where the edited parts stand now with the hash that the
next edit expects, links that are misled, and rules that are broken. Refuses: to write where
the user did not allow it, and an argument that its operation has no use for.
"""

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
from lookfar.serve.tools.tool import Call, Input, Json, Passage, Result, Session, Tool, bounded

Operation = Literal[
    "replace", "append", "insert", "move", "rename", "delete", "create", "fix", "undo"
]

_DIFF_TOKENS: Final = 3_000
"""What the diffs of one call may cost together."""
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
    "rename": ("expected",),
    "delete": ("expected",),
    "create": ("text", "template"),
    "fix": ("expected",),
}
_WITHOUT: Final = {
    "text": "Give it; empty removes what stands there.",
    "heading": "Give the new heading.",
    "to": 'Give the heading path of the new parent or neighbour; "" is the top level.',
}


class OneEdit(Input):
    op: Operation
    target: Annotated[str, Field(min_length=1, description="As for read")]
    text: str = ""
    heading: Annotated[str, Field(description="New title")] = ""
    to: Annotated[str, Field(description="New parent, by path")] = ""
    position: Position = "last"
    whole: Annotated[bool, Field(default_factory=bool, description="With all below")]
    template: str = ""
    expected: Annotated[str, Field(description="sha256 from read")] = ""


class EditInput(Input):
    edits: Annotated[list[OneEdit], Field(min_length=1)]
    # No default in the schema: that would cost every session, and tell nobody anything.
    dry_run: Annotated[bool, Field(default_factory=bool)]
    rewrite_links: Annotated[bool, Field(default_factory=bool)]


def _edit(session: Session, given: EditInput, _: Call) -> Result:
    for at, each in enumerate(given.edits):
        _refuse_misfits(at, each)
    library = session.library
    if any(each.op == "undo" for each in given.edits):
        _refuse_company(given)
        done = library.undo(given.edits[0].target, dry_run=given.dry_run)
    else:
        done = library.edit(
            [Edit(**each.model_dump()) for each in given.edits],
            dry_run=given.dry_run,
            rewrite_links=given.rewrite_links,
        )
    return bounded(lambda budget: _answered(done, budget), _DIFF_TOKENS, _LEAST_TOKENS)


# --- what does not go together ------------------------------------------------------------------


def _refuse_misfits(at: int, each: OneEdit) -> None:
    """Whoever gives an argument believes that it does something; some clients give all of them,
    with the value that means nothing."""
    needs = _NEEDS.get(each.op, ())
    for name in needs:
        if name not in each.model_fields_set:
            raise _wrong(at, name, f"{each.op} needs it", _WITHOUT[name])
    usable = (*needs, *_TAKES.get(each.op, ()))
    idle = {
        name: field.get_default(call_default_factory=True)
        for name, field in OneEdit.model_fields.items()
        if name not in ("op", "target", *usable)
    }
    for name in [name for name, usual in idle.items() if getattr(each, name) != usual]:
        told = f"It takes: target, {', '.join(usable)}." if usable else "It takes: target."
        raise _wrong(at, name, f"{each.op} has no use for it", told)


def _refuse_company(given: EditInput) -> None:
    if len(given.edits) > 1:
        raise _wrong(0, "op", "undo stands alone", "Undo in a call of its own.")
    if given.rewrite_links:
        raise InvalidArgument(
            "The argument 'rewrite_links' of edit is wrong: undo has no use for it.",
            hint="Leave it out: links that an edit rewrote are taken back with it.",
            details={"field": "rewrite_links", "value": True, "reason": "undo has no use for it"},
        )


def _wrong(at: int, name: str, reason: str, hint: str) -> InvalidArgument:
    field = f"edits.{at}.{name}"
    return InvalidArgument(
        f"The argument {field!r} of edit is wrong: {reason}.",
        hint=hint,
        details={"field": field, "reason": reason},
    )


# --- what is told -------------------------------------------------------------------------------


def _answered(done: EditResult, budget: int) -> Result:
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
    # The fewer tokens there are, the fewer rows are named.
    rows = _MOST_ROWS * budget // _DIFF_TOKENS
    data["left_out"] = sum(max(0, len(data[key]) - rows) for key in ("links", "violations"))
    data["links"], data["violations"] = data["links"][:rows], data["violations"][:rows]
    return Result(data, "\n".join(map(safe_name, _said(done))), tuple(passages))


def _cite(document: EditedDocument) -> str:
    if document.span is None:
        return ""
    return format_citation(
        document.collection, document.uri, document.span, document.section_sha256
    )  # fmt: skip


def _line(document: EditedDocument, truncated: bool) -> str:
    """Whose diff it is, and what the next edit of the same part expects."""
    span = document.span
    digits = document.section_sha256 if span is not None else document.after
    parts = [
        document.uri if span is None else f"{document.uri}:{span.start_line}-{span.end_line}",
        *([" > ".join(document.heading_path)] if document.heading_path else []),
        document.action,
        *([f"sha256 {digits[:_DIGITS]}"] if digits else []),
        *(["diff cut"] if truncated else []),
    ]
    return safe_name(" | ".join(parts))


def _said(done: EditResult) -> Iterator[str]:
    changed = [each for each in done.documents if each.action != "unchanged"]
    if not changed:
        yield "Nothing changed: it says that already."
    elif done.dry_run:
        yield "Dry run: nothing was written."
    else:
        found = "search finds it" if done.indexed else "not indexed yet"
        yield f"Done in transaction {done.transaction}; {found}."
    yield from _some([_link(each, done.dry_run) for each in done.links])
    for each in done.violations[:_NAMED]:
        at = f"{each.uri}:{each.start_line}"
        yield f"Breaks {each.rule} at {at}: {each.message} {each.suggested_fix}"
    yield from done.warnings


def _link(link: LinkChange, dry_run: bool) -> str:
    meant = link.anchor or " > ".join(link.heading_path)
    where = f"Link in {link.uri}:{link.line} to {meant!r}"
    if not link.becomes:
        return f"{where} leads nowhere now."
    if link.rewritten:
        return f"{where} {'would be' if dry_run else 'was'} rewritten to {link.becomes!r}."
    return f"{where} should be {link.becomes!r}; rewrite_links does it."


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _NAMED
    return [*lines[:_NAMED], *([f"{more:,} more links."] if more > 0 else [])]


EDIT = Tool(
    "edit",
    "Change Markdown by section, all edits or none; undo takes the last back. text has no"
    " heading, but for whole.",
    EditInput,
    _edit,
    read_only=False,
    destructive=True,
    idempotent=False,
    writes=True,
)

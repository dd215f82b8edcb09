"""The ``msrl.doc.*`` tools: validate, fix and edit a vault's Markdown by section.

Only `` → `` separates the titles of a heading path, so ``>`` may be part of a title. An arrow
inside a title is escaped with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.edit.headings import DEEPEST, check_title
from lookfar.errors import Ambiguous, InvalidArgument, LookfarError, NotFound, OutsideRoot
from lookfar.model import Edit, EditedDocument, EditResult, Violation
from lookfar.serve.tools.tool import Call, Handler, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import NotBlank, add_note, fit_list, fit_text
from lookfar.serve.toolsets.msrl_errors import complete_details, refusal
from lookfar.serve.toolsets.single import get_only_folder
from lookfar.store.catalogue.heading_paths import format_path, split_path

_ARROW: Final = " → "
_SEPARATOR: Final = re.compile(r"\s→\s")
_READ_REST: Final = "Read the document for the rest."


def _check_path(text: str) -> str:
    if text.strip() and not all(_split_titles(text)):
        raise ValueError("its titles must not be blank")
    return text


def _split_titles(path: str) -> tuple[str, ...]:
    """Return the titles of a heading path, outermost first; one empty title for a blank path."""
    return tuple(" ".join(part.replace("\\→", "→").split()) for part in _SEPARATOR.split(path))


def join_titles(titles: Sequence[str]) -> str:
    """Return the heading path of these titles, with arrows."""
    return _ARROW.join(re.sub(r"(?<!\S)→(?!\S)", r"\\→", title) for title in titles)


def _check_level(level: int) -> int:
    if not 1 <= level <= DEEPEST:
        raise ValueError(f"it must be from 1 to {DEEPEST}")
    return level


_AT_FAULT: Final = (
    ("cannot be a heading", "heading"),
    ("cannot be a heading", "title"),
    ("Level ", "level"),
    ("At level ", "level"),
    ("moved into itself", "to_parent_heading_path"),
    (" the text has level ", "content_md"),
    ("With this text ", "content_md"),
)
"""Words of an error message, and the argument that such a message is about."""
_OTHER_PARENT: Final = re.compile(r"(?<=would become a subsection of )(['\"])(.+)\1")

HeadingPath = Annotated[str, AfterValidator(_check_path)]
"""Titles with arrows between them; blank means the document outside all headings."""


# --- validate -----------------------------------------------------------------------------------


class DocumentInput(Input):
    doc_uri: NotBlank


def _validate(session: Session, given: DocumentInput, _: Call) -> Result:
    get_only_folder(session, "msrl")
    try:
        report = session.library.validate(given.doc_uri)
    except LookfarError as error:
        raise _translate_error(error, given, {}) from error
    shape: Json = {"ok": report.ok, "violations": list(map(_render_violation, report.violations))}
    notes = fit_list(shape, "violations", narrow="Fix some and validate again.")
    return Result(add_note(shape, notes), "", verbatim=True)


def _render_violation(violation: Violation) -> Json:
    return {
        "rule": violation.rule,
        "message": violation.message,
        "startLine": violation.start_line,
        "endLine": violation.end_line,
        "suggestedFix": violation.suggested_fix,
    }


# --- changing -----------------------------------------------------------------------------------


class CreateInput(Input):
    doc_uri: NotBlank
    title: NotBlank
    template_id: Annotated[str, Field(default_factory=str)]
    overwrite: bool = False


class InsertInput(Input):
    doc_uri: NotBlank
    parent_heading_path: HeadingPath
    heading: NotBlank
    content_md: str
    level: Annotated[int, Field(default_factory=int), AfterValidator(_check_level)]


class SectionInput(Input):
    doc_uri: NotBlank
    heading_path: HeadingPath
    content_md: str


class MoveInput(Input):
    doc_uri: NotBlank
    from_heading_path: Annotated[NotBlank, AfterValidator(_check_path)]
    to_parent_heading_path: HeadingPath


def _auto_fix(session: Session, given: DocumentInput, _: Call) -> Result:
    return _apply_edit(session, given, Edit("fix", given.doc_uri))


def _create(session: Session, given: CreateInput, _: Call) -> Result:
    edit = Edit(
        "create",
        given.doc_uri,
        heading=given.title,
        template=given.template_id,
        overwrite=given.overwrite,
    )
    try:
        return _apply_edit(session, given, edit)
    except NotFound as error:
        if "uri" in error.details:
            raise
        raise InvalidArgument(
            error.message,
            hint=error.hint,
            details={
                "field": "template_id",
                "value": given.template_id,
                "reason": error.message,
                "validOptions": error.details.get("candidates", []),
            },
        ) from error


def _insert(session: Session, given: InsertInput, _: Call) -> Result:
    edit = Edit(
        "insert", given.doc_uri, heading=given.heading, text=given.content_md, level=given.level
    )
    return _apply_edit(session, given, edit, path="parent_heading_path")


def _replace(session: Session, given: SectionInput, _: Call) -> Result:
    edit = Edit("replace", given.doc_uri, text=given.content_md)
    return _apply_edit(session, given, edit, path="heading_path")


def _append(session: Session, given: SectionInput, _: Call) -> Result:
    edit = Edit("append", given.doc_uri, text=given.content_md)
    return _apply_edit(session, given, edit, path="heading_path")


def _move(session: Session, given: MoveInput, _: Call) -> Result:
    edit = Edit("move", given.doc_uri)
    return _apply_edit(
        session, given, edit, path="from_heading_path", to="to_parent_heading_path"
    )  # fmt: skip


def _apply_edit(session: Session, given: Input, edit: Edit, **path_fields: str) -> Result:
    """Apply an edit; ``path_fields`` maps its heading paths to the arguments that hold them."""
    get_only_folder(session, "msrl")
    paths: dict[str, str] = {name: getattr(given, name) for name in path_fields.values()}
    parts: dict[str, Any] = {key: _split_titles(paths[name]) for key, name in path_fields.items()}
    if edit.op in ("insert", "move"):
        # A blank parent is the document itself; any other blank is the text before the headings.
        parts = {key: path if any(path) else () for key, path in parts.items()}
    try:
        done = _edit_by_title(session, edit, parts)
        remaining = session.library.validate(edit.target).violations if edit.op == "fix" else None
    except LookfarError as error:
        raise _translate_error(error, given, paths) from error
    document = done.documents[0]  # The others only had their links rewritten.
    violations = done.violations if remaining is None else remaining
    shape = _render_document(document) | {"violations": list(map(_render_violation, violations))}
    notes = list(done.warnings)
    notes += [
        f"The link in {link.uri}, line {link.line}, pointed to {join_titles(link.heading_path)!r}."
        for link in done.links
    ]
    notes += fit_text(shape, "diff", narrow=_READ_REST)
    notes += fit_list(shape, "violations", narrow=_READ_REST)
    return Result(add_note(shape, notes), "", verbatim=True)


def _edit_by_title(session: Session, edit: Edit, parts: dict[str, Any]) -> EditResult:
    """Apply an edit; titles may be given as they read or as they are written, with markup."""
    try:
        return session.library.edit(replace(edit, **parts))
    except NotFound as error:
        read: dict[str, Any] = {key: tuple(map(_read_title, path)) for key, path in parts.items()}
        if "heading_path" not in error.details or read == parts:
            raise
        try:
            return session.library.edit(replace(edit, **read))
        except NotFound:
            raise error from None


def read_markup(path: str) -> str:
    """Return a heading path, or a part of one, as its titles read without markup."""
    return "→".join(_read_title(part) for part in path.split("→"))


def _read_title(written: str) -> str:
    try:
        return check_title(written).read
    except InvalidArgument:
        return written


def _render_document(document: EditedDocument) -> Json:
    span = document.span
    return {
        "docUri": document.uri,
        "changed": document.action != "unchanged",
        "headingPath": join_titles(document.heading_path),
        "startLine": span.start_line if span else None,
        "endLine": span.end_line if span else None,
        "diff": document.diff,
    }


# --- refusals -----------------------------------------------------------------------------------


def _translate_error(error: LookfarError, given: Input, paths: Mapping[str, str]) -> LookfarError:
    """Rephrase an error for these arguments: arrows in paths, and the field at fault."""
    details = dict(error.details)
    hint = error.hint
    field = next(
        (
            name
            for name, path in paths.items()
            if format_path(_split_titles(path)) == details.get("heading_path")
        ),
        "",
    )
    if "heading_path" in details:
        details["heading_path"] = paths.get(field) or _use_arrows(str(details["heading_path"]))
    if isinstance(error, Ambiguous):
        hint = "Give them different titles; msrl.doc.auto_fix numbers them."
    elif isinstance(error, NotFound) and "heading_path" in details:
        near = [_use_arrows(candidate) for candidate in details.get("candidates", ())]
        details["candidates"] = near
        hint = f"Nearest: {'; '.join(near)}." if near else hint
    message = error.message
    for path in paths.values():
        plain = format_path(_split_titles(path))
        message = message.replace(repr(plain), repr(path)).replace(plain, path)
    message = _OTHER_PARENT.sub(lambda found: repr(_use_arrows(found[2])), message)
    at_fault = field or _find_field(error, given)
    if at_fault and not isinstance(error, NotFound):
        details |= {"field": at_fault, "value": getattr(given, at_fault), "reason": message}
    return type(error)(message, hint=hint, developer=error.developer, details=details)


def _find_field(error: LookfarError, given: Input) -> str:
    """Return the argument that an error is about, by its message; empty if it names none."""
    fields = [field for phrase, field in _AT_FAULT if phrase in error.message]
    if isinstance(error, OutsideRoot) or "uri" in error.details:
        fields.append("doc_uri")
    return next((field for field in fields if field in type(given).model_fields), "")


def _use_arrows(path: str) -> str:
    """Return a path that has ``>`` between its titles with arrows instead."""
    return join_titles(split_path(path)[0]) if path.strip() else path


# --- the table ----------------------------------------------------------------------------------


def _make_writer(name: str, about: str, given: type[Input], handler: Handler, **more: Any) -> Tool:
    more = {"destructive": True, "idempotent": False} | more
    handle = complete_details(handler)
    return Tool(name, about, given, handle, read_only=False, writes=True, refusal=refusal, **more)


TOOLS: Final = (
    Tool(
        "msrl.doc.validate",
        "Check the headings of a document: jumps of level, equal neighbours, and more than"
        " one of level 1 where that is a rule.",
        DocumentInput,
        complete_details(_validate),
        refusal=refusal,
    ),
    _make_writer(
        "msrl.doc.auto_fix",
        "Fix violations of the rules for headings, where that is safe.",
        DocumentInput,
        _auto_fix,
        idempotent=True,
    ),
    _make_writer(
        "msrl.doc.create",
        "Create a Markdown document with a title, from a template if one is named.",
        CreateInput,
        _create,
    ),
    _make_writer(
        "msrl.doc.insert_section",
        "Insert a section below a heading, after its existing subsections.",
        InsertInput,
        _insert,
        destructive=False,
    ),
    _make_writer(
        "msrl.doc.replace_section",
        "Replace a section's own text; its heading and subsections stay.",
        SectionInput,
        _replace,
        idempotent=True,
    ),
    _make_writer(
        "msrl.doc.append_to_section",
        "Append to a section's own text, before its subsections.",
        SectionInput,
        _append,
        destructive=False,
    ),
    _make_writer(
        "msrl.doc.move_section",
        "Move a section with its subsections below another heading.",
        MoveInput,
        _move,
    ),
)

"""The tools ``msrl.doc.*``: a vault's Markdown checked, mended and changed by section.

Takes: checked arguments and a session over one folder. Gives: violations, and what a change
made of a document. Refuses: to write where the user did not allow it; a heading path that
leads nowhere, with the nearest that do.

Heading paths are joined by `` → `` here and by nothing else: ``>`` may be part of a title. An
arrow inside a title gets a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from lookfar.edit.headings import DEEPEST
from lookfar.errors import Ambiguous, InvalidArgument, LookfarError, NotFound
from lookfar.model import Edit, EditedDocument, Violation
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool
from lookfar.serve.toolsets.common import NotBlank, fit, fit_text, noted
from lookfar.serve.toolsets.single import only_folder
from lookfar.store.catalogue.heading_paths import format_path, split_path

_ARROW: Final = " → "
_BETWEEN: Final = re.compile(r"\s→\s")
_NARROW: Final = "Read the document for the rest."


def _path(text: str) -> str:
    if not all(_titles(text)):
        raise ValueError("a title between its arrows is blank")
    return text


def _titles(path: str) -> tuple[str, ...]:
    """The titles of a heading path, outermost first."""
    return tuple(" ".join(part.replace("\\→", "→").split()) for part in _BETWEEN.split(path))


def _written(titles: Sequence[str]) -> str:
    """The heading path of some titles, as these tools take it."""
    return _ARROW.join(re.sub(r"(?<!\S)→(?!\S)", r"\\→", title) for title in titles)


def _level(level: int) -> int:
    if not 1 <= level <= DEEPEST:
        raise ValueError(f"it is not from 1 to {DEEPEST}")
    return level


HeadingPath = Annotated[NotBlank, AfterValidator(_path)]


# --- validate -----------------------------------------------------------------------------------


class DocumentInput(Input):
    doc_uri: NotBlank


def _validate(session: Session, given: DocumentInput, _: Call) -> Result:
    only_folder(session, "msrl")
    try:
        found = session.library.validate(given.doc_uri)
    except LookfarError as error:
        raise _as_asked(error, given, {}) from error
    shape: Json = {"ok": found.ok, "violations": list(map(_violation, found.violations))}
    said = fit(shape, "violations", narrow="Mend some and ask again.")
    return Result(noted(shape, said), "", verbatim=True)


def _violation(found: Violation) -> Json:
    return {
        "rule": found.rule,
        "message": found.message,
        "startLine": found.start_line,
        "endLine": found.end_line,
        "suggestedFix": found.suggested_fix,
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
    level: Annotated[int, Field(default_factory=int), AfterValidator(_level)]


class SectionInput(Input):
    doc_uri: NotBlank
    heading_path: HeadingPath
    content_md: str


class MoveInput(Input):
    doc_uri: NotBlank
    from_heading_path: HeadingPath
    to_parent_heading_path: HeadingPath


def _auto_fix(session: Session, given: DocumentInput, _: Call) -> Result:
    return _changed(session, given, Edit("fix", given.doc_uri))


def _create(session: Session, given: CreateInput, _: Call) -> Result:
    edit = Edit(
        "create",
        given.doc_uri,
        heading=given.title,
        template=given.template_id,
        overwrite=given.overwrite,
    )
    try:
        return _changed(session, given, edit)
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
    return _changed(session, given, edit, path="parent_heading_path")


def _replace(session: Session, given: SectionInput, _: Call) -> Result:
    edit = Edit("replace", given.doc_uri, text=given.content_md)
    return _changed(session, given, edit, path="heading_path")


def _append(session: Session, given: SectionInput, _: Call) -> Result:
    edit = Edit("append", given.doc_uri, text=given.content_md)
    return _changed(session, given, edit, path="heading_path")


def _move(session: Session, given: MoveInput, _: Call) -> Result:
    edit = Edit("move", given.doc_uri)
    return _changed(
        session, given, edit, path="from_heading_path", to="to_parent_heading_path"
    )  # fmt: skip


def _changed(session: Session, given: Input, edit: Edit, **named: str) -> Result:
    """The result of one edit; ``named`` says which arguments are its heading paths."""
    only_folder(session, "msrl")
    paths: dict[str, str] = {name: getattr(given, name) for name in named.values()}
    parts: dict[str, Any] = {key: _titles(paths[name]) for key, name in named.items()}
    try:
        done = session.library.edit(replace(edit, **parts))
        left = session.library.validate(edit.target).violations if edit.op == "fix" else None
    except LookfarError as error:
        raise _as_asked(error, given, paths) from error
    document = done.documents[0]  # The others are those whose links were rewritten.
    breaks = done.violations if left is None else left
    shape = _document(document) | {"violations": list(map(_violation, breaks))}
    said = list(done.warnings)
    said += [
        f"The link in {each.uri}, line {each.line}, led to {_written(each.heading_path)!r}."
        for each in done.links
    ]
    said += fit_text(shape, "diff", narrow=_NARROW)
    said += fit(shape, "violations", narrow=_NARROW)
    return Result(noted(shape, said), "", verbatim=True)


def _document(document: EditedDocument) -> Json:
    span = document.span
    return {
        "docUri": document.uri,
        "changed": document.action != "unchanged",
        "headingPath": _written(document.heading_path),
        "startLine": span.start_line if span else None,
        "endLine": span.end_line if span else None,
        "diff": document.diff,
    }


# --- refusals -----------------------------------------------------------------------------------


def _as_asked(error: LookfarError, given: Input, paths: Mapping[str, str]) -> LookfarError:
    """The same error in words of these arguments: arrows in paths, and which field it is about."""
    details = dict(error.details)
    hint = error.hint
    field = next(
        (
            name
            for name, path in paths.items()
            if format_path(_titles(path)) == details.get("heading_path")
        ),
        "",
    )
    if "heading_path" in details:
        details["heading_path"] = paths.get(field) or _rewritten(str(details["heading_path"]))
    if isinstance(error, Ambiguous):
        hint = "Give them different titles; msrl.doc.auto_fix numbers them."
    elif isinstance(error, NotFound) and "heading_path" in details:
        near = [_rewritten(each) for each in details.get("candidates", ())]
        details["candidates"] = near
        hint = f"Nearest: {'; '.join(near)}." if near else hint
    message = error.message
    if field:
        message = message.replace(repr(format_path(_titles(paths[field]))), repr(paths[field]))
    blamed = field or ("doc_uri" if "uri" in details else "")
    if blamed and not isinstance(error, NotFound):
        details |= {"field": blamed, "value": getattr(given, blamed), "reason": message}
    return type(error)(message, hint=hint, developer=error.developer, details=details)


def _rewritten(path: str) -> str:
    """A path that was told with ``>`` between its titles, with arrows."""
    return _written(split_path(path)[0]) if path.strip() else path


# --- the table ----------------------------------------------------------------------------------


def tools(refusal: Callable[[LookfarError], Json]) -> tuple[Tool, ...]:
    """These tools, refusing in the shape of their toolset."""

    def writing(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
        more = {"destructive": True, "idempotent": False} | more
        return Tool(
            name, about, given, handler, read_only=False, writes=True, refusal=refusal, **more
        )  # fmt: skip

    return (
        Tool(
            "msrl.doc.validate",
            "Check the headings of a document: jumps of level, equal neighbours, and more than"
            " one of level 1 where that is a rule.",
            DocumentInput,
            _validate,
            refusal=refusal,
        ),
        writing(
            "msrl.doc.auto_fix",
            "Mend what breaks the rules for headings, where it can be mended safely.",
            DocumentInput,
            _auto_fix,
            idempotent=True,
        ),
        writing(
            "msrl.doc.create",
            "Create a Markdown document with a title, from a template if one is named.",
            CreateInput,
            _create,
        ),
        writing(
            "msrl.doc.insert_section",
            "Insert a section below a heading, after what stands there already.",
            InsertInput,
            _insert,
            destructive=False,
        ),
        writing(
            "msrl.doc.replace_section",
            "Replace a section's own text; its heading and subsections stay.",
            SectionInput,
            _replace,
            idempotent=True,
        ),
        writing(
            "msrl.doc.append_to_section",
            "Append to a section's own text, before its subsections.",
            SectionInput,
            _append,
            destructive=False,
        ),
        writing(
            "msrl.doc.move_section",
            "Move a section with its subsections below another heading.",
            MoveInput,
            _move,
        ),
    )

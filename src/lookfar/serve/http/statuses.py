"""Errors over HTTP: the status of each error, and the one JSON shape they share.

Every error response is ``{"error": {code, message, hint, details}}``. Details for developers are
not sent, and long texts are shortened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from lookfar import errors
from lookfar.errors import LookfarError
from lookfar.serve.mcp.server import clip, internal_error
from lookfar.serve.tools.tool import Json, WritesNotAllowed, plain_refusal


class Misdirected(LookfarError):
    code = "WRONG_HOST"


class ForeignOrigin(LookfarError):
    code = "FOREIGN_ORIGIN"


class Unauthorized(LookfarError):
    code = "UNAUTHORIZED"
    challenge = 'Bearer realm="lookfar"'
    """The ``WWW-Authenticate`` header: how to get a token."""


class ScopeTooSmall(LookfarError):
    code = "SCOPE_TOO_SMALL"
    challenge = 'Bearer error="insufficient_scope", scope="write"'


class IssuerUnavailable(LookfarError):
    code = "ISSUER_UNAVAILABLE"


class NoSuchMethod(LookfarError):
    code = "METHOD_NOT_ALLOWED"


class BodyTooLarge(LookfarError):
    code = "BODY_TOO_LARGE"


class BodyTooSlow(LookfarError):
    code = "BODY_TOO_SLOW"


class NotJson(LookfarError):
    code = "NOT_JSON"


class RateLimited(LookfarError):
    code = "RATE_LIMITED"


class ServerBusy(LookfarError):
    code = "SERVER_BUSY"


class NotReady(LookfarError):
    code = "NOT_READY"


class TimedOut(LookfarError):
    code = "TIMED_OUT"


STATUSES: Final[Mapping[type[LookfarError], int]] = {
    errors.InvalidArgument: 400,
    Unauthorized: 401,
    ForeignOrigin: 403,
    ScopeTooSmall: 403,
    WritesNotAllowed: 403,
    errors.PermissionDenied: 403,
    errors.RepositoryRefused: 403,
    errors.NotFound: 404,
    NoSuchMethod: 405,
    BodyTooSlow: 408,
    errors.Ambiguous: 409,
    errors.Conflict: 409,
    errors.ConfirmationNeeded: 409,
    errors.IndexBusy: 409,
    errors.NotIndexed: 409,
    BodyTooLarge: 413,
    NotJson: 415,
    Misdirected: 421,
    RateLimited: 429,
    LookfarError: 500,
    errors.IndexCorrupt: 503,
    errors.IndexTooNew: 503,
    errors.IOFailed: 503,
    errors.ModelUnavailable: 503,
    IssuerUnavailable: 503,
    NotReady: 503,
    ServerBusy: 503,
    TimedOut: 504,
}
"""The status of each class of errors; a class that is not listed has that of its base class."""

_RETRY: Final = "retry_after"


def get_status(error: LookfarError) -> int:
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)


def error_shape(error: LookfarError) -> Json:
    shape: Json = {"error": clip(plain_refusal(error))}
    return shape


def json_response(
    data: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return data as a JSON response; file names that are not valid Unicode are escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        body = text.encode()
    except UnicodeEncodeError:
        body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, dict(headers or {}), "application/json")


def error_response(error: LookfarError, code: str = "") -> Response:
    status = get_status(error)
    headers: dict[str, str] = {}
    if isinstance(error, Unauthorized | ScopeTooSmall):
        headers["WWW-Authenticate"] = error.challenge
    if status in (429, 503) or isinstance(error, errors.IndexBusy):
        headers["Retry-After"] = str(math.ceil(error.details.get(_RETRY, 1)))
    if isinstance(error, NoSuchMethod) and "allowed" in error.details:
        headers["Allow"] = ", ".join(error.details["allowed"])
    shape = error_shape(error)
    if code:
        shape["error"]["code"] = code
    return json_response(shape, status, headers)


def wrap_unexpected(error: Exception) -> LookfarError:
    """Wrap an unexpected exception in an error that points to the log."""
    return internal_error(error, "See the server's log for the X-Request-Id of this response.")

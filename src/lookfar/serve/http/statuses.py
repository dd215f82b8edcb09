"""Errors over HTTP: which status each has, and the one shape that all have.

Takes: an error. Gives: a response with ``{"error": {code, message, hint, details}}``.
Refuses: to tell a client what only developers need, and to repeat megabytes.

Beside the errors of :mod:`lookfar.errors` there are those that only HTTP knows:

    Misdirected          WRONG_HOST           421  the request names another host
    ForeignOrigin        FOREIGN_ORIGIN       403  another site's page made it
    Unauthorized         UNAUTHORIZED         401  it has no valid token
    ScopeTooSmall        SCOPE_TOO_SMALL      403  its token may only read
    NoSuchMethod         METHOD_NOT_ALLOWED   405  the place is there, the method is not
    BodyTooLarge         BODY_TOO_LARGE       413
    BodyTooSlow          BODY_TOO_SLOW        408
    NotJson              NOT_JSON             415  it says that it is no JSON
    RateLimited          RATE_LIMITED         429
    ServerBusy           SERVER_BUSY          503
    TimedOut             TIMED_OUT            504
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from lookfar import errors
from lookfar.errors import LookfarError
from lookfar.serve.mcp.server import clipped
from lookfar.serve.tools.tool import Json, WritesNotAllowed, plain_refusal


class Misdirected(LookfarError):
    code = "WRONG_HOST"


class ForeignOrigin(LookfarError):
    code = "FOREIGN_ORIGIN"


class Unauthorized(LookfarError):
    code = "UNAUTHORIZED"


class ScopeTooSmall(LookfarError):
    code = "SCOPE_TOO_SMALL"


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
    ServerBusy: 503,
    TimedOut: 504,
}
"""By class; one that is not named here has the status of the class above it."""

_RETRY: Final = "retry_after"


def status_of(error: LookfarError) -> int:
    """The HTTP status of an error."""
    return next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)


def error_shape(error: LookfarError) -> Json:
    """An error as every route shows it."""
    shape: Json = {"error": clipped(plain_refusal(error))}
    return shape


def json_response(
    data: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Data as JSON; names that are no Unicode are escaped, as a disk may have such."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        body = text.encode()
    except UnicodeEncodeError:
        body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, dict(headers or {}), "application/json")


def refused(error: LookfarError) -> Response:
    """The response to a request that ends in this error."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="lookfar"'
    if isinstance(error, ScopeTooSmall):
        headers["WWW-Authenticate"] = 'Bearer error="insufficient_scope", scope="write"'
    if status in (429, 503) or isinstance(error, errors.IndexBusy):
        headers["Retry-After"] = str(math.ceil(error.details.get(_RETRY, 1)))
    if isinstance(error, NoSuchMethod) and "allowed" in error.details:
        headers["Allow"] = ", ".join(error.details["allowed"])
    return json_response(error_shape(error), status, headers)


def unforeseen(error: Exception) -> LookfarError:
    """What nobody foresaw: the log has it, the client learns that it happened."""
    return errors.as_out_of_memory(error) or LookfarError(
        "Something went wrong inside Lookfar.",
        hint="The server's log tells more, under the X-Request-Id of this response.",
        developer=f"{type(error).__name__}: {error}",
    )

"""Errors of the API server: refusals, and answers that never came."""

import os
import re
from collections.abc import Mapping
from socket import gaierror
from ssl import SSLError
from typing import Any

Json = dict[str, Any]

FORBIDDEN = 403
"""HTTP status: the account lacks a permission."""

NOT_FOUND = 404
"""HTTP status: no such object, or no such kind."""

TOO_LARGE = 413
"""HTTP status: the request is too large."""

_TOO_LARGE = re.compile(
    r"etcdserver: request is too large"  # 500
    r"|trying to send message larger than max"  # 500, of the connection to etcd
    r"|Too long: may not be more than \d+ bytes"  # 422, of a ConfigMap
)
"""Messages for an object that is too large, where the status does not say so."""


class ApiError(Exception):
    """The API server refused a request. `message` is the API server's text."""

    def __init__(self, status: int, reason: str, message: str, causes: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        """Further reasons in the answer, such as NamespaceTerminating."""


class NotFoundError(ApiError):
    """404: no such object, or no such kind."""


class ConflictError(ApiError):
    """409, or 422 for a patch that names another UID: the object differs from what the writer expected, or already exists."""


class TooLargeError(ApiError):
    """The object is larger than the API server, etcd or a proxy accepts. Retrying does not help."""


class UnavailableError(Exception):
    """The API server did not answer, or asked to retry later. The request may or may not have been carried out."""


class PageTooLargeError(Exception):
    """A page of a list is larger than the limit; ask for fewer objects."""


def failure(error: Exception) -> str:
    """Why there was no answer, without details of the HTTP client such as `ssl:default`."""
    why = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(why, TimeoutError) and not str(why):
        return "no answer in time"
    if isinstance(why, OSError) and why.errno and not isinstance(why, SSLError):
        return str(why.strerror) if isinstance(why, gaierror) else os.strerror(why.errno)
    return str(why) or type(why).__name__


def refusal(status: int, said: Mapping[str, object]) -> ApiError | UnavailableError:
    """The error for an answer other than 2xx. `said`: its Status object."""
    reason, message = str(said.get("reason", "")), str(said.get("message", ""))
    if status == TOO_LARGE or _TOO_LARGE.search(message):
        return TooLargeError(status, reason, message)
    if status == 429 or status >= 500:
        return UnavailableError(f"{status} {reason}: {message}")
    kind = {NOT_FOUND: NotFoundError, 409: ConflictError}.get(status, ApiError)
    if status == 422 and _of_another(said.get("details")):
        kind = ConflictError
    return kind(status, reason, message, frozenset(str(cause.get("reason")) for cause in _causes(said.get("details"))))


def _of_another(details: Any) -> bool:
    """Whether a patch was refused because it names the UID of another object. A JSON patch whose test fails has empty details."""
    if not isinstance(details, dict):
        return False
    return not details or "metadata.uid" in [cause.get("field") for cause in _causes(details)]


def _causes(details: object) -> list[Json]:
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []

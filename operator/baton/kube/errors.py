"""What the API server refuses, and what that means for a loop."""

import os
import re
from collections.abc import Mapping
from socket import gaierror
from ssl import SSLError
from typing import Any

Json = dict[str, Any]

FORBIDDEN = 403
"""The status of a refusal for want of a right."""

NOT_FOUND = 404
"""The status where there is no such object, or no such kind."""

TOO_LARGE = 413
"""The status of a refusal of a request for its size."""

_TOO_LARGE = re.compile(
    r"etcdserver: request is too large"  # 500
    r"|trying to send message larger than max"  # 500, of the connection to etcd
    r"|Too long: may not be more than \d+ bytes"  # 422, of a ConfigMap
)
"""The same of an object, in words alone."""


class ApiError(Exception):
    """The API server refused. `message` is its own."""

    def __init__(self, status: int, reason: str, message: str, causes: frozenset[str] = frozenset()) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        """Reasons that it gives besides, such as NamespaceTerminating."""


class NotFoundError(ApiError):
    """404: there is no such object, or no such kind."""


class ConflictError(ApiError):
    """409, or 422 for a patch of another UID: the object is not what the writer believes (or exists already)."""


class TooLargeError(ApiError):
    """The object has more bytes than the API server, etcd behind it or a proxy before it takes. That does not pass."""


class UnavailableError(Exception):
    """The API server does not answer, or asks to come again later. Nothing is known about whether the request was carried out."""


class PageTooLargeError(Exception):
    """So many objects of a list have more bytes than are read at once."""


def failure(error: Exception) -> str:
    """Why there was no answer, without what HTTP's client says of itself: `ssl:default` is no part of an address."""
    why = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(why, TimeoutError) and not str(why):
        return "no answer in time"
    if isinstance(why, OSError) and why.errno and not isinstance(why, SSLError):
        return str(why.strerror) if isinstance(why, gaierror) else os.strerror(why.errno)
    return str(why) or type(why).__name__


def refusal(status: int, said: Mapping[str, object]) -> ApiError | UnavailableError:
    """What an answer other than 2xx means; `said` is its Status object."""
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
    """Whether a patch was refused because it names the UID of another object: a JSON patch whose test fails has no details."""
    if not isinstance(details, dict):
        return False
    return not details or "metadata.uid" in [cause.get("field") for cause in _causes(details)]


def _causes(details: object) -> list[Json]:
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []

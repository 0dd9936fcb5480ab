"""Times as Kubernetes writes them."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


def to_seconds(text: str) -> float:
    """`2026-11-21T09:48:00Z` (or with a fraction or an offset) as unix seconds. Raises ValueError."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except OverflowError:
        raise ValueError(f"{text} is in no year from 1 to 9999") from None


def read_seconds(text: object, otherwise: T) -> float | T:
    """Do the same for untrusted text; return `otherwise` if it is not a time."""
    try:
        return to_seconds(str(text))
    except ValueError:
        return otherwise


def to_text(seconds: float) -> str:
    """Unix seconds as RFC 3339 in whole seconds, as metav1.Time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micro_text(seconds: float) -> str:
    """Unix seconds as RFC 3339 with microseconds, all six digits of them, as metav1.MicroTime (Leases and events)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=4)  # all answers of one second have the same date
def from_http_text(text: str) -> float | None:
    """The `Date` of an HTTP answer, `Sat, 21 Nov 2026 09:48:00 GMT`, as unix seconds; None if it is not a date."""
    try:
        return parsedate_to_datetime(text[:64]).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):  # the last two come from malformed dates
        return None

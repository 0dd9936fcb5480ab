"""The API server's time in a pod, whose own clock may be another."""

import time
from email.utils import parsedate_to_datetime

_LONGEST_DATE = 64


class ServerClock:
    """Unix seconds as the API server's answers have them, to within a second, and by the monotonic clock in between. Until it has
    answered they are this machine's."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def follow(self, date: str | None, asked: float) -> None:
        """Go by the header `Date` of an answer to what was `asked` then (monotonic). One that agrees changes nothing."""
        try:
            told = parsedate_to_datetime((date or "")[:_LONGEST_DATE]).timestamp()
        except (ValueError, OverflowError, TypeError, IndexError):  # it is no date
            return
        self._offset = min(max(self._offset, told - time.monotonic()), told + 1 - asked)

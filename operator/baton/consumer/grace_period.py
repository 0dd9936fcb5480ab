"""The time that a consumer has from the moment when it is asked to stop, by the monotonic clock."""

import time
from collections.abc import Callable
from math import inf

_LAST_ENTRIES = 3.0
"""Seconds that handlers have for what is in hand when time is up;"""
_LAST_ANSWERS = 0.7
"""that queues have, after that, to hear what was handled;"""
_LAST_WORD = 1.0
"""and that the operator has to hear of it"""
_LONGEST_WORD = 3.0
"""(or this, where there is time)."""
_LAST_SECONDS = 5.0
"""Of the grace period, kept for these."""
_UNHEARD = 0.8
"""Of the grace period, after which the process has ended where neither queues nor operator hear of it: going on longer helps no
other pod, and the kubelet's clock began before the consumer's."""


class GracePeriod:
    """`seconds` from `stop` to the end of the process; it goes on as before for all of them but the last few."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._serve_for = max(0.0, seconds - _LAST_SECONDS)
        self._serve_unheard_for = max(0.0, _UNHEARD * seconds - _LAST_SECONDS - 0.5)
        self._unheard_at = inf
        self._stop_at: float | None = None
        self._leave_by: float | None = None
        self._begin_by = inf
        self._at_once = False
        self.aborted = False
        """Nothing more is done at all."""

    def stop(self) -> None:
        """It begins, unless it has."""
        if self._stop_at is None:
            now = self._clock()
            self._stop_at, self._unheard_at = now + self._serve_for, now + self._serve_unheard_for

    def stop_unheard(self, unheard: Callable[[], bool]) -> None:
        """Go on no longer, if it is late and neither queues nor operator hear of this consumer."""
        now = self._clock()
        if self._stop_at is not None and not self.leaving and now >= self._unheard_at and unheard():
            self._stop_at = min(self._stop_at, now)

    def stop_now(self) -> None:
        """Without what would be left of it."""
        self._at_once = True
        self._stop_at = min(self._clock(), self._stop_at or inf)

    def abort(self) -> None:
        """End the grace period at once."""
        self._stop_at = self._clock()
        if self._leave_by is not None:
            self._leave_by = self._stop_at
        self.aborted = True

    def leave(self, per_entry: float) -> None:
        """Nothing more is read. What is in hand is still begun, as long as an entry takes less than half of what is left, by the
        seconds that one took lately: the next owner would get it marked as redelivered."""
        self._leave_by = self._clock() + _LAST_ENTRIES
        self._begin_by = self._leave_by - 2 * per_entry

    @property
    def stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def leaving(self) -> bool:
        return self._leave_by is not None

    @property
    def begins_nothing(self) -> bool:
        """What is in hand and was not begun is the next owner's."""
        return self._at_once or self._clock() >= self._begin_by

    @property
    def next(self) -> float:
        """When something of this is to be looked at."""
        unheard_at = self._unheard_at if self._clock() < self._unheard_at else inf
        return min(self.due, unheard_at, inf if self.begins_nothing else self._begin_by)

    @property
    def due(self) -> float:
        """When what goes on now has to end."""
        if self._leave_by is not None:
            return self._leave_by
        return inf if self._stop_at is None else self._stop_at

    @property
    def over_at(self) -> float:
        """When nobody waits any more for what is not done by then."""
        return inf if self._stop_at is None else self._stop_at + _LAST_ENTRIES + _LAST_ANSWERS

    @property
    def for_handlers(self) -> float | None:
        """Seconds that handlers still have; None: it has not begun."""
        return None if self._stop_at is None else max(0.0, self._stop_at + _LAST_ENTRIES - self._clock())

    @property
    def for_answers(self) -> float:
        """Seconds that queues have to hear what was handled of partitions that are let go of: any number while the process goes
        on, and once all else is done, all that is left."""
        now = self._clock()
        return max(0.0, (self._stop_at or inf) - now, min(_LONGEST_WORD, self.over_at - now))

    @property
    def for_last_word(self) -> float:
        """Seconds that the operator still has to hear what was let go of."""
        return max(0.0, min(_LONGEST_WORD, self.over_at + _LAST_WORD - self._clock()))

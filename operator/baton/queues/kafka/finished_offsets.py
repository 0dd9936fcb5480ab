"""How far an owner is in a partition: what it was handed out, and what may be committed of it. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence


class FinishedOffsets:
    """Entries are finished in any order; the committed offset goes over those that are finished without a gap."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Of the next entry that is not finished, or not handed out."""
        self.end = offset
        """Of the next entry that is not handed out."""
        self._out: list[int] = []
        """Handed out, in order: from the first that is not finished."""
        self._done: set[int] = set()
        """Of these."""

    @property
    def unfinished(self) -> int:
        return len(self._out) - len(self._done)

    def handed_out(self, offsets: Iterable[int]) -> None:
        """In order."""
        self._out.extend(offsets)
        if self._out:
            self.end = max(self.end, self._out[-1] + 1)

    def nothing_before(self, end: int) -> None:
        """No entry stands between what was handed out and this offset, but marks of transactions."""
        self.end = max(self.end, end)
        if not self._out:
            self.offset = max(self.offset, end)

    def is_out(self, offset: int) -> bool:
        """It was handed out, and is not finished."""
        place = bisect_left(self._out, offset)
        return self._out[place : place + 1] == [offset] and offset not in self._done

    def finish(self, offsets: Sequence[int]) -> None:
        """What is not out is passed over."""
        out, done = self._out, self._done
        if not done and out[: len(offsets)] == offsets:  # the next ones, as nearly always
            self._go_over(len(offsets))
            return
        done.update(filter(self.is_out, offsets))
        self._go_over(next((nth for nth, offset in enumerate(out) if offset not in done), len(out)))

    def _go_over(self, count: int) -> None:
        """The first of those that are out are finished."""
        if not count:
            return
        self.offset = self._out[count - 1] + 1
        self._done.difference_update(self._out[:count])
        del self._out[:count]

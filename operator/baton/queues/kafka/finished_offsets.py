"""How far an owner is in a partition: what it was handed out, and what may be committed of it. Pure."""

from collections import deque
from collections.abc import Iterable


class FinishedOffsets:
    """Entries are finished in any order; the committed offset goes over those that are finished without a gap."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Of the next entry that is not finished, or not handed out."""
        self.end = offset
        """Of the next entry that is not handed out."""
        self._out: deque[int] = deque()
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
        return bool(self._out) and self._out[0] <= offset <= self._out[-1] and offset not in self._done

    def finish(self, offsets: Iterable[int]) -> None:
        """What is not out is passed over."""
        out, done = self._out, self._done
        for offset in offsets:
            if out and out[0] == offset:
                self.offset = out.popleft() + 1
            elif out and out[0] < offset <= out[-1]:
                done.add(offset)
        while done and out[0] in done:
            done.discard(out[0])
            self.offset = out.popleft() + 1

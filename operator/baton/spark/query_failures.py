"""Queries that fail are started again: how soon, and when others than the log are to hear of it."""

import re
from dataclasses import dataclass, replace

_FIRST = 1.0
_LONGEST = 60.0
_SIX = 6
_REST = re.compile(r"^(?:=== Streaming Query ===|JVM stacktrace:)", re.MULTILINE)
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")


@dataclass(frozen=True, slots=True)
class QueryFailures:
    """In a row: since a batch was done."""

    count: int = 0
    of_batch: int = 0
    """Of these, at a batch whose entries could be read: the same one each time, for Spark repeats it until it is done."""
    batches_done: int = 0
    """When the last one failed, of the whole fleet."""
    batch: str = ""
    error: str = ""

    def and_another(self, batches_done: int, batch: str, error: str, *, readable: bool = False) -> "QueryFailures":
        """The query has failed. `batch`: what it was at; `error`: one line. `readable`: its entries were handed to it."""
        before = self if batches_done == self.batches_done else QueryFailures()
        of_batch = before.of_batch + readable
        return replace(before, count=before.count + 1, of_batch=of_batch, batches_done=batches_done, batch=batch, error=error)

    @property
    def pause(self) -> float:
        """Seconds until the next try: one, and twice as many after each further failure, up to a minute."""
        return min(_LONGEST, _FIRST * 2 ** min(self.count - 1, _SIX)) if self.count else 0.0

    def trouble(self, batches_done: int, told_after: int) -> str:
        """What the group is to say of it; empty: nothing, or it is over."""
        if self.count < told_after or batches_done != self.batches_done:
            return ""
        return f"The query has failed {self.count} times in a row at {self.batch or 'its start'}: {self.error}"


def last_line(error: str, most: int = 300) -> str:
    """What an exception of Spark says, without the traces and the plan that it carries: the last line that is of neither."""
    said = _REST.split(error, maxsplit=1)[0]
    lines = [_STATE.sub("", line).strip() for line in said.splitlines()]
    told = [
        line for line in lines if line and not line.startswith(("at ", "File ", "...", "===", "Traceback", "^", "Driver stack"))
    ]
    return (told[-1] if told else error.strip())[:most]

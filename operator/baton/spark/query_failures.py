"""Queries that fail are started again: how soon, and when others than the log are to hear of it."""

import re
from dataclasses import dataclass, replace

from baton.spark.range_placement import Range

_FIRST = 1.0
_LONGEST = 60.0
_SIX = 6
_REST = re.compile(r"^(?:=== Streaming Query ===|JVM stacktrace:|The API gave the following container statuses:)", re.MULTILINE)
"""Begins what comes with an error and does not say what went wrong: a plan, a trace, all that is known of a pod that ended."""
_OF_ROWS = re.compile(
    r"py4j\.Py4JException|org\.apache\.spark\.(Spark\w*Exception|api\.python\.\w+|.*\.ForeachBatchUserFuncException)"
)
"""Classes of what ends a query where a function raised or a job was aborted."""
_OF_LOGS = "[CONCURRENT_STREAM_LOG_UPDATE]"
"""What begins so is of such a class, too: a batch is in Spark's log already that it was about to write there."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+\s*$")
_TASK = re.compile(r"^(?:.*most recent failure: Lost task [^:]*: |Caused by: )")
"""Which task it was, and that it was one: as long as what it says."""
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ")
"""Of which query it is: its ids are other ones at each start, and longer than what may have gone wrong."""
_WORDLESS = re.compile(r"Caused by: [\w.$]+")
"""A cause of which there is the class only, as where a Python worker was killed."""


@dataclass(frozen=True, slots=True)
class QueryFailures:
    """In a row: since a batch was done."""

    count: int = 0
    of_batch: int = 0
    """Of these, for the entries of one batch: the same ones each time, for Spark repeats it until it is done."""
    entries: frozenset[Range] = frozenset()
    """These, as ranges."""
    batches_done: int = 0
    """When the last one failed, of the whole fleet."""
    batch: str = ""
    error: str = ""

    def and_another(self, batches_done: int, batch: str, error: str, entries: frozenset[Range] = frozenset()) -> "QueryFailures":
        """The query has failed. `batch`: what it was at; `error`: one line. `entries`: those that it failed for; none where
        that is not known to be their fault."""
        before = self if batches_done == self.batches_done else QueryFailures()
        if entries:
            of_batch = before.of_batch + 1 if entries == before.entries else 1
            before = replace(before, of_batch=of_batch, entries=entries)
        return replace(before, count=before.count + 1, batches_done=batches_done, batch=batch, error=error)

    @property
    def pause(self) -> float:
        """Seconds until the next try: one, and twice as many after each further failure, up to a minute."""
        return min(_LONGEST, _FIRST * 2 ** min(self.count - 1, _SIX)) if self.count else 0.0

    def trouble(self, batches_done: int, told_after: int) -> str:
        """What the group is to say of it; empty: nothing, or it is over."""
        if self.count < told_after or batches_done != self.batches_done:
            return ""
        return f"The query has failed {self.count} times in a row at {self.batch or 'its start'}: {self.error}"


def of_rows(cause: str, words: str) -> bool:
    """`cause`: the class of what has ended a query; `words`: its text. A function or a task raised it, and not what Spark does
    around them, such as to write down that a batch is done: then the sink may have its rows."""
    return _OF_ROWS.fullmatch(cause) is not None and not words.startswith(_OF_LOGS)


def last_line(error: str, most: int = 300) -> str:
    """What an exception of Spark says, without the traces and the plan that it carries: the last line that is of neither, and
    says more than a class."""
    said = _REST.split(error, maxsplit=1)[0]
    lines = [_STATE.sub("", line).strip() for line in said.splitlines()]
    told = [
        line for line in lines if line and not line.startswith(("at ", "File ", "...", "===", "Traceback", "^", "Driver stack"))
    ]
    worded = [line for line in told if not _WORDLESS.fullmatch(line)]
    last = (worded or told or [error.strip()])[-1]
    return _QUERY.sub("", _TASK.sub("", last))[:most]

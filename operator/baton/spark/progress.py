"""Hears from Spark which batches are done: earlier than the source itself, which is told a batch later."""

import logging
import re
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

log = logging.getLogger("baton.spark")

_OURS = re.compile(r"baton\[(.+)\]")
"""How the source is called in a progress: `MicroBatchStream.toString`."""

Done = Callable[[str, str], None]
"""Told the stream, and the offset up to which Spark has written down that everything is done."""


class DoneBatches(StreamingQueryListener):
    """A listener of the session that started the fleet. A progress comes after the commit log."""

    def __init__(self, done: Done) -> None:
        self._done = done

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        try:
            for source in event.progress.sources:
                found = _OURS.fullmatch(source.description)
                if found and source.endOffset.startswith("{"):
                    self._done(found[1], source.endOffset)
        except Exception:  # Spark says the same once more, a batch later
            log.exception("a progress of a query could not be read")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass

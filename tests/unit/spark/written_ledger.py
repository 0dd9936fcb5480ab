"""A view of the ledger that a test writes."""

from collections.abc import Callable

from baton.model.ledger import MemberEntry
from baton.spark.ledger import LedgerSnapshot, RequestedScale


class WrittenLedger:
    """A `LedgerView` (baton.spark.ledger_view). It is empty at first."""

    def __init__(self) -> None:
        self._ledger = LedgerSnapshot()
        self._told: list[Callable[[], None]] = []

    def write(self, *entries: MemberEntry, scale: RequestedScale | None = None) -> None:
        self._ledger = LedgerSnapshot({entry.member: entry for entry in entries}, scale)
        for told in self._told:
            told()

    def read(self) -> LedgerSnapshot:
        return self._ledger

    def on_change(self, told: Callable[[], None]) -> None:
        self._told.append(told)

    def close(self) -> None:
        pass

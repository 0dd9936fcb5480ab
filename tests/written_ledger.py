"""A view of the ledger that a test writes."""

from baton.model.ledger import MemberEntry
from baton.spark.ledger import LedgerSnapshot, LedgerView, RequestedScale


class WrittenLedger(LedgerView):
    """It is empty at first."""

    def write(self, *entries: MemberEntry, scale: RequestedScale | None = None) -> None:
        self._become(LedgerSnapshot({entry.member: entry for entry in entries}, scale))

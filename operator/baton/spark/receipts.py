"""What the tasks report of the ranges that they read or refused, and what may be committed after it.

A task never raises because of a range: four failures of one task would end the query. It returns no rows and says why in its
receipt. Receipts travel in a Spark accumulator. It counts the reports of each finished task once per action, and also those of a
lost block that is computed again during the user's function. So the driver learns that a function saw less than was planned.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple


class ReadOutcome(StrEnum):
    """What happened to one range in one task."""

    READ = "read"
    NOT_OWNER = "not-owner"
    """The task ran in another pod, or its own ledger key says otherwise."""
    STALE = "stale"
    """The queue itself refused: the partition has been granted on."""
    FAILED = "failed"
    """The queue did not answer, or gave something that cannot be read."""


class Receipt(NamedTuple):
    """One range, as one run of a task left it."""

    batch: str
    """Names the batch, so that a straggler of an earlier one is not taken for one of this."""
    number: int
    """Which range of the batch."""
    outcome: ReadOutcome
    entries: int = 0
    detail: str = ""


def verdicts(count: int, receipts: Iterable[Receipt]) -> Mapping[int, Receipt]:
    """For each of the ranges 0 … count-1 the receipt that decides: a READ only where every run of it was one.

    A range without any receipt was not read (its task was never finished), and is FAILED.
    """
    decided: dict[int, Receipt] = {}
    for receipt in receipts:
        known = decided.get(receipt.number)
        if known is None or known.outcome is ReadOutcome.READ:
            decided[receipt.number] = receipt
    missing = Receipt("", -1, ReadOutcome.FAILED, detail="no task reported it")
    return {index: decided.get(index, missing) for index in range(count)}

"""One attempt of one task of Spark's."""

from dataclasses import dataclass

Slot = tuple[str, int, int]
"""A task's place: what it says its evaluation is, its partition, and which of the batch's evaluations it is."""


@dataclass(slots=True)
class Task:
    """One attempt. It goes on after Spark has given it up, for it may be anywhere, asleep."""

    driver: int
    query: int
    batch: int
    slot: Slot
    start: int
    end: int
    uid: str
    epoch: int
    attempt: int
    executor: str
    cursor: int
    rows: tuple[int, ...] = ()
    given_up: bool = False


def uid(executor: str) -> str:
    """Of an executor's pod."""
    return f"u{executor[1:]}"

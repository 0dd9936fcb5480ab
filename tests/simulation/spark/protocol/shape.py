"""How large a world is, and how much of each trouble there is in it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Shape:
    """What is counted here is used up as it happens."""

    partitions: int = 1
    executors: int = 2
    entries: int = 3
    most: int = 2
    """Entries of a partition in a batch."""
    evaluations: int = 1
    """Of a batch, at the same time."""
    drivers: int = 1
    """At a time."""
    deaths: int = 0
    """Of drivers. Each is followed by another."""
    lost: int = 0
    """Executors that Spark gives up, though what runs there may go on."""
    grants: int = 0
    failovers: int = 0
    seals: int = 0
    """Partitions whose entries go to a new one from now on, once they are done."""
    singles: int = 0
    """Entries that a pod reads singly."""
    broken: frozenset[str] = frozenset()
    """Rules that are not kept: see `partition.py`, and here."""

"""What the operator opens a topic with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToOpen:
    """What the spec of a PartitionedQueue says of its topic."""

    topic: str
    queue: str
    """The PartitionedQueue's name."""
    latest: bool = False
    """A group that has committed nothing begins at the end."""
    max_redeliveries: int = 0
    max_unacknowledged: int = 0
    """0: any number."""
    dead_letters: str = ""
    """The topic for dead letters; empty: the default."""

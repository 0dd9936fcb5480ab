"""Why an entry waits or was not added, as the producer's user reads it."""


def added_by_hand(partition: int, queue: str) -> str:
    """Why entries of a partition have to wait."""
    return (
        f"Somebody has added entries to partition {partition} of {queue} by hand (XADD), with ids beyond those of its producers: "
        "new entries wait until its consumers have done all that is there."
    )


def copied(queue: str) -> str:
    """Why the queue refuses a new entry that it takes for a duplicate."""
    return (
        f"{queue} has another entry under this one's number, and did not take it: a copy of this process sends there too (from a "
        "snapshot that was restored?). Make a producer in each copy, after it was restored."
    )


def no_partition(partition: int, count: int, queue: str) -> str:
    """The program asks for a partition that the queue does not have."""
    return f"{queue} has no partition {partition}: it has {count}, from 0 to {count - 1}."


def moving(queue: str) -> str:
    """Keys have to wait for the new table."""
    return f"The slots of some keys of {queue} are moving between partitions."

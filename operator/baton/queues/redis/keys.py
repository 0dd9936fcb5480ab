"""Where a partitioned queue lives in Redis.

Everything of one queue carries one hash tag, `pq:{namespace/queue}:…`, so that Redis Cluster keeps a queue on one node.
"""

from functools import lru_cache
from typing import NamedTuple


class PartitionKeys(NamedTuple):
    """The keys of one partition, in the order in which every script takes them."""

    owner: str
    """Hash, the fence: uid, epoch, paused; process, which reads it singly, and given, up to where that was given entries, where
    their deliveries are counted; left, served and waiting (how many), while entries of a former owner wait to be handed out; and
    the limits of the queue's spec, maxDeliveredUnacked and maxRedeliveries."""
    stream: str
    """Stream. Entries have the ids `n-0`, with an n that grows by one, and the fields k, v, t and h (if it
    has headers). The first n is the time in microseconds; after a restart, a failover or a loss, which may have taken entries,
    the next is further ahead."""
    progress: str
    """Hash: last (entry added), done (how many are finished with, in the same count), dead (how many of these went
    to the dead letters), lost (how many vanished before they were finished with), committed, the ranges that
    are logged or set aside for Spark (docs/development/spark-source.md), seen (entries up to it may have been handed out),
    history (the server's), since (when that was first seen, in microseconds), waits: 1 if its owner has read everything and is
    to be woken;
    sealed and barrier (the version at which slots last went, and the last entry then), staged (entries on stages), suspect: 1
    if some of these may have been handed out in a former history, `follows stage` (the history in which its entries began to
    follow), forgetting (the cursor in sequences), bytes (of keys, values and headers of all that was added) and marked (of
    these, up to the last mark, which is after the entry markedTo)."""
    wake: str
    """Stream that wakes blocked readers. One entry: `epoch-0` for a grant, `epoch-n` for the n-th entry."""
    refused: str
    """Counter of refused stale owners."""
    slots: str
    """Hash: slot -> `version` at which this partition has accepted it; `version partition` while its entries wait on the stream
    `stage:version.partition` for that partition to be read up to its barrier; or `version moved`: it went elsewhere."""
    sequences: str
    """Hash: slot:producer -> the last sequence number that was added, and when."""
    dead: str
    """Stream of the dead letters: offset, key, value, timestamp, deliveries, why, and headers if it has some."""
    marks: str
    """Stream that tells how many bytes are between two entries: after each 1 MiB it has the id of an entry, with the field s:
    bytes of all keys, values and headers up to there."""
    never: str
    """There is no such key. A Redis Cluster that moves a slot to another node runs no script of which a key is missing
    (TRYAGAIN): so none runs while some of the keys are here and some there."""


ANY_PARTITION = "#"
"""Instead of the number of one."""


@lru_cache(maxsize=8192)
def partition_keys(queue: str, partition: int | str) -> PartitionKeys:
    """`queue` is namespace/name."""
    root = f"pq:{{{queue}}}:{partition}:"
    return PartitionKeys(
        owner=root + "owner",
        stream=root + "stream:0",
        progress=root + "progress:0",
        wake=root + "wake",
        refused=root + "refused",
        slots=root + "slots",
        sequences=root + "sequences",
        dead=root + "dead",
        marks=root + "marks",
        never=root + "never",
    )


def queue_key(queue: str) -> str:
    """Hash of the whole queue: group, partitions, most (there ever were), born, ready, the limits, and table with its version
    (routing.py); while the number of partitions changes: former (table), target (partitions), and next (table) until it is
    published."""
    return f"pq:{{{queue}}}:queue"


def entry_id(number: int) -> str:
    """The id of the n-th entry: `n-0`."""
    return f"{number}-0"


def entry_number(entry: bytes | str) -> int:
    """The inverse of `entry_id`."""
    text = entry.decode() if isinstance(entry, bytes) else entry
    return int(text.partition("-")[0])


def announcements_key(group: str, uid: str) -> str:
    """Stream of a pod: which partitions it is to look at, for their owner records have changed. `group` is namespace/name.
    Fields: queue (its name), and partitions, as `0-3,7`."""
    return f"pg:{{{group}}}:{uid}"

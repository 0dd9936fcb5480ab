"""The keys of a partitioned queue in Redis.

All keys of one queue have the same hash tag, `pq:{namespace/queue}:…`, so that Redis Cluster keeps a queue on one node.
"""

from functools import lru_cache
from typing import NamedTuple


class PartitionKeys(NamedTuple):
    """The keys of one partition, in the order in which every script takes them."""

    owner: str
    """Hash, the fence. The owner record: uid, epoch, paused; within: milliseconds that a paused owner got. process: the process
    that reads singly. given: the last entry given to that process, if deliveries are counted. left, served and waiting (a count):
    exist while entries of a former owner wait to be handed out. kept: the owner has not released the partition yet. The limits of
    the queue's spec: maxDeliveredUnacked and maxRedeliveries."""
    stream: str
    """Stream of the entries. Their ids are `n-0`, with n growing by one; their fields are k, v, t and, with headers, h. The first
    n is the time in microseconds. After a restart, a failover or a loss, which may have removed entries, n continues further
    ahead."""
    progress: str
    """Hash with

    - last: the last entry added; committed: the entry up to which all are finished
    - done: finished entries, in the same count as `last`; dead: those of them moved to dead letters; lost: entries that vanished
      unfinished
    - seen: entries up to this one may have been handed out before
    - history: the server's history; since: when that history was first seen, in microseconds
    - waits: 1 if the owner has read everything and waits for a wake-up
    - sealed, barrier: the version at which slots last left, and the last entry at that time
    - staged: number of entries on stages; suspect: 1 if some of them may have been handed out in an earlier history
    - `follows stage`: the history in which entries of the stage began to follow
    - forgetting: the cursor of removing old sequences
    - bytes: of keys, values and headers of all added entries; marked: the part of them up to the last mark, after entry markedTo
    - the ranges that are logged or set aside for Spark (docs/development/spark-source.md)"""
    wake: str
    """Stream that wakes blocked readers. It has one entry: `epoch-0` for a grant, `epoch-n` for the n-th entry."""
    refused: str
    """Counter of rejected stale owners."""
    slots: str
    """Hash: slot -> `version` at which this partition accepted the slot; `version partition` while the slot's entries wait on the
    stream `stage:version.partition` until that partition is read up to its barrier; `version moved` after the slot left."""
    sequences: str
    """Hash: slot:producer -> the last sequence number added, and the time."""
    dead: str
    """Stream of the dead letters: offset, key, value, timestamp, deliveries, why, and headers if there are any."""
    marks: str
    """Stream that measures the bytes between entries: after each 1 MiB it has the id of an entry, with the field s: bytes of all
    keys, values and headers up to that entry."""
    never: str
    """A key that never exists. While a Redis Cluster moves a slot to another node, it refuses scripts with a missing key
    (TRYAGAIN). So no script runs while only some of the keys have been moved."""


ANY_PARTITION = "#"
"""Placeholder for a partition's number."""


@lru_cache(maxsize=8192)
def partition_keys(queue: str, partition: int | str) -> PartitionKeys:
    """Return the keys of a partition. `queue` is namespace/name."""
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
    """Hash of the queue: group and its uid, partitions, most (the highest number of partitions ever), born (a mark of its
    creation), ready (all partitions exist), the limits, and the routing table with its version (routing.py). During a change of
    the number of partitions also former (table), target (partitions), and next (table) until it is published."""
    return f"pq:{{{queue}}}:queue"


def entry_id(number: int) -> str:
    """Return the id of the n-th entry: `n-0`."""
    return f"{number}-0"


def entry_number(entry: bytes | str) -> int:
    """The inverse of `entry_id`."""
    text = entry.decode() if isinstance(entry, bytes) else entry
    return int(text.partition("-")[0])


def announcements_key(group: str, uid: str) -> str:
    """Stream of a pod's announcements: partitions whose owner records have changed. `group` is namespace/name. Fields: queue (its
    name), and partitions, as `0-3,7`."""
    return f"pg:{{{group}}}:{uid}"

"""What the operator asks each partition for in one of its checks, and what the answers say."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from baton.queues.protocol import Owner
from baton.queues.redis import records, server_answers
from baton.queues.redis.backlog import FIELDS, PartitionBacklog, read
from baton.queues.redis.keys import PartitionKeys

_OWNER = ("uid", "epoch", "paused", "maxDeliveredUnacked", "maxRedeliveries")
_PROGRESS = (*FIELDS, "lost", "dead")
QUESTIONS = 6
"""To one partition."""


class PartitionCheck(NamedTuple):
    """One partition."""

    owner: Owner | None
    """None: it was never granted."""
    whole: bool
    """All that makes it a partition is there."""
    backlog: PartitionBacklog
    lost: int
    """Entries that were seen to have vanished before they were finished with; see `PartitionBacklog.gone`."""
    dead: int
    """Entries that were set aside since it was made."""
    letters: int
    """Of these, those that are still there."""
    refused: int


def ask_checks(pipe: Any, keys: PartitionKeys) -> None:
    """Put the questions into the pipeline."""
    pipe.hmget(keys.owner, *_OWNER)
    pipe.exists(keys.stream, keys.progress, keys.slots)
    pipe.hmget(keys.progress, *_PROGRESS)
    pipe.get(keys.refused)
    pipe.xlen(keys.dead)
    pipe.xlen(keys.stream)


def read_checks(found: Sequence[object]) -> list[PartitionCheck]:
    """The answers of many partitions. Raises OddAnswerError and ForeignRecord."""
    return [_check(found[start : start + QUESTIONS]) for start in range(0, len(found), QUESTIONS)]


def _check(found: Sequence[object]) -> PartitionCheck:
    uid, epoch, paused, *limits = server_answers.fields(len(_OWNER))(found[0])
    *progress, lost, dead = server_answers.fields(len(_PROGRESS))(found[2])
    return PartitionCheck(
        owner=None if epoch is None else records.owner([uid, epoch, paused]),
        whole=server_answers.number(found[1]) == 3 and None not in limits,
        backlog=read(progress, server_answers.number(found[5])),
        lost=records.number(lost, "lost"),
        dead=records.number(dead, "dead"),
        letters=server_answers.number(found[4]),
        refused=records.number(server_answers.text(found[3]), "refused"),
    )

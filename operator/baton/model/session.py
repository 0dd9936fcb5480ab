"""What a session says of itself: the releases that stand in its Lease."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from baton.model.ids import Epoch, QueueName, Uid
from baton.model.ranges import format_grants, parse_grants


class Release(NamedTuple):
    """A consumer's word that it has let go of a partition that it was granted at this epoch: it will do nothing more to it."""

    uid: Uid
    queue: QueueName
    partition: int
    epoch: Epoch


def format_releases(releases: Iterable[Release]) -> str:
    """The annotation's text: JSON, `{"<uid>": {"orders": "5@12"}}`."""
    grouped: dict[str, dict[str, dict[int, Epoch]]] = {}
    for release in sorted(releases):
        grouped.setdefault(release.uid, {}).setdefault(release.queue, {})[release.partition] = release.epoch
    return json.dumps(
        {uid: {queue: format_grants(grants) for queue, grants in queues.items()} for uid, queues in grouped.items()},
        separators=(",", ":"),
    )


def parse_releases(text: str) -> frozenset[Release]:
    """The inverse of `format_releases`; the empty text has none. Raises ValueError for anything else."""
    if not text:
        return frozenset()
    raw = json.loads(text)
    if not isinstance(raw, dict) or not all(isinstance(queues, dict) for queues in raw.values()):
        raise ValueError(f"releases: expected an object of objects, found {text[:80]!r}")
    return frozenset(
        Release(Uid(uid), QueueName(queue), number, epoch)
        for uid, queues in raw.items()
        for queue, grants in queues.items()
        for number, epoch in parse_grants(str(grants)).items()
    )

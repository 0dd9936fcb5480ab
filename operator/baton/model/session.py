"""The releases that a session reports in its Lease.

Any consumer's account can write that text. So its length is checked before it is read, and it stays text: the engine only asks
whether a partition of a hand-off was released.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from baton.model.ids import Epoch, QueueName, Uid
from baton.model.ranges import GrantSpans, format_grants
from baton.model.wording import quoted

LONGEST = 256 * 1024
"""The most characters of the annotation that are read. The API server accepts no more in all annotations together."""

LONGEST_WRITTEN = 192 * 1024
"""The most characters that a consumer writes, because the Lease has other annotations too. The rest follows later."""

MOST_NAMED = 8_000
"""The most UIDs, and queues of all of them together, in one Lease."""

TOO_MANY = f"it names more than {MOST_NAMED:,} pods and queues"

LONGEST_UID = 64
LONGEST_QUEUE = 253

_GRANTS = re.compile(r"[-0-9@,]*")


class Release(NamedTuple):
    """A consumer has released a partition that it was granted at this epoch: it does no more work on it."""

    uid: Uid
    queue: QueueName
    partition: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class PodReleases:
    """The releases of one pod: JSON, `{"orders":"5@12,7-9@3"}`. It stays text, because thousands of queues would take a MiB."""

    text: str
    _spans: dict[QueueName, GrantSpans] = field(default_factory=dict, repr=False, compare=False)
    _refused: dict[QueueName, str] = field(default_factory=dict, repr=False, compare=False)

    def names(self, queue: QueueName, partition: int, epoch: Epoch) -> bool:
        """The pod has released this partition at this epoch."""
        spans = self._spans.get(queue)
        if spans is None:
            spans = self._spans[queue] = self._read(queue, json.loads(self.text).get(queue, ""))
        return spans.names(partition, epoch)

    @property
    def refused(self) -> Mapping[QueueName, str]:
        """The error of each queue whose text could not be read so far. Such a queue has no releases."""
        return self._refused

    def _read(self, queue: QueueName, text: str) -> GrantSpans:
        try:
            return GrantSpans.read(text)
        except ValueError as error:
            self._refused[queue] = str(error)
            return GrantSpans.read("")


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of a group's pods: `Release(…) in releases`. The cost depends on the number of lookups, not on the text."""

    by_uid: Mapping[Uid, PodReleases] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_uid)

    def __contains__(self, release: object) -> bool:
        if not isinstance(release, Release):
            return False
        pod = self.by_uid.get(release.uid)
        return pod is not None and pod.names(release.queue, release.partition, release.epoch)


def format_releases(releases: Iterable[Release], longest: int = LONGEST_WRITTEN) -> str:
    """The annotation's text: JSON, `{"<uid>": {"orders": "5@12"}}`, with as many releases as fit into `longest` characters."""
    grouped: dict[str, dict[str, dict[int, Epoch]]] = {}
    room = longest - len("{}")
    for release in sorted(releases):
        mine = grouped.get(release.uid)
        room -= len(f"{release.partition}@{release.epoch},")
        if mine is None:
            room -= len(f'"{release.uid}":{{}},')
        if mine is None or release.queue not in mine:
            room -= len(f'"{release.queue}":"",')
        if room < 0:
            break
        grouped.setdefault(release.uid, {}).setdefault(release.queue, {})[release.partition] = release.epoch
    return json.dumps(
        {uid: {queue: format_grants(grants) for queue, grants in queues.items()} for uid, queues in grouped.items()},
        separators=(",", ":"),
    )


def parse_releases(text: str, of: Uid | None = None) -> dict[Uid, PodReleases]:
    """The inverse of `format_releases`: the releases by UID; none for the empty text. Grants are parsed later, when asked for.

    `of`: only this pod's releases; None: those of all pods. Raises ValueError, with a short message, for any other text, and for
    one that is too long.
    """
    if not text:
        return {}
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters, and at most {LONGEST:,} are read: list current releases only")
    raw = _object(text)
    if of is not None:
        raw = {of: raw[of]} if of in raw else {}
    if len(raw) > MOST_NAMED:
        raise ValueError(TOO_MANY)
    found: dict[Uid, PodReleases] = {}
    room = MOST_NAMED
    for uid, queues in raw.items():
        if not isinstance(queues, dict):
            raise ValueError(f'the value of {quoted(uid)} is not an object such as {{"orders":"5@12"}}')
        room -= 1 + len(queues)
        if room < 0:
            raise ValueError(TOO_MANY)
        if len(uid) > LONGEST_UID:
            raise ValueError(f"{quoted(uid)} is not a UID")
        for queue, grants in queues.items():
            if not isinstance(grants, str) or len(queue) > LONGEST_QUEUE or _GRANTS.fullmatch(grants) is None:
                raise ValueError(f"the value of {quoted(uid)}, {quoted(queue)} is not a list of grants such as 5@12,7-9@3")
        found[Uid(uid)] = PodReleases(json.dumps(queues, separators=(",", ":"), sort_keys=True))
    return found


def _object(text: str) -> dict[str, object]:
    try:
        raw: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f'it is not JSON such as {{"<uid>":{{"orders":"5@12"}}}}: {quoted(text)}') from None
    if not isinstance(raw, dict):
        raise ValueError(f'it is not an object such as {{"<uid>":{{"orders":"5@12"}}}}: {quoted(text)}')
    return raw

"""What a session says of itself: the releases that stand in its Lease.

They are the word of others, in a text that any consumer's account can write. So the text is bounded before it is read, and kept
as text: what is asked is whether one partition was released, and only of partitions that are to be handed off.
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
"""Characters of the annotation that are read: the API server takes no more either (of all annotations together)."""

LONGEST_SAID = 192 * 1024
"""Characters that a consumer writes: the Lease has other annotations, too. What does not fit is said when some of it is done."""

MOST_SAID = 8_000
"""UIDs, and queues of all of them, that one Lease speaks of."""

TOO_MANY = f"it speaks of more than {MOST_SAID:,} pods and queues"

LONGEST_UID = 64
LONGEST_QUEUE = 253

_GRANTS = re.compile(r"[-0-9@,]*")


class Release(NamedTuple):
    """A consumer's word that it has let go of a partition that it was granted at this epoch: it will do nothing more to it."""

    uid: Uid
    queue: QueueName
    partition: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Said:
    """What one pod has released: JSON, `{"orders":"5@12,7-9@3"}`. It stays text, since thousands of queues would have a MiB."""

    text: str
    _spans: dict[QueueName, GrantSpans] = field(default_factory=dict, repr=False, compare=False)
    _refused: dict[QueueName, str] = field(default_factory=dict, repr=False, compare=False)

    def names(self, queue: QueueName, partition: int, epoch: Epoch) -> bool:
        """Whether it says that it has released this."""
        spans = self._spans.get(queue)
        if spans is None:
            spans = self._spans[queue] = self._read(queue, json.loads(self.text).get(queue, ""))
        return spans.names(partition, epoch)

    @property
    def refused(self) -> Mapping[QueueName, str]:
        """What of it could not be read, as far as anybody has asked: it counts as nothing."""
        return self._refused

    def _read(self, queue: QueueName, text: str) -> GrantSpans:
        try:
            return GrantSpans.read(text)
        except ValueError as error:
            self._refused[queue] = str(error)
            return GrantSpans.read("")


@dataclass(frozen=True, slots=True)
class Releases:
    """What the pods of a group have released: `Release(…) in releases`. Costs what is asked, not what is said."""

    by_uid: Mapping[Uid, Said] = field(default_factory=dict)

    def __contains__(self, release: object) -> bool:
        if not isinstance(release, Release):
            return False
        said = self.by_uid.get(release.uid)
        return said is not None and said.names(release.queue, release.partition, release.epoch)


def format_releases(releases: Iterable[Release], longest: int = LONGEST_SAID) -> str:
    """The annotation's text: JSON, `{"<uid>": {"orders": "5@12"}}`. What would make it longer than `longest` is left out."""
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


def parse_releases(text: str, of: Uid | None = None) -> dict[Uid, Said]:
    """The inverse of `format_releases`, by UID; the empty text has none. What a grant is, is looked at when somebody asks.
    `of`: only what is said of this pod (None: of all).

    Raises ValueError, with a short message, for anything else, and for what is longer than anybody has to say.
    """
    if not text:
        return {}
    if len(text) > LONGEST:
        raise ValueError(
            f"it has {len(text):,} characters, and {LONGEST:,} are read: say what is to be released now, and no more"
        )
    raw = _object(text)
    if of is not None:
        raw = {of: raw[of]} if of in raw else {}
    if len(raw) > MOST_SAID:
        raise ValueError(TOO_MANY)
    said: dict[Uid, Said] = {}
    room = MOST_SAID
    for uid, queues in raw.items():
        if not isinstance(queues, dict):
            raise ValueError(f'what stands under {quoted(uid)} is no object such as {{"orders":"5@12"}}')
        room -= 1 + len(queues)
        if room < 0:
            raise ValueError(TOO_MANY)
        if len(uid) > LONGEST_UID:
            raise ValueError(f"{quoted(uid)} is no UID")
        for queue, grants in queues.items():
            if not isinstance(grants, str) or len(queue) > LONGEST_QUEUE or _GRANTS.fullmatch(grants) is None:
                raise ValueError(f"what stands under {quoted(uid)}, {quoted(queue)} is no list of grants such as 5@12,7-9@3")
        said[Uid(uid)] = Said(json.dumps(queues, separators=(",", ":"), sort_keys=True))
    return said


def _object(text: str) -> dict[str, object]:
    try:
        raw: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f'it is not JSON such as {{"<uid>":{{"orders":"5@12"}}}}: {quoted(text)}') from None
    if not isinstance(raw, dict):
        raise ValueError(f'it is no object such as {{"<uid>":{{"orders":"5@12"}}}}: {quoted(text)}')
    return raw

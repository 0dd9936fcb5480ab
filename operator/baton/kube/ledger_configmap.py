"""The ledger ConfigMap at the API server: made empty, claimed by a leader, replaced by compare-and-swap.

The annotation `baton.dev/writer` carries the term of the leader that wrote last. A new leader claims the ledger with its own
term before it does anything, so that whatever a deposed one still writes fails. The annotation `baton.dev/release` names the
installation that it belongs to (`baton.kube.releases`): the ledger of another one that lives is left to it.

A ConfigMap of the ledger's name is a ledger if it is labelled as one and owned by a ConsumerGroup of that name. Only such a one
is replaced: that of an earlier group of the name, and that of this group, whoever edited it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baton.engine.ledger import MOST_PARTITIONS
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import UnavailableError
from baton.kube.objects import GROUP_VERSION
from baton.kube.releases import RELEASE_ANNOTATION, OperatorReleases, release_of
from baton.kube.store import Manifest
from baton.model.names import API_GROUP, GROUP_LABEL, ledger_name

WRITER_ANNOTATION = "baton.dev/writer"
PARTITIONS_ANNOTATION = "baton.dev/partitions"
"""How many partitions were booked for the group: whoever leads next keeps room for them before it reads any ledger."""

MANAGED_BY_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "baton"

LONGEST_TERM = 18
"""Digits."""

MOST_UNKNOWN = 4
"""Writes without an answer that are remembered. Each may have the size of a ledger."""


@dataclass(frozen=True, slots=True)
class LedgerOwner:
    """The ConsumerGroup that a ledger belongs to."""

    namespace: str
    group: str
    uid: str

    @property
    def name(self) -> str:
        """The name of the ConfigMap."""
        return ledger_name(self.group)

    @property
    def path(self) -> str:
        return core_path(self.namespace, "configmaps", self.name)


@dataclass(frozen=True, slots=True)
class Stored:
    """A ConfigMap as it stands under the ledger's name."""

    data: Mapping[str, str]
    version: str
    """resourceVersion"""
    uid: str
    """Of the ConfigMap itself."""
    owner_uid: str | None
    """UID of the ConsumerGroup of this name that it belongs to. None: it is not a ledger."""
    term: int | None = None
    """Of the leader that wrote it; None: nobody can tell."""
    release: str | None = None
    """The release of that leader, likewise."""
    partitions: int = 0
    """See `partitions_of`."""
    finalizers: tuple[str, ...] = ()
    """Of others, which want to see it go."""


class Deposed(Exception):  # noqa: N818 -- what became of the writer, not an error of its
    """Another leader has taken over."""


class ServedElsewhere(Deposed):
    """Another release of the operator writes the ledger."""

    def __init__(self, release: str) -> None:
        super().__init__(f"the operator's release {release} serves the group")
        self.release = release


class AlreadyWritten(Exception):  # noqa: N818 -- what became of a write
    """What stands there was written by this leader earlier, and the answer was lost: what it says counts."""

    def __init__(self, data: Mapping[str, str]) -> None:
        super().__init__("an earlier write of the ledger, whose answer was lost, was carried out")
        self.data = data


class ForeignConfigMap(Exception):  # noqa: N818 -- what stands in the way, for the user
    """A ConfigMap that is not a ledger has the ledger's name. The message is for users."""

    def __init__(self, owner: LedgerOwner) -> None:
        super().__init__(
            f"ConfigMap {owner.namespace}/{owner.name} has the name of the group's ledger, and is not a ledger of Baton's (label "
            f"{GROUP_LABEL}: {owner.group}, label {MANAGED_BY_LABEL}: {MANAGED_BY}, owner ConsumerGroup {owner.group}): it is "
            "left alone. Delete it or give it another name, or give the group another name"
        )


def stored(config_map: Json, group: str) -> Stored:
    """The manifest of the ConfigMap under the name of this group's ledger."""
    metadata = config_map["metadata"]
    labels = metadata.get("labels") or {}
    labelled = labels.get(GROUP_LABEL) == group and labels.get(MANAGED_BY_LABEL) == MANAGED_BY
    owners = [
        owner["uid"]
        for owner in metadata.get("ownerReferences") or ()
        if owner["kind"] == "ConsumerGroup" and owner["apiVersion"].startswith(f"{API_GROUP}/") and owner["name"] == group
    ]
    annotations = metadata.get("annotations") or {}
    term = annotations.get(WRITER_ANNOTATION, "")
    return Stored(
        data=config_map.get("data") or {},
        version=metadata["resourceVersion"],
        uid=metadata["uid"],
        owner_uid=owners[0] if owners and labelled else None,
        term=int(term) if term.isascii() and term.isdigit() and len(term) <= LONGEST_TERM else None,
        release=release_of(config_map),
        partitions=partitions_of(config_map),
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


@dataclass(frozen=True, slots=True)
class ListedLedger:
    """What a ledger's metadata say."""

    namespace: str
    name: str
    group: str
    version: str
    """resourceVersion"""
    partitions: int
    """That were booked for its group."""
    release: str | None
    """That wrote it."""


def listed_ledger(config_map: Manifest) -> ListedLedger:
    """By its metadata, which is all that a list has of it."""
    metadata = config_map["metadata"]
    return ListedLedger(
        metadata["namespace"],
        metadata["name"],
        str((metadata.get("labels") or {}).get(GROUP_LABEL)),
        metadata["resourceVersion"],
        partitions_of(config_map),
        release_of(config_map),
    )


def ledger_of(config_map: Json | None, group: str) -> Json | None:
    """The ConfigMap under the name of this group's ledger, if it is the ledger: whoever may write ConfigMaps may have put
    another there, which the operator leaves alone."""
    return config_map if config_map is not None and stored(config_map, group).owner_uid is not None else None


def partitions_of(config_map: Manifest) -> int:
    """What was booked for its group, as the ledger's metadata tell it."""
    text = (config_map["metadata"].get("annotations") or {}).get(PARTITIONS_ANNOTATION, "")
    return min(int(text), MOST_PARTITIONS) if text.isascii() and text.isdigit() and len(text) <= LONGEST_TERM else 0


class Ledger:
    """One group's ledger, as one leader writes it. Methods raise what `Api` raises, and ForeignConfigMap; those that look also
    raise ServedElsewhere."""

    def __init__(
        self, api: Api, owner: LedgerOwner, term: int, release: str, releases: OperatorReleases, booked: Callable[[], int]
    ) -> None:
        """`booked`: how many partitions the group has, or is about to have."""
        self._api = api
        self.owner = owner
        self.term = term
        """In which this leader leads."""
        self._release = release
        self._releases = releases
        self._booked = booked
        self.written: Mapping[str, str] | None = None
        """What this leader wrote last."""
        self.found: Mapping[str, str] | None = None
        """The group's own, as it was found last. None: there was none."""
        self._stands: Stored | None = None
        """What was last written, or seen in its place. None: nothing stands there."""
        self._unknown: deque[Mapping[str, str]] = deque(maxlen=MOST_UNKNOWN)
        """What was asked to be written without an answer: it may stand there, or come to stand there."""
        self.overwritten = False
        """Somebody else's stood there when such a write may have stood there before, and pods may have acted by it."""

    @property
    def version(self) -> str | None:
        """resourceVersion of what was last written, or seen in its place."""
        return None if self._stands is None else self._stands.version

    @property
    def unanswered(self) -> bool:
        """A write without an answer may stand there, or come to stand there."""
        return bool(self._unknown)

    async def claim(self) -> Mapping[str, str] | None:
        """The ledger's content, with this leader's term now on it. None: there was none of this group's; an empty one now stands
        there. One that this leader has found, could not write, and that is gone since, is written again."""
        found = await self._see()
        if found is not None:
            self.found = found.data if found.owner_uid == self.owner.uid else None
        await self._write(self.found or {}, found.partitions if found is not None and self.found is not None else 0)
        return self.found

    async def write(self, data: Mapping[str, str]) -> None:
        """Replace what this leader wrote last. Raises ConflictError where something else stands there; then see `look`."""
        await self._write(data, self._booked())

    async def _write(self, data: Mapping[str, str], partitions: int) -> None:
        body, sent = self._body(data, partitions), dict(data)
        try:
            if self._stands is None:
                made = await self._api.create(core_path(self.owner.namespace, "configmaps"), body)
            else:
                made = await self._api.replace(self.owner.path, body)
        except UnavailableError:
            self._unknown.append(sent)
            raise
        self._stood(stored(made, self.owner.group), sent)

    async def look(self) -> Stored | None:
        """What stands there instead of what was written last; the next write replaces it. Raises AlreadyWritten where this
        leader wrote it after that."""
        found = await self._see()
        if found is not None and self.wrote(found) and found.data != self.written and found.data in self._unknown:
            self._stood(found, found.data)
            raise AlreadyWritten(found.data)
        ours = found is not None and self.wrote(found) and found.data == self.written
        self.overwritten |= bool(self._unknown) and not ours
        return found

    def _stood(self, stands: Stored, data: Mapping[str, str]) -> None:
        """What is still on its way was sent to replace an older version, so it fails."""
        self._stands, self.written = stands, data
        self._unknown.clear()

    def wrote(self, found: Stored) -> bool:
        """Whether this leader wrote it, as far as the ConfigMap tells."""
        return found.owner_uid == self.owner.uid and found.term == self.term and found.release == self._release

    async def _see(self) -> Stored | None:
        manifest = await self._api.find(self.owner.path)
        found = None if manifest is None else stored(manifest, self.owner.group)
        same = found is not None and self._stands is not None and found.uid == self._stands.uid
        if found is not None and found.owner_uid is None and not same:
            raise ForeignConfigMap(self.owner)
        by = None if found is None else found.release
        if by is not None and by != self._release and await self._releases.serves(by, self.owner.namespace):
            raise ServedElsewhere(by)
        self._stands = found
        return found

    def _body(self, data: Mapping[str, str], partitions: int) -> Json:
        metadata: Json = {
            "name": self.owner.name,
            "labels": {GROUP_LABEL: self.owner.group, MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {
                WRITER_ANNOTATION: str(self.term),
                RELEASE_ANNOTATION: self._release,
                PARTITIONS_ANNOTATION: str(partitions),
            },
            "ownerReferences": [
                {
                    "apiVersion": GROUP_VERSION,
                    "kind": "ConsumerGroup",
                    "name": self.owner.group,
                    "uid": self.owner.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        if self._stands is not None:
            metadata["resourceVersion"] = self._stands.version
            metadata["finalizers"] = list(self._stands.finalizers)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}

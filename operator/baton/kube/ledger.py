"""The ledger ConfigMap at the API server: made empty, claimed by a leader, replaced by compare-and-swap.

The annotation `baton.dev/writer` carries the term of the leader that wrote last. A new leader claims the ledger with its own
term before it does anything, so that whatever a deposed one still writes fails; and a writer whose write failed can tell a
later leader (it must stop) from somebody who edited the ledger by hand (who is overruled).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from baton.kube.api import Api, Json, core_path
from baton.kube.objects import GROUP_VERSION
from baton.model.names import GROUP_LABEL, ledger_name

WRITER_ANNOTATION = "baton.dev/writer"
SIZE_LIMIT = 900 * 1024
"""Bytes of keys and values. A ConfigMap may have 1 MiB, and etcd's request a little more."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The ConsumerGroup that a ledger belongs to."""

    namespace: str
    group: str
    uid: str

    @property
    def path(self) -> str:
        return core_path(self.namespace, "configmaps", ledger_name(self.group))


@dataclass(frozen=True, slots=True)
class Stored:
    """A ledger as it stands."""

    data: Mapping[str, str]
    version: str
    """resourceVersion"""
    owner_uid: str | None
    """UID of the ConsumerGroup that owns it."""
    term: int | None
    """Of the leader that wrote it; None: not written by a leader."""


class Deposed(Exception):  # noqa: N818 -- what became of the writer, not an error of its
    """A later leader has claimed the ledger."""


class TooLarge(Exception):  # noqa: N818 -- says which limit
    """The ledger would not fit into a ConfigMap."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the ledger would have {size:,} bytes, and a ConfigMap takes {SIZE_LIMIT:,}")


def size(data: Mapping[str, str]) -> int:
    """Bytes of keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


def stored(config_map: Json) -> Stored:
    """A ConfigMap's manifest as a ledger."""
    metadata = config_map["metadata"]
    term = (metadata.get("annotations") or {}).get(WRITER_ANNOTATION, "")
    owners = [owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("kind") == "ConsumerGroup"]
    return Stored(
        data=config_map.get("data") or {},
        version=metadata["resourceVersion"],
        owner_uid=owners[0] if owners else None,
        term=int(term) if term.isdigit() else None,
    )


class Ledger:
    """One group's ledger, as one leader writes it. Methods raise what `Api` raises, Deposed and TooLarge."""

    def __init__(self, api: Api, owner: Owner, term: int) -> None:
        self._api = api
        self.owner = owner
        self._term = term
        self.version: str | None = None
        """resourceVersion of what was last written, or seen in its place."""
        self.written: Mapping[str, str] | None = None
        """What this leader wrote last."""
        self._sent: Mapping[str, str] | None = None
        """What it last asked to be written; whether it was, is not known while the answer is missing."""

    async def claim(self) -> Mapping[str, str] | None:
        """The ledger's content, with this leader's term now on it. None: there was none of this group's; an empty one now stands
        there."""
        found = await self.read()
        ours = found is not None and found.owner_uid == self.owner.uid
        data = found.data if found is not None and ours else {}
        await self._put(data, found.version if found else None)
        return data if ours else None

    async def read(self) -> Stored | None:
        """The ledger as it stands."""
        found = await self._api.find(self.owner.path)
        return None if found is None else stored(found)

    async def write(self, data: Mapping[str, str]) -> None:
        """Replace what this leader wrote last. Raises ConflictError where something else stands there; then see `look`."""
        if (bytes_ := size(data)) > SIZE_LIMIT:
            raise TooLarge(bytes_)
        await self._put(data, self.version)

    async def look(self) -> Stored | None:
        """What stands there instead of what was written last; the next write replaces it. What this leader itself wrote, when the
        answer was lost, counts as written. Raises Deposed where a later leader wrote it."""
        found = await self.read()
        if found is not None and found.owner_uid == self.owner.uid and found.term is not None and found.term > self._term:
            raise Deposed
        self.version = found.version if found else None
        if found is not None and found.term == self._term and found.data == self._sent:
            self.written = found.data
        return found

    async def _put(self, data: Mapping[str, str], version: str | None) -> None:
        body = self._body(data, version)
        self._sent = dict(data)
        if version is None:
            made = await self._api.create(core_path(self.owner.namespace, "configmaps"), body)
        else:
            made = await self._api.replace(self.owner.path, body)
        self.version = made["metadata"]["resourceVersion"]
        self.written = self._sent

    def _body(self, data: Mapping[str, str], version: str | None) -> Json:
        metadata: Json = {
            "name": ledger_name(self.owner.group),
            "labels": {GROUP_LABEL: self.owner.group, "app.kubernetes.io/managed-by": "baton"},
            "annotations": {WRITER_ANNOTATION: str(self._term)},
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
        if version is not None:
            metadata["resourceVersion"] = version
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}

"""The ledger's ConfigMap: its name, labels and annotations, and how to tell it from other ConfigMaps of that name.

The annotation `baton.dev/writer` carries the term of the leader that wrote last. The annotation `baton.dev/release` names the
installation that the ledger belongs to (`baton.kube.releases`).

A ConfigMap of the ledger's name is a ledger if it is labelled as one and owned by a ConsumerGroup of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from baton.engine.ledger import MOST_PARTITIONS
from baton.kube.api import Json, core_path
from baton.kube.objects import GROUP_VERSION
from baton.kube.releases import RELEASE_ANNOTATION, release_of
from baton.kube.store import Manifest
from baton.model.names import API_GROUP, GROUP_LABEL, ledger_name

WRITER_ANNOTATION = "baton.dev/writer"
PARTITIONS_ANNOTATION = "baton.dev/partitions"
"""Number of partitions booked for the group. A new leader reserves capacity for them before it reads any ledger."""

REPLACES_ANNOTATION = "baton.dev/replaces"
"""The resourceVersion that was replaced. So each write makes a new version, also one of the same data."""

MANAGED_BY_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "baton"

LONGEST_NUMBER = 18
"""Most digits of a number in an annotation."""


@dataclass(frozen=True, slots=True)
class LedgerOwner:
    """The ConsumerGroup that a ledger belongs to."""

    namespace: str
    group: str
    uid: str

    @property
    def name(self) -> str:
        return ledger_name(self.group)

    @property
    def path(self) -> str:
        return core_path(self.namespace, "configmaps", self.name)

    def manifest(self, data: Mapping[str, str], term: int, release: str, partitions: int, replaces: "Stored | None") -> Json:
        """The ConfigMap to write as the leader of this term and release. It keeps the finalizers of the one that it replaces."""
        metadata: Json = {
            "name": self.name,
            "labels": {GROUP_LABEL: self.group, MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {
                WRITER_ANNOTATION: str(term),
                RELEASE_ANNOTATION: release,
                PARTITIONS_ANNOTATION: str(partitions),
            },
            "ownerReferences": [
                {
                    "apiVersion": GROUP_VERSION,
                    "kind": "ConsumerGroup",
                    "name": self.group,
                    "uid": self.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        if replaces is not None:
            metadata["resourceVersion"] = metadata["annotations"][REPLACES_ANNOTATION] = replaces.version
            metadata["finalizers"] = list(replaces.finalizers)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


@dataclass(frozen=True, slots=True)
class Stored:
    """A ConfigMap that has a ledger's name."""

    namespace: str
    name: str
    group: str
    """Value of the group label."""
    data: Mapping[str, str]
    """Empty if only metadata was listed."""
    version: str
    """resourceVersion"""
    uid: str
    """UID of the ConfigMap."""
    owner_uid: str | None
    """UID of the ConsumerGroup that both the label and the owner reference name. None: this ConfigMap is not a ledger."""
    term: int | None
    """Term of the leader that wrote it last; None: unknown."""
    release: str | None
    """Release of the leader that wrote it last; None: unknown."""
    partitions: int
    """Number of partitions booked for its group."""
    replaces: str | None
    """The version that it replaced, by its annotation."""
    finalizers: tuple[str, ...]
    """Finalizers, all set by other programs."""

    def is_ledger_of(self, group: str) -> bool:
        """Whether it is the ledger of a ConsumerGroup of this name, possibly of an earlier group of that name."""
        return self.owner_uid is not None and self.group == group


class ForeignConfigMap(Exception):  # noqa: N818 -- names the obstacle, for the user
    """A ConfigMap that is not a ledger has the ledger's name. The message is for users."""

    def __init__(self, owner: LedgerOwner) -> None:
        super().__init__(
            f"ConfigMap {owner.namespace}/{owner.name} has the name of the group's ledger, but is not a Baton ledger (label "
            f"{GROUP_LABEL}: {owner.group}, label {MANAGED_BY_LABEL}: {MANAGED_BY}, owner ConsumerGroup {owner.group}): it is "
            "not overwritten. Delete it or give it another name, or give the group another name"
        )


def stored(config_map: Manifest) -> Stored:
    """The view of a ConfigMap, from its manifest."""
    metadata = config_map["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    group = str(labels.get(GROUP_LABEL))
    labelled = labels.get(MANAGED_BY_LABEL) == MANAGED_BY
    owners = [
        owner["uid"]
        for owner in metadata.get("ownerReferences") or ()
        if owner["kind"] == "ConsumerGroup" and owner["apiVersion"].startswith(f"{API_GROUP}/") and owner["name"] == group
    ]
    return Stored(
        namespace=metadata["namespace"],
        name=metadata["name"],
        group=group,
        data=config_map.get("data") or {},
        version=metadata["resourceVersion"],
        uid=metadata["uid"],
        owner_uid=owners[0] if owners and labelled else None,
        term=_number(annotations.get(WRITER_ANNOTATION, "")),
        release=release_of(config_map),
        partitions=min(_number(annotations.get(PARTITIONS_ANNOTATION, "")) or 0, MOST_PARTITIONS),
        replaces=annotations.get(REPLACES_ANNOTATION),
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


def ledger_of(config_map: Json | None, group: str) -> Json | None:
    """Return the ConfigMap if it is the ledger of this group. An account that may write ConfigMaps can create another one under
    the ledger's name, which the operator does not touch."""
    return config_map if config_map is not None and stored(config_map).is_ledger_of(group) else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else None

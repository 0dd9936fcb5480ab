"""What `baton doctor` has read of a cluster, for its checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.cli.group_view import GroupLook
from baton.kube.objects import QueueView
from baton.kube.pods import PodView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccountRight:
    """Something that an account may do, or not, in a namespace."""

    verb: str
    resource: str
    """resource, or resource/subresource."""
    namespace: str
    allowed: bool
    purpose: str
    account: str = ""
    """Empty: whoever asks."""

    @property
    def text(self) -> str:
        return f"{self.verb} {self.resource} in {self.namespace}"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was read, as far as whoever asks may read it. `unread` says of what it may not, by what it is about."""

    now: float
    kubernetes: str = ""
    """Such as v1.31.2."""
    resources: Mapping[str, Json | None] = field(default_factory=dict)
    """The CustomResourceDefinitions by name; None: there is none."""
    operators: Sequence[Json] = ()
    """Deployments."""
    groups: Sequence[GroupLook] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the ledgers, by the group's full name."""
    queues: Sequence[QueueView] = ()
    deleted: Sequence[tuple[str, str, Sequence[str]]] = ()
    """Of objects that are being deleted: kind and full name, since when, and finalizers."""
    pods: Sequence[PodView] = ()
    own_rights: Sequence[AccountRight] = ()
    operator_rights: Sequence[AccountRight] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

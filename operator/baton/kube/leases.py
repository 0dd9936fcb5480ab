"""Leases with the group's label: the sessions by which consumers speak to the operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.kube.api import group_path
from baton.model.ids import Uid
from baton.model.names import EXECUTORS_ANNOTATION, GROUP_LABEL, RELEASES_ANNOTATION, SPARK_APP_ANNOTATION
from baton.model.session import Release, parse_releases

LEASES = "coordination.k8s.io/v1"
"""Their API group and version."""

DEFAULT_DURATION = 15.0
"""Seconds, for a Lease that does not say."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One session's Lease."""

    namespace: str
    name: str
    group: str
    holder: Uid | None
    """The UID of the pod that renews it; None: given up."""
    duration: float = DEFAULT_DURATION
    """Seconds after which it lapses unless renewed."""
    executors: frozenset[str] = frozenset()
    spark_app: str | None = None
    releases: frozenset[Release] = frozenset()
    problem: str | None = None
    """What of it could not be read."""
    renewal: str = field(default="", compare=False)
    """The text of its last renewal, only ever compared with another (clocks differ). A renewal alone makes no difference to a
    group."""


def leases_path(namespace: str | None, name: str = "") -> str:
    """Of Leases, or of one; namespace None: of all."""
    return group_path(LEASES, namespace, "leases", name)


def view(lease: Mapping[str, Any]) -> LeaseView | None:
    """A Lease's manifest as a LeaseView; None without the group's label."""
    metadata, spec = lease["metadata"], lease.get("spec") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    group = (metadata.get("labels") or {}).get(GROUP_LABEL)
    if not group:
        return None
    releases, problem = _releases(annotations.get(RELEASES_ANNOTATION, ""))
    return LeaseView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        group=group,
        holder=Uid(spec["holderIdentity"]) if spec.get("holderIdentity") else None,
        duration=float(spec.get("leaseDurationSeconds") or DEFAULT_DURATION),
        executors=frozenset(filter(None, (word.strip() for word in annotations.get(EXECUTORS_ANNOTATION, "").split(",")))),
        spark_app=annotations.get(SPARK_APP_ANNOTATION),
        releases=releases,
        problem=problem,
        renewal=str(spec.get("renewTime") or ""),
    )


def _releases(text: str) -> tuple[frozenset[Release], str | None]:
    try:
        return parse_releases(text), None
    except (ValueError, AttributeError) as error:
        return frozenset(), f"annotation {RELEASES_ANNOTATION}: {error}"

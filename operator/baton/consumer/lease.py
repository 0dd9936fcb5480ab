"""A session's Lease: what it looks like, and what is needed of the place where it is kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from baton.model.lease import Manifest, held
from baton.model.names import GROUP_LABEL


class LeaseStore(Protocol):
    """One Lease. Any method may raise whatever the way to it raises; that is taken as "not now"."""

    def read(self) -> Manifest | None:
        """None: it does not exist."""

    def write(self, lease: Manifest) -> Manifest | None:
        """Replace it if it still is at the manifest's resourceVersion; without one, create it. Answers what stands there then.

        None: it has changed meanwhile.
        """


def renewed(
    before: Manifest | None,
    holder: str,
    group: str,
    duration: float,
    now: datetime,
    annotations: Mapping[str, str],
    owner: Mapping[str, str] | None = None,
) -> Manifest:
    """The Lease as its holder writes it at `now`. What others put on it stays. `holder` empty: given up.

    `owner` is a pod's name and uid: the Lease is deleted with it.
    """
    metadata: Manifest = dict((before or {}).get("metadata") or {})
    metadata["labels"] = (metadata.get("labels") or {}) | {GROUP_LABEL: group}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    if owner is not None:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", **owner}]
    return {"metadata": metadata, "spec": held(before, holder, duration, now)}

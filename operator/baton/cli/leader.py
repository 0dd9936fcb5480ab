"""Who leads the operator's replicas that look after a group: its ledger names their Lease."""

from collections.abc import Mapping
from dataclasses import dataclass

from baton.kube.api import Api, Json
from baton.kube.elector import ADDRESS_ANNOTATION
from baton.kube.errors import ApiError, NotFoundError
from baton.kube.leases import leases_path
from baton.kube.releases import release_of
from baton.model.lease import holder_of, spec_of
from baton.model.times import read_seconds, to_text

GIVEN_UP_FOR = 30.0
"""Seconds for which nobody may hold the Lease: the next replica may be on its way."""

NOT_RENEWED_FOR = 180.0
"""Seconds without a renewal, which comes every second. This machine's clock may be minutes away from the operator's."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of an operator, by its Lease."""

    lease: str
    """namespace/name"""
    readable: bool = True
    """False: whoever asks may not read it."""
    holder: str | None = None
    """The replica that leads; None: none does."""
    renewed: float | None = None
    """Unix seconds; None: there is no such Lease, or it does not say."""
    port: int | None = None
    """Of its pages of metrics; None: it does not say."""

    def gone(self, now: float) -> bool:
        """None leads, and none has for a while."""
        if not self.readable:
            return False
        bound = GIVEN_UP_FOR if self.holder is None else NOT_RENEWED_FOR
        return self.renewed is None or now > self.renewed + bound

    def to_json(self) -> Mapping[str, object]:
        """The same as a JSON object, for programs."""
        renewed = None if self.renewed is None else to_text(self.renewed)
        return {"lease": self.lease, "readable": self.readable, "holder": self.holder, "renewTime": renewed}


async def leader_of(api: Api, ledger: Mapping[str, object] | None) -> Leader | None:
    """Of the operator that wrote this ledger; None: it names none."""
    release = None if ledger is None else release_of(ledger)
    if release is None:
        return None
    namespace, _, name = release.partition("/")
    try:
        lease = await api.get(leases_path(namespace, name))
    except NotFoundError:
        return Leader(release)
    except ApiError:
        return Leader(release, readable=False)
    renewed = read_seconds(spec_of(lease).get("renewTime"), None)
    return Leader(release, holder=holder_of(lease) or None, renewed=renewed, port=_port(lease))


def _port(lease: Json) -> int | None:
    """Of the address that its holder tells: HOST:PORT."""
    told = str((lease["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION) or "")[-6:].rpartition(":")[2]
    return int(told) if told.isascii() and told.isdigit() and 0 < int(told) < 65_536 else None

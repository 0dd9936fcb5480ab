"""The approval of a proposal, by whoever may patch its ConsumerGroup: from the command and from the console."""

from baton.api import ProposalStatus
from baton.api.enums import Approval
from baton.kube.api import Api
from baton.kube.errors import ConflictError
from baton.kube.objects import APPROVE_ANNOTATION, GroupView, group_view, groups_path


class NotProposedError(Exception):
    """There is no such proposal, or not any more. The message is one line."""


async def proposal_of(api: Api, namespace: str, group: str, wanted: str | None = None) -> ProposalStatus:
    """The group's proposal. Raises NotProposedError where there is none or another than `wanted`, and what `Api` raises."""
    return _proposal(group_view(await api.get(groups_path(namespace, group))), wanted)


async def approve_proposal(api: Api, namespace: str, group: str, wanted: str) -> None:
    """Have it carried out, while it is what the group proposes. Raises NotProposedError, and what `Api` raises."""
    path = groups_path(namespace, group)
    while True:
        now = group_view(await api.get(path))
        _proposal(now, wanted)
        mark = {"resourceVersion": now.version, "annotations": {APPROVE_ANNOTATION: wanted}}
        try:
            await api.merge(path, {"metadata": mark})
            return
        except ConflictError:
            continue  # it was written meanwhile, perhaps with another proposal


def _proposal(group: GroupView, wanted: str | None) -> ProposalStatus:
    status, mistake = group.read_status()
    proposal = status.proposal
    if proposal is None:
        automatic = group.spec is not None and group.spec.approval is not Approval.MANUAL
        why = "; its spec.approval is Automatic, so that plans are carried out without" if automatic else ""
        unread = f"; of its status cannot be read: {mistake}" if mistake else ""
        raise NotProposedError(f"nothing of {group.full_name} waits for approval{why}{unread}")
    if wanted not in (None, proposal.id):
        other = f"does not propose {wanted}, or not any more, but {proposal.id}"
        raise NotProposedError(f"nothing was approved: {group.full_name} {other}")
    return proposal

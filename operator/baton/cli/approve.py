"""`baton approve`: look at what is proposed, and have it carried out."""

import click

from baton.api import ProposalStatus
from baton.api.group import Approval
from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group_words import proposal_in_lines
from baton.cli.options import GROUP, WORD, ClusterTarget, cluster_options
from baton.cli.printing import agree, say
from baton.kube.api import Api
from baton.kube.errors import ConflictError
from baton.kube.objects import APPROVE_ANNOTATION, GroupView, group_view, groups_path


async def proposal_of(api: Api, namespace: str, group: str, wanted: str | None = None) -> ProposalStatus:
    """Return the group's proposal. Raises NoAnswerError if it is missing or not the `wanted` one, and what `Api` raises."""
    return _proposal(group_view(await api.get(groups_path(namespace, group))), wanted)


async def approve_proposal(api: Api, namespace: str, group: str, wanted: str) -> None:
    """Have it carried out, while it is what the group proposes. Raises NoAnswerError, and what `Api` raises."""
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
        raise NoAnswerError(f"nothing of {group.full_name} waits for approval{why}{unread}")
    if wanted not in (None, proposal.id):
        other = f"does not propose {wanted}, or not any more, but {proposal.id}"
        raise NoAnswerError(f"nothing was approved: {group.full_name} {other}")
    return proposal


@click.command()
@click.argument("group", type=GROUP)
@click.argument("proposal", type=WORD, required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cluster_options
def approve(group: str, proposal: str | None, yes: bool, target: ClusterTarget) -> None:
    """Show the proposal of a ConsumerGroup with spec.approval Manual, and approve it.

    With the id of a PROPOSAL the command approves only this one, and nothing if another has replaced it.

    The annotation baton.dev/approve with the id does the same.
    """
    ask(_approve(group, proposal, yes, target))


async def _approve(group: str, wanted: str | None, yes: bool, target: ClusterTarget) -> None:
    async with cluster(target) as (api, where):
        shown = await proposal_of(api, where, group, wanted)
        for line in proposal_in_lines(shown):
            say(line)
        if not yes:
            agree("Carry it out?")
        await approve_proposal(api, where, group, shown.id)
        say(f"{where}/{group}: approved proposal {shown.id}; see it carried out with `baton status {group} -n {where} -w`")

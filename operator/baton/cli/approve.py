"""`baton approve`: show a group's proposal, and approve it."""

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


async def approve_proposal(api: Api, namespace: str, group: str, wanted: str) -> None:
    """Approve the `wanted` proposal. Raises NoAnswerError if the group no longer has it, and what `Api` raises."""
    path = groups_path(namespace, group)
    while True:
        now = group_view(await api.get(path))
        _proposal(now, wanted)
        mark = {"resourceVersion": now.version, "annotations": {APPROVE_ANNOTATION: wanted}}
        try:
            await api.merge(path, {"metadata": mark})
            return
        except ConflictError:
            continue  # the group has changed, perhaps to another proposal


def _proposal(group: GroupView, wanted: str | None) -> ProposalStatus:
    """The group's proposal. Raises NoAnswerError if it is missing or not the `wanted` one."""
    status, mistake = group.read_status()
    proposal = status.proposal
    if proposal is None:
        automatic = group.spec is not None and group.spec.approval is not Approval.MANUAL
        why = "; its spec.approval is Automatic, so plans need no approval" if automatic else ""
        unread = f"; its status is invalid: {mistake}" if mistake else ""
        raise NoAnswerError(f"{group.full_name} has no proposal to approve{why}{unread}")
    if wanted not in (None, proposal.id):
        raise NoAnswerError(f"nothing was approved: the proposal of {group.full_name} is {proposal.id}, not {wanted}")
    return proposal


@click.command()
@click.argument("group", type=GROUP)
@click.argument("proposal", type=WORD, required=False)
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation.")
@cluster_options
def approve(group: str, proposal: str | None, yes: bool, target: ClusterTarget) -> None:
    """Show the proposal of a ConsumerGroup with spec.approval Manual, and approve it.

    With the id of a PROPOSAL, only that one is approved, and nothing if another has replaced it.

    Equivalent: the annotation baton.dev/approve with the id.
    """
    ask(_approve(group, proposal, yes, target))


async def _approve(group: str, wanted: str | None, yes: bool, target: ClusterTarget) -> None:
    async with cluster(target) as (api, where):
        shown = _proposal(group_view(await api.get(groups_path(where, group))), wanted)
        for line in proposal_in_lines(shown):
            say(line)
        if not yes:
            agree("Approve it?")
        await approve_proposal(api, where, group, shown.id)
        say(f"{where}/{group}: approved proposal {shown.id}; to watch it: baton status {group} -n {where} -w")

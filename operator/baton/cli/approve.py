"""`baton approve`: look at what is proposed, and have it carried out."""

import sys

import click

from baton.api import ProposalStatus
from baton.api.enums import Approval
from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.move_text import proposal_in_lines
from baton.cli.names import GROUP, WORD
from baton.cli.printing import say
from baton.kube.api import ConflictError
from baton.kube.objects import APPROVE_ANNOTATION, GroupView, group_view, groups_path


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
    name, target = target.within(group)
    ask(_approve(name, proposal, yes, target))


async def _approve(group: str, wanted: str | None, yes: bool, target: ClusterTarget) -> None:
    async with cluster(target) as (api, where):
        path = groups_path(where, group)
        shown = _proposal(group_view(await api.get(path)), wanted)
        for line in proposal_in_lines(shown):
            say(line)
        if not yes:
            click.confirm("Carry it out?", abort=True)
        while True:
            now = group_view(await api.get(path))
            _proposal(now, shown.id)
            mark = {"resourceVersion": now.version, "annotations": {APPROVE_ANNOTATION: shown.id}}
            try:
                await api.merge(path, {"metadata": mark})
                break
            except ConflictError:
                continue  # it was written meanwhile, perhaps with another proposal
        say(f"{where}/{group}: approved proposal {shown.id}; see it carried out with `baton status {group} -n {where} -w`")


def _proposal(group: GroupView, wanted: str | None) -> ProposalStatus:
    """The one there is. Exits where there is none, or another."""
    status, mistake = group.read_status()
    proposal = status.proposal
    if proposal is None:
        automatic = group.spec is not None and group.spec.approval is not Approval.MANUAL
        why = "; its spec.approval is Automatic, so that plans are carried out without" if automatic else ""
        unread = f"; of its status cannot be read: {mistake}" if mistake else ""
        say(f"baton approve: nothing of {group.full_name} waits for approval{why}{unread}", error=True)
        sys.exit(1)
    if wanted not in (None, proposal.id):
        other = f"does not propose {wanted}, or not any more, but {proposal.id}"
        say(f"baton approve: nothing was approved: {group.full_name} {other}", error=True)
        sys.exit(1)
    return proposal

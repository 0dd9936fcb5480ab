"""`baton approve`: look at what is proposed, and have it carried out."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from baton.api.enums import Approval
from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.names import GROUP, WORD
from baton.cli.printing import say
from baton.kube.api import ConflictError
from baton.kube.objects import APPROVE_ANNOTATION, groups_path
from baton.model.wording import counted

Json = Mapping[str, Any]


@click.command()
@click.argument("group", type=GROUP)
@click.argument("proposal", type=WORD, required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cluster_options
def approve(group: str, proposal: str | None, yes: bool, target: ClusterTarget) -> None:
    """Show what a ConsumerGroup with spec.approval Manual proposes, and have it carried out.

    With the id of a PROPOSAL only this one is approved; if it has been replaced meanwhile, nothing is.

    The same as the annotation baton.dev/approve with the id.
    """
    name, target = target.within(group)
    ask(_approve(name, proposal, yes, target))


async def _approve(group: str, wanted: str | None, yes: bool, target: ClusterTarget) -> None:
    async with cluster(target) as (api, where):
        path = groups_path(where, group)
        shown = _proposal(await api.get(path), wanted)
        for line in told(shown):
            say(line)
        if not yes:
            click.confirm("Carry it out?", abort=True)
        while True:
            now = await api.get(path)
            _proposal(now, shown["id"])
            mark = {"resourceVersion": now["metadata"]["resourceVersion"], "annotations": {APPROVE_ANNOTATION: shown["id"]}}
            try:
                await api.merge(path, {"metadata": mark})
                break
            except ConflictError:
                continue  # it was written meanwhile, perhaps with another proposal
        say(f"{where}/{group}: approved proposal {shown['id']}; see it carried out with `baton status {group} -n {where} -w`")


def _proposal(manifest: Json, wanted: str | None) -> Json:
    """The one there is. Exits where there is none, or another."""
    name = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    proposal: Json | None = (manifest.get("status") or {}).get("proposal")
    if proposal is None:
        automatic = manifest["spec"].get("approval") != Approval.MANUAL
        why = "; its spec.approval is Automatic, so that plans are carried out without" if automatic else ""
        say(f"baton approve: nothing of {name} waits for approval{why}", error=True)
        sys.exit(1)
    if wanted not in (None, proposal["id"]):
        say(
            f"baton approve: nothing was approved: {name} does not propose {wanted}, or not any more, but {proposal['id']}",
            error=True,
        )
        sys.exit(1)
    return proposal


def told(proposal: Json) -> Iterator[str]:
    """A proposal in lines."""
    moves = proposal["moves"]
    what = counted(moves, "partition")
    yield f"Proposal {proposal['id']} of {proposal['createdAt']}: {what} would move ({proposal.get('reason', '')})"
    lines = proposal.get("handoffs") or []
    for line in lines:
        yield f"  {line['queue']} {line['partitions']}: {line['from']} -> {line['to']}"
    shown = sum(
        change["after"] - change["before"] for change in proposal.get("members") or () if change["after"] > change["before"]
    )
    for change in proposal.get("members") or ():
        yield f"  {change['member']}: {change['before']} -> {counted(change['after'], 'partition')}"
    if shown < moves:
        yield "  and more: the ledger has all of it"
    longest = proposal.get("longestPauseSeconds")
    each = "until its consumer lets go" if longest is None else f"for {longest} s at most"
    paused = f"{counted(proposal['paused'], 'partition')} would be paused, {proposal['pausedAtOnce']} at once at most"
    yield f"{paused}, each {each}. The others go on."

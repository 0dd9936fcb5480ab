"""`baton approve`: look at what is proposed, and have it carried out."""

import click

from baton.cli.approval import NotProposedError, approve_proposal, proposal_of
from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.move_text import proposal_in_lines
from baton.cli.names import GROUP, WORD
from baton.cli.printing import refuse, say


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
        try:
            shown = await proposal_of(api, where, group, wanted)
            for line in proposal_in_lines(shown):
                say(line)
            if not yes:
                click.confirm("Carry it out?", abort=True)
            await approve_proposal(api, where, group, shown.id)
        except NotProposedError as error:
            refuse(str(error))
        say(f"{where}/{group}: approved proposal {shown.id}; see it carried out with `baton status {group} -n {where} -w`")

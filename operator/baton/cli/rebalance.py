"""`baton rebalance`: request a rebalance."""

import time

import click

from baton.api.group import Approval, ConsumerGroupSpec
from baton.cli.cluster import ask, cluster
from baton.cli.options import GROUP, ClusterTarget, cluster_options
from baton.cli.printing import say
from baton.kube.objects import REBALANCE_ANNOTATION, group_view, groups_path
from baton.model.times import to_micro_text


@click.command()
@click.argument("group", type=GROUP)
@cluster_options
def rebalance(group: str, target: ClusterTarget) -> None:
    """Request a rebalance of a ConsumerGroup. After the delay the operator makes a plan, even if nothing has changed.

    Equivalent: a new value of the annotation baton.dev/rebalance.
    """
    ask(_request(group, target))


async def _request(group: str, target: ClusterTarget) -> None:
    async with cluster(target) as (api, where):
        path = groups_path(where, group)
        request = to_micro_text(time.time())
        made = group_view(await api.merge(path, {"metadata": {"annotations": {REBALANCE_ANNOTATION: request}}}))
        say(f"{where}/{group}: requested a rebalance. {follows(group, where, made.spec)}")


def follows(group: str, namespace: str, spec: ConsumerGroupSpec | None) -> str:
    """A sentence about the consequences of the request. `spec`: the group's, if it can be read."""
    proposed = spec is not None and spec.approval is Approval.MANUAL
    then = "its moves are proposed" if proposed else "it is carried out"
    plan = f"A plan is made after the delay, and {then}; see `baton status {group} -n {namespace}`"
    if spec is not None and spec.paused:
        return f"The group is paused, so nothing moves until `baton resume {group} -n {namespace}`. {plan}"
    return plan

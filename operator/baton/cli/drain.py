"""`baton drain`: have a member give its partitions away while its pod goes on."""

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.names import GROUP, OBJECT
from baton.cli.printing import say
from baton.kube.api import core_path
from baton.kube.objects import groups_path
from baton.kube.pods import PodView, view
from baton.model.names import DRAIN_ANNOTATION, GROUP_LABEL


@click.command()
@click.argument("group", type=GROUP)
@click.argument("member", type=OBJECT)
@cluster_options
@click.option("--undo", is_flag=True, help="Let it own partitions again.")
@click.option("--yes", "-y", is_flag=True, help="Drain it even if nobody is left to take its partitions.")
def drain(group: str, member: str, undo: bool, yes: bool, target: ClusterTarget) -> None:
    """Have a MEMBER of a ConsumerGroup (a pod) give its partitions to the others. The pod goes on, and gets none until --undo.

    The annotation baton.dev/drain: "true" on the pod does the same.
    """
    name, target = target.within(group)
    ask(_drain(name, member, target, undo=undo, anyway=yes))


async def _drain(group: str, member: str, target: ClusterTarget, *, undo: bool, anyway: bool) -> None:
    async with cluster(target) as (api, where):
        await api.get(groups_path(where, group))
        found = (await api.get(core_path(where, "pods"), labelSelector=f"{GROUP_LABEL}={group}"))["items"]
        pods = {pod.name: pod for one in found if (pod := view(one)) is not None}
        pod = next((one for name, one in pods.items() if name == member), None)
        if pod is None:
            raise NoAnswerError(f"{where}/{group} has no pod {member}: `baton status {group} -n {where}` names its members")
        if pod.draining is not undo:
            say(f"{where}/{group}: {member} {'drains already' if pod.draining else 'does not drain'}; nothing is changed")
            return
        if not undo and not anyway and not any(_takes(one) for one in pods.values() if one is not pod):
            raise NoAnswerError(
                f"nothing is changed: no other pod of {where}/{group} could take what {member} has; --yes drains it"
            )
        metadata = {"uid": pod.uid, "annotations": {DRAIN_ANNOTATION: None if undo else "true"}}
        await api.merge(core_path(where, "pods", member), {"metadata": metadata})
    follows = "takes part again after the delay" if undo else "gives its partitions away after the delay, and gets none"
    back = "" if undo else f"; `baton drain {group} {member} -n {where} --undo` takes that back"
    say(f"{where}/{group}: {member} {follows}{back}; see `baton status {group} -n {where}`")


def _takes(pod: PodView) -> bool:
    """It may get partitions, as far as its manifest says."""
    return pod.ready and not pod.terminating and not pod.draining

"""`baton drain`: hand off a member's partitions while its pod keeps running."""

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group import GroupLook, look_at, members_of
from baton.cli.options import GROUP, OBJECT, ClusterTarget, cluster_options
from baton.cli.printing import say
from baton.kube.api import core_path
from baton.kube.members import DRIVER, GroupMembers
from baton.kube.pods import PodView
from baton.model.ids import QueueName
from baton.model.names import DRAIN_ANNOTATION


@click.command()
@click.argument("group", type=GROUP)
@click.argument("member", type=OBJECT)
@cluster_options
@click.option("--undo", is_flag=True, help="Let the member own partitions again.")
@click.option("--yes", "-y", is_flag=True, help="Drain the member even if no other member can take its partitions.")
def drain(group: str, member: str, undo: bool, yes: bool, target: ClusterTarget) -> None:
    """Hand off the partitions of a MEMBER (a pod) of a ConsumerGroup. The pod keeps running, without partitions until --undo.

    Equivalent: the annotation baton.dev/drain: "true" on the pod.
    """
    ask(_drain(group, member, target, undo=undo, anyway=yes))


async def _drain(group: str, member: str, target: ClusterTarget, *, undo: bool, anyway: bool) -> None:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        fleet = await members_of(api, seen)
        pod = next((one for one in seen.pods or () if one.name == member), None)
        if pod is None or pod.ended:
            what = "has no pod" if pod is None else "has nothing to hand off from the ended pod"
            raise NoAnswerError(f"{where}/{group} {what} {member}: `baton status {group} -n {where}` lists its members")
        if pod.spark_role == DRIVER:
            raise NoAnswerError(f"{member} is the Spark driver of {where}/{group} and owns no partitions: drain an executor")
        if pod.draining is not undo:
            say(f"{where}/{group}: {member} is {'already' if pod.draining else 'not'} drained; nothing was changed")
            return
        if not undo and not anyway and (alone := _queues_without(pod, seen, fleet)):
            raise NoAnswerError(
                f"nothing was changed: no other member of {where}/{group} could take the partitions of {', '.join(alone)} from "
                f"{member}; --yes drains it anyway"
            )
        metadata = {"uid": pod.uid, "annotations": {DRAIN_ANNOTATION: None if undo else "true"}}
        await api.merge(core_path(where, "pods", member), {"metadata": metadata})
    back = "" if undo else f"; to undo: baton drain {group} {member} -n {where} --undo"
    say(f"{where}/{group}: {member} {_follows(pod, seen, fleet, undo=undo)}{back}; see `baton status {group} -n {where}`")


def _queues_without(pod: PodView, seen: GroupLook, fleet: GroupMembers) -> list[str]:
    """The group's queues that the pod reads and no other member could take over. Members do not count if they are drained or
    stopping, superseded by a newer pod with their identity, or about to be scaled down."""
    spec, state = seen.group.spec, seen.state
    named = frozenset(QueueName(queue.name) for queue in spec.queues) if spec is not None else frozenset()
    going = {pod.uid} if state is None else {pod.uid} | {uid for _, uid in {*state.fenced, *state.victims}}
    others = [one.subscribed for one in fleet.members.values() if not one.leaving and one.uid not in going]
    reads = named if pod.subscribed is None else named & pod.subscribed
    return sorted(queue for queue in reads if not any(those is None or queue in those for those in others))


def _follows(pod: PodView, seen: GroupLook, fleet: GroupMembers, *, undo: bool) -> str:
    if pod.name not in fleet.members:
        return "is not a member now; it may own partitions when it is" if undo else "is not a member now, and gets no partitions"
    paused = seen.group.spec is not None and seen.group.spec.paused
    when = "when the group is resumed (it is paused)" if paused else "after the delay"
    return f"may own partitions again {when}" if undo else f"hands its partitions off {when}, and gets no others"

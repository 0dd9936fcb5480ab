"""`baton drain`: have a member give its partitions away while its pod goes on."""

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
@click.option("--undo", is_flag=True, help="Let it own partitions again.")
@click.option("--yes", "-y", is_flag=True, help="Drain it even if no other member can take its partitions.")
def drain(group: str, member: str, undo: bool, yes: bool, target: ClusterTarget) -> None:
    """Have a MEMBER of a ConsumerGroup (a pod) give its partitions to the others. The pod goes on, and gets none until --undo.

    The annotation baton.dev/drain: "true" on the pod does the same.
    """
    ask(_drain(group, member, target, undo=undo, anyway=yes))


async def _drain(group: str, member: str, target: ClusterTarget, *, undo: bool, anyway: bool) -> None:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        fleet = await members_of(api, seen)
        pod = next((one for one in seen.pods or () if one.name == member), None)
        if pod is None or pod.ended:
            what = "has no pod" if pod is None else "has nothing to take from the ended pod"
            raise NoAnswerError(f"{where}/{group} {what} {member}: `baton status {group} -n {where}` names its members")
        if pod.spark_role == DRIVER:
            raise NoAnswerError(f"{member} is the Spark driver of {where}/{group}, and owns no partitions: drain an executor")
        if pod.draining is not undo:
            say(f"{where}/{group}: {member} {'drains already' if pod.draining else 'does not drain'}; nothing is changed")
            return
        if not undo and not anyway and (alone := _queues_without(pod, seen, fleet)):
            raise NoAnswerError(
                f"nothing is changed: no other member of {where}/{group} could take what {member} has of {', '.join(alone)}; "
                "--yes drains it"
            )
        metadata = {"uid": pod.uid, "annotations": {DRAIN_ANNOTATION: None if undo else "true"}}
        await api.merge(core_path(where, "pods", member), {"metadata": metadata})
    back = "" if undo else f"; `baton drain {group} {member} -n {where} --undo` takes that back"
    say(f"{where}/{group}: {member} {_follows(pod, seen, fleet, undo=undo)}{back}; see `baton status {group} -n {where}`")


def _queues_without(pod: PodView, seen: GroupLook, fleet: GroupMembers) -> list[str]:
    """The group's queues that the pod reads and no other member could take. Members that drain or stop, stand aside for a newer
    pod of their identity or are to be scaled away do not count."""
    spec, state = seen.group.spec, seen.state
    named = frozenset(QueueName(queue.name) for queue in spec.queues) if spec is not None else frozenset()
    going = {pod.uid} if state is None else {pod.uid} | {uid for _, uid in {*state.fenced, *state.victims}}
    others = [one.subscribed for one in fleet.members.values() if not one.leaving and one.uid not in going]
    reads = named if pod.subscribed is None else named & pod.subscribed
    return sorted(queue for queue in reads if not any(those is None or queue in those for those in others))


def _follows(pod: PodView, seen: GroupLook, fleet: GroupMembers, *, undo: bool) -> str:
    if pod.name not in fleet.members:
        return "takes no part now, and may own partitions when it does" if undo else "takes no part now, and gets no partitions"
    paused = seen.group.spec is not None and seen.group.spec.paused
    when = "when the group goes on (it is paused)" if paused else "after the delay"
    return f"takes part again {when}" if undo else f"gives its partitions away {when}, and gets none"

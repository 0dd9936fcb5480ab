"""`baton pause` and `baton resume`: whether hand-offs may begin."""

import click

from baton.cli.cluster import ask, cluster
from baton.cli.options import GROUP, ClusterTarget, cluster_options
from baton.cli.printing import say
from baton.kube.objects import group_view, groups_path


@click.command()
@click.argument("group", type=GROUP)
@cluster_options
def pause(group: str, target: ClusterTarget) -> None:
    """Begin no more hand-offs in a ConsumerGroup. Those in flight finish, and consumers go on with what they own.

    The field spec.paused does the same. A tool that applies manifests (GitOps) may set it back.
    """
    ask(_set(group, target, paused=True))


@click.command()
@click.argument("group", type=GROUP)
@cluster_options
def resume(group: str, target: ClusterTarget) -> None:
    """Let hand-offs begin again in a ConsumerGroup. What has changed meanwhile is planned for."""
    ask(_set(group, target, paused=False))


async def _set(group: str, target: ClusterTarget, paused: bool) -> None:
    async with cluster(target) as (api, where):
        path = groups_path(where, group)
        spec = group_view(await api.get(path)).spec
        if spec is not None and spec.paused == paused:
            say(f"{where}/{group}: is {'paused already' if paused else 'not paused'}; nothing is changed")
            return
        await api.merge(path, {"spec": {"paused": paused}})
        say(f"{where}/{group}: {follows(group, where, paused=paused)}")


def follows(group: str, namespace: str, *, paused: bool) -> str:
    """What the command tells that it has brought about. Pure."""
    if not paused:
        return "hand-offs may begin; changes of the fleet are planned for again"
    return (
        "no more hand-offs begin, and partitions whose pod ends wait without an owner; "
        f"`baton resume {group} -n {namespace}` lets them begin again"
    )

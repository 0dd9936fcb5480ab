"""`baton pause` and `baton resume`: stop and allow new hand-offs."""

import click

from baton.cli.cluster import ask, cluster
from baton.cli.options import GROUP, ClusterTarget, cluster_options
from baton.cli.printing import say
from baton.kube.objects import group_view, groups_path


@click.command()
@click.argument("group", type=GROUP)
@cluster_options
def pause(group: str, target: ClusterTarget) -> None:
    """Stop new hand-offs in a ConsumerGroup. Hand-offs in flight finish, and consumers keep working on what they own.

    Equivalent: the field spec.paused. A tool that applies manifests (GitOps) may reset it.
    """
    ask(_set(group, target, paused=True))


@click.command()
@click.argument("group", type=GROUP)
@cluster_options
def resume(group: str, target: ClusterTarget) -> None:
    """Allow hand-offs in a ConsumerGroup again. A plan then takes account of changes made during the pause."""
    ask(_set(group, target, paused=False))


async def _set(group: str, target: ClusterTarget, paused: bool) -> None:
    async with cluster(target) as (api, where):
        path = groups_path(where, group)
        spec = group_view(await api.get(path)).spec
        if spec is not None and spec.paused == paused:
            say(f"{where}/{group} is {'already' if paused else 'not'} paused; nothing was changed")
            return
        await api.merge(path, {"spec": {"paused": paused}})
        say(f"{where}/{group}: {follows(group, where, paused=paused)}")


def follows(group: str, namespace: str, *, paused: bool) -> str:
    """A sentence about the consequences of the command. Pure."""
    if not paused:
        return "hand-offs may begin again"
    return (
        "no new hand-offs begin, and partitions of pods that end wait without an owner; "
        f"to resume: baton resume {group} -n {namespace}"
    )

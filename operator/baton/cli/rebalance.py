"""`baton rebalance`: ask for a rebalance now."""

from datetime import UTC, datetime
from pathlib import Path

import click

from baton.cli.cluster import ask, cluster, cluster_options
from baton.engine.observation import Approval
from baton.kube.api import group_path
from baton.kube.objects import GROUP_VERSION, REBALANCE_ANNOTATION


@click.command()
@click.argument("group")
@cluster_options
def rebalance(group: str, namespace: str | None, kubeconfig: Path | None) -> None:
    """Ask for a rebalance of a ConsumerGroup: after the delay a plan is made, also where nothing has changed.

    The same as a new value of the annotation baton.dev/rebalance.
    """
    ask(_request(group, namespace, kubeconfig))


async def _request(group: str, namespace: str | None, kubeconfig: Path | None) -> None:
    async with cluster(kubeconfig, namespace) as (api, where):
        path = group_path(GROUP_VERSION, where, "consumergroups", group)
        request = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        made = await api.merge(path, {"metadata": {"annotations": {REBALANCE_ANNOTATION: request}}})
        follows = (
            "what it would move is then proposed" if made["spec"].get("approval") == Approval.MANUAL else "it is carried out"
        )
        click.echo(
            f"{where}/{group}: asked for a rebalance. A plan is made after the delay, and {follows}; "
            f"see `baton status {group} -n {where}`"
        )

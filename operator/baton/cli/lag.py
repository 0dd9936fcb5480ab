"""`baton lag`: how much there is to do."""

import time
from collections.abc import Callable
from typing import TypeVar

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, all_namespaces_option, cluster_options, refuse_group_of_all_namespaces
from baton.cli.names import GROUP, HTTP_URL
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import console, say
from baton.kube.objects import groups_path

F = TypeVar("F", bound=Callable[..., object])


def operator_option(command: F) -> F:
    """--operator, which reaches the command as `url`."""
    return click.option(
        "--operator",
        "url",
        type=HTTP_URL,
        envvar="BATON_OPERATOR_URL",
        metavar="URL",
        help="Where the operator's leader answers. Default: its pod, through the API server.",
    )(command)


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option("--partitions", "each", is_flag=True, help="Show each partition with its owner, the longest lag first.")
@operator_option
@output_option(
    wide="also who works on it; with --partitions their states and epochs",
    programs="one object (a list without GROUP, or with --partitions)",
)
def lag(group: str | None, all_namespaces: bool, each: bool, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Show how much a ConsumerGroup has to do: entries that are not acknowledged or committed yet. Without GROUP: of all groups.

    It is what the operator tells autoscalers, as of the last seconds. Ends with 1 if the lag of GROUP is not known.
    """
    refuse_group_of_all_namespaces(group, all_namespaces)
    if group is None and each:
        raise click.UsageError("--partitions shows one GROUP: give its name")
    if group is None:
        ask(_list(target, all_namespaces, url, form))
    else:
        name, target = target.within(group)
        ask(_show(name, target, each, url, form))


async def _list(target: ClusterTarget, everywhere: bool, url: str | None, form: Form) -> None:
    from baton.cli.group_view import look
    from baton.cli.lag_view import lag_table
    from baton.cli.live_lags import lags

    async with cluster(target) as (api, where):
        found = (await api.get(groups_path(None if everywhere else where)))["items"]
        known = await lags(api, [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found], url)
    if form.for_programs:
        say_object([one.to_json() for one in known], form)
    elif known:
        looks = [look(one, {}, now=time.time()) for one in found] if form.wide else ()
        console().print(lag_table(known, looks))
    else:
        say(f"There is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}.")


async def _show(group: str, target: ClusterTarget, each: bool, url: str | None, form: Form) -> None:
    from baton.cli.lag_view import lag_by_partition, lag_table, partition_rows
    from baton.cli.live_group import look_at
    from baton.cli.operator_pages import lag_of

    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        told = await lag_of(api, where, group, seen.leader, url)
    if told.problem is not None:
        raise NoAnswerError(f"the lag of {where}/{group} is not known: {told.problem}")
    rows = list(partition_rows(told, seen.state))
    if form.for_programs:
        say_object(rows if each else told.to_json(), form)
    else:
        wide = [seen] if form.wide else ()
        console().print(lag_by_partition(rows, wide=form.wide) if each else lag_table([told], wide))
    silent = [name for name, of in told.queues.items() if of is None]
    if silent:
        raise NoAnswerError(f"the lag of {', '.join(silent)} is not known: its server does not answer, or cannot say")

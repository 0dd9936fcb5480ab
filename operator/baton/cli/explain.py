"""`baton explain`: everything about one partition."""

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.lag import operator_option
from baton.cli.names import GROUP, PARTITION
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.own_assignors import use_own_assignors
from baton.cli.printing import say
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import ApiError
from baton.model.ids import Partition
from baton.model.times import to_text

if TYPE_CHECKING:
    from baton.cli.group_view import GroupLook
    from baton.cli.partition_view import NextPlan, PartitionLook

MOST_EVENTS = "500"
"""Of the group; the operator posts a few a minute."""


@click.command()
@click.argument("group", type=GROUP)
@click.argument("partition", metavar="QUEUE/PARTITION", type=PARTITION)
@cluster_options
@operator_option
@output_option()
def explain(group: str, partition: Partition, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Explain one partition of a ConsumerGroup: who owns it since when, who had it before and why it moved, what it waits for,
    what a plan would do with it, and its lag.
    """
    use_own_assignors()
    name, target = target.within(group)
    seen = ask(_look(name, partition, target, url))
    if form.for_programs:
        say_object(seen.to_json(), form)
        return
    say(seen.title)
    for sentence in seen.sentences():
        say(sentence)
    if seen.events_problem:
        say(f"What happened is not known: {seen.events_problem}")
    for event in seen.history.events:
        say(f"  {to_text(event.at)}  {event.reason:14}  {event.note}")


async def _look(group: str, partition: Partition, target: ClusterTarget, url: str | None) -> "PartitionLook":
    from baton.cli.live_group import look_at
    from baton.cli.operator_pages import lag_of
    from baton.cli.partition_history import history
    from baton.cli.partition_view import NoSuchPartitionError, PartitionLook, find

    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        if seen.ledger_problem:
            raise NoAnswerError(f"the ledger of {where}/{group} does not read as one: {seen.ledger_problem}")
        try:
            record, doing, handoff = find(seen, partition)
        except NoSuchPartitionError as error:
            raise NoAnswerError(str(error)) from None
        (events, problem), lag, plan = await asyncio.gather(
            _events(api, where, group), lag_of(api, where, group, seen.leader, url), _plan(api, seen, partition)
        )
    look = PartitionLook(seen, partition, record, doing, handoff, next_plan=plan, events_problem=problem)
    told = history(partition, record.owner, events)
    known = lag.of(partition)
    why = lag.problem or (None if known is not None else f"{partition.queue} does not tell")
    return replace(look, history=told, lag=known, lag_problem=why, unfinished=lag.unfinished.get(partition))


async def _events(api: Api, namespace: str, name: str) -> tuple[list[Json], str | None]:
    """And why there are none."""
    about = f"involvedObject.kind=ConsumerGroup,involvedObject.name={name}"
    try:
        return (await api.get(core_path(namespace, "events"), fieldSelector=about, limit=MOST_EVENTS))["items"], None
    except ApiError as error:
        return [], error.message


async def _plan(api: Api, seen: "GroupLook", partition: Partition) -> "NextPlan":
    from baton.cli.live_group import UnreadableError, observation_of
    from baton.cli.partition_view import NextPlan
    from baton.cli.rehearsal import WhatIf, WhatIfError, compare

    try:
        state, observed = await observation_of(api, seen)
        planned = await compare(seen.group.full_name, state, observed, WhatIf(), time.time())
    except (UnreadableError, WhatIfError) as error:
        return NextPlan(problem=str(error))
    except ApiError as error:
        return NextPlan(problem=error.message)
    return NextPlan(planned.after.get(partition))

"""`baton lag`: the lag of groups, read from the operator's leader through the API server or at a URL."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from itertools import zip_longest
from typing import Annotated, Any

import aiohttp
import click
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from rich.table import Table

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group import GroupLook, Leader, leader_of, look_at, look_at_all, partitions
from baton.cli.options import (
    GROUP,
    ClusterTarget,
    Form,
    all_namespaces_option,
    cluster_options,
    operator_option,
    output_option,
    say_object,
)
from baton.cli.printing import console, say, table
from baton.engine import GroupState
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import ApiError, NotFoundError, PageTooLargeError, UnavailableError, failure
from baton.kube.following import listed
from baton.kube.ledger_configmap import MANAGED_BY, MANAGED_BY_LABEL, ledger_of
from baton.kube.releases import release_of
from baton.model.ids import Partition
from baton.model.names import ledger_name
from baton.model.wording import counted, one_line

_LONGEST_OFFSET = 50

Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Seconds = StrictInt | Annotated[float, Field(strict=True, allow_inf_nan=False)]
Offset = Annotated[str, AfterValidator(lambda text: one_line(text, _LONGEST_OFFSET))]


def _known(lags: object) -> object:
    """Drop partitions whose lag is unknown."""
    return {number: lag for number, lag in lags.items() if lag is not None} if isinstance(lags, dict) else lags


@dataclass(frozen=True, config=ConfigDict(populate_by_name=True))
class GroupLag:
    """The lag of a group, as the operator reports it."""

    namespace: str
    group: str
    lag: Count | None = None
    """Entries; None: the lag of one of its queues is unknown."""
    seconds: Annotated[Seconds | None, Field(validation_alias="lagSeconds")] = None
    """How long the lag takes at the present pace; while no pace is known, the same as `waiting`."""
    waiting: Annotated[Seconds | None, Field(validation_alias="waitingSeconds")] = None
    """The age of the oldest entry while no entry is finished or no pace is known yet."""
    queues: Mapping[str, Annotated[Mapping[int, Count], BeforeValidator(_known)] | None] = field(default_factory=dict)
    """The lag by queue and partition, if requested; None: unknown."""
    unfinished: Mapping[str, Mapping[int, tuple[Offset, Count]]] = field(default_factory=dict)
    """By queue and partition, if requested: the oldest unfinished entry, and how often it was handed out, if more than once."""
    problem: str | None = None
    """Why the lag is unknown."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        queues = {name: None if of is None else {"lag": sum(of.values())} for name, of in self.queues.items()}
        told = {"namespace": self.namespace, "group": self.group, "lag": self.lag, "lagSeconds": self.seconds}
        return {**told, "waitingSeconds": self.waiting, "queues": queues, "problem": self.problem}

    def of(self, partition: Partition) -> int | None:
        """The partition's lag; None: unknown."""
        return (self.queues.get(partition.queue) or {}).get(partition.number)

    def unfinished_in(self, partition: Partition) -> tuple[str, int] | None:
        """The partition's oldest unfinished entry and how often it was handed out; None: once, or unknown."""
        return self.unfinished.get(partition.queue, {}).get(partition.number)

    @property
    def pace(self) -> str | None:
        """How long the lag takes: `8 s`. `?`: no entry is finished, or the pace is not known yet."""
        if self.seconds is None or self.waiting is not None:
            return "?" if self.lag else None
        return f"{self.seconds:.0f} s"

    @property
    def text(self) -> str:
        """`412 entries, 8 s of work at the present pace`, or `412 entries, the oldest 90 s old`"""
        if self.lag is None:
            return f"unknown{f' ({self.problem})' if self.problem else ': the lag of one of its queues is unknown'}"
        pace = f", {self.seconds:.0f} s of work at the present pace" if self.seconds is not None and self.lag else ""
        if self.waiting is not None:
            pace = f", the oldest {self.waiting:.0f} s old"
        return f"{counted(self.lag, 'entry', 'entries')}{pace}"


@dataclass
class _OfAll:
    groups: list[GroupLag]


ONE, ALL = TypeAdapter(GroupLag), TypeAdapter(_OfAll)
"""Parsers of an operator's answers. They raise ValidationError for an answer that no operator of this release gives."""


def lag_table(lags: Iterable[GroupLag], looks: Sequence[GroupLook] = ()) -> Table:
    """A line for each group, followed by one for each of its queues. `looks`: for a wide table, with the fleet: the same groups
    in the same order."""
    rows: list[tuple[object, ...]] = []
    for one, seen in zip_longest(lags, looks):
        fleet = () if seen is None else _fleet(one, seen)
        rows.append((one.namespace, one.group, None, shown_lag(one.lag), one.pace, *fleet, one.problem))
        if len(one.queues) > 1 or (seen is not None and one.queues):
            rows += [(None, None, name, shown_lag(None if of is None else sum(of.values()))) for name, of in one.queues.items()]
    more = _FLEET if looks else ()
    return table(("NAMESPACE", "GROUP", "QUEUE", "LAG", "WORK", *more, "NOTE"), rows, right=("LAG", "WORK", *more[1:]))


_FLEET = ("STATE", "PARTITIONS", "MEMBERS", "STANDBYS", "EACH")


def _fleet(one: GroupLag, look: GroupLook) -> Iterator[object]:
    """The additional cells of a wide line. EACH is the lag for each member that owns partitions."""
    status = look.status
    at_work = status.members - status.standbys
    yield from (look.shown_state, *look.cells(("partitions", "members", "standbys")))
    yield None if one.lag is None or at_work < 1 else f"{one.lag / at_work:,.0f}"


def partition_rows(one: GroupLag, state: GroupState | None) -> Iterator[dict[str, object]]:
    """Each partition whose lag is known, the longest lag first."""
    rows = {(row.queue, row.partition): row for row in partitions(state)}
    known = [(lag, queue, number) for queue, of in one.queues.items() if of is not None for number, lag in of.items()]
    for lag, queue, number in sorted(known, key=lambda row: (-row[0], row[1], row[2])):
        row = rows.get((queue, number))
        yield {
            "queue": queue,
            "partition": number,
            "owner": row and row.owner,
            "lag": lag,
            "state": row and row.state,
            "epoch": row and row.epoch,
        }


def lag_by_partition(rows: Iterable[Mapping[str, object]], *, wide: bool) -> Table:
    """The rows as a table for people."""
    head = ("queue", "partition", "owner", "lag", *(("state", "epoch") if wide else ()))
    return table([name.upper() for name in head], [[row[name] for name in head] for row in rows], right=("LAG", "EPOCH"))


def shown_lag(lag: int | None) -> str:
    """The lag as a cell; `?`: unknown."""
    return "?" if lag is None else f"{lag:,}"


LARGEST = 16 * 2**20
"""The most bytes of an answer; a hundred thousand partitions take two MiB."""

WITHIN = 10.0
"""The most seconds for an answer."""


FORWARD = "forward its port 8080 to your machine, and use --operator http://127.0.0.1:8080"
"""The cure for a missing right at a shell."""

ASK_FOR_RIGHTS = "ask for the right to get leases and pods/proxy in that namespace (the guide of the console has the Role)"
"""The cure for a missing right in the cluster's console."""


async def lag_of(
    api: Api,
    namespace: str,
    name: str,
    leader: Leader | None,
    url: str | None,
    *,
    partitions: bool = True,
    cure: str = FORWARD,
) -> GroupLag:
    """The lag of one group, with its `partitions` or without. Failures are its `problem`; `cure`: for a missing right."""
    try:
        page = f"groups/{namespace}/{name}/lag{'/partitions' if partitions else ''}"
        return ONE.validate_python(await _asked(api, page, leader, url, cure))
    except ValidationError:
        return GroupLag(namespace, name, problem=_ODD)
    except NoAnswerError as error:
        return GroupLag(namespace, name, problem=str(error))


_NOT_SERVED = "the group's operator does not serve it"
_ODD = "the answer is not that of an operator of this release"


async def _asked(api: Api, page: str, leader: Leader | None, url: str | None, cure: str = FORWARD) -> Any:
    if url is not None:
        return await _fetch(f"{url}/{page}")
    if leader is None:
        raise NoAnswerError("no operator has written the group's ledger yet")
    if not leader.readable:
        raise NoAnswerError(f"only the operator's leader knows the lag, and you may not read the Lease {leader.lease}: {cure}")
    if leader.holder is None:
        raise NoAnswerError(
            f"only the operator's leader knows the lag, and the Lease {leader.lease} has none: see `baton doctor`"
        )
    if leader.port is None:
        raise NoAnswerError(
            f"only the operator's leader knows the lag, and {leader.holder} runs outside the cluster without a known address: "
            "use --operator http://HOST:PORT (the port is in its log)"
        )
    where = leader.lease.partition("/")[0]
    otherwise = cure if cure is FORWARD else "see `baton doctor`"  # no right is missing
    try:
        return await api.relayed(f"{core_path(where, 'pods', f'{leader.holder}:{leader.port}')}/proxy/{page}", LARGEST)
    except PageTooLargeError:
        raise NoAnswerError(f"{leader.holder} answers with more than {LARGEST:,} bytes: {_ODD}") from None
    except NotFoundError as error:
        gone = f"there is no pod {leader.holder} in namespace {where}: {otherwise}"
        raise NoAnswerError(gone if error.reason == "NotFound" else _NOT_SERVED) from None
    except ApiError:
        raise NoAnswerError(f"you may not get pods/proxy of {leader.holder} in namespace {where}: {cure}") from None
    except UnavailableError as error:
        raise NoAnswerError(
            f"the operator {leader.holder} does not answer through the API server ({error}): {otherwise}"
        ) from None


async def _fetch(url: str) -> Any:
    body = bytearray()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN)) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            status = answer.status
            while status == 200 and (chunk := await answer.content.readany()):
                body += chunk
                if len(body) > LARGEST:
                    raise ValueError(f"the answer has more than {LARGEST:,} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NoAnswerError(f"{url} does not answer: {failure(error)}") from None
    if status == 307:
        raise NoAnswerError(f"{url}: this replica of the operator does not lead: use the one in the Lease")
    if status == 404:
        raise NoAnswerError("the operator there does not serve this group")
    if status != 200:
        raise NoAnswerError(f"{url} answers with status {status}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswerError(_ODD) from None


MOST_OPERATORS = 8
"""The most operators to ask, those of most groups first: each may take until the timeout."""

Key = tuple[str, str]


async def lags(api: Api, groups: Sequence[Key], url: str | None) -> list[GroupLag]:
    """The lags of these groups (namespace and name), in their order. A failure is the `problem` of each group concerned."""
    known: dict[Key, GroupLag] = {}
    if url is not None:
        problem = await _ask(api, None, url, groups, known)
        return [known.get(key) or GroupLag(*key, problem=problem) for key in groups]
    try:
        ledgers = await _ledgers(api, groups)
    except ApiError as error:
        return [GroupLag(*key, problem=str(error)) for key in groups]
    releases = {key: None if (ledger := ledgers.get(key)) is None else release_of(ledger) for key in groups}
    problems: dict[str | None, str] = {}
    for release, _ in Counter(releases.values()).most_common(MOST_OPERATORS):
        served = [key for key in groups if releases[key] == release]
        problems[release] = await _ask(api, ledgers.get(served[0]), None, served, known)
    left = f"the groups have more than {MOST_OPERATORS} operators: ask for this group alone"
    return [known.get(key) or GroupLag(*key, problem=problems.get(releases[key], left)) for key in groups]


async def _ask(api: Api, ledger: Json | None, url: str | None, groups: Sequence[Key], known: dict[Key, GroupLag]) -> str:
    """Add to `known` what an operator reports of these groups: the one at the URL, or the one that wrote the ledger. Returns why
    groups are missing."""
    wanted = set(groups)
    try:
        leader = None if url is not None else await leader_of(api, ledger)
        told = ALL.validate_python(await _asked(api, "groups/lag", leader, url)).groups
    except ValidationError:
        return _ODD
    except (NoAnswerError, ApiError) as error:
        return str(error)
    known |= {key: one for one in told if (key := (one.namespace, one.group)) in wanted}
    return _NOT_SERVED


async def _ledgers(api: Api, groups: Sequence[Key]) -> Mapping[Key, Json]:
    """The ledgers of the groups, or only their metadata, in as few requests as the caller's rights allow."""
    namespaces = {namespace for namespace, _ in groups}
    try:
        where = core_path(None if len(namespaces) > 1 else next(iter(namespaces), None), "configmaps")
        found, _ = await listed(api, where, {"labelSelector": f"{MANAGED_BY_LABEL}={MANAGED_BY}"}, metadata=True)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        paths = {(namespace, name): core_path(namespace, "configmaps", ledger_name(name)) for namespace, name in groups}
        alone = {key: ledger_of(await api.find(path), key[1]) for key, path in paths.items()}
        return {key: ledger for key, ledger in alone.items() if ledger is not None}
    return {key: ledger for key in groups if (ledger := found.get((key[0], ledger_name(key[1])))) is not None}


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option("--partitions", "each", is_flag=True, help="Show each partition with its owner, the longest lag first.")
@operator_option
@output_option(
    wide="also the fleet; with --partitions states and epochs",
    programs="one object (a list without GROUP, or with --partitions)",
)
def lag(group: str | None, all_namespaces: bool, each: bool, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Show the lag of a ConsumerGroup: entries not acknowledged or committed yet. Without GROUP: of all groups.

    The same numbers as for autoscalers, a few seconds old. Exits with 1 if the lag of GROUP is unknown.
    """
    if group is None and each:
        raise click.UsageError("--partitions needs a GROUP")
    if group is None:
        ask(_list(target, all_namespaces, url, form))
    else:
        ask(_show(group, target, each, url, form))


async def _list(target: ClusterTarget, everywhere: bool, url: str | None, form: Form) -> None:
    async with cluster(target) as (api, where):
        looks = await look_at_all(api, None if everywhere else where)
        known = await lags(api, [(one.group.namespace, one.group.name) for one in looks], url)
    if form.for_programs:
        say_object([one.to_json() for one in known], form)
    elif known:
        console().print(lag_table(known, looks if form.wide else ()))
    else:
        say(f"There is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}.")


async def _show(group: str, target: ClusterTarget, each: bool, url: str | None, form: Form) -> None:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        told = await lag_of(api, where, group, seen.leader, url)
    if told.problem is not None:
        raise NoAnswerError(f"the lag of {where}/{group} is unknown: {told.problem}")
    rows = list(partition_rows(told, seen.state))
    if form.for_programs:
        say_object(rows if each else told.to_json(), form)
    else:
        wide = [seen] if form.wide else ()
        console().print(lag_by_partition(rows, wide=form.wide) if each else lag_table([told], wide))
    silent = [name for name, of in told.queues.items() if of is None]
    if silent:
        raise NoAnswerError(f"the lag of {', '.join(silent)} is unknown: its server does not answer, or does not know it")

"""The lag of many groups: one question to each operator that looks after some of them, by their ledgers.

Whoever may write a ledger may name an operator of his own there: what that one answers is believed of its groups alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from baton.cli.cluster import NoAnswerError
from baton.cli.lag_view import GroupLag
from baton.cli.leader import leader_of
from baton.cli.operator_pages import lag_of_all
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import ApiError
from baton.kube.following import listed
from baton.kube.ledger_configmap import MANAGED_BY, MANAGED_BY_LABEL, ledger_of
from baton.kube.releases import release_of
from baton.model.names import ledger_name

MOST_OPERATORS = 8
"""Those that most groups name are asked: each of the others might take until its time is over."""

Key = tuple[str, str]


async def lags(api: Api, groups: Sequence[Key], url: str | None) -> list[GroupLag]:
    """Of these groups (namespace and name), in their order. What is wrong is each one's `problem`."""
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
    left = f"the groups name more than {MOST_OPERATORS} operators: ask for this one alone"
    return [known.get(key) or GroupLag(*key, problem=problems.get(releases[key], left)) for key in groups]


async def _ask(api: Api, ledger: Json | None, url: str | None, groups: Sequence[Key], known: dict[Key, GroupLag]) -> str:
    """Make `known` what one operator tells of these groups: the one at the URL, or that has written the ledger. The answer: why
    it does not of the others."""
    wanted = set(groups)
    try:
        leader = None if url is not None else await leader_of(api, ledger)
        known |= {key: one for one in await lag_of_all(api, leader, url) if (key := (one.namespace, one.group)) in wanted}
    except (NoAnswerError, ApiError) as error:
        return str(error)
    return "its operator does not serve it"


async def _ledgers(api: Api, groups: Sequence[Key]) -> Mapping[Key, Json]:
    """Their ledgers, or the metadata of these, by group: with as few questions as the rights allow."""
    namespaces = {namespace for namespace, _ in groups}
    try:
        where = core_path(None if len(namespaces) > 1 else next(iter(namespaces), None), "configmaps")
        found, _ = await listed(api, where, {"labelSelector": f"{MANAGED_BY_LABEL}={MANAGED_BY}"}, metadata=True)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        alone = {(namespace, name): await _found(api, namespace, name) for namespace, name in groups}
        return {key: ledger for key, ledger in alone.items() if ledger is not None}
    return {key: ledger for key in groups if (ledger := found.get((key[0], ledger_name(key[1])))) is not None}


async def _found(api: Api, namespace: str, group: str) -> Json | None:
    return ledger_of(await api.find(core_path(namespace, "configmaps", ledger_name(group))), group)

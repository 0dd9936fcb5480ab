"""The lag of many groups: one question to each operator that looks after some of them."""

from collections.abc import Sequence

from baton.cli.cluster import NoAnswerError
from baton.cli.lag_view import GroupLag
from baton.cli.leader import leader_of
from baton.cli.operator_pages import lag_of_all
from baton.kube.api import Api, Json, core_path
from baton.kube.errors import ApiError
from baton.kube.ledger_configmap import ledger_of
from baton.model.names import ledger_name

MOST_OPERATORS = 8
"""Ledgers that are looked at for another operator, which may serve what the first ones do not."""

Key = tuple[str, str]


async def lags(api: Api, groups: Sequence[Key], url: str | None) -> list[GroupLag]:
    """Of these groups (namespace and name), in their order. What is wrong is each one's `problem`."""
    known: dict[Key, GroupLag] = {}
    asked: set[str] = set()
    problem = "no operator looks after it"
    for _ in range(MOST_OPERATORS):
        left = [key for key in groups if key not in known]
        if not left:
            break
        namespace, name = left[0]
        try:
            leader = None if url else await leader_of(api, await _ledger(api, namespace, name))
            where = url or ("" if leader is None else leader.lease)
            if where not in asked:
                asked.add(where)
                known |= {key: one for one in await lag_of_all(api, leader, url) if (key := (one.namespace, one.group)) in left}
        except (NoAnswerError, ApiError) as error:
            problem = str(error)
        known.setdefault(left[0], GroupLag(namespace, name, problem=problem))
    return [known.get(key) or GroupLag(*key, problem=problem) for key in groups]


async def _ledger(api: Api, namespace: str, group: str) -> Json | None:
    return ledger_of(await api.find(core_path(namespace, "configmaps", ledger_name(group))), group)

"""kopf watches, and this module hands every event over to the cluster cache.

All handlers are on.event handlers, which write nothing: no annotations and no finalizers of a framework on anybody's objects. A
follower watches too, so that it can lead at once. An index of kopf's would keep objects that vanished while a watch was broken,
because kopf lists again without saying what is gone. So the cluster cache has stores of its own, which lists correct.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import kopf
import structlog

from baton.controller.kopf_session import WatchSession, session_of
from baton.controller.lister import Scope
from baton.kube.api import Api, connect
from baton.kube.errors import ApiError, NotFoundError, UnavailableError
from baton.kube.objects import GROUP_VERSION
from baton.kube.store import Manifest
from baton.kube.watched_kinds import WatchedKind
from baton.model.names import GROUP_LABEL

Hear = Callable[[WatchedKind, str | None, Manifest], None]
"""What is watched, an event's type (None: it was listed), and the object."""

LOOK_AGAIN = 5.0
"""Seconds between looks whether the API server has a kind by now that it did not have."""

LISTED_AT_ONCE = 5
"""Objects of a page of kopf's lists, which has no bound in bytes: as large as an API server takes them they have 10 MiB, and ten
times as much as Python has them."""

LEDGERS_AT_ONCE = 3
"""The same of ConfigMaps: a ledger may have 900 KiB. JSON is parsed in one go, and nothing else happens meanwhile."""

KOPFS = (
    (LISTED_AT_ONCE, frozenset(WatchedKind) - {WatchedKind.LEDGERS}),
    (LEDGERS_AT_ONCE, frozenset({WatchedKind.LEDGERS})),
)
"""How many objects each lists at once, and what it watches: one size holds for all that a kopf lists."""

OWN = frozenset({WatchedKind.QUEUES, WatchedKind.GROUPS})
"""Baton's own kinds, which are there once the CRDs were applied."""


log = structlog.get_logger("baton.watch")


class WatchEnded(Exception):  # noqa: N818 -- what became of a watch, not a mistake of its
    """It is to be started again. The message says why."""


def handlers(hear: Hear, kinds: Collection[WatchedKind]) -> kopf.OperatorRegistry:
    """A registry whose handlers tell all that they hear of these."""
    registry = kopf.OperatorRegistry()
    for of in kinds:
        group, version = of.group_version
        kopf.on.event(group, version, of.value, registry=registry, id=of.value)(partial(_handle, hear, of))
    return registry


async def _handle(hear: Hear, of: WatchedKind, event: Any, **_: Any) -> None:
    hear(of, event["type"], of.looked_at(event["object"]))


def settings(at_once: int = LISTED_AT_ONCE) -> kopf.OperatorSettings:
    """List so many `at_once`; watch only what has the group's label (narrowed at the server); post, scan and lock nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.peering.standalone = True
    for of in WatchedKind:
        if of.selector:
            made.watching.label_selectors[of.value] = GROUP_LABEL
    # A request that hangs must not hold the watch for kopf's five minutes.
    made.networking.request_timeout = 30
    made.networking.error_backoffs = Backoffs()
    made.watching.connect_timeout = 10
    made.watching.chunk_size = at_once
    # A handler here only passes on what it is told; an idle object needs no worker for long.
    made.queueing.idle_timeout = 0.05
    made.persistence.diffbase_storage = NoDiffs()
    made.process.ultimate_exiting_timeout = None  # it would end the whole process
    return made


class NoDiffs(kopf.DiffBaseStorage):
    """Stands for kopf's store of former objects, and keeps none: kopf copies all of each object to compare it with the one
    before. For an object of the largest size that an API server takes, that is half a second of work and tens of MiB at every
    change."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None


class Backoffs:
    """Seconds between tries. After an outage of the API server the watches must be back in seconds, and not in the minute of
    kopf's own backoffs. The tries must not end: kopf gives all watches up if the last try of one meets a server that answers, but
    does not know its own resources yet (503 while it starts)."""

    def __iter__(self) -> Iterator[float]:
        return chain((0.2, 0.5, 1.0), repeat(2.0))


async def watch(kubeconfig: Path | None, scope: Scope, hear: Hear, began: Callable[[], None]) -> None:
    """Watch one scope until that cannot go on; then raises what went wrong. `began` is called when kopf has begun.

    Where one watch of kopf's meets a 404, a 410 or something that it cannot read, kopf gives all of its watches up; and it may
    never come to an end with that. So this is to have an event loop of its own, and whoever runs it ends what it leaves there.
    """
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)  # what it says when it ends is raised as well
    async with connect(kubeconfig) as (api, connection):
        missing = OWN - await served(api)
        if missing:
            log.warning("the API server does not have all of Baton's resources; apply the CRDs in crds/", missing=sorted(missing))

        async def login(**arguments: Any) -> WatchSession | None:
            if kubeconfig is None:
                found = kopf.login_with_service_account(**arguments)
            else:
                found = await _credentials(connection)
            return None if found is None else session_of(found)

        ready = [asyncio.Event() for _ in KOPFS]
        tasks: list[asyncio.Task[Any]] = []
        for flag, (at_once, kinds) in zip(ready, KOPFS, strict=True):
            registry = handlers(hear, kinds)
            kopf.on.login(registry=registry)(login)
            tasks += await kopf.spawn_tasks(
                registry=registry,
                settings=settings(at_once),
                standalone=True,
                # kopf would ask for the name of its user, and one of a container often has none.
                identity="baton",  # type: ignore[arg-type] # it is a str by a private name
                clusterwide=scope is None,
                namespaces=() if scope is None else (scope,),
                ready_flag=flag,
            )
        await asyncio.gather(_ends_when_there_is_more(api, missing), _then(ready, began), _ends_with_any(tasks))


async def served(api: Api) -> frozenset[WatchedKind]:
    """Which of Baton's own kinds the API server has. Raises what `Api` raises."""
    try:
        there = {str(resource["name"]) for resource in (await api.get(f"/apis/{GROUP_VERSION}"))["resources"]}
    except NotFoundError:
        return frozenset()
    return frozenset(of for of in OWN if of.value in there)


async def _ends_when_there_is_more(api: Api, missing: frozenset[WatchedKind]) -> None:
    """kopf looks once what kinds there are."""
    while missing:
        await asyncio.sleep(LOOK_AGAIN)
        with suppress(ApiError, UnavailableError):
            if there := missing & await served(api):
                raise WatchEnded(f"the API server has {' and '.join(sorted(there))} by now")


async def _then(flags: Iterable[asyncio.Event], tell: Callable[[], None]) -> None:
    for flag in flags:
        await flag.wait()
    tell()


async def _ends_with_any(tasks: Collection[asyncio.Task[Any]]) -> None:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    raise WatchEnded(f"kopf's {' and '.join(sorted(task.get_name() for task in done))} ended")


async def _credentials(connection: Any) -> kopf.ConnectionInfo:
    """The same connection that the API client has."""
    if connection.refresh_api_key_hook is not None:
        await _maybe(connection.refresh_api_key_hook(connection))
    token = connection.api_key.get("BearerToken")
    scheme, _, bare = (token or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=connection.host,
        ca_path=connection.ssl_ca_cert,
        ca_data=connection.ca_cert_data if not connection.ssl_ca_cert else None,
        insecure=not connection.verify_ssl,
        certificate_path=connection.cert_file,
        private_key_path=connection.key_file,
        scheme=scheme or None,
        token=bare or None,
    )


async def _maybe(answer: Any) -> None:
    if asyncio.iscoroutine(answer):
        await answer

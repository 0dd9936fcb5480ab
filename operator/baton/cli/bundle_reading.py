"""Reads what a bundle has of a cluster. What may not be read, or does not answer, is written down, and the rest is read."""

import json
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

import baton
from baton.cli import bundle_parts
from baton.cli.checks import findings
from baton.cli.facts import read_facts
from baton.cli.redaction import hidden, without_secrets
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import groups_path, queues_path
from baton.kube.releases import release_of
from baton.model.names import GROUP_LABEL, OPERATOR_SELECTOR, ledger_name
from baton.model.times import to_text

T = TypeVar("T")

LOG_LINES = 5_000
"""Of each pod of an operator, the last ones."""

LOG_BYTES = 4 * 2**20
"""Of these."""

SILENCE = 10.0
"""Seconds without a word of a log."""


@dataclass(slots=True)
class Bundle:
    """What is read of a cluster. Nothing of it is held: `write` gets each text, with its path, as soon as it was read."""

    write: Callable[[str, str], object]
    written: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    """What could not be read, and why."""
    releases: set[str] = field(default_factory=set)
    """Whose Leases were read: many groups have the same."""

    def add(self, path: str, value: object) -> None:
        self.add_text(path, json.dumps(value, indent=2, default=str) + "\n")

    def add_text(self, path: str, text: str) -> None:
        self.write(path, text)
        self.written += 1

    async def read(self, what: str, asked: Awaitable[T]) -> T | None:
        """What comes of it, or None; why is written down."""
        try:
            return await asked
        except (ApiError, UnavailableError) as error:
            self.unread[what] = hidden(str(error))
            return None


async def groups_of(api: Api, namespace: str | None, group: str | None) -> list[Json]:
    """One group; or all of a namespace, or (None) of all. Raises what `Api` raises."""
    return [await api.get(groups_path(namespace, group))] if group else list((await api.get(groups_path(namespace)))["items"])


async def read_bundle(made: Bundle, api: Api, namespace: str | None, groups: Sequence[Json], *, everything: bool) -> None:
    """All that belongs to these groups, one after the other. `everything`: also queues that none of them names."""
    version = await made.read("Kubernetes' version", api.get("/version"))
    made.add(
        "versions.json",
        {
            "baton": baton.__version__,
            "python": platform.python_version(),
            "kubernetes": (version or {}).get("gitVersion"),
            "time": to_text(time.time()),
        },
    )
    facts = await made.read("doctor", read_facts(api, namespace))
    if facts is not None:
        made.unread |= {f"doctor: {what}": hidden(why) for what, why in facts.unread.items()}
        made.add("doctor.json", without_secrets([dict(one.to_json()) for one in findings(facts)]))
        await _operators(made, api, facts.operators)
    for where in sorted({one["metadata"]["namespace"] for one in groups}):
        here = [one for one in groups if one["metadata"]["namespace"] == where]
        await _namespace(made, api, where, here, everything=everything)
    made.add("unread.json", made.unread)


async def _namespace(made: Bundle, api: Api, namespace: str, groups: Sequence[Json], *, everything: bool) -> None:
    names = {one["metadata"]["name"] for one in groups}
    used = {queue.get("name") for one in groups for queue in (one.get("spec") or {}).get("queues") or ()}
    for one in await _listed(made, api, f"queues of {namespace}", queues_path(namespace)):
        name = one["metadata"]["name"]
        if everything or name in used:
            made.add(f"{namespace}/queues/{name}.json", bundle_parts.resource(one))
    of_group = _by_group(names)
    pods = of_group(await _listed(made, api, f"pods of {namespace}", core_path(namespace, "pods"), labelSelector=GROUP_LABEL))
    leases = of_group(await _listed(made, api, f"leases of {namespace}", leases_path(namespace), labelSelector=GROUP_LABEL))
    told = await _listed(made, api, f"events of {namespace}", group_path(EVENTS, namespace, "events"))
    about = names | used
    events = [one for one in told if _is_ours(one) and (everything or (one.get("regarding") or {}).get("name") in about)]
    made.add(f"{namespace}/events.json", [bundle_parts.event(one) for one in events])
    for one in groups:
        name = one["metadata"]["name"]
        folder = f"{namespace}/groups/{name}"
        made.add(f"{folder}/group.json", bundle_parts.resource(one))
        made.add(f"{folder}/pods.json", [bundle_parts.pod(each) for each in pods.get(name, ())])
        made.add(f"{folder}/leases.json", [bundle_parts.lease(each) for each in leases.get(name, ())])
        await _ledger(made, api, namespace, name, folder)


async def _ledger(made: Bundle, api: Api, namespace: str, name: str, folder: str) -> None:
    what = f"ledger of {namespace}/{name}"
    ledger = ledger_of(await made.read(what, api.find(core_path(namespace, "configmaps", ledger_name(name)))), name)
    if ledger is None:
        made.unread.setdefault(what, "there is none")
        return
    made.add(f"{folder}/ledger.json", bundle_parts.ledger(ledger))
    release = release_of(ledger)
    if release and release not in made.releases:
        made.releases.add(release)
        where, _, lease = release.partition("/")
        found = await made.read(f"lease {release}", api.get(leases_path(where, lease)))
        if found is not None:
            made.add(f"operators/{where}/lease-{lease}.json", bundle_parts.lease(found))


async def _operators(made: Bundle, api: Api, deployments: Sequence[Mapping[str, Any]]) -> None:
    from baton.cli.operator import operator

    options = [name for one in operator.params if isinstance(one, click.Option) for name in one.opts]
    for one in deployments:
        metadata = one["metadata"]
        made.add(f"operators/{metadata['namespace']}/{metadata['name']}.json", bundle_parts.deployment(one, options))
    for where in sorted({str(one["metadata"]["namespace"]) for one in deployments}):
        pods = await _listed(made, api, f"operator's pods of {where}", core_path(where, "pods"), labelSelector=OPERATOR_SELECTOR)
        for pod in pods:
            name = pod["metadata"]["name"]
            made.add(f"operators/{where}/{name}.json", bundle_parts.pod(pod))
            text = await made.read(f"log of {where}/{name}", _log(api, where, name))
            if text is not None:
                made.add_text(f"operators/{where}/{name}.log", hidden(text))


async def _log(api: Api, namespace: str, pod: str) -> str:
    asked = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
    async with api.stream(f"{core_path(namespace, 'pods', pod)}/log", asked, SILENCE) as chunks:
        return b"".join([chunk async for chunk in chunks]).decode(errors="replace")


async def _listed(made: Bundle, api: Api, what: str, path: str, **query: str) -> list[Json]:
    found = await made.read(what, api.get(path, **query))
    return [] if found is None else list(found["items"])


def _by_group(names: set[str]) -> Callable[[Sequence[Json]], dict[str, list[Json]]]:
    def sorted_out(those: Sequence[Json]) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = {}
        for one in those:
            group = (one["metadata"].get("labels") or {}).get(GROUP_LABEL)
            if group in names:
                found.setdefault(group, []).append(one)
        return found

    return sorted_out


def _is_ours(event: Json) -> bool:
    return (event.get("regarding") or {}).get("kind") in ("ConsumerGroup", "PartitionedQueue")

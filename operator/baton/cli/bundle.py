"""`baton bundle`: what a bug report needs, in one archive without secrets."""

import io
import json
import os
import platform
import tarfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

import baton
from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.doctor import findings, read_facts
from baton.cli.group import Manifest
from baton.cli.operator import operator
from baton.cli.options import GROUP, ClusterTarget, all_namespaces_option, cluster_options
from baton.cli.printing import say
from baton.cli.redaction import hidden, own_metadata, without_secrets
from baton.engine import LedgerError
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import groups_path, queues_path
from baton.kube.releases import release_of
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, LEDGER_GROUP_KEY, OPERATOR_SELECTOR, ledger_name
from baton.model.times import to_text
from baton.model.wording import counted


@contextmanager
def archive(file: Path) -> Iterator[Callable[[str, str], None]]:
    """Create an archive; yields a function that adds a text with its path. Only the owner may read the file, and it is deleted if
    the block raises. Raises OSError, and FileExistsError if the file exists."""
    folder = file.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    if folder == file.name:
        folder += "-files"  # to be unpacked beside the archive
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        try:
            with tarfile.open(None, "w:gz", opened) as packed:

                def write(path: str, text: str) -> None:
                    content = text.encode(errors="replace")
                    entry = tarfile.TarInfo(f"{folder}/{path}")
                    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                    packed.addfile(entry, io.BytesIO(content))

                yield write
        except BaseException:
            file.unlink(missing_ok=True)
            raise


def resource_part(one: Manifest) -> Json:
    """A ConsumerGroup or PartitionedQueue, whole: the API server keeps only fields of its schema."""
    parts = {"metadata": own_metadata(one["metadata"]), "spec": one.get("spec"), "status": one.get("status")}
    return dict(without_secrets(parts))


def ledger_part(one: Manifest) -> Json:
    """A ledger as texts by key, without what Baton did not write."""
    data = {hidden(key): _entry(key, text) for key, text in (one.get("data") or {}).items()}
    return {"metadata": without_secrets(own_metadata(one["metadata"])), "data": data}


def _entry(key: str, text: str) -> str:
    """An entry of the ledger. A valid entry of a member has names and numbers only: a pod `token-refresh` stays readable."""
    if key == LEDGER_GROUP_KEY:
        return hidden(text)
    try:
        return MemberEntry.from_json(text).to_json()
    except LedgerError:
        return "(left out: not a valid entry)"


def lease_part(one: Manifest) -> Json:
    """A Lease: its holder and what it reports."""
    spec = _picked(one.get("spec"), "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions")
    return dict(without_secrets({"metadata": own_metadata(one["metadata"]), "spec": spec}))


def event_part(one: Manifest) -> Json:
    """An event."""
    kept = _picked(one, "type reason action note eventTime deprecatedLastTimestamp series")
    return dict(without_secrets({**kept, "regarding": _picked(one.get("regarding"), "kind namespace name uid")}))


def pod_part(one: Manifest) -> Json:
    """A pod: its node and status, without commands, arguments, environment and volumes."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    told = {
        "metadata": own_metadata(one["metadata"]),
        "node": spec.get("nodeName"),
        **_picked(status, "phase reason"),
        "conditions": [_picked(each, "type status reason lastTransitionTime") for each in status.get("conditions") or ()],
        "containers": [_container(each) for each in status.get("containerStatuses") or ()],
    }
    images = {str(each.get("name")): each.get("image") for each in spec.get("containers") or ()}
    return {**without_secrets(told), "images": {hidden(name): without_secrets(image) for name, image in images.items()}}


def _container(one: Manifest) -> Json:
    states = {
        when: {kind: _picked(told, "reason exitCode signal startedAt finishedAt")}
        for when in ("state", "lastState")
        for kind, told in (one.get(when) or {}).items()
    }
    return {**_picked(one, "name ready restartCount"), **states}


def _picked(of: Manifest | None, names: str) -> Json:
    return {name: (of or {}).get(name) for name in names.split()}


def deployment_part(one: Manifest, options: Iterable[str]) -> Json:
    """An operator's Deployment. Of its arguments only the `options` of `baton operator`."""
    known, spec = set(options), (one.get("spec") or {}).get("template", {}).get("spec") or {}
    told = {
        "metadata": own_metadata(one["metadata"]),
        "replicas": (one.get("spec") or {}).get("replicas"),
        "status": _picked(one.get("status"), "replicas readyReplicas updatedReplicas observedGeneration"),
        "serviceAccount": spec.get("serviceAccountName"),
        "containers": [
            {
                **_picked(each, "name image resources"),
                "arguments": [word for word in map(str, each.get("args") or ()) if word.partition("=")[0] in known],
            }
            for each in spec.get("containers") or ()
        ],
    }
    return dict(without_secrets(told))


T = TypeVar("T")

LOG_LINES = 5_000
"""The most lines of a log: the last ones of each operator's pod."""

LOG_BYTES = 4 * 2**20
"""The most bytes of a log."""

SILENCE = 10.0
"""Seconds without data after which reading a log ends."""


@dataclass(slots=True)
class Bundle:
    """The texts read from a cluster. They are not kept in memory: `write` gets each with its path as soon as it is read."""

    write: Callable[[str, str], object]
    written: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    """Why something could not be read, by subject."""
    releases: set[str] = field(default_factory=set)
    """Operators whose Leases were read already: many groups have the same operator."""

    def add(self, path: str, value: object) -> None:
        self.add_text(path, json.dumps(value, indent=2, default=str) + "\n")

    def add_text(self, path: str, text: str) -> None:
        self.write(path, text)
        self.written += 1

    async def read(self, what: str, asked: Awaitable[T]) -> T | None:
        """Return the answer, or record the failure in `unread` and return None."""
        try:
            return await asked
        except (ApiError, UnavailableError) as error:
            self.unread[what] = hidden(str(error))
            return None


async def groups_of(api: Api, namespace: str | None, group: str | None) -> list[Json]:
    """One group, all groups of a namespace, or (None) all groups. Raises what `Api` raises."""
    return [await api.get(groups_path(namespace, group))] if group else list((await api.get(groups_path(namespace)))["items"])


async def read_bundle(made: Bundle, api: Api, namespace: str | None, groups: Sequence[Json], *, everything: bool) -> None:
    """Read everything that belongs to these groups, one by one. `everything`: also queues of no group."""
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
        made.add("doctor.json", without_secrets([asdict(one) for one in findings(facts)]))
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
            made.add(f"{namespace}/queues/{name}.json", resource_part(one))
    there = await _listed(made, api, f"pods of {namespace}", core_path(namespace, "pods"), labelSelector=GROUP_LABEL)
    held = await _listed(made, api, f"leases of {namespace}", leases_path(namespace), labelSelector=GROUP_LABEL)
    pods, leases = _by_group(names, there), _by_group(names, held)
    told = await _listed(made, api, f"events of {namespace}", group_path(EVENTS, namespace, "events"))
    about = names | used
    of_baton = [one for one in told if (one.get("regarding") or {}).get("kind") in ("ConsumerGroup", "PartitionedQueue")]
    events = [one for one in of_baton if everything or one["regarding"].get("name") in about]
    made.add(f"{namespace}/events.json", [event_part(one) for one in events])
    for one in groups:
        name = one["metadata"]["name"]
        folder = f"{namespace}/groups/{name}"
        made.add(f"{folder}/group.json", resource_part(one))
        made.add(f"{folder}/pods.json", [pod_part(each) for each in pods[name]])
        made.add(f"{folder}/leases.json", [lease_part(each) for each in leases[name]])
        await _ledger(made, api, namespace, name, folder)


async def _ledger(made: Bundle, api: Api, namespace: str, name: str, folder: str) -> None:
    what = f"ledger of {namespace}/{name}"
    ledger = ledger_of(await made.read(what, api.find(core_path(namespace, "configmaps", ledger_name(name)))), name)
    if ledger is None:
        made.unread.setdefault(what, "there is none")
        return
    made.add(f"{folder}/ledger.json", ledger_part(ledger))
    release = release_of(ledger)
    if release and release not in made.releases:
        made.releases.add(release)
        where, _, lease = release.partition("/")
        found = await made.read(f"lease {release}", api.get(leases_path(where, lease)))
        if found is not None:
            made.add(f"operators/{where}/lease-{lease}.json", lease_part(found))


async def _operators(made: Bundle, api: Api, deployments: Sequence[Mapping[str, Any]]) -> None:
    options = [name for one in operator.params if isinstance(one, click.Option) for name in one.opts]
    for one in deployments:
        metadata = one["metadata"]
        made.add(f"operators/{metadata['namespace']}/{metadata['name']}.json", deployment_part(one, options))
    for where in sorted({str(one["metadata"]["namespace"]) for one in deployments}):
        pods = await _listed(made, api, f"operator's pods of {where}", core_path(where, "pods"), labelSelector=OPERATOR_SELECTOR)
        for pod in pods:
            name = pod["metadata"]["name"]
            made.add(f"operators/{where}/{name}.json", pod_part(pod))
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


def _by_group(names: set[str], those: Sequence[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {name: [] for name in names}
    for one in those:
        group = (one["metadata"].get("labels") or {}).get(GROUP_LABEL)
        if group in found:
            found[group].append(one)
    return found


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option(
    "--file",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to write. Default: baton-bundle-TIME.tar.gz in the current directory.",
)
def bundle(group: str | None, all_namespaces: bool, file: Path | None, target: ClusterTarget) -> None:
    """Collect what a bug report needs about GROUP, or about all groups of the namespace, into one archive.

    It contains versions, resources, ledgers, Leases, pods, events, the operator's logs, and the output of `baton doctor`, but
    not Secrets, environments and entries. What looks like a password or a token elsewhere is hidden. unread.json lists what
    could not be read.
    """
    if file is not None and file.exists():
        raise _already(file)
    file = file or Path(time.strftime("baton-bundle-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime()))
    try:
        made = ask(_collect(group, target, file, everywhere=all_namespaces))
    except FileExistsError:
        raise _already(file) from None
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    say(f"{file}: {counted(made.written, 'file')}. Read it before you send it: messages and logs are free text.")
    for what, why in made.unread.items():
        say(f"not in it: {what}: {why}", error=True)


def _already(file: Path) -> click.UsageError:
    return click.UsageError(f"{file} exists already: choose another --file")


async def _collect(group: str | None, target: ClusterTarget, file: Path, *, everywhere: bool) -> Bundle:
    async with cluster(target) as (api, where):
        namespace = None if everywhere else where
        groups = await groups_of(api, namespace, group)
        if not groups:
            raise NoAnswerError(f"there is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}")
        with archive(file) as write:
            made = Bundle(write)
            await read_bundle(made, api, namespace, groups, everything=group is None)
    return made

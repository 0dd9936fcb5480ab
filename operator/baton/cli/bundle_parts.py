"""What of each object is in a bundle: the fields that are named here, and no others. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from baton.cli.redaction import hidden, own_metadata, without_secrets
from baton.engine import LedgerError
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY

Json = dict[str, Any]
Manifest = Mapping[str, Any]


def resource(one: Manifest) -> Json:
    """A ConsumerGroup or PartitionedQueue: the API server keeps only fields that its schema has."""
    parts = {"metadata": own_metadata(one["metadata"]), "spec": one.get("spec"), "status": one.get("status")}
    return dict(without_secrets(parts))


def ledger(one: Manifest) -> Json:
    """As text, key by key; what Baton did not write there is left out."""
    data = {hidden(key): _entry(key, text) for key, text in (one.get("data") or {}).items()}
    return {"metadata": without_secrets(own_metadata(one["metadata"])), "data": data}


def _entry(key: str, text: str) -> str:
    """A member's has names and numbers alone, once it was read: a pod that is called `token-refresh` is no secret."""
    if key == LEDGER_GROUP_KEY:
        return hidden(text)
    try:
        return MemberEntry.from_json(text).to_json()
    except LedgerError:
        return "(left out: it does not read as an entry)"


def lease(one: Manifest) -> Json:
    """Who holds it, and what it reports."""
    spec = one.get("spec") or {}
    kept = {
        name: spec.get(name)
        for name in ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
    }
    return dict(without_secrets({"metadata": own_metadata(one["metadata"]), "spec": kept}))


def event(one: Manifest) -> Json:
    """What Kubernetes keeps of what happened."""
    about = one.get("regarding") or {}
    kept = {
        name: one.get(name) for name in ("type", "reason", "action", "note", "eventTime", "deprecatedLastTimestamp", "series")
    }
    return dict(without_secrets({**kept, "regarding": {name: about.get(name) for name in ("kind", "namespace", "name", "uid")}}))


def pod(one: Manifest) -> Json:
    """Where it runs and how it is: no command, no argument, no environment, no volume."""
    spec, status = one.get("spec") or {}, one.get("status") or {}
    conditions = [
        {name: each.get(name) for name in ("type", "status", "reason", "lastTransitionTime")}
        for each in status.get("conditions") or ()
    ]
    told = {
        "metadata": own_metadata(one["metadata"]),
        "node": spec.get("nodeName"),
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "conditions": conditions,
        "containers": [_container(each) for each in status.get("containerStatuses") or ()],
    }
    images = {str(each.get("name")): each.get("image") for each in spec.get("containers") or ()}
    return {**without_secrets(told), "images": {hidden(name): without_secrets(image) for name, image in images.items()}}


def _container(one: Manifest) -> Json:
    states = {
        when: {kind: {name: told.get(name) for name in ("reason", "exitCode", "signal", "startedAt", "finishedAt")}}
        for when in ("state", "lastState")
        for kind, told in (one.get(when) or {}).items()
    }
    return {"name": one.get("name"), "ready": one.get("ready"), "restartCount": one.get("restartCount"), **states}


def deployment(one: Manifest, options: Iterable[str]) -> Json:
    """An operator's. Of its arguments only those that are `options` of `baton operator`."""
    known, spec = set(options), (one.get("spec") or {}).get("template", {}).get("spec") or {}
    status = one.get("status") or {}
    containers = [
        {
            "name": each.get("name"),
            "image": each.get("image"),
            "resources": each.get("resources"),
            "arguments": [word for word in map(str, each.get("args") or ()) if word.partition("=")[0] in known],
        }
        for each in spec.get("containers") or ()
    ]
    counts = {name: status.get(name) for name in ("replicas", "readyReplicas", "updatedReplicas", "observedGeneration")}
    told = {"metadata": own_metadata(one["metadata"]), "replicas": (one.get("spec") or {}).get("replicas"), "status": counts}
    return dict(without_secrets({**told, "serviceAccount": spec.get("serviceAccountName"), "containers": containers}))

"""What a create, a replace or a patch makes of an object: which fields are the client's, which the server's. Pure."""

from collections.abc import Mapping
from typing import Any

from tests.simulation.api_server.kinds import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, Kind
from tests.simulation.api_server.manifests import Json, Manifest
from tests.simulation.api_server.paths import Target
from tests.simulation.api_server.refusals import Mistake, another, bad_request, changed, invalid

CLIENTS = ("labels", "annotations", "ownerReferences", "finalizers")
"""Metadata that clients write."""
SERVERS = (
    "name", "generateName", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp",
    "deletionGracePeriodSeconds", "resourceVersion",
)  # fmt: skip
"""Metadata that stays as the server made it."""


def new(target: Target, name: str, body: Mapping[str, Any], uid: str, now: str) -> Json:
    """An object that was not there before."""
    kind, sent = target.kind, body["metadata"]
    metadata: Json = {"name": name}
    if kind.namespaced:
        metadata["namespace"] = target.namespace
    metadata |= {"uid": uid, "creationTimestamp": now}
    if kind.generation:
        metadata["generation"] = 1
    metadata |= {field: sent[field] for field in CLIENTS if sent.get(field)}
    made = _content(kind, body)
    if kind is NAMESPACES:
        metadata["labels"] = Manifest({**metadata.get("labels", {}), "kubernetes.io/metadata.name": name})
        made |= {"spec": Manifest({"finalizers": ["kubernetes"]}), "status": Manifest({"phase": "Active"})}
    elif kind is PODS:
        made["status"] = Manifest({"phase": "Pending", "qosClass": "BestEffort"})
    elif kind is DEPLOYMENTS:
        made["status"] = Manifest({})
    return _whole(kind, metadata, made)


def changed_by(target: Target, before: Manifest, body: Mapping[str, Any], *, patched: bool) -> Json:
    """The object after a write of this body, whole. The very same content where the write changes nothing. `patched`: the body is
    what a patch made of the object.

    Raises Refused: 409 where the writer believes in another object or version, 422 for a patch that would make it another object,
    and for finalizers that come too late.
    """
    kind, was, sent = target.kind, before["metadata"], body["metadata"]
    believe(kind, before, None if patched else sent.get("uid"), sent.get("resourceVersion"))
    uid = sent.get("uid", was["uid"])
    # A custom resource's status is written without a look at the metadata.
    if uid != was["uid"] and target.subresource != "scale" and not (kind.custom and target.subresource):
        raise invalid(kind, target.name, [Mistake("metadata.uid", "Invalid", "field is immutable", f'"{uid}"')])
    if target.subresource == "scale":
        spec = Manifest({**(before.get("spec") or {}), "replicas": int((body.get("spec") or {}).get("replicas") or 0)})
        return _counted(kind, before, {**before, "spec": spec})
    if target.subresource == "status":
        told = {"status": body["status"]} if "status" in body else {}
        if kind.custom:
            return {**before, **told}
        metadata = {field: value for field, value in was.items() if field not in CLIENTS}
        metadata |= {field: sent[field] for field in CLIENTS if sent.get(field)}
        return {**before, "metadata": Manifest(metadata), **told}
    if sent.get("name", target.name) != target.name:
        raise bad_request(f"the name of the object ({sent['name']}) does not match the name on the URL ({target.name})")
    metadata = {field: was[field] for field in SERVERS if field in was}
    metadata |= {field: sent[field] for field in CLIENTS if sent.get(field)}
    _no_late_finalizers(target, was, metadata)
    made = _content(kind, body)
    if "status" in before:
        made["status"] = before["status"]
    return _counted(kind, before, _whole(kind, metadata, made))


def _no_late_finalizers(target: Target, was: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    late = sorted(set(metadata.get("finalizers", ())) - set(was.get("finalizers", ())))
    if late and "deletionTimestamp" in was:
        words = ", ".join(f'"{one}"' for one in late)
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{words}}}"
        raise invalid(target.kind, target.name, [Mistake("metadata.finalizers", "Forbidden", why)])


def believe(kind: Kind, found: Manifest, uid: str | None, version: str | None) -> None:
    """Raises Refused (409) where a precondition does not hold."""
    metadata = found["metadata"]
    if uid and uid != metadata["uid"]:
        raise another(kind, metadata.get("namespace"), metadata["name"], uid, metadata["uid"])
    if version and version != metadata["resourceVersion"]:
        raise changed(kind, metadata["name"])


def scale_of(manifest: Manifest) -> Json:
    """The object's size, as autoscalers read it."""
    was, status = manifest["metadata"], manifest.get("status") or {}
    metadata = {field: was[field] for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    shown: Json = {"replicas": status.get("replicas", 0)}
    selector = status.get("selector") or _selector((manifest.get("spec") or {}).get("selector"))
    if selector:
        shown["selector"] = selector
    spec = {"replicas": (manifest.get("spec") or {}).get("replicas", 0)}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": shown}


def _selector(selector: Mapping[str, Any] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(((selector or {}).get("matchLabels") or {}).items()))


def _content(kind: Kind, body: Mapping[str, Any]) -> Json:
    """What is neither metadata nor status."""
    made = {field: value for field, value in body.items() if field not in ("metadata", "status", "apiVersion", "kind")}
    if kind is CONFIG_MAPS:
        made = {field: value for field, value in made.items() if value not in (None, {})}
    return made


def _whole(kind: Kind, metadata: Json, content: Json) -> Json:
    return {"kind": kind.name, "apiVersion": kind.group_version, "metadata": Manifest(metadata), **content}


def _counted(kind: Kind, before: Manifest, after: Json) -> Json:
    """With its generation, which grows where anything but metadata and status differs."""
    if not kind.generation or _meant(before) == _meant(after):
        return after
    generation = int(before["metadata"].get("generation", 0)) + 1
    return {**after, "metadata": Manifest({**after["metadata"], "generation": generation})}


def _meant(manifest: Mapping[str, Any]) -> Json:
    return {field: value for field, value in manifest.items() if field not in ("metadata", "status")}

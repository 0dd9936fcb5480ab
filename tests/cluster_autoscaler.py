"""Which pods the cluster autoscaler does not take a node from: its rules, by its defaults, written again here.

They were read in its versions 1.35 and 1.37 (`simulator/drainability/rules`, `utils/drain`); no test runs it. Budgets are left
out: the API server holds them.
"""

from typing import Any, Literal

_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LOCAL_VOLUMES = f"{_SAFE_TO_EVICT}-local-volumes"

Reason = Literal["", "NotReplicated", "NotSafeToEvictAnnotation", "LocalStorageRequested"]
"""The cluster autoscaler's own words. Empty: the node may go."""

_CONTROLLERS = {"ReplicaSet", "StatefulSet", "Job", "ReplicationController"}


def keeps_its_node(pod: Any, owner: str) -> Reason:
    """Why a pod (or a template of one), whose controller is of the kind `owner`, keeps its node."""
    annotations = pod.get("metadata", {}).get("annotations", {})
    if annotations.get(_SAFE_TO_EVICT) == "true":
        return ""
    if owner not in _CONTROLLERS:
        return "NotReplicated"
    if annotations.get(_SAFE_TO_EVICT) == "false":
        return "NotSafeToEvictAnnotation"
    named = annotations.get(LOCAL_VOLUMES, "").split(",")
    if any(_is_local(volume) and volume["name"] not in named for volume in pod["spec"].get("volumes", ())):
        return "LocalStorageRequested"
    return ""


def _is_local(volume: Any) -> bool:
    return "hostPath" in volume or ("emptyDir" in volume and volume["emptyDir"].get("medium") != "Memory")

"""Lays lists over what the watches showed, for a watch that had to start anew says nothing of what vanished meanwhile."""

from baton.controller.mirror import GroupKey, Mirror
from baton.kube.api import Api, core_path, group_path
from baton.kube.elector import LEASES
from baton.kube.objects import GROUP_VERSION
from baton.model.names import GROUP_LABEL


async def relist_group(api: Api, mirror: Mirror, key: GroupKey) -> None:
    """One group's pods and sessions, the group itself, and its namespace's queues. Raises what `Api` raises."""
    namespace, name = key
    label = f"{GROUP_LABEL}={name}"
    pods = await api.get(core_path(namespace, "pods"), labelSelector=label)
    mirror.pods.listed(namespace, name, pods["items"], pods["metadata"]["resourceVersion"])
    leases = await api.get(group_path(LEASES, namespace, "leases"), labelSelector=label)
    mirror.leases.listed(namespace, name, leases["items"], leases["metadata"]["resourceVersion"])
    queues = await api.get(group_path(GROUP_VERSION, namespace, "partitionedqueues"))
    mirror.queues.listed(namespace, None, queues["items"], queues["metadata"]["resourceVersion"])
    groups = await api.get(group_path(GROUP_VERSION, namespace, "consumergroups"), fieldSelector=f"metadata.name={name}")
    mirror.groups.listed(namespace, name, groups["items"], groups["metadata"]["resourceVersion"])

"""spec.replicas of a group that does not say it: set to the present size of the workload that it names.

The API server answers GET /scale of a custom resource with 500 where its replicas are absent, and no autoscaler can begin.
"""

from baton.api.group import Scale
from baton.kube.api import Api
from baton.kube.errors import ConflictError, NotFoundError
from baton.kube.objects import group_view, groups_path
from baton.kube.scale import Scaler, Target

TRIES = 5
"""The operator itself writes the group's status meanwhile, so a conflict says little."""


class GroupReplicas:
    """Sets spec.replicas of one group."""

    def __init__(self, api: Api, scaler: Scaler, namespace: str, name: str, uid: str) -> None:
        self._api = api
        self._scaler = scaler
        self._path = groups_path(namespace, name)
        self._uid = uid

    async def set_to_size_of(self, target: Target, scale: Scale) -> int | None:
        """Set it where it is absent and spec.scale still is `scale`, and never over what somebody has written. Returns what it is
        now; None: it was not set.

        Raises what `Scaler.size` raises, and ConflictError where others write the group all the time.
        """
        for left in reversed(range(TRIES)):
            try:
                return await self._set(target, scale)
            except ConflictError:
                if not left:
                    raise
            except NotFoundError:
                return None
        return None

    async def _set(self, target: Target, scale: Scale) -> int | None:
        group = group_view(await self._api.get(self._path))
        if group.uid != self._uid or group.deleting or group.spec is None:
            return None
        if group.spec.replicas is not None or group.spec.scale != scale:
            return None
        size = await self._scaler.size(target)
        metadata = {"uid": group.uid, "resourceVersion": group.version}
        await self._api.merge(self._path, {"metadata": metadata, "spec": {"replicas": size}})
        return size

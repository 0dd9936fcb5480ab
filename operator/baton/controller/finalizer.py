"""The finalizer of a ConsumerGroup, which goes only when its queues have been released."""

from baton.controller.problems import Stuck, request_refused
from baton.kube.api import Api
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.objects import FINALIZER, GroupView, groups_path


class Finalizer:
    """The finalizer of one group. Methods raise Stuck where the API server refuses."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._path = groups_path(namespace, name)

    async def put_on(self, group: GroupView) -> None:
        """Put the finalizer on, unless the group has it."""
        if FINALIZER not in group.finalizers:
            await self._write(group, [*group.finalizers, FINALIZER], "cannot be put on the group")

    async def take_off(self, group: GroupView) -> bool:
        """False: the group has changed, and it is to be tried again."""
        try:
            rest = [one for one in group.finalizers if one != FINALIZER]
            await self._write(group, rest, "cannot be taken off the group, which is being deleted")
        except NotFoundError:
            return True
        except ConflictError:
            return False
        return True

    async def _write(self, group: GroupView, finalizers: list[str], what: str) -> None:
        metadata = {"uid": group.uid, "resourceVersion": group.version, "finalizers": finalizers or None}
        try:
            await self._api.merge(self._path, {"metadata": metadata})
        except (NotFoundError, ConflictError):
            raise
        except (ApiError, UnavailableError) as error:
            raise Stuck(request_refused(f"the finalizer {FINALIZER} {what}", error)) from error

"""An API server in memory: objects by path, resource versions, compare-and-swap, merge patches; and away when told so."""

import copy
from collections.abc import Mapping
from typing import Any

from baton.kube.api import Api, ConflictError, Json, NotFoundError, UnavailableError


class MemoryApi(Api):
    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.created: list[Json] = []
        self.away = False
        self.read_only = False
        """Writes are not carried out."""
        self.mute = False
        """Writes are carried out, and their answers are lost."""
        self._version = 0

    def put(self, path: str, body: Json) -> Json:
        """As another client would, with no questions asked."""
        self._version += 1
        body = copy.deepcopy(body)
        metadata = body.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("uid", self.objects[path]["metadata"]["uid"] if path in self.objects else f"object-{self._version}")
        self.objects[path] = body
        return copy.deepcopy(body)

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        if self.away or (self.read_only and method != "GET"):
            raise UnavailableError("away")
        answer = self._carry_out(method, path, body)
        if self.mute and method != "GET":
            raise UnavailableError("the answer was lost")
        return answer

    def _carry_out(self, method: str, path: str, body: Json | list[Json] | None) -> Json:
        if method == "POST":
            assert isinstance(body, dict)
            self.created.append(body)
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise ConflictError(409, "AlreadyExists", path)
            return self.put(path, body)
        at = path.removesuffix("/status").removesuffix("/scale")
        found = self.objects.get(at)
        if found is None:
            raise NotFoundError(404, "NotFound", path)
        if method == "GET":
            return copy.deepcopy(found)
        assert body is not None
        if isinstance(body, list):
            body = {one["path"].strip("/"): one["value"] for one in body if one["op"] == "add"}
            return self.put(at, {**found, **body})
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, found["metadata"]["resourceVersion"]):
            raise ConflictError(409, "Conflict", path)
        return self.put(at, body if method == "PUT" else merged(found, body))


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made

"""What a group has to do, asked of its operator: at a URL, or by the API server's proxy with the viewer's own rights."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from baton.cli.leader import Leader
from baton.kube.api import Api, ApiError, UnavailableError, core_path
from baton.model.wording import one_line

ASKED_WITHIN = 5.0
"""Seconds."""

PORT = 8080
"""Of the operator's pods, unless its chart was changed."""


async def lag_of(api: Api, operator_url: str | None, leader: Leader | None, namespace: str, group: str) -> Mapping[str, Any]:
    """`{"lag": 12, "lagSeconds": 0.4}`, or `{"problem": …}`. `operator_url` None: by the proxy, of the pod that leads."""
    path = f"/groups/{quote(namespace, safe='')}/{quote(group, safe='')}/lag"
    if operator_url is not None:
        return await _at(operator_url.rstrip("/") + path)
    if leader is None or not leader.holder:
        return {"problem": "no operator leads, or its Lease may not be read"}
    where = leader.lease.partition("/")[0]
    try:
        return _read(await api.get(f"{core_path(where, 'pods', f'{leader.holder}:{PORT}')}/proxy{path}"))
    except ApiError as error:
        right = (
            f": it is asked of the operator's pod by the right get pods/proxy in namespace {where}" if error.status == 403 else ""
        )
        return {"problem": one_line(f"{error.message or error.reason}{right}", 400)}
    except UnavailableError as error:
        return {"problem": one_line(str(error), 400)}


async def _at(url: str) -> Mapping[str, Any]:
    timeout = aiohttp.ClientTimeout(total=ASKED_WITHIN)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, max_redirects=2) as answer:
            said = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return {"problem": one_line(f"the operator does not answer: {type(error).__name__}", 400)}
    return _read(said) if isinstance(said, dict) else {"problem": "the operator's answer is no JSON object"}


def _read(said: Mapping[str, Any]) -> Mapping[str, Any]:
    if "error" in said:
        return {"problem": one_line(str(said["error"]), 400)}
    return {name: value if isinstance(value := said.get(name), int | float) else None for name in ("lag", "lagSeconds")}

"""The console's HTTP server: the page, live data as server-sent events, what-if, and approval."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import click
from aiohttp import web

from baton.cli.approve import approve_proposal
from baton.cli.cluster import NoAnswerError, may
from baton.cli.group import observe
from baton.cli.lag import ASK_FOR_RIGHTS, FORWARD
from baton.cli.options import NAMESPACE, OBJECT
from baton.console.feeds import Feeds, Topic
from baton.console.guard import HEADERS, RefusedRequestError, check_source
from baton.console.viewers import Viewers
from baton.console.what_if import Rehearsals
from baton.kube.api import Api, core_path
from baton.kube.errors import FORBIDDEN, ApiError, UnavailableError
from baton.model.wording import one_line

PAUSE = 0.25
"""The least seconds between two messages to a viewer."""

TAKEN_WITHIN = 30.0
"""Seconds after which a viewer that does not take a message is disconnected."""

MOST_NAMESPACES = 100
"""The most namespaces offered to a viewer who may not list all groups."""

LONGEST_REQUEST = 16 * 1024
"""The most bytes of a request's body."""

STATIC = {
    "index.html": "text/html",
    "console.css": "text/css",
    **dict.fromkeys(("api.js", "console.js", "dom.js", "grid.js", "group.js", "groups.js", "what_if.js"), "text/javascript"),
    "icon.svg": "image/svg+xml",
}
"""The files of the page, with their content types."""

_GROUPS = "consumergroups.baton.dev"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Settings of the console."""

    hosts: Collection[str]
    """The host names that it answers to, without ports."""
    may_approve: bool = False
    operator_url: str | None = None
    namespace: str | None = None
    """The namespace to show first; None: all."""


class ConsoleServer:
    """The routes of the console."""

    def __init__(self, viewers: Viewers, options: ConsoleOptions) -> None:
        self._viewers, self._options = viewers, options
        self._feeds = Feeds(options.operator_url, ASK_FOR_RIGHTS if viewers.token is None else FORWARD)
        self._rehearsals = Rehearsals()
        folder = files("baton.console") / "static"
        self._pages = {name: (folder / name).read_bytes() for name in STATIC}

    def application(self) -> web.Application:
        """Return the application for aiohttp's runner."""
        made = web.Application(middlewares=[self._guarded], client_max_size=LONGEST_REQUEST)
        made.router.add_get("/", self._page)
        made.router.add_get("/{name}", self._page)
        made.router.add_get("/api/settings", self._settings)
        made.router.add_get("/api/groups", self._groups)
        made.router.add_get("/api/namespaces", self._namespaces)
        made.router.add_get("/api/group", self._group)
        made.router.add_get("/api/what-if", self._what_if)
        made.router.add_get("/api/rights", self._rights)
        made.router.add_post("/api/approve", self._approve)
        return made

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path != "/healthz":
                asked = request.headers
                check_source(asked.get("Host", ""), asked.get("Origin"), asked.get("Sec-Fetch-Site"), self._options.hosts)
            answer = await handler(request)
        except RefusedRequestError as error:
            answer = _refusal(error.status, str(error))
        except (click.BadParameter, NoAnswerError) as error:
            answer = _refusal(400, error.message if isinstance(error, click.BadParameter) else str(error))
        except ApiError as error:
            answer = _refusal(*self._refused(error))
        except UnavailableError as error:
            answer = _refusal(503, f"the API server does not answer: {error}")
        except web.HTTPException as error:
            answer = _refusal(error.status, error.reason)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _page(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("name", "index.html")
        if name == "healthz":
            return web.Response(text="ok\n")
        if name not in STATIC:
            raise RefusedRequestError(404, "there is no such page")
        return web.Response(body=self._pages[name], content_type=STATIC[name], charset="utf-8")

    async def _settings(self, _: web.Request) -> web.StreamResponse:
        options = self._options
        return web.json_response(
            {"signIn": self._viewers.token is None, "mayApprove": options.may_approve, "namespace": options.namespace}
        )

    async def _groups(self, request: web.Request) -> web.StreamResponse:
        namespace = request.query.get("namespace")
        return await self._stream(request, ("groups", *([NAMESPACE.convert(namespace, None, None)] if namespace else [])))

    async def _namespaces(self, request: web.Request) -> web.StreamResponse:
        async with self._viewers.of(request.headers.get("Authorization", "")) as viewer:
            found = await _readable_namespaces(viewer.api, self._options.namespace)
        return web.json_response({"namespaces": found})

    async def _group(self, request: web.Request) -> web.StreamResponse:
        return await self._stream(request, ("group", *_named(request.query)))

    async def _stream(self, request: web.Request, topic: Topic) -> web.StreamResponse:
        async with (
            self._viewers.of(request.headers.get("Authorization", "")) as viewer,
            self._feeds.open(viewer, topic) as feed,
        ):
            answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
            await answer.prepare(request)
            try:
                async for page in feed.messages():
                    text = f"event: page\nid: {time.time():.3f}\ndata: {page}\n\n" if page else ":\n\n"
                    async with asyncio.timeout(TAKEN_WITHIN):
                        await answer.write(text.encode())
                    await asyncio.sleep(PAUSE)
            except ApiError as error:
                status, why = self._refused(error)
                body = json.dumps({"status": status, "error": one_line(why, 600)})
                await answer.write(f"event: refused\ndata: {body}\n\n".encode())
            except (ConnectionError, TimeoutError):
                pass  # the viewer is gone
            return answer

    def _refused(self, error: ApiError) -> tuple[int, str]:
        """The status and message for the viewer. 401 means the viewer's own token, so a refused kubeconfig is a 502."""
        said = error.message or error.reason
        if error.status == 401 and self._viewers.token is not None:
            return (
                502,
                f"the API server rejects the credentials of your kubeconfig ({said}): renew them and restart the console",
            )
        if error.status == 401:
            return 401, "the token is expired or invalid; create another: kubectl create token NAME -n NAMESPACE"
        if error.status == FORBIDDEN:
            return FORBIDDEN, f"you lack a right: {said}; ask for it (the console's guide has the Roles)"
        return error.status, said

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        namespace, name = _named(request.query)
        pods = request.query.get("pods", "")
        if not (pods.isascii() and pods.isdigit() and len(pods) <= 6):
            raise RefusedRequestError(400, "pods is not a number")
        async with self._viewers.of(request.headers.get("Authorization", "")) as viewer:
            state, seen = await observe(viewer.api, namespace, name)
        made = await self._rehearsals.rehearse(f"{namespace}/{name}", state, seen, int(pods), time.time())
        return web.json_response(made)

    async def _rights(self, request: web.Request) -> web.StreamResponse:
        namespace, name = _named(request.query)
        async with self._viewers.of(request.headers.get("Authorization", "")) as viewer:
            allowed = self._options.may_approve and await may(viewer.api, "patch", _GROUPS, namespace, name)
        return web.json_response({"approve": allowed})

    async def _approve(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()  # before the viewer is opened: a slow sender with any token could keep others out
        async with self._viewers.of(request.headers.get("Authorization", "")) as viewer:
            if not self._options.may_approve:
                raise RefusedRequestError(403, "this console is read-only: start it with --allow-approve")
            said = _object(text)
            namespace, name = _named(said)
            proposal = said.get("proposal")
            if not isinstance(proposal, str) or not 0 < len(proposal) <= 64:
                raise RefusedRequestError(400, "proposal is not the id of a proposal")
            await approve_proposal(viewer.api, namespace, name, proposal)
        return web.json_response({"approved": proposal})


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise RefusedRequestError(400, "the request is not a JSON object")
    return said


def _named(said: Any) -> tuple[str, str]:
    """The namespace and name in a request."""
    return NAMESPACE.convert(str(said.get("namespace", "")), None, None), OBJECT.convert(str(said.get("name", "")), None, None)


async def _readable_namespaces(api: Api, shown_first: str | None) -> list[str]:
    """Namespaces whose groups this viewer may list: of all namespaces if the viewer may list them, otherwise of the one shown
    first and that of the viewer's service account."""
    names = {shown_first} if shown_first else set()
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    for ask in (
        partial(api.create, "/apis/authentication.k8s.io/v1/selfsubjectreviews", kind),
        partial(api.get, core_path(None, "namespaces"), limit=str(MOST_NAMESPACES)),
    ):
        try:
            found = await ask()
        except ApiError:
            continue
        user = str(((found.get("status") or {}).get("userInfo") or {}).get("username", ""))
        names |= {user.split(":")[2]} if user.startswith("system:serviceaccount:") and user.count(":") == 3 else set()
        names |= {str(one["metadata"]["name"]) for one in found.get("items", ())}
    sorted_names = sorted(names)[:MOST_NAMESPACES]
    allowed = await asyncio.gather(*(may(api, "list", _GROUPS, one) for one in sorted_names))
    return [one for one, may in zip(sorted_names, allowed, strict=True) if may]


def _refusal(status: int, why: str) -> web.Response:
    return web.json_response({"error": one_line(why, 600)}, status=status)

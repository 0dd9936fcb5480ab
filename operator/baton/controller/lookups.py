"""The operator's event loop looks hosts of queues up on threads of their own, which namespaces share.

A look-up holds its thread until the resolver gives up, 10 to 50 seconds where a zone's servers never answer, and anybody who may
make a queue may name such a host. What the operator itself looks up (the API server) does not wait behind that, nor do steps.
"""

import asyncio
import selectors
import socket
from typing import Any

from baton.controller.namespace_threads import NamespaceThreads
from baton.queues.lookup_namespace import NAMESPACE

THREADS = 64


class LookupLoop(asyncio.SelectorEventLoop):
    """An event loop whose host look-ups run on the threads of the namespace that asks."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._lookups = NamespaceThreads(THREADS, "lookup")

    async def getaddrinfo(self, host: Any, port: Any, **how: Any) -> Any:
        """Look a host up, with the arguments and the answer of asyncio's method."""
        namespace = NAMESPACE.get()
        if namespace is None:
            return await super().getaddrinfo(host, port, **how)
        return await asyncio.shield(await self._lookups.begin(namespace, 0, socket.getaddrinfo, host, port, **how))

"""The namespace for which a task connects to a queue's server: the event loop looks hosts up for it, in that one's turn."""

from contextvars import ContextVar

NAMESPACE: ContextVar[str | None] = ContextVar("baton_lookup_namespace", default=None)
"""None: for no namespace, or for the process itself."""

"""For whom a task connects to a queue's server: the operator's event loop looks hosts up for it, in its namespace's turn."""

from contextvars import ContextVar

NAMESPACE: ContextVar[str | None] = ContextVar("baton_asking_for", default=None)
"""None: for nobody, or for the process itself."""

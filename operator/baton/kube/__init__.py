"""Kubernetes at the edge: what is read from it and written to it. The rules are pure functions; only `api` speaks HTTP."""

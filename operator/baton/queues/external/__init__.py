"""Queues that Baton cannot reach."""

"""Queues in the memory of one process, as a kind. A test copies this folder to `baton/queues/toy`."""

"""Queues in the memory of one process, as a kind: what a test copies into `baton/queues/toy`."""

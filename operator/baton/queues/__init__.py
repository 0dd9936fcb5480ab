"""Kinds of queues, and the protocols by which the operator, consumers and producers use them."""

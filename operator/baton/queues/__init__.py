"""Queues, by kind: what the operator, a consumer and a producer ask of them."""

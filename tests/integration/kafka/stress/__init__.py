"""Owners of partitions as processes that are stopped, killed and started again under load, while their partitions are granted to
others: no stale commit is accepted, nothing is lost, and what comes again is marked."""

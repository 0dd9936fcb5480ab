"""Words of the resources that the engine goes by, too."""

from enum import StrEnum


class Protocol(StrEnum):
    """Whether a rebalance takes only what moves, or everything first (rule 4)."""

    COOPERATIVE = "Cooperative"
    EAGER = "Eager"


class Approval(StrEnum):
    """Whether a person has to approve that partitions are taken from who works on them."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class ScaleMode(StrEnum):
    """Who carries the desired size out: the operator at a workload, somebody else there, or the Spark driver."""

    WORKLOAD = "Workload"
    EXTERNAL = "External"
    SPARK = "Spark"


class ScaleSteps(StrEnum):
    """Which sizes a fleet takes."""

    EVERY = "Every"
    EVEN_SHARES = "EvenShares"

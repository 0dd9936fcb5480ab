"""The reasons of all events that the operator posts. docs/reference/events.md says of each what it means."""

from enum import StrEnum


class EventReason(StrEnum):
    """Besides these, a group has events with the reasons of its Ready condition (`baton.controller.problems`)."""

    HOLDDOWN = "Holddown"
    REBALANCING = "Rebalancing"
    READY = "Ready"
    PAUSED = "Paused"
    REVOKING = "Revoking"
    TURNED = "Turned"
    RELEASED = "Released"
    GONE = "Gone"
    DEADLINE_MISSED = "DeadlineMissed"
    GRANTED = "Granted"
    STANDS_BY = "StandsBy"
    FENCED = "Fenced"
    PROPOSED = "Proposed"
    APPROVED = "Approved"
    APPROVAL_REFUSED = "ApprovalRefused"
    WITHDRAWN = "Withdrawn"
    SCALED = "Scaled"
    RECOVERED = "Recovered"
    LEDGER_RESTORED = "LedgerRestored"
    LEDGER_REBUILT = "LedgerRebuilt"
    OWNERS_RESTORED = "OwnersRestored"
    NOT_RELEASED = "NotReleased"
    SERVED_ELSEWHERE = "ServedElsewhere"
    NO_SUCH_GROUP = "NoSuchGroup"
    NAME_TAKEN = "NameTaken"
    BAD_ANNOTATION = "BadAnnotation"

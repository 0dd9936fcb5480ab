"""How long a group that is being deleted waits for what is out of reach. Not for ever: its namespace may wait for it. Pure."""

from baton.controller.problems import is_gone

LISTS_WITHIN = 10.0
"""Seconds for which lists of what was never seen may be refused: a namespace that goes takes the operator's rights along."""

LEDGER_WITHIN = 10.0
"""Seconds for which writing the ledger may fail. Where nothing can be created in the namespace any more: none."""

QUEUES_WITHIN = 60.0
"""Seconds for which a queue may not answer."""

QUEUES_WITHIN_WITHOUT_LEDGER = 10.0
"""The same where no consumer is told anything any more."""


def can_forsake_ledger(refusal: Exception, lasted: float) -> bool:
    """Whether the group may end without its ledger. `lasted`: seconds for which writing it has failed."""
    return is_gone(refusal) or lasted >= LEDGER_WITHIN


def can_go_unseen(refused_for: float) -> bool:
    """Whether the group may end without what was never seen of its namespace. `refused_for`: seconds (`Relists.refused_for`)."""
    return refused_for >= LISTS_WITHIN


def patience(forsaken: bool) -> float:
    """Seconds for which a queue that does not answer is waited for. `forsaken`: the ledger is not written any more."""
    return QUEUES_WITHIN_WITHOUT_LEDGER if forsaken else QUEUES_WITHIN

"""The state machine of one group: observations and the time come in, effects go out.

Pure: it does no I/O, reads no clock and draws no random numbers. The operator, the simulation and the tests run the same code.
"Rule 5" and "ledger 2" in its comments are those of docs/concepts/rules.md.
"""

from baton.engine.ledger import dump, load
from baton.engine.results import Effect, Grant, Pause, State
from baton.engine.state import GroupState, PlanProblem
from baton.engine.state_machine import PartitionState, partition_state, partition_states
from baton.engine.step import Step, step
from baton.engine.summary import Summary, summary
from baton.model.ledger import LedgerError

__all__ = [
    "Effect",
    "Grant",
    "GroupState",
    "LedgerError",
    "PartitionState",
    "Pause",
    "PlanProblem",
    "State",
    "Step",
    "Summary",
    "dump",
    "load",
    "partition_state",
    "partition_states",
    "step",
    "summary",
]

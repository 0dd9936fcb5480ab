"""What a pod imports: which partitions are mine, a session with the operator, and a loop that reads and acknowledges.

from baton.consumer import Consumer

Consumer.from_environment().run(lambda entry: print(entry.key, entry.value))
"""

from baton.consumer.announcements import AnnouncedAssignments
from baton.consumer.assignment_source import Assignments, AssignmentSource
from baton.consumer.batch import Batch
from baton.consumer.consumer import Consumer
from baton.consumer.held_entry import HeldEntry
from baton.consumer.lease import LeaseStore
from baton.consumer.outcome import Reject, Retry
from baton.consumer.pod import Pod
from baton.consumer.session import Session
from baton.consumer.transaction import Transaction

__all__ = [
    "AnnouncedAssignments",
    "AssignmentSource",
    "Assignments",
    "Batch",
    "Consumer",
    "HeldEntry",
    "LeaseStore",
    "Pod",
    "Reject",
    "Retry",
    "Session",
    "Transaction",
]

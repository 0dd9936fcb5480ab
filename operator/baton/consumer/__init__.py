"""The consumer API for pods: the pod's partitions, its session with the operator, and a loop that reads and acknowledges.

```python
from baton.consumer import Consumer

Consumer.from_environment().run(lambda entry: print(entry.key, entry.value))
```
"""

from baton.consumer.assignments import AnnouncedAssignments, Assignments, AssignmentSource
from baton.consumer.consumer import Consumer
from baton.consumer.entry import Batch
from baton.consumer.entry import HeldEntry as Entry
from baton.consumer.external import ExternalConsumer, OwnedPartition
from baton.consumer.outcome import Backoff, HandlerTimeout, Reject, Retry
from baton.consumer.pod import Pod
from baton.consumer.session import LeaseStore, Session
from baton.consumer.transaction import Transaction

__all__ = [
    "AnnouncedAssignments",
    "AssignmentSource",
    "Assignments",
    "Backoff",
    "Batch",
    "Consumer",
    "Entry",
    "ExternalConsumer",
    "HandlerTimeout",
    "LeaseStore",
    "OwnedPartition",
    "Pod",
    "Reject",
    "Retry",
    "Session",
    "Transaction",
]

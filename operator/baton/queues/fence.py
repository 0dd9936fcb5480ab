"""A queue's refusals to a pod that is not, or not for much longer, the owner of a partition."""

from baton.queues.protocol import Ownership


class StaleOwner(Exception):  # noqa: N818 - a fact about the caller, in the fence's own word
    """The caller does not own the partition at that epoch, or no longer does. `record` is the current owner record.

    Do not retry: entries read under that epoch belong to another pod now.
    """

    def __init__(self, partition: int, uid: str, epoch: int, record: Ownership, *, other_process: bool = False) -> None:
        """`other_process`: uid and epoch are right, but a newer process with the same UID reads the partition now."""
        super().__init__(partition, uid, epoch, record)
        self.other_process = other_process
        self.partition = partition
        self.record = record
        self._asked = f"{uid} at epoch {epoch}"

    def __str__(self) -> str:
        if self.other_process:
            return (
                f"partition {self.partition} is read by a newer process with the same POD_UID; {self._asked} is refused: run one "
                "consumer in a pod, or give each the UID of its own pod"
            )
        owner = f"{self.record.uid or 'no pod'} at epoch {self.record.epoch}"
        return f"partition {self.partition} belongs to {owner}; {self._asked} is refused"


class PartitionPaused(Exception):  # noqa: N818 - likewise
    """The partition is about to change hands, so no new entries are handed out. Entries that were handed out may still be
    acknowledged or committed."""

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.partition = partition

    def __str__(self) -> str:
        return f"partition {self.partition} is paused: it is about to change hands"

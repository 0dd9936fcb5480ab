"""What `baton explain` says of one partition."""

import pytest

from baton.cli.group_view import look
from baton.cli.partition_history import PartitionHistory
from baton.cli.partition_view import PartitionLook
from baton.engine.partition_state import PartitionState
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.cli.test_status_screen import MANIFEST

FIVE = Partition(QueueName("orders"), 5)
A = MemberId("exec-a")


@pytest.mark.parametrize(
    ("record", "before", "said"),
    [
        # a move has begun, with an epoch of its own
        (PartitionRecord(Epoch(7), None, A, Epoch(4)), "exec-a", "Nobody owns it. exec-a had it last, at epoch 4."),
        (PartitionRecord(Epoch(4), None, A, Epoch(4)), None, "Nobody owns it. exec-a had it last, at epoch 4."),
        (PartitionRecord(Epoch(7), None, A), None, "Nobody owns it. exec-a had it last."),
        (PartitionRecord(Epoch(7), None, None), "exec-b", "Nobody owns it. exec-b had it last."),
        (PartitionRecord(Epoch(1), None, None), None, "Nobody owns it. Nobody ever had it."),
    ],
)
def test_who_had_it_last_is_told_with_the_epoch_of_that(record: PartitionRecord, before: str | None, said: str) -> None:
    history = PartitionHistory(before=before)
    one = PartitionLook(look(MANIFEST, {}, now=5.0), FIVE, record, PartitionState.UNASSIGNED, None, history)
    assert next(one.sentences()) == said

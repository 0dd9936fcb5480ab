"""What `baton explain` says of one partition."""

import pytest

from baton.cli.explain import PartitionHistory, PartitionLook
from baton.cli.group import look
from baton.cli.lag import read_group
from baton.engine.partition_state import PartitionState
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.cli.test_status_screen import MANIFEST

FIVE = Partition(QueueName("orders"), 5)
A = MemberId("exec-a")


def test_an_entry_that_was_handed_out_again_and_again_is_named() -> None:
    told = read_group({"namespace": "shop", "group": "orders", "unfinished": {"orders": {"5": ["17-0", 4]}}})
    record = PartitionRecord(Epoch(4), A, A, Epoch(4))
    seen = look(MANIFEST, {}, now=5.0)
    one = PartitionLook(seen, FIVE, record, PartitionState.READY, None, unfinished=told.unfinished[FIVE])
    assert [*one.sentences()][-1] == "Entry 17-0 was handed out 4 times and never acknowledged."
    assert one.to_json()["unfinished"] == {"offset": "17-0", "handedOut": 4}


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

"""`baton offsets`: targets of a reset, when a reset is refused, and a reset that is interrupted."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from baton.cli.cluster import NoAnswerError
from baton.cli.group import GroupLook
from baton.cli.main import main
from baton.cli.offsets import TARGET, OffsetChange, OffsetTarget, OutsideError, _set, why_not
from baton.engine import dump
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import QueueConflict, QueueUnreachable
from tests.unit.cli.test_status import MANIFEST, seen
from tests.unit.engine.group import Group

NOW = PartitionOffsets(10, 10, 20, 7, 2)
FIRST = Partition(QueueName("orders"), 0)


@pytest.mark.parametrize(
    ("text", "offset"), [("earliest", 10), ("latest", 20), ("10", 10), ("15", 15), ("20", 20), ("2026-11-26T12:00:00Z", 20)]
)
def test_a_target_is_an_offset_and_a_time_is_looked_for_up_to_the_end(text: str, offset: int) -> None:
    assert TARGET.convert(text, None, None).offset_in(NOW) == offset


@pytest.mark.parametrize(
    ("text", "entries"), [("earliest", 0), ("latest", 7), ("10", 0), ("15", None), ("20", 7), ("2026-11-26T12:00:00Z", None)]
)
def test_entries_are_looked_at_only_for_a_time_and_between_the_ends(text: str, entries: int | None) -> None:
    target = TARGET.convert(text, None, None)
    assert target.without_reading(NOW) == (None if entries is None else Reached(target.offset_in(NOW), entries))


@pytest.mark.parametrize("text", ["9", "21"])
def test_a_missing_offset_is_reported(text: str) -> None:
    with pytest.raises(OutsideError, match="has the offsets 10 to 20"):
        TARGET.convert(text, None, None).offset_in(NOW)


def test_a_time_has_its_zone() -> None:
    assert TARGET.convert("1970-01-01T01:00:01+01:00", None, None) == OffsetTarget("1970-01-01T01:00:01+01:00", since=1000)


@pytest.mark.parametrize("text", ["", "first", "-1", "2026-11-26T12:00:00", "1e9", "٣", "9" * 17, "0001-01-01T00:00:00+23:59"])
def test_an_invalid_target_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TARGET.convert(text, None, None)


@pytest.mark.parametrize("words", ["offsets", "offsets show"])
def test_offsets_are_shown_by_default(words: str) -> None:
    run = CliRunner(env={"KUBECONFIG": "/nowhere"}).invoke
    assert run(main, [*words.split(), "-n", "shop", "orders"]).output.startswith("baton offsets show: there is no kubeconfig")
    assert run(main, [*words.split(), "--slip"], prog_name="baton").output.startswith(
        "Usage: baton offsets show [OPTIONS] GROUP\n"
    )


def paused(group: Group, *, spec: bool = True, generation: int = 1) -> GroupLook:
    manifest = {**MANIFEST, "spec": {"queues": [{"name": "orders"}], "paused": spec}}
    manifest["metadata"] = {**MANIFEST["metadata"], "generation": generation}
    return seen(manifest, dump(group.state))


def test_offsets_are_set_only_in_a_paused_group_without_owners() -> None:
    owned = Group(4).start("a", "b")
    assert "not paused" in str(why_not(paused(owned, spec=False), [FIRST]))
    assert "no operator has seen yet" in str(why_not(paused(owned, generation=2), [FIRST]))
    assert "a may still work on these partitions" in str(why_not(paused(owned), [FIRST]))
    assert "has no partition orders/9 yet" in str(why_not(paused(owned), [Partition(QueueName("orders"), 9)]))
    assert "does not exist yet" in str(why_not(seen(MANIFEST, {}), [FIRST]))
    left = Group(4).start("a")
    left.state = replace(left.state, records={p: r._replace(owner=None) for p, r in left.state.records.items()})
    assert why_not(paused(left), [FIRST]) is None


def test_offsets_of_a_moving_partition_are_not_set() -> None:
    group = Group(4).start("a", "b")
    group.join("c").settle(100)
    group.settle(105)
    moving = sorted(group.state.moves)
    assert moving and "is being handed off" in str(why_not(paused(group), moving[:1]))


class EndsInTheMiddle:
    """Fails at partition 1."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem
        self.put: dict[int, tuple[Epoch, int]] = {}

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        if partition == 1:
            raise self._problem
        self.put[partition] = (epoch, offset)


@pytest.mark.parametrize("problem", [QueueConflict("orders/1 was granted"), QueueUnreachable("redis.shop:6379 does not answer")])
async def test_an_interrupted_reset_reports_how_many_partitions_are_set(problem: Exception) -> None:
    partitions = [Partition(QueueName("orders"), number) for number in range(3)]
    now = PartitionOffsets(10, 10, 20, 10, 0)
    changes = [OffsetChange(partition, now, Reached(20, 10)) for partition in partitions]
    seen: Any = SimpleNamespace(state=SimpleNamespace(records={one: SimpleNamespace(epoch=Epoch(7)) for one in partitions}))
    adapter: Any = EndsInTheMiddle(problem)
    with pytest.raises(NoAnswerError, match=f"^{problem}; 1 partition is set$"):
        await _set(adapter, seen, changes)
    assert adapter.put == {0: (7, 20)}

"""An owner that releases its partition hands it to the receiver directly, which reads on at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.announcements import KafkaAnnouncements
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import BY_GIVER, Record
from baton.queues.protocol import Heard, Ownership
from tests.integration.kafka.conftest import Queue
from tests.integration.kafka.reading import read_some
from tests.kafka_pod import shared
from tests.waiting import HOUR, PATIENCE, eventually

QUEUE = QueueName("orders")
FIRST = Partition(QUEUE, 0)
ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
B, C = Uid("b"), Uid("c")


class Pod:
    """A pod's process: its announcements and its reader."""

    def __init__(self, queue: Queue, uid: str) -> None:
        self.uid = Uid(uid)
        has = shared(queue.address, queue.group)
        self._announcements = KafkaAnnouncements(queue.address, queue.group, self.uid, *has)
        self.reader = KafkaReader(queue.address, queue.group, QUEUE, self.uid, *has)
        self.heard: dict[Partition, Heard] = {}
        self.ended = False
        self.token = (0, 0)
        """The token of its grant."""
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while not self.ended:
            self.heard |= await asyncio.to_thread(self._announcements.wait, HOUR)

    async def hears(self, test: Callable[[Heard], bool], partition: Partition = FIRST) -> None:
        async def so() -> bool:
            if self._listening.done():
                await self._listening
            return partition in self.heard and test(self.heard[partition])

        await eventually(so, "it is heard")

    async def looks_out(self) -> None:
        """Wait until it knows what it is about to receive."""

        async def so() -> bool:
            return FIRST in self._announcements._awaited

        await eventually(so, "the receiver looks out for it")

    async def reads(self, epoch: Epoch, count: int, partition: int = 0) -> list[Entry]:
        found: list[Entry] = []

        async def so() -> bool:
            if await asyncio.to_thread(self.reader.ready, partition, epoch):
                found.extend(await asyncio.to_thread(read_some, self.reader, partition, epoch, count - len(found)))
            return len(found) >= count

        await eventually(so, f"{count} entries are read")
        return found

    async def releases(self, epoch: Epoch, partition: int = 0) -> None:
        assert await asyncio.to_thread(self.reader.release, {partition: epoch}, PATIENCE) == {}

    async def finishes(self, epoch: Epoch, entries: list[Entry]) -> None:
        await asyncio.to_thread(self.reader.ack, 0, epoch, [one.offset for one in entries], soon=True)

    async def ends(self) -> None:
        self.ended = True
        self._announcements.interrupt()
        await asyncio.gather(self._listening, return_exceptions=True)
        await asyncio.to_thread(self._announcements.close)
        await asyncio.to_thread(self.reader.close)


MakePod = Callable[[str], Pod]


@pytest.fixture
async def pod(queue: Queue) -> AsyncIterator[MakePod]:
    """`pod("a")`: a process that is ended after the test."""
    made: list[Pod] = []

    def one(uid: str) -> Pod:
        made.append(Pod(queue, uid))
        return made[-1]

    yield one
    for each in made:
        await each.ends()


async def record(queue: Queue) -> Record:
    """Return the record once the commit under way has ended by itself."""
    found = (await queue.operator._transactions.stable(0)).record
    assert found is not None
    return found


async def begun(queue: Queue, pod: MakePod) -> tuple[Pod, list[Entry]]:
    """Pod a owns the first partition, and has read everything."""
    giver = pod("a")
    queue.send("1", "2", "3")
    await queue.operator.grant(0, giver.uid, ONE)
    await giver.hears(lambda heard: heard.uid == giver.uid)
    entries = await giver.reads(ONE, 3)
    giver.token = (await record(queue)).token
    return giver, entries


async def handed(queue: Queue, pod: MakePod) -> tuple[Pod, Pod]:
    """Hand the partition over without the operator. Return its giver and its receiver."""
    giver, entries = await begun(queue, pod)
    receiver = pod("b")
    await queue.operator.pause(0, ONE, PATIENCE, Ownership(receiver.uid, TWO))
    await giver.hears(lambda heard: heard.paused)
    await receiver.looks_out()
    await giver.finishes(ONE, entries)
    await giver.releases(ONE)
    await receiver.hears(lambda heard: (heard.uid, heard.epoch) == (receiver.uid, TWO))
    return giver, receiver


async def test_a_giver_that_finished_makes_the_grant_itself(queue: Queue, pod: MakePod) -> None:
    _, receiver = await handed(queue, pod)
    queue.send("4", "5")
    found = await receiver.reads(TWO, 2)
    assert [(one.value, one.redelivered) for one in found] == [(b"4", False), (b"5", False)]
    assert await queue.operator.outstanding(0) == Ownership(receiver.uid, TWO)
    assert await queue.operator.grant(0, receiver.uid, TWO) == (receiver.uid, TWO, False), "the operator sees it as its own"
    await receiver.finishes(TWO, found)
    await receiver.releases(TWO)
    assert await queue.committed() == 5


async def test_the_receivers_mark_and_token_follow_at_once(queue: Queue, pod: MakePod) -> None:
    giver, receiver = await handed(queue, pod)
    assert not await asyncio.to_thread(receiver.reader.read, 0, TWO)

    async def marked() -> bool:
        now = await record(queue)
        return now.uid == B and now.reader not in ("", BY_GIVER) and now.token != giver.token

    await eventually(marked, "the record has the receiver's own mark and token")
    with pytest.raises(StaleOwner):
        await asyncio.to_thread(giver.reader.read, 0, ONE)


async def test_a_process_started_since_marks_existing_entries_redelivered(queue: Queue, pod: MakePod) -> None:
    await handed(queue, pod)
    queue.send("4")
    again = pod("b")
    await again.hears(lambda heard: heard.uid == B)
    found = await again.reads(TWO, 1)
    assert [(one.value, one.redelivered) for one in found] == [(b"4", True)], "the first one may have had it in hand"
    assert not (await record(queue)).ends, "but did not even put its mark there: that is no try"


async def test_with_entries_in_hand_the_operator_makes_the_grant(queue: Queue, pod: MakePod) -> None:
    giver, entries = await begun(queue, pod)
    receiver = pod("b")
    await queue.operator.pause(0, ONE, PATIENCE, Ownership(B, TWO))
    await giver.hears(lambda heard: heard.paused)
    await receiver.looks_out()
    await giver.finishes(ONE, entries[:1])
    await giver.releases(ONE)
    assert (await record(queue)).uid == giver.uid
    assert await queue.operator.grant(0, B, TWO) == (B, TWO, False)
    found = await receiver.reads(TWO, 2)
    assert [(one.value, one.redelivered) for one in found] == [(b"2", True), (b"3", True)]


async def test_the_last_planned_receiver_counts(queue: Queue, pod: MakePod) -> None:
    giver, entries = await begun(queue, pod)
    await queue.operator.pause(0, ONE, PATIENCE, Ownership(B, TWO))
    await queue.operator.pause(0, ONE, PATIENCE, Ownership(C, TWO))
    receiver = pod("c")
    await giver.hears(lambda heard: heard.paused)
    await receiver.looks_out()
    await giver.finishes(ONE, entries)
    await giver.releases(ONE)
    assert await queue.operator.grant(0, C, TWO) == (C, TWO, False)
    assert (await record(queue)).uid == C


async def test_a_grant_before_the_owners_release_wins(queue: Queue, pod: MakePod) -> None:
    giver, entries = await begun(queue, pod)
    await queue.operator.pause(0, ONE, PATIENCE, Ownership(B, TWO))
    await giver.hears(lambda heard: heard.paused)
    assert await queue.operator.grant(0, C, THREE) == (C, THREE, False), "the deadline has passed, and all has changed"
    with suppress(StaleOwner):  # if its last look is a while ago
        await giver.finishes(ONE, entries)
    await giver.releases(ONE)
    assert ((await record(queue)).uid, await queue.committed()) == (C, 0), "the giver's last word is refused"


async def test_spec_changes_reach_the_record_only_through_the_operators_grant(queue: Queue, pod: MakePod) -> None:
    giver, entries = await begun(queue, pod)
    operator = queue.another(max_redeliveries=7)
    await operator.pause(0, ONE, PATIENCE, Ownership(B, TWO))
    await giver.hears(lambda heard: heard.paused)
    await giver.finishes(ONE, entries)
    await giver.releases(ONE)
    assert (await record(queue)).uid == giver.uid
    await operator.grant(0, B, TWO)
    assert (await record(queue)).most == 7


async def test_the_receiver_of_a_direct_hand_off_is_reported_once(queue: Queue, pod: MakePod) -> None:
    _, receiver = await handed(queue, pod)
    queue.send("4")
    await receiver.reads(TWO, 1)
    redirected = Ownership(C, THREE)
    assert await queue.operator.pause(0, ONE, PATIENCE, redirected) == Ownership(B, TWO), "the giver had not heard of it"

    async def nothing_is_left() -> bool:
        return await queue.operator.pause(0, ONE, PATIENCE, redirected) == 0

    await eventually(nothing_is_left, "no one waits for an owner unknown to the engine")
    assert await queue.operator.grant(0, C, THREE) == redirected
    found = await pod("c").reads(THREE, 1)
    assert [(one.value, one.redelivered) for one in found] == [(b"4", True)], "it may have been handed out"


async def test_a_grant_does_not_overwrite_an_unreported_direct_hand_off(queue: Queue, pod: MakePod) -> None:
    await handed(queue, pod)
    assert await queue.operator.grant(0, C, THREE) == Ownership(B, TWO), "B is to release it first"
    assert await queue.operator.grant(0, C, THREE) == Ownership(C, THREE), "who knows that grants all the same"
    assert await queue.operator.grant(0, B, Epoch(4)) == Ownership(B, Epoch(4)), (
        "and of what it granted itself it need not be told"
    )


async def test_a_new_operator_learns_of_a_direct_hand_off(queue: Queue, pod: MakePod) -> None:
    await handed(queue, pod)
    assert await queue.another().grant(0, C, THREE) == Ownership(B, TWO)

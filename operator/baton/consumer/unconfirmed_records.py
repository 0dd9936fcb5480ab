"""What a pod's queues say, put together with what its ledger says. Which of them is newer is told by epochs, which only grow, and
by no clock. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry, flat
from baton.queues.protocol import Heard

Records = Mapping[Partition, Heard]


def unconfirmed(records: Records, told: MemberEntry | None, uid: Uid) -> Records:
    """Those of which the ledger does not know yet.

    A partition that it does not name at all has not been told yet, or was taken away since: whoever asks the queue again will
    see. Of one that it names the higher epoch counts; at the same one, a partition that is being called back stays called back.
    """
    owned, named = dict(flat(told.owned)) if told else {}, _named(told)

    def is_news(partition: Partition, record: Heard) -> bool:
        epoch = named.get(partition)
        if epoch is None:
            return record.uid == uid
        return record.epoch > epoch or (record.epoch == epoch and record.paused and partition in owned)

    return {partition: record for partition, record in records.items() if is_news(partition, record)}


def remembered(records: Records, news: Records, told: MemberEntry | None) -> Records:
    """Those that are `unconfirmed`, and those of which the ledger says nothing: an older one may come before one that does."""
    named = _named(told)
    return {partition: record for partition, record in records.items() if partition in news or partition not in named}


def merged(told: MemberEntry, records: Records, uid: Uid) -> MemberEntry:
    """The ledger's entry as these records correct it."""
    owned: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.owned.items()}
    revoking: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.revoking.items()}
    for (queue, number), record in records.items():
        for named in (owned, revoking):
            named.get(queue, {}).pop(number, None)
        if record.uid == uid:
            (revoking if record.paused else owned).setdefault(queue, {})[number] = record.epoch
    return replace(told, owned=owned, revoking=revoking)


def _named(told: MemberEntry | None) -> dict[Partition, Epoch]:
    """Of each partition that the ledger names."""
    return {} if told is None else dict(flat(told.revoking)) | dict(flat(told.owned))

"""Whose a group of Kafka is: one ConsumerGroup's, and there each topic is one queue's. Pure.

By the records of the group pods find the topic of their queue: so a record of somebody else is refused in any topic.
"""

from baton.queues.kafka.record import Record
from baton.queues.protocol import Claimant, QueueConflict


def refuse_others(record: Record | None, us: Claimant, queue: str, place: str, topic: str, *, same_topic: bool) -> None:
    """Raises QueueConflict where the record is another ConsumerGroup's, or another queue of this one has the topic. `queue`: that
    is opened. `place`: the group and where it is, for messages. `topic`: the record's. `same_topic`: it is the queue's, too."""
    if record is None or not record.group:
        return
    if record.group != us.uid and record.group not in us.takes_over:
        namespace, _, name = us.group.partition("/")
        raise QueueConflict(
            f"{place} belongs to another ConsumerGroup (uid {record.group}), for the topic {topic}: delete that one, or make "
            f"queue {queue} with another spec.source.kafka.groupId. If it is gone for good, or a tool has copied its "
            f"offsets, take them over: kubectl annotate consumergroup {name} -n {namespace} --overwrite "
            f"baton.dev/take-over={record.group}"
        )
    second = same_topic and record.group == us.uid and record.queue != queue
    if second and us.uid not in us.takes_over:
        raise QueueConflict(
            f"{place} reads the topic {topic} for the queue {record.queue}: take one of the two out of the ConsumerGroup's "
            f"spec.queues, or make queue {queue} with another spec.source.kafka.groupId; if the queue {record.queue} is gone, "
            f"say so by the annotation baton.dev/take-over with the ConsumerGroup's own uid, {us.uid}"
        )

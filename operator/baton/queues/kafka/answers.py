"""What a broker's error codes mean, and what helps."""

from confluent_kafka import KafkaError as Code

from baton.queues.protocol import QueueUnreachable

PASSING = frozenset(
    {
        Code.UNKNOWN,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_FOR_PARTITION,
    }
)
"""Over in a moment: asked again. UNKNOWN may be the answer to an EndTxn that meets an init: the next one says what came of it."""
STALE = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_ID_MAPPING, Code.PRODUCER_FENCED})
"""Another token is in force."""


NONE_ANSWERS = "see whether its brokers run, and whether their disks have room"
"""What helps where none answers: a broker ends itself whose disk is full."""


TRANSACTIONS_TOOL = "kafka-transactions.sh"


class StaleToken(Exception):  # noqa: N818 - a fact about the caller
    """The token is not the latest of its transactional id."""


def said(code: int) -> str:
    """Its name."""
    return Code(code).name()


def refused(
    place: str, what: str, code: int, *, who: str, topic: str, group: str, transactional_id: str = ""
) -> QueueUnreachable:
    """A sentence with the cure."""
    match code:
        case Code.UNKNOWN_TOPIC_OR_PART:
            why = f"there is no topic {topic}, or {who} may not see it: create it, or correct spec.source.kafka.topic"
        case Code.TOPIC_AUTHORIZATION_FAILED:
            why = f"{who} may not READ the topic {topic}: allow it by an ACL"
        case Code.GROUP_AUTHORIZATION_FAILED:
            why = f"{who} may not READ the group {group}: allow it by an ACL"
        case Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            why = f"{who} may not WRITE the transactional id {transactional_id}: allow it by a prefixed ACL on baton.{group}/"
        case Code.CLUSTER_AUTHORIZATION_FAILED:
            why = f"{who} may not do it: {said(code)}"
        case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
            why = (
                f"{what} was answered by {said(code)}: the broker that keeps the place of the group {group} is away, or fewer "
                "replicas of __consumer_offsets or __transaction_state are in sync than min.insync.replicas: see whether all "
                "brokers run; where they do, it could not read that place, as its log says: start it again"
            )
        case Code.COORDINATOR_LOAD_IN_PROGRESS:
            why = f"the broker that keeps the place of the group {group} still reads it: wait, and see whether it has enough disk"
        case Code.LEADER_NOT_AVAILABLE | Code.NOT_LEADER_FOR_PARTITION:
            why = f"a partition of {topic} has no leader: see whether all brokers run"
        case Code.KAFKA_STORAGE_ERROR:
            why = f"{what} was answered by {said(code)}: a broker's disk is full or broken: see to it, and start the broker again"
        case Code.UNSTABLE_OFFSET_COMMIT:
            why = who_holds_the_place(group, topic)
        case _:
            why = f"{what} was answered by {said(code)}"
    return QueueUnreachable(f"{place}: {why}")


def who_holds_the_place(group: str, topic: str, partitions: str = "") -> str:
    """A sentence with the cure. `partitions`: in which; empty: in one."""
    where = f"partitions {partitions} of {topic}" if partitions else topic
    return (
        f"somebody else's transaction is open over the place of the group {group} in {where}: until it ends nobody can take the "
        f"partition up, and what it has committed then counts. {TRANSACTIONS_TOOL} list says whose it is (Ongoing, and not "
        f"baton.…): let that program end it, or end it by {TRANSACTIONS_TOOL} forceTerminateTransaction --transactionalId, and "
        "see who may READ the group"
    )

"""What a broker's error codes mean, and what helps."""

from enum import IntEnum

from baton.queues.protocol import QueueUnreachable


class Code(IntEnum):
    """Those that are told apart here (org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    """Also of an EndTxn that meets an init of the same transactional id: the next answer says what came of it."""
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    """Also where it was not to be learned in time whether a transaction has a partition."""
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90


PASSING = frozenset(
    {
        Code.UNKNOWN_SERVER_ERROR,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Over in a moment: asked again."""
STALE = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_ID_MAPPING, Code.PRODUCER_FENCED})
"""Another token is in force."""


NONE_ANSWERS = "see whether its brokers run, and whether their disks have room"
"""What helps where none answers: a broker ends itself whose disk is full."""


TRANSACTIONS_TOOL = "kafka-transactions.sh"


class StaleToken(Exception):  # noqa: N818 - a fact about the caller
    """The token is not the latest of its transactional id."""


def said(code: int) -> str:
    """Its name, where it has one here."""
    try:
        return Code(code).name
    except ValueError:
        return f"error {code} of Kafka's protocol"


def refused(
    place: str, what: str, code: int, *, who: str, topic: str, group: str, transactional_id: str = ""
) -> QueueUnreachable:
    """A sentence with the cure."""
    match code:
        case Code.UNKNOWN_TOPIC_OR_PARTITION:
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
        case Code.LEADER_NOT_AVAILABLE | Code.NOT_LEADER_OR_FOLLOWER:
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

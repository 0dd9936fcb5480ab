"""Requests of Kafka's protocol that aiokafka has no classes for, or not in the version that the fence needs."""

from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

_TEXT = CompactString("utf-8")


class TopicId(AbstractType):  # type: ignore[misc] # aiokafka is not typed
    """Sixteen bytes, as hexadecimal digits."""

    @classmethod
    def encode(cls, value: str) -> bytes:
        return bytes.fromhex(value)

    @classmethod
    def decode(cls, data: Any) -> str:
        return str(data.read(16).hex())


NO_TOPIC_ID = "0" * 32


class OffsetFetchResponseV7(Response):  # type: ignore[misc] # aiokafka is not typed
    """What a group has committed."""

    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _TEXT),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class OffsetFetchRequestV7(RequestStruct):  # type: ignore[misc] # likewise
    """The first version that can ask for stable offsets: not those before a commit that is under way."""

    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 7
    RESPONSE_TYPE = OffsetFetchResponseV7
    SCHEMA = Schema(
        ("group", _TEXT),
        ("topics", CompactArray(("name", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class CommittedOffsets(Request[OffsetFetchRequestV7]):  # type: ignore[misc] # likewise
    """Of a group: of some partitions of a topic, or of all that it has."""

    API_KEY = 9

    def __init__(
        self, group: str, topic: str | None = None, partitions: tuple[int, ...] = (), *, beside_pending: bool = False
    ) -> None:
        """`beside_pending`: also of those of which a commit is under way: what is committed before it."""
        self._group = group
        self._beside_pending = beside_pending
        self._topics: Any = None if topic is None else [(topic, list(partitions), {})]

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(self._group, self._topics, not self._beside_pending, {})


class MetadataResponseV12(Response):  # type: ignore[misc] # likewise
    """A topic, with its id."""

    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(("id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields))),
        ("cluster_id", _TEXT),
        ("controller", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("id", TopicId),
                ("internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("number", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataRequestV12(RequestStruct):  # type: ignore[misc] # likewise
    """Of a topic."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = MetadataResponseV12
    SCHEMA = Schema(
        ("topics", CompactArray(("id", TopicId), ("name", _TEXT), ("tags", TaggedFields))),
        ("make", Boolean),
        ("operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicMetadata(Request[MetadataRequestV12]):  # type: ignore[misc] # likewise
    """Of one topic, by its name; it is not made."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([(NO_TOPIC_ID, self._topic, {})], False, False, {})


_ASSIGNMENT = Schema(
    (
        "partitions",
        CompactArray(("id", TopicId), ("name", _TEXT), ("numbers", CompactArray(Int32)), ("tags", TaggedFields)),
    ),
    ("tags", TaggedFields),
)


class ConsumerGroupDescribeResponseV0(Response):  # type: ignore[misc] # likewise
    """A group of the protocol of KIP-848."""

    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("id", _TEXT),
                ("state", _TEXT),
                ("epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor", _TEXT),
                (
                    "members",
                    CompactArray(
                        ("id", _TEXT),
                        ("instance", _TEXT),
                        ("rack", _TEXT),
                        ("epoch", Int32),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("topics", CompactArray(_TEXT)),
                        ("topic_pattern", _TEXT),
                        ("assignment", _ASSIGNMENT),
                        ("target", _ASSIGNMENT),
                        ("tags", TaggedFields),
                    ),
                ),
                ("operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class ConsumerGroupDescribeRequestV0(RequestStruct):  # type: ignore[misc] # likewise
    """Of one group."""

    FLEXIBLE_VERSION = True
    API_KEY = 69
    API_VERSION = 0
    RESPONSE_TYPE = ConsumerGroupDescribeResponseV0
    SCHEMA = Schema(("groups", CompactArray(_TEXT)), ("operations", Boolean), ("tags", TaggedFields))


class ConsumerGroupMembers(Request[ConsumerGroupDescribeRequestV0]):  # type: ignore[misc] # likewise
    """Who is in a group of the protocol of KIP-848."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([self._group], False, {})

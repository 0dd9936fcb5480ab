# ruff: noqa: E501 -- a line of source is quoted as it stands
"""What a pod reads of a topic of Kafka, and where that fails: its rules, each broken in one place."""

from tests.mutation.mutation import Mutation

_KAFKA = "queues/kafka/"
_LETTERS = "unit/queues/kafka/test_dead_letters.py"

KAFKA_READING = (
    Mutation("dead letters", "wait for a topic that takes none with each of them", _KAFKA + "dead_letters.py", _LETTERS, "            if last is not None and time.monotonic() < last.until:", "            if False:"),
    Mutation("dead letters", "try a topic that takes none every half second", _KAFKA + "dead_letters.py", _LETTERS, "2 * last.pause if last else _FIRST_PAUSE", "_FIRST_PAUSE"),
    Mutation("dead letters", "try without end though each try takes long", _KAFKA + "dead_letters.py", _LETTERS, ", _A_PART * (now - begun))", ", 0.0)"),
    Mutation("dead letters", "refuse others for one that is too large", _KAFKA + "dead_letters.py", _LETTERS, "            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:", "            if True:"),
)  # fmt: skip

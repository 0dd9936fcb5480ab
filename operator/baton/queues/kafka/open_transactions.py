"""Transactions of others that nobody ends: what is behind one is read by nobody, and a place that one is over nobody knows."""

import time
from collections.abc import Collection, Mapping

from baton.model.ranges import format_numbers
from baton.queues.kafka.answers import TRANSACTIONS_TOOL as TOOL
from baton.queues.kafka.answers import who_holds_the_place
from baton.queues.kafka.client import KafkaClient

_LONG = 60.0
"""Seconds: a transaction of Kafka's own producers is aborted by then, unless they are told otherwise (transaction.timeout.ms)."""


class OpenTransactions:
    """Of one topic, and of one group's place in it."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._begun: dict[int, tuple[int, float]] = {}
        """By partition whose log goes on behind an open transaction: where that begins, and since when it is seen (monotonic)."""
        self._over_place: Collection[int] = ()

    def saw(self, ends: Mapping[int, int], last: Mapping[int, int], over_place: Collection[int]) -> None:
        """`ends`: where each partition ends for who reads committed messages. `last`: where it does. `over_place`: partitions of
        whose place a commit is under way that is none of Baton's."""
        now = time.monotonic()
        found = {number: end for number, end in ends.items() if last.get(number, end) > end}
        before = {number: one for number, one in self._begun.items() if found.get(number) == one[0]}
        self._begun = {number: (end, now) for number, end in found.items()} | before
        self._over_place = over_place

    def warnings(self) -> tuple[str, ...]:
        """Those that are open for long."""
        cluster, topic, said = self._client.address.place, self._topic, []
        since = time.monotonic() - _LONG
        if long := {number: begin for number, (begin, seen) in sorted(self._begun.items()) if seen <= since}:
            number, begin = next(iter(long.items()))
            said.append(
                f"{cluster}: a producer has had a transaction open for more than {_LONG:.0f} s in partitions "
                f"{format_numbers(long)} of {topic} (in {number} since offset {begin}). What was sent behind its beginning is "
                "not read by anybody who reads committed messages, and counts as no lag, until it ends: "
                f"{TOOL} describe-producers --topic {topic} --partition {number} says its ProducerId, and {TOOL} list whose that "
                f"is. Let that program end it, or end it by {TOOL} forceTerminateTransaction --transactionalId; where nobody has "
                f"that id, by {TOOL} abort --topic {topic} --partition {number} --start-offset {begin}"
            )
        if self._over_place:
            said.append(f"{cluster}: {who_holds_the_place(self._client.group, topic, format_numbers(self._over_place))}")
        return tuple(said)

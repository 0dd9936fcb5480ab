"""What the producers for threads and for tasks share: arguments, deliveries, requests, and the meaning of their answers."""

import logging
from collections.abc import Callable, Iterable, Sequence
from inspect import CO_COROUTINE, iscoroutinefunction
from math import inf
from re import ASCII, fullmatch
from secrets import token_hex
from types import MethodType
from typing import Any, Self

from redis.exceptions import NoScriptError, RedisError

from baton.model.options import function, number, whole
from baton.model.wording import counted
from baton.queues.producer_side import Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import Command
from baton.queues.redis.explanations import absent, explain, passing
from baton.queues.redis.headers import pack, utf8
from baton.queues.redis.keys import entry_id, partition_keys, queue_key
from baton.queues.redis.outbox import Failed, Outbox, OutgoingEntry, Round, to_partition
from baton.queues.redis.records import ForeignRecord, OddAnswerError, fields
from baton.queues.redis.routing import RoutingTable, slot_of
from baton.queues.redis.url import RedisUrl, read

MOST_BYTES = 64 * 2**20
"""Limit of an entry. Readers get an entry as a whole, and copying one of this size blocks the server for half a second. Redis
would accept eight times as much, which could not be read in time."""


def _named(queue: str) -> str:
    """Check a queue's name. Raises ValueError without a namespace, as producers would wait for such a queue to be created, and
    TypeError unless it is a str."""
    if not isinstance(queue, str):
        raise TypeError(f"the queue is {queue!r}: give its name as a text, such as 'shop/orders'")
    namespace, slash, name = queue.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"the queue is {queue!r}: name it with its namespace, as in shop/orders")
    return queue


def waiting_entry(
    key: Key,
    value: bytes | str,
    headers: Headers | None,
    partition: int | None,
    deadline: float,
    *,
    due: float = -inf,
    listener: Callable[[], object] | None = None,
) -> OutgoingEntry:
    """Check the arguments of a send. Raises TypeError and ValueError."""
    coded = b"" if key is None else _bytes(key, "key")
    if partition is not None:
        if not isinstance(partition, int) or partition < 0:
            raise ValueError(f"a partition is a number from 0, not {partition!r}")
        slot: int | None = to_partition(partition)
    else:
        slot = None if key is None else slot_of(coded)
    payload, packed = _bytes(value, "value"), pack(headers) if headers else b""
    if (size := len(coded) + len(payload) + len(packed)) > MOST_BYTES:
        raise ValueError(
            f"an entry has at most {MOST_BYTES:,} bytes of key, value and headers, not {size:,}: store larger data elsewhere, "
            "and send a reference to it"
        )
    return OutgoingEntry(slot, coded, payload, packed, deadline, due=due, listener=listener)


def waiting_entries(entries: Iterable[Given], deadline: float) -> list[OutgoingEntry]:
    """Check the arguments of `send_many`. Raises TypeError and ValueError."""
    return [waiting_entry(*_parts(entry), None, deadline) for entry in entries]


def _parts(entry: object) -> tuple[Key, bytes | str, Headers | None]:
    if not isinstance(entry, (tuple, list)):
        raise TypeError(f"an entry is (key, value) or (key, value, headers), not {type(entry).__name__}")
    if not 2 <= len(entry) <= 3:
        raise TypeError(f"an entry is key, value and headers, not {counted(len(entry), 'thing')}")
    return entry[0], entry[1], entry[2] if len(entry) == 3 else None


def _bytes(text: bytes | str, what: str) -> bytes:
    if isinstance(text, str):
        return utf8(text, what)
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")


log = logging.getLogger(__name__)

_MOST = 1000
"""Unseen failures that are kept; further ones are only counted."""


class SendOutcome:
    """The part that deliveries for threads and for tasks share."""

    def __init__(self, unseen: "UnseenFailures", on_delivery: "Callable[[Any], object] | None") -> None:
        self.entry: OutgoingEntry
        self.seen = False
        self._unseen = unseen
        self._callbacks: list[Callable[[Any], object]] = []
        if on_delivery is not None:
            _check_takes_delivery("on_delivery", on_delivery)
            self._callbacks.append(on_delivery)

    def done(self) -> bool:
        """Return whether the outcome is known, so that `result` returns at once."""
        return self.entry.outcome is not None

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call `callback` with the delivery once the outcome is known; at once if it is known already. Its exceptions are logged.
        Raises TypeError unless it is a plain function of one argument."""
        _check_takes_delivery("callback", callback)
        self._callbacks.append(callback)
        if self.done():
            self._call_back()

    def settled(self) -> None:
        """Run callbacks and note an unseen failure, when the outcome is known. Calling it again has no further effect."""
        if self._callbacks:
            self._call_back()
        if not self.seen and isinstance(self.entry.outcome, Failed):
            self._unseen.add(self)

    def _call_back(self) -> None:
        """Call each callback once, even if several threads do this."""
        self.seen = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:
                log.exception("a callback for an entry that was sent has failed")

    def known(self) -> Sent:
        """Return or raise the outcome, which must be known."""
        self.seen = True
        assert self.entry.outcome is not None
        return sent(self.entry.outcome)


class UnseenFailures:
    """Failed entries whose outcome the program has not looked at."""

    def __init__(self) -> None:
        self._failed: dict[SendOutcome, None] = {}
        self._more = 0

    def add(self, outcome: SendOutcome) -> None:
        if len(self._failed) >= _MOST:
            self._failed = {each: None for each in self._failed if not each.seen}
        if len(self._failed) < _MOST:
            self._failed[outcome] = None
        else:
            self._more += 1

    def report(self) -> str | None:
        """Return a sentence about them and forget them; None if there are no such entries."""
        failed, self._failed = self._failed, {}
        found = [each for each in failed if not each.seen]
        count, self._more = len(found) + self._more, 0
        if not count:
            return None
        first = found[0].entry.outcome if found else None
        why = f" The first: {first.why}" if isinstance(first, Failed) else ""
        return f"{counted(count, 'entry', 'entries')} of produce() may not be in the queue.{why}"


def _check_takes_delivery(name: str, value: Any) -> None:
    """Raises TypeError unless `value` is a plain function of one argument. The usual case skips `inspect`, which takes longer
    than a send."""
    code = getattr(value, "__code__", None)
    arguments = 2 if isinstance(value, MethodType) else 1
    if code is None or code.co_argcount != arguments or code.co_kwonlyargcount or code.co_flags & CO_COROUTINE:
        function(name, value, "delivery")
        if iscoroutinefunction(value):
            raise TypeError(f"{name} is {value!r}, which is called and not awaited: give a plain function")


def sent(outcome: Sent | Failed) -> Sent:
    """Return an outcome, or raise its error."""
    if isinstance(outcome, Sent):
        return outcome
    raise outcome.error(outcome.why)


def all_sent(entries: Iterable[OutgoingEntry]) -> list[Sent]:
    """Return the outcomes. Raises QueueUnreachable, with the number of entries that may not have been sent."""
    found: list[Sent] = []
    failed: list[Failed] = []
    for entry in entries:
        if isinstance(entry.outcome, Sent):
            found.append(entry.outcome)
        elif entry.outcome is not None:
            failed.append(entry.outcome)
    if not failed:
        return found
    first = failed[0]
    if first.error is not QueueUnreachable:
        raise first.error(first.why)
    raise QueueUnreachable(f"{first.why} {counted(len(failed), 'entry', 'entries')} may not have been sent.")


_REPLICAS_WITHIN = 1000
"""Milliseconds to wait for replicas before the request is repeated."""
_BY_SHA = (b"EVALSHA", scripts.ADD.sha.encode())


class AddScript:
    """Adds entries to one queue."""

    def __init__(self, url: RedisUrl, queue: str, replicas: int) -> None:
        """`replicas`: number of replicas that must have an entry before it counts as sent."""
        self._url, self._queue, self._replicas = url, queue, replicas
        self._heads: dict[int, Sequence[bytes]] = {}
        """By partition, the beginning of its requests. Encoded, as encoding it each time takes the library as long as everything
        else."""
        self._loaded = True
        """Whether the server is assumed to know the script. Otherwise requests carry its text."""
        self._logged = False

    def request(self, what: Round | None) -> Sequence[Command]:
        """Return the commands for a result of `Outbox.next`: one script for each partition."""
        if what is None:
            return [("HMGET", queue_key(self._queue), "version", "table")]
        commands = [self._script(partition, batch) for partition, batch in what.items()]
        if self._replicas:
            commands.append(("WAIT", self._replicas, _REPLICAS_WITHIN))
        return commands

    def answered(self, outbox: Outbox, what: Round | None, answers: Sequence[object] | Exception, now: float) -> None:
        """Pass the answers to the outbox. `answers` is a RedisError or OSError if none came."""
        if isinstance(answers, Exception):
            answers = [answers] * (1 if what is None else len(what))
        if what is None:
            self._routed(outbox, answers[0], now)
            return
        by_sha, self._loaded = self._loaded, not any(isinstance(answer, NoScriptError) for answer in answers)
        if len(answers) > len(what) and (why := self._too_few(answers[-1])):
            for partition in what:
                outbox.failed(partition, self._waits(why), now, passing=True)
        else:
            if not any(isinstance(answer, Exception) for answer in answers):
                self._logged = False
            for partition, answer in zip(what, answers, strict=False):
                try:
                    outbox.answered(partition, *_read(answer, len(what[partition])), now)
                except (RedisError, OSError) as error:
                    why, again = explain(error, self._url, self._queue), passing(error)
                    if by_sha and isinstance(error, NoScriptError):
                        outbox.repeat(partition)
                    else:
                        outbox.failed(partition, self._waits(why) if again else why, now, passing=again)

    def _routed(self, outbox: Outbox, answer: object, now: float) -> None:
        """Pass the answer with the routing table to the outbox."""
        try:
            version, text = fields(2)(_accepted(answer))
            if version is None or text is None:
                outbox.routed(None, self._waits(absent(self._url, "queue", self._queue)), now)
                return
            table = RoutingTable.from_text(int(version), text.decode())
        except (RedisError, OSError) as error:
            why = explain(error, self._url, self._queue)
            if passing(error):
                outbox.routed(None, self._waits(why), now)
            else:
                outbox.give_up(list(outbox.open), why)
        except ValueError:
            outbox.give_up(list(outbox.open), explain(ForeignRecord("table"), self._url, self._queue))
        else:
            outbox.routed(table, "", now)

    def _waits(self, why: str) -> str:
        """Log that entries wait and why, once until some are accepted. Returns the reason."""
        if not self._logged:
            log.warning("Entries to %s wait. %s", self._queue, why)
        self._logged = True
        return why

    def _script(self, partition: int, batch: Sequence[OutgoingEntry]) -> Command:
        if (head := self._heads.get(partition)) is None:
            keys = partition_keys(self._queue, partition)
            head = self._heads[partition] = [str(word).encode() for word in (len(keys), *keys)]
        how = _BY_SHA if self._loaded else (b"EVAL", scripts.ADD.text)
        words: list[bytes | str | int] = [*how, *head, batch[0].producer]
        for entry in batch:
            words += (entry.slot or 0, entry.sequence, entry.key, entry.value, entry.headers)
        return words

    def _too_few(self, answer: object) -> str | None:
        if isinstance(answer, Exception):
            return explain(answer, self._url, self._queue)
        if isinstance(answer, int) and answer >= self._replicas:
            return None
        return (
            f"{self._url.place} has the entries sent to {self._queue}, but only {answer} of {self._replicas} replicas had them "
            f"within {_REPLICAS_WITHIN} ms. Check its replicas, or ask for fewer (replicas=)."
        )


def _accepted(answer: object) -> object:
    """Return the answer, or raise it if it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def _read(answer: object, count: int) -> tuple[str, list[str]]:
    """Parse an answer of the script add into its codes and offsets."""
    if isinstance(answer, int):
        return "a" * count, [entry_id(number) for number in range(answer, answer + count)]
    codes, numbers = ((part or b"").decode("latin-1") for part in fields(2)(_accepted(answer)))
    if len(codes) != count or not fullmatch(r"[asdmw]*", codes) or not fullmatch(r"[0-9 ]*", numbers, ASCII):
        raise OddAnswerError("no codes where they belong")
    offsets = [entry_id(int(number)) for number in numbers.split()]
    if len(offsets) != codes.count("a"):
        raise OddAnswerError("another count of numbers than of added entries")
    return codes, offsets


class Sending:
    """The part that producers for threads and for tasks share."""

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        patience: float = 30.0,
        linger: float = 0.005,
        max_entries: int = 1000,
        max_bytes: int = 1_000_000,
        buffer_bytes: int = 32_000_000,
        replicas: int = 0,
    ) -> None:
        """`patience`: seconds to retry an entry while the server is down or full, or the queue does not exist yet.

        `linger`, `max_entries`, `max_bytes`: produced entries are sent after `linger` seconds, or once they reach one of the
        limits. `buffer_bytes`: limit of waiting entries, beyond which `produce` waits for room. `replicas`: number of replicas
        that must have an entry (WAIT) before it counts as sent. Raises TypeError and ValueError for invalid arguments.
        """
        number("patience", patience, 0.001)
        number("linger", linger, 0)
        whole("max_entries", max_entries, 1)
        number("max_bytes", max_bytes, 1)
        number("buffer_bytes", buffer_bytes, 1)
        whole("replicas", replicas, 0)
        self._patience, self._linger, self._buffer_bytes = patience, linger, buffer_bytes
        self._most = max_entries, max_bytes
        self._queue = _named(queue)
        self._url = read(url, own=True)
        self._adding = AddScript(self._url, queue, replicas)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """Start under a unique name: the queue treats entries with the same name and sequence as one entry, even from two
        processes."""
        self._outbox = Outbox(self._queue, token_hex(6), *self._most)
        self._unseen = UnseenFailures()

    def _room(self, entry: OutgoingEntry) -> bool:
        """Whether the buffer has room for the entry. An empty buffer accepts an entry of any size."""
        return not self._outbox.open or self._outbox.bytes + entry.size <= self._buffer_bytes

    def _full(self, why: str) -> QueueUnreachable:
        full = f"The producer's buffer is full ({self._buffer_bytes:,} bytes), and had no room for {self._patience:g} s."
        return QueueUnreachable(f"{why} {full}")

    def _report(self, waiting: Iterable[OutgoingEntry] = (), within: float | None = None) -> None:
        """Raises QueueUnreachable if some of these entries still wait after `within` seconds, or if there are unseen failures."""
        if left := sum(entry.outcome is None for entry in waiting):
            wait = "waits" if left == 1 else "wait"
            entries = counted(left, "entry", "entries")
            raise QueueUnreachable(f"{self._url.place}: {entries} to {self._queue} still {wait} after {within:g} s.")
        if why := self._unseen.report():
            raise QueueUnreachable(why)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the producer of {self._queue} is closed")

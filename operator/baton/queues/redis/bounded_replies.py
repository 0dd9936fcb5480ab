"""Connections for tasks, which read no more than can have been asked for, from whatever answers at a queue's address.

The operator needs them: anybody who may make a queue may point it at a server of his own. AsyncRedisProducer has them, too. The
library keeps an answer until it is whole, however long that takes and however large it is. Here a round trip has so many bytes
and so many seconds, and an answer so many elements; a server that goes beyond is left. The form is RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

import asyncio
import builtins
from asyncio import IncompleteReadError, LimitOverrunError
from re import ASCII, fullmatch
from typing import Any

from redis._parsers.base import _AsyncRESPBase
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004 - the library's names

from baton.queues.lookup_namespace import NAMESPACE
from baton.queues.redis.server_answers import OddAnswerError

MOST_BYTES = 256 * 1024
"""Of the answers of one round trip. The largest that Redis gives: 256 refusals (batch.py) of 500 bytes, or one INFO (7 KB, and
about 60 bytes for each database and replica), three routing tables (7 KB each), or what is known of some 300 producers
(scripts/sequences.lua)."""
MOST_ELEMENTS = 64
"""Of one answer. The largest that Redis gives has 11 (scripts/claim.lua)."""
MOST_DEPTH = 4
WITHIN = 5.0
"""Seconds for the answers of one round trip."""


class BoundedParser(_AsyncRESPBase):
    """Reads answers from a stream as RESP2. It is named to each connection, so that the library does not choose hiredis, where
    that is installed: it has no such bounds."""

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)
        self._bytes_left = MOST_BYTES
        self._elements_left = MOST_ELEMENTS

    def expect(self) -> None:
        """A round trip begins."""
        self._bytes_left = MOST_BYTES

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """The next answer. Raises ConnectionError where there is none any more, and OddAnswerError; the connection is of no more
        use then."""
        if not self._connected or self._stream is None:
            raise ConnectionError("Connection closed by server.")
        self._elements_left = MOST_ELEMENTS
        try:
            answer = await self._answer(MOST_DEPTH)
        except IncompleteReadError:
            raise ConnectionError("Connection closed by server.") from None
        if isinstance(answer, ConnectionError):
            raise answer
        return answer

    async def _answer(self, depth: int) -> Any:
        line = await self._line()
        match line[:1], line[1:]:
            case b"+", text:
                return text
            case b"-", text if depth == MOST_DEPTH:
                return self.parse_error(text.decode(errors="replace"))  # type: ignore[no-untyped-call]
            case b":", text:
                return _number(text)
            case ((b"$" | b"*"), b"-1"):
                return None
            case b"$", text:
                return (await self._exactly(_number(text) + 2))[:-2]
            case b"*", text if depth:
                count = _number(text)
                self._elements_left -= max(0, count)
                if count < 0 or self._elements_left < 0:
                    raise OddAnswerError(f"an array of more than {MOST_ELEMENTS} elements")
                return [await self._answer(depth - 1) for _ in range(count)]
        raise OddAnswerError("something that is not of its protocol")

    async def _line(self) -> bytes:
        try:
            line: bytes = await self._stream.readuntil(b"\r\n")  # type: ignore[union-attr]
        except LimitOverrunError:
            raise OddAnswerError("a line without end") from None
        self._take(len(line))
        return line[:-2]

    async def _exactly(self, length: int) -> bytes:
        if length < 2:
            raise OddAnswerError("a text of less than nothing")
        self._take(length)
        return await self._stream.readexactly(length)  # type: ignore[union-attr]

    def _take(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OddAnswerError(f"more than {MOST_BYTES // 1024} KiB at once")


def _number(text: bytes) -> int:
    if not fullmatch(rb"[-+]?[0-9]{1,19}", text, ASCII):
        raise OddAnswerError("a number that is none")
    return int(text)


class _BoundedConnection:
    """Mixed into the library's connections for tasks."""

    _parser: BoundedParser
    _until = 0.0
    _namespace: str | None

    async def _connect(self) -> None:
        before = NAMESPACE.set(self._namespace)
        try:
            await super()._connect()  # type: ignore[misc]
        finally:
            NAMESPACE.reset(before)

    async def send_packed_command(self, *arguments: object, **options: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await super().send_packed_command(*arguments, **options)  # type: ignore[misc]
        if task.cancelling() > before:
            # The library sends by asyncio.wait_for. Before Python 3.12 that loses a cancellation which comes just when all was
            # sent (https://github.com/python/cpython/issues/86296), and a task is cancelled only once.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError
        self._parser.expect()
        self._until = asyncio.get_running_loop().time() + WITHIN

    async def read_response(self, *arguments: object, **options: object) -> object:
        try:
            async with asyncio.timeout_at(self._until):
                return await super().read_response(*arguments, **options)  # type: ignore[misc]
        except builtins.TimeoutError:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise TimeoutError(f"its answers are not whole after {WITHIN:.0f} s") from None


def bounded(kind: type, namespace: str | None) -> type:
    """A kind of the library's connections for tasks that reads within bounds, and connects for that namespace. Give it
    `parser_class=BoundedParser`."""
    return type(f"Bounded{kind.__name__}", (_BoundedConnection, kind), {"_namespace": namespace})

"""The one connection that a producer keeps: for threads, and for tasks.

The library's clients look at a connection before each request, and measure it. Here it is looked at when it was at rest; should
it be gone all the same, the request is made again, which does no harm.
"""

import time
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.exceptions import RedisError, ResponseError

Command = Sequence[bytes | str | int]

_AT_REST = 1.0
"""Seconds without a request."""


class KeptConnection:
    """For one thread at a time."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._connection: Any = None
        self._used = 0.0
        self._asking = False

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers; what was refused is answered with the ResponseError. Raises RedisError and OSError.

        What a signal's handler raises may leave answers unread, also of the library's own requests to a new connection, which
        puts such a one back into its pool. So after a request that did not end nothing is kept.
        """
        answers: list[object] = []
        if self._asking:
            self._connection = None
            self._client.connection_pool.disconnect()
            self._client.connection_pool.reset()
        self._asking = True
        try:
            if (connection := self._connection) is None:
                connection = self._connection = self._client.connection_pool.get_connection()
            elif time.monotonic() - self._used > _AT_REST and gone(connection):
                connection.disconnect()
            connection.send_packed_command(packed(connection, commands), check_health=False)
            while len(answers) < len(commands):
                try:
                    answers.append(connection.read_response())
                except ResponseError as refusal:
                    answers.append(refusal)
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()
        self._asking = False
        return answers

    def close(self) -> None:
        if (connection := self._connection) is not None:
            connection.disconnect()
            self._client.connection_pool.release(connection)
            self._connection = None


class KeptTaskConnection:
    """Likewise, for one task at a time."""

    def __init__(self, client: "aioredis.Redis") -> None:
        self._client = client
        self._connection: Any = None

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = await self._client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
            await self._connection.send_packed_command(packed(self._connection, commands), check_health=False)
            return [await self._answer() for _ in commands]
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
            await self._client.connection_pool.release(connection)

    async def _answer(self) -> object:
        try:
            return await self._connection.read_response()
        except ResponseError as refusal:
            return refusal


def packed(connection: Any, commands: Sequence[Command]) -> Any:
    """Commands as the library writes them."""
    return connection.pack_command(*commands[0]) if len(commands) == 1 else connection.pack_commands(commands)


def gone(connection: Any) -> bool:
    """Its end was closed, or it says what nobody asked for."""
    try:
        return bool(connection.can_read())
    except (RedisError, OSError):
        return True

"""Connections that leave a server which is not the primary, or not any more.

After a failover, or after a cluster has moved a queue to another node, the queue's address leads to another server, but
connections that are open stay where they are: that server answers, and refuses. So such an answer ends the connection, and the
request is made again on a new one, as after a lost connection.
"""

import re

from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - the library's name
    InvalidResponse,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from baton.queues.redis.url import Address

_ANSWERS = (ReadOnlyError, ClusterDownError, MovedError, AskError, TryAgainError, BusyLoadingError)
"""READONLY; MASTERDOWN and CLUSTERDOWN; MOVED; ASK and TRYAGAIN, while a cluster moves a slot; LOADING."""
_UNBLOCKED = "UNBLOCKED"
"""What blocked connections are told when their server becomes a replica."""

_IN_SCRIPT = re.compile(r"The user executing the script can't|ACL failure in script")


class NotPrimaryError(ConnectionError):
    """The server cannot be worked with as it is; perhaps another can, at the same address. Says why: READONLY, LOADING, …"""

    def __init__(self, answer: ResponseError | BusyLoadingError) -> None:
        super().__init__(str(answer))
        self.status = answer.status_code or _UNBLOCKED
        self.moved_to: Address | None = (answer.host, answer.port) if isinstance(answer, MovedError) else None


def is_denial(error: Exception) -> bool:
    """The server's access control list does not let the user do it."""
    return isinstance(error, NoPermissionError) or (isinstance(error, ResponseError) and bool(_IN_SCRIPT.search(str(error))))


def _tells(error: ResponseError | BusyLoadingError) -> bool:
    return isinstance(error, _ANSWERS) or str(error).startswith(_UNBLOCKED)


class _ThreadConnection:
    """Mixed into the library's connections."""

    def read_response(self, *arguments: object, **options: object) -> object:
        try:
            return super().read_response(*arguments, **options)  # type: ignore[misc]
        except (ResponseError, BusyLoadingError) as error:
            if not _tells(error):
                raise
            self.disconnect()  # type: ignore[attr-defined]
            raise NotPrimaryError(error) from None
        except ValueError:  # such as an address without a port
            self.disconnect()  # type: ignore[attr-defined]
            raise InvalidResponse("no answer of its protocol") from None


class _TaskConnection:
    """Likewise, for tasks."""

    async def read_response(self, *arguments: object, **options: object) -> object:
        try:
            return await super().read_response(*arguments, **options)  # type: ignore[misc]
        except (ResponseError, BusyLoadingError) as error:
            if not _tells(error):
                raise
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise NotPrimaryError(error) from None
        except ValueError:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise InvalidResponse("no answer of its protocol") from None


def leaving(kind: type, *, tasks: bool) -> type:
    """A kind of the library's connections that leaves a server which is not the primary."""
    return type(f"Primary{kind.__name__}", (_TaskConnection if tasks else _ThreadConnection, kind), {})

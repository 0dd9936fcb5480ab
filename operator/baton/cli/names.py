"""Names on the command line, checked before anything is asked: what is none never gets into the path of a request.

A shell gives an empty one where a variable is not set, and bytes that are no UTF-8 as lone surrogates.
"""

from collections.abc import Collection
from re import ASCII, fullmatch

import click

from baton.model.ids import Partition, QueueName
from baton.queues.kinds import kind
from baton.queues.redis.url_forms import SCHEMES, SOCKET

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MOST_SHOWN = 60


def shown(value: str) -> str:
    """In quotes, not too much of it, and nothing that a terminal would obey."""
    return ascii(value) if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]!a}…"


class _Name(click.ParamType):  # type: ignore[type-arg] # it takes an argument only since click 8.4
    """A text of this form."""

    name = "text"

    def __init__(self, form: str, most: int, said: str) -> None:
        self._form, self._most, self._said = form, most, said

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if len(value) > self._most or not fullmatch(self._form, value, ASCII):
            self.fail(f"{shown(value)} is {self._said}.", param, ctx)
        return value


_OBJECT = rf"{_PART}(\.{_PART})*"
_UNSEEN = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_SIGNS = "small letters, digits, - and ., such as orders"

NAMESPACE = _Name(_PART, 63, "no name of a namespace: give small letters, digits and -, such as shop")
OBJECT = _Name(_OBJECT, 253, f"no name of an object: give {_SIGNS}")
GROUP = _Name(rf"((?=[^/]{{1,63}}/){_PART}/)?{_OBJECT}", 317, f"no name of a group: give NAME or NAMESPACE/NAME, of {_SIGNS}")
QUEUE = _Name(rf"((?=[^/]{{1,63}}/){_PART}/)?{_OBJECT}", 317, f"no name of a queue: give NAME or NAMESPACE/NAME, of {_SIGNS}")
CONTEXT = _Name(rf"[^ {_UNSEEN}][^{_UNSEEN}]*", 253, "no name of a context: kubectl config get-contexts lists them")
HOST = _Name(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 253, "no name of a host: give small letters, digits, - and ., without a port")
ADDRESS = _Name(r"[0-9a-f.:]+", 45, "no address: give one such as 0.0.0.0, which is all of them")
WORD = _Name(r"[!-~]+", 253, "no name: give letters, digits and signs without blanks")
TOPIC = _Name(r"[a-zA-Z0-9._-]+", 249, "no name of a topic: give letters, digits, ., _ and -, such as orders")
DEV_PROCESS = _Name(_PART, 50, "no name of a process: give at most 50 small letters, digits and -, such as orders-1")
DEV_QUEUE = _Name(_PART, 50, "no name of a queue: give at most 50 small letters, digits and -, such as orders")


class _Partition(click.ParamType):  # type: ignore[type-arg] # likewise
    """A queue and the number of a partition: `orders/5`."""

    name = "partition"

    def convert(self, value: str | Partition, param: click.Parameter | None, ctx: click.Context | None) -> Partition:
        if isinstance(value, Partition):
            return value
        queue, _, number = value.rpartition("/")
        if len(queue) > 253 or not fullmatch(_OBJECT, queue, ASCII) or not fullmatch(r"[0-9]{1,7}", number, ASCII):
            self.fail(f"{shown(value)} names no partition: give QUEUE/NUMBER, such as orders/5.", param, ctx)
        return Partition(QueueName(queue), int(number))


PARTITION = _Partition()


class _SecretUrl(click.ParamType):  # type: ignore[type-arg] # likewise
    """What is no URL is not shown: a password may stand in it."""

    name = "url"

    def __init__(self, schemes: Collection[str], said: str) -> None:
        self._schemes, self._said = schemes, said

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scheme, _, rest = value.partition("://")
        if len(value) > _LONGEST_URL or scheme not in self._schemes or not fullmatch("[!-~]+", rest, ASCII):
            self.fail(f"this is no URL of a {self._said}.", param, ctx)
        return value


_LONGEST_URL = 2048
REDIS_URL = _SecretUrl((*SCHEMES, SOCKET), "Redis: give one such as redis://127.0.0.1:6379/0")
KAFKA_URL = _SecretUrl(kind("Kafka").schemes, "Kafka: give one such as kafka://127.0.0.1:9092")


class _HttpUrl(click.ParamType):  # type: ignore[type-arg] # likewise
    """Where a program answers, without a path."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if len(value) > _LONGEST_URL or not fullmatch(r"https?://[\w.:\[\]-]{1,255}/?", value, ASCII):
            self.fail(f"{shown(value)} is no URL such as http://127.0.0.1:8080.", param, ctx)
        return value.rstrip("/")


HTTP_URL = _HttpUrl()

"""What commands take: names, checked before anything is asked; which cluster is meant; the form of the answer.

A name that is none never gets into the path of a request. A shell gives an empty one where a variable is not set, and bytes that
are no UTF-8 as lone surrogates.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from math import nan
from pathlib import Path
from re import ASCII, fullmatch
from typing import Any, TypeVar, cast

import click

from baton.cli.printing import say_json, say_text
from baton.model.ids import Partition, QueueName
from baton.queues.kinds import kind

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MOST_SHOWN = 60
_LARGEST = 2**63 - 1


def shown(value: str) -> str:
    """In quotes, not too much of it, and nothing that a terminal would obey."""
    return ascii(value) if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]!a}…"


class Parsed(click.ParamType):  # type: ignore[type-arg] # it takes an argument only since click 8.4
    """What `read` makes of a text. Its ValueError has the rest of the sentence that begins with the text."""

    def __init__(self, name: str, read: Callable[[str], object], *, secret: bool = False) -> None:
        """`secret`: the text is not shown, for a password may stand in it."""
        self.name, self._read, self._secret = name, read, secret

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):  # a default
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{'this' if self._secret else shown(value)} is {error}.", param, ctx)


def bounded(least: int, most: int | None = None, *, whole: bool = True) -> Parsed:
    """A number within these bounds."""
    bounds = f"from {least:,}" + ("" if most is None else f" to {most:,}")

    def read(value: str) -> float:
        try:
            found = int(value) if whole else float(value)
        except ValueError:
            found = nan
        if not least <= found <= (_LARGEST if most is None else most):
            raise ValueError(f"no {'whole ' if whole else ''}number {bounds}")
        return found

    return Parsed("number" if most is None else f"{least}-{most}", read)


def _name(form: str, most: int, said: str) -> Parsed:
    """A text of this form."""

    def read(value: str) -> str:
        if len(value) > most or not fullmatch(form, value, ASCII):
            raise ValueError(said)
        return value

    return Parsed("text", read)


_OBJECT = rf"{_PART}(\.{_PART})*"
_UNSEEN = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_SIGNS = "lowercase letters, digits, - and ., such as orders"

NAMESPACE = _name(_PART, 63, "an invalid namespace: use lowercase letters, digits and -, such as shop")
OBJECT = _name(_OBJECT, 253, f"an invalid name: use {_SIGNS}")
GROUP = _name(rf"((?=[^/]{{1,63}}/){_PART}/)?{_OBJECT}", 317, f"an invalid group: use NAME or NAMESPACE/NAME, of {_SIGNS}")
QUEUE = _name(rf"((?=[^/]{{1,63}}/){_PART}/)?{_OBJECT}", 317, f"an invalid queue: use NAME or NAMESPACE/NAME, of {_SIGNS}")
CONTEXT = _name(rf"[^ {_UNSEEN}][^{_UNSEEN}]*", 253, "no name of a context: kubectl config get-contexts lists them")
HOST = _name(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 253, "no name of a host: give small letters, digits, - and ., without a port")
ADDRESS = _name(r"[0-9a-f.:]+", 45, "no address: give one such as 0.0.0.0, which is all of them")
WORD = _name(r"[!-~]+", 253, "no name: give letters, digits and signs without blanks")
TOPIC = _name(r"[a-zA-Z0-9._-]+", 249, "no name of a topic: give letters, digits, ., _ and -, such as orders")
OFFSET = _name(r"[0-9]{1,18}(-0)?", 20, "no offset: give one as `baton peek` shows it, behind partition/")
DEV_PROCESS = _name(_PART, 50, "no name of a process: give at most 50 small letters, digits and -, such as orders-1")
DEV_QUEUE = _name(_PART, 50, "no name of a queue: give at most 50 small letters, digits and -, such as orders")


def _partition(value: str) -> Partition:
    """A queue and the number of a partition: `orders/5`."""
    queue, _, number = value.rpartition("/")
    if len(queue) > 253 or not fullmatch(_OBJECT, queue, ASCII) or not fullmatch(r"[0-9]{1,7}", number, ASCII):
        raise ValueError("no partition: give QUEUE/NUMBER, such as orders/5")
    return Partition(QueueName(queue), int(number))


def _queue_url(of: str, example: str) -> Parsed:
    """The URL of a kind of queue."""

    def read(value: str) -> str:
        scheme, _, rest = value.partition("://")
        if len(value) > _LONGEST_URL or scheme not in kind(of).schemes or not fullmatch("[!-~]+", rest, ASCII):
            raise ValueError(f"no URL of a {of}: give one such as {example}")
        return value

    return Parsed("url", read, secret=True)


def _http_url(value: str) -> str:
    """Where a program answers, without a path."""
    if len(value) > _LONGEST_URL or not fullmatch(r"https?://[\w.:\[\]-]{1,255}/?", value, ASCII):
        raise ValueError("no URL such as http://127.0.0.1:8080")
    return value.rstrip("/")


_LONGEST_URL = 2048
PARTITION = Parsed("partition", _partition)
REDIS_URL = _queue_url("Redis", "redis://127.0.0.1:6379/0")
KAFKA_URL = _queue_url("Kafka", "kafka://127.0.0.1:9092")
HTTP_URL = Parsed("url", _http_url)
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """The cluster and the namespace that were asked for; None: as kubectl would take them."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def within(self, group: str) -> tuple[str, "ClusterTarget"]:
        """The group's bare name, and where it is: `shop/orders` is `orders` of `shop`."""
        namespace, slash, name = group.rpartition("/")
        if not slash:
            return group, self
        if self.namespace not in (None, namespace):
            raise click.UsageError(f"{group} and --namespace {self.namespace} name two namespaces: give one")
        return name, ClusterTarget(self.kubeconfig, self.context, namespace)


def cluster_options(command: F) -> F:
    """--namespace, --context and --kubeconfig, which reach the command as `target`. A `group` reaches it as the bare name: its
    namespace is in the target."""

    @wraps(command)
    def with_target(*args: object, kubeconfig: Path | None, context: str | None, namespace: str | None, **rest: Any) -> object:
        target = ClusterTarget(kubeconfig, context, namespace)
        if rest.get("group") is not None:
            if rest.get("all_namespaces"):
                raise click.UsageError("give GROUP or --all-namespaces, not both")
            rest["group"], target = target.within(rest["group"])
        return command(*args, target=target, **rest)

    namespace = click.option("--namespace", "-n", type=NAMESPACE, help="The namespace. Default: that of the context.")
    context = click.option(
        "--context", type=CONTEXT, metavar="NAME", help="The context of the kubeconfig. Default: the current one."
    )
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The kubeconfig. Default: the one that kubectl uses.",
    )
    return cast(F, namespace(context(kubeconfig(with_target))))


def all_namespaces_option(what: str = "The groups") -> Callable[[F], F]:
    """--all-namespaces, which reaches the command as `all_namespaces`."""
    return click.option("--all-namespaces", "-A", is_flag=True, help=f"{what} of all namespaces.")


def operator_option(command: F) -> F:
    """--operator, which reaches the command as `url`."""
    return click.option(
        "--operator",
        "url",
        type=HTTP_URL,
        envvar="BATON_OPERATOR_URL",
        show_envvar=True,
        metavar="URL",
        help="Where the operator's leader answers. Default: its pod, through the API server.",
    )(command)


class Form(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    """For people, as much as fits on a screen."""
    WIDE = "wide"
    """For people, all of it."""
    JSON = "json"
    YAML = "yaml"

    @property
    def for_programs(self) -> bool:
        return self in (Form.JSON, Form.YAML)

    @property
    def wide(self) -> bool:
        return self is Form.WIDE


def output_option(*, wide: str | None = None, programs: str = "one object") -> Callable[[F], F]:
    """-o, which reaches the command as `form`. `wide`: what people see with it; None: there is nothing more to see. `programs`:
    what json and yaml have."""
    forms = [Form.JSON, Form.YAML, *([Form.WIDE] if wide else [])]
    said = f"For programs: json or yaml, {programs}." + (f" For people: wide, {wide}." if wide else "")

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Form:
        return Form.TABLE if value is None else Form(value)

    choice = click.Choice([form.value for form in forms])
    return click.option("--output", "-o", "form", type=choice, callback=read, help=said)


def say_object(value: Any, form: Form) -> None:
    """One object (or list) for programs. Both forms escape what a terminal would obey."""
    if form is Form.JSON:
        say_json(value)
        return
    import yaml

    plain = json.loads(json.dumps(value))
    say_text(yaml.safe_dump(plain, sort_keys=False, width=10_000).rstrip("\n"))

"""Arguments and options of commands: names, checked before any request; the cluster to use; the form of the output.

An invalid name never gets into the path of a request. Shells pass an empty name for an unset variable, and bytes that are not
UTF-8 as lone surrogates.
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

from baton.cli.printing import say, say_json
from baton.model.ids import Partition, QueueName
from baton.queues.kinds import kind

_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MOST_SHOWN = 60
_LARGEST = 2**63 - 1


def shown(value: str) -> str:
    """The text in quotes, shortened, and without control sequences for a terminal."""
    return ascii(value) if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]!a}…"


class Parsed(click.ParamType):  # type: ignore[type-arg] # it takes an argument only since click 8.4
    """A value parsed by `read`. The message of its ValueError continues the sentence "TEXT is …"."""

    def __init__(self, name: str, read: Callable[[str], object], *, secret: bool = False) -> None:
        """`secret`: do not show the text, which may contain a password."""
        self.name, self._read, self._secret = name, read, secret

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):  # a default
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{'this' if self._secret else shown(value)} is {error}.", param, ctx)


def bounded(least: int, most: int | None = None, *, whole: bool = True) -> Parsed:
    """The type of a number within these bounds."""
    bounds = f"from {least:,}" + ("" if most is None else f" to {most:,}")

    def read(value: str) -> float:
        try:
            found = int(value) if whole else float(value)
        except ValueError:
            found = nan
        if not least <= found <= (_LARGEST if most is None else most):
            raise ValueError(f"not a {'whole ' if whole else ''}number {bounds}")
        return found

    return Parsed("number" if most is None else f"{least}-{most}", read)


def _name(form: str, most: int, said: str) -> Parsed:
    """The type of a text of this form. `said`: what another text is."""

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
CONTEXT = _name(rf"[^ {_UNSEEN}][^{_UNSEEN}]*", 253, "an invalid context: kubectl config get-contexts lists them")
HOST = _name(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 253, "an invalid host: use lowercase letters, digits, - and ., without a port")
ADDRESS = _name(r"[0-9a-f.:]+", 45, "an invalid address: use an IP address, such as 0.0.0.0 for all")
WORD = _name(r"[!-~]+", 253, "an invalid name: use printable ASCII characters without blanks")
TOPIC = _name(r"[a-zA-Z0-9._-]+", 249, "an invalid topic: use letters, digits, ., _ and -, such as orders")
OFFSET = _name(r"[0-9]{1,18}(-0)?", 20, "an invalid offset: use one that `baton peek` shows, after partition/")
DEV_PROCESS = _name(_PART, 50, "an invalid process: use at most 50 lowercase letters, digits and -, such as orders-1")
DEV_QUEUE = _name(_PART, 50, "an invalid queue: use at most 50 lowercase letters, digits and -, such as orders")


def _partition(value: str) -> Partition:
    """Parse a queue and the number of a partition: `orders/5`."""
    queue, _, number = value.rpartition("/")
    if len(queue) > 253 or not fullmatch(_OBJECT, queue, ASCII) or not fullmatch(r"[0-9]{1,7}", number, ASCII):
        raise ValueError("an invalid partition: use QUEUE/NUMBER, such as orders/5")
    return Partition(QueueName(queue), int(number))


def _queue_url(of: str, example: str) -> Parsed:
    """The type of a URL of this kind of queue."""

    def read(value: str) -> str:
        scheme, _, rest = value.partition("://")
        if len(value) > _LONGEST_URL or scheme not in kind(of).schemes or not fullmatch("[!-~]+", rest, ASCII):
            raise ValueError(f"not the URL of a {of}: use one such as {example}")
        return value

    return Parsed("url", read, secret=True)


def _http_url(value: str) -> str:
    """Parse the URL of a server, without a path."""
    if len(value) > _LONGEST_URL or not fullmatch(r"https?://[\w.:\[\]-]{1,255}/?", value, ASCII):
        raise ValueError("not a URL such as http://127.0.0.1:8080")
    return value.rstrip("/")


_LONGEST_URL = 2048
PARTITION = Parsed("partition", _partition)
REDIS_URL = _queue_url("Redis", "redis://127.0.0.1:6379/0")
KAFKA_URL = _queue_url("Kafka", "kafka://127.0.0.1:9092")
HTTP_URL = Parsed("url", _http_url)
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """The cluster and the namespace given as options; None: the one that kubectl would use."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def within(self, group: str) -> tuple[str, "ClusterTarget"]:
        """Return the bare name and the target with its namespace: `shop/orders` is `orders` in `shop`."""
        namespace, slash, name = group.rpartition("/")
        if not slash:
            return group, self
        if self.namespace not in (None, namespace):
            raise click.UsageError(f"{group} and --namespace {self.namespace} name two namespaces: use one")
        return name, ClusterTarget(self.kubeconfig, self.context, namespace)


def cluster_options(command: F) -> F:
    """Add --namespace, --context and --kubeconfig, passed to the command as `target`. A `group` is passed as its bare name; its
    namespace is in the target."""

    @wraps(command)
    def with_target(*args: object, kubeconfig: Path | None, context: str | None, namespace: str | None, **rest: Any) -> object:
        target = ClusterTarget(kubeconfig, context, namespace)
        if rest.get("group") is not None:
            if rest.get("all_namespaces"):
                raise click.UsageError("use GROUP or --all-namespaces, not both")
            rest["group"], target = target.within(rest["group"])
        return command(*args, target=target, **rest)

    namespace = click.option("--namespace", "-n", type=NAMESPACE, help="The namespace. Default: the context's.")
    context = click.option(
        "--context", type=CONTEXT, metavar="NAME", help="The context of the kubeconfig. Default: the current one."
    )
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The kubeconfig. Default: the one that kubectl uses.",
    )
    return cast(F, namespace(context(kubeconfig(with_target))))


def all_namespaces_option(what: str = "the groups") -> Callable[[F], F]:
    """Add --all-namespaces, passed to the command as `all_namespaces`."""
    return click.option("--all-namespaces", "-A", is_flag=True, help=f"Include {what} of all namespaces.")


def operator_option(command: F) -> F:
    """Add --operator, passed to the command as `url`."""
    return click.option(
        "--operator",
        "url",
        type=HTTP_URL,
        envvar="BATON_OPERATOR_URL",
        show_envvar=True,
        metavar="URL",
        help="The URL of the operator's leader. Default: its pod, through the API server.",
    )(command)


class Form(StrEnum):
    """The form of the output."""

    TABLE = "table"
    """For people: as much as fits on a screen."""
    WIDE = "wide"
    """For people: everything."""
    JSON = "json"
    YAML = "yaml"

    @property
    def for_programs(self) -> bool:
        return self in (Form.JSON, Form.YAML)

    @property
    def wide(self) -> bool:
        return self is Form.WIDE


def output_option(*, wide: str | None = None, programs: str = "one object") -> Callable[[F], F]:
    """Add -o, passed to the command as `form`. `wide`: what `-o wide` shows; None: there is no such form. `programs`: what json
    and yaml contain."""
    forms = [Form.JSON, Form.YAML, *([Form.WIDE] if wide else [])]
    said = f"For programs: json or yaml, {programs}." + (f" For people: wide, {wide}." if wide else "")

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Form:
        return Form.TABLE if value is None else Form(value)

    choice = click.Choice([form.value for form in forms])
    return click.option("--output", "-o", "form", type=choice, callback=read, help=said)


def say_object(value: Any, form: Form) -> None:
    """Print an object or a list for programs. Both forms escape control characters."""
    if form is Form.JSON:
        say_json(value)
        return
    import yaml

    plain = json.loads(json.dumps(value))
    for line in yaml.safe_dump(plain, sort_keys=False, width=10_000).splitlines():
        say(line)

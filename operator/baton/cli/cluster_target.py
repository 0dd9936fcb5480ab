"""Which cluster and namespace a command is about, as it was asked for. Imported by commands that must start fast."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TypeVar, cast

import click

from baton.cli.names import CONTEXT, NAMESPACE

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
    """--namespace, --context and --kubeconfig, which reach the command as `target`."""

    @wraps(command)
    def with_target(*args: object, kubeconfig: Path | None, context: str | None, namespace: str | None, **rest: object) -> object:
        return command(*args, target=ClusterTarget(kubeconfig, context, namespace), **rest)

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


def refuse_group_of_all_namespaces(group: str | None, all_namespaces: bool) -> None:
    """Raises UsageError where both are given."""
    if group is not None and all_namespaces:
        raise click.UsageError("give GROUP or --all-namespaces, not both")

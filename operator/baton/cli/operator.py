"""`baton operator`: run the operator."""

import sys
from functools import partial
from pathlib import Path

import click

from baton.cli.options import NAMESPACE, OBJECT, WORD, bounded
from baton.cli.printing import say
from baton.controller.adapters import TLS_FOLDER
from baton.controller.capacity import MOST_IN_ALL

_option = partial(click.option, show_default=True, show_envvar=True)


@click.command()
@_option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="BATON_KUBECONFIG",
    help="The kubeconfig. Default: the pod's service account, otherwise $KUBECONFIG or ~/.kube/config.",
)
@_option(
    "--namespace",
    "-n",
    "namespaces",
    type=NAMESPACE,
    multiple=True,
    help="Serve only this namespace; repeatable. Default: all namespaces.",
)
@_option(
    "--lease-namespace", type=NAMESPACE, envvar="POD_NAMESPACE", default="default", help="The namespace of the leader's Lease."
)
@_option("--lease-name", type=OBJECT, envvar="BATON_LEASE_NAME", default="baton-operator", help="The name of the leader's Lease.")
@_option("--identity", type=WORD, envvar="BATON_IDENTITY", help="This replica's name in the Lease. Default: the pod's name.")
@_option(
    "--lease-duration",
    type=bounded(0, whole=False),
    default=15.0,
    help="Seconds until a dead leader is replaced; a whole number.",
)
@_option(
    "--renew-deadline",
    type=bounded(0, whole=False),
    default=10.0,
    help="Seconds after which a leader that cannot renew its Lease stops.",
)
@_option("--retry-period", type=bounded(0, whole=False), default=2.0, help="Seconds between attempts to renew or take the Lease.")
@_option(
    "--metrics-port",
    type=bounded(0, 65535),
    envvar="BATON_METRICS_PORT",
    default=8080,
    help="The port of /metrics, /healthz and /readyz; 0: a free one.",
)
@click.option("--metrics-address", default="", help="The address to listen on. Default: all addresses.")
@_option(
    "--admission-policy",
    type=click.Choice(["on", "off"]),
    envvar="BATON_ADMISSION_POLICY",
    default="off",
    help="Whether the chart's admission policies are installed; shown by the condition SessionsBound.",
)
@_option(
    "--most-partitions",
    type=bounded(1),
    default=MOST_IN_ALL,
    help="The most partitions of all groups together, which limits memory. If several namespaces are served, each may have half.",
)
@_option(
    "--tls-files",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="BATON_TLS_FILES",
    default=TLS_FOLDER,
    help="The only directory whose TLS files queue URLs may name: a directory for each namespace, and CAs for all.",
)
@_option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), envvar="BATON_LOG_LEVEL", default="info")
@_option(
    "--log-format",
    type=click.Choice(["auto", "json", "text"]),
    envvar="BATON_LOG_FORMAT",
    default="auto",
    help="auto: text on a terminal, otherwise JSON.",
)
def operator(
    kubeconfig: Path | None,
    namespaces: tuple[str, ...],
    lease_namespace: str,
    lease_name: str,
    identity: str | None,
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
    metrics_port: int,
    metrics_address: str,
    admission_policy: str,
    most_partitions: int,
    tls_files: Path,
    log_level: str,
    log_format: str,
) -> None:
    """Run the operator until it is stopped.

    Several replicas may run: one leads, and another takes over if it fails.
    """
    from kubernetes.aio.config import ConfigException

    from baton.cli.cluster import KubeconfigError, context_of, default_kubeconfig
    from baton.cli.own_assignors import use_own_assignors
    from baton.controller.health import PortTaken
    from baton.controller.logs import set_up
    from baton.controller.program import Options, default_identity, run
    from baton.kube.elector import Terms

    set_up(log_level, log_format)
    use_own_assignors()
    try:
        terms = Terms(lease_duration, renew_deadline, retry_period)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    kubeconfig = kubeconfig or default_kubeconfig()
    options = Options(
        kubeconfig=kubeconfig,
        namespaces=namespaces,
        lease_namespace=lease_namespace,
        lease_name=lease_name,
        identity=identity or default_identity(),
        terms=terms,
        metrics_address=metrics_address,
        metrics_port=metrics_port,
        admission_policy=admission_policy == "on",
        most_partitions=most_partitions,
        tls_files=tls_files.absolute(),
    )
    try:
        if kubeconfig is not None:
            context_of(kubeconfig)
        run(options)
    except KubeconfigError as error:
        say(f"baton operator: {error}", error=True)
        sys.exit(2)
    except ConfigException as error:
        say(f"baton operator: no API server configured: {error}; use --kubeconfig FILE", error=True)
        sys.exit(2)
    except PortTaken as error:
        say(f"{error}; choose another --metrics-port", error=True)
        sys.exit(2)

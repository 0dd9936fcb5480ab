"""`python -m tests.cluster up | down | status | prepare | packages`: the test cluster by hand."""

import sys
import time

import click

from tests.cluster import packages, runs
from tests.cluster.cluster import Cluster
from tests.cluster.faults import ClusterError
from tests.cluster.processes import Registry
from tests.cluster.programs import HELM, KUBE
from tests.cluster.sweep import sweep


@click.group()
def main() -> None:
    """A real Kubernetes with one node on this machine, for the demo, the tests and for trying things out."""


@main.command()
def prepare() -> None:
    """Install the packages and build the programs that are missing."""
    packages.install(packages.TESTS)
    KUBE.path()
    HELM.path()


@main.command("packages")
def install_packages() -> None:
    """Install the Debian packages that are missing."""
    packages.install(packages.TESTS)


@main.command()
@click.option("--node/--no-node", default=True, help="With a node that runs pods, or the API server and its controllers only.")
def up(node: bool) -> None:
    """Start a cluster and leave it running."""
    began = time.monotonic()
    cluster = Cluster(node=node)
    cluster.up()
    cluster.keep()
    click.echo(f"ready after {time.monotonic() - began:.1f} s. To use it:\n  export KUBECONFIG={cluster.kubeconfig}")
    click.echo(f"  alias kubectl='{KUBE.path()} kubectl'\nTo stop it:\n  make cluster-down")


@main.command()
def down() -> None:
    """Stop what was left running and remove what was left lying. A cluster in use by a process that still runs stays."""
    with runs.exclusive():
        used = [folder for folder in runs.folders() if runs.owner(folder) is not None]
        for folder in runs.folders():
            if folder not in used:
                sweep(folder, node=folder.name == runs.NODE)
    if used:
        raise ClusterError(f"{'; '.join(map(runs.in_use, used))}: end that, and its cluster ends with it")


@main.command()
def status() -> None:
    """Say what runs, and for whom."""
    if not runs.folders():
        click.echo("no cluster")
    for folder in runs.folders():
        whose = "nobody's any more: `down` removes it" if runs.is_abandoned(folder) else runs.in_use(folder)
        click.echo(f"{folder}: {whose}\n  export KUBECONFIG={folder}/kubeconfig")
        registry = Registry(folder)
        for name in registry.names():
            process = registry.find(name)
            click.echo(f"  {name:26}{f'running, pid {process.pid}' if process and process.alive() else 'stopped'}")


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
